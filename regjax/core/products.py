"""Products of matrices with many rows: AᵀB, and sums over rows."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from regjax.core.lanes import computes_on_cpu

_BLOCK = 2**19  # entries of a matrix that a core's cache can hold


def cross(A: Array, B: Array) -> Array:
    """AᵀB for A (n, p) and B (n, t); XLA's CPU backend computes `A.T @ B` many times slower where t is 1."""
    wide = B.shape[1] >= A.shape[1]
    if not computes_on_cpu() or (wide and A.dtype == jnp.float32 and jax.device_count() == 1):
        return jnp.einsum("ni,nt->it", A, B)
    # Of the narrower matrix a transposed copy, behind a barrier so that XLA does not turn it back into a contraction of
    # first axes. Its CPU backend leaves that to Eigen, which packs one block of A over another, and is wrong, where a
    # task that it queues is run at once: so it is when the pool's queue is full, after a thousand parallel steps of as
    # many programs (on other devices or threads) as the pool has threads. The other kernel is no slower, and up to 4
    # times as fast for few columns; but its sums have up to 7 times the rounding, which float32 cannot spare.
    if wide:
        return lax.optimization_barrier(A.T) @ B
    return lax.optimization_barrier(lax.optimization_barrier(B.T) @ A).T


def symmetric_product(A: Array, B: Array) -> Array:
    """AᵀB that is known to be symmetric, from three of its four quarters."""
    half = A.shape[1] // 2
    if half == 0:
        return cross(A, B)

    def quarters(A, B):
        across = cross(A[:, :half], B[:, half:])
        first, last = (cross(A[:, part], B[:, part]) for part in (slice(half), slice(half, None)))
        return first, across, last

    first, across, last = sum_over_rows(quarters, A, B)
    return jnp.block([[first, across], [across.T, last]])


def weighted_moments(X: Array, weights: Array) -> tuple[Array, Array]:
    """Σᵢ hᵢxᵢ (p,) and Σᵢ hᵢxᵢxᵢᵀ (p, p) for X (n, p) and h (n,), which is not negative."""

    def some(x, root):
        x = root[:, None] * x
        return root @ x, cross(x, x)

    return sum_over_rows(some, X, jnp.sqrt(weights))


def sum_over_rows(function: Callable[..., Any], X: Array, *arrays: Array) -> Any:
    """`function(X, *arrays)`, which is a sum over their rows.

    Of many rows on one CPU, block by block: what it makes of them is never written to memory, which saves a half.
    """
    n, p = X.shape
    rows = max(1, _BLOCK // max(p, 1))
    if n < 4 * rows or not computes_on_cpu() or jax.device_count() > 1:
        return function(X, *arrays)

    def block(k, sums):
        more = function(*(lax.dynamic_slice_in_dim(a, k * rows, rows) for a in (X, *arrays)))
        return jax.tree.map(jnp.add, sums, more)

    rest = n // rows * rows
    start = function(*(a[rest:] for a in (X, *arrays)))  # of no rows: 0
    return lax.fori_loop(0, n // rows, block, start)
