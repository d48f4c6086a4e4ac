"""Exact leave-one-out error and generalized cross-validation of linear smoothers, without refitting."""

import math
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from regjax.core import linalg
from regjax.core.checks import check_strength
from regjax.core.implicit import with_derivative_of
from regjax.core.lanes import map_lanes, sees_lanes, split_axes
from regjax.core.products import cross
from regjax.models.linear import penalty_matrix
from regjax.models.penalized import Fit, Gram, dual_left_out, fit_one, gram, over_targets, squares
from regjax.models.problem import Centred, center, check_samples

# columns of one matrix product in `loo_score`: enough to keep the processor busy, few enough to stay in its cache
BLOCK = 2048


def loo_residuals(
    X: Any, y: Any, lam: Any, gamma: Any = None, *, penalty: Any = None, weights: Any = None, intercept: bool = True
) -> Array:
    r"""Exact leave-one-out residuals of `ridge` and `tikhonov`: yᵢ minus the prediction of the fit without sample i.

    eᵢ = rᵢ/(1 − hᵢᵢ) with hᵢᵢ = vᵢ zᵢᵀ(ZᵀVZ + λΩ)⁻¹zᵢ, Z holding the intercept. All samples cost O(np²) once and
    O(np) per λ: `jax.vmap` over λ shares one factorization. Where the fit can interpolate, the dual form
    eᵢ = (G⁻¹y)ᵢ/(G⁻¹)ᵢᵢ is used, which is exact for λ → 0 too. A sample of weight zero has its ordinary residual. nan
    marks a sample without which the problem cannot be solved to working precision.

    Args:
        X, y, weights, intercept: as in `ridge`.
        lam: λ ≥ 0, a scalar or one per target (t,).
        gamma, penalty: Γ or Ω, as in `tikhonov`; the identity if neither is given.

    Returns:
        An array of the shape of y.

    Example:
        >>> import numpy as np, regjax
        >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0.0, 1.0, 2.0, 6.0])
        >>> print(np.asarray(regjax.loo_residuals(X, y, 0.0)).round(3))
        [ 2.    -0.429 -1.714  3.   ]

    References:
        Golub, Heath & Wahba, Generalized cross-validation, Technometrics 21 (1979).
    """
    samples, lam, omega = _arguments(X, y, lam, gamma, penalty, weights)
    residuals = _loo(samples.X, samples.Y, samples.weights, lam, omega, intercept)
    return samples.per_target(jnp.where(jnp.isfinite(samples.Y), residuals, jnp.nan))


def loo_predictions(
    X: Any, y: Any, lam: Any, gamma: Any = None, *, penalty: Any = None, weights: Any = None, intercept: bool = True
) -> Array:
    """The prediction for each sample of the fit without it: y minus `loo_residuals`, with the same arguments.

    Example:
        >>> import jax.numpy as jnp, regjax
        >>> print(regjax.loo_predictions(jnp.zeros((3, 1)), jnp.array([1.0, 2.0, 6.0]), 1.0).round(4))
        [4.  3.5 1.5]
    """
    samples, lam, omega = _arguments(X, y, lam, gamma, penalty, weights)
    residuals = _loo(samples.X, samples.Y, samples.weights, lam, omega, intercept)
    return samples.per_target(jnp.where(jnp.isfinite(samples.Y), samples.Y, 0) - residuals)  # as the fit sees them


def loo_score(
    X: Any, y: Any, lam: Any, gamma: Any = None, *, penalty: Any = None, weights: Any = None, intercept: bool = True
) -> Array:
    r"""The exact leave-one-out error Σ v e²/Σ v, e the `loo_residuals`, with the same arguments.

    Under `jax.vmap` over λ the residuals of all λ are never held at once.

    Returns:
        A scalar, or one per target (t,).

    Example:
        >>> import jax, jax.numpy as jnp, regjax
        >>> data = regjax.data.diabetes()
        >>> X = (data.X - data.X.mean(0)) / data.X.std(0)
        >>> lams = jnp.array([0.1, 2.0, 50.0])
        >>> print(jax.vmap(lambda lam: regjax.loo_score(X, data.y, lam))(lams).argmin())
        1
    """
    samples, lam, omega = _arguments(X, y, lam, gamma, penalty, weights)
    return samples.per_target(_loo_score(samples.X, samples.Y, samples.weights, lam, omega, intercept))


