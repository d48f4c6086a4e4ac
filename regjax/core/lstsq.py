"""Rank-revealing least squares, refined in doubled precision."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from regjax.core import doubled
from regjax.core.lanes import map_lanes, sees_lanes
from regjax.core.products import cross, sum_over_rows
from regjax.core.solution import Status

# entries of X above which the residuals are not doubled: a dozen slices of X would have to be held in memory
LARGEST_DOUBLED = 2**24
REFINEMENTS = 4


class LeastSquares(NamedTuple):
    """A minimum-norm least squares solution.

    Attributes:
        coef: (p, t).
        intercept: (t,), zero without one.
        residuals: y − b − Xw (n, t), rounded once.
        basis: (p, k), with (X̃ᵀVX̃)† = basis basisᵀ, X̃ the centred X; k = min(n, p).
        dual_basis: (n, k), with (SX̃X̃ᵀS)† = dual_basis dual_basisᵀ, S² = V.
        rank: of X̃, int32.
        dependent: t numbers, ‖Pr‖²: the part of the residuals that the columns could still explain.
        status: int32.
    """

    coef: Array
    intercept: Array
    residuals: Array
    basis: Array
    dual_basis: Array
    rank: Array
    dependent: Array
    status: Array


def lstsq(X: Array, Y: Array, weights: Array, *, intercept: bool) -> LeastSquares:
    """Minimise Σᵢ vᵢ ‖yᵢ − b − xᵢw‖² over b and w, with the smallest ‖w‖ where there are several minimisers.

    The centred columns are scaled to one length (by powers of two) and decomposed by an SVD, whose small singular
    values tell the rank. The solution is then refined: the residuals of the optimality conditions of the data *as
    given* are computed in doubled precision, so that the answer has the digits that the data warrants, not those
    that the factorization leaves. With the intercept, b is a column like the others, but outside of the norm.

    Args:
        X: (n, p), any rank. Y: (n, t). weights: (n,), non-negative.
        intercept: whether b is fitted.

    References:
        Björck, Iterative refinement of linear least squares solutions, BIT 7 (1967) and 8 (1968).
    """
    return _lstsq_lanes[bool(intercept)](*lax.stop_gradient((X, Y, weights)))


def _lanes_of(intercept: bool):
    @sees_lanes
    def over_lanes(X, Y, weights):
        rank = weights.ndim - 1
        lanes = jnp.broadcast_shapes(X.shape[:rank], Y.shape[:rank], weights.shape[:rank])
        flat = [jnp.broadcast_to(a, lanes + a.shape[rank:]).reshape(-1, *a.shape[rank:]) for a in (X, Y, weights)]
        result = map_lanes(partial(_lstsq_one, intercept=intercept), *flat)
        return jax.tree.map(lambda r: r.reshape(*lanes, *r.shape[1:]), result)

    return over_lanes


_lstsq_lanes = {intercept: _lanes_of(intercept) for intercept in (False, True)}


def _lstsq_one(X: Array, Y: Array, weights: Array, intercept: bool) -> LeastSquares:
    n, p = X.shape
    eps = jnp.finfo(X.dtype).eps
    root = jnp.sqrt(weights)
    total = jnp.sum(weights)
    if intercept:
        centred, center, constant = subtract_mean(X, weights, total)
    else:
        centred, center, constant = X, jnp.zeros(p, X.dtype), jnp.zeros(p, bool)
    size = (weights > 0).astype(X.dtype) @ jnp.abs(centred)
    constant |= size == 0
    # a wide X has its minimum-norm solution from the SVD itself, which scaled columns would spoil
    _, exponent = jnp.frexp(size)
    scale = jnp.where(constant, 0.0, jnp.ldexp(jnp.ones_like(size), -exponent) if p <= n else 1.0).astype(X.dtype)
    U, singular, Vt = jnp.linalg.svd(root[:, None] * centred * scale, full_matrices=False)
    kept = singular > max(n, p) * eps * singular[0]
    inverse = jnp.where(kept, 1 / jnp.where(kept, singular, 1), 0)
    rank = jnp.sum(kept).astype(jnp.int32)
    basis = scale[:, None] * Vt.T * inverse
    Uk = jnp.where(kept, U, 0)
    unit = root / jnp.sqrt(total) if intercept else jnp.zeros_like(root)
    unroot = jnp.where(root > 0, 1 / jnp.where(root > 0, root, 1), 0)[:, None]
    ones = jnp.full((n, 1), float(bool(intercept)), X.dtype)
    double = X.size <= LARGEST_DOUBLED
    design = jnp.concatenate([ones, X], axis=1)
    # columns of one size, exactly: the slices of a row share a grid
    _, exponent = jnp.frexp(jnp.max(jnp.abs(design), axis=0))
    design, unit_size = (
        doubled.pair(jnp.ldexp(design, -exponent)),
        jnp.ldexp(jnp.ones_like(design[0]), exponent)[:, None],
    )
    adjoint = doubled.pair((design.high * weights[:, None]).T)

    def product(a, b):
        return doubled.matmul(a, b) if double else doubled.pair(a.high @ b.high)

    def step(carry, _):
        # the optimality conditions r + Zθ = y, ZᵀVr = 0 and their residuals
        theta, r = carry
        f = doubled.add(doubled.pair(Y), doubled.negate(doubled.add(r, product(design, theta)))).high
        g = -unit_size * product(adjoint, r).high
        f = root[:, None] * f
        gw = g[1:] - jnp.outer(center, g[0])
        explained = cross(Uk, f) - inverse[:, None] * (Vt @ (scale[:, None] * gw))
        mean = unit @ f - (g[0] / jnp.sqrt(total) if intercept else 0)
        dw = scale[:, None] * cross(Vt, inverse[:, None] * explained)
        db = mean / jnp.sqrt(total) - center @ dw if intercept else mean
        dtheta = unit_size * jnp.concatenate([db[None], dw])
        dr = unroot * (f - Uk @ explained - jnp.outer(unit, mean))
        return (doubled.add(theta, doubled.pair(dtheta)), doubled.add(r, doubled.pair(dr))), dw

    start = doubled.pair(jnp.zeros((p + 1, Y.shape[1]), X.dtype)), doubled.pair(jnp.zeros_like(Y))
    (theta, _), steps = lax.scan(step, start, length=REFINEMENTS if double else 2)
    coef = (theta.high / unit_size)[1:]
    if p <= n:
        small = lax.cond(rank < p, lambda: _smallest(coef, scale, Vt, kept), lambda: coef)
        start = theta.high[0] / unit_size[0] + center @ (coef - small)  # the intercept follows
        moved_theta = doubled.pair(jnp.concatenate([start[None], small]) * unit_size)
        theta = jax.tree.map(lambda a, b: jnp.where(rank < p, a, b), moved_theta, theta)
        coef = small
    residuals = doubled.add(doubled.pair(Y), doubled.negate(product(design, theta))).high
    # what a rounding of the data, as it was given, can do to the scaled coefficients (Björck 1996, §1.4)
    smallest = jnp.min(jnp.where(kept, singular, jnp.inf))
    rounding = eps * jnp.max(_norm(root[:, None] * X * scale))
    unscale = jnp.where(scale > 0, 1 / jnp.where(scale > 0, scale, 1), 0)[:, None]
    length, left, whole = _norm(unscale * coef), _norm(root[:, None] * residuals), _norm(root[:, None] * Y)
    change = (rounding * length + eps * whole) / smallest + rounding * left / smallest**2
    spread = _norm(root[:, None] * Y - jnp.outer(unit, unit @ (root[:, None] * Y)))
    size = jnp.maximum(length, 1e-3 * spread / singular[0])
    moved = _norm(unscale * steps[-1]) > jnp.sqrt(eps) * size
    varies = spread > 8 * eps * whole
    fragile = jnp.any(varies & (moved | (change > 1e-2 * size)))
    # a direction dropped though it stands above the rounding of the data is a guess, not a dependence
    fragile |= jnp.max(jnp.where(kept, 0, singular)) > 2 * jnp.maximum(rounding, eps * singular[0])
    status = jnp.where(rank < p, Status.RANK_DEFICIENT, Status.CONVERGED)
    status = jnp.where(fragile, Status.ILL_CONDITIONED, status)
    status = jnp.where(jnp.all(jnp.isfinite(theta.high)), status, Status.NON_FINITE)
    dependent = jnp.sum(cross(Uk, root[:, None] * residuals) ** 2, axis=0)
    return LeastSquares(
        coef, theta.high[0] / unit_size[0], residuals, basis, Uk * inverse, rank, dependent, status.astype(jnp.int32)
    )


def subtract_mean(a: Array, weights: Array, total: Array) -> tuple[Array, Array, Array]:
    """Columns minus their weighted means, the means, and whether each column is constant where it has weight."""
    mean = weights @ a / total
    given, v, about = lax.stop_gradient((a, weights, mean))
    # the rounding of the first mean, without a derivative: large offsets in float32 need the second pass
    rest = sum_over_rows(lambda x, v: v @ (x - about), given, v) / lax.stop_gradient(total)
    # a constant column is now the rounding of the rounding of its mean
    left = sum_over_rows(lambda x, v: (v > 0).astype(x.dtype) @ jnp.abs(x - about - rest), given, v)
    return a - mean - rest, mean + rest, left <= 8 * len(a) ** 2 * jnp.finfo(a.dtype).eps * jnp.abs(rest)


def _norm(columns: Array) -> Array:
    return jnp.sqrt(jnp.einsum("ij,ij->j", columns, columns))


def _smallest(coef: Array, scale: Array, Vt: Array, kept: Array) -> Array:
    """Project onto the row space of X, which the scaled SVD gives up to the scales of the columns."""
    unscale = jnp.where(scale > 0, 1 / jnp.where(scale > 0, scale, 1), 0)
    rows, _, _ = jnp.linalg.svd(unscale[:, None] * jnp.where(kept, Vt.T, 0), full_matrices=False)
    rows = jnp.where(jnp.arange(len(kept)) < jnp.sum(kept), rows, 0)
    return jnp.where(scale[:, None] > 0, rows @ cross(rows, coef), 0)
