"""Paths of the lasso and the elastic net on a working set of columns that grows with the support.

Most coefficients of a sparse solution are zero, and a column whose coefficient is zero need only be looked at now and
then. The columns that matter are gathered with their Gram matrix (`gram_block` solves the problem on them); after every
few lanes one product with X tells whether the rest can stay out, and which columns come next.

Between the knots of the path the solution is linear in λ. A point between two solutions is therefore almost optimal:
its residual is a dual point without any scaling, and only coefficients that are zero at one of the ends count in the
gap. Where the tolerance allows, every second or fourth lane is solved, and those between are read off.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from regjax.core.loop import iterate
from regjax.penalties.elementary import soft
from regjax.solvers.certificate import Columns, Moments
from regjax.solvers.gathered import BATCH, Gathered
from regjax.solvers.gram_block import Block, Strengths, pull, solve_lanes

_CHUNK = 5  # lanes solved between two looks at all columns; longer chunks look further ahead, and gather more columns
_STRIDE, _SPAN = 4, 8  # the most lanes from one that is solved to the next, and within a chunk where lanes are left out
_WITHIN = 0.1  # of what is allowed: a lane that is solved to this share leaves the rest to what is read off beside it
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


class Ends(NamedTuple):
    """Solutions, stacked, between which others are read off.

    Attributes:
        coef: (C, p).
        pull: Xᵀr (C, p).
        squares: ‖r‖² (C,).
        level: the mean strength (C,).
    """

    coef: Array
    pull: Array
    squares: Array
    level: Array

    def followed_by(self, others: "Ends") -> "Ends":
        """These and the others."""
        return Ends(*(jnp.concatenate(pair) for pair in zip(self, others, strict=True)))

    def between(self, left: Array, right: Array, level: Array) -> tuple[Array, Array, Array]:
        """Coefficients, Xᵀr and a bound of ‖r‖² at some levels, each between a left and a right end."""
        high, low = self.level[left], self.level[right]
        share = jnp.clip((level - low) / jnp.where(high > low, high - low, 1), 0, 1)[:, None]
        coef, pull = (share * a[left] + (1 - share) * a[right] for a in (self.coef, self.pull))
        return coef, pull, jnp.maximum(self.squares[left], self.squares[right])


class Walk(NamedTuple):
    """How far the path has come.

    Attributes:
        lane: the next lane, int32.
        stride: every how many lanes one is solved, int32.
        held: the working set.
        w, drift: (M,), where the next lane starts, as in `solve_lanes`.
        aim: the change of the level that `drift` is for.
        last: the solution of the lane before, an `Ends` of one.
        coef, sweeps: (L + chunk, p), (L + chunk,), the results.
    """

    lane: Array
    stride: Array
    held: Gathered
    w: Array
    drift: Array
    aim: Array
    last: Ends
    coef: Array
    sweeps: Array


Judge = Callable[[Array, Array, Array, Array], Array]


def solve_path(
    columns: Columns | Moments,
    l1: Array,
    l2: Array,
    lower: Array | None,
    upper: Array | None,
    init: Array,
    max_iter: Any,
    judge: Judge | None = None,
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
        judge: takes the numbers of lanes (T,), coefficients (T, p), Xᵀr (T, p) and a bound of ‖r‖² (T,); says how far
            from optimal those are, as a multiple of what is allowed. Without it every lane is solved.
    """
    limits = None if lower is None or upper is None else (lower, upper)
    order = jnp.lexsort((-jnp.mean(l2, axis=1), -jnp.mean(jnp.where(jnp.isinf(l1), 0, l1), axis=1)))
    penalties = Strengths(l1[order], l2[order], limits)
    back = jnp.argsort(order)
    in_order = None if judge is None else lambda lanes, *point: judge(order[lanes], *point)
    if isinstance(columns, Columns) and columns.X.shape[1] > WHOLE:
        path = _growing_path(columns.X, columns.Y[:, 0], penalties, init, max_iter, in_order)
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


