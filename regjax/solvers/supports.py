"""The two problems of which columns are chosen: least squares, and any other loss."""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from regjax.losses import Loss
from regjax.penalties import Zero
from regjax.solvers.greedy import Fit, View, invert
from regjax.solvers.task import Task, null_model, place, refit

_FETCH = 16  # columns whose products with all are computed at once: one pass over the data serves them


class Rows(NamedTuple):
    """Products of some columns with all columns, computed when they are first needed.

    Attributes:
        values: (C, p). place: (p,), the row of a column, −1 if it has none. owner: (C,), the column of a row.
        age: (C,), how many were computed before it.
        pull: (p,), the slopes at the last support, which say what may be needed next.
    """

    values: Array
    place: Array
    owner: Array
    age: Array
    pull: Array

    def missing(self, index: Array, used: Array) -> Array:
        """Which of the columns `index` (K,) in the places `used` have no row."""
        return used & (self.place[index] < 0)

    def with_columns(self, Z: Array, index: Array, used: Array) -> "Rows":
        """With the rows of these columns, or as many of them as one pass gives, and of others that may come.

        The oldest rows make room, but for those that are needed.
        """
        capacity, p = self.values.shape
        needed = jnp.zeros(p + 1, bool).at[index].max(used)  # the last is that of rows without an owner
        rank = jnp.where(self.place < 0, jnp.where(needed[:p], jnp.inf, jnp.abs(self.pull)), -1)
        worth, new = lax.top_k(rank, min(_FETCH, capacity))
        age = jnp.where(needed[self.owner], jnp.iinfo(jnp.int32).max, self.age)
        row = lax.top_k(-age, len(new))[1]
        row = jnp.where((worth >= 0) & ~needed[self.owner[row]], row, capacity)  # beyond the last: left as it is

        def put(a, b):
            return a.at[row].set(b, mode="drop")

        leaving = jnp.where(row < capacity, self.owner[jnp.minimum(row, capacity - 1)], p)
        coming = jnp.where(row < capacity, new, p)
        place = self.place.at[leaving].set(-1, mode="drop").at[coming].set(row.astype(jnp.int32), mode="drop")
        youngest = jnp.max(self.age) + 1
        return Rows(put(self.values, Z[new] @ Z.T), place, put(self.owner, new), put(self.age, youngest), self.pull)


class SquaredProblem(NamedTuple):
    """‖y − Zᵀw‖², for which the quadratic model is exact.

    Attributes:
        Z: (p, n), the centred columns at length 1 (or 0) as rows: a row is read at once.
        y: (n,), centred, at length 1 (or 0).
        moment: Zy (p,). length: of the columns (p,).
    """

    Z: Array
    y: Array
    moment: Array
    length: Array

    @property
    def num_columns(self) -> int:
        """p."""
        return len(self.Z)

    @property
    def dtype(self):
        """Of the numbers."""
        return self.Z.dtype

    def fit(self, index: Array, used: Array) -> Fit:
        """By the normal equations, and once more for what they leave."""
        columns = jnp.where(used[:, None], self.Z[index], 0)
        inverse = invert(columns @ columns.T, used)
        w, r = jnp.zeros_like(inverse[0]), self.y
        for _ in range(3):  # the second and third correct the rounding of the first
            w = w + inverse @ (columns @ r)
            r = self.y - w @ columns
        return Fit(r @ r, w, self.Z @ r, self.length)

    def memory(self, places: int) -> Rows:
        """No products are known."""
        p = len(self.Z)
        capacity = min(p, 4 * places + _FETCH)
        values = jnp.zeros((capacity, p), self.Z.dtype)
        nobody = jnp.full(capacity, p, jnp.int32)
        return Rows(values, jnp.full(p, -1, jnp.int32), nobody, jnp.zeros_like(nobody), self.moment)

    def view(self, memory: Rows, index: Array, used: Array) -> tuple[Rows, View]:
        """From products alone, without another pass over the data where they are known."""
        rows = lax.while_loop(
            lambda rows: jnp.any(rows.missing(index, used)), lambda rows: rows.with_columns(self.Z, index, used), memory
        )  # fmt: skip
        known = jnp.where(used[:, None], rows.values[rows.place[index]], 0)
        target = jnp.where(used, self.moment[index], 0)
        inverse = invert(jnp.where(used, known[:, index], 0), used, jnp.sum(used))
        w = inverse @ target
        fit = Fit(self.y @ self.y - w @ target, w, self.moment - w @ known, self.length)
        return rows._replace(pull=fit.pull), View(fit, known, inverse)


