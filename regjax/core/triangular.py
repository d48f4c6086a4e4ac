"""Triangular matrices by halves: products of matrices do the work, and none is spent on the half that is zero."""

import jax.numpy as jnp
from jax import Array, lax

from regjax.core.products import cross


def _small(n: int) -> int:
    """Rows at which halving ends: where calls cost more than arithmetic, and within some eight pieces to compile."""
    return min(max(n // 8, 32), 128)


def triangular_inverse(lower: Array, small: int | None = None) -> Array:
    """L⁻¹ for a lower triangular L (n, n); a third of the arithmetic of n triangular solves."""
    n = len(lower)
    small = _small(n) if small is None else small
    if n <= small:
        return lax.linalg.triangular_solve(lower, jnp.eye(n, dtype=lower.dtype), left_side=True, lower=True)
    half = n // 2
    first, last = (triangular_inverse(part, small) for part in (lower[:half, :half], lower[half:, half:]))
    below = -(last @ (lower[half:, :half] @ first))
    return jnp.block([[first, jnp.zeros((half, n - half), lower.dtype)], [below, last]])


def triangular_inner(lower: Array, small: int | None = None) -> Array:
    """LᵀL for a lower triangular L (n, n); a third of the arithmetic of a product."""
    n = len(lower)
    small = _small(n) if small is None else small
    if n <= small:
        return cross(lower, lower)
    half = n // 2
    first, last, below = lower[:half, :half], lower[half:, half:], lower[half:, :half]
    side = cross(below, last)
    return jnp.block(
        [[triangular_inner(first, small) + cross(below, below), side], [side.T, triangular_inner(last, small)]]
    )
