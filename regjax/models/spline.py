"""Smoothing splines."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from regjax.bases import natural_spline_curvature, natural_spline_design
from regjax.core import factors, linalg
from regjax.core.checks import as_float_array, check_strength
from regjax.core.node import register_node
from regjax.core.products import cross
from regjax.core.solution import Solution, Status, relative
from regjax.models.problem import check_samples, silence


@register_node
@dataclass(frozen=True, eq=False)
class SmoothingSpline:
    """A natural cubic spline, a callable pytree.

    Attributes:
        knots: (n,), the distinct x in order; ties leave room at the end, which is filled beyond the data.
        values: at the knots, (n,) or (n, t).
        degrees_of_freedom: the trace of the smoother, 2 for a line.
        gcv: generalized cross-validation score, a scalar or (t,).
    """

    knots: Array
    values: Array
    degrees_of_freedom: Array
    gcv: Array

    def __call__(self, x: Any) -> Array:
        """Values at x (m,); linear beyond the data."""
        return natural_spline_design(as_float_array("x", x), self.knots) @ self.values


def smoothing_spline(x: Any, y: Any, lam: Any, *, weights: Any = None) -> Solution:
    r"""The cubic smoothing spline.

    Minimises ½ Σᵢ vᵢ (yᵢ − f(xᵢ))² + (λ/2) ∫f″² over all functions f, in the units of x. The minimiser is a natural
    cubic spline with knots at the distinct x; ties are merged. λ → 0 interpolates, λ → ∞ is the least squares line.
    `jax.vmap` over λ shares one diagonalization. Dense: O(n³) once, O(n²) per λ.

    Args:
        x: (n,), at least two distinct.
        y: (n,) or (n, t).
        lam: λ ≥ 0, a scalar.
        weights: v (n,), non-negative; 1 if None.

    Returns:
        A `Solution` whose `params` is a `SmoothingSpline`, with `degrees_of_freedom` and `gcv`.

    Example:
        >>> import jax.numpy as jnp, regjax
        >>> x = jnp.linspace(0, 1, 20)
        >>> fit = regjax.smoothing_spline(x, jnp.sin(6 * x), 1e-7)
        >>> print(bool(jnp.abs(fit.params(x) - jnp.sin(6 * x)).max() < 1e-2))
        True

    References:
        Green & Silverman, Nonparametric Regression and Generalized Linear Models, Chapman & Hall 1994, chapter 2.
    """
    samples = check_samples(as_float_array("x", x), y, weights)
    if samples.structure.shapes != ((),):
        raise ValueError(f"x has shape {jnp.shape(x)}: it takes (n,)")
    lam = check_strength("lam", lam, samples.X.dtype)
    knots, values, freedom, gcv, *certificate = _smooth(samples.X[:, 0], samples.Y, samples.weights, lam)
    params = SmoothingSpline(knots, samples.per_target(values), freedom, samples.per_target(gcv))
    status, residual, gap, objective = certificate
    return Solution(params, status, jnp.zeros((), jnp.int32), residual, gap, objective)


def _merge_ties(x, Y, v):
    """Knots (n,) at the distinct x, with the weight and the weighted mean of y at each; spare knots have weight 0."""
    n = len(x)
    order = jnp.argsort(jnp.where(v > 0, x, jnp.inf))  # samples of weight zero make no knot
    x, Y, v = x[order], Y[order], v[order]
    present = v > 0
    new = jnp.concatenate([jnp.zeros(1, bool), x[1:] > x[:-1]]) & present
    place = jnp.where(present, jnp.cumsum(new), n - 1)
    count = jnp.max(jnp.where(present, place, 0)) + 1
    mass = jax.ops.segment_sum(v, place, n)
    moment = jax.ops.segment_sum(v[:, None] * jnp.where(present[:, None], Y, 0), place, n)
    first, last = x[0], jnp.max(jnp.where(present, x, x[0]))
    width = jnp.where(last > first, last - first, 1)
    known = jax.ops.segment_max(jnp.where(present, (x - first) / width, 0), place, n)
    index = jnp.arange(n)
    spare = 1 + (index - count + 1).astype(x.dtype) / n
    return first, width, jnp.where(index < count, known, spare), mass, moment, count


def _extend(knots, values, bend, count):
    """Values at the spare knots on the line that goes on from the last real one."""
    last = count - 1
    h = knots[last] - knots[last - 1]
    before = jnp.where(count > 2, bend[jnp.maximum(last - 2, 0)], 0)
    slope = (values[last] - values[last - 1]) / h + h / 6 * before
    line = values[last] + (knots - knots[last])[:, None] * slope
    return jnp.where((jnp.arange(len(knots)) < count)[:, None], values, line)


@jax.jit
def _smooth(x, Y, weights, lam):
    """Reinsch's equations (R + λQᵀW⁻¹Q)γ = Qᵀy for the second derivatives γ, in the form (M + I/λ)z = b.

    With R = LLᵀ, C = L⁻¹QᵀW^-½, M = CCᵀ and b = L⁻¹Qᵀy the values are g = y − W^-½Cᵀz: they hold at every λ, 0 and ∞
    included, and M depends on no λ.
    """
    v = jnp.ones(len(x), x.dtype) if weights is None else weights
    if len(x) < 3:  # room for one inner knot
        spare = 3 - len(x)
        x, v = jnp.pad(x, (0, spare)), jnp.pad(v, (0, spare))
        Y = jnp.pad(Y, ((0, spare), (0, 0)))
    Y = silence(Y, v)
    first, width, knots, mass, moment, count = _merge_ties(x, Y, v)
    safe = jnp.where(mass > 0, mass, 1)
    means = moment / safe[:, None]
    unroot = jnp.where(mass > 0, 1 / jnp.sqrt(safe), 0)
    Q, R = natural_spline_curvature(knots)
    real = jnp.arange(len(x) - 2) < count - 2  # no bend at the spare knots
    Q, R = jnp.where(real, Q, 0), jnp.where(real & real[:, None], R, jnp.eye(len(R), dtype=R.dtype))
    lower = jnp.linalg.cholesky(R)
    C = jax.scipy.linalg.solve_triangular(lower, Q.T * unroot, lower=True)
    b = jax.scipy.linalg.solve_triangular(lower, cross(Q, means), lower=True)
    M = C @ C.T
    # λ = 0 is the smallest λ that makes no difference, so that the derivative in λ is there too
    size = jnp.trace(M) / width**3
    smallest = jnp.finfo(x.dtype).eps / 8 / jnp.where(size > 0, size, 1)
    shift = width**3 / (lam + lax.stop_gradient(jnp.where(lam == 0, smallest, 0)))  # 1/λ, ∫f″² in the units of x
    factor = factors.factorize(M, shift, root=(C,))
    z = linalg.solve(factor, M, b, shift)
    values = means - unroot[:, None] * cross(C, z)
    bend = jax.scipy.linalg.solve_triangular(lower, b - M @ z, lower=True, trans=1)  # f″ at the inner knots
    values = _extend(knots, values, bend, count)
    freedom = count - jnp.sum(linalg.quad_diag(factor, M, C.T, shift))
    place = jnp.argmin(jnp.abs(knots[None, :] - ((x - first) / width)[:, None]), axis=1)
    residuals = Y - values[place]
    squares = jnp.einsum("i,ij,ij->j", v, residuals, residuals)
    samples = jnp.sum(v > 0)
    gcv = samples * squares / (samples - freedom) ** 2
    shifted = jnp.where(z == 0, 0, shift) * z
    objective = jnp.sum(squares + jnp.einsum("ij,ij->j", z, shifted)) / 2
    error = jnp.where(jnp.isinf(shift), 0, b - M @ z - shifted)
    residual = jnp.max(relative(jnp.max(jnp.abs(error), axis=0), jnp.max(jnp.abs(b), axis=0)))
    spread = Y - v @ Y / jnp.sum(v)
    null = jnp.einsum("i,ij,ij->", v, spread, spread) / 2
    gap = relative(jnp.sum(cross(factor.basis, error) ** 2 / factor.scale[:, None]) / 2, null)
    status = jnp.where(factor.status == Status.RANK_DEFICIENT, Status.CONVERGED, factor.status)
    status = jnp.where(jnp.all(jnp.isfinite(values)), status, Status.NON_FINITE)
    valid = (lam >= 0) & jnp.all(v >= 0) & (count > 1)
    status = jnp.where(valid, status, Status.INVALID).astype(jnp.int32)
    values, freedom, gcv = (jnp.where(valid, a, jnp.nan) for a in (values, freedom, gcv))
    certificate = lax.stop_gradient((status, residual, gap))
    return first + width * knots, values, freedom, gcv, *certificate, objective
