"""Quantiles, many at once and in order, against a linear program of scipy's (HiGHS)."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import linprog

import regjax
from regjax import Status
from regjax.penalties import (
    L1,
    ElasticNet,
    Group,
    L1Ball,
    MultiTask,
    PlusL2,
    Slope,
    SparseGroup,
    SparseVariation,
    TotalVariation,
)
from regjax.solvers.splitting import certify_slopes
from regjax.solvers.task import Task
from tests.problems import assert_close, tolerance

rng = np.random.default_rng(0)
N, P = 40, 3
X = rng.normal(size=(N, P)) + 0.5
Y = X.sum(axis=1) + (1 + 0.5 * np.abs(X[:, 0])) * rng.standard_t(2, size=N)
V = rng.uniform(0.5, 2, size=N)
TAUS = np.array([0.1, 0.25, 0.5, 0.9, 0.95])
CASES = {
    "no penalty": (None, {}, None),
    "lasso": (L1(2.0), {}, (2.0, np.eye(P))),
    "limits": (None, {"lower": -0.3, "upper": 0.5}, None),
    "total variation": (TotalVariation(1.5), {}, (1.5, np.diff(np.eye(P), axis=0))),
    "fused lasso": (SparseVariation(1.0, 1.5), {}, (1.0, np.vstack([np.eye(P), 1.5 * np.diff(np.eye(P), axis=0)]))),
}


def least_value(non_crossing, limits, cost):
    """min Σ v (τ r⁺ + (1 − τ) r⁻) + λ Σ|Dw| over β (p + 1, t), r⁺, r⁻ and bounds of |Dw|."""
    t = len(TAUS)
    Z = np.column_stack([np.ones(N), X])
    lam, D = (0.0, np.eye(P)) if cost is None else cost
    size, samples, rows = (P + 1) * t, N * t, len(D) * t
    objective = np.concatenate([np.zeros(size), np.outer(V, TAUS).ravel(), np.outer(V, 1 - TAUS).ravel()])
    objective = np.concatenate([objective, np.full(rows, lam)])
    equal = np.hstack([np.kron(Z, np.eye(t)), np.eye(samples), -np.eye(samples), np.zeros((samples, rows))])
    image = np.hstack([np.zeros((rows, t)), np.kron(D, np.eye(t)), np.zeros((rows, 2 * samples))])
    below = [np.hstack([sign * image, -np.eye(rows)]) for sign in (1, -1)]
    if non_crossing:
        steps = np.kron(Z, np.diff(np.eye(t), axis=0))
        below.append(np.hstack([-steps, np.zeros((len(steps), 2 * samples + rows))]))
    below = np.vstack(below)
    bounds = [(None, None)] * t + [(limits.get("lower"), limits.get("upper"))] * (P * t)
    bounds += [(0, None)] * (2 * samples + rows)
    return linprog(
        objective, A_eq=equal, b_eq=np.repeat(Y, t), A_ub=below, b_ub=np.zeros(len(below)), bounds=bounds,
        method="highs",
    ).fun  # fmt: skip


@pytest.mark.sample(16)
@pytest.mark.x64
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("non_crossing", [True, False])
def test_equals_the_linear_program(non_crossing, name):
    penalty, limits, cost = CASES[name]
    fit = regjax.quantile_regression(X, Y, TAUS, penalty, non_crossing=non_crossing, weights=V, **limits)
    assert bool(fit.converged)
    assert fit.params.coef.shape == (P, len(TAUS))
    assert_close(fit.objective, least_value(non_crossing, limits, cost), f64=1e-11)
    assert float(fit.gap) < 1e-12
    lowest = np.diff(np.asarray(fit.params(X)), axis=1).min()
    if non_crossing:
        assert lowest >= -1e-12
        inside = rng.dirichlet(np.full(N, 0.1), size=200) @ X  # the convex hull of the samples
        assert np.diff(np.asarray(fit.params(inside)), axis=1).min() >= -1e-12
    elif name == "no penalty":
        assert lowest < -0.1  # else the test above would say nothing
    if limits:
        assert float(fit.params.coef.min()) >= -0.3
        assert float(fit.params.coef.max()) <= 0.5


def test_many_at_once_equal_one_by_one():
    many = regjax.quantile_regression(X, Y, TAUS[:3], L1(2.0), weights=V)
    each = [regjax.quantile_regression(X, Y, tau, L1(2.0), weights=V) for tau in TAUS[:3]]
    assert_close(many.objective, sum(fit.objective for fit in each), f64=1e-12, f32=1e-5)
    assert_close(many.params.coef[:, 1], each[1].params.coef, f64=1e-9, f32=1e-3)


@pytest.mark.once
def test_in_any_order_of_tau_and_in_lanes():
    """Samples of weight zero hold NaN, and constrain nothing."""
    order = np.array([3, 0, 4, 1, 2])
    weights = jnp.asarray(np.stack([V, np.where(np.arange(N) < 8, 0, V)]))
    holes = np.where(np.arange(N) < 8, np.nan, Y)

    def fit(y, weights, taus=TAUS):
        return regjax.quantile_regression(X, y, taus, non_crossing=True, weights=weights)

    lanes = jax.vmap(lambda v: fit(jnp.asarray(Y), v))(weights)
    assert bool(lanes.converged.all())
    sorted_back = fit(Y, V, TAUS[order])
    assert_close(sorted_back.objective, lanes.objective[0], f64=1e-11)
    assert np.diff(np.asarray(sorted_back.params(X))[:, np.argsort(order)], axis=1).min() >= -1e-12
    kept = fit(holes, weights[1])
    short = regjax.quantile_regression(X[8:], Y[8:], TAUS, non_crossing=True, weights=V[8:])
    assert_close(kept.objective, lanes.objective[1], f64=1e-11)
    assert_close(short.objective, kept.objective, f64=1e-11)


@pytest.mark.slow
def test_a_quantile_that_is_not_a_number_is_named():
    fits = jax.vmap(lambda tau: regjax.quantile_regression(X, Y, tau, weights=V))(jnp.array([0.5, jnp.nan, 0.9]))
    assert [Status(int(s)).name for s in fits.status] == ["CONVERGED", "INVALID", "CONVERGED"]
    assert float(jnp.max(fits.gap[jnp.array([0, 2])])) < tolerance(1e-12, 1e-5)


@pytest.mark.once
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: regjax.quantile_regression(X, Y, 0.5, non_crossing=True), "non_crossing takes several tau, got one"),
        (lambda: regjax.quantile_regression(X, Y, TAUS[None]), r"tau has shape \(1, 5\)"),
        (lambda: regjax.quantile_regression(X, Y[:, None], TAUS), r"y has shape \(40, 1\): with several tau"),
        (lambda: regjax.fit(X, Y, regjax.losses.Quantile(TAUS), L1(1.0)), r"tau of Quantile has shape \(5,\)"),
    ],
)
def test_refusals_say_why(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.x64
def test_derivatives_of_a_vertex():
    """Against central differences where the solution is unique, in everything that it depends on; else nan."""

    @jax.jit
    def fit(X, y, v, tau, lam):
        solution = regjax.quantile_regression(X, y, tau, ElasticNet(lam, 0.3), weights=v)
        return solution.params.coef, solution.params.intercept, solution.objective

    args = tuple(jnp.asarray(a) for a in (X, Y, V, 0.4, 6.0))
    turn = np.random.default_rng(1)
    direction = tuple(jnp.asarray(0.1 * turn.normal(size=a.shape)) for a in args)
    value, forward = jax.jvp(fit, args, direction)
    assert 0 < int(jnp.sum(value[0] == 0)) < P  # some are held at the kink
    assert np.all(fit(*args[:4], 500.0)[0] == 0)
    h = 1e-6
    up, down = (fit(*(a + s * h * d for a, d in zip(args, direction, strict=True))) for s in (1, -1))
    assert_close(forward, jax.tree.map(lambda a, b: (a - b) / (2 * h), up, down), f64=1e-7)
    cotangent = jax.tree.map(jnp.ones_like, value)
    back = jax.vjp(fit, *args)[1](cotangent)
    total = sum(jnp.vdot(a, b) for a, b in zip(back, direction, strict=True))
    assert_close(total, sum(jnp.sum(a) for a in forward), f64=1e-9, scale=1.0)
    # every sample twice: more are fitted than it takes, and a change of one of the two has two sides
    twice = tuple(jnp.concatenate([a[: N // 2], a[: N // 2]]) for a in args[:3])
    assert bool(jnp.any(jnp.isnan(jax.jvp(fit, (*twice, *args[3:]), direction)[1][0])))


# penalties that are not linear, written so that they are L1 or the elastic net
DISGUISED = {
    "groups of one": (Group(2.0, range(P)), L1(2.0)),
    "rows of one target": (MultiTask(2.0), L1(2.0)),
    "equal costs": (Slope(np.full(P, 2.0)), L1(2.0)),
    "no norm of groups": (PlusL2(SparseGroup(2.0, 0.0, [0, 0, 1]), 0.5), ElasticNet(2.0, 0.5)),
}


@pytest.mark.slow
@pytest.mark.x64
@pytest.mark.parametrize("name", DISGUISED)
def test_splitting_equals_the_program(name):
    disguised, plain = DISGUISED[name]
    fit, program = (regjax.quantile_regression(X, Y, 0.3, penalty, weights=V) for penalty in (disguised, plain))
    assert bool(fit.converged)
    assert_close(fit.objective, program.objective, f64=1e-10)
    assert_close(fit.params.coef, program.params.coef, f64=1e-7)


@pytest.mark.x64
def test_within_a_ball_equals_the_linear_program():
    """And what a certificate promises of any other point of the ball, by any slopes, is true."""
    Z = np.column_stack([np.ones(N), X, -X, np.eye(N), -np.eye(N)])
    costs = np.concatenate([np.zeros(1 + 2 * P), 0.3 * V, 0.7 * V])
    sizes = np.concatenate([[0.0], np.ones(2 * P), np.zeros(2 * N)])[None]
    bounds = [(None, None)] + [(0, None)] * (2 * P + 2 * N)
    best = linprog(costs, A_eq=Z, b_eq=Y, A_ub=sizes, b_ub=[1.5], bounds=bounds, method="highs").fun
    ball = L1Ball(1.5)
    fit = regjax.quantile_regression(X, Y, 0.3, ball, weights=V)
    assert bool(fit.converged)
    assert_close(fit.objective, best, f64=1e-11)
    assert_close(jnp.sum(jnp.abs(fit.params.coef)), 1.5, f64=1e-12)

    task = Task(X - V @ X / V.sum(), Y[:, None], np.zeros((N, 1)), V, np.ones(()), regjax.losses.Quantile(0.3))
    task = jax.tree.map(jnp.asarray, task)

    @jax.jit
    @jax.vmap
    def promise(point, theta):
        point = point.at[1:].set(ball.prox(point[1:], 1.0))
        proof = certify_slopes(task, ball, jnp.ones(()), jnp.ones(()), point, theta)
        return task.objective(ball, point) - proof.gap

    random = np.random.default_rng(3)
    bounds = promise(random.normal(size=(50, P + 1, 1)), random.uniform(-1, 1, size=(50, N, 1)))
    assert float(bounds.max()) <= best * (1 + 1e-12)


@pytest.mark.slow
@pytest.mark.x64
def test_groups_in_lanes_and_their_derivatives():
    """Each λ has its certificate; in X, y, weights, τ and λ against central differences; nothing moves at λ = 500."""

    @partial(jax.vmap, in_axes=(None, None, None, None, 0))
    def fit(X, y, v, tau, lam):
        solution = regjax.quantile_regression(X, y, tau, Group(lam, [0, 1, 1]), weights=v)
        return (solution.params.coef, solution.params.intercept, solution.objective), solution.gap

    args = tuple(jnp.asarray(a) for a in (X, Y, V, 0.4, [3.0, 6.0, 500.0]))
    turn = np.random.default_rng(1)
    direction = tuple(jnp.asarray(0.1 * turn.normal(size=a.shape)) for a in args)
    move = jax.jit(lambda *args: jax.jvp(fit, args, direction, has_aux=True))  # one program for all three points
    found, moves, gaps = move(*args)
    assert float(gaps.max()) <= 1e-10
    assert np.all(np.asarray(found[0][2]) == 0)
    assert np.all(np.asarray(found[0][0]) != 0)
    h = 1e-6
    up, down = (move(*(a + s * h * d for a, d in zip(args, direction, strict=True)))[0] for s in (1, -1))
    assert_close(moves, jax.tree.map(lambda a, b: (a - b) / (2 * h), up, down), f64=1e-6)


@pytest.mark.x64
def test_lam_max_is_the_largest_slope_at_the_quantile():
    """That of the sample at the quantile is what makes the slopes sum to 0."""
    top = regjax.lam_max(X, Y, loss=regjax.losses.Quantile(0.3), weights=V)
    order = np.argsort(Y)
    at = order[np.searchsorted(np.cumsum(V[order]), 0.3 * V.sum())]
    slopes = V * np.where(Y[at] < Y, -0.3, 0.7)
    slopes[at] -= slopes.sum()
    assert_close(top, np.abs(X.T @ slopes).max(), f64=1e-9)


@pytest.mark.slow
@pytest.mark.x64
def test_lam_max_is_where_the_first_coefficient_enters():
    """With a column that is not charged, which the null model fits."""
    factors = np.array([1.0, 0.0, 2.0])
    top = regjax.lam_max(X, Y, loss=regjax.losses.Quantile(0.3), weights=V, factors=factors)
    fits = regjax.path(X, Y, regjax.losses.Quantile(0.3), L1(top * jnp.array([1.0001, 0.999]), factors), weights=V)
    assert [int(k) for k in jnp.sum(jnp.abs(fits.params.coef) > 1e-9, axis=1)] == [1, 2]


@pytest.mark.once
def test_absolute_errors_inside_jit():
    inside = jax.jit(lambda y: regjax.lp_regression(X, y, 1))(jnp.asarray(Y))
    assert bool(inside.converged)
    assert_close(inside.objective, 2 * regjax.quantile_regression(X, Y, 0.5).objective, f64=1e-11, f32=1e-5)


def test_splitting_takes_no_more_steps_than_it_may():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 6)) @ (np.eye(6) + 2)
    fit = regjax.quantile_regression(X, rng.normal(size=40), 0.8, Group(0.1, (0, 0, 1, 1, 2, 2)), tol=0.0, max_iter=60)
    assert int(fit.num_iter) == 60
    assert int(fit.status) == Status.ITERATION_LIMIT
