"""Standard errors, deviances and criteria where the loss couples samples or classes: `Cox` and `Multinomial`."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from regjax.core.factors import factorize
from regjax.core.products import cross
from regjax.losses import Loss
from regjax.models.general import check_loss
from regjax.models.likelihood import LikelihoodInference
from regjax.models.problem import Linear, Samples, center, silence
from regjax.penalties import Zero
from regjax.solvers.task import Task, null_model


def coupled_inference(
    samples: Samples, params: Linear, loss: Loss, offset: Any, intercept: bool
) -> LikelihoodInference:
    """The inference of one model, given checked samples and the fitted model with t predictors."""
    loss = check_loss(loss, samples)
    trailing = () if samples.single else (samples.Y.shape[1],)
    coef = samples.structure.ravel(params.coef, trailing, "solution.params.coef").astype(samples.X.dtype)
    coef = coef.reshape(len(coef), -1)
    constant = jnp.reshape(params.intercept, (1, -1)).astype(samples.X.dtype)
    offset = jnp.broadcast_to(jnp.asarray(offset, samples.X.dtype), (len(samples.X), coef.shape[1]))
    covariance, sandwich, *rest = _infer(samples.X, samples.Y, offset, samples.weights, loss, coef, constant, intercept)
    estimates = jnp.concatenate([constant, coef]) if intercept else coef
    errors = jnp.sqrt(jnp.diagonal(covariance)).reshape(estimates.shape)

    def model(values):
        first = values[0] if intercept else jnp.zeros_like(values[0])
        return samples.model(values[len(values) - len(coef) :], first)

    shape = () if samples.single else (*errors.shape, *errors.shape)
    covariance, sandwich = (a.reshape(shape or a.shape) for a in (covariance, sandwich))
    return LikelihoodInference(covariance, model(errors), model(estimates / errors), sandwich, *rest)


@partial(jax.jit, static_argnames="intercept")
def _infer(X, y, offset, weights, loss: Any, coef, constant, intercept):
    data = center(X, y, weights, intercept or loss.cancels_constants)
    v = data.weights
    X, y, offset = (silence(a, v) for a in (X, y, offset))
    eta = offset + constant + X @ coef
    design = jnp.concatenate([jnp.ones_like(y[:, :1]), data.X], axis=1) if intercept else data.X
    q, t = design.shape[1], eta.shape[1]
    directions = jnp.eye(q * t, dtype=X.dtype).reshape(-1, q, t)

    def along(direction):
        """The change of the slopes along a direction of the coefficients, and the part of each sample in it (n,)."""
        slopes = jax.grad(lambda eta, v: loss.total(y, eta, v), argnums=(0, 1))
        bend, part = jax.jvp(lambda eta: slopes(eta, v), (eta,), (design @ direction,))[1]
        return cross(design, bend).ravel(), jnp.where(v > 0, v * part, 0)

    information, scores = lax.map(along, directions)  # one direction at a time: there may be many samples
    size = jnp.sqrt(jnp.mean(jnp.diagonal(information).reshape(q, t), axis=1))
    unit = jnp.repeat(jnp.where(size > 0, size, 1), t)
    # what the loss does not see (what all classes have in common) has neither information nor covariance
    hidden = jnp.eye(t, dtype=X.dtype) - loss.visible(jnp.eye(t, dtype=X.dtype))
    silent = jnp.kron(jnp.eye(q, dtype=X.dtype), hidden)
    factor = factorize(information / (unit[:, None] * unit) + silent, jnp.zeros((), X.dtype))
    spread = ((factor.basis / factor.scale) @ factor.basis.T - silent) / (unit[:, None] * unit)
    # the intercept of the columns as they are, not about their means
    back = jnp.eye(q, dtype=X.dtype)
    back = jnp.kron(back.at[0, 1:].set(-data.mean_x) if intercept else back, jnp.eye(t, dtype=X.dtype))
    influence = back @ spread @ scores
    encoded = loss.encode(y, v)
    if intercept:
        task = Task(data.X, encoded, offset, v, jnp.ones((), X.dtype), loss)
        offset = null_model(task, Zero(), free=jnp.zeros_like).eta
    deviance, null = (2 * (loss.total(encoded, eta, v) - loss.least(encoded, v)) for eta in (eta, offset))
    rank = jnp.sum(jnp.isfinite(factor.scale)) - jnp.round(q * jnp.trace(hidden)).astype(int)
    freedom = loss.observed(y, v) - rank
    one = jnp.ones_like(deviance)
    pearson = loss.pearson(y, eta, v) if hasattr(loss, "pearson") else jnp.nan * one
    pearson = jnp.where(freedom > 0, pearson / jnp.maximum(freedom, 1), jnp.nan)
    likelihood = loss.log_likelihood(y, eta, v, one)
    aic = 2 * rank - 2 * likelihood
    covariance, sandwich = back @ spread @ back.T, influence @ influence.T
    return covariance, sandwich, deviance, null, one, pearson, likelihood, aic, freedom
