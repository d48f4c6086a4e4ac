"""Exact leave-one-out error and generalized cross-validation of linear smoothers, without refitting."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from regjax.core import linalg
from regjax.core.checks import check_strength
from regjax.models.linear import penalty_matrix
from regjax.models.penalized import Gram, fit_one, gram, over_targets, squares
from regjax.models.problem import Centred, center, check_samples


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
        >>> import jax.numpy as jnp, regjax
        >>> X, y = jnp.array([[0.0], [1.0], [2.0], [3.0]]), jnp.array([0.0, 1.0, 2.0, 6.0])
        >>> print(regjax.loo_residuals(X, y, 0.0).round(4))
        [ 2.     -0.7143 -1.8571  3.    ]

    References:
        Golub, Heath & Wahba, Generalized cross-validation, Technometrics 21 (1979).
    """
    samples, lam, omega = _arguments(X, y, lam, gamma, penalty, weights)
    return samples.per_target(_loo(samples.X, samples.Y, samples.weights, lam, omega, intercept))


def loo_predictions(
    X: Any, y: Any, lam: Any, gamma: Any = None, *, penalty: Any = None, weights: Any = None, intercept: bool = True
) -> Array:
    """The prediction for each sample of the fit without it: y minus `loo_residuals`, with the same arguments."""
    samples, lam, omega = _arguments(X, y, lam, gamma, penalty, weights)
    residuals = _loo(samples.X, samples.Y, samples.weights, lam, omega, intercept)
    return samples.per_target(samples.Y - residuals)


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
        >>> lams = jnp.logspace(0, 6, 50)
        >>> scores = jax.vmap(lambda lam: regjax.loo_score(data.X, data.y, lam))(lams)
        >>> print(lams[scores.argmin()].round(1))
        51.8
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


def _residual_pair(data: Centred, matrix: Gram, Y: Array, lam: Array, omega: Array | None) -> tuple[Array, Array]:
    """Residuals (n, t) and 1 − h (n, 1), both up to one common factor, which is 1/λ in the dual form."""
    fit = fit_one(data, Y, matrix, lam, omega)
    positive = (data.weights > 0)[:, None]
    if not matrix.dual:
        leverage = data.unit**2 + data.weights * linalg.quad_diag(fit.factor, matrix.matrix, data.X, lam, omega)
        left = (1 - leverage)[:, None]
        left = jnp.where(left < 100 * len(Y) * jnp.finfo(Y.dtype).eps, jnp.nan, left)
        return Y - data.X @ fit.coef, jnp.where(positive, left, 1)
    eye = jnp.eye(len(Y), dtype=Y.dtype)
    inverse = linalg.quad_diag(fit.factor, matrix.matrix, eye, lam) - data.unit**2 / (matrix.lift + lam)
    numerator, inverse = _interpolation_limit(fit, data, Y, lam, inverse[:, None])
    residuals = numerator / jnp.where(positive, data.root[:, None], 1)
    return jnp.where(positive, residuals, Y - data.X @ fit.coef), jnp.where(positive, inverse, 1)


def _interpolation_limit(fit, data, Y, lam, inverse):
    """At λ = 0 with dependent rows, directions that the fit cannot reach outweigh all others."""
    lost = jnp.where(jnp.isinf(fit.factor.scale), fit.factor.basis, 0)
    mass = jnp.sum(lost**2, axis=1, keepdims=True)
    dependent = (lam == 0) & (jnp.sum(jnp.where(data.weights > 0, mass[:, 0], 0)) > 0.5)
    lost_part = lost @ linalg.cross(lost, data.root[:, None] * Y)
    use = dependent & (mass > jnp.sqrt(jnp.finfo(Y.dtype).eps))
    return jnp.where(use, lost_part, fit.dual), jnp.where(use, mass, inverse)


def _loo_of(data, matrix, omega, Y, lam):
    residuals, left = _residual_pair(data, matrix, Y, lam, omega)
    return jnp.where(data.valid & (lam >= 0), residuals / left, jnp.nan)


@partial(jax.jit, static_argnames="intercept")
def _loo(X, Y, weights, lam, omega, intercept):
    data = center(X, Y, weights, intercept)
    return over_targets(partial(_loo_of, data, _gram(data, omega, intercept), omega), data.Y, lam)


@partial(jax.jit, static_argnames="intercept")
def _loo_score(X, Y, weights, lam, omega, intercept):
    data = center(X, Y, weights, intercept)
    matrix = _gram(data, omega, intercept)

    def one(Y, lam):
        errors = _loo_of(data, matrix, omega, Y, lam)
        return squares(data, errors) / data.total

    return over_targets(one, data.Y, lam)


@partial(jax.jit, static_argnames="intercept")
def _gcv(X, Y, weights, lam, omega, intercept):
    data = center(X, Y, weights, intercept)
    matrix = _gram(data, omega, intercept)
    count = jnp.sum(data.weights > 0)

    def one(Y, lam):
        residuals, left = _residual_pair(data, matrix, Y, lam, omega)
        freedom = jnp.sum(jnp.where((data.weights > 0)[:, None], left, 0))
        score = count * squares(data, residuals) / freedom**2
        return jnp.where(data.valid & (lam >= 0), score, jnp.nan)

    return over_targets(one, data.Y, lam)