def gcv(
    X: Any, y: Any, lam: Any, gamma: Any = None, *, penalty: Any = None, weights: Any = None, intercept: bool = True
) -> Array:
    r"""Generalized cross-validation: n Σ v r²/(n − tr H)², tr H with the intercept, n the samples of positive weight.

    The same arguments as `loo_residuals`, and the same cost over λ.

    Returns:
        A scalar, or one per target (t,).

    Example:
        >>> import jax.numpy as jnp, regjax
        >>> print(regjax.gcv(jnp.eye(2), jnp.array([2.0, 2.0]), 1.0, intercept=False).round(4))
        4.0

    References:
        Golub, Heath & Wahba, Generalized cross-validation, Technometrics 21 (1979).
    """
    samples, lam, omega = _arguments(X, y, lam, gamma, penalty, weights)
    return samples.per_target(_gcv(samples.X, samples.Y, samples.weights, lam, omega, intercept))


def _arguments(X, y, lam, gamma, penalty, weights):
    samples = check_samples(X, y, weights)
    lam = check_strength("lam", lam, samples.X.dtype, samples.Y.shape[1])
    return samples, lam, penalty_matrix(gamma, penalty, samples.structure, samples.X.dtype)


def _gram(data: Centred, omega: Array | None, intercept: bool) -> Gram:
    """The dual form where the fit can interpolate: its residuals and 1 − h have a common factor that may be zero."""
    n, p = data.X.shape
    return gram(data, omega, dual=p >= n - int(intercept))


class _Pair(NamedTuple):
    """Residuals and 1 − h at one λ, both up to one common factor, which is 1/λ in the dual form.

    The residuals are `start − basis (moments / scale)`, so that many λ can be taken a few at a time.

    Attributes:
        start: (n, t). basis: (n, k). moments: (k, t). scale: (k,). left: 1 − h (n, 1).
        fit: the coefficients behind them.
    """

    start: Array
    basis: Array
    moments: Array
    scale: Array
    left: Array
    fit: Fit


def _pair(data: Centred, matrix: Gram, Y: Array, lam: Array, omega: Array | None) -> _Pair:
    fit = fit_one(data, Y, matrix, lam, omega)
    factor = fit.factor
    positive = (data.weights > 0)[:, None]
    if not matrix.dual:
        leverage = data.unit**2 + data.weights * linalg.quad_diag(factor, matrix.matrix, data.X, lam, omega)
        left = (1 - leverage)[:, None]
        left = jnp.where(left < 10 * jnp.finfo(Y.dtype).eps ** 0.6, jnp.nan, left)
        moments = cross(factor.basis, cross(data.X, data.weights[:, None] * Y))
        scale = jnp.where(factor.kept, factor.scale, jnp.inf) if omega is None else factor.scale
        return _Pair(Y, data.X @ factor.basis, moments, scale, jnp.where(positive, left, 1), fit)
    scale, left = dual_left_out(matrix, factor, data.unit, lam)
    left = left[:, None] * jnp.where(positive, data.root[:, None], 1)
    moments = cross(factor.basis, data.root[:, None] * Y)
    return _Pair(jnp.zeros_like(Y), -factor.basis, moments, scale, jnp.where(positive, left, 1), fit)


def _residuals(pair: _Pair, data: Centred, matrix: Gram, Y: Array, weighted: bool) -> Array:
    """Differentiable residuals (n, t), up to the pair's factor; samples of weight zero have their ordinary ones."""
    if not matrix.dual:
        return Y - data.X @ pair.fit.coef
    found = pair.start - pair.basis @ (pair.moments / pair.scale[:, None])
    residuals = with_derivative_of(found, pair.fit.dual)  # they differ at λ = 0 and ∞ only
    if not weighted:
        return residuals
    absent = (data.weights <= 0)[:, None]
    ordinary = lax.cond(jnp.any(absent), lambda: Y - data.X @ pair.fit.coef, lambda: jnp.zeros_like(Y))
    return jnp.where(absent, ordinary, residuals)


