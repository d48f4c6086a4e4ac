"""Distances between all pairs of points, exactly zero between equal ones, with derivatives that are matrix products."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.custom_derivatives import SymbolicZero

from regjax.core.lanes import sees_lanes

FEW = 32  # columns up to which adding up differences column by column costs no more than what a kernel does next


@partial(jax.custom_jvp, nondiff_argnums=(3,))
def squared_distances(X: Array, Z: Array, ratios: Array, exact: bool = False) -> Array:
    """Σⱼ ρⱼ (xᵢⱼ − zₖⱼ)² (n, m) for X (n, p) and Z (m, p), centred points in units of their scales.

    Differences are squared and added, so that close points keep all their digits. With more than 32 columns it is
    ‖x‖² + ‖z‖² − 2xᵀz, a matrix product with an absolute error of some eps·(‖x‖² + ‖z‖²), where that is little; unless
    `exact` asks for differences: for kernels with a cusp. Derivatives in the ratios are by products, too, where those
    are accurate enough: in reverse that is one product of the cotangent with X and Z for all columns.

    What is within rounding of zero is zero. Equal points need it too: where XLA computes x/s again inside of a fused
    loop, with a rounding of its own, their difference is not zero, and the slope of a cusp there is anything.

    Args:
        X, Z: points.
        ratios: ρ, a scalar or (p,), all 1 in value: what scales do to distances, for derivatives with the digits of
            distances. Those of X/s would have an error of some eps·‖x‖², which a cusp divides by ‖x − z‖.
        exact: whether to take differences, whatever they cost.
    """
    eps = jnp.finfo(X.dtype).eps
    distances, wide = _squares(X, Z, None, exact or X.shape[1] <= FEW)
    rounding = jnp.where(wide, (2 * eps) ** 2, 8 * eps)
    return jnp.where(distances <= rounding * _total(X, Z), 0, distances)  # a nan stays


def _squared_distances_jvp(exact, primals, tangents):
    """2(x − z)ᵀ(dx − dz) by products of matrices: the derivative of differences would be a pass for every column."""
    X, Z, ratios = primals
    distances = squared_distances(*primals, exact)
    dX, dZ, change = (None if isinstance(tangent, SymbolicZero) else tangent for tangent in tangents)
    tangent = jnp.zeros_like(distances)
    if change is not None and change.ndim == 0:
        tangent = tangent + distances / ratios * change
    elif change is not None:
        tangent = tangent + _squares(X, Z, change, exact)[0]
    if dX is not None:
        tangent = tangent + 2 * (jnp.einsum("ij,ij->i", X * ratios, dX)[:, None] - _product(dX, Z * ratios))
    if dZ is not None:
        tangent = tangent + 2 * (jnp.einsum("ij,ij->i", Z * ratios, dZ) - _product(X * ratios, dZ))
    return distances, tangent


squared_distances.defjvp(_squared_distances_jvp, symbolic_zeros=True)


def _squares(X: Array, Z: Array, factors: Array | None, exact: bool) -> tuple[Array, Any]:
    """Σⱼ fⱼ (xⱼ − zⱼ)² by differences and True, or by products and False where those are accurate enough.

    Without factors they are 1.
    """
    if exact:
        return _by_differences(X, Z, factors), True
    wide = _are_wide(*lax.stop_gradient((X, Z)))
    return lax.cond(wide, _by_differences, _by_product, X, Z, factors), wide


def _are_wide(X: Array, Z: Array) -> Array:
    """Whether eps·(‖x‖² + ‖z‖²) exceeds eps^0.6 (4e-10, 7e-5 in float32) for some pair, in any lane of a `jax.vmap`.

    One answer for all lanes, since under `jax.vmap` a `lax.cond` with one for each would compute both ways.
    """
    extent = sum(jnp.max(jnp.einsum("ij,ij->i", A, A)) for A in (X, Z))
    return ~(_over_lanes(extent) <= float(jnp.finfo(X.dtype).eps) ** -0.4)  # a nan leaves the others their digits


_over_lanes = sees_lanes(lambda values: jnp.max(values, keepdims=True))


def _by_differences(X: Array, Z: Array, factors: Array | None) -> Array:
    if factors is None:
        return _by_columns(lambda x, z: (x - z) ** 2, (X,), (Z,))
    each = jnp.broadcast_to(factors, (1, len(factors)))
    return _by_columns(lambda x, z, factor: factor * (x - z) ** 2, (X,), (Z, each))


def _by_product(X: Array, Z: Array, factors: Array | None) -> Array:
    return _total(X, Z, factors) + _product(-2 * X if factors is None else -2 * factors * X, Z)


def _total(X: Array, Z: Array, factors: Array | None = None) -> Array:
    squares_x, squares_z = (jnp.einsum("ij,ij->i", A if factors is None else factors * A, A) for A in (X, Z))
    return squares_x[:, None] + squares_z


def absolute_distances(X: Array, Z: Array) -> Array:
    """‖xᵢ − zⱼ‖₁ (n, m); a difference within rounding of zero is zero, and so is its derivative."""
    rounding = 2 * float(jnp.finfo(X.dtype).eps)

    def measure(x, z):
        size = jnp.abs(x - z)
        return jnp.where(size <= rounding * (jnp.abs(x) + jnp.abs(z)), 0, size)

    return _by_columns(measure, (X,), (Z,))


def _product(X: Array, Z: Array) -> Array:
    return jnp.einsum("ip,jp->ij", X, Z, precision="highest")


def _by_columns(measure: Callable[..., Array], rows: tuple[Array, ...], columns: tuple[Array, ...]) -> Array:
    """Σₚ measure(aᵢₚ, …, bⱼₚ, …) for a in `rows`, b in `columns`, a few p at a time."""

    @jax.checkpoint  # derivatives compute differences again rather than keep them for every column
    def add(total, parts):
        for values in zip(*parts, strict=True):
            left, right = values[: len(rows)], values[len(rows) :]
            total = total + measure(*(a[:, None] for a in left), *right)
        return total

    total = jnp.zeros((len(rows[0]), len(columns[0])), rows[0].dtype)
    whole = rows[0].shape[1] // FEW * FEW
    if whole:
        blocks = tuple(A[:, :whole].T.reshape(-1, FEW, len(A)) for A in (*rows, *columns))
        total = lax.scan(lambda total, parts: (add(total, parts), None), total, blocks)[0]
    return add(total, tuple(A[:, whole:].T for A in (*rows, *columns)))
