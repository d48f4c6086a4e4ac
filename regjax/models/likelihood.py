"""Standard errors, deviances and criteria of generalized linear models."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from regjax.core.factors import factorize
from regjax.core.node import register_node
from regjax.core.products import cross
from regjax.losses import Loss
from regjax.models.general import check_loss
from regjax.models.problem import Linear, Samples, center, silence
from regjax.penalties import Zero
from regjax.solvers.task import Task, null_model


@register_node
@dataclass(frozen=True, eq=False)
class LikelihoodInference:
    """What classical theory says of a generalized linear model without a penalty.

    Attributes:
        covariance: of (b, w), the intercept first (of w alone without one): φ̂(ZᵀHZ)⁻¹, (q, q). Of K classes
            (q, K, q, K), with sums over the classes that are zero: what all have in common is not seen.
        standard_errors: a `Linear` like the fit, of the square roots of its diagonal.
        z: a `Linear` of estimates over standard errors.
        sandwich: the covariance that holds if only the mean is right, A⁻¹BA⁻¹ with A = ZᵀHZ and B = Σ (vℓ′)² zzᵀ; of
            `Cox`, the score residuals of Lin and Wei in place of vℓ′z.
        deviance: Σ v d(y, μ); of `Cox`, twice the distance of the partial log-likelihood to its supremum.
        null_deviance: that of the model with the intercept alone.
        dispersion: φ̂, 1 for binomial and count losses, else Pearson's.
        pearson: Σ v (y − μ)²/V(μ) over the degrees of freedom: far from 1 it tells of over-dispersed counts; nan of
            `Cox`.
        log_likelihood: with the maximum likelihood dispersion, nan where it has no closed form; of `Cox` the partial
            one.
        aic: −2 log-likelihood + 2 (number of parameters), in which a dispersion counts, as in R.
        degrees_of_freedom: samples of positive weight (K − 1 times them for K classes, events of `Cox`) minus the rank.
    """

    covariance: Array
    standard_errors: Linear
    z: Linear
    sandwich: Array
    deviance: Array
    null_deviance: Array
    dispersion: Array
    pearson: Array
    log_likelihood: Array
    aic: Array
    degrees_of_freedom: Array


def likelihood_inference(
    samples: Samples, params: Linear, loss: Loss, offset: Any, intercept: bool
) -> LikelihoodInference:
    """The inference of one target, given checked samples and the fitted model."""
    if not hasattr(loss, "fisher"):
        raise ValueError(f"inference takes the loss of a generalized linear model, got {type(loss).__name__}")
    if not samples.single:
        raise ValueError(f"inference takes one target with a loss, got y of shape {samples.Y.shape}")
    loss = check_loss(loss, samples)
    coef = samples.structure.ravel(params.coef, (), "solution.params.coef").astype(samples.X.dtype)
    constant = jnp.asarray(params.intercept, samples.X.dtype)
    offset = jnp.broadcast_to(jnp.asarray(offset, samples.X.dtype), samples.Y.shape)
    spread, sandwich, *rest = _infer(
        samples.X, samples.Y, offset, samples.weights, loss, coef[:, None], constant, intercept
    )
    dispersion = rest[2]
    errors = jnp.sqrt(dispersion * jnp.diagonal(spread))
    ratio = jnp.concatenate([constant[None], coef]) / errors
    keep = slice(None) if intercept else slice(1, None)

    def model(values):
        return samples.model(values[1:, None], jnp.where(intercept, values[:1], 0))

    return LikelihoodInference(
        dispersion * spread[keep, keep], model(errors), model(ratio), sandwich[keep, keep], *rest
    )


@partial(jax.jit, static_argnames="intercept")
def _infer(X, y, offset, weights, loss: Any, coef, constant, intercept):
    data = center(X, y, weights, intercept)
    v = data.weights
    X, y, offset = (silence(a, v) for a in (X, y, offset))
    eta = offset + constant + X @ coef
    fisher = loss.fisher(y, eta)
    h = jnp.where(v > 0, v * fisher[:, 0], 0)
    total = jnp.sum(h)
    mean = h @ X / total if intercept else jnp.zeros_like(X[0])
    centred = X - mean
    root = (jnp.sqrt(h)[:, None] * centred).T
    factor = factorize(root @ root.T, jnp.zeros((), X.dtype), root=(root,))
    # [1 X] = [1 X̃] T: the covariance of (b, w) from those of the mean and of w, which are independent
    rows = jnp.concatenate([-(mean @ factor.basis)[None], factor.basis])
    spread = ((rows / factor.scale) @ rows.T).at[0, 0].add(1 / total if intercept else 0)
    design = jnp.concatenate([jnp.full_like(y, float(intercept)), X], axis=1)
    scores = loss.slopes(y, eta, v) * design
    sandwich = spread @ cross(scores, scores) @ spread
    seen = (v > 0)[:, None]
    deviance = jnp.sum(jnp.where(seen, v[:, None] * loss.deviance(y, eta), 0))
    task = Task(data.X, y, offset, v, jnp.asarray(float(intercept), X.dtype), loss)
    null = 2 * null_model(task, Zero(), free=jnp.zeros_like).deviance
    count = jnp.sum(v > 0)
    rank = jnp.sum(jnp.isfinite(factor.scale)) + int(intercept)
    freedom = count - rank
    # (y − μ)²/V(μ), also where μ rounds to the end of its range
    squares = jnp.where(fisher > 0, loss.gradient(y, eta) ** 2 / jnp.where(fisher > 0, fisher, 1), 0)
    pearson = jnp.sum(jnp.where(seen, v[:, None] * squares, 0))
    pearson = jnp.where(freedom > 0, pearson / jnp.maximum(freedom, 1), jnp.nan)
    dispersion = jnp.ones_like(pearson) if loss.dispersion_known else pearson
    likelihood = jnp.full_like(deviance, jnp.nan)
    if hasattr(loss, "log_likelihood"):
        trials = count if loss.weights_are_precisions else jnp.sum(v)
        likelihood = loss.log_likelihood(y[:, 0], eta[:, 0], v, deviance / trials)
    aic = 2 * (rank + (not loss.dispersion_known)) - 2 * likelihood
    return spread, sandwich, deviance, null, dispersion, pearson, likelihood, aic, freedom
