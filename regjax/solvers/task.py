"""Σᵢ vᵢ ℓ(yᵢ, oᵢ + b + xᵢw) + P(w) for any loss: the objective, the null model, and the certificate of a point."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from regjax.core.krylov import conjugate_gradients
from regjax.core.loop import iterate
from regjax.core.products import cross
from regjax.core.solution import Status, largest, relative
from regjax.core.thin import thin
from regjax.core.turned import Turned
from regjax.losses import Loss
from regjax.penalties import L2, Penalty, Zero
from regjax.penalties.separable import Separable
from regjax.solvers.certificate import Certificate, least_gap

Data = tuple[Any, Array, Array, Array, Array]  # X, y, offset, weights and `one` of a `Task`


class Task(NamedTuple):
    """What a solver for general losses is given. A point is (p + 1, t): the intercept in front of the coefficients.

    Attributes:
        X: (n, p), its columns about their means where there is an intercept; `Turned` for some solvers.
        y: (n, t). offset: (n, t). weights: (n,).
        one: 1 with an intercept, else 0, a scalar.
        loss: ℓ.
    """

    X: Any
    y: Array
    offset: Array
    weights: Array
    one: Array
    loss: Loss

    def image(self, direction: Array) -> Array:
        """b + Xw (n, t)."""
        return self.one * direction[0] + self.X @ direction[1:]

    def predictor(self, point: Array) -> Array:
        """η (n, t)."""
        return self.offset + self.image(point)

    def pull(self, slopes: Array) -> Array:
        """The adjoint of `image`: (p + 1, t)."""
        along = self.X.cross(slopes) if isinstance(self.X, Turned) else cross(self.X, slopes)
        return jnp.concatenate([self.one * jnp.sum(slopes, axis=0, keepdims=True), along])

    def pull_of_sizes(self, sizes: Array) -> Array:
        """What `pull` of the coefficients adds up, in absolute values: (p, t)."""
        return self.X.cross_of_sizes(sizes) if isinstance(self.X, Turned) else cross(jnp.abs(self.X), sizes)

    def total(self, eta: Array) -> Array:
        """Σ v ℓ, inf where it is not a number."""
        value = self.loss.total(self.y, eta, self.weights)
        return jnp.where(jnp.isnan(value), jnp.inf, value)

    def slopes(self, eta: Array) -> Array:
        """The gradient in η."""
        return self.loss.slopes(self.y, eta, self.weights)

    def theta(self, eta: Array) -> Array:
        """The slopes of single samples (n, t), without their weights: a dual point."""
        flat, y = thin(eta, self.y)
        return self.loss.gradient(y, flat).reshape(eta.shape)

    def press(self, eta: Array, u: Array) -> Array:
        """The Hessian in η, or its model, times u."""
        return self.loss.press(self.y, eta, self.weights, u)

    def objective(self, penalty: Penalty, point: Array) -> Array:
        """Σ v ℓ + P."""
        return self.total(self.predictor(point)) + penalty.value(point[1:])


class Null(NamedTuple):
    """The null model: its point and predictors, half the null deviance, the largest slope, whether it is a minimum.

    `of_one` is what a slope of the intercept counts beside those of columns, in whose units it is not.
    """

    point: Array
    eta: Array
    deviance: Array
    slope: Array
    exists: Array
    of_one: Any = 1.0


class Place(NamedTuple):
    """A point (p + 1, t) with its predictors η (n, t), its loss, and how far rounding can move a loss."""

    point: Array
    eta: Array
    loss: Array
    rounding: Array


def place(task: Task, point: Array, eta: Array | None = None) -> Place:
    """The place of a point; `eta` are its predictors, if they are known."""
    eta = task.predictor(point) if eta is None else eta
    size = jnp.abs(task.loss.least(task.y, task.weights)) + jnp.sum(task.weights)
    return Place(point, eta, task.total(eta), 64 * float(jnp.finfo(point.dtype).eps) * size)


def advance(
    task: Task, penalty: Penalty | None, here: Place, direction: Array, predicted: Array, change: Array | None = None
) -> Place:
    """point + t·direction, t the first of 1, ½, ¼, … whose objective falls by a part of what is predicted.

    `predicted` is the (negative) directional derivative, `change` the image of the direction, if it is known. Near the
    minimum, where the objective falls by less than its own rounding, the whole step is taken: that it is one to the
    better, the certificate will tell. Where no step of these falls, the place stays what it is. A penalty that charges
    the direction nothing may be None.
    """

    def charged(point):
        return 0.0 if penalty is None else penalty.value(point[1:])

    change = task.image(direction) if change is None else change
    base = here.loss + charged(here.point)
    slip = here.rounding + 64 * float(jnp.finfo(change.dtype).eps) * jnp.abs(base)
    slip = jnp.where(jnp.isfinite(slip), slip, 0)

    def halve(state):
        t = state[0] / 2
        loss = task.total(here.eta + t * change)
        value = loss + charged(here.point + t * direction)
        over = value - (base + 1e-4 * t * predicted + slip)
        over = jnp.where(jnp.isfinite(over), over, jnp.where(value < base, 0, jnp.finfo(value.dtype).max))
        return (t, loss), jnp.maximum(over, 0)

    start = (jnp.full((), 2, change.dtype), here.loss)
    search = iterate(halve, start, tol=0, max_iter=40, patience=41)
    t, loss = search.state
    there = here._replace(point=here.point + t * direction, eta=here.eta + t * change, loss=loss)
    falls = search.status == Status.CONVERGED
    return jax.tree.map(lambda new, old: jnp.where(falls, new, old), there, here)


def working_point(task: Task, here: Place) -> tuple[Array, Array]:
    """The predictors about which to model the loss, and its slopes here in that model.

    They are those of the point itself, unless its loss is infinite: then the model is about predictors that suit y
    sample by sample, whatever the coefficients are.
    """
    at = jnp.where(jnp.isfinite(here.loss), here.eta, task.loss.start(task.y))
    return at, task.slopes(at) + task.press(at, here.eta - at)


def quadratic_model(task: Task, here: Place) -> tuple[Array, Array, Array]:
    """Working weights h and responses z (n, t) of the model ½ Σ hᵢ(zᵢ − b − xᵢw)² of the loss, and its slopes."""
    at, slopes = working_point(task, here)
    h = working_weights(task, at)
    return h, here.eta - task.offset - slopes / jnp.where(h > 0, h, 1), slopes


def working_weights(task: Task, at: Array) -> Array:
    """The curvature (n, t) of the loss of each sample at predictors `at`."""
    h = task.press(at, jnp.ones_like(at))
    # a sample that is fitted perfectly has no curvature left, and must not vanish from the model
    floor = float(jnp.finfo(h.dtype).eps) ** 0.5 * jnp.max(h)
    return jnp.where(task.weights[:, None] > 0, jnp.maximum(h, floor), 0)


def free_step(task: Task, here: Place, free: Callable[[Array], Array]) -> tuple[Array, Array]:
    """The Newton step over the intercept and the directions that `free` projects onto, and the slope there."""

    def project(direction):
        return jnp.concatenate([task.one * direction[:1], free(direction[1:])])

    def apply(u):
        inside = project(u)
        return project(task.pull(task.press(at, task.image(inside)))) + u - inside

    at, slopes = working_point(task, here)
    slope = project(task.pull(slopes))
    eps = float(jnp.finfo(slope.dtype).eps)
    return project(conjugate_gradients(apply, -slope, tol=eps, max_iter=min(2 * slope.size, 500))), slope


def refit(task: Task, start: Place, free: Callable[[Array], Array]) -> tuple[Place, Array]:
    """Minimise the loss over the intercept and the directions that `free` projects onto, by Newton's method.

    No penalty charges them.

    Returns:
        The place, and the step that would come next: one that is not short tells that there is no minimum.
    """
    if task.loss.coupled:
        return _refit_all(task, start, free)
    nothing = jnp.all(free(_everywhere(start.point[1:])) == 0)
    return lax.cond(nothing, lambda: _refit_intercept(task, start), lambda: _refit_all(task, start, free))


def _everywhere(coef: Array) -> Array:
    """Coefficients (p, t) that have a part along every direction."""
    return jnp.broadcast_to(jnp.sin(1 + jnp.arange(len(coef), dtype=coef.dtype))[:, None], coef.shape)


def _left(slope: Array, size: Array) -> Array:
    """The largest of slopes, 0 where it is rounding of the sums of this size that they are."""
    error = jnp.max(jnp.abs(slope))
    return jnp.where(error <= 4 * float(jnp.finfo(slope.dtype).eps) * size, 0, error)


def _refit_intercept(task: Task, start: Place) -> tuple[Place, Array]:
    """`refit` over the intercept alone, without a pass over X."""

    def next_step(here):
        at, slopes = working_point(task, here)
        slope = task.one * jnp.sum(slopes, axis=0)
        bend = jnp.sum(task.press(at, jnp.ones_like(at)), axis=0)
        return -slope / jnp.where(bend > 0, bend, 1), slope, _left(slope, jnp.sum(jnp.abs(slopes)))

    def whole(shift):
        return jnp.zeros_like(start.point).at[0].set(shift)

    def step(state):
        here, move, slope = state
        change = jnp.broadcast_to(move, here.eta.shape)
        here = advance(task, None, here, whole(move), jnp.vdot(slope, move), change)
        move, slope, error = next_step(here)
        return (here, move, slope), error

    move, slope, error = next_step(start)
    here, move, _ = iterate(step, (start, move, slope), tol=0, max_iter=50, patience=3, error=error).state
    return here, whole(move)


def _refit_all(task: Task, start: Place, free: Callable[[Array], Array]) -> tuple[Place, Array]:
    """`refit` over everything that is free, by conjugate gradients."""

    def step(state):
        here, direction, slope = state
        here = advance(task, None, here, direction, jnp.vdot(slope, direction))
        direction, slope = free_step(task, here, free)
        return (here, direction, slope), _left(slope, unit * jnp.sum(jnp.abs(working_point(task, here)[1])))

    size = jnp.abs(working_point(task, start)[1])
    unit = jnp.maximum(1, relative(jnp.max(task.pull_of_sizes(size)), jnp.sum(size)))
    still = jnp.zeros_like(start.point)
    here, direction, _ = iterate(step, (start, still, still), tol=0, max_iter=50, patience=3).state
    eta = task.predictor(here.point)  # without the rounding that steps have left there
    return here._replace(eta=eta, loss=task.total(eta)), direction


def null_model(task: Task, penalty: Penalty, free: Callable[[Array], Array] | None = None) -> Null:
    """The best point among those that the penalty does not charge (or in `free`)."""
    if free is None and isinstance(penalty, Zero):  # at whose minimum nothing is left to measure slopes in
        null = null_model(task, penalty, jnp.zeros_like)
        here, direction = refit(task, place(task, null.point, null.eta), penalty.unpenalised)
        exists = null.exists & ~runs_away(task, here.eta, task.image(direction))
        return null._replace(point=here.point, eta=here.eta, exists=exists)
    free = penalty.unpenalised if free is None else free
    start = task.loss.start(task.y)
    each = task.weights[:, None]  # those of a coupled loss may vanish for directions that change nothing
    weight = jnp.broadcast_to(each, start.shape) if task.loss.coupled else task.press(start, jnp.ones_like(start))
    total = jnp.sum(weight, axis=0)
    mean = jnp.sum(weight * (start - task.offset), axis=0) / jnp.where(total > 0, total, 1)
    point = jnp.zeros((task.X.shape[1] + 1, start.shape[1]), task.X.dtype).at[0].set(task.one * mean)
    first = place(task, point, task.offset + task.one * point[0] + jnp.zeros_like(start))
    here, direction = refit(task, first, free)
    # where all directions are free, only rounding is left of slopes: then the unit is what they were before
    everything = jnp.all(free(_everywhere(point[1:])) == _everywhere(point[1:]))
    _, slopes = working_point(task, jax.tree.map(lambda a, b: jnp.where(everything, a, b), first, here))
    deviance = here.loss - task.loss.least(task.y, task.weights)
    deviance = jnp.where(jnp.isfinite(deviance), jnp.maximum(deviance, 0), 0)
    exists = ~runs_away(task, here.eta, task.image(direction))
    slope = jnp.max(jnp.abs(task.pull(slopes)[1:]))
    return Null(here.point, here.eta, deviance, slope, exists, worth_of_one(slope, slopes))


def worth_of_one(slope: Array, slopes: Array) -> Array:
    """What a slope of the intercept counts beside those of columns: relative to all slopes of samples, as they are.

    `slope` is the largest of a column at the null model, where the samples have these slopes.
    """
    total = jnp.sum(jnp.abs(slopes))
    return jnp.where((slope > 0) & (total > 0), slope / jnp.where(total > 0, total, 1), 1)


def runs_away(task: Task, eta: Array, change: Array) -> Array:
    """Whether a step would still change the predictors by more than a hundredth of themselves, less the offset."""
    seen = (task.weights > 0)[:, None]
    images = (task.loss.visible(a) for a in (change, eta - task.offset))
    change, eta = (jnp.max(jnp.where(seen, jnp.abs(a), 0)) for a in images)
    return change > 1e-2 * jnp.maximum(eta, 1)


def separated(task: Task, penalty: Penalty, null: Null, point: Array) -> Array:
    """Whether the loss falls for ever: at the null model, or along coefficients that one limit leaves open.

    Where the penalty charges nothing for a coefficient within a limit, the null model does not fit it.
    """
    if not isinstance(penalty, Separable) or isinstance(penalty, Zero | L2):
        return ~null.exists
    terms = penalty.terms(point[1:])
    open_ended = terms.unpenalised & ~terms.free & (jnp.isinf(terms.lower) | jnp.isinf(terms.upper))
    open_ended &= (point[1:] > terms.lower) & (point[1:] < terms.upper)

    def runs():
        here = place(task, point)
        direction, _ = free_step(task, here, lambda u: jnp.where(open_ended, u, 0))
        return runs_away(task, here.eta, task.image(direction))

    return ~null.exists | lax.cond(jnp.any(open_ended), runs, lambda: jnp.array(False))


def distance(penalty: Penalty, point: Array, pull: Array, of_one: Any = 1.0) -> Array:
    """The largest distance of −∇ to the subgradients of the penalty, with the slope of the intercept times `of_one`.

    `pull` is ∇ (p + 1, t).
    """
    return jnp.maximum(largest(penalty.distance(point[1:], -pull[1:])), of_one * largest(jnp.abs(pull[0])))


def certify_point(
    task: Task, penalty: Penalty, null: Null, point: Array, *, dual: bool = True, eta: Array | None = None
) -> Certificate:
    """Measure optimality at the point.

    The dual point is s·ℓ′ at the best intercept and unpenalised part for these coefficients, which makes it orthogonal
    to them, with s as large as the domain of P* allows. The gap is the sum of ℓ + ℓ* − θη over samples and of
    P + P* − ⟨w, z⟩, each of which is not negative. `eta` are the predictors of the point, if they are known.
    """
    return certify_and_pull(task, penalty, null, point, dual=dual, eta=eta)[0]


def certify_and_pull(
    task: Task,
    penalty: Penalty,
    null: Null,
    point: Array,
    *,
    dual: bool = True,
    eta: Array | None = None,
    pull: Callable[[Array], Array] | None = None,
    refitted: bool = False,
) -> tuple[Certificate, Array]:
    """`certify_point`, and the gradient of the loss (p + 1, t) at the point, which it takes.

    `pull` does what that of the task does, if there is a faster way. A point that comes from `refit` is `refitted`.
    """
    loss, pull = task.loss, task.pull if pull is None else pull
    eta = task.predictor(point) if eta is None else eta
    here = pull(task.slopes(eta))
    if not (dual and loss.has_dual and loss.convex and penalty.convex):
        off = distance(penalty, point, here, null.of_one)
        return Certificate(jnp.full_like(off, jnp.nan), null.deviance, off, null.slope), here
    at = eta if refitted else refit(task, place(task, point, eta), penalty.unpenalised)[0].eta
    there = here if refitted else lax.cond(jnp.all(at == eta), lambda: here, lambda: pull(task.slopes(at)))
    off = distance(penalty, point, here, null.of_one)
    gap = dual_gap(task, penalty, null, point, eta, task.theta(at), there)
    return Certificate(gap, null.deviance, off, null.slope), here


def dual_gap(task: Task, penalty: Penalty, null: Null, point: Array, eta: Array, theta: Array, pull: Array) -> Array:
    """The gap of a point with predictors `eta` to s·`theta` (n, t), of which `pull` is the adjoint image of v·`theta`.

    With s as large as the domain of P* allows.
    """
    return least_gap(
        penalty,
        point[1:],
        -pull[1:],
        null.slope,
        lambda scale: task.loss.excess(task.y, eta, scale * theta, task.weights),
    )
