"""Paths of the lasso and the elastic net on a working set of columns that grows with the support.

Most coefficients of a sparse solution are zero, and a column whose coefficient is zero need only be looked at now and
then. The columns that matter are gathered with their Gram matrix (`gram_block` solves the problem on them); after every
few lanes one product with X tells whether the rest can stay out, and which columns come next.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from regjax.penalties.elementary import soft
from regjax.solvers.certificate import Columns, Moments
from regjax.solvers.gram_block import Block, Strengths, positions, pull, solve_lanes

_CHUNK = 5  # lanes between two looks at all columns; longer chunks look further ahead, and gather more columns
_BATCH = 64  # columns are added in batches of this size
WHOLE = 1024  # with no more columns than this all are in the set from the start
_LEAST, _MOST = 512, 4096  # bounds of the capacity of the set, which is 2n columns between them


class PathResult(NamedTuple):
    """The solutions in the order of the lanes.

    Attributes:
        coef: (L, p).
        num_iter: sweeps of coordinate descent (L,).
        solved: (L,), False where the working set had no room for the support: `coef` is then a start for other solvers.
    """

    coef: Array
    num_iter: Array
    solved: Array


class Data(NamedTuple):
    """X (n, p) and y (n,) with what is often needed: Xᵀy, the squared norms of the columns, and ‖y‖²."""

    X: Array
    y: Array
    moments: Array
    diagonal: Array
    energy: Array

    @property
    def scale(self) -> Array:
        """max |Xᵀy|, the unit of errors in correlations."""
        return jnp.max(jnp.abs(self.moments))


class Walk(NamedTuple):
    """How far the path has come.

    Attributes:
        lane: the next lane, int32.
        trips: chunks solved so far, int32.
        index: (M,), the columns in the slots of the working set.
        live: how many slots are in use, int32.
        inside: (p,), whether a column is in the set.
        columns: (M, n), the columns in the slots as rows, zero in empty slots.
        gram: (M, M), their inner products.
        w, drift: (M,), where the next lane starts, as in `solve_lanes`.
        stuck: whether columns are missing for which there is no room, or it takes too long to find them.
        coef, sweeps: (L + chunk, p), (L + chunk,), the results.
    """

    lane: Array
    trips: Array
    index: Array
    live: Array
    inside: Array
    columns: Array
    gram: Array
    w: Array
    drift: Array
    stuck: Array
    coef: Array
    sweeps: Array

    @property
    def used(self) -> Array:
        """(M,), which slots are in use."""
        return jnp.arange(self.index.size) < self.live

    @property
    def room(self) -> Array:
        """How many columns can still be added."""
        return self.index.size - _BATCH - self.live

    def spread(self, w: Array) -> Array:
        """Coefficients (..., p) of all columns from those of the slots (..., M)."""
        p = self.inside.size
        return jnp.zeros((*w.shape[:-1], p), w.dtype).at[..., jnp.where(self.used, self.index, p)].set(w, mode="drop")


def solve_path(
    columns: Columns | Moments,
    l1: Array,
    l2: Array,
    lower: Array | None,
    upper: Array | None,
    init: Array,
    max_iter: Any,
) -> PathResult:
    """Minimise ½‖y − Xw‖² + Σⱼ l1ⱼ|wⱼ| + ½ l2ⱼwⱼ² over lower ≤ w ≤ upper for each of L penalties.

    The lanes are solved from the strongest penalty to the weakest, each from the solution of the one before. Newton
    steps make the solutions exact to rounding, as long as the working set has room for the support.

    Args:
        columns: X (n, p), centred and weighted, and y (n,); or their inner products.
        l1, l2: (L, p), not negative; 0 leaves a coefficient free, l1 = inf excludes it.
        lower, upper: (p,) with lower ≤ 0 ≤ upper, or both None.
        init: (p,), where the first lane starts.
        max_iter: the most sweeps per lane.
    """
    limits = None if lower is None or upper is None else (lower, upper)
    order = jnp.lexsort((-jnp.mean(l2, axis=1), -jnp.mean(jnp.where(jnp.isinf(l1), 0, l1), axis=1)))
    penalties = Strengths(l1[order], l2[order], limits)
    back = jnp.argsort(order)
    if isinstance(columns, Columns) and columns.X.shape[1] > WHOLE:
        path = _growing_path(columns.X, columns.Y[:, 0], penalties, init, max_iter)
    else:
        path = _whole_path(columns.moments(), penalties, init, max_iter)
    return PathResult(*(result[back] for result in path))


def _extended(penalties: Strengths, count: int) -> Strengths:
    """The lanes followed by `count` copies of the last."""

    def extend(a):
        return jnp.concatenate([a, jnp.broadcast_to(a[-1:], (count, a.shape[1]))])

    return penalties._replace(l1=extend(penalties.l1), l2=extend(penalties.l2))


def _whole_path(sums, penalties, start, max_iter):
    """The path with all columns in the set: XᵀX once, and no other pass over X."""
    scale = jnp.max(jnp.abs(sums.cross))
    block = Block(sums.gram, sums.cross, jnp.diag(sums.gram), jnp.int32(len(sums.gram)), sums.energy, scale)
    coef, _, sweeps = solve_lanes(block, _extended(penalties, 1), start, jnp.zeros_like(start), max_iter)
    return coef, sweeps, jnp.ones(len(coef), bool)


def _growing_path(X, y, penalties, start, max_iter):
    """The path on a working set, up to the lane for which there is no room."""
    n, p = X.shape
    lanes = len(penalties.l1)
    chunk = min(_CHUNK, lanes)
    slots = min(p, max(_LEAST, 2 * n), _MOST) + _BATCH  # a batch is written whole, even where only some of it is used
    data = Data(X, y, y @ X, jnp.einsum("ij,ij->j", X, X), y @ y)
    padded = _extended(penalties, chunk + 1)

    def zeros(*shape):
        return jnp.zeros(shape, X.dtype)

    walk = Walk(
        lane=jnp.int32(0),
        trips=jnp.int32(0),
        index=jnp.zeros(slots, jnp.int32),
        live=jnp.int32(0),
        inside=jnp.zeros(p, bool),
        columns=zeros(slots, n),
        gram=zeros(slots, slots),
        w=zeros(slots),
        drift=zeros(slots),
        stuck=jnp.array(False),
        coef=zeros(lanes + chunk, p),
        sweeps=jnp.zeros(lanes + chunk, jnp.int32),
    )
    needed = jnp.any((penalties.l1 == 0) & (data.diagonal > 0), axis=0) | (start != 0)
    rank = _rank(data.moments, penalties, jnp.minimum(padded.l1[0], padded.l1[chunk - 1]))
    walk = _add(X, walk, jnp.where(needed, jnp.inf, rank), jnp.maximum(jnp.sum(needed), 2 * _BATCH))
    walk = walk._replace(w=jnp.where(walk.used, start[walk.index], 0), stuck=jnp.any(needed & ~walk.inside))
    walk = lax.while_loop(
        lambda walk: (walk.lane < lanes) & ~walk.stuck, lambda walk: _advance(data, padded, walk, chunk, max_iter), walk
    )
    solved = jnp.arange(lanes) < walk.lane
    coef = jnp.where(solved[:, None], walk.coef[:lanes], walk.spread(walk.w))
    return coef, walk.sweeps[:lanes], solved


def _advance(data: Data, padded: Strengths, walk: Walk, chunk: int, max_iter: Any) -> Walk:
    """Solve a chunk of lanes, keep those that no column outside of the set disturbs, and enlarge the set."""
    l1, l2 = (lax.dynamic_slice_in_dim(a, walk.lane, chunk + 1) for a in (padded.l1, padded.l2))
    moments = jnp.where(walk.used, data.moments[walk.index], 0)
    block = Block(walk.gram, moments, jnp.diag(walk.gram), walk.live, data.energy, data.scale)
    inner = Strengths(l1, l2, padded.limits).take(walk.index)
    w, drift, sweeps = solve_lanes(block, inner, walk.w, walk.drift, max_iter)

    penalty = Strengths(l1[:-1], l2[:-1], padded.limits)
    coef, residuals = walk.spread(w), data.y - w @ walk.columns
    c = residuals @ data.X
    noise = float(jnp.finfo(w.dtype).eps) ** 0.75 * data.scale
    disturbed = jnp.any((jnp.abs(pull(c, coef, penalty)) > noise) & ~walk.inside, axis=1)
    good = jnp.argmax(jnp.concatenate([disturbed, jnp.array([True])])).astype(jnp.int32)
    last = jnp.minimum(good, chunk - 1)  # the first lane to be solved again, if any: its point is a good start

    def stored(results, new):
        return lax.dynamic_update_slice_in_dim(results, new, walk.lane, 0)

    walk = walk._replace(
        lane=walk.lane + good,
        trips=walk.trips + 1,
        w=w[last],
        drift=jnp.where(good == chunk, drift[last], 0),
        coef=stored(walk.coef, coef),
        sweeps=stored(walk.sweeps, sweeps),
    )
    walk = _prune(walk, (walk.w != 0) | jnp.any(inner.l1 == 0, axis=0))
    # what would enter at the end of the next chunk if correlations stayed as they are; where room is short, what must
    ahead = padded.l1[walk.lane + jnp.where(walk.room >= 2 * _BATCH, chunk - 1, 0)]
    rank = _rank(c[last], padded, jnp.minimum(l1[last], ahead))
    larger = _add(data.X, walk, rank, 2 * _BATCH + jnp.sum(walk.w != 0))
    too_long = walk.trips > 100 + 10 * len(padded.l1)
    return larger._replace(stuck=(good < chunk) & (larger.live == walk.live) | too_long)


def _prune(walk: Walk, keep: Array) -> Walk:
    """Make room, where it is short, by leaving only the slots to `keep` (M,), unless that would free too few."""
    slots, p = walk.index.size, walk.inside.size

    def worth_it(walk_keep):
        walk, keep = walk_keep
        return (walk.room < 2 * _BATCH) & (walk.live - jnp.sum(keep & walk.used) > slots // 4)

    def pack(walk_keep):
        walk, keep = walk_keep
        kept, count = positions(keep & walk.used)
        on = jnp.arange(slots) < count
        index = jnp.where(on, walk.index[kept], 0)
        walk = walk._replace(
            index=index,
            live=count,
            inside=jnp.zeros(p, bool).at[jnp.where(on, index, p)].set(True, mode="drop"),
            columns=jnp.where(on[:, None], walk.columns[kept], 0),
            gram=jnp.where(on[:, None] & on[None, :], walk.gram[kept[:, None], kept[None, :]], 0),
            w=jnp.where(on, walk.w[kept], 0),
            drift=jnp.where(on, walk.drift[kept], 0),
        )
        return walk, on

    return lax.while_loop(worth_it, pack, (walk, keep))[0]  # a loop of one turn: a `cond` would copy the Gram matrix


def _rank(c: Array, penalty: Strengths, threshold: Array) -> Array:
    """How much columns with correlations c want to enter where l1 is `threshold`; 0 if not at all."""
    eager = soft(c, threshold)
    if penalty.limits is not None:  # some may not move that way
        lower, upper = penalty.limits
        eager = jnp.where(jnp.where(eager > 0, upper, lower) == 0, 0, eager)
    return jnp.abs(eager)


def _add(X: Array, walk: Walk, rank: Array, budget: Array) -> Walk:
    """Put the columns of highest rank above 0 into the set, `budget` of them at most, batch by batch."""
    p, slots = X.shape[1], walk.index.size
    strip = min(256, slots)
    rank = jnp.where(~walk.inside & (rank > 0), rank, 0)
    count = jnp.minimum(jnp.minimum(jnp.sum(rank > 0), budget), walk.room).astype(jnp.int32)
    order = jnp.concatenate([jnp.argsort(-rank).astype(jnp.int32), jnp.zeros(_BATCH, jnp.int32)])

    def batch(carry):
        walk, done = carry
        new = lax.dynamic_slice_in_dim(order, done, _BATCH)
        on = jnp.arange(_BATCH) < count - done
        live = walk.live + jnp.minimum(count - done, _BATCH)

        def put(a, b, axis=0):
            return lax.dynamic_update_slice_in_dim(a, b, walk.live, axis)

        rows = jnp.where(on[:, None], X[:, new].T, 0)
        columns = put(walk.columns, rows)

        def multiply(i, products):  # by strips of the slots in use, not by all slots
            at = jnp.minimum(i * strip, slots - strip)
            return lax.dynamic_update_slice_in_dim(
                products, rows @ lax.dynamic_slice_in_dim(columns, at, strip).T, at, 1
            )

        products = lax.fori_loop(0, (live + strip - 1) // strip, multiply, jnp.zeros((_BATCH, slots), X.dtype))
        inside = walk.inside.at[jnp.where(on, new, p)].set(True, mode="drop")
        gram = put(put(walk.gram, products), products.T, 1)
        walk = walk._replace(
            index=put(walk.index, jnp.where(on, new, 0)), inside=inside, columns=columns, gram=gram, live=live
        )
        return walk, done + _BATCH

    return lax.while_loop(lambda carry: carry[1] < count, batch, (walk, jnp.int32(0)))[0]
