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
from regjax.solvers.gathered import BATCH, Gathered
from regjax.solvers.gram_block import Block, Strengths, pull, solve_lanes

_CHUNK = 5  # lanes between two looks at all columns; longer chunks look further ahead, and gather more columns
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

    def rows(self, index: Array) -> Array:
        """Some columns, as rows."""
        return self.X[:, index].T

    @property
    def scale(self) -> Array:
        """max |Xᵀy|, the unit of errors in correlations."""
        return jnp.max(jnp.abs(self.moments))


class Walk(NamedTuple):
    """How far the path has come.

    Attributes:
        lane: the next lane, int32.
        trips: chunks solved so far, int32.
        held: the working set.
        w, drift: (M,), where the next lane starts, as in `solve_lanes`.
        stuck: whether columns are missing for which there is no room, or it takes too long to find them.
        coef, sweeps: (L + chunk, p), (L + chunk,), the results.
    """

    lane: Array
    trips: Array
    held: Gathered
    w: Array
    drift: Array
    stuck: Array
    coef: Array
    sweeps: Array


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
    block = Block(sums.gram, jnp.diag(sums.gram), jnp.int32(len(sums.gram)), sums.energy, scale)
    still = jnp.zeros_like(start)
    coef, _, sweeps = solve_lanes(block, sums.cross, _extended(penalties, 1), start, still, max_iter)
    return coef, sweeps, jnp.ones(len(coef), bool)


def _growing_path(X, y, penalties, start, max_iter):
    """The path on a working set, up to the lane for which there is no room."""
    n, p = X.shape
    lanes = len(penalties.l1)
    chunk = min(_CHUNK, lanes)
    data = Data(X, y, y @ X, jnp.einsum("ij,ij->j", X, X), y @ y)
    padded = _extended(penalties, chunk + 1)
    held = Gathered.nothing(min(p, max(_LEAST, 2 * n), _MOST), n, p, X.dtype)
    needed = jnp.any((penalties.l1 == 0) & (data.diagonal > 0), axis=0) | (start != 0)
    rank = _rank(data.moments, penalties, jnp.minimum(padded.l1[0], padded.l1[chunk - 1]))
    held = held.with_best(data.rows, jnp.where(needed, jnp.inf, rank), jnp.maximum(jnp.sum(needed), 2 * BATCH))
    walk = Walk(
        lane=jnp.int32(0),
        trips=jnp.int32(0),
        held=held,
        w=jnp.where(held.used, start[held.index], 0),
        drift=jnp.zeros(held.index.size, X.dtype),
        stuck=jnp.any(needed & ~held.inside),
        coef=jnp.zeros((lanes + chunk, p), X.dtype),
        sweeps=jnp.zeros(lanes + chunk, jnp.int32),
    )
    walk = lax.while_loop(
        lambda walk: (walk.lane < lanes) & ~walk.stuck, lambda walk: _advance(data, padded, walk, chunk, max_iter), walk
    )
    solved = jnp.arange(lanes) < walk.lane
    coef = jnp.where(solved[:, None], walk.coef[:lanes], walk.held.spread(walk.w))
    return coef, walk.sweeps[:lanes], solved


def _advance(data: Data, padded: Strengths, walk: Walk, chunk: int, max_iter: Any) -> Walk:
    """Solve a chunk of lanes, keep those that no column outside of the set disturbs, and enlarge the set."""
    l1, l2 = (lax.dynamic_slice_in_dim(a, walk.lane, chunk + 1) for a in (padded.l1, padded.l2))
    held = walk.held
    moments = jnp.where(held.used, data.moments[held.index], 0)
    block = Block(held.gram, jnp.diag(held.gram), held.live, data.energy, data.scale)
    inner = Strengths(l1, l2, padded.limits).take(held.index)
    w, drift, sweeps = solve_lanes(block, moments, inner, walk.w, walk.drift, max_iter)

    penalty = Strengths(l1[:-1], l2[:-1], padded.limits)
    coef, residuals = held.spread(w), data.y - w @ held.columns
    c = residuals @ data.X
    noise = float(jnp.finfo(w.dtype).eps) ** 0.75 * data.scale
    disturbed = jnp.any((jnp.abs(pull(c, coef, penalty)) > noise) & ~held.inside, axis=1)
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
    ahead = padded.l1[walk.lane + jnp.where(walk.held.room >= 2 * BATCH, chunk - 1, 0)]
    rank = _rank(c[last], padded, jnp.minimum(l1[last], ahead))
    larger = walk.held.with_best(data.rows, rank, 2 * BATCH + jnp.sum(walk.w != 0))
    too_long = walk.trips > 100 + 10 * len(padded.l1)
    return walk._replace(held=larger, stuck=(good < chunk) & (larger.live == walk.held.live) | too_long)


def _prune(walk: Walk, keep: Array) -> Walk:
    """Make room, where it is short, by leaving only the slots to `keep` (M,), unless that would free too few."""

    def worth_it(walk_keep):
        walk, keep = walk_keep
        held = walk.held
        return (held.room < 2 * BATCH) & (held.live - jnp.sum(keep & held.used) > held.index.size // 4)

    def pack(walk_keep):
        walk, keep = walk_keep
        held, pack = walk.held.packed(keep)
        return walk._replace(held=held, w=pack(walk.w), drift=pack(walk.drift)), held.used

    return lax.while_loop(worth_it, pack, (walk, keep))[0]  # a loop of one turn: a `cond` would copy the Gram matrix


def _rank(c: Array, penalty: Strengths, threshold: Array) -> Array:
    """How much columns with correlations c want to enter where l1 is `threshold`; 0 if not at all."""
    eager = soft(c, threshold)
    if penalty.limits is not None:  # some may not move that way
        lower, upper = penalty.limits
        eager = jnp.where(jnp.where(eager > 0, upper, lower) == 0, 0, eager)
    return jnp.abs(eager)