def _growing_path(X, y, penalties, start, max_iter, judge):
    """The path on a working set, up to the lane for which there is no room."""
    n, p = X.shape
    lanes = len(penalties.l1)
    chunk = min(_CHUNK, lanes)
    data = Data(X, y, y @ X, jnp.einsum("ij,ij->j", X, X), y @ y)
    padded = _extended(penalties, _SPAN + _STRIDE)
    level = jnp.mean(jnp.where(jnp.isinf(padded.l1), 0, padded.l1), axis=1)
    held = Gathered.nothing(min(p, max(_LEAST, 2 * n), _MOST), n, p, X.dtype)
    # what no lane charges; what only some lanes leave free, at λ = 0, enters as other columns do
    free = jnp.all(penalties.l1 == 0, axis=0) & (data.diagonal > 0)
    needed = free | (start != 0)
    needed = jnp.where(jnp.sum(needed) <= held.room, needed, free)  # a start for which there is no room is left
    rank = _rank(data.moments, penalties, jnp.minimum(padded.l1[0], padded.l1[chunk - 1]))
    held = held.with_best(data.rows, jnp.where(needed, jnp.inf, rank), jnp.maximum(jnp.sum(needed), 2 * BATCH))
    zero = jnp.zeros((), X.dtype)
    walk = Walk(
        lane=jnp.int32(0),
        stride=jnp.int32(1),
        held=held,
        w=jnp.where(held.used, start[held.index], 0),
        drift=jnp.zeros(held.index.size, X.dtype),
        aim=zero,
        last=Ends(*(a[None] for a in (jnp.zeros(p, X.dtype), data.moments, data.energy, zero))),  # not an end of any
        coef=jnp.zeros((lanes + _SPAN, p), X.dtype),
        sweeps=jnp.zeros(lanes + _SPAN, jnp.int32),
    )

    def advance(walk):
        walk, stuck = _advance(data, padded, level, walk, chunk, max_iter, judge if chunk == _CHUNK else None)
        return walk, jnp.where(stuck, jnp.inf, jnp.maximum(lanes - walk.lane, 0))  # the error: lanes to go

    to_go = jnp.where(jnp.any(free & ~held.inside), jnp.nan, lanes)
    walk = iterate(advance, walk, tol=0, max_iter=100 + 10 * len(padded.l1), error=to_go, last=True).state
    solved = jnp.arange(lanes) < walk.lane
    coef = jnp.where(solved[:, None], walk.coef[:lanes], walk.held.spread(walk.w))
    return coef, walk.sweeps[:lanes], solved


