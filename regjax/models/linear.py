"""Least squares, ridge and Tikhonov regression in closed form."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from regjax.core.checks import as_float_array, check_finite, check_strength, require
from regjax.core.implicit import implicit_solution, with_derivative_of
from regjax.core.lstsq import LeastSquares, lstsq
from regjax.core.products import cross
from regjax.core.solution import Solution
from regjax.core.tree import Structure, broadcast_strengths, ravel_design
from regjax.models.penalized import certificate, certify, fit_one, gram, over_targets, squares, summarize
from regjax.models.problem import Centred, center, check_design, check_samples, silence


def ols(X: Any, y: Any, *, weights: Any = None, intercept: bool = True) -> Solution:
    r"""Ordinary least squares at any rank.

    Minimises ½ Σᵢ vᵢ (yᵢ − b − xᵢw)². Where the columns are dependent or p ≥ n there are many minimisers: the one with
    the smallest ‖w‖ is returned (b is free) and `status` says RANK_DEFICIENT. The design is never squared: an SVD of
    the scaled columns is refined with residuals in doubled precision.

    Args:
        X: (n, p), or a pytree of arrays with n samples in front.
        y: (n,) or (n, t).
        weights: v (n,), non-negative; 1 if None.
        intercept: whether b is fitted.

    Returns:
        A `Solution` whose `params` is a `Linear` model: `coef` like a row of X, or (p, t).

    Example:
        >>> import numpy as np, regjax
        >>> X, y = np.array([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]), np.array([1.0, 3.0, 5.0])
        >>> solution = regjax.ols(X, y)
        >>> print(np.asarray(solution.params.coef).round(3), regjax.Status(int(solution.status)).name)
        [1. 1.] RANK_DEFICIENT

    References:
        Björck, Numerical Methods for Least Squares Problems, SIAM 1996.
    """
    samples = check_samples(X, y, weights)
    coef, b, data, proof = _ols(samples.X, samples.Y, samples.weights, intercept)
    return summarize(samples, data, coef, b, jnp.zeros((), coef.dtype), proof)


@partial(jax.jit, static_argnames="intercept")
def _ols(X, Y, weights, intercept):
    data = center(X, Y, weights, intercept)
    v = data.weights
    found = lstsq(silence(X, v), silence(Y, v), v, intercept=intercept)
    coef = _differentiable_ols(data, found)
    objective = with_derivative_of(squares(data, found.residuals), squares(data, data.Y - data.X @ coef)) / 2
    gradient = cross(data.X, v[:, None] * found.residuals)
    proof = certificate(data, data.Y, gradient, found.dependent / 2, objective, found.status)
    return coef, with_derivative_of(found.intercept, data.intercept_of(coef)), data, proof


def _normal_equations(W, theta):
    X, Y, weights = theta
    return cross(X, weights[:, None] * (X @ W - Y))


def _dual_equations(dual, theta):
    scaled_x, scaled_y = theta
    return scaled_x @ cross(scaled_x, dual) - scaled_y


def _apply_square(basis, theta, solution, rhs):
    del theta, solution
    return basis @ cross(basis, rhs)


def _differentiable_ols(data: Centred, found: LeastSquares) -> Array:
    n, p = data.X.shape
    if p <= n:
        theta = (data.X, data.Y, data.weights)
        return implicit_solution(_normal_equations, _apply_square, found.coef, theta, found.basis)
    # w = X̃ᵀα stays in the row space of X as X moves
    basis = found.dual_basis
    theta = (data.scaled_x, data.scaled_y)
    dual = _apply_square(basis, None, None, lax.stop_gradient(data.scaled_y))
    dual = implicit_solution(_dual_equations, _apply_square, dual, theta, basis)
    return with_derivative_of(found.coef, cross(data.scaled_x, dual))


def ridge(X: Any, y: Any, lam: Any, *, weights: Any = None, intercept: bool = True) -> Solution:
    r"""Ridge regression.

    Minimises ½ Σᵢ vᵢ (yᵢ − b − xᵢw)² + (λ/2)‖w‖², so that w = (X̃ᵀVX̃ + λI)⁻¹X̃ᵀVỹ with X̃, ỹ centred.

    For p > n the equal w = X̃ᵀ(X̃X̃ᵀ + λV⁻¹)⁻¹ỹ is used. One λ is a Cholesky factorization; `jax.vmap` over λ is one
    eigendecomposition, in any nesting with folds, targets and data sets. λ = 0 is `ols`.

    Args:
        X: (n, p), or a pytree of arrays with n samples in front.
        y: (n,) or (n, t).
        lam: λ ≥ 0, a scalar or one per target (t,). A prefix pytree of a pytree design gives one λ per block: such a
            problem is solved by a factorization for every λ, since one eigendecomposition cannot serve them all.
        weights: v (n,), non-negative; 1 if None.
        intercept: whether b, unpenalised, is fitted.

    Returns:
        A `Solution` whose `params` is a `Linear` model.

    Example:
        >>> import jax, jax.numpy as jnp, regjax
        >>> X, y = jnp.array([[0.0], [1.0], [2.0]]), jnp.array([0.0, 2.0, 4.0])
        >>> path = jax.vmap(lambda lam: regjax.ridge(X, y, lam))(jnp.array([0.0, 2.0]))
        >>> print(path.params.coef[:, 0])
        [2. 1.]

    References:
        Hoerl & Kennard, Ridge regression, Technometrics 12 (1970).
    """
    if isinstance(lam, dict) or (isinstance(lam, (list, tuple)) and isinstance(X, (list, tuple))):
        _, structure = ravel_design(X)
        strengths = broadcast_strengths("lam", lam, structure)
        require(lambda s: jnp.all(s >= 0), strengths, message=f"lam must be non-negative and not NaN, got {lam}")
        return tikhonov(X, y, 1.0, penalty=jnp.diag(strengths), weights=weights, intercept=intercept)
    return _solve(X, y, lam, (None, None), weights, intercept)


def tikhonov(
    X: Any,
    y: Any,
    lam: Any,
    gamma: Array | Callable[[Any], Any] | None = None,
    *,
    penalty: Any = None,
    weights: Any = None,
    intercept: bool = True,
) -> Solution:
    r"""Tikhonov regression: ridge with a general quadratic penalty.

    Minimises ½ Σᵢ vᵢ (yᵢ − b − xᵢw)² + (λ/2)‖Γw‖², or (λ/2) wᵀΩw, so that w = (X̃ᵀVX̃ + λΓᵀΓ)⁻¹X̃ᵀVỹ. `jax.vmap` over λ
    diagonalises the pair of matrices once. Where X̃ and Γ share a null space, the status is RANK_DEFICIENT.

    Args:
        X, y, weights, intercept: as in `ridge`.
        lam: λ ≥ 0, a scalar or one per target (t,).
        gamma: Γ as a matrix (q, p), a vector (p,) for a diagonal, or a linear function of the coefficients.
        penalty: Ω = ΓᵀΓ (p, p) instead, such as `basis.penalty()`.

    Returns:
        A `Solution` whose `params` is a `Linear` model.

    Example:
        >>> import jax.numpy as jnp, regjax
        >>> x = jnp.linspace(0, 1, 50)
        >>> basis = regjax.bases.BSpline(jnp.linspace(0, 1, 9))
        >>> fit = regjax.tikhonov(basis.design(x), jnp.sin(6 * x), 1e-6, penalty=basis.penalty())
        >>> print(bool(jnp.abs(fit.params(basis.design(x)) - jnp.sin(6 * x)).max() < 1e-2))
        True
    """
    if gamma is None and penalty is None:
        raise ValueError("tikhonov takes gamma (a matrix, a vector or a function) or penalty (a matrix): got neither")
    return _solve(X, y, lam, (gamma, penalty), weights, intercept)


def penalty_matrix(gamma: Any, penalty: Any, structure: Structure, dtype: Any) -> Array | None:
    """Ω (p, p) from either of the two ways to say it; None for the identity."""
    p = structure.num_columns
    if gamma is not None and penalty is not None:
        raise ValueError("gamma and penalty say the same thing: give one of them")
    if penalty is not None:
        omega = as_float_array("penalty", penalty).astype(dtype)
        if omega.shape != (p, p):
            raise ValueError(
                f"penalty has shape {omega.shape}: it takes ({p}, {p}), one row and column per coefficient"
            )
        check_finite("penalty", omega)
        require(
            lambda a: jnp.allclose(a, a.T, rtol=1e-3, atol=1e-3 * jnp.max(jnp.abs(a))),
            omega,
            message="penalty must be a symmetric matrix Ω: to give Γ with Ω = ΓᵀΓ, use gamma",
        )
        return (omega + omega.T) / 2
    if gamma is None:
        return None
    if callable(gamma):
        rows = jax.vmap(lambda w: jnp.concatenate([jnp.ravel(a) for a in jax.tree.leaves(gamma(structure.unravel(w)))]))
        matrix = rows(jnp.eye(p, dtype=dtype)).T.astype(dtype)
        probe = jnp.stack([jnp.zeros(p, dtype), jnp.sin(jnp.arange(1, p + 1)).astype(dtype)])
        require(
            lambda matrix, images: jnp.allclose(images, probe @ matrix.T, rtol=1e-3, atol=1e-3 * jnp.abs(matrix).max()),
            matrix,
            rows(probe),
            message="gamma must be a linear function of the coefficients: its value at a sum is not the sum of values",
        )
    else:
        matrix = as_float_array("gamma", gamma).astype(dtype)
    check_finite("gamma", matrix)
    if matrix.shape == (p,):
        return jnp.diag(matrix**2)
    if matrix.ndim != 2 or matrix.shape[1] != p:
        raise ValueError(f"gamma has shape {matrix.shape}: it takes (q, {p}), ({p},) or a function of the coefficients")
    return cross(matrix, matrix)


def _solve(X, y, lam, penalty, weights, intercept) -> Solution:
    samples = check_samples(X, y, weights)
    lam = check_strength("lam", lam, samples.X.dtype, samples.Y.shape[1])
    gamma, matrix = penalty
    omega = penalty_matrix(gamma, matrix, samples.structure, samples.X.dtype)
    coef, data, proof = _penalized(samples.X, samples.Y, samples.weights, lam, omega, intercept)
    return summarize(samples, data, coef, data.intercept_of(coef), lam, proof)


@partial(jax.jit, static_argnames="intercept")
def _penalized(X, Y, weights, lam, penalty, intercept):
    data = center(X, Y, weights, intercept)
    matrix = gram(data, penalty)

    def one(Y, lam):
        fit = fit_one(data, Y, matrix, lam, penalty)
        return fit.coef, certify(data, Y, matrix, fit, lam, penalty)

    coef, proof = over_targets(one, data.Y, lam)
    return coef, data, proof


def condition_number(X: Any, lam: Any = 0.0, *, weights: Any = None, intercept: bool = False) -> Array:
    r"""√((σ₁² + λ)/(σₘᵢₙ² + λ)): κ(X) at λ = 0, and κ(XᵀX + λI)^½ otherwise.

    Args:
        X: (n, p), or a pytree of arrays with n samples in front.
        lam: λ ≥ 0.
        weights: rows are scaled by √v.
        intercept: whether the columns are centred first.

    Example:
        >>> import jax.numpy as jnp, regjax
        >>> print(regjax.condition_number(jnp.diag(jnp.array([3.0, 1.0]))))
        3.0
    """
    matrix, weights = check_design(X, weights)
    return _condition_number(matrix, check_strength("lam", lam, matrix.dtype), weights, intercept)


@partial(jax.jit, static_argnames="intercept")
def _condition_number(X, lam, weights, intercept):
    n, p = X.shape
    data = center(X, jnp.zeros((n, 1), X.dtype), weights, intercept)
    values = jnp.linalg.svd(data.scaled_x, compute_uv=False) ** 2
    smallest = jnp.where((lam > 0) & (p > n), 0, values[-1])
    return jnp.where(data.valid & (lam >= 0), jnp.sqrt((values[0] + lam) / (smallest + lam)), jnp.nan)
