"""Stochastic gradients on Σᵢ vᵢ ℓ(yᵢ, oᵢ + f(θ, xᵢ)) + P(θ): any model, any optax transformation, any penalty.

A batch has the objective (Σv/Σv_batch) Σ v ℓ + P: its loss is scaled up to that of all samples, the penalty is not. The
objective of all is the mean of these, weighted by Σv_batch: so a step is proportional to the weight of its batch. With
steps of one length, batches of unequal weight would lead elsewhere.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array, lax

from regjax.losses import Loss
from regjax.penalties import Penalty
from regjax.solvers.newton import is_quadratic


class Rows(NamedTuple):
    """Samples, all or a batch of them: X a pytree (n, ...), y (n, k), offset (n, t), weights (n,).

    What is not finite in rows of weight zero has been replaced.
    """

    X: Any
    y: Array
    offset: Array
    weights: Array


class Form(NamedTuple):
    """A model as functions: how parameters predict, and where the penalised ones are.

    Attributes:
        apply: (params, X) to predictors (n,) or (n, t).
        split: params to the coefficients (p, t) that the penalty applies to.
        join: params with these coefficients put in.
    """

    apply: Callable[[Any, Any], Array]
    split: Callable[[Any], Array]
    join: Callable[[Any, Array], Any]


def _with_coef(point: Array, coef: Array) -> Array:
    return jnp.concatenate([point[:1], coef])


# a point (p + 1, t): the intercept in front, as in `Task`; without one its slope is zero and it stays where it is
LINEAR = Form(lambda point, X: point[0] + X @ point[1:], lambda point: point[1:], _with_coef)
LINEAR_AT_ZERO = Form(lambda point, X: X @ point[1:], lambda point: point[1:], _with_coef)


def _ravel(params: Any) -> Array:
    return jnp.concatenate([jnp.reshape(leaf, (-1, 1)) for leaf in jax.tree.leaves(params)])


def _unravel(params: Any, coef: Array) -> Any:
    leaves, treedef = jax.tree.flatten(params)
    parts = jnp.split(coef[:, 0], [sum(leaf.size for leaf in leaves[: k + 1]) for k in range(len(leaves) - 1)])
    return jax.tree.unflatten(treedef, [part.reshape(leaf.shape) for part, leaf in zip(parts, leaves, strict=True)])


def any_form(apply: Callable[[Any, Any], Array]) -> Form:
    """A model whose parameters are all penalised, ravelled to one column."""
    return Form(apply, _ravel, _unravel)


class Rule(NamedTuple):
    """What is fixed when a run is compiled.

    Attributes:
        form: the model.
        optimizer: an optax transformation; None for proximal gradient steps.
        schedule: of the step: "constant", "falling" as the square of what is left, or a function of the count.
        batch_size, num_epochs, patience: integers.
        average: whether the mean of the iterates of the second half is returned.
    """

    form: Form
    optimizer: optax.GradientTransformation | None
    schedule: Any
    batch_size: int
    num_epochs: int
    average: bool
    patience: int


class Goal(NamedTuple):
    """What is minimised, Σ v ℓ + P, and with what steps.

    Attributes:
        total: Σv. share: Σv of a batch, on average.
        step: of a batch of this weight. num_steps: of the whole run.
    """

    loss: Loss
    penalty: Penalty
    total: Array
    share: Array
    step: Array
    num_steps: Array


class State(NamedTuple):
    """Between two steps: parameters, the optimizer's memory, the average of parameters, and steps taken."""

    params: Any
    memory: Any
    mean: Any
    count: Array


class History(NamedTuple):
    """What each epoch ended with (num_epochs,); nan after a held-out stop.

    Attributes:
        objective: Σ v ℓ + P; for a stream, of the losses as they were met, each before the step it gave.
        held_out: the weighted mean loss of the held-out samples; nan without them.
    """

    objective: Array
    held_out: Array


def begin(rule: Rule, params: Any) -> State:
    """The state before the first step."""
    memory = () if rule.optimizer is None else rule.optimizer.init(params)
    return State(params, memory, params, jnp.zeros((), jnp.int32))


def predict(form: Form, params: Any, rows: Rows) -> Array:
    """η (n, t)."""
    return rows.offset + form.apply(params, rows.X).reshape(rows.offset.shape)


def gradient(form: Form, loss: Loss, params: Any, rows: Rows) -> Any:
    """The gradient of Σ v ℓ in the parameters."""
    eta, pull = jax.vjp(lambda params: predict(form, params, rows), params)
    return pull(loss.slopes(rows.y, eta, rows.weights))[0]


