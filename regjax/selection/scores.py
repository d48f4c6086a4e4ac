"""How far predictions are from held-out samples: each score a weighted mean, the smaller the better."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from regjax.losses import Binomial, Cox, Gaussian, Loss, Multinomial, Squared
from regjax.losses.protocol import weighted_sum
from regjax.models.problem import silence

Score = Callable[[Array, Array, Array], Array]


def deviance(loss: Loss, y: Array, eta: Array, weights: Array) -> Array:
    """2 Σ v (ℓ − inf ℓ)/Σ v: the mean squared error of `Squared`, the deviance per unit of weight of a family.

    Sample by sample where that is known: sums of ℓ may be so much larger that float32 has no digits for the difference.
    """
    if not loss.coupled:
        return weighted_sum(weights, loss.deviance(y, eta)) / jnp.sum(weights)
    encoded = loss.encode(y, weights)
    return 2 * (loss.total(encoded, eta, weights) - loss.least(encoded, weights)) / jnp.sum(weights)


def partial_deviance(loss: Loss, y: Array, eta: Array, train: Array, test: Array) -> Array:
    """For `Cox`: what the tested samples add to the deviance of the others, per unit of their weight.

    References:
        Verweij & van Houwelingen, Cross-validation in survival analysis, Stat. Med. 12 (1993).
    """
    both, alone = ((v, loss.encode(y, v)) for v in (train + test, train))
    whole, part = (loss.total(code, eta, v) - loss.least(code, v) for v, code in (both, alone))
    return 2 * (whole - part) / jnp.sum(test)


def held_out(score: Any, loss: Loss, y: Array, eta: Array, train: Array, test: Array) -> Array:
    """The score of the tested samples, given those that train: only the deviance of `Cox` asks for these."""
    if isinstance(loss, Cox) and score is deviance:
        return partial_deviance(loss, y, eta, train, test)
    return score(loss, y, eta, test)


def of_each(score: Any, loss: Loss, y: Array, eta: Array) -> Array:
    """The score of every sample by itself (n,), whose weighted mean is the score of all.

    nan for scores that need not be such a mean: those of `Cox`, and functions of the user's own.
    """
    if isinstance(loss, Cox) or isinstance(score, _Custom):
        return jnp.full(len(y), jnp.nan, eta.dtype)
    one = jnp.ones(1, eta.dtype)
    return jax.vmap(lambda y, eta: score(loss, y[None], eta[None], one))(y, eta)


def _squared_error(loss: Loss, y: Array, eta: Array, weights: Array) -> Array:
    return _mean((y - loss.mean(eta)) ** 2, weights)


def _absolute_error(loss: Loss, y: Array, eta: Array, weights: Array) -> Array:
    return _mean(jnp.abs(y - loss.mean(eta)), weights)


def _wrong_class(loss: Loss, y: Array, eta: Array, weights: Array) -> Array:
    """The share of samples for which another class is more likely; nan where y are no classes, or where η is nan.

    The classes are 0 and 1, of each target by itself under `Binomial`; else one of several targets is 1.
    """
    seen = weights[:, None] > 0
    known = jnp.all(~seen | ((y >= 0) & (y <= 1))) & ~jnp.any(seen & jnp.isnan(eta))
    if eta.shape[1] == 1 or isinstance(loss, Binomial):
        wrong = jnp.mean(jnp.where(loss.mean(eta) > 0.5, 1 - y, y), axis=1, keepdims=True)
    else:
        wrong = 1 - jnp.take_along_axis(y, jnp.argmax(eta, axis=1)[:, None], axis=1)
    return jnp.where(known, _mean(wrong, weights), jnp.nan)


def _mean(values: Array, weights: Array) -> Array:
    """The weighted mean over samples of the sum over targets."""
    return jnp.sum(jnp.where(weights > 0, weights * jnp.sum(values, axis=1), 0)) / jnp.sum(weights)


_CLASSIFIES = (Binomial, Multinomial, Squared, Gaussian)
_BY_NAME = {"deviance": deviance, "mse": _squared_error, "mae": _absolute_error, "class": _wrong_class}


def resolve_score(score: Any, loss: Loss) -> Callable[..., Array]:
    """`(loss, y, eta, weights) -> scalar` for a name, a function `(y, eta, weights) -> scalar`, or None."""
    name = "deviance" if score is None else score
    if isinstance(loss, Cox) and name in _BY_NAME and name != "deviance":
        raise ValueError(f"score must be 'deviance' or a function for Cox, got {score!r}")
    if name == "class" and not isinstance(loss, _CLASSIFIES):
        raise ValueError(f"score 'class' takes Binomial, Multinomial or Squared, got {type(loss).__name__}")
    if isinstance(name, str) and name in _BY_NAME:
        return _BY_NAME[name]
    if not callable(score):
        names = ", ".join(repr(n) for n in _BY_NAME)
        raise ValueError(f"score must be one of {names} or a function (y, eta, weights) -> scalar, got {score!r}")
    return _Custom(score)  # pyright: ignore[reportArgumentType]


class _Custom:
    """A user's score, in which y and η have the shapes that the user gave; equal for equal functions, as `jit` asks.

    What rows of weight zero hold is 0 where it is not finite, so that a weighted sum leaves them out.
    """

    def __init__(self, score: Score):
        self.score = score

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Custom) and self.score == other.score

    def __hash__(self) -> int:
        return hash(self.score)

    def __call__(self, loss: Loss, y: Array, eta: Array, weights: Array) -> Array:
        del loss
        y, eta = silence(y, weights), silence(eta, weights)
        single = y.shape[1] == 1
        return self.score(y[:, 0] if single else y, eta[:, 0] if eta.shape[1] == 1 else eta, weights)
