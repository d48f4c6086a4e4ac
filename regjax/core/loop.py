"""The one iteration loop: every iterative solver is a step on it."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from regjax.core.solution import Status


class LoopResult(NamedTuple):
    """Where a loop ended: the best state it saw, that state's error, the steps taken, a `Status`, the last memory."""

    state: Any
    error: Array
    num_iter: Array
    status: Array
    memory: Any = None


def iterate(
    step: Callable[..., tuple[Any, ...]],
    state: Any,
    *,
    tol: Any,
    max_iter: int,
    patience: int = 10,
    error: Array | None = None,
    last: bool = False,
    memory: Any = None,
) -> LoopResult:
    """Repeat `state, error = step(state)` until error ≤ tol.

    The loop also ends when the error is not finite, at `max_iter` steps, and when `patience` steps in a row have not
    lowered the error: rounding then allows no more, and the status is `FLOOR`. The state with the smallest error is
    returned, so that the error is the certificate of that state. Under `vmap` a finished lane keeps its state.

    Args:
        step: a pure function; `error` is a scalar that certifies the state it comes with.
        state: a pytree of arrays.
        tol: scalar, in units of the error.
        max_iter: the most steps to take.
        patience: steps without progress after which the loop ends.
        error: that of `state`, if it is known: no step is taken where it is at most tol.
        last: whether the last state is returned, not the one with the smallest error, for steps that see to it
            themselves that states get better. Such a step ends the loop by an infinite error.
        memory: what a step leaves for the next and is no part of the answer, such as a Hessian: where it is given, it
            is `state, memory, error = step(state, memory)`, and only the last memory is kept.

    Example:
        >>> import jax.numpy as jnp
        >>> heron = lambda x: ((x + 2 / x) / 2, jnp.abs(((x + 2 / x) / 2) ** 2 - 2))
        >>> result = iterate(heron, jnp.array(1.0), tol=1e-6, max_iter=20)
        >>> print(result.state.round(4), int(result.num_iter), Status(int(result.status)).name)
        1.4142 4 CONVERGED
    """

    def unfinished(carry):
        _, error, _, best_error, count, stale, _ = carry
        return ~(best_error <= tol) & jnp.isfinite(error) & (count < max_iter) & (stale < patience)

    def body(carry):
        state, _, best, best_error, count, stale, memory = carry
        if memory is None:
            state, error = step(state)
        else:
            state, memory, error = step(state, memory)
        if last:
            return state, error, None, error, count + 1, stale, memory
        better = error < best_error
        best = jax.tree.map(lambda new, old: jnp.where(better, new, old), state, best)
        least, stale = jnp.where(better, error, best_error), jnp.where(better, 0, stale + 1)
        return state, error, best, least, count + 1, stale, memory

    # not by tracing `step` for it: loops within loops would double that at every level
    dtype = jnp.result_type(*(a for a in jax.tree.leaves(state) if jnp.issubdtype(jnp.result_type(a), jnp.floating)))
    zero = jnp.zeros((), jnp.int32)
    known = jnp.array(jnp.inf, dtype) if error is None else error
    start = (state, jnp.where(jnp.isnan(known), known, 0), None if last else state, known, zero, zero, memory)
    state, error, best, best_error, count, stale, memory = lax.while_loop(unfinished, body, start)
    status = jnp.where(stale >= patience, Status.FLOOR, Status.ITERATION_LIMIT)
    status = jnp.where(jnp.isfinite(error), status, Status.NON_FINITE)
    status = jnp.where(best_error <= tol, Status.CONVERGED, status)
    return LoopResult(state if last else best, best_error, count, status.astype(jnp.int32), memory)
