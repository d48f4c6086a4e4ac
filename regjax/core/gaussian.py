"""Gaussian vectors: density and precision from one factorization of the covariance, with derivatives of their own."""

import math

import jax
import jax.numpy as jnp
from jax import Array, lax

from regjax.core import linalg
from regjax.core.factors import Factor, grow_jitter
from regjax.core.lanes import lane_by_lane
from regjax.core.solution import Status
from regjax.core.triangular import triangular_inner, triangular_inverse


def factor_covariance(A: Array, *, largest: float | None = None) -> tuple[Factor, Array]:
    """The factor A + jitter·I = T⁻ᵀT⁻¹ for the smallest jitter that lets it exist, and that jitter.

    Args:
        A: (n, n), symmetric.
        largest: the largest jitter to try, relative to the mean of the diagonal. If None it is eps^¼: 1e-4 in float64,
            2e-2 in float32. 0 allows none.

    Returns:
        A `Factor` with T upper triangular, not differentiable, whose status is CONVERGED, JITTERED,
        NOT_POSITIVE_DEFINITE or NON_FINITE; and the jitter.
    """
    limit = float(jnp.finfo(A.dtype).eps) ** 0.25 if largest is None else largest
    return _factor_covariance(lax.stop_gradient(A), jnp.asarray(limit, A.dtype) if limit else None)


@lane_by_lane
def _factor_covariance(A, largest):
    lower, jitter, status = grow_jitter(A, largest, jnp.mean(jnp.diagonal(A)))
    status = jnp.where((status == Status.CONVERGED) & (jitter > 0), Status.JITTERED, status).astype(jnp.int32)
    logdet = 2 * jnp.sum(jnp.log(jnp.diagonal(lower)))
    ones = jnp.ones(len(A), A.dtype)
    return Factor(triangular_inverse(lower).T, ones > 0, ones, logdet, status), jitter


def solve(factor: Factor, A: Array, R: Array) -> Array:
    """A⁻¹R for R (n, t), differentiable in A and R; Cholesky keeps the digits of small columns without refinement."""
    return linalg.solve(factor, A, R, jnp.zeros((), A.dtype), refine=False)


@jax.custom_jvp
def precision(factor: Factor, A: Array) -> Array:
    """A⁻¹ (n, n), differentiable in A."""
    del A
    return triangular_inner(factor.basis.T)


@precision.defjvp
def _precision_jvp(primals, tangents):
    inverse = precision(*primals)
    return inverse, -inverse @ tangents[1] @ inverse


@jax.custom_jvp
def whitener(factor: Factor, A: Array) -> Array:
    """W (n, n), lower triangular, with WAWᵀ = I: the inverse of the Cholesky factor, differentiable in A."""
    del A
    return factor.basis.T


@whitener.defjvp
def _whitener_jvp(primals, tangents):
    """dW = −Φ(W dA Wᵀ)W, where Φ keeps what is below the diagonal and half of what is on it."""
    W = whitener(*primals)
    change = W @ tangents[1] @ W.T
    return W, -(jnp.tril(change, -1) + jnp.eye(len(W), dtype=W.dtype) * change / 2) @ W


@jax.custom_jvp
def log_density(factor: Factor, K: Array, shift: Array, R: Array, alpha: Array) -> Array:
    """log N(r; 0, A), A = K + diag(shift), for each column of R (n, t): (t,), from the factor of A and α = A⁻¹R.

    Differentiable in K, the shift and R: the derivative is ½⟨ααᵀ − A⁻¹, dA⟩ − ⟨α, dr⟩, which does not go through the
    factorization. Derivatives of it do go through α.
    """
    del K, shift
    return -(jnp.sum(R * alpha, axis=0) + factor.logdet + len(R) * math.log(2 * math.pi)) / 2


@log_density.defjvp
def _log_density_jvp(primals, tangents):
    factor, K, shift, _, alpha = primals
    _, dK, dshift, dR, _ = tangents
    inverse = precision(factor, K + shift * jnp.eye(len(K), dtype=K.dtype))
    volume = jnp.sum(inverse * dK) + jnp.diagonal(inverse) @ dshift
    square = jnp.sum(alpha * (dK @ alpha), axis=0) + dshift @ alpha**2
    tangent = (square - volume) / 2 - jnp.sum(alpha * dR, axis=0)
    return log_density(*primals), tangent
