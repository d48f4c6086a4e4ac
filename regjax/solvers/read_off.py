"""A path of lanes of which most may be read off solutions on both sides, where their certificates allow that.

The lanes are taken in blocks. In a block every few lanes one is solved, and those between are read off; of those that
are not good enough the worst is solved, and the others are read off anew. How many are between is found on the way.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

_BLOCK = 32  # lanes at most
_LONGEST = 16  # lanes from one that is solved to the next


class Block(NamedTuple):
    """Consecutive lanes, how far they have come. Slots 0 and 1 are the last two solved of the block before.

    Attributes:
        points: with the axis (B + 2,); those of the lanes that are solved or read off.
        solved: (B + 2,), which are solved.
        error: (B + 2,), of those read off; 0 where nothing has to be done, inf in front of the walk.
        front: the last slot that the walk has reached.
        stride: how far it goes with the next step.
        memory: what a solution leaves for the next.
    """

    points: Any
    solved: Array
    error: Array
    front: Array
    stride: Array
    memory: Any


def solve_or_read_off(
    solve: Callable[[Any, Array, Array, Any], tuple[Any, Any]],
    read_off: Callable[[Any, Any, Any, Any, Array], tuple[Any, Array]],
    finish: Callable[[Any, Array, Array], Any],
    memory: Any,
    blank: Any,
    may: Array | bool,
    lanes: int,
) -> Any:
    """The results of all lanes, which are one after the other along a path.

    Args:
        solve: `memory, point = solve(memory, lane, again, point)` from what the lane before has left; or if `again`
            from the point that was read off, and the next lane goes on from where this one came in between.
        read_off: `point, error = read_off(memory, before, left, right, lane)` of a lane between two that are solved,
            and one before these; it is good where the error is at most 1.
        finish: the results of lanes (B,) with their points, of which some are solved.
        memory: for the first lane.
        blank: a point, for its form.
        may: whether any lane may be read off; False if it is known beforehand that none is.
        lanes: how many.
    """
    blocks = -(-lanes // _BLOCK)
    size = -(-lanes // blocks)
    slots = jnp.arange(size + 2, dtype=jnp.int32)

    def at(points: Any, slot: Array) -> Any:
        return jax.tree.map(lambda a: a[slot], points)

    def put(points: Any, slot: Array, point: Any) -> Any:
        return jax.tree.map(lambda a, b: a.at[slot].set(b), points, point)

    def walk(carry: tuple[Any, Any, Array], base: Array) -> tuple[tuple[Any, Any, Array], Any]:
        last = jnp.minimum(size, lanes - base) + 1

        def go_on(block: Block) -> Block:
            again = jnp.any((block.error > 1) & jnp.isfinite(block.error))
            worst = jnp.argmax(jnp.where(jnp.isfinite(block.error), block.error, 0)).astype(jnp.int32)
            slot = jnp.where(again, worst, jnp.minimum(block.front + block.stride, last))
            memory, point = solve(block.memory, base + slot - 2, again, at(block.points, slot))
            solved = block.solved.at[slot].set(True)
            ends = put(block.points, slot, point)  # of a loop's own are only copies that it writes to

            def solved_before(number: Array) -> Array:
                return jnp.max(jnp.where(solved & (slots < number), slots, 0))

            def solved_after(number: Array) -> Array:
                return jnp.min(jnp.where(solved & (slots > number), slots, size + 1))

            def between(number: Array, carry: tuple[Any, Array, Array]) -> tuple[Any, Array, Array]:
                points, error, straight = carry
                left, right = solved_before(number), solved_after(number)
                before = solved_before(left)
                read, off = read_off(memory, at(ends, before), at(ends, left), at(ends, right), base + number - 2)
                off, kept = jnp.where(jnp.isfinite(off), off, jnp.finfo(off.dtype).max), solved[number]
                points = put(points, number, jax.tree.map(partial(jnp.where, kept), at(ends, number), read))
                return points, error.at[number].set(jnp.where(kept, 0, off)), jnp.where(kept, off <= 1, straight)

            before, after = solved_before(slot), jnp.where(again, solved_after(slot), slot)
            # the solution before this one is read off as well, to see whether longer strides would do
            first = jnp.where(again | (before == 1), before + 1, before)
            first, after = (jnp.where(may, number, slot) for number in (first, after))
            found = ends, block.error.at[slot].set(0), jnp.array(False)
            points, error, straight = found if may is False else lax.fori_loop(first, after, between, found)
            poor = jnp.any((error > 1) & jnp.isfinite(error))
            stride = jnp.where(poor, block.stride // 2, jnp.where(straight, 2 * block.stride, block.stride))
            stride = jnp.where(again, block.stride, jnp.clip(stride, 1, _LONGEST))
            return Block(points, solved, error, jnp.maximum(block.front, slot), stride, memory)

        memory, known, stride = carry
        points = jax.tree.map(lambda a: jnp.zeros((size + 2, *a.shape[1:]), a.dtype).at[:2].set(a), known)
        error = jnp.where((slots > 1) & (slots <= last), jnp.inf, 0.0)
        block = Block(points, slots < 2, error, jnp.int32(1), stride, memory)
        block = lax.while_loop(lambda block: jnp.any(block.error > 1), go_on, block)
        numbers = jnp.minimum(base + slots[:-2], lanes - 1)
        results = finish(jax.tree.map(lambda a: a[2:], block.points), block.solved[2:], numbers)
        known = at(block.points, jnp.array([jnp.max(jnp.where(block.solved & (slots < last), slots, 0)), last]))
        return (block.memory, known, block.stride), results

    start = memory, jax.tree.map(lambda a: jnp.stack([a, a]), blank), jnp.int32(1)
    results = lax.scan(walk, start, size * jnp.arange(blocks, dtype=jnp.int32))[1]
    return jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:])[:lanes], results)
