"""Stochastic gradients on a stream of batches, in constant memory."""

import itertools
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from regjax.core.checks import check_strength, require
from regjax.core.solution import Status, relative
from regjax.losses import Loss
from regjax.models.problem import center
from regjax.models.stochastic_data import Checked, Model, check_alike, first_params
from regjax.models.stochastic_problem import StochasticSolution, first_step, quieted, status_of, takes_default
from regjax.penalties import Penalty, check_penalty
from regjax.solvers import stochastic as engine
from regjax.solvers.newton import is_quadratic
from regjax.solvers.progress import Progress
from regjax.solvers.stochastic import LINEAR, Form, Goal, History, Rows, Rule, State
from regjax.solvers.stochastic_start import first_intercept, safe_step


def fit_stream(
    batches: Any,
    loss: Loss,
    penalty: Penalty,
    model: Model,
    rule: Rule,
    *,
    step: Any,
    init: Any,
    holdout: Any,
    total: Any,
    progress: bool,
    tol: Any,
) -> StochasticSolution:
    """Take a step on every batch as it comes.

    The columns of linear models with an intercept are about their means in the first batch. The default step is the
    smallest that a batch asks for; of a stream that cannot be read again, that of the first batch, which should be
    like the others (else give `step`). A stream that can be read again (a list, not a generator) is read once more for
    the certificate, and twice for the proximal step on all samples under penalties that are not quadratic.
    """
    source, again = _open(batches)
    if not again and (rule.num_epochs > 1 or total is None):
        raise ValueError(
            "X is a stream that can be read only once: it takes num_epochs=1 and total, its sum of weights"
        )
    first = model.check(loss, *_parts(next(source())))
    loss, dtype = first.loss, first.rows.y.dtype
    read = partial(_read, source, model, first)
    if total is None:
        total = sum(float(jnp.sum(rows.weights)) for rows in read())
    total = check_strength("total", total, dtype)
    require(lambda a: a > 0, total, message=f"total must be positive, got {total}")
    penalty = check_penalty(penalty, first.samples.structure, first.trailing if model.linear else (), dtype)
    tol = check_strength("tol", tol, dtype)

    shift = _means(first.rows) if rule.form == LINEAR else None
    rows, start = _about(first.rows, shift, loss), first_params(model, init, first)
    step = None if step is None else step.astype(dtype)
    if model.linear:
        one = jnp.asarray(float(rule.form == LINEAR), dtype)
        level = first_intercept(loss, rows.y, rows.offset + rows.X @ start, rows.weights)
        start = jnp.concatenate([one * level[None], start])
        if takes_default(rule, penalty, step):
            size = len(rows.weights)
            several = (_about(batch, shift, loss) for batch in read()) if again else [rows]
            step = min(safe_step(loss, batch, start, one, size, total) for batch in several)
    share = jnp.sum(rows.weights)
    num_steps = rule.num_epochs * jnp.ceil(total / share).astype(jnp.int32)
    goal = Goal(loss, penalty, total, share, first_step(rule, step, num_steps, dtype), num_steps)
    held_out = model.check_holdout(loss, holdout, first)
    held_out = None if held_out is None else _about(held_out, shift, loss)

    run, entries = engine.watch(rule, start, dtype), []
    bar = Progress(int(num_steps), "step") if progress else None
    for _ in range(rule.num_epochs):
        state, met = run.state, jnp.zeros((), dtype)
        for batch in read():
            state, met = _take(rule, goal, shift, state, met, batch)
            if bar is not None:
                bar.tell(int(state.count))
        run, value = _record(rule, goal, held_out, run, state)
        entries.append(History(met + penalty.value(rule.form.split(engine.answer(rule, state))), value))
        if held_out is not None and int(run.stale) >= rule.patience:
            break
    if bar is not None:
        bar.close()
    params, residual, objective = run.best, jnp.full((), jnp.nan, dtype), entries[-1].objective
    if again:
        params, residual, objective = _certified(rule.form, goal, shift, read, start, params)
    status = status_of(jnp.array(True), params, objective, residual, tol)
    params = jax.tree.map(lambda a: jnp.where(status == Status.NON_FINITE, jnp.nan, a), params)
    if model.linear:
        b = params[0] if shift is None else params[0] - shift @ params[1:]
        params = first.samples.model(params[1:], b)
    entries += [History(jnp.nan * objective, jnp.nan * objective)] * (rule.num_epochs - len(entries))
    history = jax.tree.map(lambda *values: jnp.stack(values), *entries)
    gap = jnp.full_like(residual, jnp.nan)
    return StochasticSolution(params, status, run.state.count, residual, gap, objective, history=history)


