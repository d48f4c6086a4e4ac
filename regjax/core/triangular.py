"""Triangular matrices by halves: products of matrices do the work, and none is spent on the half that is zero."""

import jax.numpy as jnp
from jax import Array, lax

SMALL = 128  # rows at which halving ends


def triangular_inverse(lower: Array) -> Array:
    """L⁻¹ for a lower triangular L (n, n); a third of the arithmetic of n triangular solves."""
    n = len(lower)
    if n <= SMALL:
        return lax.linalg.triangular_solve(lower, jnp.eye(n, dtype=lower.dtype), left_side=True, lower=True)
    half = n // 2
    first, last = triangular_inverse(lower[:half, :half]), triangular_inverse(lower[half:, half:])
    below = -(last @ (lower[half:, :half] @ first))
    return jnp.block([[first, jnp.zeros((half, n - half), lower.dtype)], [below, last]])


def triangular_inner(lower: Array) -> Array:
    """LᵀL for a lower triangular L (n, n); a third of the arithmetic of a product."""
    n = len(lower)
    if n <= SMALL:
        return lower.T @ lower
    half = n // 2
    first, last, below = lower[:half, :half], lower[half:, half:], lower[half:, :half]
    side = below.T @ last
    return jnp.block([[triangular_inner(first) + below.T @ below, side], [side.T, triangular_inner(last)]])
