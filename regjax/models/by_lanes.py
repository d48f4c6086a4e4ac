"""Lanes of problems with a general loss: one data set after the other, and many small ones together."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from regjax.core.lanes import computes_on_cpu, hides_lanes, in_lockstep, sees_lanes, split_axes
from regjax.models.problem import silence
from regjax.models.shared_design import SharedDesign, with_lane_axes
from regjax.solvers.newton import is_quadratic, newton
from regjax.solvers.newton_lanes import newton_attempt
from regjax.solvers.run import Outcome
from regjax.solvers.task import Task

_MOST_ENTRIES, _MOST_COLUMNS = 2**15, 32  # of the design of a small problem


class Found(NamedTuple):
    """What the solver returned, its point on the columns as they were given; and the objective."""

    outcome: Outcome
    objective: Array


def are_small(arguments: Any, init: Array, solver: Any) -> bool:
    """Whether it pays to solve problems of this kind together, if there are many."""
    n, p = arguments.X.shape
    small = n * p <= _MOST_ENTRIES and p <= min(n, _MOST_COLUMNS)
    loss = arguments.loss
    ordinary = init.shape[1] == 1 and loss.convex and not loss.coupled and is_quadratic(arguments.penalty)
    return small and ordinary and solver is newton and computes_on_cpu()


def fit_lanes(
    arguments: Any,
    init: Array,
    tol: Array,
    careful: Callable[..., Found],
    *,
    intercept: bool,
    small: bool,
    share: Callable[[Array, Array], SharedDesign] | None = None,
) -> Found:
    """The solution, without derivatives.

    On CPU data sets and folds are made ready and solved by `careful(arguments, init, tol)` one after the other, so that
    there is one copy of X at a time and not one for each; it gets `share(X, weights)` in place of X, if that is given,
    which serves all fits of one design. `small` problems with data of their own are solved together,
    as many as stay in a core's cache, on the columns as they are: where they would have to be centred first, the
    attempt is given up, and what is left is for `careful`.
    """

    def put_together(fun):
        """`fun` of what data sets and folds differ in, and of the rest."""

        def call(design, rest):
            (X, weights), (y, offset, parts, init, tol) = design, rest
            return fun(type(arguments)(X, y, offset, weights, *parts), init, tol)

        return call

    def attempt(arguments, init, tol):
        X, y, offset, weights, loss, penalty, _ = arguments
        v = jnp.ones(len(X), X.dtype) if weights is None else weights
        X, y, offset = (a if weights is None else silence(a, v) for a in (X, y, offset))
        task = Task(X, loss.encode(y, v), offset, v, jnp.asarray(float(intercept), X.dtype), loss)
        start = jnp.concatenate([jnp.zeros_like(init[:1]), init])
        outcome, objective, done = newton_attempt(task, penalty, start, tol)
        return Found(outcome, objective), done

    @sees_lanes
    def over_lanes(design, rest):
        X, y, offset, tol = design[0], *rest[:2], rest[-1]
        problems, rank = (design, rest), tol.ndim
        lanes = jnp.broadcast_shapes(*(leaf.shape[:rank] for leaf in jax.tree.leaves(problems)))
        own, _ = split_axes([leaf.shape[:rank] for leaf in jax.tree.leaves((design, y, offset))])
        apart = math.prod(lanes) == math.prod(lanes[axis] for axis in own)
        whole = math.prod(X.shape[:rank]) in (1, math.prod(lanes))  # no design would have to be copied
        if small and apart and whole and math.prod(lanes) > 1:
            return in_lockstep(put_together(attempt), put_together(careful), problems, rank)
        if share is not None and math.prod(X.shape[:rank]) == 1:
            v = jnp.ones((1,) * rank + X.shape[rank:-1], X.dtype) if design[1] is None else design[1]
            shared = with_lane_axes(share(X.reshape(X.shape[rank:]), v), rank)
            return hides_lanes(put_together(careful), ((shared, design[1]), rest), rank, owners=1)
        return hides_lanes(put_together(careful), problems, rank, owners=1)

    X, y, offset, weights, *parts = arguments
    return over_lanes(*lax.stop_gradient(((X, weights), (y, offset, tuple(parts), init, tol))))
