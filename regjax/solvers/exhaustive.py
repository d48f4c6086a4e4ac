"""Every subset of the columns, for least squares by one recursion and for other losses one by one."""

import jax.numpy as jnp
from jax import Array, lax

from regjax.core.solution import Status
from regjax.solvers.greedy import Problem, Support, least_pivot
from regjax.solvers.supports import SquaredProblem

MOST_COLUMNS = 18  # 2¹⁸ numbers
MOST_COLUMNS_OF_A_LOSS = 12
CHUNK = 256  # fits of subsets at once


def subset_losses(Z: Array, y: Array) -> Array:
    """‖y − Z_Sᵀw‖² at the best w for every subset S (2ᵖ,); column j is in subset s where bit p − 1 − j of s is 1.

    One column after the other is decided for all subsets of those before it: with its twin that leaves the column
    out, a subset has the Gram matrix of the columns not yet decided, minus what the new column explains. Matrices halve
    in number as they grow, so that all of it costs some ten operations per subset. A column that depends on those
    before it explains nothing.

    Args:
        Z: (p, n), columns of length 1 or 0 as rows. y: (n,).

    References:
        Furnival & Wilson, Regressions by leaps and bounds, Technometrics 16 (1974).
    """
    joint = jnp.concatenate([Z, y[None]])
    matrices = (joint @ joint.T)[None]
    least = least_pivot(Z.dtype)
    for _ in range(len(Z)):
        pivot, row, rest = matrices[:, 0, 0], matrices[:, 0, 1:], matrices[:, 1:, 1:]
        sound = pivot > least
        share = jnp.where(sound[:, None], row / jnp.where(sound, pivot, 1)[:, None], 0)
        taken = rest - share[:, :, None] * row[:, None, :]
        matrices = jnp.stack([rest, taken], axis=1).reshape(-1, *rest.shape[1:])
    return matrices[:, 0, 0]


def exhaustive(problem: Problem, ks: Array, *, max_k: int) -> Support:
    """The best of all subsets with at most k columns, of p ≤ 18 (12 where each is a fit of its own): none is left."""
    p = problem.num_columns
    inside = (jnp.arange(2**p)[:, None] >> jnp.arange(p)[::-1]) & 1
    if isinstance(problem, SquaredProblem):
        losses = subset_losses(problem.Z, problem.y)
    else:
        every = jnp.arange(p, dtype=jnp.int32)
        losses = lax.map(lambda used: problem.fit(every, used).loss, inside > 0, batch_size=min(CHUNK, 2**p))
    sizes = jnp.sum(inside, axis=1)
    slack = 32 * jnp.finfo(losses.dtype).eps * jnp.max(jnp.where(jnp.isfinite(losses), losses, 0))

    def one(k):
        allowed = jnp.where(sizes <= k, losses, jnp.inf)
        equal = allowed <= jnp.min(allowed) + slack
        smallest = jnp.min(jnp.where(equal, sizes, p))
        best = inside[jnp.argmin(jnp.where(sizes <= smallest, losses, jnp.inf))]
        return jnp.argsort(-best, stable=True)[:max_k].astype(jnp.int32), jnp.sum(best).astype(jnp.int32)

    index, size = lax.map(one, ks)
    return Support(index, size, jnp.full_like(size, 2**p), jnp.full_like(size, Status.CONVERGED))
