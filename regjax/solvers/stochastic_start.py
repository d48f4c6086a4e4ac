"""Where stochastic gradients on a linear model start, and with what step."""

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from regjax.losses import Loss
from regjax.solvers.proximal import largest_curvature
from regjax.solvers.stochastic import Rows


@jax.jit
def first_intercept(loss: Loss, y: Array, offset: Array, weights: Array) -> Array:
    """An intercept (t,) to start from: the weighted mean of the predictors that suit each sample best."""
    best = loss.start(y)
    weight = jnp.broadcast_to(weights[:, None], best.shape)
    if not loss.coupled and loss.smooth:
        weight = loss.press(y, best, weights, jnp.ones_like(best))
    total = jnp.sum(weight, axis=0)
    return jnp.sum(weight * (best - offset), axis=0) / jnp.where(total > 0, total, 1)


@jax.jit
def safe_step(loss: Loss, rows: Rows, point: Array, one: Array, batch_size: ArrayLike, total: Array) -> Array:
    """1/𝓛 for a linear model, 𝓛 the expected smoothness of batches: between σ₁² (all) and n·max‖x‖² (one sample).

    The curvature of the loss is the larger of that at the point and that at the predictors that suit the samples.

    Args:
        loss: a smooth one.
        rows: all samples, or some that stand for all.
        point: to start from.
        one: 1 with an intercept, else 0.
        batch_size: samples in a batch.
        total: Σv of all samples.

    References:
        Gower et al., SGD: general analysis and improved rates, ICML 2019.
    """
    rows, point = lax.stop_gradient((rows, point))
    X, y, offset, v = rows
    bend = jnp.full_like(v, 0.5)  # of a softmax, at most
    if not loss.coupled:
        at = offset + one * point[0] + X @ point[1:]
        bend = jnp.max(jnp.maximum(loss.weight(y, at), loss.weight(y, loss.start(y))), axis=1)
    scale = total / jnp.sum(v)
    each = v * jnp.where(v > 0, bend, 0)
    design = jnp.sqrt(each)[:, None] * jnp.concatenate([jnp.broadcast_to(one, (len(X), 1)), X], axis=1)
    whole = scale * largest_curvature(design)
    single = jnp.max(jnp.einsum("ij,ij->i", design, design))
    n = scale * jnp.sum(v > 0)
    b = jnp.minimum(batch_size, n)
    mixed = (n * (b - 1) * whole + n * (n - b) * single) / (b * jnp.maximum(n - 1, 1))
    bound = jnp.maximum(mixed, whole)
    return 1 / jnp.where(bound > 0, bound, 1)
