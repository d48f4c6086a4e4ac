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
from regjax.solvers.gram_block import Block, Strengths, settle
from regjax.solvers.run import Outcome
from regjax.solvers.task import Task, advance, certify_point, null_model, place, quadratic_model

_TILE = 64  # columns of one product
_MOST = 4096  # columns of the working set
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


def working_newton(
    task: Task, penalty: Penalty, strengths: Strengths, init: Array, *, tol: Any, max_iter: int
) -> Outcome:
    """Damped proximal Newton steps on a working set until the certificate is at most `tol`, and one more.

    Args:
        task: with one target.
        penalty: P, with the `strengths` l1, l2 (p,) and limits.
        init: (p + 1, 1).
        tol, max_iter: as of every solver.
    """
    p = task.X.shape[1]
    slots = min(p, max(512, 2 * len(task.X)), _MOST)
    rows = task.X.T if task.columns is None else task.columns
    null = null_model(task, penalty)

    def step(state):
        here, before = state
        point = here.point
        h, target, slopes = quadratic_model(task, here)
        pull = -task.pull(slopes)
        model = Model(rows, h[:, 0], target[:, 0], task.one)
        best, intercept = _minimum(model, strengths, point[1:, 0], pull[1:, 0], slots)
        direction = jnp.concatenate([intercept[None], best])[:, None] - point
        charged = penalty.value(best[:, None]) - penalty.value(point[1:])
        here = advance(task, penalty, here, direction, charged - jnp.vdot(pull, direction))
        proof = certify_point(task, penalty, null, here.point, eta=here.eta)
        # one more step where the gap is small enough: it is of second order, and the coefficients are not
        wait = (proof.error <= tol) & ~(before.error <= tol)
        return (here, proof), jnp.where(wait, jnp.nextafter(tol, jnp.inf), proof.error)

    start = jnp.where(jnp.all(init == 0), null.point, init)
    unknown = Certificate(jnp.ones_like(null.slope), jnp.ones_like(null.slope), null.slope, null.slope)
    result = iterate(step, (place(task, start), unknown), tol=tol, max_iter=max_iter, patience=10)
    here, proof = result.state
    status = jnp.where(proof.error <= tol, Status.CONVERGED, result.status)
    status = jnp.where(null.exists, status, Status.SEPARATED)
    return Outcome(here.point, proof, result.num_iter, status.astype(jnp.int32))


def _minimum(model: Model, strengths: Strengths, w: Array, pull: Array, slots: int) -> tuple[Array, Array]:
    """Coefficients (p,) and the intercept that minimise the model plus the penalty over the working set.

    Args:
        w: (p,), where the model was made. pull: minus its gradient there.
    """
    p = len(w)
    eager = jnp.abs(pull - strengths.l2 * w) / jnp.where(strengths.l1 > 0, strengths.l1, 1)
    rank = jnp.where((w != 0) | (strengths.l1 == 0), jnp.inf, jnp.where(eager > _NEAR, eager, 0))
    index = jnp.argsort(-rank)[:slots].astype(jnp.int32)
    live = jnp.minimum(jnp.sum(rank > 0), slots).astype(jnp.int32)
    columns, means = _gather(model, index, live)
    middle = model.mean(model.responses)
    target = jnp.sqrt(model.weights) * (model.responses - middle)
    gram, moments = _inner_products(columns, live), columns @ target
    block = Block(gram, moments, jnp.diag(gram), live, target @ target, jnp.max(jnp.abs(moments)))
    inside = strengths.take(index)
    used = jnp.arange(slots) < live
    found = settle(block, inside, inside, jnp.where(used, w[index], 0), 1000).w
    best = jnp.zeros_like(w).at[jnp.where(used, index, p)].set(found, mode="drop")
    return best, middle - means @ found


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
