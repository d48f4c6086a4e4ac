"""Kernel ridge regression and kernel gradient descent in closed form: linear models in the space of a kernel."""

from dataclasses import replace
from functools import partial
from numbers import Integral
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from regjax.bases import landmarks as choose_landmarks
from regjax.core import factors, linalg
from regjax.core.checks import check_strength, require
from regjax.core.products import cross
from regjax.core.solution import Solution, Status, relative, succeeded
from regjax.kernels.gram import check_points
from regjax.models.descent import check_steps, descent_filter, descent_status
from regjax.models.kernel_large import cg_ridge, nystrom_ridge
from regjax.models.kernel_problem import Centred, KernelSamples, center, check_kernel_samples, expansion, fit_one
from regjax.models.penalized import over_targets, worst


def kernel_ridge(
    kernel: Any,
    X: Any,
    y: Any,
    lam: Any,
    *,
    weights: Any = None,
    intercept: bool = False,
    solver: str | None = None,
    landmarks: Any = None,
    key: Array | None = None,
    tol: float | None = None,
    max_iter: int = 500,
) -> Solution:
    r"""Kernel ridge regression.

    Minimises ½ Σᵢ vᵢ (yᵢ − b − f(xᵢ))² + (λ/2)‖f‖² over the functions f of the kernel, so that f(z) = Σᵢ k(z, xᵢ) αᵢ
    with α = (K + λV⁻¹)⁻¹(y − b). One λ is a Cholesky factorization; `jax.vmap` over λ is one eigendecomposition, in
    any nesting with folds, targets and kernels. λ = 0 is the interpolant of minimum norm, by pseudo-inverse.

    Differentiable with respect to hyperparameters, X, y, λ and positive weights. A sample of weight zero may hold
    anything, so it is not looked at: the derivative in its weight is given as 0, which is not the slope to the right.

    Args:
        kernel: of `regjax.kernels`, or a function of two points. Where it is not known to be positive semidefinite
            (such as `Sigmoid`) its Gram matrix is looked at, and the status says NOT_POSITIVE_DEFINITE.
        X: n points: (n, p), (n,) or a pytree of arrays with n in front.
        y: (n,) or (n, t).
        lam: λ ≥ 0, a scalar or one per target (t,).
        weights: v (n,), non-negative; 1 if None.
        intercept: whether a mean b, unpenalised, is fitted.
        solver: None factors the n×n matrix. "cg" does not hold it: conjugate gradients with a preconditioner from
            randomly pivoted Cholesky, λ > 0. "nystrom" fits f(z) = Σⱼ k(z, lⱼ) βⱼ of m landmarks only, in
            one pass over the data with O(m²) memory; `jax.vmap` over λ shares that pass and one eigendecomposition.
            `White` has no part in such a function: put it into λ. A kernel of one's own is taken to be one.
        landmarks: of "nystrom", how many or which points; of "cg", the rank of the preconditioner. 4√n if None.
        key: of the landmarks that are drawn; `jax.random.key(0)` if None.
        tol: of "cg": the residual ‖y − (K + λI)α‖/‖y‖ at which to stop; by dtype if None.
        max_iter: of "cg".

    Returns:
        A `Solution` whose `params` is a `KernelExpansion`: `params(Z)` predicts.

    Example:
        >>> import jax, jax.numpy as jnp, regjax
        >>> x = jnp.linspace(0, 6, 40)
        >>> lams = jnp.array([1e-3, 1.0])
        >>> fits = jax.vmap(lambda lam: regjax.kernel_ridge(regjax.kernels.RBF(1.0), x, jnp.sin(x), lam))(lams)
        >>> print([round(float(value), 2) for value in fits.objective])
        [0.0, 0.95]

    References:
        Saunders, Gammerman & Vovk, Ridge regression learning algorithm in dual variables, ICML 1998. Díaz, Epperly,
        Frangella, Tropp & Webber, Robust, randomized preconditioning for kernel ridge regression, 2023.
    """
    samples = check_kernel_samples(kernel, X, y, weights)
    lam = check_strength("lam", lam, samples.Y.dtype, samples.Y.shape[1])
    if solver not in (None, "cg", "nystrom"):
        raise ValueError(f"solver must be None, 'cg' or 'nystrom', got {solver!r}")
    if solver is not None:
        return _without_the_matrix(samples, lam, intercept, solver, landmarks, key, tol, max_iter)
    coef, b, *rest = _ridge(samples.kernel, samples.X, samples.Y, samples.weights, lam, intercept)
    return expansion(samples, coef, b, *rest)


