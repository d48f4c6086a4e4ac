"""Functions that see every lane of every `jax.vmap` around them.

`jax.vmap` hides its axis from the function it maps. For a factorization that is a pity: whether one matrix serves
a hundred values of λ or each λ has a matrix of its own decides what to compute. `sees_lanes` puts the axis back.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.custom_batching import custom_vmap
from jax.sharding import Mesh, PartitionSpec

_GROUP = 32  # the most problems that are solved together,
_CACHE = 2**15  # and how many numbers of theirs: with what is made of them they stay in a core's cache


def sees_lanes(fun: Callable[..., Any]) -> Callable[..., Any]:
    """Let `fun` receive the axes of the surrounding `vmap`s as leading axes of its arguments.

    `fun(*args)` is called with arrays that all have the same number of leading lane axes: none outside `vmap`, and
    one more for each `vmap` around the call. An argument that a `vmap` does not map has size 1 on its axis. The
    results must have the same leading axes; a result with size 1 on an axis is taken not to vary along it, so that
    what does not depend on λ is computed and stored once.

    The function is not differentiable: call it under `lax.stop_gradient`.
    """

    @custom_vmap
    def call(*args):
        return fun(*args)

    @call.def_vmap
    def rule(axis_size, in_batched, *args):
        args = jax.tree.map(lambda a, batched: a if batched else a[None], args, tuple(in_batched))
        out = call(*args)
        varies = jax.tree.map(lambda o: o.shape[0] == axis_size, out)
        return jax.tree.map(lambda o, batched: o if batched else o[0], out, varies), varies

    return call


@sees_lanes
def in_any_lane(flag: Array) -> Array:
    """Whether a scalar flag is true in any lane: one answer for all, on which `lax.cond` can skip a branch."""
    return jnp.any(flag).reshape((1,) * flag.ndim)


def by_platform(*args: Any, cpu: Callable[..., Any], default: Callable[..., Any]) -> Any:
    """`cpu(*args)` where JAX computes on CPU by default, else `default(*args)`.

    `lax.platform_dependent` would trace both, and within each other four or eight: seconds, for solvers.
    """
    return (cpu if computes_on_cpu() else default)(*args)


def computes_on_cpu() -> bool:
    """Whether JAX computes on CPU by default."""
    return jax.default_backend() == "cpu"


def map_lanes(fun: Callable[..., Any], *args: Any) -> Any:
    """`jax.vmap(fun)(*args)`, one lane after the other on CPU.

    XLA's CPU runtime can deadlock when one program holds several independent batched LAPACK calls, and under `vmap`
    a `lax.cond` runs both of its branches; a sequential map has neither problem.
    """
    if len(jax.tree.leaves(args)[0]) == 1:  # no loop around a single lane: XLA can then merge equal factorizations
        return jax.tree.map(lambda o: o[None], fun(*jax.tree.map(lambda a: a[0], args)))
    return by_platform(
        *args,
        cpu=lambda *lanes: lax.map(lambda lane: fun(*lane), lanes),
        default=lambda *lanes: jax.vmap(fun)(*lanes),
    )


def lane_by_lane(fun: Callable[..., Any]) -> Callable[..., Any]:
    """`fun`, mapped by `map_lanes` under any nesting of `vmap`; not differentiable, as `sees_lanes`."""

    @sees_lanes
    def call(counter, *args):
        rank = counter.ndim
        lanes = jnp.broadcast_shapes(*(leaf.shape[:rank] for leaf in jax.tree.leaves(args)))

        def spread(leaf):
            return jnp.broadcast_to(leaf, lanes + leaf.shape[rank:]).reshape(-1, *leaf.shape[rank:])

        result = map_lanes(fun, *jax.tree.map(spread, args))
        return jax.tree.map(lambda r: r.reshape(lanes + r.shape[1:]), result)

    return lambda *args: call(jnp.zeros(()), *args)


def split_axes(shapes: Sequence[tuple[int, ...]]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Split lane axes into those along which one of the first arguments varies and the rest.

    Args:
        shapes: lane shapes of the arguments that own the first group (the matrices), all of one length.

    Returns:
        The axes of the first group, and the other axes.
    """
    rank = len(shapes[0])
    own = tuple(i for i in range(rank) if any(shape[i] > 1 for shape in shapes))
    return own, tuple(i for i in range(rank) if i not in own)


