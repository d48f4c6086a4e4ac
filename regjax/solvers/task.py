"""Σᵢ vᵢ ℓ(yᵢ, oᵢ + b + xᵢw) + P(w) for any loss: the objective, the null model, and the certificate of a point."""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from regjax.core.krylov import conjugate_gradients
from regjax.core.linalg import cross
from regjax.core.loop import iterate
from regjax.losses import Loss
from regjax.penalties import Penalty, Zero
from regjax.solvers.certificate import Certificate


class Task(NamedTuple):
    """What a solver for general losses is given. A point is (p + 1, t): the intercept in front of the coefficients.

    Attributes:
        X: (n, p), its columns about their means where there is an intercept. y: (n, t). offset: (n, t). weights: (n,).
        one: 1 with an intercept, else 0, a scalar.
        loss: ℓ.
        columns: Xᵀ (p, n) in memory of its own, for solvers that take single columns; None where it was not made.
    """

    X: Array
    y: Array
    offset: Array
    weights: Array
    one: Array
    loss: Loss
    columns: Array | None = None

    def image(self, direction: Array) -> Array:
        """b + Xw (n, t)."""
        return self.one * direction[0] + self.X @ direction[1:]

    def predictor(self, point: Array) -> Array:
        """η (n, t)."""
        return self.offset + self.image(point)

    def pull(self, slopes: Array) -> Array:
        """The adjoint of `image`: (p + 1, t)."""
        return jnp.concatenate([self.one * jnp.sum(slopes, axis=0, keepdims=True), cross(self.X, slopes)])

    def total(self, eta: Array) -> Array:
        """Σ v ℓ, inf where it is not a number."""
        value = self.loss.total(self.y, eta, self.weights)
        return jnp.where(jnp.isnan(value), jnp.inf, value)

    def slopes(self, eta: Array) -> Array:
        """The gradient in η."""
        return self.loss.slopes(self.y, eta, self.weights)

    def press(self, eta: Array, u: Array) -> Array:
        """The Hessian in η, or its model, times u."""
        return self.loss.press(self.y, eta, self.weights, u)

    def objective(self, penalty: Penalty, point: Array) -> Array:
        """Σ v ℓ + P."""
        return self.total(self.predictor(point)) + penalty.value(point[1:])


class Null(NamedTuple):
    """The null model: its point, half the null deviance, the largest slope at it, and whether it is a minimum."""

    point: Array
    deviance: Array
    slope: Array
    exists: Array


def damped(task: Task, penalty: Penalty, point: Array, direction: Array, predicted: Array) -> Array:
    """point + t·direction, t the first of 1, ½, ¼, … whose objective falls by a part of what is predicted.

    `predicted` is the (negative) directional derivative. Near the minimum, where the objective falls by less than its
    own rounding, the whole step is taken: that it is one to the better, the certificate will tell.
    """
    length = step_length(task, penalty, point, direction, predicted, task.predictor(point), task.image(direction))
    return point + length * direction


def step_length(task, penalty, point, direction, predicted, eta, change) -> Array:
    """t of `damped`, with the predictors and their change given."""
    base = task.total(eta) + penalty.value(point[1:])
    eps = float(jnp.finfo(point.dtype).eps)
    least = jnp.abs(task.loss.least(task.y, task.weights))
    slip = 64 * eps * (jnp.abs(base) + least + jnp.sum(task.weights))
    slip = jnp.where(jnp.isfinite(slip), slip, 0)

    def halve(t):
        t = t / 2
        value = task.total(eta + t * change) + penalty.value((point + t * direction)[1:])
        over = value - (base + 1e-4 * t * predicted + slip)
        over = jnp.where(jnp.isfinite(over), over, jnp.where(value < base, 0, jnp.finfo(point.dtype).max))
        return t, jnp.maximum(over, 0)

    return iterate(halve, jnp.full((), 2, point.dtype), tol=0, max_iter=40, patience=41).state


def working_point(task: Task, point: Array, eta: Array | None = None) -> tuple[Array, Array]:
    """The predictors about which to model the loss, and its slopes at `point` in that model.

    They are those of the point itself, unless its loss is infinite: then the model is about predictors that suit y
    sample by sample, whatever the coefficients are. `eta` are the predictors of the point, if they are known.
    """
    eta = task.predictor(point) if eta is None else eta
    at = jnp.where(jnp.isfinite(task.total(eta)), eta, task.loss.start(task.y))
    return at, task.slopes(at) + task.press(at, eta - at)


