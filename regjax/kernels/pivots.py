"""Randomly pivoted Cholesky: a few points whose kernel functions stand for all, without the Gram matrix."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from regjax.kernels.kernel import Kernel

BLOCK = 32  # the most pivots that are drawn at a time


class Pivots(NamedTuple):
    """Points `indices` (m,), and the factor F (n, m) with K ≈ FFᵀ, exact in their rows and columns."""

    indices: Array
    factor: Array


@partial(jax.jit, static_argnames="num")
def random_pivots(kernel: Kernel, X: Any, num: int, key: Array, weights: Array | None = None) -> Pivots:
    """Draw `num` points one block after the other, each with the probability of what is not explained of k(x, x).

    Points of weight zero come after all others.

    O(n·num) kernel values and memory, O(n·num²) time. Within a block points are drawn without replacement, and what
    they share is sorted out by a Cholesky factorization of their block.

    References:
        Chen, Epperly, Tropp & Webber, Randomly pivoted Cholesky, Comm. Pure Appl. Math. 78 (2025).
    """
    kernel, X = lax.stop_gradient((kernel, X))
    n = len(jax.tree.leaves(X)[0])
    block = max(1, min(BLOCK, num // 10))  # those of one block do not know of each other
    count = -(-num // block)
    diagonal = jax.vmap(lambda x: kernel(x, x))(X)
    if weights is not None:
        diagonal = jnp.where(weights > 0, diagonal, 0)
    jitter = block * jnp.finfo(diagonal.dtype).eps * jnp.max(diagonal)

    def draw(carry, inputs):
        factor, left = carry
        place, key = inputs
        gumbel = jax.random.gumbel(key, (n,), left.dtype)
        chosen = lax.top_k(jnp.log(left) + gumbel, block)[1]
        columns = kernel.matrix(X, jax.tree.map(lambda a: a[chosen], X)) - factor @ factor[chosen].T
        core = columns[chosen]
        lower = jnp.linalg.cholesky((core + core.T) / 2 + jitter * jnp.eye(block, dtype=core.dtype))
        new = lax.linalg.triangular_solve(lower, columns, left_side=False, lower=True, transpose_a=True)
        factor = lax.dynamic_update_slice(factor, new, (0, place * block))
        left = jnp.maximum(left - jnp.einsum("ij,ij->i", new, new), 0).at[chosen].set(0)
        return (factor, left), chosen

    start = (jnp.zeros((n, count * block), diagonal.dtype), diagonal)
    (factor, _), indices = lax.scan(draw, start, (jnp.arange(count), jax.random.split(key, count)))
    return Pivots(indices.reshape(-1)[:num], factor[:, :num])
