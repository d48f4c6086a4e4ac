"""ℓ1-type penalties under a smooth loss: Newton's method on the columns that matter.

A step minimises the quadratic model of the loss plus the penalty over a working set of columns, by their Gram matrix
with the working weights (`gram_block` does it exactly). Columns outside of the set are looked at once per step, by the
gradient that the certificate needs anyway.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from regjax.core.loop import iterate
from regjax.core.solution import Status
from regjax.penalties import Penalty
from regjax.solvers.certificate import Certificate
from regjax.solvers.gram_block import Block, Strengths, image, positions, settle
from regjax.solvers.run import Outcome
from regjax.solvers.task import Task, advance, certify_point, null_model, place, quadratic_model, working_point

_TILE = 64  # columns of one product
_MOST = 4096  # columns of the working set
_CORRECTIONS = 3  # steps with the same Hessian
_NEAR = 0.95  # of its bound, from which on a correlation may reach it in this step


class Model(NamedTuple):
    """½ Σ hᵢ(zᵢ − b − xᵢw)²: working weights h (n,) and responses z (n,), with Xᵀ (p, n) to take columns from."""

    rows: Array
    weights: Array
    responses: Array
    one: Array

    def mean(self, values: Array) -> Array:
        """Weighted means (...,) of values (..., n); 0 without an intercept."""
        total = jnp.sum(self.weights)
        return self.one * (values @ self.weights) / jnp.where(total > 0, total, 1)


class Chosen(NamedTuple):
    """The columns of the working set in one model.

    Attributes:
        index: (M,), which they are. used: (M,), where the set is not empty.
        columns: (M, n), about their means and times √h. means: (M,).
        block: their inner products, and those with the responses.
        strengths: theirs.
    """

    index: Array
    used: Array
    columns: Array
    means: Array
    block: Block
    strengths: Strengths

    def spread(self, found: Array, w: Array) -> Array:
        """Coefficients (p,) like w, those of the set as found and 0 elsewhere."""
        return jnp.zeros_like(w).at[jnp.where(self.used, self.index, len(w))].set(found, mode="drop")


def working_newton(
    task: Task, penalty: Penalty, strengths: Strengths, init: Array, *, tol: Any, max_iter: int
) -> Outcome:
    """Damped proximal Newton steps on a working set until the certificate is at most `tol`.

    Each step is followed by a few with the same Hessian, which cost little, until one promises next to nothing. That
    the last of them promises at most `tol` is asked for too: the gap is of second order, the coefficients are not.

    Args:
        task: with one target.
        penalty: P, with the `strengths` l1, l2 (p,) and limits.
        init: (p + 1, 1).
        tol, max_iter: as of every solver.
    """
    p = task.X.shape[1]
    slots = min(p, max(512, 3 * len(task.X) // 2), _MOST)
    rows = task.X.T if task.columns is None else task.columns
    null = null_model(task, penalty)
    unit = jnp.where(null.deviance > 0, null.deviance, 1)

    def move(here, best, intercept, slopes):
        direction = jnp.concatenate([intercept[None], best])[:, None] - here.point
        change = task.image(direction)
        charged = penalty.value(best[:, None]) - penalty.value(here.point[1:])
        predicted = charged + jnp.vdot(slopes, change)
        return advance(task, penalty, here, direction, predicted, change), predicted

    def step(state):
        here, _ = state
        h, target, slopes = quadratic_model(task, here)
        model = Model(rows, h[:, 0], target[:, 0], task.one)
        chosen = _choose(model, strengths, here.point[1:, 0], -task.pull(slopes)[1:, 0], slots)
        here, _ = move(here, *_minimum(model, chosen, here.point[1:, 0]), slopes)

        def correct(here):
            _, slopes = working_point(task, here)
            here, predicted = move(here, *_corrected(model, chosen, here.point[:, 0], slopes[:, 0]), slopes)
            return here, -predicted / unit

        result = iterate(correct, here, tol=tol / 100, max_iter=_CORRECTIONS, patience=_CORRECTIONS)
        here = result.state
        proof = certify_point(task, penalty, null, here.point, eta=here.eta)
        return (here, proof), jnp.maximum(proof.error, result.error)

    start = jnp.where(jnp.all(init == 0), null.point, init)
    unknown = Certificate(jnp.ones_like(null.slope), jnp.ones_like(null.slope), null.slope, null.slope)
    result = iterate(step, (place(task, start), unknown), tol=tol, max_iter=max_iter, patience=10)
    here, proof = result.state
    status = jnp.where(proof.error <= tol, Status.CONVERGED, result.status)
    status = jnp.where(null.exists, status, Status.SEPARATED)
    return Outcome(here.point, proof, result.num_iter, status.astype(jnp.int32))


def _choose(model: Model, strengths: Strengths, w: Array, pull: Array, slots: int) -> Chosen:
    """The working set: the support, and columns whose correlation is near its bound.

    Args:
        w: (p,), where the model was made. pull: minus its gradient there.
    """
    eager = jnp.abs(pull - strengths.l2 * w) / jnp.where(strengths.l1 > 0, strengths.l1, 1)
    rank = jnp.where((w != 0) | (strengths.l1 == 0), jnp.inf, jnp.where(eager > _NEAR, eager, 0))
    index = jnp.argsort(-rank)[:slots].astype(jnp.int32)
    live = jnp.minimum(jnp.sum(rank > 0), slots).astype(jnp.int32)
    columns, means = _gather(model, index, live)
    target = jnp.sqrt(model.weights) * (model.responses - model.mean(model.responses))
    gram, moments = _inner_products(columns, live), columns @ target
    block = Block(gram, moments, jnp.diag(gram), live, target @ target, jnp.max(jnp.abs(moments)))
    return Chosen(index, jnp.arange(slots) < live, columns, means, block, strengths.take(index))


def _minimum(model: Model, chosen: Chosen, w: Array) -> tuple[Array, Array]:
    """Coefficients (p,) and the intercept that minimise the model plus the penalty over the set, from w."""
    start = jnp.where(chosen.used, w[chosen.index], 0)
    found = settle(chosen.block, chosen.strengths, chosen.strengths, start, 1000).w
    return chosen.spread(found, w), model.mean(model.responses) - chosen.means @ found


def _corrected(model: Model, chosen: Chosen, point: Array, slopes: Array) -> tuple[Array, Array]:
    """`_minimum` of the model with the same Hessian about another point (p + 1,), where the loss has these slopes."""
    w = jnp.where(chosen.used, point[1:][chosen.index], 0)
    root, total = jnp.sqrt(model.weights), jnp.sum(model.weights)
    pull = -chosen.columns @ jnp.where(root > 0, slopes / jnp.where(root > 0, root, 1), 0)
    block = chosen.block._replace(moments=pull + image(chosen.block.gram, w, *positions(w != 0)))
    found = settle(block, chosen.strengths, chosen.strengths, w, 1000, pull).w
    shift = -model.one * jnp.sum(slopes) / jnp.where(total > 0, total, 1)
    return chosen.spread(found, point[1:]), point[0] + shift - chosen.means @ (found - w)


def _gather(model: Model, index: Array, live: Array) -> tuple[Array, Array]:
    """The columns of the set as rows (M, n), about their means and times √h, and the means (M,); zero where empty."""
    slots, n = len(index), model.rows.shape[1]
    tile = min(_TILE, slots)
    root = jnp.sqrt(model.weights)

    def put(i, carry):
        columns, means = carry
        at = jnp.minimum(i * tile, slots - tile)
        on = at + jnp.arange(tile) < live
        rows = jnp.where(on[:, None], model.rows[lax.dynamic_slice_in_dim(index, at, tile)], 0)
        mean = model.mean(rows)
        rows = jnp.where(on[:, None], root * (rows - mean[:, None]), 0)
        return (lax.dynamic_update_slice_in_dim(a, new, at, 0) for a, new in ((columns, rows), (means, mean)))

    start = (jnp.zeros((slots, n), root.dtype), jnp.zeros(slots, root.dtype))
    return lax.fori_loop(0, (live + tile - 1) // tile, lambda i, carry: tuple(put(i, carry)), start)


def _inner_products(columns: Array, live: Array) -> Array:
    """CCᵀ (M, M) of rows (M, n), of which those from `live` on are zero: tile by tile, half of them by symmetry."""
    slots = len(columns)
    tile = min(_TILE, slots)

    def place(i):
        return jnp.minimum(i * tile, slots - tile)

    def take(i):
        return lax.dynamic_slice_in_dim(columns, place(i), tile)

    def put_row(i, gram):
        rows = take(i)

        def put(j, gram):
            products = rows @ take(j).T
            gram = lax.dynamic_update_slice(gram, products, (place(i), place(j)))
            return lax.dynamic_update_slice(gram, products.T, (place(j), place(i)))

        return lax.fori_loop(0, i + 1, put, gram)

    return lax.fori_loop(0, (live + tile - 1) // tile, put_row, jnp.zeros((slots, slots), columns.dtype))