def _loo_of(data, matrix, omega, weighted, Y, lam):
    pair = _pair(data, matrix, Y, lam, omega)
    errors = _residuals(pair, data, matrix, Y, weighted) / pair.left
    return jnp.where(data.valid & (lam >= 0), errors, jnp.nan)


@partial(jax.jit, static_argnames="intercept")
def _loo(X, Y, weights, lam, omega, intercept):
    data = center(X, Y, weights, intercept)
    return over_targets(partial(_loo_of, data, _gram(data, omega, intercept), omega, weights is not None), data.Y, lam)


@partial(jax.jit, static_argnames="intercept")
def _loo_score(X, Y, weights, lam, omega, intercept):
    data = center(X, Y, weights, intercept)
    matrix = _gram(data, omega, intercept)

    def one(Y, lam):
        pair = _pair(data, matrix, Y, lam, omega)
        errors = _residuals(pair, data, matrix, Y, weights is not None) / pair.left
        frugal = _sum_of_squares(*lax.stop_gradient((*pair[:-1], data.weights)))
        score = with_derivative_of(frugal, squares(data, errors)) / data.total
        return jnp.where(data.valid & (lam >= 0), score, jnp.nan)

    return over_targets(one, data.Y, lam)


@sees_lanes
def _sum_of_squares(start, basis, moments, scale, left, weights):
    """Σ v ((start − basis (moments/scale))/left)² (t,), over the lanes of λ a few at a time."""
    args = (start, moments, scale, left)
    rank = scale.ndim - 1
    lanes = jnp.broadcast_shapes(*(a.shape[:rank] for a in (*args, basis, weights)))
    own, shared = split_axes([basis.shape[:rank], weights.shape[:rank]])
    own_shape, shared_shape = (tuple(lanes[i] for i in axes) for axes in (own, shared))
    columns = start.shape[-1]

    def gather(a):
        core = a.shape[rank:]
        varies = any(a.shape[i] > 1 for i in shared)
        shape = own_shape + (shared_shape if varies else (1,) * len(shared))
        a = jnp.broadcast_to(a.transpose(*own, *shared, *range(rank, a.ndim)), shape + core)
        return a.reshape(math.prod(own_shape), -1, *core)

    def one(start, moments, scale, left, basis, weights):
        basis, weights = basis[0], weights[0]

        def sums(lane):
            start, moments, scale, left = (a[0] if len(a) == 1 else b for a, b in zip(stacked, lane, strict=True))
            residuals = start - basis @ (moments / scale[:, None])
            return (weights / left[:, 0] ** 2) @ residuals**2

        stacked = (start, moments, scale, left)
        count = math.prod(shared_shape)
        lane_args = tuple(jnp.zeros((count, 1), a.dtype) if len(a) == 1 else a for a in stacked)
        together = min(count, BLOCK // columns)
        if together < 2:
            return lax.map(sums, lane_args)
        return lax.map(sums, lane_args, batch_size=int(together))

    result = map_lanes(one, *(gather(a) for a in (*args, basis, weights)))
    result = result.reshape(*own_shape, *shared_shape, columns)
    order = sorted(range(rank), key=lambda axis: (own + shared)[axis])
    return result.transpose(*order, rank)


@partial(jax.jit, static_argnames="intercept")
def _gcv(X, Y, weights, lam, omega, intercept):
    data = center(X, Y, weights, intercept)
    matrix = _gram(data, omega, intercept)
    count = jnp.sum(data.weights > 0)

    def one(Y, lam):
        pair = _pair(data, matrix, Y, lam, omega)
        residuals = _residuals(pair, data, matrix, Y, weights is not None)
        root = jnp.where(data.weights > 0, data.root, 1)[:, None]
        left = pair.left / root if matrix.dual else pair.left
        residuals = residuals / root if matrix.dual else residuals
        freedom = jnp.sum(jnp.where((data.weights > 0)[:, None], left, 0))
        score = count * squares(data, residuals) / freedom**2
        return jnp.where(data.valid & (lam >= 0), score, jnp.nan)

    return over_targets(one, data.Y, lam)
