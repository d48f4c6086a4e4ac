r"""Sequences with few jumps within limits: ½‖u − y‖², or −⟨y, u⟩, plus Σⱼ aⱼ|uⱼ₊₁ − uⱼ|, over lⱼ ≤ uⱼ ≤ hⱼ.

As without limits the minimiser is constant on blocks. A block's value is the best constant for its data, moved by its
two jumps, or the limit of one of its entries, which then holds them all.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jax import Array, lax

from regjax.penalties.chains import block_max, block_means, compose_all, level_set, pulled


@partial(jax.jit, static_argnames="linear")
def limited_jumps(y: Array, charges: Array, lower: Array, upper: Array, *, linear: bool) -> tuple[Array, Array]:
    r"""The signs of uⱼ₊₁ − uⱼ at the minimiser u, int8 (p − 1,), and u (p,) up to rounding. Not differentiable.

    Divide and conquer over levels, as in `jumps`. For a level c, which u are above c is a binary problem in which
    entries with h ≤ c must be 0 and those with l > c must be 1; which u are at least c is another, with h < c and
    l ≥ c. A block is cut where either changes, and what is found about u narrows the limits.

    At the best constant within the limits of all entries neither can take all of a block to one side, so that the block
    is cut, or constant. Limits that bind would be found one by one that way: every other round halves the range of what
    the entries would be without charges, in which u is.

    Args:
        y: (p,), finite. charges: a ≥ 0 (p − 1,), perhaps inf. With NaN anywhere there are no jumps, but free ones.
        lower, upper: l ≤ 0 ≤ h, (p,), so that no level forces both 0 and 1; finite if `linear`.
        linear: whether the cost is −⟨y, u⟩; else ½‖u − y‖².
    """

    def best(y):
        return jnp.where(y == 0, 0, jnp.sign(y) * jnp.inf) if linear else y

    def cut(carry):
        signs, lower, upper, _, halve, _ = carry
        moved = pulled(y, signs, charges, charges)
        alone = jnp.clip(best(moved), lower, upper)
        together = jnp.clip(best(block_means(moved, signs)), *block_limits(lower, upper, signs))
        level = jnp.where(halve, (block_max(alone, signs) - block_max(-alone, signs)) / 2, together)
        slope, size = (-moved, jnp.abs(moved)) if linear else (level - moved, jnp.abs(moved) + jnp.abs(level))
        joined = signs == 0
        high, ends = jnp.append(jnp.where(joined, charges, 0), 0), jnp.append(~joined, True)
        one, none = jnp.stack([lower > level, lower >= level]), jnp.stack([upper <= level, upper < level])
        forced, tie = one.astype(jnp.int8) - none.astype(jnp.int8), jnp.array([False, True])
        above, least = jax.vmap(lambda forced, tie: level_set(slope, size, -high, high, ends, forced, tie))(forced, tie)
        lower = jnp.where(least == 1, jnp.maximum(lower, level), lower)
        upper = jnp.where(above == 0, jnp.minimum(upper, level), upper)
        found = jnp.where(joined, jnp.sign(jnp.diff(above + least)), signs)
        return found, lower, upper, level, ~halve, halve | jnp.any(found != signs)

    free = charges == 0  # a jump without cost: what sign it is given does not matter
    start = free.astype(jnp.int8), lower, upper, jnp.zeros_like(y), jnp.zeros((), bool), jnp.ones((), bool)
    signs, _, _, level, *_ = lax.while_loop(lambda carry: carry[-1], cut, start)
    return signs, level


def block_limits(lower: Array, upper: Array, signs: Array) -> tuple[Array, Array]:
    """For each entry the largest l and the smallest h of its block."""
    return block_max(lower, signs), -block_max(-upper, signs)


def split(z: Array, charges: Array, lower: Array, upper: Array) -> tuple[Array, Array]:
    r"""c (p − 1,) and q (p,) with z = Dᵀc + q and |cⱼ| ≤ aⱼ, of the least Σⱼ max(lⱼqⱼ, hⱼqⱼ).

    These are the multipliers of the maximiser u of ⟨z, u⟩ − Σⱼ aⱼ|uⱼ₊₁ − uⱼ|: c is a·sign where u jumps, and q is not
    0 only where u is at a limit, of the sign that pushes against it. From the first entry to the last the cⱼ that the
    ones before allow are an interval, whose ends are clipped sums; back from the last one each c is taken out of it.

    Only the order of the limits has a part in u, so that ranks serve, which are finite.
    """
    fixed = lax.stop_gradient((z, charges))
    ranks = -_ranks(-lower), _ranks(upper)
    signs, level = limited_jumps(*fixed, *ranks, linear=True)
    least, most = jnp.where(signs > 0, charges, -charges), jnp.where(signs < 0, -charges, charges)
    least, most = jnp.append(least, 0), jnp.append(most, 0)
    first = compose_all(-z, least, jnp.where(level == ranks[0], least, most))
    last = compose_all(-z, jnp.where(level == ranks[1], most, least), most)
    before = [jnp.append(0, end[:-1])[::-1] for end in (first, last)]
    c = compose_all(z[::-1], *before)[::-1][1:]
    return c, z - jnp.append(0, c) + jnp.append(c, 0)


def _ranks(limits: Array) -> Array:
    """0 for 0, and increasing with the limits."""
    ranks = jnp.where(limits > 0, 1 + jnp.searchsorted(jnp.sort(limits), limits), 0)
    return lax.stop_gradient(ranks).astype(limits.dtype)
