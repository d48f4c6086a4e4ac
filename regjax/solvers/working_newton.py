"""ℓ1-type penalties under a smooth loss: Newton's method on the columns that matter, along a path of penalties.

A step minimises the quadratic model of the loss plus the penalty over a working set of columns, by their Gram matrix
with the working weights (`gram_block` does it exactly). A Gram matrix costs far more than a step: it serves for as long
as the steps that it gives converge, which is often over several penalties of the path; the sum of its weights is kept
up to date, and columns that enter are added to it. Columns outside of the set are looked at by the gradient that the
certificate needs anyway.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from regjax.core.loop import iterate
from regjax.core.solution import Status
from regjax.core.turned import Turned
from regjax.losses import Loss
from regjax.penalties import L1, Limited, Penalty
from regjax.solvers.certificate import Certificate
from regjax.solvers.engine import strengths_of
from regjax.solvers.gathered import BATCH, Gathered
from regjax.solvers.gram_block import Block, Strengths, image, positions, settle
from regjax.solvers.read_off import solve_or_read_off
from regjax.solvers.run import Outcome
from regjax.solvers.task import (
    Data,
    Null,
    Place,
    Task,
    advance,
    certify_and_pull,
    distance,
    dual_gap,
    null_model,
    place,
    refit,
    separated,
    working_point,
    working_weights,
)

_LEAST, _MOST = 512, 4096  # bounds of the capacity of the working set: all columns, or 3n/2 where l1 is alone
_STEPS = 10  # with one Hessian at most before columns are looked at
_SLOW = 0.006  # it is too old where a step promises more than this part of what the last one did
_FRESH, _AGES = 1e-3, 2  # that part at first, and by what it grows from one penalty to the next, unless it is seen,
_LUCKY = 1e-6  # not below this
_NEAR = 0.95  # of its bound, from which on a correlation may reach it in this step,
_SOON = 0.8  # and in one of the next: a batch of columns costs no more than one
_EXACT = 0.01  # part of what a step corrects that it may leave: the next has a better model to correct it with
_TILE = 16  # columns of one product: their copy stays in cache
_ROUGH = 1e6  # roundings to which a tolerance is blind to those of some steps
_FAR = 0.1  # relative gap from which on a point is no start for others
_SMALL = 8_000_000  # entries, of which the first of these numbers of columns, or all, are multiplied at once,
_FIRST = (64, 128, 256)  # whichever is enough


class Hessian(NamedTuple):
    """That of the loss at some point, as far as the working set sees it.

    Attributes:
        weights: h (n,), the working weights.
        held: the set, its columns about their means with these weights and times √h.
        serves: whether steps with it converge.
        rate: the part of what a step promises that the next one will, as far as is known.
    """

    weights: Array
    held: Gathered
    serves: Array
    rate: Array


class Point(NamedTuple):
    """A point of the path.

    Attributes:
        point, pull: (p + 1, 1), and ∇ of the loss there; of a dual point near it if it was read off.
        eta: (n, 1), its predictors.
        strength: Σ l1.
        sound: whether it is near the minimum.
        linked: whether the null model is that of the variant before, so that there may be a line to it.
        proof, num_iter, status, objective: as of an `Outcome`.
    """

    point: Array
    pull: Array
    eta: Array
    strength: Array
    sound: Array
    linked: Array
    proof: Certificate
    num_iter: Array
    status: Array
    objective: Array


class Lane(NamedTuple):
    """What a variant leaves for the next: where it ended, and what the two may have in common.

    Attributes:
        last: where it ended; not `sound` if there is none before.
        since: by how much log strength, point and pull changed since the variant before.
        null: the null model of this `loss` with these coefficients `free`, and its place.
        hessian: the last.
    """

    last: Point
    since: tuple[Array, Array, Array]
    null: tuple[Null, Place]
    loss: Loss
    free: Array
    hessian: Hessian

    def extended(self, strength: Array) -> tuple[Array, Array]:
        """Where the path leads to from the last two points, without crossing 0, and the pull there."""
        rise, *changes = self.since
        ratio = jnp.log(strength / self.last.strength) / jnp.where(rise == 0, 1, rise)
        ratio = jnp.where((rise != 0) & jnp.isfinite(ratio), jnp.clip(ratio, 0, 4), 0)
        point, pull = (a + ratio * change for a, change in zip((self.last.point, self.last.pull), changes, strict=True))
        return point.at[1:].set(jnp.where(point[1:] * self.last.point[1:] > 0, point[1:], 0)), pull


def working_newton(data: Data, loss: Loss, penalty: Penalty, init: Array, tol: Array, *, max_iter: int) -> Outcome:
    """Damped proximal Newton steps on a working set, for variants of one problem along the first axis of the rest.

    A variant is done when its certificate is at most `tol`, and its last step promised no more either. Variants between
    two others may be read off these.

    Args:
        data: with one target.
        loss, penalty, tol: with an axis (L,) in front.
        init: (L, p + 1, 1), zero to start from the variant before.
        max_iter: of every variant.
    """
    X = data[0] if isinstance(data[0], Turned) else Turned.of(data[0])
    data, variants = (X, *data[1:]), (loss, penalty, init, tol)

    def variant_of(number):
        loss, *rest = jax.tree.map(lambda leaf: leaf[number], variants)
        return Task(*data, loss), *rest

    def solve(lane: Lane, number, again, read: Point):
        """Variant `number` from where the last one ended; or if `again` from where it was read off."""
        task, penalty, init, tol = variant_of(number)
        last, free = lane.last, penalty.free(init[1:])
        same = last.sound & jnp.all(free == lane.free) & _equal(task.loss, lane.loss)
        null, nowhere = lax.cond(same, lambda: lane.null, lambda: _null_model(task, penalty))
        given = jnp.any(init != 0)
        goes_on = same & ~given & task.loss.convex
        strengths = _strengths(penalty, init)
        strength = _sum(strengths)
        ahead = lane.extended(strength)
        start, pull = (jnp.where(again, a, b) for a, b in zip((read.point, read.pull), ahead, strict=True))
        start = jnp.where(given, init, jnp.where(goes_on, start, null.point))
        w = jnp.where(jnp.isinf(strengths.l1), 0, strengths.clip(start[1:, 0]))
        point = start.at[1:, 0].set(w)
        here = _at(task, nowhere, point, _predictors(task, point))
        worse = here.loss + penalty.value(here.point[1:]) > nowhere.loss + penalty.value(nowhere.point[1:])
        far = worse & task.loss.convex | ~jnp.isfinite(here.loss)  # from there Newton's method may not find back
        here = jax.tree.map(lambda a, b: jnp.where(far, a, b), nowhere, here)
        pull = lax.cond(goes_on, lambda: pull, lambda: task.pull(working_point(task, here)[1]))
        hessian = lane.hessian._replace(serves=lane.hessian.serves & goes_on, rate=_AGES * lane.hessian.rate)
        end, hessian = _solve(task, penalty, strengths, null, here, pull, hessian, tol, max_iter)
        end = end._replace(linked=goes_on)
        changes = jnp.log(strength / last.strength), end.point - last.point, end.pull - last.pull
        since = tuple(jnp.where(goes_on, change, 0) for change in changes)
        last, since = jax.tree.map(lambda old, new: jnp.where(again, old, new), (last, lane.since), (end, since))
        return Lane(last, since, (null, nowhere), task.loss, free, hessian), end

    def read_off(lane: Lane, before: Point, left: Point, right: Point, number):
        """The variant between two others: on the line between their dual points, which are feasible, all are.

        So it is certified without a product with X.
        """
        task, penalty, init, tol = variant_of(number)
        null, _ = lane.null
        strengths = _strengths(penalty, init)
        strength = _sum(strengths)
        linked = left.sound & right.sound & right.linked & null.exists & _equal(task.loss, lane.loss)
        linked &= (
            (strength < left.strength) & (strength > right.strength) & jnp.all(penalty.free(init[1:]) == lane.free)
        )
        share = jnp.where(linked, jnp.log(strength / right.strength) / jnp.log(left.strength / right.strength), 0)
        point, eta = (share * a + (1 - share) * b for a, b in ((left.point, right.point), (left.eta, right.eta)))
        bent = _bent(before, left, right, strength, strengths.l1)
        bent = jnp.where(linked & jnp.isfinite(bent), bent, point[1:, 0])
        eta = eta + _image(task.X, bent - point[1:, 0])[:, None]
        point = point.at[1:, 0].set(bent)
        dual_share = jnp.where(linked, (strength - right.strength) / (left.strength - right.strength), 0)
        ends = ((task.theta(end.eta), end.pull) for end in (left, right))
        theta, pull = (dual_share * a + (1 - dual_share) * b for a, b in zip(*ends, strict=True))
        gap = dual_gap(task, penalty, null, point, eta, theta, pull)
        proof = Certificate(gap, null.deviance, _distance_of_one(task, null, eta), null.slope)
        objective = task.total(eta) + penalty.value(point[1:])
        status = jnp.int32(Status.CONVERGED)
        read = Point(point, pull, eta, strength, linked, linked, proof, jnp.int32(0), status, objective)
        return read, jnp.where(linked, proof.error / tol, jnp.inf)

    def finish(points: Point, solved, numbers):
        """The outcomes; of those that were read off the distance to the optimum is measured now, for all at once."""

        def slopes_of(variant):
            number, eta = variant
            task, *_ = variant_of(number)
            return task.slopes(eta)

        def distance_of(variant):
            number, point, pull = variant
            _, penalty, *_ = variant_of(number)
            return distance(penalty, point, pull, of_one=0.0)  # that of the intercept is known

        def of_columns():
            pulls = jax.vmap(task.pull)(lax.map(slopes_of, (numbers, points.eta)))
            return lax.map(distance_of, (numbers, points.point, pulls))

        task, *_ = variant_of(0)
        proof = points.proof
        further = proof.distance if may is False else lax.cond(jnp.all(solved), lambda: proof.distance, of_columns)
        proof = proof._replace(distance=jnp.where(solved, proof.distance, jnp.maximum(proof.distance, further)))
        return Outcome(points.point, proof, points.num_iter, points.status, points.objective)

    (n, p), nowhere, no = X.shape, jnp.zeros_like(init[0]), jnp.array(False)
    alone = isinstance(penalty.penalty if isinstance(penalty, Limited) else penalty, L1)  # then few more than n enter
    capacity = min(p, max(_LEAST, 3 * n // 2) if alone else p, _MOST)
    task, first, *_ = variant_of(0)
    unknown = jax.eval_shape(lambda: _null_model(task, first))
    zero, none = jnp.zeros((), X.dtype), jnp.int32(0)
    proof = Certificate(zero, zero, zero, zero)
    point = Point(nowhere, nowhere, jnp.zeros((n, 1), X.dtype), zero, no, no, proof, none, none, zero)
    memory = Lane(
        last=point,
        since=(zero, nowhere, nowhere),
        null=jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), unknown),
        loss=task.loss,
        free=first.free(nowhere[1:]),
        hessian=Hessian(jnp.zeros(n, X.dtype), Gathered.nothing(capacity, n, p, X.dtype), no, jnp.ones((), X.dtype)),
    )
    may = jnp.all(init == 0) & loss.convex & penalty.convex if loss.has_dual and len(tol) > 2 else False
    return solve_or_read_off(solve, read_off, finish, memory, point, may, len(tol))


def _null_model(task: Task, penalty: Penalty) -> tuple[Null, Place]:
    """The null model, and its place."""
    null = null_model(task, penalty)
    return null, place(task, null.point, null.eta)


def _at(task: Task, like: Place, point: Array, eta: Array) -> Place:
    """The place of a point with these predictors, in a task that has the place `like`."""
    return like._replace(point=point, eta=eta, loss=task.total(eta))


def _sum(strengths: Strengths) -> Array:
    """Σ l1. Along a path solutions are closer to a line in its logarithm, their dual points are so in it itself."""
    return jnp.sum(jnp.where(jnp.isinf(strengths.l1), 0, strengths.l1))


def _distance_of_one(task: Task, null: Null, eta: Array) -> Array:
    """The part that the intercept has in `distance`."""
    return null.of_one * jnp.abs(task.one * jnp.sum(task.slopes(eta)))


def _bent(before: Point, left: Point, right: Point, strength: Array, l1: Array) -> Array:
    """Coefficients (p,) between left and right: a line in log strength, from where they enter or to where they leave.

    A coefficient enters where its correlation, as it moves from `before` to `left`, reaches its strength; it leaves
    where it would itself reach 0.
    """
    w, coming, first = left.point[1:, 0], right.point[1:, 0], before.point[1:, 0]
    known = before.sound & left.linked & (before.strength > left.strength)
    way, done = jnp.log(left.strength / right.strength), jnp.log(left.strength / strength)
    sign, each = -jnp.sign(coming), l1 / strength
    rate = sign * (left.pull - before.pull)[1:, 0] / (left.strength - before.strength)
    reached = (sign * left.pull[1:, 0] - rate * left.strength) / jnp.where(rate < each, each - rate, 1)
    start = jnp.where(
        known & (rate < each), jnp.log(left.strength / jnp.clip(reached, right.strength, left.strength)), 0
    )
    rest = w / ((w - first) / jnp.log(left.strength / before.strength))  # of the way until it is 0
    end = jnp.where(known & (rest < 0) & (rest > -way), -rest, way)
    entering = coming * jnp.maximum(done - start, 0) / jnp.where(start < way, way - start, 1)
    leaving = w * jnp.maximum(end - done, 0) / jnp.where(end > 0, end, 1)
    between = (w * (way - done) + coming * done) / way
    return jnp.where(w == 0, entering, jnp.where(coming == 0, leaving, between))


def _strengths(penalty: Penalty, point: Array) -> Strengths:
    l1, l2, *limits = strengths_of(penalty, point[1:].shape)
    return Strengths(l1, l2, (limits[0], limits[1]) if isinstance(penalty, Limited) else None)


def _equal(one: Loss, other: Loss) -> Array:
    """Whether two losses of one class have the same parameters."""
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return jnp.all(jnp.array([True, *(jnp.all(a == b) for a, b in pairs)]))


def _solve(
    task: Task,
    penalty: Penalty,
    strengths: Strengths,
    null: Null,
    here: Place,
    pull: Array,
    hessian: Hessian,
    tol: Array,
    max_iter: int,
) -> tuple[Point, Hessian]:
    """One variant from `here`, with the gradient `pull` as far as it is known; also the Hessian at its end."""
    unit = jnp.where(null.deviance > 0, null.deviance, 1)
    eps = float(jnp.finfo(unit.dtype).eps)
    # the gap is of first order in the error of a dual point, what the next step would promise of second
    goal = jnp.maximum((0.4 * tol) ** 2, eps / 100)

    def step(state, hessian):
        here, pull, _, last = state
        rank = _rank(strengths, here.point[1:, 0], -pull[1:, 0])
        last = jnp.where(hessian.serves, last, jnp.inf)  # what it promised tells nothing of a new one
        hessian = _refreshed(task, here, rank, hessian)

        def move(state):
            here, before, rate = state
            at, slopes = working_point(task, here)
            direction, change = _newton_step(task, strengths, hessian, here, at, slopes)
            charged = penalty.value(here.point[1:] + direction[1:]) - penalty.value(here.point[1:])
            predicted = charged + jnp.vdot(slopes, change)
            promised = -predicted / unit
            slow = (promised > jnp.maximum(goal, 64 * eps)) & (promised > _SLOW * before)
            here = advance(task, penalty, here, direction, predicted, change)
            rate = jnp.where(jnp.isfinite(before), jnp.clip(promised / before, _LUCKY, 1), rate)
            return (here, promised, rate), jnp.where(slow, jnp.inf, promised * rate)

        result = iterate(move, (here, last, hessian.rate), tol=goal, max_iter=_STEPS, last=True)
        here, promised, rate = result.state
        # steps leave their rounding in the predictors, which only a tight tolerance sees
        exact = partial(_at, task, here, here.point)
        here = lax.cond(tol < _ROUGH * eps, lambda: exact(_predictors(task, here.point)), lambda: here)
        here, _ = refit(task, here, penalty.unpenalised)  # so that a dual point is near
        proof, pull = certify_and_pull(task, penalty, null, here.point, eta=here.eta, refitted=True)
        complete = ~jnp.any((rank > _NEAR) & ~hessian.held.inside)
        hessian = hessian._replace(serves=complete & jnp.isfinite(result.error), rate=rate)
        return (here, pull, proof, promised), hessian, jnp.maximum(proof.error, promised)

    unknown = Certificate(jnp.ones_like(null.slope), jnp.ones_like(null.slope), null.slope, null.slope)
    start = (here, pull, unknown, jnp.array(jnp.inf, unit.dtype))
    result = iterate(step, start, memory=hessian, tol=tol, max_iter=max_iter, patience=10)
    here, pull, proof, _ = result.state
    status = jnp.where(proof.error <= tol, Status.CONVERGED, result.status)
    status = jnp.where(separated(task, penalty, null, here.point), Status.SEPARATED, status)
    sound = jnp.all(jnp.isfinite(here.point)) & (proof.error <= _FAR)
    objective = here.loss + penalty.value(here.point[1:])
    status = status.astype(jnp.int32)
    strength, linked = _sum(strengths), jnp.array(False)  # of which only the path knows
    end = Point(here.point, pull, here.eta, strength, sound, linked, proof, result.num_iter, status, objective)
    return end, result.memory


def _predictors(task: Task, point: Array) -> Array:
    """η (n, 1)."""
    return task.offset + task.one * point[0] + _image(task.X, point[1:, 0])[:, None]


def _image(X: Turned, w: Array) -> Array:
    """Xw (n,), by the columns of the support alone."""
    w = X.scale * w
    return image(X.rows, w, *positions(w != 0)) - X.mean @ w


def _rank(strengths: Strengths, w: Array, pull: Array) -> Array:
    """How much a column belongs into the set: the support, and where the correlation is near its bound; else 0.

    Args:
        strengths: of the penalty.
        w: (p,). pull: minus the gradient there.
    """
    eager = jnp.abs(pull - strengths.l2 * w) / jnp.where(strengths.l1 > 0, strengths.l1, 1)
    return jnp.where((w != 0) | (strengths.l1 == 0), jnp.inf, jnp.where(eager > _SOON, eager, 0))


def _refreshed(task: Task, here: Place, rank: Array, hessian: Hessian) -> Hessian:
    """The Hessian, made anew here unless it serves, with the columns that have a rank."""
    weights = jnp.where(hessian.serves, hessian.weights, working_weights(task, working_point(task, here)[0])[:, 0])
    root, total = jnp.sqrt(weights), jnp.sum(weights)

    def rows_of(index):
        rows = task.X.columns(index)
        mean = task.one * (rows @ weights) / jnp.where(total > 0, total, 1)
        return root * (rows - mean[:, None])

    held = hessian.held.emptied(~hessian.serves)
    missing = jnp.sum((rank > _NEAR) & ~held.inside)
    whole_batches = -(-missing // BATCH) * BATCH
    rate = jnp.where(hessian.serves, hessian.rate, _FRESH)
    return Hessian(weights, held.with_best(rows_of, rank, whole_batches), jnp.array(True), rate)


def _newton_step(
    task: Task, strengths: Strengths, hessian: Hessian, here: Place, at: Array, slopes: Array
) -> tuple[Array, Array]:
    """To the minimum over the set of the model of the loss with this Hessian plus the penalty: (p + 1, 1), its image.

    The loss has these slopes here, in the model about the predictors `at`. Of its curvature there only the sum is new.
    The columns are about their means, so that the intercept follows the coefficients.
    """
    h, held = hessian.weights, hessian.held
    root, total = jnp.sqrt(h), jnp.sum(h)
    growth = jnp.sum(working_weights(task, at)) / total
    growth = jnp.where((growth > 0) & jnp.isfinite(growth), growth, 1)
    slopes = slopes / growth  # and the strengths: the minimum is where it would be with the Hessian times this
    strengths = strengths._replace(l1=strengths.l1 / growth, l2=strengths.l2 / growth)
    scaled = jnp.where(root > 0, slopes[:, 0] / jnp.where(root > 0, root, 1), 0)
    target = root * (here.eta - task.offset)[:, 0] - scaled
    target = target - task.one * root * (root @ target) / jnp.where(total > 0, total, 1)
    w = jnp.where(held.used, here.point[1:, 0][held.index], 0)
    pull = -_products(held, scaled)
    diagonal = jnp.where(held.used, jnp.diag(held.gram), 0)
    block = Block(held.gram, diagonal, held.live, target @ target, jnp.max(jnp.abs(pull)))
    inner = strengths.take(held.index)
    step = held.spread(settle(block, inner, inner, w, pull, 1000, near=True, goal=_EXACT).w - w)
    change = _image(task.X, step)
    shift = -task.one * (jnp.sum(slopes) + h @ change) / jnp.where(total > 0, total, 1)
    return jnp.concatenate([shift[None], step])[:, None], (shift + change)[:, None]


def _products(held: Gathered, values: Array) -> Array:
    """The inner products (M,) of the columns in use with values (n,); 0 in empty slots."""
    slots = held.index.size
    if held.columns.size <= _SMALL:
        sizes = [size for size in _FIRST if size < slots] + [slots]

        def of_first(size):
            return lambda columns: jnp.zeros(slots, values.dtype).at[:size].set(columns[:size] @ values)

        enough = jnp.searchsorted(jnp.array(sizes), held.live)
        return jnp.where(held.used, lax.switch(enough, [of_first(size) for size in sizes], held.columns), 0)
    tile = min(_TILE, slots)

    def put(i, products):
        at = jnp.minimum(i * tile, slots - tile)
        return lax.dynamic_update_slice(products, lax.dynamic_slice_in_dim(held.columns, at, tile) @ values, (at,))

    products = lax.fori_loop(0, (held.live + tile - 1) // tile, put, jnp.zeros(slots, values.dtype))
    return jnp.where(held.used, products, 0)
