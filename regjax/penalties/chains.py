r"""Sequences with few jumps: the minimiser of ½‖u − y‖² + Σⱼ αⱼ(uⱼ₊₁ − uⱼ)₊ + βⱼ(uⱼ − uⱼ₊₁)₊.

α = β is total variation; α = ∞, β = 0 is the regression on non-increasing sequences. The minimiser is constant on
blocks, and where its jumps are decides everything: a block's value is the mean of its data, moved by its two jumps.
"""

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike


@jax.jit
def jumps(y: Array, rise: ArrayLike, fall: ArrayLike) -> Array:
    r"""The signs of uⱼ₊₁ − uⱼ at the minimiser u, int8 (p − 1,). Not differentiable.

    Divide and conquer over levels. For a block and a level c, whether u > c is a binary problem on the chain,
    min over x ∈ {0, 1}ᵖ of Σ (c − yⱼ)xⱼ + Σ αⱼ[xⱼ < xⱼ₊₁] + βⱼ[xⱼ > xⱼ₊₁]. At the block's own mean all 0 and all 1 cost
    the same; if no other x costs less the block is constant, else it is cut where x changes. A cut edge has a known
    sign, so that its cost is linear. All blocks are treated at once, in about log₂(number of blocks) rounds.

    Args:
        y: (p,), finite.
        rise: α ≥ 0, a scalar or (p − 1,), perhaps inf. fall: β ≥ 0. With NaN anywhere there are no jumps.

    References:
        Hochbaum, An efficient algorithm for image segmentation, Markov random fields and related problems, JACM 48
        (2001).
    """
    y = y - jnp.mean(y)
    bounds = -jnp.asarray(fall, y.dtype), jnp.asarray(rise, y.dtype)

    def cut(carry):
        signs, _ = carry
        moved = pulled(y, signs, rise, fall)
        level = block_means(moved, signs)
        joined = signs == 0
        low, high = (jnp.append(jnp.where(joined, bound, 0), 0) for bound in bounds)
        x = level_set(level - moved, jnp.abs(moved) + jnp.abs(level), low, high, jnp.append(~joined, True))
        found = jnp.where(joined, jnp.diff(x), signs)
        return found, jnp.any(found != signs)

    return lax.while_loop(lambda carry: carry[1], cut, (jnp.zeros(len(y) - 1, jnp.int8), True))[0]


def level_set(
    slope: Array, size: Array, low: Array, high: Array, ends: Array, forced: ArrayLike = 0, tie: ArrayLike = False
) -> Array:
    r"""The x ∈ {0, 1}ᵖ of least cost Σ slopeⱼxⱼ + Σ highⱼ[xⱼ < xⱼ₊₁] − lowⱼ[xⱼ > xⱼ₊₁], int8.

    With mⱼ the cost of xⱼ = 1 over that of xⱼ = 0, given the best x before, mⱼ₊₁ = clip(mⱼ, lowⱼ, highⱼ) + slopeⱼ₊₁: a
    composition of shifts and clips, which are closed under composition, so that doubling finds every mⱼ.

    Args:
        slope: (p,), finite. size: of what it is a difference of, for its rounding.
        low, high: (p,), low ≤ 0 ≤ high, perhaps infinite; 0 at the ends.
        ends: whether a block, a problem of its own, ends here.
        forced: 1 where x must be 1, −1 where it must be 0. tie: what x is at the end of a block where either will do.
    """
    p = len(slope)
    index = jnp.arange(p, dtype=jnp.int32)
    forced = jnp.broadcast_to(forced, (p,))
    held = compose_all(slope, jnp.where(forced < 0, high, low), jnp.where(forced > 0, low, high))
    cost = jnp.append(0, held[:-1]) + slope
    slip = 8 * jnp.finfo(slope.dtype).eps * (jnp.where(jnp.isinf(cost), 0, jnp.abs(cost)) + size)
    above = jnp.where(forced == 0, cost < low - slip, forced > 0)
    below = jnp.where(forced == 0, cost > high + slip, forced < 0)
    deciding = lax.cummin(jnp.where(above | below | ends, index, p - 1), reverse=True)
    return (above | (ends & ~below & tie))[deciding].astype(jnp.int8)


def compose_all(shift: Array, low: Array, high: Array) -> Array:
    """fⱼ(… f₁(0)) for the maps fⱼ(x) = clip(x + shiftⱼ, lowⱼ, highⱼ)."""
    p = len(shift)

    def double(k, maps):
        # a map x ↦ clip(x + shift, low, high) after the one that ends 2ᵏ places before it
        start = p - jnp.left_shift(1, k)
        earlier = [
            lax.dynamic_slice_in_dim(jnp.append(jnp.full_like(part, identity), part), start, p)
            for part, identity in zip(maps, (0, -jnp.inf, jnp.inf), strict=True)
        ]
        shift, low, high = maps
        return earlier[0] + shift, *(jnp.clip(bound + shift, low, high) for bound in earlier[1:])

    return jnp.clip(*lax.fori_loop(0, (p - 1).bit_length(), double, (shift, low, high)))


def block_ids(signs: Array) -> Array:
    """0, 1, …: the block of each entry, for the signs of the jumps between entries."""
    return jnp.cumsum(jnp.append(0, jnp.abs(jnp.sign(signs))).astype(jnp.int32))


def block_max(x: Array, signs: Array) -> Array:
    """For each entry the largest of its block."""
    ids = block_ids(signs)
    return jax.ops.segment_max(x, ids, num_segments=len(x), indices_are_sorted=True)[ids]


def block_means(y: Array, signs: Array) -> Array:
    """For each entry the mean of its block, the same number to the last bit within a block."""
    ids = block_ids(signs)

    def total(x):
        return jax.ops.segment_sum(x, ids, num_segments=len(y), indices_are_sorted=True)

    return (total(y) / jnp.maximum(total(jnp.ones_like(y)), 1))[ids]


def pulled(y: Array, signs: Array, rise: ArrayLike, fall: ArrayLike) -> Array:
    """y, moved by the slopes of the jumps at the ends of each block."""
    pull = jnp.where(signs > 0, rise, jnp.where(signs < 0, -jnp.asarray(fall, y.dtype), 0))
    return y + jnp.append(pull, 0) - jnp.append(0, pull)


def refined_means(y: Array, signs: Array) -> Array:
    """`block_means`, with the rounding of long sums taken out."""
    means = block_means(y, signs)
    return means + block_means(y - means, signs)
