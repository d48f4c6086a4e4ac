"""What a run of stochastic gradients starts from and how its answer is certified: for linear models and for any."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from regjax.core.node import register_node
from regjax.core.solution import Solution, Status, relative
from regjax.losses import Loss
from regjax.models.general import Arguments, accepted, pose_task
from regjax.models.problem import silence
from regjax.penalties import Penalty, Zero, is_valid
from regjax.solvers import stochastic as engine
from regjax.solvers.newton import is_quadratic
from regjax.solvers.stochastic import LINEAR, Form, Goal, Rows, Rule
from regjax.solvers.stochastic_start import first_intercept, safe_step
from regjax.solvers.task import Task, certify_point, null_model


@register_node
@dataclass(frozen=True, eq=False)
class StochasticSolution(Solution):
    """A `Solution` of stochastic gradients; `num_iter` counts steps.

    Attributes:
        history: `objective` and `held_out`, each (num_epochs,): what every epoch ended with, nan after a held-out stop.
    """

    history: Any = None


class Given(NamedTuple):
    """Checked arguments: samples and held-out samples as they were given, the parameters to start from, numbers."""

    samples: Rows
    held_out: Rows | None
    init: Any
    loss: Loss
    penalty: Penalty
    step: Array | None
    tol: Array


class Start(NamedTuple):
    """What the loop takes: the rows it runs on, the goal, and the first parameters."""

    rows: Rows
    held_out: Rows | None
    goal: Goal
    params: Any


class Kind(NamedTuple):
    """How a model enters the loop, `ready(rule, given)`, and leaves it, `finish(form, given, start, params)`.

    `finish` returns parameters, status, residual, gap and objective.
    """

    ready: Callable[[Rule, Given], Start]
    finish: Callable[[Form, Given, Start, Any], tuple[Any, Array, Array, Array, Array]]


def solve(
    kind: Kind, rule: Rule, given: Given, key: Array, tell: Callable[[int, Any], None] | None = None
) -> tuple[Any, ...]:
    """The fields of a `StochasticSolution`; epochs are one compiled loop, or with `tell` a Python one.

    Three programs, so that another schedule or number of epochs leaves the other two as they are.
    """
    start = kind.ready(rule, given)
    data = (start.goal, start.rows, start.held_out, start.params, key)
    run, history = engine.descend(rule, *data) if tell is None else engine.descend_aloud(rule, *data, tell)
    params, status, *proof = kind.finish(rule.form, given, start, run.best)
    return params, status, run.state.count, *proof, history


def num_steps(rule: Rule, weights: Array) -> Array:
    """Steps of the whole run: batches that hold a sample of positive weight."""
    per_epoch = jnp.maximum(-(-jnp.sum(weights > 0) // min(rule.batch_size, len(weights))), 1)
    return (rule.num_epochs * per_epoch).astype(jnp.int32)


def quieted(rows: Rows, loss: Loss) -> Rows:
    """Rows without NaN and infinities where the weight is zero."""
    X, y, offset, weights = rows
    X = jax.tree.map(lambda a: _quiet(a, weights), X)
    return Rows(X, loss.encode(silence(y, weights), weights), silence(offset, weights), weights)


def _quiet(a: Array, weights: Array) -> Array:
    if not jnp.issubdtype(a.dtype, jnp.floating):
        return a
    seen = (weights > 0).reshape(-1, *(1,) * (a.ndim - 1))
    return jnp.where(seen | jnp.isfinite(a), a, 0)


def takes_default(rule: Rule, penalty: Penalty, step: Array | None) -> bool:
    """Whether a step is needed that was not given."""
    return step is None and not callable(rule.schedule) and (rule.optimizer is None or not is_quadratic(penalty))


def first_step(rule: Rule, step: Array | None, count: Array, dtype: Any) -> Array:
    """The step as a number: as given, a large one of the schedule's, or 1 where nobody asks for it."""
    if callable(rule.schedule):
        early, midway = (jnp.asarray(rule.schedule(k), dtype) for k in (jnp.zeros_like(count), count // 2))
        return jnp.maximum(early, midway)
    return jnp.ones((), dtype) if step is None else step


def _valid(given: Given, goal: Goal) -> Array:
    good = is_valid(given.penalty) & (given.tol >= 0) & (goal.step > 0)
    for rows in (given.samples, given.held_out):
        if rows is not None:
            v = rows.weights
            good &= jnp.all(v >= 0) & jnp.any(v > 0) & jnp.all(accepted(given.loss, rows.y, v))
    return good


def status_of(valid: Array, params: Any, objective: Array, error: Array, tol: Array) -> Array:
    """CONVERGED only where the certified error is at most `tol`."""
    finite = jnp.isfinite(objective) & jnp.all(jnp.stack([jnp.all(jnp.isfinite(a)) for a in jax.tree.leaves(params)]))
    status = jnp.where(error <= tol, Status.CONVERGED, Status.ITERATION_LIMIT)
    status = jnp.where(finite, status, Status.NON_FINITE)
    return jnp.where(valid, status, Status.INVALID).astype(jnp.int32)


@partial(jax.jit, static_argnums=0)
def _ready_linear(rule: Rule, given: Given) -> Start:
    task, data = _pose(rule.form, given)
    rows = Rows(task.X, task.y, task.offset, task.weights)
    level = first_intercept(given.loss, task.y, task.offset + task.X @ given.init, task.weights)
    params = jnp.concatenate([task.one * level[None], given.init])
    step = given.step
    if takes_default(rule, given.penalty, step):
        step = safe_step(given.loss, rows, params, task.one, rule.batch_size, data.total)
    held_out = given.held_out
    if held_out is not None:
        held_out = quieted(held_out._replace(X=held_out.X - data.mean_x), given.loss)
    count = num_steps(rule, task.weights)
    share = data.total * rule.num_epochs / count
    goal = Goal(given.loss, given.penalty, data.total, share, first_step(rule, step, count, task.X.dtype), count)
    return Start(rows, held_out, goal, params)


def _pose(form: Form, given: Given):
    X, y, offset, weights = given.samples
    arguments = Arguments(X, y, offset, weights, given.loss, given.penalty, None)
    task, _, data, _ = pose_task(arguments, form == LINEAR, False)
    return task, data


@partial(jax.jit, static_argnums=0)
def _finish_linear(form: Form, given: Given, start: Start, point: Array):
    task, data = _pose(form, given)
    penalty, goal = given.penalty, start.goal
    if not is_quadratic(penalty) and given.loss.smooth:
        step = safe_step(given.loss, start.rows, point, task.one, len(task.y), data.total)
        point = engine.settle(form, goal._replace(step=step), start.rows, point)
    objective = task.objective(penalty, point)
    residual, gap, error, exists = _certify(*lax.stop_gradient((task, penalty, point)))
    valid = _valid(given, goal)
    status = status_of(valid, point, objective, error, given.tol)
    lost = valid & ~exists & (status != Status.NON_FINITE)
    status = jnp.where(lost, Status.SEPARATED, status).astype(jnp.int32)
    b = task.one * point[0] - data.mean_x @ point[1:]
    known = valid & (status != Status.NON_FINITE)
    coef, b = (jnp.where(known, a, jnp.nan) for a in (point[1:], b))
    return (coef, b), status, residual, gap, objective


def _certify(task: Task, penalty: Penalty, point: Array) -> tuple[Array, Array, Array, Array]:
    """Residual, gap, what `tol` is compared with, and whether the null model exists; nan for losses with kinks."""
    if not task.loss.smooth:
        unknown = jnp.full((), jnp.nan, point.dtype)
        return unknown, unknown, unknown, jnp.array(True)
    null = null_model(task, penalty, free=jnp.zeros_like if is_quadratic(penalty) else None)
    proof = certify_point(task, penalty, null, point, dual=not isinstance(penalty, Zero))
    return proof.residual, proof.relative_gap, proof.error, null.exists


@partial(jax.jit, static_argnums=0)
def _ready_any(rule: Rule, given: Given) -> Start:
    rows = quieted(given.samples, given.loss)
    held_out = None if given.held_out is None else quieted(given.held_out, given.loss)
    count = num_steps(rule, rows.weights)
    step = first_step(rule, given.step, count, rows.y.dtype)
    total = jnp.sum(rows.weights)
    goal = Goal(given.loss, given.penalty, total, total * rule.num_epochs / count, step, count)
    return Start(rows, held_out, goal, given.init)


@partial(jax.jit, static_argnums=0)
def _finish_any(form: Form, given: Given, start: Start, params: Any):
    goal, rows = start.goal, start.rows
    if not is_quadratic(given.penalty):
        params = engine.settle(form, goal, rows, params)
    objective = engine.total_loss(form, given.loss, params, rows) + given.penalty.value(form.split(params))
    slope, first = (engine.gradient(form, given.loss, at, rows) for at in (params, start.params))
    off = engine.stationarity(form, given.penalty, params, slope)
    residual = lax.stop_gradient(relative(off, engine.largest(first)))
    valid = _valid(given, goal)
    status = status_of(valid, params, objective, residual, given.tol)
    known = valid & (status != Status.NON_FINITE)
    params = jax.tree.map(lambda a: jnp.where(known, a, jnp.nan), params)
    return params, status, residual, jnp.full_like(residual, jnp.nan), objective


LINEAR_MODEL = Kind(_ready_linear, _finish_linear)
ANY_MODEL = Kind(_ready_any, _finish_any)
