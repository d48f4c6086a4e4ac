"""The engine behind the lasso and the elastic net: homotopy for few columns, a working set for many."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from regjax.core.solution import Status, relative
from regjax.penalties import L1, ElasticNet, Limited, Penalty
from regjax.solvers.certificate import Certificate, Columns, Moments, Problem, least_gap, pose
from regjax.solvers.column_set import WHOLE, Judge, PathResult, solve_path
from regjax.solvers.coordinate import coordinate_descent
from regjax.solvers.homotopy import homotopy_path
from regjax.solvers.run import Outcome

FEW = 200  # columns up to which following the path knot by knot is the fastest way to one λ that was measured
MANY = 10  # values of λ from which it is the fastest for all columns that a working set may hold whole


def takes(penalty: Penalty) -> bool:
    """Whether the engine can minimise this penalty: ℓ1, with or without ℓ2, factors and limits."""
    return isinstance(penalty.penalty if isinstance(penalty, Limited) else penalty, L1 | ElasticNet)


def working_set(problem: Problem, penalty: Penalty, init: Array, *, tol: Any, max_iter: int = 1000) -> Outcome:
    """The lasso and the elastic net of one target, with Newton steps on the support: exact to rounding.

    With at most 200 columns (1024 for ten λ or more) and no limits the piecewise linear path is followed from λ_max
    down, knot by knot, on the Gram matrix. Otherwise the columns that matter are gathered into a working set, on whose
    Gram matrix coordinate descent finds the support and Newton's method the coefficients. `jax.vmap` over λ makes one
    path of all values.

    References:
        Osborne, Presnell & Turlach, A new approach to variable selection, IMA J. Numer. Anal. 20 (2000).
        Massias, Gramfort & Salmon, Celer: a fast solver for the lasso with dual extrapolation, ICML 2018.
    """
    one = jax.tree.map(lambda a: jnp.asarray(a)[None], (penalty, init, tol))
    outcome = working_set_path(Columns(problem.X, problem.Y), *one, max_iter=max_iter)
    return jax.tree.map(lambda a: a[0], outcome)


def working_set_path(
    columns: Columns | Moments, penalty: Penalty, init: Array, tol: Array, *, max_iter: int = 1000
) -> Outcome:
    """`working_set` for variants of one problem, stacked along the first axis of `penalty`, `init` and `tol`."""
    shape, dtype = init.shape[1:], init.dtype
    l1, l2, lower, upper = jax.vmap(lambda penalty: strengths_of(penalty, shape))(penalty)
    start = init[0, :, 0]

    def together(lower=None, upper=None):
        judge = _judge(columns, penalty, tol) if isinstance(columns, Columns) else None
        path = solve_path(columns, l1, l2, lower, upper, start, max_iter, judge)
        return _finished(columns, penalty, tol, max_iter, path)

    def apart():  # each variant has limits of its own
        def one(start, variant):
            l1, l2, lower, upper = variant
            result = solve_path(columns, l1[None], l2[None], lower, upper, start, max_iter)
            return result.coef[0], jax.tree.map(lambda a: a[0], result)

        return _finished(columns, penalty, tol, max_iter, lax.scan(one, start, (l1, l2, lower, upper))[1])

    def knot_by_knot():
        sums = columns.moments()
        path = homotopy_path(sums.gram, sums.cross, scales, factors, l2[0])
        coef = jnp.where(path.sound, path.coef, jnp.nan)  # which no certificate passes
        return coef, jnp.full(len(l1), path.num_knots)

    if isinstance(penalty, Limited):
        shared = jnp.all(lower == lower[0]) & jnp.all(upper == upper[0])
        found = lax.cond(shared, lambda: together(lower[0], upper[0]), apart)
        return _certified(columns, penalty, tol, max_iter, *found)
    if shape[0] > (WHOLE if len(l1) >= MANY else FEW):
        return _certified(columns, penalty, tol, max_iter, *together())
    scales, factors, proportional = _as_multiples(l1)
    proportional &= jnp.all(l2 == l2[0])

    # a loop of two turns at most, so that the certificate is compiled once for both ways
    def attempt(state):
        turn, _ = state
        return turn + 1, _certified(columns, penalty, tol, max_iter, *lax.cond(turn == 0, knot_by_knot, together))

    def unfinished(state):
        turn, outcome = state
        return (turn < 2) & ~jnp.all(outcome.status == Status.CONVERGED)

    zero = jnp.zeros(len(l1), dtype)
    nothing = Outcome(
        jnp.zeros_like(init), Certificate(zero, zero, zero, zero), zero.astype(jnp.int32),
        jnp.full(len(l1), Status.FLOOR, jnp.int32),
    )  # fmt: skip
    return lax.while_loop(unfinished, attempt, (jnp.where(proportional, 0, 1), nothing))[1]


def _finished(columns, penalty, tol, max_iter, path: PathResult) -> tuple[Array, Array]:
    """Coefficients and sweeps, with coordinate descent over all columns where the working set was too small."""

    def one(start, lane):
        penalty, tol, coef, num_iter, solved = lane

        def descend():
            problem = pose(columns.X, columns.Y, penalty)
            outcome = coordinate_descent(problem, penalty, start, tol=tol, max_iter=max_iter)
            return outcome.coef, outcome.num_iter

        coef, num_iter = lax.cond(solved, lambda: (coef[:, None], num_iter), descend)
        return coef, (coef[:, 0], num_iter)

    if path.coef.shape[1] <= WHOLE:  # all columns are in the set
        return path.coef, path.num_iter
    lanes = (penalty, tol, path.coef, path.num_iter, path.solved)
    return lax.cond(
        jnp.all(path.solved),
        lambda: (path.coef, path.num_iter),
        lambda: lax.scan(one, path.coef[0][:, None], lanes)[1],
    )


def _judge(columns: Columns, penalty: Penalty, tol: Array) -> Judge:
    """The gap of points that are not scaled anew beyond their unpenalised columns, in units of what `tol` allows.

    Where a lane leaves more columns unpenalised than others, at λ = 0, it has another null model: it is never good.
    """
    free = jax.vmap(lambda penalty: penalty.free(jnp.zeros((columns.X.shape[1], 1), columns.X.dtype)))(penalty)
    usual = jnp.argmin(jnp.sum(free, axis=(1, 2)))
    problem = pose(columns.X, columns.Y, jax.tree.map(lambda a: a[usual], penalty))
    known = jnp.all(free == free[usual], axis=(1, 2))

    def gap(penalty, tol, w, pull, squares):
        off = least_gap(
            penalty, w[:, None], pull[:, None], problem.null_slope, lambda scale: (1 - scale) ** 2 * squares / 2
        )
        return relative(off, problem.null) / tol

    def judge(lanes, w, pull, squares):
        excess = jax.vmap(gap)(jax.tree.map(lambda a: a[lanes], penalty), tol[lanes], w, pull, squares)
        return jnp.where(known[lanes], excess, jnp.inf)

    return judge


def _certified(columns, penalty, tol, max_iter, coef, num_iter) -> Outcome:
    proof = jax.vmap(lambda penalty, w: columns.certify(penalty, w[:, None]))(penalty, coef)
    status = jnp.where(num_iter >= max_iter, Status.ITERATION_LIMIT, Status.FLOOR)
    status = jnp.where(jnp.isfinite(proof.error), status, Status.NON_FINITE)
    status = jnp.where(proof.error <= tol, Status.CONVERGED, status)
    return Outcome(coef[..., None], proof, num_iter, status.astype(jnp.int32))


def strengths_of(penalty: Any, shape: tuple[int, ...]) -> tuple[Array, Array, Array, Array]:
    """l1, infinite for an excluded coefficient, l2 and the limits, (p,) each."""
    terms = penalty.terms(jnp.zeros(shape, jax.tree.leaves(penalty)[0].dtype))
    l1, l2, lower, upper = (jnp.broadcast_to(a, shape)[:, 0] for a in terms)
    # a strength that is NaN leads no other lane astray: its own certificate is NaN
    shut = ((lower == 0) & (upper == 0)) | jnp.isnan(l1)
    return jnp.where(shut, jnp.inf, l1), jnp.where(jnp.isnan(l2), 0, l2), lower, upper


def _as_multiples(l1: Array) -> tuple[Array, Array, Array]:
    """Scales (L,) and factors (p,) whose products are the strengths (L, p), and whether they are, up to rounding."""
    finite = jnp.where(jnp.isinf(l1), 0, l1)
    scales = jnp.max(finite, axis=1)
    strongest = jnp.argmax(scales)
    top = scales[strongest]
    factors = l1[strongest] / jnp.where(top > 0, top, 1)
    again = scales[:, None] * jnp.where(jnp.isinf(factors), 0, factors)
    close = jnp.abs(again - finite) <= 8 * jnp.finfo(l1.dtype).eps * finite
    same = jnp.isinf(l1) == jnp.isinf(factors)
    return scales, factors, (top > 0) & jnp.all(close & same)