def total_loss(form: Form, loss: Loss, params: Any, rows: Rows) -> Array:
    """Σ v ℓ."""
    return loss.total(rows.y, predict(form, params, rows), rows.weights)


def advance(rule: Rule, goal: Goal, state: State, rows: Rows) -> State:
    """One step on a batch; none where its weights are all zero.

    With g the scaled gradient and η the step of the batch: θ ← prox_{ηP}(θ − ηg). An optimizer is given g + ∇P where P
    is quadratic, and elsewhere the gradient mapping (θ − prox_{ηP}(θ − ηg))/η, which vanishes exactly at stationary
    points: so that every transformation of it, with momentum or scales of its own, has these as its fixed points.
    """
    params, memory, mean, count = state
    form, penalty = rule.form, goal.penalty
    weight = jnp.sum(rows.weights)
    some = weight > 0
    scale = goal.total / jnp.where(some, weight, 1)
    slope = jax.tree.map(lambda g: scale * g, gradient(form, goal.loss, params, rows))
    importance = jnp.where(some, weight, goal.share) / goal.share

    def value(params):
        """What the optimizer lowers, on the batch."""
        return importance * (scale * total_loss(form, goal.loss, params, rows) + penalty.value(form.split(params)))

    if rule.optimizer is None:
        params = proximal_step(form, penalty, params, slope, importance * rate(rule, goal, count))
    else:
        if is_quadratic(penalty):
            slope = form.join(slope, form.split(slope) + jax.grad(penalty.value)(form.split(params)))
            slope = jax.tree.map(lambda g: importance * g, slope)
        else:
            near = proximal_step(form, penalty, params, slope, importance * goal.step)
            slope = jax.tree.map(lambda a, b: (a - b) / goal.step, params, near)
        asked = {"value": value(params)}  # some transformations look at it
        if is_quadratic(penalty):
            asked |= {"grad": slope, "value_fn": value}
        try:
            updates, memory = optax.with_extra_args_support(rule.optimizer).update(slope, memory, params, **asked)
        except TypeError as error:
            raise ValueError(f"optimizer takes more than gradients and values of the objective: {error}") from error
        params = optax.apply_updates(params, updates)
    tail = jnp.maximum(count + 1 - goal.num_steps // 2, 1)
    mean = jax.tree.map(lambda m, a: m + (a - m) / tail.astype(a.dtype), mean, params)
    new = State(params, memory, mean, count + 1)
    return jax.tree.map(lambda a, b: jnp.where(some, a, b), new, state)


def proximal_step(form: Form, penalty: Penalty, params: Any, slope: Any, step: Array) -> Any:
    """prox_{ηP}(θ − η∇) on what is penalised, a gradient step on the rest."""
    moved = jax.tree.map(lambda a, g: a - step * g, params, slope)
    return form.join(moved, penalty.prox(form.split(moved), step))


def rate(rule: Rule, goal: Goal, count: Array) -> Array:
    """The step of a count."""
    if rule.schedule == "constant":
        return goal.step
    if rule.schedule == "falling":
        left = jnp.maximum(goal.num_steps - count, 1).astype(goal.step.dtype)
        return goal.step * (left / goal.num_steps) ** 2
    tiny = jnp.finfo(goal.step.dtype).tiny  # a schedule may begin or end at 0, a prox takes a positive step
    return jnp.maximum(jnp.asarray(rule.schedule(count), goal.step.dtype), tiny)


def answer(rule: Rule, state: State) -> Any:
    """The parameters that a run would return now."""
    return state.mean if rule.average else state.params


def shuffle(key: Array, weights: Array, batch_size: int) -> tuple[Array, Array]:
    """Row numbers (batches, batch_size) in random order, and which of them count.

    Batches are as equal as can be, since a last one of few samples would have their noise. The order of rows of
    positive weight is drawn as if there were no others: to leave a fold out by its weights is to leave it out.
    """
    n = len(weights)
    seen = weights > 0
    draws = jax.random.bits(key, (n,), jnp.uint32)[jnp.cumsum(seen) - 1] >> 1
    order = jnp.argsort(jnp.where(seen, draws, jnp.uint32(2**32 - 1)))
    count = jnp.sum(seen)
    num_batches = -(-count // batch_size)
    batch = jnp.arange(-(-n // batch_size))[:, None]
    place = batch + num_batches * jnp.arange(batch_size)
    real = (batch < num_batches) & (place < count)
    return order[jnp.where(real, place, 0)], real


def epoch(rule: Rule, goal: Goal, rows: Rows, state: State, key: Array) -> State:
    """A pass over all samples, in batches; in one batch as they are."""
    if rule.batch_size >= len(rows.weights):
        return advance(rule, goal, state, rows)

    def step(state, batch):
        index, real = batch
        part = jax.tree.map(lambda a: a[index], rows)
        return advance(rule, goal, state, part._replace(weights=jnp.where(real, part.weights, 0))), None

    return lax.scan(step, state, shuffle(key, rows.weights, rule.batch_size))[0]


class Watch(NamedTuple):
    """A run after some epochs: its state, the best parameters by held-out loss, and epochs without a better one."""

    state: State
    best: Any
    least: Array
    stale: Array


def watch(rule: Rule, params: Any, dtype: Any) -> Watch:
    """A run before its first epoch."""
    return Watch(begin(rule, params), params, jnp.array(jnp.inf, dtype), jnp.zeros((), jnp.int32))


def record(rule: Rule, goal: Goal, held_out: Rows | None, run: Watch, state: State) -> tuple[Watch, Array]:
    """Take in the state after an epoch, and measure it on the held-out samples."""
    params = answer(rule, state)
    if held_out is None:
        return Watch(state, params, run.least, run.stale), jnp.full((), jnp.nan, run.least.dtype)
    value = total_loss(rule.form, goal.loss, params, held_out) / jnp.sum(held_out.weights)
    better = value < run.least
    best = jax.tree.map(lambda a, b: jnp.where(better, a, b), params, run.best)
    return Watch(state, best, jnp.where(better, value, run.least), jnp.where(better, 0, run.stale + 1)), value


def watched_epoch(rule: Rule, goal: Goal, rows: Rows, held_out: Rows | None, run: Watch, key: Array):
    """An epoch and its entry in the history; nothing once the held-out loss has not fallen for `patience` epochs."""

    def proceed(run):
        state = epoch(rule, goal, rows, run.state, key)
        params = answer(rule, state)
        objective = total_loss(rule.form, goal.loss, params, rows) + goal.penalty.value(rule.form.split(params))
        run, value = record(rule, goal, held_out, run, state)
        return run, History(objective, value)

    def rest(run):
        return run, History(jnp.full_like(run.least, jnp.nan), jnp.full_like(run.least, jnp.nan))

    if held_out is None:
        return proceed(run)
    return lax.cond(run.stale < rule.patience, proceed, rest, run)


@partial(jax.jit, static_argnums=0)
def descend(rule: Rule, goal: Goal, rows: Rows, held_out: Rows | None, params: Any, key: Array) -> tuple[Watch, Any]:
    """All epochs, as one loop: for `jit` and `vmap`."""

    def step(run, number):
        return watched_epoch(rule, goal, rows, held_out, run, jax.random.fold_in(key, number))

    return lax.scan(step, watch(rule, params, rows.y.dtype), jnp.arange(rule.num_epochs))


_watched_epoch = jax.jit(watched_epoch, static_argnums=0)


def descend_aloud(
    rule: Rule, goal: Goal, rows: Rows, held_out: Rows | None, params: Any, key: Array, tell: Callable[[int, Any], None]
) -> tuple[Watch, Any]:
    """The same in a Python loop that calls `tell(epochs done, history entry)`."""
    run, entries = watch(rule, params, rows.y.dtype), []
    for number in range(rule.num_epochs):
        run, entry = _watched_epoch(rule, goal, rows, held_out, run, jax.random.fold_in(key, number))
        entries.append(entry)
        tell(number + 1, entry)
    return run, jax.tree.map(lambda *values: jnp.stack(values), *entries)


def settle(form: Form, goal: Goal, rows: Rows, params: Any) -> Any:
    """One proximal gradient step on all samples, where it lowers the objective: it finds the zeros that noise hides."""

    def value(params):
        return total_loss(form, goal.loss, params, rows) + goal.penalty.value(form.split(params))

    moved = proximal_step(form, goal.penalty, params, gradient(form, goal.loss, params, rows), goal.step)
    better = value(moved) <= value(params)
    return jax.tree.map(lambda a, b: jnp.where(better, a, b), moved, params)


def stationarity(form: Form, penalty: Penalty, params: Any, slope: Any) -> Array:
    """The largest distance of −∇ to the subgradients of the penalty, what it does not apply to included."""
    off = jnp.max(penalty.distance(form.split(params), -form.split(slope)))
    rest = form.join(slope, jnp.zeros_like(form.split(slope)))
    return jnp.maximum(off, largest(rest))


def largest(tree: Any) -> Array:
    """The largest absolute value of a pytree."""
    return jnp.max(jnp.stack([jnp.max(jnp.abs(leaf)) for leaf in jax.tree.leaves(tree)]))
