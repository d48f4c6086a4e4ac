"""A working set: the columns that matter, gathered with their Gram matrix, as part of them comes and goes."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from regjax.solvers.gram_block import positions

BATCH = 64  # columns are added in batches of this size,
_FEW = 16  # or of this one where it is enough


class Gathered(NamedTuple):
    """Columns in slots, of which those from `live` on are empty: zero, unless the set has been emptied.

    Attributes:
        index: (M,), the columns in the slots.
        live: how many slots are in use, int32.
        inside: (p,), whether a column is in the set.
        columns: (M, n), the columns in the slots as rows.
        gram: (M, M), their inner products.
    """

    index: Array
    live: Array
    inside: Array
    columns: Array
    gram: Array

    @classmethod
    def nothing(cls, capacity: int, n: int, p: int, dtype: Any) -> "Gathered":
        """An empty set with room for `capacity` columns (n,) out of p."""
        slots = capacity + BATCH  # a batch is written whole, even where only some of it is used
        index, inside = jnp.zeros(slots, jnp.int32), jnp.zeros(p, bool)
        return cls(index, jnp.int32(0), inside, jnp.zeros((slots, n), dtype), jnp.zeros((slots, slots), dtype))

    @property
    def used(self) -> Array:
        """(M,), which slots are in use."""
        return jnp.arange(self.index.size) < self.live

    @property
    def room(self) -> Array:
        """How many columns can still be added."""
        return self.index.size - BATCH - self.live

    def spread(self, w: Array) -> Array:
        """Coefficients (..., p) of all columns from those of the slots (..., M)."""
        p = self.inside.size
        return jnp.zeros((*w.shape[:-1], p), w.dtype).at[..., jnp.where(self.used, self.index, p)].set(w, mode="drop")

    def emptied(self, when: Array) -> "Gathered":
        """Without columns, if so; slots keep what they hold until it is overwritten."""
        return self._replace(live=jnp.where(when, 0, self.live), inside=self.inside & ~when)

    def with_best(self, rows_of: Callable[[Array], Array], rank: Array, budget: Any) -> "Gathered":
        """With the columns of highest rank above 0 that are not in it, `budget` of them at most, batch by batch.

        Args:
            rows_of: the columns with these numbers, as rows (BATCH, n).
            rank: (p,).
            budget: how many.
        """
        p, slots = self.inside.size, self.index.size
        strip = min(2 * BATCH, slots)
        rank = jnp.where(~self.inside & (rank > 0), rank, 0)
        # in float32, of which XLA's CPU backend finds the largest ten times as fast
        unit = jnp.max(jnp.where(jnp.isfinite(rank), rank, 0))
        rank = (rank / jnp.where(unit > 0, unit, 1)).astype(jnp.float32)
        count = jnp.minimum(jnp.minimum(jnp.sum(rank > 0), budget), self.room).astype(jnp.int32)
        # mostly there is nothing to add: even so it would take as long as a pass over X
        most = min(p, slots)
        order = lax.cond(count > 0, lambda: lax.top_k(rank, most)[1], lambda: jnp.zeros(most, jnp.int32))
        order = jnp.concatenate([order, jnp.zeros(BATCH, jnp.int32)])

        def in_full(count, of_first):  # often only some columns are added
            def few():
                return jnp.zeros((BATCH, *form.shape[1:]), form.dtype).at[:_FEW].set(of_first(_FEW))

            form = jax.eval_shape(lambda: of_first(BATCH))
            return lax.cond(count <= _FEW, few, lambda: of_first(BATCH))

        def batch(carry):
            held, done = carry
            new = lax.dynamic_slice_in_dim(order, done, BATCH)
            on = jnp.arange(BATCH) < count - done
            live = held.live + jnp.minimum(count - done, BATCH)

            def put(a, b, axis=0):
                return lax.dynamic_update_slice_in_dim(a, b, held.live, axis)

            def rows_of_first(size):
                return jnp.where(on[:size, None], rows_of(new[:size]), 0)

            def products_of_first(size):
                def multiply(i, products):  # by strips of the slots in use, not by all slots
                    at = jnp.minimum(i * strip, slots - strip)
                    block = rows[:size] @ lax.dynamic_slice_in_dim(columns, at, strip).T
                    return lax.dynamic_update_slice_in_dim(products, block, at, 1)

                return lax.fori_loop(0, (live + strip - 1) // strip, multiply, jnp.zeros((size, slots), rows.dtype))

            rows = in_full(count - done, rows_of_first)
            columns = put(held.columns, rows)
            products = in_full(count - done, products_of_first)
            inside = held.inside.at[jnp.where(on, new, p)].set(True, mode="drop")
            gram = put(put(held.gram, products), products.T, 1)
            return Gathered(put(held.index, jnp.where(on, new, 0)), live, inside, columns, gram), done + BATCH

        return lax.while_loop(lambda carry: carry[1] < count, batch, (self, jnp.int32(0)))[0]

    def packed(self, keep: Array) -> tuple["Gathered", Callable[[Array], Array]]:
        """With the slots to `keep` (M,) alone; and what does the same to an array (M,) that goes with the slots."""
        slots, p = self.index.size, self.inside.size
        kept, count = positions(keep & self.used)
        on = jnp.arange(slots) < count

        def pack(a):
            return jnp.where(on.reshape(-1, *(1,) * (a.ndim - 1)), a[kept], 0)

        index = pack(self.index)
        inside = jnp.zeros(p, bool).at[jnp.where(on, index, p)].set(True, mode="drop")
        gram = jnp.where(on[:, None] & on[None, :], self.gram[kept[:, None], kept[None, :]], 0)
        return Gathered(index, count, inside, pack(self.columns), gram), pack
