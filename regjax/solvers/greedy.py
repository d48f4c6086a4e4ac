"""Sparse fits by choosing columns: pursuit, hard thresholding and exchange.

A support is a fixed number of places of which the first m hold columns. What a column is worth next to it is asked of a
`Problem` (see `supports.py`), which is least squares or any other loss: the searches are the same.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jax import Array, lax

from regjax.core.solution import Status

AHEAD = 8  # sizes beyond the largest asked for that `swaps` visits, to come back from them
TURNS = 100  # the most turns per size: never reached in measurements


class Fit(NamedTuple):
    """The best fit on a support.

    Attributes:
        loss: relative to that without columns.
        coef: w (K,), 0 in empty places.
        pull: the slope of the loss along every column (p,), in units in which a column that stands alone, of `length`
            h, lowers the loss by pull²/h.
        length: the curvature along every column (p,).
    """

    loss: Array
    coef: Array
    pull: Array
    length: Array


class View(NamedTuple):
    """A fit and the curvature about it: between its columns and all (K, p), 0 in empty places, and inverted (K, K)."""

    fit: Fit
    rows: Array
    inverse: Array


class Problem(Protocol):
    """A loss of which columns can be chosen, the quadratic model of it exact or good."""

    @property
    def num_columns(self) -> int:
        """p."""
        ...

    @property
    def dtype(self) -> Any:
        """Of the numbers."""
        ...

    def fit(self, index: Array, used: Array) -> Fit:
        """The best fit on the columns `index` (K,) in the places `used` (K,)."""
        ...

    def memory(self, places: int) -> Any:
        """What `view` remembers from call to call, at the start."""
        ...

    def view(self, memory: Any, index: Array, used: Array) -> tuple[Any, "View"]:
        """The memory and what it takes to compare moves; `used` are the first places."""
        ...


class Support(NamedTuple):
    """The columns that were chosen, for each of L sizes.

    Attributes:
        index: (L, max_k). size: (L,), how many of the places hold a column.
        num_iter: (L,). status: (L,).
    """

    index: Array
    size: Array
    num_iter: Array
    status: Array


def least_pivot(dtype) -> float:
    """The share of itself that a column must have to itself next to others; with less it depends on them."""
    return float(jnp.finfo(dtype).eps) ** 0.5


def invert(gram: Array, used: Array, count: Any = None) -> Array:
    """The inverse of a positive semidefinite matrix (K, K) over the places in `used`, elsewhere 0.

    Gauss–Jordan elimination in the given order: a place whose pivot is zero to working precision depends on those
    before it, and counts as not used. Where only the first `count` places can be used, the others take no time (and
    there is no derivative in reverse mode).

    References:
        Goodnight, A tutorial on the SWEEP operator, The American Statistician 33 (1979).
    """
    places = jnp.arange(len(gram))
    floor = least_pivot(gram.dtype) * jnp.diagonal(gram)

    def eliminate(j, carry):
        matrix, kept = carry
        pivot = matrix[j, j]
        sound = used[j] & (pivot > floor[j])
        row = jnp.where(places == j, 1, matrix[j]) / jnp.where(sound, pivot, 1)
        column = jnp.where(places == j, 0, matrix[:, j])
        swept = jnp.where((places == j)[:, None], row, jnp.where(places == j, 0, matrix) - jnp.outer(column, row))
        return jnp.where(sound, swept, matrix), kept.at[j].set(sound)

    count = len(gram) if count is None else count
    matrix, kept = lax.fori_loop(0, count, eliminate, (gram, jnp.zeros_like(used)))
    return jnp.where(kept[:, None] & kept, matrix, 0)


class _Moves(NamedTuple):
    """The best ways on: a column to add and its gain, a place to drop and its cost, an exchange and its gain."""

    add: Array
    gain: Array
    drop: Array
    cost: Array
    out: Array
    into: Array
    better: Array


def at_width(fun: Callable[[int], Any], size: Array, places: int) -> Any:
    """`fun(width)` for the least width, among the quarters of `places`, that holds a support of this size."""
    widths = sorted({-(-places * part // 4) for part in (1, 2, 3, 4)}) if places > 16 else [places]
    enough = jnp.int32(0) + sum((size > width).astype(jnp.int32) for width in widths[:-1])
    return lax.switch(enough, [partial(fun, width) for width in widths])


def _first(width: int, view: View, index: Array, used: Array) -> tuple[View, Array, Array]:
    """The same support with fewer places."""
    fit, rows, inverse = view
    fit = fit._replace(coef=fit.coef[:width])
    return View(fit, rows[:width], inverse[:width, :width]), index[:width], used[:width]


def _moves(view: View, index: Array, used: Array, pursue: bool) -> _Moves:
    """All single moves judged by the quadratic model; `pursue` looks at the slope only, as matching pursuit does."""
    fit, rows, inverse = view
    p = rows.shape[1]
    share = inverse @ rows  # how the columns of the support make up every column
    least = least_pivot(rows.dtype) * jnp.where(fit.length > 0, fit.length, 1)
    own = fit.length - jnp.einsum("ij,ij->j", rows, share)  # what is left of a column next to the support
    inside = jnp.zeros(p, bool).at[jnp.where(used, index, p)].set(True, mode="drop")
    apart = ~inside & (own > least)
    gain = jnp.where(apart, fit.pull**2 / jnp.where(apart, fit.length if pursue else own, 1), 0)
    add = jnp.argmax(gain).astype(jnp.int32)
    if pursue:
        return _Moves(add, gain[add], add, gain[add], add, add, -gain[add])
    g = jnp.where(used, 1 / jnp.where(jnp.diagonal(inverse) > 0, jnp.diagonal(inverse), 1), 0)
    cost = jnp.where(used, fit.coef**2 * g, jnp.inf)

    def exchanged(share, own, pull, least):
        """The gain of columns that take a place: without i, j has own + shareᵢ²gᵢ left and slope pull + shareᵢwᵢgᵢ."""
        places = (fit.coef * g, g, cost)
        lift, room, loss = (a.reshape(-1, *(1,) * (share.ndim - 1)) for a in places)
        return (pull + share * lift) ** 2 / jnp.maximum(own + share**2 * room, least) - loss

    best = jnp.max(exchanged(share, own, fit.pull, least), axis=0)
    best = jnp.where(inside | (fit.length == 0), -1, best)
    into = jnp.argmax(best)
    out = jnp.argmax(exchanged(share[:, into], own[into], fit.pull[into], least[into]))  # not a pass over all again
    drop, out, into = (j.astype(jnp.int32) for j in (jnp.argmin(cost), out, into))
    return _Moves(add, gain[add], drop, cost[drop], out, into, best[into])


class _Known(NamedTuple):
    """The best supports known: one of every size 0, …, R along the first axis, or a single one.

    Attributes:
        loss: infinite where none is known. index: (R,).
        add, higher: the best column to add, and the loss to expect. drop, lower: the place to drop, likewise.
    """

    loss: Array
    index: Array
    add: Array
    higher: Array
    drop: Array
    lower: Array


class _State(NamedTuple):
    """Where a search stands.

    Attributes:
        index, size: the support to look at. held: the one from which it was reached by an exchange.
        best: of every size. up, down: whether the ways on from these are still to be tried.
    """

    index: Array
    size: Array
    held: _Known
    best: _Known
    up: Array
    down: Array
    memory: Any
    turns: Array
    done: Array


def _search(problem: Problem, reach: int, *, exchange: bool) -> _State:
    """Walk through supports of 0, …, reach columns.

    A turn looks at one support. If an exchange lowers the loss it is made. Else the support is the best of its size
    that can be reached from here; if it is better than what was known, the ways up and down from it are to be tried.
    The walk goes up where it can, else down from the largest support, and ends where nothing is left to try: a way
    that leads to the loss already known at its end is one that was gone.
    """
    eps = float(jnp.finfo(problem.dtype).eps)
    slip = 32 * eps
    places, sizes = jnp.arange(reach), jnp.arange(reach + 1)

    def pick(condition, a, b):
        return jax.tree.map(lambda a, b: jnp.where(condition, a, b), a, b)

    def turn(s: _State) -> _State:
        m = s.size
        used = places < m
        memory, view = problem.view(s.memory, s.index, used)
        loss = view.fit.loss
        moves = at_width(lambda width: _moves(*_first(width, view, s.index, used), not exchange), m, reach)
        add = jnp.where(moves.gain > 4 * eps, moves.add, -1)
        here = _Known(loss, s.index, add, loss - moves.gain, moves.drop, loss + moves.cost)
        worse = ~(loss < s.held.loss - slip)  # a model that is not exact can mislead
        swap = exchange & ~worse & (moves.better > slip)
        held = pick(worse, s.held, here)
        at = jnp.where(~swap & (held.loss < s.best.loss[m] - slip), m, reach + 1)
        best = jax.tree.map(lambda known, new: known.at[at].set(new, mode="drop"), s.best, held)
        fresh = jnp.abs(best.higher - jnp.append(best.loss[1:], -jnp.inf)) > 16 * slip
        up = s.up.at[at].set(True, mode="drop") & (sizes < reach) & (best.add >= 0) & fresh
        fresh = jnp.abs(best.lower - jnp.append(jnp.inf, best.loss[:-1])) > 16 * slip
        down = s.down.at[at].set(exchange, mode="drop") & (sizes > 1) & fresh
        rises = jnp.any(up)
        done = ~swap & ~rises & ~jnp.any(down)
        start = jnp.where(rises, jnp.argmax(up), reach - jnp.argmax(down[::-1]))
        known = best.index[start]
        raised = known.at[start].set(best.add[start], mode="drop")
        lowered = known.at[best.drop[start]].set(known[start - 1])
        index = jnp.where(swap, s.index.at[moves.out].set(moves.into), jnp.where(rises, raised, lowered))
        size = jnp.where(swap, m, jnp.where(rises, start + 1, start - 1)).astype(jnp.int32)
        tried = (sizes == start) & ~swap
        held = pick(swap, held, held._replace(loss=jnp.full_like(loss, jnp.inf)))
        return _State(
            index, size, held, best, up & ~(tried & rises), down & ~(tried & ~rises), memory, s.turns + 1, done
        )  # fmt: skip

    none, inf = jnp.zeros(reach + 1, jnp.int32), jnp.full(reach + 1, jnp.inf, problem.dtype)
    best = _Known(inf, jnp.zeros((reach + 1, reach), jnp.int32), none - 1, inf, none, inf)
    start = _State(
        index=none[:-1], size=none[0], held=jax.tree.map(lambda a: a[0], best), best=best, up=none > 0, down=none > 0,
        memory=problem.memory(reach), turns=none[0], done=jnp.array(False),
    )  # fmt: skip
    return lax.while_loop(lambda s: ~s.done & (s.turns < TURNS * (reach + 1)), turn, start)


def _best_up_to(state: _State, ks: Array, max_k: int) -> Support:
    """For each k the support of least loss among those with at most k columns."""
    allowed = jnp.arange(len(state.best.loss)) <= ks[:, None]
    size = jnp.argmin(jnp.where(allowed, state.best.loss, jnp.inf), axis=1).astype(jnp.int32)
    status = jnp.where(state.done, Status.CONVERGED, Status.ITERATION_LIMIT).astype(jnp.int32)
    return Support(
        state.best.index[size, :max_k], size, jnp.full_like(size, state.turns), jnp.full_like(size, status)
    )  # fmt: skip


def omp(problem: Problem, ks: Array, *, max_k: int) -> Support:
    """Orthogonal matching pursuit: add the column with the steepest slope, refit, and so on; one run for every k.

    References:
        Pati, Rezaiifar & Krishnaprasad, Orthogonal matching pursuit, Asilomar 1993.
    """
    return _best_up_to(_search(problem, max_k, exchange=False), ks, max_k)


def swaps(problem: Problem, ks: Array, *, max_k: int) -> Support:
    """Forward selection with the best exchange of two columns until there is none, up to max_k + 8 columns and back.

    One run serves every k: a support of each size comes from its neighbours' by adding or dropping a column. At the
    end no exchange of one column, and no such step from a neighbour followed by exchanges, lowers the loss.

    References:
        Miller, Subset Selection in Regression, Chapman & Hall 2002, section 3.5.
        Hazimeh & Mazumder, Fast best subset selection, Operations Research 68 (2020).
    """
    reach = min(max_k + AHEAD, problem.num_columns)
    return _best_up_to(_search(problem, reach, exchange=True), ks, max_k)


def iht(problem: Problem, ks: Array, *, max_k: int) -> Support:
    """Hard thresholding pursuit: keep the k largest of w + μ·slope, refit, and halve μ where the loss does not fall.

    References:
        Blumensath & Davies, Iterative hard thresholding for compressed sensing, ACHA 27 (2009).
        Foucart, Hard thresholding pursuit, SIAM J. Numer. Anal. 49 (2011).
    """
    p = problem.num_columns
    places = jnp.arange(max_k)
    halvings, slip = 12, 32

    def one(k):
        used = places < k

        def threshold(fit, index, step):
            flat = jnp.where(fit.length > 0, fit.length, 1)
            point = (step * fit.pull / flat).at[jnp.where(used, index, p)].set(fit.coef, mode="drop")
            return lax.top_k(jnp.abs(point), max_k)[1].astype(jnp.int32)

        def unfinished(state):
            _, _, step, turns = state
            return (step >= 2.0**-halvings) & (turns < TURNS)

        def turn(state):
            index, fit, step, turns = state
            new = threshold(fit, index, step)
            trial = problem.fit(new, used)
            better = trial.loss < fit.loss - slip * jnp.finfo(fit.loss.dtype).eps
            kept = Fit(*(jnp.where(better, a, b) for a, b in zip(trial, fit, strict=True)))
            return jnp.where(better, new, index), kept, jnp.where(better, 1, step / 2), turns + 1

        empty = problem.fit(places.astype(jnp.int32), places < 0)
        index = threshold(empty, jnp.full(max_k, p), 1.0)
        step = jnp.ones_like(empty.loss)
        index, _, step, turns = lax.while_loop(
            unfinished, turn, (index, problem.fit(index, used), step, jnp.int32(0))
        )  # fmt: skip
        status = jnp.where(step < 2.0**-halvings, Status.CONVERGED, Status.ITERATION_LIMIT)
        return Support(index, k.astype(jnp.int32), turns, status.astype(jnp.int32))

    return lax.map(one, ks)