def _advance(
    data: Data, padded: Strengths, level: Array, walk: Walk, chunk: int, max_iter: Any, judge: Judge | None
) -> tuple[Walk, Array]:
    """Solve a chunk of lanes, keep those that no column outside of the set disturbs, and enlarge the set.

    Returns also whether it is stuck: columns are missing for which there is no room.
    """
    stride, held = walk.stride, walk.held
    count = jnp.where(stride == 1, chunk, _SPAN // stride)
    posts = walk.lane + stride * jnp.arange(1, chunk + 2) - 1  # the lanes to solve, and the one after
    l1, l2 = (a[posts] for a in (padded.l1, padded.l2))
    moments = jnp.where(held.used, data.moments[held.index], 0)
    block = Block(held.gram, jnp.diag(held.gram), held.live, data.energy, data.scale)
    inner = Strengths(l1, l2, padded.limits).take(held.index)
    first = level[posts[0]] - walk.last.level[0]
    drift = jnp.where(walk.aim == 0, 0, first / jnp.where(walk.aim == 0, 1, walk.aim)) * walk.drift

    def suffices(judge, i, w, c):  # as far as the columns of the set can tell
        squares = data.energy - jnp.sum(w * (moments + c))
        return judge(posts[i][None], *(a[None] for a in (held.spread(w), held.spread(c), squares)))[0] <= _WITHIN

    enough = None if judge is None else partial(suffices, judge)
    w, drifts, sweeps = solve_lanes(block, moments, inner, walk.w, drift, max_iter, count, enough)

    penalty = Strengths(l1[:-1], l2[:-1], padded.limits)
    coef, residuals = held.spread(w), data.y - w @ held.columns
    c = residuals @ data.X
    noise = float(jnp.finfo(w.dtype).eps) ** 0.75 * data.scale
    disturbed = jnp.any((jnp.abs(pull(c, coef, penalty)) > noise) & ~held.inside, axis=1)
    ends = walk.last.followed_by(Ends(coef, c, jnp.sum(residuals**2, axis=1), level[posts[:-1]]))
    window, tight, longer = coef, jnp.ones(chunk, bool), stride
    if judge is not None:
        window, tight, sound, wide = _read_off(ends, judge, walk.lane, stride, count, level)
        disturbed &= ~sound
        longer = jnp.where(wide & (stride < _STRIDE), 2 * stride, stride)
    disturbed |= jnp.arange(chunk) >= count
    good = _leading(tight & ~disturbed)
    lane = walk.lane + good * stride
    # where a column disturbs, the first point to be solved again is a good start; else the last that is good
    again = jnp.append(disturbed, False)[good] & (good < count)
    row = good + again

    def stored(results, new):
        return lax.dynamic_update_slice_in_dim(results, new, walk.lane, 0)

    walk = walk._replace(
        lane=lane,
        stride=jnp.where(good == count, longer, jnp.where(again, stride, jnp.maximum(stride // 2, 1))),
        w=jnp.concatenate([walk.w[None], w])[row],
        drift=jnp.where(again, 0, jnp.concatenate([walk.drift[None], drifts])[row]),
        aim=jnp.append(walk.aim, jnp.diff(level[posts]))[row],
        last=Ends(*(a[good][None] for a in ends)),
        coef=stored(walk.coef, window),
        sweeps=stored(walk.sweeps, jnp.zeros(_SPAN, jnp.int32).at[stride * jnp.arange(1, chunk + 1) - 1].set(sweeps)),
    )
    walk = _prune(walk, (walk.w != 0) | jnp.any(inner.l1 == 0, axis=0))
    # what would enter at the end of the next chunk if correlations stayed as they are; where room is short, what must
    reach = jnp.where(walk.stride == 1, chunk, _SPAN // walk.stride * walk.stride)
    ahead = padded.l1[walk.lane + jnp.where(walk.held.room >= 2 * BATCH, reach, walk.stride) - 1]
    rank = _rank(ends.pull[row], padded, jnp.minimum(l1[jnp.maximum(row - 1, 0)], ahead))
    larger = walk.held.with_best(data.rows, rank, 2 * BATCH + jnp.sum(walk.w != 0))
    return walk._replace(held=larger), again & (larger.live == walk.held.live)


def _read_off(ends: Ends, judge: Judge, lane: Array, stride: Array, count: Array, level: Array):
    """The lanes of a chunk from those solved: coefficients (span, p), which of the solved ones have only good lanes
    before them, back to the one before, which are good themselves, and whether twice the stride would do.
    """  # fmt: skip
    chunk = len(ends.coef) - 1
    inside = jnp.arange(_SPAN)
    segment = jnp.minimum(inside // stride, chunk - 1)
    skip = jnp.arange(chunk - 1)  # each solved lane but the last, were it not solved
    left, right = jnp.concatenate([segment, skip]), jnp.concatenate([segment + 1, skip + 2])
    lanes = lane + jnp.concatenate([inside, stride * (skip + 1) - 1])
    point = ends.between(left, right, level[lanes])
    excess = judge(lanes, *point)
    solved = (inside + 1) % stride == 0
    poor = ~solved & ~(excess[:_SPAN] <= 0.9)
    tight = jnp.zeros(chunk, bool).at[segment].max(poor) == 0
    sound = excess[jnp.minimum(stride * jnp.arange(1, chunk + 1), _SPAN) - 1] <= 0.9
    wide = jnp.all((excess[_SPAN:] <= 0.5) | (skip >= count - 1))
    return point[0][:_SPAN], tight, sound, wide


def _leading(flags: Array) -> Array:
    """How many are true before the first that is not."""
    return jnp.argmin(jnp.append(flags, False)).astype(jnp.int32)


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
