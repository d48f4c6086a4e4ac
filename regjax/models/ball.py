"""Ridge in its constrained form."""

from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from regjax.core import factors
from regjax.core.checks import check_strength
from regjax.core.implicit import implicit_solution
from regjax.core.loop import iterate
from regjax.core.products import cross
from regjax.core.solution import Solution
from regjax.models.penalized import certify, fit_one, gram, over_targets, summarize
from regjax.models.problem import center, check_samples


def ridge_ball(X: Any, y: Any, radius: Any, *, weights: Any = None, intercept: bool = True) -> Solution:
    r"""Least squares in a ball: the constrained form of ridge.

    Minimises ½ Σᵢ vᵢ (yᵢ − b − xᵢw)² subject to ‖w‖₂ ≤ radius.

    The solution is `ridge` at the λ with ‖w_λ‖ = radius, the root of the secular equation, found by Newton's method on
    1/‖w_λ‖ in the eigenbasis of X̃ᵀVX̃; λ = 0 where the minimum-norm least squares solution lies inside, λ = ∞ at
    radius 0.

    Args:
        X, y, weights, intercept: as in `ridge`.
        radius: ≥ 0, a scalar or one per target (t,); each target has a ball of its own.

    Returns:
        A `Solution` with `lam`, the penalty strength that the radius corresponds to (a scalar, or (t,)). Its
        certificate is that of ridge at this λ; `num_iter` counts the Newton steps.

    Example:
        >>> import jax.numpy as jnp, regjax
        >>> X, y = jnp.array([[0.0], [1.0], [2.0]]), jnp.array([0.0, 2.0, 4.0])
        >>> fit = regjax.ridge_ball(X, y, 1.0)
        >>> print(fit.params.coef.round(3), fit.lam.round(3))
        [1.] 2.0

    References:
        Moré & Sorensen, Computing a trust region step, SIAM J. Sci. Stat. Comput. 4 (1983).
    """
    samples = check_samples(X, y, weights)
    bound = check_strength("radius", radius, samples.X.dtype, samples.Y.shape[1])
    coef, lam, count, data, proof = _ball(samples.X, samples.Y, samples.weights, bound, intercept)
    solution = summarize(samples, data, coef, data.intercept_of(coef), bound, proof)
    return replace(solution, num_iter=count, lam=samples.per_target(lam))


@partial(jax.jit, static_argnames="intercept")
def _ball(X, Y, weights, radius, intercept):
    data = center(X, Y, weights, intercept)
    matrix = gram(data, None)
    radius = jnp.broadcast_to(radius, Y.shape[1:])
    lam, count = _secular_root(*lax.stop_gradient((data, matrix, radius)))
    lam = implicit_solution(_excess, _divide_by_slope, lam, (data, matrix, radius), None)

    def one(Y, lam):
        fit = fit_one(data, Y, matrix, lam, None)
        return fit.coef, certify(data, Y, matrix, fit, lam, None)

    coef, proof = over_targets(one, data.Y, lam)
    return coef, lam, count, data, proof


def _excess(lam: Array, theta: Any) -> Array:
    """½(‖w_λ‖² − radius²) for each target; zero where the constraint is not active."""
    data, matrix, radius = theta
    coef = over_targets(lambda Y, lam: fit_one(data, Y, matrix, lam, None).coef, data.Y, lam)
    active = (lam > 0) & jnp.isfinite(lam)
    return jnp.where(active, (jnp.sum(coef**2, axis=0) - radius**2) / 2, 0)


def _divide_by_slope(aux, theta, lam, rhs):
    del aux
    _, slope = jax.jvp(lambda lam: _excess(lam, theta), (lam,), (jnp.ones_like(lam),))
    return jnp.where(slope == 0, 0, rhs / jnp.where(slope == 0, 1, slope))


def _secular_root(data, matrix, radius):
    spectrum = factors.spectrum(matrix.matrix, matrix.root)
    if matrix.dual:
        part = jnp.sqrt(spectrum.values)[:, None] * cross(spectrum.vectors, data.scaled_y)
    else:
        part = cross(spectrum.vectors, cross(data.scaled_x, data.scaled_y))
    part = jnp.where(spectrum.kept[:, None], part, 0)
    values = jnp.where(spectrum.kept, jnp.maximum(spectrum.values, 0), jnp.inf)[:, None]

    def length(lam):
        return jnp.sqrt(jnp.sum((part / (values + lam)) ** 2, axis=0))

    free = length(jnp.zeros_like(radius))
    target = jnp.where(radius > 0, radius, 1)

    def step(lam):  # monotone from the left, since 1/‖w_λ‖ is concave in λ
        norm = length(lam)
        slope = jnp.sum((part / (values + lam)) ** 2 / (values + lam), axis=0)
        advance = norm**2 / jnp.where(slope > 0, slope, 1) * (norm - target) / target
        lam = jnp.where(free > target, jnp.maximum(lam + advance, 0), 0)
        return lam, jnp.max(jnp.where(free > target, jnp.abs(length(lam) / target - 1), 0))

    result = iterate(step, jnp.zeros_like(radius), tol=4 * jnp.finfo(radius.dtype).eps, max_iter=100, patience=3)
    return jnp.where(radius > 0, result.state, jnp.inf), result.num_iter
