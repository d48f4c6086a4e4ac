"""The lasso and the elastic net on a small set of columns, given by their Gram matrix: one lane after the other.

For a lane (a penalty) on the columns x₁ … x_M, with G = XᵀX and cⱼ = xⱼᵀr the correlations with the residual,

    minimise ½‖y − Xw‖² + Σⱼ l1ⱼ|wⱼ| + ½ l2ⱼwⱼ²    subject to lowerⱼ ≤ wⱼ ≤ upperⱼ.

A round is a sweep of coordinate descent, which finds the support and its signs, and a Newton step on that support,
which makes the answer exact. The Cholesky factor of the step also says where the solution moves as the penalty changes
to that of the next lane, so that most lanes start from a point with almost the right support.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array, lax
from jax.scipy.linalg import cho_solve
from jax.typing import ArrayLike

from regjax.core.loop import iterate
from regjax.penalties.elementary import soft

_AT_ONCE = 16  # rows of a product
_PATIENCE = 30  # rounds without progress after which there will be none: with 10, lanes in float32 gave up too early
_ENTRIES = 3  # sweeps that only let columns enter, where the support is almost known: Newton steps move the others
_STEPS = (32, 64, 128, 192, 256, 320, 384, 448, 512, 640, 768, 896, 1024, 1536, 2048, 3072)  # sizes of supports


class Block(NamedTuple):
    """The columns, as far as the problem sees them; slots from `live` on are empty: zero rows and columns.

    Attributes:
        gram: G (M, M).
        diagonal: that of G.
        live: how many slots are in use, int32.
        energy: ‖y‖².
        scale: max |xⱼᵀy| over all columns of the problem: the unit of errors in c.
    """

    gram: Array
    diagonal: Array
    live: Array
    energy: Array
    scale: Array


class Strengths(NamedTuple):
    """Strengths (..., p), and limits, a lower and an upper one (p,), or None."""

    l1: Array
    l2: Array
    limits: tuple[Array, Array] | None = None

    def take(self, index: Array) -> "Strengths":
        """Those of some columns."""
        limits = None if self.limits is None else (self.limits[0][index], self.limits[1][index])
        return Strengths(self.l1[..., index], self.l2[..., index], limits)

    def clip(self, w: Array) -> Array:
        """The nearest point within the limits."""
        return w if self.limits is None else jnp.clip(w, *self.limits)


class Spot(NamedTuple):
    """A point on the way.

    Attributes:
        w, c: coefficients and their correlations.
        drift: by how much w changes towards the next lane, 0 if unknown.
        narrowed: whether the last Newton step stopped early; no sweep follows, as it would bring back what left.
        sweeps: so far.
        value: the least objective so far, up to a constant.
        error: the least max |pull| so far.
        stale: rounds in a row without progress in either.
    """

    w: Array
    c: Array
    drift: Array
    narrowed: Array
    sweeps: Array
    value: Array
    error: Array
    stale: Array


def coordinate_step(c, w, diagonal, penalty: Strengths):
    """By how much a coefficient moves when it alone is minimised over; elementwise."""
    curvature = diagonal + penalty.l2
    best = soft(c + diagonal * w, penalty.l1) / jnp.where(curvature > 0, curvature, 1)
    return penalty.clip(jnp.where(diagonal > 0, best, 0)) - w


def pull(c: Array, w: Array, penalty: Strengths) -> Array:
    """The signed distance of c to ∂P(w), 0 where a limit holds the coefficient."""
    slope = c - penalty.l2 * w
    force = jnp.where(w == 0, soft(slope, penalty.l1), slope - jnp.where(w == 0, 0, penalty.l1) * jnp.sign(w))
    if penalty.limits is None:
        return force
    lower, upper = penalty.limits
    held = ((w >= upper) & (force > 0)) | ((w <= lower) & (force < 0))
    return jnp.where(held, 0, force)


def positions(mask: Array) -> tuple[Array, Array]:
    """Where the mask is true, packed to the front of an array of its size, and how many there are.

    A scalar loop: every index is written to the next free place, which moves on if the index was wanted.
    """

    def put(j, carry):
        index, count = carry
        return lax.dynamic_update_slice(index, j[None], (count,)), count + mask[j].astype(jnp.int32)

    start = (jnp.zeros(mask.size + 1, jnp.int32), jnp.int32(0))
    index, count = lax.fori_loop(jnp.int32(0), jnp.int32(mask.size), put, start)
    return index[:-1], count


def image(gram: Array, v: Array, index: Array, count: Array) -> Array:
    """Gv for a v that is zero outside of the first `count` of `index`: only those rows of G are read.

    Some at a time, so that the sum is read and written once for all of them.
    """
    values = jnp.pad(jnp.where(jnp.arange(index.size) < count, v[index], 0), (0, _AT_ONCE))
    rows = jnp.pad(index, (0, _AT_ONCE))

    def add(i, total):
        for k in range(_AT_ONCE):
            j = _AT_ONCE * i + k
            total = total + values[j] * gram[rows[j]]
        return total

    return lax.fori_loop(0, -(-count // _AT_ONCE), add, jnp.zeros_like(gram[0]))


def sweep(block: Block, penalty: Strengths, w: Array, c: Array, idle: Any = False) -> tuple[Array, Array]:
    """Minimise over each coefficient in turn; over those that are 0 alone, if `idle`.

    A scalar loop walks to the next coefficient that moves; only then is c updated with a row of G. The moves are
    collected in an array of their own: writing into w, which the scalar loop reads, would copy it at every move.
    """
    still = float(jnp.finfo(w.dtype).eps) ** 2 * block.energy  # moves that change the fit by less are rounding

    def move(carry):
        j, steps, c = carry

        def look(carry):
            j, _ = carry
            step = coordinate_step(c[j], w[j], block.diagonal[j], penalty.take(j))
            return j + 1, jnp.where((step**2 * block.diagonal[j] > still) & ~(idle & (w[j] != 0)), step, 0)

        start = (j, jnp.zeros((), w.dtype))
        j, step = lax.while_loop(lambda carry: (carry[0] < block.live) & (carry[1] == 0), look, start)
        return j, lax.dynamic_update_slice(steps, step[None], (j - 1,)), c - step * block.gram[j - 1]

    start = (jnp.zeros((), jnp.int32), jnp.zeros_like(w), c)
    _, steps, c = lax.while_loop(lambda carry: carry[0] < block.live, move, start)
    return w + steps, c


class Step(NamedTuple):
    """What a Newton step gives: a point, its correlations, the drift there, and whether it stopped on the way."""

    w: Array
    c: Array
    drift: Array
    narrowed: Array


def newton(block: Block, penalty: Strengths, ahead: Strengths, w: Array, c: Array) -> Step:
    """The minimiser on the support with its signs, or a point on the way to it; and the drift towards `ahead`.

    Where the full step takes coefficients across 0 or a limit, there are two ways on, and the one that lowers the
    objective more is taken: to let those coefficients stop at 0 or the limit while the others move on (with an exact
    line search, as this may overshoot), or to stop where the first of them stops. The latter always descends, even
    where the columns of the support are dependent and the step is huge: it shrinks the support until they are not.
    """
    free = (block.diagonal > 0) & ((w != 0) | (penalty.l1 == 0))
    if penalty.limits is not None:
        lower, upper = penalty.limits
        free &= (w > lower) & (w < upper)
    sign = jnp.sign(w)
    force = jnp.where(free, pull(c, w, penalty), 0)
    change = (ahead.l1 - penalty.l1) * sign + (ahead.l2 - penalty.l2) * w
    index, count = positions(free)
    sides = jnp.stack([force, -jnp.where(free & jnp.isfinite(change), change, 0)], axis=1)
    step, drift = _solve_on_support(block, penalty.l2, index, count, sides)
    drift = jnp.where(jnp.all(drift**2 * block.diagonal <= block.energy), drift, 0)  # a huge one leads nowhere

    target = penalty.clip(w + step)
    target = jnp.where((target * sign < 0) & (penalty.l1 > 0), 0, target)
    stopped = target != w + step
    move = target - w
    bend = image(block.gram, move, index, count)
    slope, curvature = jnp.sum(force * move), jnp.sum(move * (bend + penalty.l2 * move))
    length = jnp.clip(slope / jnp.where(curvature > 0, curvature, 1), 0, 1)
    length = jnp.where(length > 0.999, 1, length)  # exactly 1, so that zeros are exactly 0

    fraction = jnp.where(stopped, move / jnp.where(step == 0, 1, step), 1)  # of the step at which a coefficient stops
    first = jnp.min(fraction)
    gain = length * (slope - length * curvature / 2)
    narrowed = (first - first**2 / 2) * jnp.sum(force * step) > gain
    narrowed &= first < 1

    def narrow():
        near = jnp.where(stopped & (fraction <= first), target, w + first * step)
        return near, c - image(block.gram, near - w, index, count)

    def widen():
        return jnp.where(length == 1, target, w + length * move), c - length * bend

    new, new_c = lax.cond(narrowed, narrow, widen)
    return Step(new, new_c, drift, narrowed)


def _solve_on_support(block, l2, index, count, sides):
    """(G + L2)⁻¹ sides (M, 2) on the support: a Cholesky factorization, padded to the next of a few static sizes."""
    slots = l2.size
    on = jnp.arange(slots) < count
    packed = jnp.where(on[:, None], sides[index], 0)
    shift = jnp.where(on, l2[index] + 8 * float(jnp.finfo(l2.dtype).eps) * block.diagonal[index], 1)

    def solve(size):
        def run(packed):
            support, used = index[:size], on[:size]
            matrix = jnp.where(used[:, None] & used[None, :], block.gram[support[:, None], support[None, :]], 0)
            factor = lax.linalg.cholesky(matrix + jnp.diag(shift[:size]), symmetrize_input=False)
            return lax.dynamic_update_slice(packed, cho_solve((factor, True), packed[:size]), (0, 0))

        return run

    sizes = [size for size in _STEPS if size < slots] + [slots]
    solution = lax.switch(jnp.searchsorted(jnp.array(sizes), count), [solve(size) for size in sizes], packed)
    solution = jnp.where(jnp.all(jnp.isfinite(solution)), solution, 0)
    solution = jnp.zeros_like(sides).at[jnp.where(on, index, slots)].set(solution, mode="drop")
    return solution[:, 0], solution[:, 1]


def settle(
    block: Block,
    penalty: Strengths,
    ahead: Strengths,
    w: Array,
    c: Array,
    max_iter: Any,
    *,
    near: bool = False,
    goal: ArrayLike = 0,
    suffices: Callable[[Array, Array], Array] | None = None,
) -> Spot:
    """Minimise one lane from w, where the correlations are c; where that is `near`, it is spared the first sweep.

    The rounds end when the optimality conditions hold to rounding, or to `goal` times what they were off at w, or
    where the point `suffices(w, c)`, or as well as they ever will (thirty rounds in a row have lowered neither the
    objective nor the error), or after `max_iter` sweeps.
    """
    eps = float(jnp.finfo(w.dtype).eps)

    def objective(w, c):  # above that of the start, apart from what is charged there
        charged = jnp.where(w == 0, 0, penalty.l1) * jnp.abs(w) + penalty.l2 * w**2 / 2
        return jnp.sum(charged - (w - start.w) * (start.c + c) / 2)

    def off(w, c):
        return jnp.max(jnp.where(block.diagonal > 0, jnp.abs(pull(c, w, penalty)), 0))

    def one_round(spot: Spot) -> tuple[Spot, Array]:
        idle = jnp.array(near) & (spot.sweeps < _ENTRIES)
        w, c = lax.cond(
            spot.narrowed, lambda w, c: (w, c), lambda w, c: sweep(block, penalty, w, c, idle), spot.w, spot.c
        )
        w, c, drift, narrowed = newton(block, penalty, ahead, w, c)
        error, value = off(w, c), objective(w, c)
        # a slow descent of the error counts: objective values differ by less than their rounding long before its end
        progress = narrowed | (error < 0.95 * spot.error) | (value < spot.value - 4 * eps * block.energy)
        sweeps = spot.sweeps + jnp.where(spot.narrowed, 0, 1)
        least, stale = jnp.minimum(error, spot.error), jnp.where(progress, 0, spot.stale + 1)
        spot = Spot(w, c, drift, narrowed, sweeps, jnp.minimum(value, spot.value), least, stale)
        to_go = jnp.where((stale >= _PATIENCE) | (sweeps >= max_iter), infinity, least)
        return spot, to_go if suffices is None else jnp.where(suffices(w, c), 0, to_go)

    zero, infinity = jnp.zeros((), jnp.int32), jnp.array(jnp.inf, w.dtype)
    enough = jnp.maximum(max(8 * eps, 1e-13) * block.scale, goal * off(w, c))
    start = Spot(w, c, jnp.zeros_like(w), jnp.array(near), zero, infinity, infinity, zero)
    rounds = jnp.iinfo(jnp.int32).max  # those without a sweep, each with a smaller support, are not limited
    return iterate(one_round, start, tol=enough, max_iter=rounds, last=True).state


def predict(penalty: Strengths, w: Array, drift: Array) -> Array:
    """Where the solution of the last lane moves to under this penalty, without crossing 0 or a limit."""
    new = penalty.clip(w + drift)
    crossed = (new * w <= 0) & (penalty.l1 > 0)
    return jnp.where(crossed | jnp.isinf(penalty.l1), 0, new)


def solve_lanes(
    block: Block,
    moments: Array,
    penalties: Strengths,
    w: Array,
    drift: Array,
    max_iter: Any,
    count: Any = None,
    suffices: Callable[[Array, Array, Array], Array] | None = None,
) -> tuple[Array, Array, Array]:
    """Minimise lane after lane, each from where the one before points to.

    Args:
        block: the columns.
        moments: xⱼᵀy (M,).
        penalties: l1 and l2 (C + 1, M): C lanes, and the one that the last of them should point to.
        w, drift: (M,), the start.
        max_iter: sweeps per lane.
        count: how many of the lanes to solve, the first ones; all if None.
        suffices: takes the number of a lane, coefficients and correlations (M,); whether those will do. If None every
            lane is solved to rounding.

    Returns:
        Coefficients (C, M), their drifts (C, M), and sweeps (C,); zero for lanes that are not solved.
    """
    l1, l2 = penalties.l1, penalties.l2
    lanes = len(l1) - 1

    def one(i, carry):
        w, drift, results = carry
        penalty, ahead = Strengths(l1[i], l2[i], penalties.limits), Strengths(l1[i + 1], l2[i + 1])
        w = predict(penalty, w, drift)
        c = moments - image(block.gram, w, *positions(w != 0))
        enough = None if suffices is None else partial(suffices, i)
        spot = settle(block, penalty, ahead, w, c, max_iter, suffices=enough)
        found = (spot.w, spot.drift, spot.sweeps)
        return spot.w, spot.drift, tuple(a.at[i].set(b) for a, b in zip(results, found, strict=True))

    empty = jnp.zeros((lanes, w.size), w.dtype)
    start = (w, drift, (empty, empty, jnp.zeros(lanes, jnp.int32)))
    return lax.fori_loop(0, lanes if count is None else count, one, start)[2]