def quadratic_model(task: Task, point: Array, eta: Array | None = None) -> tuple[Array, Array, Array]:
    """Working weights h and responses z (n, t) of the model ½ Σ hᵢ(zᵢ − b − xᵢw)² of the loss, and its slopes."""
    eta = task.predictor(point) if eta is None else eta
    at, slopes = working_point(task, point, eta)
    h = task.press(at, jnp.ones_like(at))
    # a sample that is fitted perfectly has no curvature left, and must not vanish from the model
    floor = float(jnp.finfo(h.dtype).eps) ** 0.5 * jnp.max(h)
    h = jnp.where(task.weights[:, None] > 0, jnp.maximum(h, floor), 0)
    return h, eta - task.offset - slopes / jnp.where(h > 0, h, 1), slopes


def free_step(task: Task, point: Array, free: Callable[[Array], Array]) -> tuple[Array, Array]:
    """The Newton step over the intercept and the directions that `free` projects onto, and the slope there."""

    def project(direction):
        return jnp.concatenate([task.one * direction[:1], free(direction[1:])])

    def apply(u):
        inside = project(u)
        return project(task.pull(task.press(at, task.image(inside)))) + u - inside

    at, slopes = working_point(task, point)
    slope = project(task.pull(slopes))
    eps = float(jnp.finfo(point.dtype).eps)
    return project(conjugate_gradients(apply, -slope, tol=eps, max_iter=min(2 * point.size, 500))), slope


def refit(
    task: Task, penalty: Penalty, point: Array, free: Callable[[Array], Array], eta: Array | None = None
) -> tuple[Array, Array, Array]:
    """Minimise the loss over the intercept and the directions that `free` projects onto, by Newton's method.

    Returns:
        The point, the step that would come next (one that is not short tells that there is no minimum), and the
        predictors at the point; `eta` are those at the start, if they are known.
    """
    eta = task.predictor(point) if eta is None else eta
    if task.loss.coupled:
        return _refit_all(task, penalty, point, free)
    probe = jnp.sin(1 + jnp.arange(task.X.shape[1], dtype=point.dtype))[:, None]  # has a part along every direction
    nothing = jnp.all(free(jnp.broadcast_to(probe, point[1:].shape)) == 0)
    return lax.cond(
        nothing,
        lambda: _refit_intercept(task, penalty, point, eta),
        lambda: _refit_all(task, penalty, point, free),
    )


def _refit_intercept(task: Task, penalty: Penalty, point: Array, fixed: Array) -> tuple[Array, Array, Array]:
    """`refit` over the intercept alone, without a pass over X."""

    def next_step(point, eta):
        at, slopes = working_point(task, point, eta)
        slope = task.one * jnp.sum(slopes, axis=0)
        bend = jnp.sum(task.press(at, jnp.ones_like(at)), axis=0)
        return -slope / jnp.where(bend > 0, bend, 1), slope, jnp.sum(jnp.abs(slopes))

    def whole(shift):
        return jnp.zeros_like(point).at[0].set(shift)

    def step(state):
        shift, move, slope = state
        eta = fixed + shift
        change = jnp.broadcast_to(move, eta.shape)
        length = step_length(task, penalty, point, whole(move), jnp.vdot(slope, move), eta, change)
        shift = shift + length * move
        move, slope, _ = next_step(point + whole(shift), fixed + shift)
        return (shift, move, slope), jnp.max(jnp.abs(slope))

    move, slope, size = next_step(point, fixed)
    tol = 4 * float(jnp.finfo(point.dtype).eps) * size
    shift, move, _ = iterate(step, (jnp.zeros_like(move), move, slope), tol=tol, max_iter=50, patience=3).state
    return point + whole(shift), whole(move), fixed + shift


