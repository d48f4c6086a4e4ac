"""A path of lanes of which every second may be read off the solutions beside it, where its certificate allows that.

From one solution to the next coefficients and predictors move almost along a line. What is read off that line costs no
step, and one product with X certifies several lanes. So the lanes are taken in groups: every second one is solved,
those between are read off, and which of them are not good enough are solved from there.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

PAIRS = 4  # lanes of a group that are read off
_WAIT = 8  # lanes to solve before it is tried again where most of a group was not good enough, then twice as many


class Walk(NamedTuple):
    """How far the path has come.

    Attributes:
        base: the first lane of the group, int32.
        stride: 2 if every second lane of it is read off, else 1.
        count: how many are solved before others are read off, and how many have been.
        turn: how many of these are done.
        poor: (PAIRS,), which of those read off have still to be solved.
        read: what was read off, points with the axis (PAIRS,).
        ends: the points that lanes are read off, with the axis (PAIRS + 1,); the first is from the group before.
        memory: what a solution leaves for the next.
        wait, longer: lanes to solve until lanes are read off again, and how many there would be the next time.
        results: those of all lanes.
    """

    base: Array
    stride: Array
    count: Array
    turn: Array
    poor: Array
    read: Any
    ends: Any
    memory: Any
    wait: Array
    longer: Array
    results: Any


def solve_or_read_off(
    solve: Callable[[Any, Array, Array, Any], tuple[Any, Any, Any]],
    read_off: Callable[[Any, Any, Array], tuple[tuple[Any, Any], Array]],
    memory: Any,
    blank: tuple[Any, Any],
    may: Array,
    lanes: int,
) -> Any:
    """The results of all lanes, which are one after the other along a path.

    Args:
        solve: `memory, point, result = solve(memory, lane, again, point)` from what the lane before has left; or if
            `again` from the point that was read off, and the next lane goes on from where this one came in between.
        read_off: `(points, results), good = read_off(memory, ends, lanes)` for the lanes (PAIRS,) between ends
            (PAIRS + 1,).
        memory: for the first lane.
        blank: a point and a result, for their form.
        may: whether any lane may be read off.
        lanes: how many.
    """

    def empty(form: Any, count: int) -> Any:
        return jax.tree.map(lambda a: jnp.zeros((count, *a.shape), a.dtype), form)

    def put(all_: Any, index: Array, some: Any) -> Any:
        return jax.tree.map(lambda a, b: a.at[index].set(b, mode="drop"), all_, some)

    inside = jnp.arange(PAIRS, dtype=jnp.int32)

    def go_on(walk: Walk) -> Walk:
        again, pair = walk.turn == walk.count, jnp.argmax(walk.poor).astype(jnp.int32)
        lane = walk.base + jnp.where(again, 2 * pair, walk.stride * (walk.turn + 1) - 1)
        memory, point, result = solve(walk.memory, lane, again, jax.tree.map(lambda a: a[pair], walk.read))
        turn = walk.turn + jnp.where(again, 0, 1)
        ends = put(walk.ends, jnp.where(again, PAIRS + 1, turn), point)

        between, now = walk.base + 2 * inside, ~again & (turn == walk.count) & (walk.stride == 2)
        (read, others), good = lax.cond(
            now,
            lambda: read_off(memory, ends, jnp.minimum(between, lanes - 1)),
            lambda: ((walk.read, empty(blank[1], PAIRS)), jnp.ones(PAIRS, bool)),
        )
        used = now & (inside < walk.count)
        poor = jnp.where(now, used & ~good, walk.poor & ~(again & (inside == pair)))
        leave = 2 * jnp.sum(used & ~good) > walk.count
        walk = walk._replace(
            turn=turn,
            poor=poor,
            read=read,
            ends=ends,
            memory=memory,
            wait=jnp.where(leave, walk.longer, walk.wait),
            longer=jnp.where(leave, 2 * walk.longer, walk.longer),
            results=put(put(walk.results, lane, result), jnp.where(used, between, lanes), others),
        )
        done, following = (turn == walk.count) & ~jnp.any(poor), next_group(walk)
        before = {name: getattr(walk, name) for name in following}
        return walk._replace(**jax.tree.map(partial(jnp.where, done), following, before))

    def next_group(walk: Walk) -> dict[str, Any]:
        base = walk.base + walk.stride * walk.count
        wait = jnp.maximum(walk.wait - jnp.where(walk.stride == 1, walk.count, 0), 0)
        stride = jnp.where(may & (wait == 0) & (lanes - base > 1), 2, 1)
        count = jnp.minimum((lanes - base) // stride, PAIRS)
        ends = jax.tree.map(lambda a: a.at[0].set(a[walk.count]), walk.ends)
        return dict(base=base, wait=wait, stride=stride, count=count, turn=jnp.int32(0), ends=ends)

    one = jnp.int32(1)
    start = Walk(
        base=jnp.int32(0),
        stride=one,
        count=one,
        turn=jnp.int32(0),
        poor=jnp.zeros(PAIRS, bool),
        read=empty(blank[0], PAIRS),
        ends=empty(blank[0], PAIRS + 1),
        memory=memory,
        wait=one,
        longer=jnp.int32(_WAIT),
        results=empty(blank[1], lanes),
    )
    return lax.while_loop(lambda walk: walk.base < lanes, go_on, start).results