def map_problems(fun: Callable[..., Any], problem: Any, variants: Any, rank: int) -> Any:
    """`fun(problem, variants)` once for every problem among the lanes, with the variants that share it stacked.

    Args:
        fun: takes one problem, and variants whose leaves have one more axis in front; so do the leaves of its result.
        problem: a pytree of arrays with `rank` lane axes in front, as `sees_lanes` passes them.
        variants: likewise. Lane axes along which no leaf of `problem` varies number the variants of a problem.
        rank: the number of lane axes.

    Returns:
        The result of `fun` with all lane axes in front. An array that does not vary is not copied for any lane.
    """
    own, shared = split_axes([leaf.shape[:rank] for leaf in jax.tree.leaves(problem)])
    lanes = jnp.broadcast_shapes(*(leaf.shape[:rank] for leaf in jax.tree.leaves((problem, variants))))
    own_shape, shared_shape = (tuple(lanes[i] for i in axes) for axes in (own, shared))

    def pick(leaf, index):  # the lane of one problem, with the shared axes as one
        core = leaf.shape[rank:]
        leaf = leaf.transpose(*own, *shared, *range(rank, leaf.ndim))
        leaf = leaf[tuple(i if size > 1 else 0 for i, size in zip(index, leaf.shape, strict=False))]
        return jnp.broadcast_to(leaf, shared_shape + core).reshape(-1, *core)

    def one(index):
        index = jnp.unravel_index(index, own_shape) if own else ()
        alone = jax.tree.map(lambda leaf: leaf[tuple(_lane(leaf, own, index, rank))], problem)
        return fun(alone, jax.tree.map(lambda leaf: pick(leaf, index), variants))

    result = map_lanes(one, jnp.arange(math.prod(own_shape)))
    order = sorted(range(rank), key=lambda axis: (own + shared)[axis])

    def restore(leaf):  # (problems, variants, ...) -> (lanes, ...)
        leaf = leaf.reshape(own_shape + shared_shape + leaf.shape[2:])
        return leaf.transpose(*order, *range(rank, leaf.ndim))

    return jax.tree.map(restore, result)


def hides_lanes(fun: Callable[..., Any], args: tuple[Any, ...], rank: int, owners: int = 0) -> Any:
    """`fun(*args)` under `jax.vmap` over the lane axes of arguments that `sees_lanes` passed: it sees them no more.

    Lanes along which one of the first `owners` arguments varies come one after the other on CPU, as in `map_lanes`.
    """
    if rank == 0:
        return fun(*args)
    size = max(len(leaf) for leaf in jax.tree.leaves(args))

    def lane(i):
        return jax.tree.map(lambda leaf: leaf[i if len(leaf) > 1 else 0], args)

    def inner(*args):
        return hides_lanes(fun, args, rank - 1, owners)

    if size == 1:
        return jax.tree.map(lambda leaf: leaf[None], inner(*lane(0)))
    if any(len(leaf) > 1 for leaf in jax.tree.leaves(args[:owners])):
        return map_lanes(lambda i: inner(*lane(i)), jnp.arange(size))
    axes = jax.tree.map(lambda leaf: 0 if len(leaf) > 1 else None, args)
    args = jax.tree.map(lambda leaf: leaf if len(leaf) > 1 else leaf[0], args)
    return jax.vmap(inner, in_axes=axes)(*args)


