"""How good a kernel and a λ are, from one factorization: exact leave-one-out, GCV, marginal likelihood."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from regjax.core import linalg
from regjax.core.checks import check_strength, require
from regjax.core.implicit import with_derivative_of
from regjax.core.products import cross
from regjax.core.solution import Status
from regjax.models.kernel_problem import Centred, center, check_kernel_samples, fit_one, where_defined
from regjax.models.kernel_ridge import kernel_ridge
from regjax.models.penalized import dual_left_out, over_targets


def kernel_loo_residuals(
    kernel: Any, X: Any, y: Any, lam: Any, *, weights: Any = None, intercept: bool = False
) -> Array:
    r"""Exact leave-one-out residuals of `kernel_ridge`: yᵢ minus the prediction of the fit without sample i.

    eᵢ = (G⁻¹y)ᵢ/(G⁻¹)ᵢᵢ with G = K + λV⁻¹: no refit, and under `jax.vmap` over λ no second factorization.
    Differentiable with respect to the hyperparameters of the kernel. A sample of weight zero has its ordinary
    residual; nan marks a sample without which the problem cannot be solved to working precision.

    Args:
        kernel, X, y, lam, weights, intercept: as in `kernel_ridge`.

    Returns:
        An array of the shape of y.

    Example:
        >>> import jax, jax.numpy as jnp, regjax
        >>> x = jnp.linspace(0, 6, 30)
        >>> y = jnp.sin(x) + 0.2 * jnp.cos(40 * x)
        >>> error = lambda s: jnp.sum(regjax.kernel_loo_residuals(regjax.kernels.RBF(s), x, y, 0.1) ** 2)
        >>> print(jax.vmap(error)(jnp.array([0.1, 1.0, 10.0])).argmin())
        1

    References:
        Wahba, Spline Models for Observational Data, SIAM 1990, section 4.2.
    """
    samples, lam = _checked(kernel, X, y, lam, weights)
    errors = _loo(samples.kernel, samples.X, samples.Y, samples.weights, lam, intercept)
    if samples.weights is not None:
        model = kernel_ridge(samples.kernel, samples.X, samples.Y, lam, weights=samples.weights, intercept=intercept)
        absent = samples.Y - where_defined(model.params, samples.given, samples.X)
        errors = jnp.where((samples.weights > 0)[:, None], errors, absent)
    return samples.per_target(errors)


def kernel_gcv(kernel: Any, X: Any, y: Any, lam: Any, *, weights: Any = None, intercept: bool = False) -> Array:
    r"""Generalized cross-validation of `kernel_ridge`: n Σ v r²/(n − tr H)², n the samples of positive weight.

    Args:
        kernel, X, y, lam, weights, intercept: as in `kernel_ridge`.

    Returns:
        A scalar, or one per target (t,).

    Example:
        >>> import jax.numpy as jnp, regjax
        >>> print(regjax.kernel_gcv(regjax.kernels.Linear(), jnp.eye(2), jnp.array([2.0, 2.0]), 1.0).round(4))
        4.0

    References:
        Golub, Heath & Wahba, Generalized cross-validation, Technometrics 21 (1979).
    """
    samples, lam = _checked(kernel, X, y, lam, weights)
    return samples.per_target(_gcv(samples.kernel, samples.X, samples.Y, samples.weights, lam, intercept))


def kernel_log_likelihood(
    kernel: Any, X: Any, y: Any, lam: Any, *, weights: Any = None, intercept: bool = False
) -> Array:
    r"""log N(y; 0, K + λV⁻¹), the log marginal likelihood of the Gaussian process whose mean is `kernel_ridge`.

    With an intercept, which has a flat prior, it is the restricted likelihood. `jax.vmap` over λ shares one
    eigendecomposition.

    Args:
        kernel, X, y, lam, weights, intercept: as in `kernel_ridge`; λ > 0, since a singular K has no density.

    Returns:
        A scalar, or one per target (t,).

    Example:
        >>> import jax.numpy as jnp, regjax
        >>> print(f"{regjax.kernel_log_likelihood(regjax.kernels.Linear(), jnp.eye(2), jnp.zeros(2), 1.0):.3f}")
        -2.531

    References:
        Rasmussen & Williams, Gaussian Processes for Machine Learning, MIT Press 2006, section 2.7 and chapter 5.
    """
    samples, lam = _checked(kernel, X, y, lam, weights)
    require(lambda a: jnp.all(a > 0), lam, message=f"lam must be positive in a likelihood, got {lam}")
    return samples.per_target(_log_likelihood(samples.kernel, samples.X, samples.Y, samples.weights, lam, intercept))


def _checked(kernel, X, y, lam, weights):
    samples = check_kernel_samples(kernel, X, y, weights)
    return samples, check_strength("lam", lam, samples.Y.dtype, samples.Y.shape[1])


def _left_out(data: Centred, Y: Array, lam: Array) -> tuple[Array, Array]:
    """Residuals √v r and 1 − h, both over λ: (n, t) and (n, 1)."""
    fit = fit_one(data, Y, lam)
    scale, left = dual_left_out(data.gram, fit.factor, data.unit, lam)
    found = fit.factor.basis @ (cross(fit.factor.basis, Y) / scale[:, None])
    return with_derivative_of(found, fit.dual), left[:, None]


@partial(jax.jit, static_argnames="intercept")
def _loo(kernel, X, Y, weights, lam, intercept):
    return loo_in(center(kernel, X, Y, weights, intercept), lam)


def loo_in(data: Centred, lam: Array) -> Array:
    """Leave-one-out residuals (n, t) of a centred problem."""
    present = (data.weights > 0)[:, None]

    def one(Y, lam):
        residuals, left = _left_out(data, Y, lam)
        errors = residuals / (left * jnp.where(present, data.root[:, None], 1))
        return jnp.where((data.status != Status.INVALID) & (lam >= 0), errors, jnp.nan)

    return over_targets(one, data.Y, lam)


@partial(jax.jit, static_argnames="intercept")
def _gcv(kernel, X, Y, weights, lam, intercept):
    data = center(kernel, X, Y, weights, intercept)
    present = (data.weights > 0)[:, None]
    count = jnp.sum(present)

    def one(Y, lam):
        residuals, left = _left_out(data, Y, lam)
        freedom = jnp.sum(jnp.where(present, left, 0))
        score = count * jnp.sum(residuals**2, axis=0) / freedom**2
        return jnp.where((data.status != Status.INVALID) & (lam >= 0), score, jnp.nan)

    return over_targets(one, data.Y, lam)


@partial(jax.jit, static_argnames="intercept")
def _log_likelihood(kernel, X, Y, weights, lam, intercept):
    data = center(kernel, X, Y, weights, intercept)
    present = data.weights > 0
    flat = jnp.any(data.unit > 0)

    def one(Y, lam):
        fit = fit_one(data, Y, lam)
        volume = linalg.logdet(fit.factor, data.gram.matrix, lam)
        # what was lifted has no part in it; the mean has the precision of its estimate, Σv, instead
        volume = volume - jnp.sum(~present) * jnp.log(data.gram.lift + lam)
        volume = volume - jnp.sum(jnp.where(present, jnp.log(jnp.where(present, data.weights, 1)), 0))
        volume = volume + jnp.where(flat, jnp.log(data.total) - jnp.log(data.gram.lift + lam), 0)
        count = jnp.sum(present) - jnp.where(flat, 1, 0)
        value = -(jnp.sum(Y * fit.dual, axis=0) + volume + count * jnp.log(2 * jnp.pi)) / 2
        value = jnp.where(jnp.isinf(lam), -jnp.inf, value)
        return jnp.where((data.status != Status.INVALID) & (lam > 0), value, jnp.nan)

    return over_targets(one, data.Y, lam)
