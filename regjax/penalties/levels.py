r"""Sorted sums by their level sets: the minimiser of Σⱼ (½mⱼuⱼ² − qⱼuⱼ) + Σᵢ λᵢu₍ᵢ₎ over 0 ≤ uⱼ ≤ cⱼ.

A sorted sum charges the k largest with λ₁ + … + λₖ, whoever they are. So the problem falls apart over levels t: {u > t}
is the set of those with cⱼ > t that is worth most, Σ (qⱼ − mⱼt) over it less the first λ, and thus holds those of the
largest gains qⱼ − mⱼt. It has the first ranks; above and below remain two problems with the λ of their ranks.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax


class Parts(NamedTuple):
    """A list in parts, those with the largest u first: who has each rank, and the first rank of its part, (p,)."""

    order: Array
    first: Array


def minimiser(q: Array, m: Array, lams: Array, caps: Array) -> Array:
    r"""u (p,), differentiable where it is. Members of one part have the same u, to the last bit.

    Args:
        q: (p,). m: > 0 (p,). lams: λ₁ ≥ λ₂ ≥ … ≥ 0 (p,).
        caps: c > 0 (p,), perhaps inf.

    Example:
        >>> import jax.numpy as jnp
        >>> q, m, lams = jnp.array([0.5, 3.5, 3.0]), jnp.ones(3), jnp.array([2.0, 1.0, 0.0])
        >>> print(minimiser(q, m, lams, jnp.full(3, jnp.inf)))
        [0.5  1.75 1.75]
        >>> print(minimiser(q, m, lams, jnp.array([2.0, 1.0, 2.0])))
        [0.5 1.  1. ]
    """
    fixed = lax.stop_gradient((q, m, lams))
    parts, place = part_at_caps(*fixed, lax.stop_gradient(caps))
    top = _levels(caps)[0][place]
    order, first = part_at_means(parts, *fixed, lax.stop_gradient(top))
    level = jnp.clip(_means(q[order] - lams, m[order], first), 0, top)
    return jnp.zeros_like(q).at[order].set(level, unique_indices=True)


def maximiser(q: Array, lams: Array, caps: Array) -> tuple[Array, Array]:
    """The order of a maximiser of Σⱼ qⱼuⱼ − Σᵢ λᵢu₍ᵢ₎ over 0 ≤ uⱼ ≤ cⱼ < ∞, and u in it: 0 or one of the caps."""
    parts, place = part_at_caps(*lax.stop_gradient((q, jnp.zeros_like(q), lams, caps)))
    return parts.order, _levels(caps)[0][place]


def _levels(caps: Array) -> tuple[Array, Array]:
    """0 and the caps, ascending and each once, followed by copies of the largest (p + 1,); and the place of that."""
    ends = jnp.sort(jnp.append(0, caps))
    place = jnp.append(0, jnp.cumsum(jnp.diff(ends) > 0, dtype=jnp.int32))
    return jnp.full_like(ends, ends[-1]).at[place].set(ends), place[-1]


@jax.jit
def part_at_caps(q: Array, m: Array, lams: Array, caps: Array) -> tuple[Parts, Array]:
    """Parts with u between two neighbours among 0 and the sorted caps, and the place of the upper one, by rank.

    Within such a part the upper one is a cap for all: a common cap is a cut of the minimiser without it. Halving finds
    the neighbours, in log₂(number of caps) rounds for all parts at once.
    """
    rank = jnp.arange(len(q), dtype=jnp.int32)
    levels, last = _levels(caps)

    def halve(state):
        parts, low, high = state  # u is above the level at `low`, and not above that at `high`
        middle = (low + high) // 2
        parts, above = _cut(parts, q, m, lams, caps, levels[jnp.maximum(middle, 0)])
        found = high - low == 1
        return parts, jnp.where(above & ~found, middle, low), jnp.where(above | found, high, middle)

    start = Parts(rank, jnp.zeros_like(rank)), jnp.full_like(rank, -1), jnp.full_like(rank, last)
    parts, _, high = lax.while_loop(lambda state: jnp.any(state[2] - state[1] > 1), halve, start)
    return parts, high


@jax.jit
def part_at_means(parts: Parts, q: Array, m: Array, lams: Array, top: Array) -> Parts:
    """Parts of equal u, from parts with a common cap `top` (by rank).

    At the level that a part would have as a whole it is worth nothing; if no set of its members is worth more, it is
    one level, else that set is above. About log₂(number of parts) rounds.
    """
    none = jnp.full_like(q, jnp.inf)

    def cut(state):
        parts, _ = state
        level = jnp.clip(_means(q[parts.order] - lams, m[parts.order], parts.first), 0, top)
        found, _ = _cut(parts, q, m, lams, none, level)
        return found, jnp.any(found.first != parts.first)

    return lax.while_loop(lambda state: state[1], cut, (parts, True))[0]


def _cut(parts: Parts, q: Array, m: Array, lams: Array, caps: Array, level: Array) -> tuple[Parts, Array]:
    """Each part cut in two at its level (by rank), and who is above, by rank: the largest set that is worth most."""
    order, first = parts
    rank = jnp.arange(len(q), dtype=jnp.int32)
    gain = jnp.where(caps[order] > level, q[order] - m[order] * level, -jnp.inf)
    _, loss, order = lax.sort((first, -gain, order), num_keys=2)
    size = jnp.abs(q[order]) + m[order] * level
    worth = _running_sums(-loss - lams, first)
    slip = 2 * jnp.finfo(q.dtype).eps * (jnp.abs(worth) + size + lams)

    def most(x):
        return jax.ops.segment_max(x, first, num_segments=len(q), indices_are_sorted=True)[first]

    last = most(jnp.where(worth + slip >= most(worth), rank, -1))
    last = jnp.where((worth > slip)[last], last, -1)
    above = rank <= last
    return Parts(order, jnp.where(above, first, jnp.maximum(first, last + 1))), above


def _running_sums(x: Array, first: Array) -> Array:
    """Sums from the first rank of each part on, by doubling: they know nothing of the rounding of other parts."""
    rank = jnp.arange(len(x), dtype=jnp.int32)

    def double(k, sums):
        before = rank - jnp.left_shift(1, k)
        return sums + jnp.where(before >= first, sums[before], 0)

    return lax.fori_loop(0, (len(x) - 1).bit_length(), double, x)


def _means(y: Array, m: Array, ids: Array) -> Array:
    """Σy/Σm over each part, with the rounding of long sums taken out."""
    level = part_ratios(y, m, ids)
    return level + part_ratios(y - m * level, m, ids)


def part_ratios(y: Array, m: Array, ids: Array) -> Array:
    """Σy/Σm over the entries of one id, 0 ≤ ids < p in ascending order, for each of them; 0 where m is 0."""

    def total(x):
        return jax.ops.segment_sum(x, ids, num_segments=len(y), indices_are_sorted=True)

    weight = total(m)
    return (total(y) / jnp.where(weight == 0, 1, weight))[ids]