def _refit_all(
    task: Task, penalty: Penalty, point: Array, free: Callable[[Array], Array]
) -> tuple[Array, Array, Array]:
    """`refit` over everything that is free, by conjugate gradients."""

    def step(state):
        point, direction, slope = state
        point = damped(task, penalty, point, direction, jnp.vdot(slope, direction))
        direction, slope = free_step(task, point, free)
        return (point, direction, slope), jnp.max(jnp.abs(slope))

    size = jnp.abs(working_point(task, point)[1])
    rounding = jnp.maximum(jnp.sum(size), jnp.max(cross(jnp.abs(task.X), size)))
    tol = 4 * float(jnp.finfo(point.dtype).eps) * rounding
    still = jnp.zeros_like(point)
    point, direction, _ = iterate(step, (point, still, still), tol=tol, max_iter=50, patience=3).state
    return point, direction, task.predictor(point)


def null_model(task: Task, penalty: Penalty, free: Callable[[Array], Array] | None = None) -> Null:
    """The best point among those that the penalty does not charge (or in `free`)."""
    if free is None and isinstance(penalty, Zero):  # at whose minimum nothing is left to measure slopes in
        point, deviance, slope, exists = null_model(task, penalty, jnp.zeros_like)
        point, direction, eta = refit(task, penalty, point, penalty.unpenalised)
        return Null(point, deviance, slope, exists & ~runs_away(task, eta, task.image(direction)))
    free = penalty.unpenalised if free is None else free
    start = task.loss.start(task.y)
    each = task.weights[:, None]  # those of a coupled loss may vanish for directions that change nothing
    weight = jnp.broadcast_to(each, start.shape) if task.loss.coupled else task.press(start, jnp.ones_like(start))
    total = jnp.sum(weight, axis=0)
    mean = jnp.sum(weight * (start - task.offset), axis=0) / jnp.where(total > 0, total, 1)
    point = jnp.zeros((task.X.shape[1] + 1, start.shape[1]), task.X.dtype).at[0].set(task.one * mean)
    point, direction, eta = refit(task, penalty, point, free)
    _, slopes = working_point(task, point, eta)
    deviance = task.total(eta) - task.loss.least(task.y, task.weights)
    deviance = jnp.where(jnp.isfinite(deviance), jnp.maximum(deviance, 0), 0)
    exists = ~runs_away(task, eta, task.image(direction))
    return Null(point, deviance, jnp.max(jnp.abs(task.pull(slopes)[1:])), exists)


def runs_away(task: Task, eta: Array, change: Array) -> Array:
    """Whether a step would still change the predictors by more than a hundredth of themselves, less the offset."""
    seen = (task.weights > 0)[:, None]
    images = (task.loss.visible(a) for a in (change, eta - task.offset))
    change, eta = (jnp.max(jnp.where(seen, jnp.abs(a), 0)) for a in images)
    return change > 1e-2 * jnp.maximum(eta, 1)


def distance(penalty: Penalty, point: Array, pull: Array) -> Array:
    """The largest distance of −∇ to the subgradients of the penalty, with the intercept; `pull` is ∇ (p + 1, t)."""
    return jnp.maximum(jnp.max(penalty.distance(point[1:], -pull[1:])), jnp.max(jnp.abs(pull[0])))


def certify_point(
    task: Task, penalty: Penalty, null: Null, point: Array, *, dual: bool = True, eta: Array | None = None
) -> Certificate:
    """Measure optimality at the point.

    The dual point is s·ℓ′ at the best intercept and unpenalised part for these coefficients, which makes it orthogonal
    to them, with s as large as the domain of P* allows. The gap is the sum of ℓ + ℓ* − θη over samples and of
    P + P* − ⟨w, z⟩, each of which is not negative. `eta` are the predictors of the point, if they are known.
    """
    loss = task.loss
    eta = task.predictor(point) if eta is None else eta
    slopes = task.slopes(eta)
    if not (dual and loss.has_dual and loss.convex and penalty.convex):
        off = distance(penalty, point, task.pull(slopes))
        return Certificate(jnp.full_like(off, jnp.nan), null.deviance, off, null.slope)
    _, _, at = refit(task, penalty, point, penalty.unpenalised, eta)
    both = task.pull(jnp.concatenate([slopes, task.slopes(at)], axis=1))  # one pass over X
    here, there = jnp.split(both, 2, axis=1)
    off, image = distance(penalty, point, here), -there[1:]
    scale = penalty.dual_scale(image)
    theta = scale * loss.gradient(task.y, at)
    gap = loss.excess(task.y, eta, theta, task.weights) + penalty.slack(point[1:], scale * image)
    return Certificate(jnp.where(scale > 0, gap, jnp.nan), null.deviance, off, null.slope)