class LossProblem(NamedTuple):
    """Σᵢ vᵢ ℓ(yᵢ, oᵢ + b + zᵢw), modelled about each fit by its curvature, the intercept profiled out.

    Attributes:
        Z: (p, n), columns at length 1 (or 0) as rows. y: what the loss takes (n, 1). offset: (n, 1). weights: (n,).
        one: 1 with an intercept, else 0, a scalar. loss: ℓ, of one sample and one predictor.
        null: the intercept without columns. least, deviance: the least loss there is, and how far the null is above.
    """

    Z: Array
    y: Array
    offset: Array
    weights: Array
    one: Array
    loss: Loss
    null: Array
    least: Array
    deviance: Array

    @property
    def num_columns(self) -> int:
        """p."""
        return len(self.Z)

    @property
    def dtype(self):
        """Of the numbers."""
        return self.Z.dtype

    def _fit(self, index: Array, used: Array, start: Array) -> tuple[Fit, Array, Array]:
        """The fit by Newton's method from `start` (K,), the curvature in η (n,), and its centre along columns (p,)."""
        columns = jnp.where(used[:, None], self.Z[index], 0)
        task = Task(columns.T, self.y, self.offset, self.weights, self.one, self.loss)
        point = jnp.concatenate([self.null[None], jnp.where(used, start, 0)])[:, None]
        here, _ = refit(task, place(task, point), lambda w: used[:, None] * w)
        point, eta = here.point, here.eta
        bend = task.press(eta, jnp.ones_like(eta))[:, 0]
        total = jnp.sum(bend)
        centre = self.one * (self.Z @ bend) / jnp.where(total > 0, total, 1)
        length = jnp.maximum(jnp.einsum("ji,ji,i->j", self.Z, self.Z, bend) - total * centre**2, 0)
        unit = jnp.sqrt(2 * self.deviance)
        loss = (task.total(eta) - self.least) / self.deviance
        pull = -(self.Z @ task.slopes(eta)[:, 0]) / unit
        return Fit(loss, point[1:, 0] / unit, pull, length), bend, centre

    def fit(self, index: Array, used: Array) -> Fit:
        """By Newton's method from the null model."""
        return self._fit(index, used, jnp.zeros(len(index), self.dtype))[0]

    def memory(self, places: int) -> Array:
        """The coefficients of the fit before: none."""
        del places
        return jnp.zeros(len(self.Z), self.dtype)

    def view(self, memory: Array, index: Array, used: Array) -> tuple[Array, View]:
        """From the coefficients of the fit before, which had most of these columns."""
        fit, bend, centre = self._fit(index, used, memory[index])
        middle = jnp.where(used, centre[index], 0)
        columns = jnp.where(used[:, None], self.Z[index], 0) - middle[:, None]
        rows = (columns * bend) @ self.Z.T  # the bend-weighted mean of `columns` is 0
        rows = jnp.where(used[:, None], rows, 0)
        seen = jnp.where(used, index, len(self.Z))
        memory = jnp.zeros_like(memory).at[seen].set(fit.coef * jnp.sqrt(2 * self.deviance), mode="drop")
        return memory, View(fit, rows, invert(jnp.where(used, rows[:, index], 0), used, jnp.sum(used)))


def pose_loss(task: Task) -> LossProblem:
    """The problem of a task with columns of length 1, one target and a loss that is a sum over samples."""
    null = null_model(task, Zero(), free=jnp.zeros_like)
    deviance = jnp.where(null.deviance > 0, null.deviance, 1)
    least = task.loss.least(task.y, task.weights)
    return LossProblem(
        task.X.T, task.y, task.offset, task.weights, task.one, task.loss, null.point[0, 0], least, deviance
    )  # fmt: skip


def pose_squared(columns: Array, length: Array, y: Array) -> SquaredProblem:
    """The problem of centred columns (n, p), their `length` of 1 or 0, and a centred target (n,) of length 1 or 0."""
    Z = lax.optimization_barrier(columns.T)  # in memory of its own, and nothing else made of the columns
    return SquaredProblem(Z, y, Z @ y, length)
