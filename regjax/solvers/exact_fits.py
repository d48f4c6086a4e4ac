"""The equations that fits of a quantile fulfil between the kinks of the loss and those of the penalty.

Some samples are fitted exactly, with slopes θ between −τ and 1 − τ; the others have the slope of their side. The
coefficients move on the manifold on which the penalty is smooth.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from regjax.core.implicit import implicit_solution
from regjax.core.linalg import symmetric_solver
from regjax.penalties import Box, Penalty, TotalVariation
from regjax.penalties.balls import Ball
from regjax.solvers.interior_point import interior_point
from regjax.solvers.manifold import along_manifold, drift, on_manifold
from regjax.solvers.task import Task


class Kinks(NamedTuple):
    """A fit of quantiles and the samples that it fits exactly, (n, t): 1 or 0."""

    task: Task
    penalty: Penalty
    exact: Array


def slopes_at(kinks: Kinks, point: Array, multipliers: Array) -> Array:
    """The slopes θ (n, t) of the loss per unit of weight, given those of the samples that are fitted exactly (m,)."""
    task, _, exact = kinks
    tau = task.loss.tau  # pyright: ignore[reportAttributeAccessIssue]
    below = lax.stop_gradient(task.predictor(point)) < lax.stop_gradient(task.y)
    known = jnp.where(below, -tau, 1 - tau).ravel()
    index, fitted = _places(exact, len(multipliers))
    return known.at[index].set(jnp.where(fitted, multipliers, known[index])).reshape(below.shape)


def conditions(state: Array, kinks: Kinks) -> Array:
    """The derivatives of P(w) + Σ vθ(η − y) in the point along its manifold, and in θ where a sample is fitted exactly.

    The state is the point (p + 1, t), row by row, and θ of up to as many samples.
    """
    task, penalty, exact = kinks
    point, multipliers = unpack(state, task)
    v = task.weights[:, None]
    pull = task.pull(v * slopes_at(kinks, point, multipliers))
    shift = drift(penalty, point[1:], -pull[1:])
    inside = on_manifold(point, penalty, shift)
    index, fitted = _places(exact, len(multipliers))
    misfit = (v * (task.predictor(inside) - task.y)).ravel()[index]
    first = along_manifold(task, penalty, point, inside, pull, shift)
    return jnp.concatenate([first.ravel(), jnp.where(fitted, misfit, multipliers)])


def solve_conditions(aux: Any, kinks: Kinks, state: Array, rhs: Array) -> Array:
    """The solution u of (∂F/∂state) u = rhs, F being the `conditions`; the shortest where there are many."""
    del aux
    return _solver(kinks, state)[0](rhs)


def newton_step(kinks: Kinks, state: Array) -> Array:
    """The state after a step of Newton's method along the manifold, on which it stays."""
    task, penalty, _ = kinks
    point, multipliers = unpack(state, task)
    move, change = unpack(solve_conditions(None, kinks, state, -conditions(state, kinks)), task)
    w = point[1:] + penalty.tangent(point[1:], move[1:])
    if isinstance(penalty, Ball):  # from whose surface tangents lead away
        w = penalty.prox(w, 1)
    return pack(jnp.concatenate([point[:1] + task.one * move[:1], w]), multipliers + change)


def at_solution(task: Task, penalty: Penalty, point: Array) -> tuple[Kinks, Array]:
    """The kinks at a solution (p + 1, t), and the slopes θ (m,) of the samples that it fits exactly."""
    seen = task.weights[:, None] > 0
    r = task.y - task.predictor(point)
    size = jnp.abs(task.y - task.offset) + jnp.abs(task.X) @ jnp.abs(point[1:])
    near = float(jnp.finfo(r.dtype).eps) ** 0.6 * jnp.max(jnp.where(seen, size, 0))
    kinks = Kinks(task, penalty, (seen & (jnp.abs(r) <= near)).astype(r.dtype))
    state = pack(point, jnp.zeros(most_exact_fits(task), r.dtype))
    # the conditions are linear in θ: one step from anywhere finds it
    return kinks, unpack(state - solve_conditions(None, kinks, state, conditions(state, kinks)), task)[1]


def with_derivatives(task: Task, penalty: Penalty, point: Array) -> Array:
    """The solution `point` (p + 1, t) with the derivatives of the conditions.

    Near a solution that is unique, with no more exact fits than it takes, these stay what they are. Elsewhere there are
    no derivatives, and they are nan.
    """
    kinks, multipliers = at_solution(*lax.stop_gradient((task, penalty, point)))
    state = pack(lax.stop_gradient(point), multipliers)
    derived = implicit_solution(conditions, solve_conditions, state, Kinks(task, penalty, kinks.exact), None)
    unique = (jnp.sum(kinks.exact) <= len(multipliers)) & _solver(kinks, state)[1]
    return unpack(derived, task)[0] * jnp.where(unique, 1, jnp.nan)


def quantile_null_pull(task: Task, penalty: Penalty) -> Array:
    """The gradient (p + 1, t) of the loss at the null model, whose slopes are orthogonal to what is not charged.

    Where several samples are fitted exactly by chance, it is one of the subgradients.
    """
    w = jnp.zeros((task.X.shape[1], task.offset.shape[1]), task.X.dtype)
    if isinstance(penalty, TotalVariation):
        held = replace(penalty, lam=jnp.inf)  # a constant is not charged
    else:
        far = jnp.where(penalty.free(w), jnp.inf, 0)
        held = Box(-far, far)
    point = interior_point(task, held, jnp.zeros((len(w) + 1, w.shape[1]), w.dtype), tol=0).coef
    kinks, multipliers = at_solution(task, held, point)
    return task.pull(task.weights[:, None] * slopes_at(kinks, point, multipliers))


def most_exact_fits(task: Task) -> int:
    """Samples that can be fitted exactly, unless by chance: one for each unknown."""
    return min((task.X.shape[1] + 1) * task.offset.shape[1], task.offset.size)


def pack(point: Array, multipliers: Array) -> Array:
    """The state of a point and the multipliers."""
    return jnp.concatenate([point.ravel(), multipliers])


def unpack(state: Array, task: Task) -> tuple[Array, Array]:
    """The point (p + 1, t) and the multipliers (m,)."""
    shape = (task.X.shape[1] + 1, task.offset.shape[1])
    size = shape[0] * shape[1]
    return state[:size].reshape(shape), state[size:]


def _places(exact: Array, count: int) -> tuple[Array, Array]:
    """Where the multipliers belong among the samples, and which of them do."""
    first, index = lax.top_k(lax.stop_gradient(exact).ravel(), count)
    return index, first > 0


def _solver(kinks: Kinks, state: Array):
    def apply(u):
        return jax.jvp(lambda state: conditions(state, kinks), (state,), (u,))[1]

    matrix = jax.vmap(apply)(jnp.eye(len(state), dtype=state.dtype))
    return symmetric_solver((matrix + matrix.T) / 2)
