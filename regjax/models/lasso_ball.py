"""The lasso in its constrained form."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from regjax.core.checks import check_strength
from regjax.core.loop import iterate
from regjax.core.solution import Solution, Status
from regjax.models.fit import lam_max
from regjax.models.linear import ols
from regjax.models.penalized import worst
from regjax.models.problem import Linear, check_samples
from regjax.models.sparse import lasso


def lasso_ball(
    X: Any, y: Any, radius: Any, *, weights: Any = None, intercept: bool = True, tol: float | None = None
) -> Solution:
    r"""Least squares in an ℓ1 ball: minimise ½ Σᵢ vᵢ (yᵢ − b − xᵢw)² subject to ‖w‖₁ ≤ radius.

    The solution is `lasso` at the λ with ‖w_λ‖₁ = radius. ‖w_λ‖₁ falls with λ and is linear between the knots of the
    path, so Newton's method on it, kept in a bracket, ends exactly once it is in the right piece. λ = 0 where the
    minimum-norm least squares solution lies inside; at radius 0 it is `lam_max`.

    Args:
        X, y, weights, intercept: as in `lasso`.
        radius: ≥ 0, a scalar or one per target (t,); each target has a ball of its own.
        tol: the relative duality gap of the lasso at this λ.

    Returns:
        A `Solution` with `lam`, the penalty strength that the radius corresponds to (a scalar, or (t,)). Its
        certificate is that of the lasso there; `num_iter` counts the values of λ that were tried.

    Example:
        >>> import jax.numpy as jnp, regjax
        >>> fit = regjax.lasso_ball(jnp.eye(2), jnp.array([3.0, 1.0]), 2.5, intercept=False)
        >>> print(fit.params.coef.round(3), round(float(fit.lam), 3))
        [2.25 0.25] 0.75
    """
    samples = check_samples(X, y, weights)
    bound = check_strength("radius", radius, samples.X.dtype, samples.Y.shape[1])
    if tol is not None:
        check_strength("tol", tol, samples.X.dtype)
    fits = _balls(samples.X, samples.Y, samples.weights, bound, intercept=intercept, tol=tol)
    return Solution(
        params=samples.model(fits.params.coef.T, fits.params.intercept),
        status=worst(fits.status),
        num_iter=jnp.max(fits.num_iter),
        residual=jnp.max(fits.residual),
        gap=jnp.max(fits.gap),
        objective=jnp.sum(fits.objective),
        lam=samples.per_target(fits.lam),
    )


@partial(jax.jit, static_argnames=("intercept", "tol"))
def _balls(X, Y, weights, radius, *, intercept, tol) -> Solution:
    """Each target with a ball of its own, as lanes."""
    one = partial(_ball, X, weights=weights, intercept=intercept, tol=tol)
    return jax.vmap(one)(Y.T, jnp.broadcast_to(radius, Y.shape[1:]))


def _ball(X: Array, y: Array, radius: Array, *, weights, intercept, tol) -> Solution:
    free = ols(X, y, weights=weights, intercept=intercept)
    inside = _norm(free.params) <= radius
    top = lam_max(X, y, weights=weights, intercept=intercept)

    def at(lam, X=X, y=y, weights=weights):
        return lasso(X, y, lam, weights=weights, intercept=intercept, tol=tol)

    still = lax.stop_gradient((X, y, weights))
    lam, count = _find(lambda lam: at(lam, *still).params, *lax.stop_gradient((radius, top, inside)))
    # The path is linear here, so a last Newton step is exact; the derivatives of λ and w in data and radius flow
    # through it.
    (params, edge), (move, _) = jax.jvp(lambda lam: _split(at(lam)), (lam,), (jnp.ones_like(lam),))
    slope = jnp.sum(jnp.sign(params.coef) * move.coef)
    held = ~inside & (slope < 0) & (radius > 0)
    step = jnp.where(held, (radius - _norm(params)) / jnp.where(held, lax.stop_gradient(slope), 1), 0)
    params = jax.tree.map(lambda a, b: a + step * lax.stop_gradient(b), params, move)
    pick = partial(jnp.where, inside)
    params = jax.tree.map(pick, free.params, params)
    missed = ~inside & (jnp.abs(_norm(params) - radius) > 1e-6 * jnp.maximum(radius, _norm(params)))
    # NaN in the data makes λ NaN, which the lasso takes for a bad argument: least squares knows better
    known = jnp.where(inside | (edge.status == Status.INVALID), free.status, edge.status)
    status = jnp.where(missed & (edge.status == Status.CONVERGED), Status.FLOOR, known)
    residuals = y - params(X)
    weighted = residuals**2 if weights is None else jnp.where(weights > 0, weights * residuals**2, 0)
    return Solution(
        params=jax.tree.map(lambda a: jnp.where(radius >= 0, a, jnp.nan), params),
        status=jnp.where(radius >= 0, status, Status.INVALID).astype(jnp.int32),
        num_iter=count,
        residual=pick(free.residual, edge.residual),
        gap=pick(free.gap, edge.gap),
        objective=jnp.sum(weighted) / 2,
        lam=pick(0.0, lam + step),
    )


def _split(solution: Solution) -> tuple[Linear, Solution]:
    """The model, and what is not differentiated."""
    return solution.params, lax.stop_gradient(solution)


def _norm(params: Linear) -> Array:
    return jnp.sum(jnp.abs(params.coef))


def _find(at, radius: Array, top: Array, inside: Array) -> tuple[Array, Array]:
    """λ with ‖w_λ‖₁ = radius, and how many values were tried."""

    def step(state):
        low, high, lam, _ = state
        length, slope = jax.jvp(lambda lam: _norm(at(lam)), (lam,), (jnp.ones_like(lam),))
        long = length > radius
        low, high = jnp.where(long, lam, low), jnp.where(long, high, lam)
        newton = lam + (radius - length) / jnp.where(slope < 0, slope, -jnp.inf)
        middle = jnp.where(low > 0, jnp.sqrt(low * high), high / 100)
        following = jnp.where((slope < 0) & (newton > low) & (newton < high), newton, middle)
        error = jnp.abs(length - radius) / jnp.where(radius > 0, radius, 1)
        return (low, high, following, lam), jnp.where(inside | (radius <= 0), 0, error)

    zero = jnp.zeros_like(top)
    start = (zero, top, top / 2, jnp.where(inside, zero, top))
    result = iterate(step, start, tol=1e-3 * jnp.sqrt(jnp.finfo(top.dtype).eps), max_iter=100, patience=20)
    lam = jnp.where(inside, zero, jnp.where(radius <= 0, top, result.state[3]))
    return lam, result.num_iter
