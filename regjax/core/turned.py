"""A matrix by its columns: each one after the other in memory, about means and scaled without a copy of its own."""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from regjax.core.products import cross


class Turned(NamedTuple):
    """(A − 1mᵀ)·diag(s) for A (n, p): matrices that differ in m and s alone share the memory of Aᵀ.

    Attributes:
        rows: Aᵀ (p, n).
        mean: m (p,), small beside the deviations of a column, or their differences from it lose digits.
        scale: s (p,).
    """

    rows: Array
    mean: Array
    scale: Array

    @classmethod
    def of(cls, A: Array) -> "Turned":
        """A itself."""
        return cls(lax.optimization_barrier(A.T), jnp.zeros_like(A[0]), jnp.ones_like(A[0]))

    @property
    def shape(self) -> tuple[int, int]:
        """(n, p)."""
        p, n = self.rows.shape
        return n, p

    @property
    def dtype(self):
        """That of the entries."""
        return self.rows.dtype

    def __matmul__(self, W: Array) -> Array:
        """The matrix times W (p, t)."""
        W = self.scale[:, None] * W
        return cross(self.rows, W) - self.mean @ W

    def cross(self, S: Array) -> Array:
        """Its transpose times S (n, t)."""
        return self.scale[:, None] * (self.rows @ S - jnp.outer(self.mean, jnp.sum(S, axis=0)))

    def cross_of_sizes(self, S: Array) -> Array:
        """The transpose of its absolute values times S (n, t)."""
        return jnp.abs(self.scale)[:, None] * (jnp.abs(self.rows - self.mean[:, None]) @ S)

    def columns(self, index: Array) -> Array:
        """Those with these numbers, as rows (k, n)."""
        return self.scale[index][:, None] * (self.rows[index] - self.mean[index][:, None])
