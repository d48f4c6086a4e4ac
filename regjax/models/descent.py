"""Gradient descent on least squares, in closed form."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from regjax.core import factors, linalg
from regjax.core.checks import as_float_array, check_finite, require
from regjax.core.implicit import with_derivative_of
from regjax.core.products import cross
from regjax.core.solution import Solution, Status
from regjax.models.penalized import certificate, squares, summarize, without_zero_columns
from regjax.models.problem import center, check_design, check_samples


def gradient_descent(
    X: Any, y: Any, step: Any, num_steps: Any, init: Any = None, *, weights: Any = None, intercept: bool = True
) -> Solution:
    r"""The iterate of gradient descent on least squares after any number of steps, without iterating.

    On ½ Σᵢ vᵢ (yᵢ − b − xᵢw)² with b profiled out (weighted centring), the iteration w ← w + ηX̃ᵀV(ỹ − X̃w) has the
    closed form

        w_k = w₀ + φ(X̃ᵀVX̃) X̃ᵀV(ỹ − X̃w₀),   φ(d) = (1 − (1 − ηd)ᵏ)/d.

    Early stopping is a regularization of its own: `num_steps` and `step` may be traced, and `jax.vmap` over them shares
    one eigendecomposition. The limit is the minimum-norm solution plus the part of `init` in the null space of X̃.

    Args:
        X, y, weights, intercept: as in `ridge`.
        step: η > 0, a scalar. The iterates converge for η < `max_step(X)`; beyond it they are exact and grow, and the
            status is DIVERGED.
        num_steps: k ≥ 0, a scalar; fractional where ησ₁² ≤ 1 (elsewhere the status is INVALID and the answer nan).
        init: w₀, like the coefficients; 0 if None.

    Returns:
        A `Solution`: `status` says whether the iterate was computed, `residual` and `gap` how far it is from the least
        squares solution.

    Example:
        >>> import jax, jax.numpy as jnp, regjax
        >>> X, y = jnp.array([[1.0], [2.0], [3.0]]), jnp.array([1.0, 2.0, 3.0])
        >>> steps = jnp.array([0, 1, 1000])
        >>> fit = jax.vmap(lambda k: regjax.gradient_descent(X, y, 0.1, k))(steps)
        >>> print(fit.params.coef[:, 0].round(3))
        [0.  0.2 1. ]

    References:
        Ali, Kolter & Tibshirani, A continuous-time view of early stopping for least squares, AISTATS 2019.
    """
    samples = check_samples(X, y, weights)
    dtype = samples.X.dtype
    eta, count = check_steps(step, num_steps, dtype)
    start = jnp.zeros((samples.X.shape[1], samples.Y.shape[1]), dtype)
    if init is not None:
        trailing = () if samples.single else (samples.Y.shape[1],)
        init = jax.tree.map(lambda a: as_float_array("init", a).astype(dtype), init)
        start = samples.structure.ravel(init, trailing, "init").reshape(start.shape)
    coef, data, proof = _descend(samples.X, samples.Y, samples.weights, eta, count, start, intercept)
    return summarize(samples, data, coef, data.intercept_of(coef), eta, proof, certified=False)


def check_steps(step: Any, num_steps: Any, dtype: Any) -> tuple[Array, Array]:
    """The step and the number of steps: scalars, positive and non-negative."""
    eta, count = (as_float_array(name, a).astype(dtype) for name, a in (("step", step), ("num_steps", num_steps)))
    for name, value in (("step", eta), ("num_steps", count)):
        if value.ndim:
            raise ValueError(f"{name} has shape {value.shape}: it takes a scalar (use jax.vmap for a grid)")
        check_finite(name, value[None])
    require(lambda a: a > 0, eta, message=f"step must be positive, got {eta}")
    require(lambda a: a >= 0, count, message=f"num_steps must be non-negative, got {count}")
    return eta, count


@partial(jax.jit, static_argnames="intercept")
def _descend(X, Y, weights, eta, count, start, intercept):
    data = center(X, Y, weights, intercept)
    n, p = X.shape
    scaled = data.scaled_x
    theta = (eta, count)
    if p <= n:
        root = (scaled.T,)
        matrix = cross(data.X * data.weights[:, None], data.X)
        spectrum = factors.spectrum(matrix, root)
        gradient = cross(data.X, data.weights[:, None] * (data.Y - data.X @ start))
        coef = start + linalg.apply_function(descent_filter, spectrum, matrix, gradient, theta)
    else:
        root = (scaled,)
        matrix = scaled @ scaled.T
        spectrum = factors.spectrum(matrix, root)
        residuals = data.scaled_y - scaled @ start
        coef = start + cross(scaled, linalg.apply_function(descent_filter, spectrum, matrix, residuals, theta))
    coef = without_zero_columns(data, coef, start)
    residuals = data.Y - data.X @ coef
    gradient = cross(data.X, data.weights[:, None] * residuals)
    positive = spectrum.kept & (spectrum.values > 0)
    along = cross(spectrum.vectors, gradient if p <= n else data.root[:, None] * residuals)
    size = jnp.where(positive, spectrum.values if p <= n else 1, jnp.inf)
    gap = jnp.sum(along**2 / size[:, None], axis=0) / 2
    status = descent_status(eta * jnp.max(spectrum.values), eta, count)
    coef = jnp.where(status == Status.INVALID, jnp.nan, coef)
    return coef, data, certificate(data, data.Y, gradient, gap, squares(data, residuals) / 2, status)


def descent_status(rate: Array, eta: Array, count: Array) -> Array:
    """Whether the iterate exists and converges, by the step times the largest eigenvalue."""
    fractional = count != jnp.round(count)
    status = jnp.where(rate >= 2, Status.DIVERGED, Status.CONVERGED)
    return jnp.where((fractional & (rate > 1)) | (eta <= 0) | (count < 0), Status.INVALID, status)


def descent_filter(d: Array, theta: tuple[Array, Array]) -> Array:
    """(1 − (1 − ηd)ᵏ)/d, to full precision for small ηd and for ηd > 1 (then k is a whole number)."""
    eta, k = theta
    x = eta * jnp.maximum(d, 0)
    series = jnp.maximum(k, 1) * x < 1e-3
    small = jnp.where(series, x, 0)
    by_series = k * (1 - (k - 1) * small / 2 * (1 - (k - 2) * small / 3 * (1 - (k - 3) * small / 4)))
    far = jnp.where(series, 0.5, x)
    below = jnp.where(far < 1, far, 0.5)
    decay = -jnp.expm1(k * jnp.log1p(-below))
    above = jnp.where(far > 1, far, 1.5)
    sign = jnp.where(jnp.mod(k, 2) == 1, -1, 1)
    swing = 1 - sign * jnp.exp(k * jnp.log(above - 1))
    at_one = jnp.where(k > 0, 1.0, 0.0)
    share = jnp.where(far < 1, decay, jnp.where(far > 1, swing, at_one))
    return eta * jnp.where(series, by_series, share / far)


def max_step(X: Any, *, weights: Any = None, intercept: bool = True) -> Array:
    r"""2/σ₁², the step from which gradient descent on least squares no longer converges.

    Args:
        X: (n, p), or a pytree of arrays with n samples in front.
        weights, intercept: as in `gradient_descent`, whose design is weighted and centred.

    Example:
        >>> import jax.numpy as jnp, regjax
        >>> print(regjax.max_step(jnp.array([[1.0], [2.0], [3.0]])))
        1.0
    """
    matrix, weights = check_design(X, weights)
    return _max_step(matrix, weights, intercept)


@partial(jax.jit, static_argnames="intercept")
def _max_step(X, weights, intercept):
    data = center(X, jnp.zeros((len(X), 1), X.dtype), weights, intercept)
    scaled = data.scaled_x if X.shape[1] <= X.shape[0] else data.scaled_x.T
    decomposition = factors.spectrum(cross(scaled, scaled), (scaled.T,))
    top = jnp.argmax(decomposition.values)
    image = scaled @ lax.stop_gradient(decomposition.vectors[:, top])
    return jnp.where(data.valid, 2 / with_derivative_of(decomposition.values[top], image @ image), jnp.nan)
