"""A Gaussian process made ready: checked, weighted, its prior mean taken off; and its likelihoods."""

import math
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from regjax.core import gaussian
from regjax.core.checks import as_float_array, check_finite, require
from regjax.core.factors import Factor
from regjax.core.linalg import quad_diag
from regjax.kernels.kernel import Kernel
from regjax.kernels.maps import as_callable_tree
from regjax.models.kernel_problem import KernelSamples, check_kernel_samples
from regjax.models.problem import silence


def check_process(kernel: Any, X: Any, y: Any, noise: Any, mean: Any, weights: Any) -> tuple[KernelSamples, Array, Any]:
    """Check the arguments of a Gaussian process; raises `ValueError` with the argument's name."""
    samples = check_kernel_samples(kernel, X, y, weights)
    n, t = samples.Y.shape
    dtype = samples.Y.dtype
    noise = as_float_array("noise", noise).astype(dtype)
    if noise.shape not in ((), (n,)):
        raise ValueError(f"noise has shape {noise.shape}: it takes a scalar, or one variance per sample, ({n},)")
    require(lambda a: jnp.all(a >= 0), noise, message=f"noise is a variance and must be non-negative, got {noise}")
    check_finite("noise", noise.reshape(-1))
    if samples.weights is not None:
        samples = samples._replace(Y=silence(samples.Y, samples.weights))
    return samples, noise, check_mean(mean, dtype, None if samples.single else t)


def check_mean(mean: Any, dtype: Any, num_targets: int | None) -> Any:
    """A prior mean as a callable pytree, or an array: a scalar, or one per target."""
    if callable(mean):
        return as_callable_tree(mean)
    array = as_float_array("mean", 0.0 if mean is None else mean).astype(dtype)
    if array.shape != () and array.shape != (num_targets,):
        takes = "a scalar" if num_targets is None else f"a scalar or one per target, ({num_targets},),"
        raise ValueError(f"mean has shape {array.shape}: it takes {takes} or a function of points")
    check_finite("mean", array.reshape(-1))
    return array


def count_targets(Y: Array, weights: Array | None) -> Array:
    """How many numbers there are in Y (n, t), at least 1; those of samples of weight zero do not count."""
    samples = len(Y) if weights is None else jnp.maximum(jnp.sum(weights > 0), 1)
    return jnp.asarray(samples * Y.shape[1], Y.dtype)


def mean_at(mean: Any, Z: Any) -> Any:
    """The prior mean at m points: something that broadcasts against (m,) or (m, t)."""
    return mean(Z) if callable(mean) else mean


class Prior(NamedTuple):
    """r ~ N(0, A) with weights in: r = √v (y − m), A = √v K √v + N; samples of weight zero are N(0, 1) and 0.

    Attributes:
        K: √v K √v (n, n). shift: the diagonal N (n,). R: (n, t).
        root: √v (n,), None without weights.
    """

    K: Array
    shift: Array
    R: Array
    root: Array | None

    @property
    def A(self) -> Array:
        """K + N."""
        return self.K + self.shift * jnp.eye(len(self.R), dtype=self.R.dtype)


def prior(kernel: Kernel, X: Any, Y: Array, noise: Array, mean: Any, weights: Array | None) -> Prior:
    """Covariance and residuals of the samples."""
    K = kernel.matrix(X)
    shift = mean_at(mean, X)
    R = Y - (shift[:, None] if jnp.ndim(shift) == 1 and callable(mean) else shift)
    if weights is None:
        return Prior(K, jnp.broadcast_to(noise, len(Y)), R, None)
    present = weights > 0
    root = jnp.where(present, jnp.sqrt(jnp.where(present, weights, 1)), 0)
    return Prior(root[:, None] * K * root, jnp.where(present, noise, 1), root[:, None] * R, root)


def log_likelihood(prior: Prior, factor: Factor, alpha: Array) -> Array:
    """log p(y) for each target (t,), in the units of y, from the factor of A and α = A⁻¹r."""
    return gaussian.log_density(factor, prior.K, prior.shift, prior.R, alpha) + _change_of_units(prior)


def _change_of_units(prior: Prior) -> Array | float:
    if prior.root is None:
        return 0.0
    present = prior.root > 0
    return jnp.sum(jnp.where(present, jnp.log(jnp.where(present, prior.root, 1)), math.log(2 * math.pi) / 2))


class LeaveOneOut(NamedTuple):
    """The prediction of each sample from all others; nan for samples of weight zero.

    Attributes:
        mean: (n,) or (n, t).
        variance: of the observation, with its noise (n,).
        log_density: log p(yᵢ | all others) (n,) or (n, t).
    """

    mean: Array
    variance: Array
    log_density: Array


def leave_one_out(prior: Prior, factor: Factor, alpha: Array, Y: Array) -> LeaveOneOut:
    """With P = A⁻¹ and α = Pr: rᵢ − αᵢ/Pᵢᵢ and 1/Pᵢᵢ, in the units of y; (n, t), (n,) and (n, t)."""
    precisions = quad_diag(factor, prior.A, None, jnp.zeros((), Y.dtype))
    errors, variance = alpha / precisions[:, None], 1 / precisions
    gone = jnp.zeros((), Y.dtype)
    if prior.root is not None:
        root = jnp.where(prior.root > 0, prior.root, 1)
        gone = jnp.where(prior.root > 0, gone, jnp.nan)[:, None]  # added last: who masks it gets finite derivatives
        errors, variance = errors / root[:, None], variance / root**2
    density = -(errors**2 / variance[:, None] + jnp.log(2 * jnp.pi * variance)[:, None]) / 2
    return LeaveOneOut(Y - errors + gone, variance + gone.reshape(-1), density + gone)