def in_lockstep(
    attempt: Callable[..., tuple[Any, Array]], careful: Callable[..., Any], problems: tuple[Any, ...], rank: int
) -> Any:
    """Solve small problems together, by `jax.vmap` over as many as the cache holds, and what fails there one by one.

    Args:
        attempt: takes one problem; its result, and whether that is final.
        careful: takes one problem; its result.
        problems: the arguments with `rank` lane axes, as `sees_lanes` passes them.
        rank: how many.

    Returns:
        The results with all lane axes in front.
    """
    leaves, structure = jax.tree.flatten(problems)
    lanes = jnp.broadcast_shapes(*(leaf.shape[:rank] for leaf in leaves))
    count = math.prod(map(int, lanes))
    varies = [math.prod(leaf.shape[:rank]) > 1 for leaf in leaves]
    own = [
        jnp.broadcast_to(leaf, lanes + leaf.shape[rank:]).reshape(count, *leaf.shape[rank:])
        for leaf, apart in zip(leaves, varies, strict=True)
        if apart
    ]

    def whole(parts):
        """A problem from its own leaves and those that all share."""
        parts = iter(parts)
        return structure.unflatten(
            next(parts) if apart else leaf.reshape(leaf.shape[rank:])
            for leaf, apart in zip(leaves, varies, strict=True)
        )

    size = _group_size(count, sum(leaf[0].size for leaf in own))
    filled = jnp.minimum(jnp.arange(-(-count // size) * size), count - 1)
    groups = [(leaf if len(filled) == count else leaf[filled]).reshape(-1, size, *leaf.shape[1:]) for leaf in own]
    results, done = lax.map(lambda group: jax.vmap(lambda *parts: attempt(*whole(parts)))(*group), groups)
    results, done = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:])[:count], (results, done))
    left = jnp.nonzero(~done, size=count)[0]

    def redo(i, results):
        again = careful(*whole(leaf[left[i]] for leaf in own))
        return jax.tree.map(lambda all_, one: all_.at[left[i]].set(one), results, again)

    results = lax.fori_loop(0, jnp.sum(~done), redo, results)
    return jax.tree.map(lambda leaf: leaf.reshape(lanes + leaf.shape[1:]), results)


def _group_size(count: int, numbers: int) -> int:
    """How many of the problems, each of so many numbers, are solved together.

    Near the best size one that divides their count, if there is one; else copies fill the last group.
    """
    best = max(1, min(_GROUP, _CACHE // max(numbers, 1)))
    if count <= best:
        return count
    even = [size for size in range((best + 1) // 2, 2 * best) if count % size == 0]
    return min(even or [best], key=lambda size: abs(size - best))


def check_devices(devices: Any) -> tuple[Any, ...] | None:
    """`devices` as a tuple."""
    if devices is None:
        return None
    platform = jax.default_backend()
    found = tuple(devices) if isinstance(devices, Sequence) else ()
    if not found or not all(isinstance(d, jax.Device) and d.platform == platform for d in found):
        raise ValueError(f"devices must be a sequence such as jax.devices(), on {platform} here, got {devices!r}")
    return found


def share_lanes(fun: Callable[..., Any], shared: Any, lanes: Any, devices: tuple[Any, ...] | None) -> Any:
    """`fun(shared, lanes)` for lanes, along the first axis, that do not know of each other: a share on each device.

    None is where the arguments are.
    """
    if devices is None:
        return fun(shared, lanes)
    count = len(jax.tree.leaves(lanes)[0])
    filled = jnp.minimum(jnp.arange(-(-count // len(devices)) * len(devices)), count - 1)  # by copies of the last
    mesh = Mesh(np.array(devices), ("lane",))
    specs = PartitionSpec(), PartitionSpec("lane")
    apart = jax.shard_map(fun, mesh=mesh, in_specs=specs, out_specs=specs[1], check_vma=False)
    results = apart(shared, jax.tree.map(lambda leaf: leaf[filled], lanes))
    return jax.tree.map(lambda leaf: leaf[:count], results)


def _lane(leaf, own, index, rank):
    """The index of a problem's lane: 0 on the axes along which this leaf does not vary."""
    place = dict(zip(own, index, strict=True))
    return [place[axis] if axis in place and leaf.shape[axis] > 1 else 0 for axis in range(rank)]
