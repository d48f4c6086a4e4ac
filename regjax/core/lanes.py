"""Functions that see every lane of every `jax.vmap` around them.

`jax.vmap` hides its axis from the function it maps. For a factorization that is a pity: whether one matrix serves
a hundred values of λ or each λ has a matrix of its own decides what to compute. `sees_lanes` puts the axis back.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax import lax
from jax.custom_batching import custom_vmap


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


def map_lanes(fun: Callable[..., Any], *args: Any) -> Any:
    """`jax.vmap(fun)(*args)`, one lane after the other on CPU.

    XLA's CPU runtime can deadlock when one program holds several independent batched LAPACK calls, and under `vmap`
    a `lax.cond` runs both of its branches; a sequential map has neither problem.
    """
    if len(jax.tree.leaves(args)[0]) == 1:  # no loop around a single lane: XLA can then merge equal factorizations
        return jax.tree.map(lambda o: o[None], fun(*jax.tree.map(lambda a: a[0], args)))
    return lax.platform_dependent(
        *args,
        cpu=lambda *lanes: lax.map(lambda lane: fun(*lane), lanes),
        default=lambda *lanes: jax.vmap(fun)(*lanes),
    )


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