def _without_the_matrix(samples: KernelSamples, lam, intercept, solver, marks, key, tol, max_iter) -> Solution:
    kernel, X, _, Y, weights, _ = samples
    n = len(Y)
    marks = min(n, max(20, int(4 * n**0.5))) if marks is None else marks
    marks = int(marks) if isinstance(marks, Integral) else marks
    if isinstance(marks, int) and not 1 <= marks <= n:
        raise ValueError(f"landmarks must be from 1 to the {n} points of X, got {marks}")
    key = jax.random.key(0) if key is None else key
    if solver == "cg":
        if not isinstance(marks, int):
            raise ValueError("landmarks takes a number with solver 'cg': the rank of the preconditioner")
        require(lambda a: jnp.all(a > 0), lam, message=f"lam must be positive with solver 'cg', got {lam}")
        tol = float(jnp.finfo(Y.dtype).eps) ** 0.65 if tol is None else tol
        *found, count = cg_ridge(kernel, X, Y, weights, lam, key, intercept, marks, tol, max_iter)
        return replace(expansion(samples, *found), num_iter=count)
    if isinstance(marks, int):
        points = choose_landmarks(kernel, X, marks, key, weights=weights)
    else:
        points = check_points(X, marks, "landmarks")[1]
    return expansion(samples._replace(X=points), *nystrom_ridge(kernel, X, Y, weights, points, lam, intercept))


@partial(jax.jit, static_argnames="intercept")
def _ridge(kernel, X, Y, weights, lam, intercept):
    return ridge_in(center(kernel, X, Y, weights, intercept), lam)


def ridge_in(data: Centred, lam: Array) -> tuple[Array, ...]:
    """Kernel ridge of a centred problem: α (n, t), b (t,), status, residual, gap, objective."""

    def one(Y, lam):
        fit = fit_one(data, Y, lam)
        left = lax.stop_gradient(Y - data.gram.matrix @ fit.seen - jnp.where(fit.seen == 0, 0, lam) * fit.seen)
        left = jnp.where(jnp.isinf(lam), 0, left)
        unseen = jnp.where(fit.factor.kept, 0, fit.factor.basis)
        left = left - unseen @ cross(unseen, left)  # no function reaches these directions
        largest, squares = jnp.max(jnp.abs(left), axis=0), jnp.sum(left**2, axis=0)
        return fit.seen, (largest, squares, jnp.broadcast_to(fit.factor.status, squares.shape))

    dual, (largest, squares, statuses) = over_targets(one, data.Y, lam)
    coef = data.root[:, None] * dual
    fitted = data.K @ coef
    b = data.mean_of(coef)
    errors = data.raw - b - fitted
    energy = jnp.einsum("it,it->t", coef, fitted)
    objective = jnp.einsum("i,it,it->", data.weights, errors, errors) + jnp.sum(jnp.where(energy == 0, 0, lam) * energy)
    residual = jnp.max(relative(largest, jnp.max(jnp.abs(data.Y), axis=0)))
    gap = relative(jnp.sum(squares), jnp.sum(lax.stop_gradient(data.Y) ** 2))
    status = worst(statuses)
    tolerance = float(jnp.finfo(coef.dtype).eps) ** 0.4
    status = jnp.where(succeeded(status) & (residual > tolerance), Status.ILL_CONDITIONED, status)
    finite = jnp.all(jnp.isfinite(coef)) & jnp.isfinite(residual) & jnp.isfinite(objective)
    status = jnp.where(succeeded(status) & ~finite, Status.NON_FINITE, status)
    status = jnp.where(data.status == Status.NOT_POSITIVE_DEFINITE, data.status, status)
    valid = (data.status != Status.INVALID) & jnp.all(lam >= 0)
    coef, b = (jnp.where(valid, a, jnp.nan) for a in (coef, b))
    status = jnp.where(valid, status, Status.INVALID).astype(jnp.int32)
    return coef, b, status, lax.stop_gradient(residual), gap, objective / 2