def _open(batches: Any) -> tuple[Callable[[], Iterator], bool]:
    """A function that reads the stream from its beginning, and whether it can be called more than once."""
    if not isinstance(batches, Iterable) or isinstance(batches, jax.Array | np.ndarray):
        raise ValueError(f"X takes an iterable of batches where y is None, got {type(batches).__name__}")
    if not isinstance(batches, Iterator):
        if next(_weighty(iter(batches)), None) is None:
            raise ValueError("X is a stream without samples")
        return lambda: _weighty(iter(batches)), True
    head = next(_weighty(batches), None)
    if head is None:
        raise ValueError("X is a stream without samples")
    whole = itertools.chain([head], _weighty(batches))
    peeked = itertools.chain([iter([head])], itertools.repeat(whole))  # the first look, then the one pass
    return lambda: next(peeked), False


def _weighty(batches: Iterator) -> Iterator:
    """The batches whose weights are not all zero."""
    return (batch for batch in batches if len(_parts(batch)) == 2 or np.any(np.asarray(batch[2]) != 0))


def _parts(batch: Any) -> Any:
    if not isinstance(batch, tuple | list) or len(batch) not in (2, 3):
        raise ValueError("X takes batches (X, y) or (X, y, weights) where y is None")
    return batch


def _read(source: Callable[[], Iterator], model: Model, first: Checked) -> Iterator[Rows]:
    """Batches, checked; short ones filled up to the size of the first, so that one program serves them all."""
    size = len(first.rows.weights)
    for batch in source():
        checked = model.check(first.loss, *batch)
        check_alike("a batch of X", checked, first)
        rows = jax.tree.map(lambda a, b: a.astype(b.dtype), checked.rows, first.rows)
        short = size - len(rows.weights)
        yield rows if short <= 0 else _filled(rows, short)


def _filled(rows: Rows, short: int) -> Rows:
    """The rows, and the last one again with weight zero."""
    filled = jax.tree.map(lambda a: jnp.concatenate([a, jnp.repeat(a[-1:], short, axis=0)]), rows)
    return filled._replace(weights=jnp.pad(rows.weights, (0, short)))


@jax.jit
def _means(rows: Rows) -> Array:
    return center(rows.X, rows.y, rows.weights, True).mean_x


def _about(rows: Rows, shift: Array | None, loss: Loss) -> Rows:
    return quieted(rows if shift is None else rows._replace(X=rows.X - shift), loss)


@partial(jax.jit, static_argnums=0)
def _take(rule: Rule, goal: Goal, shift: Array | None, state: State, met: Array, rows: Rows) -> tuple[State, Array]:
    """A step, and the losses met so far, each before the step it gave."""
    rows = _about(rows, shift, goal.loss)
    return engine.advance(rule, goal, state, rows), met + engine.total_loss(rule.form, goal.loss, state.params, rows)


_record = jax.jit(engine.record, static_argnums=0)


@partial(jax.jit, static_argnums=0)
def _measure(form: Form, goal: Goal, shift: Array | None, params: Any, rows: Rows) -> tuple[Any, Array]:
    """A batch's part of the gradient and of the loss."""
    rows = _about(rows, shift, goal.loss)
    return engine.gradient(form, goal.loss, params, rows), engine.total_loss(form, goal.loss, params, rows)


def _certified(form: Form, goal: Goal, shift: Array | None, read: Callable[[], Iterator[Rows]], start: Any, last: Any):
    """The better of the last parameters and a proximal step from them; its residual and objective."""

    def measure(*points):
        sums = [(jax.tree.map(jnp.zeros_like, params), jnp.zeros_like(goal.step)) for params in points]
        for rows in read():
            parts = [_measure(form, goal, shift, params, rows) for params in points]
            sums = jax.tree.map(jnp.add, sums, parts)
        return sums

    (slope, value), (first, _) = measure(last, start)
    value += goal.penalty.value(form.split(last))
    if not is_quadratic(goal.penalty):
        moved = engine.proximal_step(form, goal.penalty, last, slope, goal.step)
        [(new_slope, new_value)] = measure(moved)
        new_value += goal.penalty.value(form.split(moved))
        if bool(new_value <= value):
            last, slope, value = moved, new_slope, new_value
    off = engine.stationarity(form, goal.penalty, last, slope)
    return last, relative(off, engine.largest(first)), value
