"""Balls, Slope and TotalVariation with factors and within limits, judged by linear programs and by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import linprog

import regjax
from regjax.losses import Logistic, Quantile, Squared
from regjax.penalties import L1Ball, L2Ball, LimitedVariation, Slope, TotalVariation
from tests.problems import assert_close, problem, tolerance

P = 7
FACTORS = np.array([0.0, 1.0, np.inf, 2.0, 0.5, 1.0, 1.5])
LOWER = np.array([-np.inf, -0.25, -1.0, -0.3125, 0.0, -0.375, -1.0])  # numbers of float32 too
UPPER = np.array([np.inf, 0.1875, 1.0, 0.5, 0.3125, 2.0, 0.0])
LISTED = np.array([0.0, 1.0, np.inf, 1.0, 1.0, 1.0, 1.0])
EDGES = np.array([1.0, 0.5, 0.0, np.inf, 2.0, 1.0])
DECAY = np.linspace(3.0, 0.5, P)
TIGHT = np.where(np.isinf(LOWER), -0.375, LOWER), np.where(np.isinf(UPPER), 0.5, UPPER)


def largest(z, lower, upper, rows, cost, budget=None):
    """max ⟨v, z⟩ − cost·a over lower ≤ v ≤ upper and a ≥ |rows v|, with budget[0]·a ≤ budget[1]; 0 is a point of it."""
    q = len(rows)
    forbidden = np.isinf(cost)
    A = [np.hstack([sign * rows, -np.eye(q)]) for sign in (1, -1)]
    b = np.zeros(2 * q)
    if budget is not None:
        A, b = [*A, np.append(np.zeros(len(z)), budget[0])[None]], np.append(b, budget[1])
    bounds = [*zip(lower, upper, strict=True), *((0, 0 if stop else None) for stop in forbidden)]
    found = linprog(np.append(-z, np.where(forbidden, 0, cost)), np.concatenate(A), b, bounds=bounds)
    return -found.fun if found.status == 0 else np.inf


def ball(radius, w, z):
    """The slack of the constraint: the largest ⟨v, z⟩ minus that at w."""
    z = np.where(FACTORS == 0, 0, z)
    charged = np.where(np.isinf(FACTORS), 0, FACTORS)
    box = np.where(np.isinf(FACTORS), 0, LOWER), np.where(np.isinf(FACTORS), 0, UPPER)
    assert np.all((w >= box[0]) & (w <= box[1]))
    assert charged @ np.abs(w) <= radius * (1 + tolerance(1e-12, 1e-5))
    return largest(z, *box, np.eye(P), np.zeros(P), (charged, radius)) - w @ z


def sphere(radius, w, z):
    """z = τfw with one τ ≥ 0 for all coefficients between their limits; beyond that z pushes against limits."""
    charged = np.where(np.isinf(FACTORS), 0, FACTORS)
    assert np.all((w >= LOWER) & (w <= UPPER))
    assert w[2] == 0
    np.testing.assert_allclose(charged @ w**2, radius**2, rtol=tolerance(1e-9, 1e-4))
    inner = (charged > 0) & (w > LOWER) & (w < UPPER)
    price = (w * z)[inner].sum() / (charged * w**2)[inner].sum()
    assert price > 0
    assert inner.sum() > 1
    off = z - price * charged * w
    off = np.where((w >= UPPER) & (off > 0) | (w <= LOWER) & (off < 0) | np.isinf(FACTORS), 0, off)
    return np.abs(off).max()


def variation(lam, w, z):
    cost = np.where(EDGES == 0, 0, np.where(np.isinf(EDGES), np.inf, lam * EDGES))
    steps = np.diff(w)
    assert np.all(steps[np.isinf(cost)] == 0)
    assert np.all((w >= TIGHT[0]) & (w <= TIGHT[1]))
    value = np.abs(steps) @ np.where(np.isinf(cost), 0, cost)
    return value + largest(z, *TIGHT, np.diff(np.eye(P), axis=0), cost) - w @ z


def sorted_norm(scale, w, z):
    """Sums of the k largest sizes are linear programs: k·t + Σ (|v| − t)₊."""
    assert w[2] == 0
    assert np.abs(w).max() <= 0.375
    lams, listed = scale * DECAY, LISTED == 1
    drops = lams - np.append(lams[1:], 0)
    sizes = -np.sort(-np.abs(w[listed]))
    limit = np.where(np.isinf(LISTED), 0, 0.375)
    count = listed.sum()
    # v, its sizes a, and for each k: t and the excesses s ≥ a − t
    cost = np.concatenate(
        [-z, np.zeros(P), np.concatenate([drops[k] * np.append(k + 1, np.ones(P)) for k in range(P)])]
    )
    rows = [np.hstack([sign * np.eye(P), -np.eye(P), np.zeros((P, P * (P + 1)))]) for sign in (1, -1)]
    for k in range(P):
        row = np.zeros((count, len(cost)))
        row[np.arange(count), P + np.flatnonzero(listed)] = 1
        start = 2 * P + k * (P + 1)
        row[:, start] = -1
        row[np.arange(count), start + 1 + np.flatnonzero(listed)] = -1
        rows.append(row)
    A = np.concatenate(rows)
    bounds = [*((-c, c) for c in limit), *((0, None) for _ in range(len(cost) - P))]
    found = linprog(cost, A, np.zeros(len(A)), bounds=bounds)
    assert found.status == 0
    return lams[:count] @ sizes - found.fun - w @ z


CASES = {
    "l1 ball": (lambda c: L1Ball(c, FACTORS), {"lower": LOWER, "upper": UPPER}, ball, 0.9),
    "l2 ball": (lambda c: L2Ball(c, FACTORS), {"lower": LOWER, "upper": UPPER}, sphere, 0.5),
    "total variation": (lambda c: TotalVariation(c, EDGES), {"lower": TIGHT[0], "upper": TIGHT[1]}, variation, 1.3),
    "slope": (lambda c: Slope(c * DECAY, LISTED), {"lower": -0.375, "upper": 0.375}, sorted_norm, 12.0),
}
X, Y, V = problem(30, P, seed=4)
DIRECTION = jnp.asarray(np.random.default_rng(0).normal(size=len(Y)))


def check(name, loss, y, slopes):
    """Optimality at the returned point, and its derivative in y, weights and the strength against differences."""
    make, limits, excess, strength = CASES[name]

    @jax.jit
    def fit(y, c, v, directions):
        def solve(y, c, v):
            found = regjax.fit(X, y, loss, make(c), weights=v, tol=tolerance(1e-13, 1e-5), **limits)
            return (found.params.coef, found.params.intercept), found

        return jax.jvp(solve, (y, c, v), directions, has_aux=True)

    args = (jnp.asarray(y), jnp.asarray(strength), V)
    along = DIRECTION if isinstance(loss, Squared) else 0 * DIRECTION  # classes do not vary
    directions = (along, jnp.asarray(0.3), 0.1 * jnp.cos(jnp.arange(len(V), dtype=V.dtype)))
    (coef, b), slope, found = fit(*args, directions)
    assert bool(found.converged)
    assert found.gap <= tolerance(1e-10, 1e-4)
    w, eta = np.asarray(coef, float), np.asarray(X, float) @ np.asarray(coef, float) + float(b)
    pull = -np.asarray(X, float).T @ (np.asarray(V) * slopes(np.asarray(y, float), eta))
    scale = np.abs(np.asarray(X)).sum()
    assert excess(strength, w, pull) <= tolerance(1e-8, 1e-3) * scale
    assert np.any((w != 0) & (np.abs(w) < 0.37))  # held by neither a limit nor a kink
    if jax.config.jax_enable_x64:
        h = 1e-5
        ends = [fit(*(a + s * h * d for a, d in zip(args, directions, strict=True)), directions)[0] for s in (1, -1)]
        assert_close(slope, jax.tree.map(lambda a, b: (a - b) / (2 * h), *ends), f64=1e-5)
    return found


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", CASES)
def test_squares_within_limits(name):
    check(name, Squared(), Y, lambda y, eta: eta - y)


@pytest.mark.sample(4)
@pytest.mark.x64
@pytest.mark.parametrize("name", [*reversed(CASES)])  # another one runs by default
def test_logistic_within_limits(name):
    check(name, Logistic(), (Y > 0).astype(Y.dtype), lambda y, eta: 1 / (1 + np.exp(-eta)) - y)


@pytest.mark.slow
def test_lasso_ball_is_the_same_ball():
    make, limits, _, radius = CASES["l1 ball"]
    found = regjax.fit(X, Y, Squared(), make(radius), weights=V, **limits)
    other = regjax.lasso_ball(X, Y, radius, factors=FACTORS, weights=V, **limits)
    assert_close(found.params, other.params, f64=1e-7, f32=1e-3)


@pytest.mark.x64
def test_quantiles_with_a_limited_total_variation():
    """A linear program of its own: an infinite factor of a difference is an equation, a factor of 0 nothing."""
    lower, upper = LOWER * (np.arange(P) != 5), UPPER * (np.arange(P) != 5)  # which is excluded
    fit = regjax.fit(X, Y, Quantile(0.4), TotalVariation(0.8, EDGES), weights=V, lower=lower, upper=upper)
    n, D = len(Y), np.diff(np.eye(P), axis=0)
    cost = np.concatenate([np.zeros(P + 1), 0.4 * V, 0.6 * V, np.where(np.isinf(EDGES), 0, 0.8 * EDGES)])
    A_eq = np.hstack([np.ones((n, 1)), X, np.eye(n), -np.eye(n), np.zeros((n, P - 1))])
    steps = np.hstack([np.zeros((P - 1, 1)), D, np.zeros((P - 1, 2 * n + P - 1))])
    A_ub = np.concatenate([sign * steps - np.eye(P - 1, len(cost), len(cost) - P + 1) for sign in (1, -1)])
    sizes = [(0, 0 if np.isinf(factor) else None) for factor in EDGES]
    bounds = [(None, None), *zip(lower, upper, strict=True), *[(0, None)] * (2 * n), *sizes]
    best = linprog(cost, A_ub, np.zeros(2 * (P - 1)), A_eq, Y, bounds=bounds)
    assert bool(fit.converged)
    assert_close(fit.objective, best.fun, f64=1e-8)
    assert_close(fit.params.coef, best.x[1 : P + 1], f64=1e-6)


@pytest.mark.once
def test_the_largest_useful_strength_of_a_limited_total_variation():
    """Every stretch of z must be held by the charges at its ends, where w can only grow; linear in the size of z."""
    z = np.random.default_rng(1).normal(size=P) - 0.6
    ends, sums = np.concatenate([[0.0], EDGES, [0.0]]), np.append(0, np.cumsum(z))
    held = [(sums[j] - sums[i]) / (ends[i] + ends[j]) for j in range(P + 1) for i in range(j) if ends[i] + ends[j] > 0]
    penalty = LimitedVariation(TotalVariation(0.3, EDGES), 0.0)
    norm, slope = jax.jit(jax.value_and_grad(penalty.dual_norm))(jnp.asarray(z))
    assert max(held) > 0
    assert_close(norm, max(held))
    assert_close(slope @ z, max(held))