def kernel_gradient_descent(
    kernel: Any, X: Any, y: Any, step: Any, num_steps: Any, *, weights: Any = None, intercept: bool = False
) -> Solution:
    r"""The iterate of gradient descent in the space of a kernel after any number of steps, without iterating.

    On ½ Σᵢ vᵢ (yᵢ − f(xᵢ))² the iteration α ← α + ηV(y − Kα) from 0 has the closed form α = φ(K) y for unit weights,
    with φ(d) = (1 − (1 − ηd)ᵏ)/d. `num_steps` and `step` may be traced, and `jax.vmap` over them shares one
    eigendecomposition.

    Args:
        kernel, X, y, weights, intercept: as in `kernel_ridge`.
        step: η > 0, a scalar. The iterates converge for η < 2/λ₁(√vK√v); beyond it they are exact and grow, and the
            status is DIVERGED.
        num_steps: k ≥ 0, a scalar; fractional where ηλ₁ ≤ 1 (elsewhere the status is INVALID and the answer nan).

    Returns:
        A `Solution` whose `params` is a `KernelExpansion`; `residual` and `gap` say how far it is from interpolating.

    Example:
        >>> import jax.numpy as jnp, regjax
        >>> x = jnp.linspace(0, 6, 40)
        >>> fit = regjax.kernel_gradient_descent(regjax.kernels.RBF(1.0), x, jnp.sin(x), 0.1, 200)
        >>> print(bool(jnp.abs(fit.params(x) - jnp.sin(x)).max() < 0.05))
        True

    References:
        Yao, Rosasco & Caponnetto, On early stopping in gradient descent learning, Constr. Approx. 26 (2007).
    """
    samples = check_kernel_samples(kernel, X, y, weights)
    eta, count = check_steps(step, num_steps, samples.Y.dtype)
    coef, b, *rest = _descend(samples.kernel, samples.X, samples.Y, samples.weights, eta, count, intercept)
    return expansion(samples, coef, b, *rest)


@partial(jax.jit, static_argnames="intercept")
def _descend(kernel, X, Y, weights, eta, count, intercept):
    data = center(kernel, X, Y, weights, intercept)
    matrix = data.gram.matrix - data.gram.lift * jnp.outer(data.unit, data.unit)
    spectrum = factors.spectrum(matrix)
    everywhere = spectrum._replace(kept=jnp.ones_like(spectrum.kept))  # α moves where the function does not
    dual = linalg.apply_function(descent_filter, everywhere, matrix, data.Y, (eta, count))
    status = descent_status(eta * jnp.max(spectrum.values), eta, count)
    status = jnp.where(data.status != Status.CONVERGED, data.status, status)
    known = (status != Status.INVALID) & jnp.all(jnp.isfinite(dual))
    status = jnp.where((status == Status.CONVERGED) & ~known, Status.NON_FINITE, status).astype(jnp.int32)
    coef = jnp.where(status == Status.INVALID, jnp.nan, data.root[:, None] * dual)
    b = data.mean_of(coef)
    errors = data.raw - b - data.K @ coef
    left = lax.stop_gradient(data.root[:, None] * errors)
    left = spectrum.vectors @ jnp.where(spectrum.kept[:, None], cross(spectrum.vectors, left), 0)
    residual = jnp.max(relative(jnp.max(jnp.abs(left), axis=0), jnp.max(jnp.abs(data.Y), axis=0)))
    gap = relative(jnp.sum(left**2), jnp.sum(data.Y**2))
    objective = jnp.einsum("i,it,it->", data.weights, errors, errors) / 2
    return coef, b, status, *lax.stop_gradient((residual, gap)), objective
