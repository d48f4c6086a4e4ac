"""Distances between all pairs of points, exactly zero between equal ones, with derivatives that are matrix products."""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from jax import Array, lax

FEW = 32  # columns up to which adding up differences column by column costs no more than what a kernel does next


@partial(jax.custom_jvp, nondiff_argnums=(2,))
def squared_distances(X: Array, Z: Array, exact: bool = False) -> Array:
    """‖xᵢ − zⱼ‖² (n, m) for X (n, p) and Z (m, p), centred points.

    Differences are squared and added, so that close points keep all their digits. With more than 32 columns it is
    ‖x‖² + ‖z‖² − 2xᵀz, a matrix product with an absolute error of some eps·(‖x‖² + ‖z‖²), unless `exact` asks for
    differences: for kernels with a cusp.

    What is within rounding of zero is zero. Equal points need it too: where XLA computes x/s again inside of a fused
    loop, with a rounding of its own, their difference is not zero, and the slope of a cusp there is anything.
    """
    eps = jnp.finfo(X.dtype).eps
    squares_x, squares_z = (jnp.einsum("ij,ij->i", A, A) for A in (X, Z))
    total = squares_x[:, None] + squares_z
    if X.shape[1] <= FEW or exact:
        distances, rounding = _by_columns(X, Z, lambda x, z: (x - z) ** 2), (2 * eps) ** 2
    else:
        distances, rounding = total - 2 * _product(X, Z), 8 * eps
    return jnp.where(distances <= rounding * total, 0, distances)  # a nan stays


@squared_distances.defjvp
def _squared_distances_jvp(exact, primals, tangents):
    """2(x − z)ᵀ(dx − dz) by products of matrices: the derivative of differences would be a pass for every column.

    Its rounding is relative to the extent of the points, some eps·‖x‖‖dx‖: of note where that is thousands of scales.
    """
    (X, Z), (dX, dZ) = primals, tangents
    along_x, along_z = jnp.einsum("ij,ij->i", X, dX), jnp.einsum("ij,ij->i", Z, dZ)
    tangent = 2 * (along_x[:, None] + along_z - _product(X, dZ) - _product(dX, Z))
    return squared_distances(*primals, exact), tangent


def absolute_distances(X: Array, Z: Array) -> Array:
    """‖xᵢ − zⱼ‖₁ (n, m); a difference within rounding of zero is zero, and so is its derivative."""
    rounding = 2 * float(jnp.finfo(X.dtype).eps)

    def measure(x, z):
        size = jnp.abs(x - z)
        return jnp.where(size <= rounding * (jnp.abs(x) + jnp.abs(z)), 0, size)

    return _by_columns(X, Z, measure)


def _product(X: Array, Z: Array) -> Array:
    return jnp.einsum("ip,jp->ij", X, Z, precision="highest")


def _by_columns(X: Array, Z: Array, measure: Callable[[Array, Array], Array]) -> Array:
    """Σₚ measure(xᵢₚ, zⱼₚ), a few columns at a time."""

    def add(total, columns):
        for x, z in zip(*columns, strict=True):
            total = total + measure(x[:, None], z)
        return total

    total = jnp.zeros((len(X), len(Z)), X.dtype)
    whole = X.shape[1] // FEW * FEW
    if whole:
        blocks = tuple(A[:, :whole].T.reshape(-1, FEW, len(A)) for A in (X, Z))
        total = lax.scan(lambda total, columns: (add(total, columns), None), total, blocks)[0]
    return add(total, (X[:, whole:].T, Z[:, whole:].T))
