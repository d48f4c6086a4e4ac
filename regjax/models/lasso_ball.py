"""The lasso in its constrained form."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from regjax.core.checks import check_finite, check_strength
from regjax.core.loop import iterate
from regjax.core.solution import Solution, Status
from regjax.models.fit import lam_max
from regjax.models.linear import ols
from regjax.models.penalized import worst
from regjax.models.prepare import check_limits, check_offset, prepare
from regjax.models.problem import Linear, check_samples
from regjax.models.sparse import lasso
from regjax.penalties import L1, L1Ball, check_penalty
from regjax.penalties.elementary import rounding
from regjax.solvers.minimize import Solver


def lasso_ball(
    X: Any,
    y: Any,
    radius: Any,
    *,
    factors: Any = None,
    weights: Any = None,
    offset: Any = None,
    lower: Any = None,
    upper: Any = None,
    intercept: bool = True,
    standardize: bool = False,
    solver: str | Solver | None = None,
    init: Any = None,
    tol: float | None = None,
    max_iter: int | None = None,
) -> Solution:
    r"""Least squares in an ℓ1 ball: minimise ½ Σᵢ vᵢ (yᵢ − oᵢ − b − xᵢw)² subject to Σⱼ fⱼ|wⱼ| ≤ radius.

    The solution is `lasso` at the λ with ‖f∘w_λ‖₁ = radius. That norm falls with λ and is linear between the knots of
    the path, so Newton's method on it, kept in a bracket, ends exactly once it is in the right piece. λ = 0 where the
    minimum-norm least squares solution lies inside; at radius 0 it is `lam_max`.

    Args:
        X, y, factors, weights, offset, lower, upper, intercept, solver, init, max_iter: as in `lasso`; a factor of 0
            leaves its coefficient out of the norm.
        radius: ≥ 0, a scalar or one per target (t,); each target has a ball of its own.
        standardize: whether the norm is that of the coefficients of standardised columns, Σⱼ fⱼsⱼ|wⱼ|.
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
    trailing = () if samples.single else samples.Y.shape[1:]
    shape = (samples.X.shape[1], samples.Y.shape[1])
    unit = check_penalty(L1(1.0, factors), samples.structure, trailing, samples.X.dtype)
    limits = check_limits(lower, upper, samples.structure, trailing, samples.X.dtype)
    start = None if init is None else samples.structure.ravel(init, trailing, "init").reshape(shape)
    if start is not None:
        check_finite("init", start)
    lanes = {"factors": unit.factors, "lower": limits and limits[0], "upper": limits and limits[1], "init": start}
    lanes = {name: jnp.broadcast_to(a, shape).T for name, a in lanes.items() if a is not None}
    fits = _balls(
        samples.X, samples.Y - check_offset(offset, samples), samples.weights, bound, lanes,
        intercept=intercept, standardize=standardize, solver=solver, tol=tol, max_iter=max_iter,
    )  # fmt: skip
    return Solution(
        params=samples.model(fits.params.coef.T, fits.params.intercept),
        status=worst(fits.status),
        num_iter=jnp.max(fits.num_iter),
        residual=jnp.max(fits.residual),
        gap=jnp.max(fits.gap),
        objective=jnp.sum(fits.objective),
        lam=samples.per_target(fits.lam),
    )


@partial(jax.jit, static_argnames=("intercept", "standardize", "solver", "max_iter"))
def _balls(X, Y, weights, radius, lanes, **numerics) -> Solution:
    """Each target with a ball of its own, as lanes: `lanes` has (t, p) arguments of the lasso."""
    one = partial(_ball, X, weights, **numerics)
    return jax.vmap(one)(Y.T, jnp.broadcast_to(radius, Y.shape[1:]), lanes)


def _ball(X: Array, weights, y: Array, radius: Array, lane, *, intercept, standardize, solver, tol, max_iter):
    where = {name: a for name, a in lane.items() if name != "init"}

    def at(lam, X=X, y=y, weights=weights):
        return lasso(
            X, y, lam, weights=weights, intercept=intercept, standardize=standardize, solver=solver, tol=tol,
            max_iter=max_iter, **lane,
        )  # fmt: skip

    # with limits or excluded columns least squares is the lasso at λ = 0; without, the solution of least norm
    free = at(0.0) if where else ols(X, y, weights=weights, intercept=intercept)
    scale = prepare(X, y[:, None], weights, L1(1.0), None, intercept, standardize)[2]
    ball = L1Ball(radius, lane.get("factors"))
    top = lam_max(X, y, weights=weights, intercept=intercept, standardize=standardize, **where)

    def norm(params):
        return ball.norm(scale * params.coef)

    inside = norm(free.params) <= radius

    still = lax.stop_gradient((X, y, weights))
    lam, count = _find(lambda lam: norm(at(lam, *still).params), *lax.stop_gradient((radius, top, inside)))
    # The path is linear here, so a last Newton step is exact; the derivatives of λ and w in data and radius flow
    # through it.
    beyond = jnp.where(radius > 0, 1, 1 + rounding(lam))  # in a ball of radius 0 rounding must not let anything in
    (params, edge), (move, _) = jax.jvp(lambda lam: _split(at(beyond * lam)), (lam,), (jnp.ones_like(lam),))
    slope = jax.jvp(norm, (params,), (move,))[1]
    held = ~inside & (slope < 0) & (radius > 0)
    step = jnp.where(held, (radius - norm(params)) / jnp.where(held, lax.stop_gradient(slope), 1), 0)
    step = jnp.maximum(step, -lam)  # at λ = 0 the fit is perfect, and may be so within the ball
    params = jax.tree.map(lambda a, b: a + step * lax.stop_gradient(b), params, move)
    pick = partial(jnp.where, inside)
    params = jax.tree.map(pick, free.params, params)
    length, slip = norm(params), 1e-6 * jnp.maximum(radius, norm(params))
    missed = ~inside & ((length > radius + slip) | ((length < radius - slip) & (lam + step > 0)))
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


def _find(norm_at, radius: Array, top: Array, inside: Array) -> tuple[Array, Array]:
    """λ at which the norm is the radius, and how many values were tried."""

    def step(state):
        low, high, lam, _ = state
        length, slope = jax.jvp(norm_at, (lam,), (jnp.ones_like(lam),))
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
