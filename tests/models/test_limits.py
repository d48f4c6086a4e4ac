"""Balls, Slope and TotalVariation with factors and within limits, judged by linear programs and by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import linprog

import regjax
from regjax.losses import Logistic, Quantile, Squared
from regjax.penalties import L1, L1Ball, L2Ball, LimitedVariation, Slope, TotalVariation, limit
from regjax.solvers.certificate import Columns
from tests.problems import assert_close, problem, tolerance

P = 7
FACTORS = np.array([0.0, 1.0, np.inf, 2.0, 0.5, 1.0, 1.5])
LOWER = np.array([-np.inf, -0.25, -1.0, -0.3125, 0.0, -0.375, -1.0])  # numbers of float32 too
UPPER = np.array([np.inf, 0.1875, 1.0, 0.5, 0.3125, 2.0, 0.0])
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


def sorted_norm(scale, w, z, lower=LOWER, upper=UPPER):
    """Sums of the k largest sizes are linear programs: k·t + Σ (f|v| − t)₊."""
    lams, listed = scale * DECAY, (FACTORS > 0) & np.isfinite(FACTORS)
    charged = np.where(listed, FACTORS, 0)
    z = np.where(FACTORS == 0, 0, z)
    lower, upper = (np.where(np.isinf(FACTORS), 0, limit) for limit in (lower, upper))
    slip = tolerance(1e-12, 1e-5)
    assert np.all((w >= lower * (1 + slip)) & (w <= upper * (1 + slip)))
    drops = lams - np.append(lams[1:], 0)
    # v, its sizes a, and for each k: t and the excesses s ≥ a − t
    blocks = [np.append(k + 1, np.ones(P)) * drops[k] for k in range(P)]
    cost = np.concatenate([-z, np.zeros(P), *blocks])
    rows = [np.hstack([sign * np.diag(charged), -np.eye(P), np.zeros((P, P * (P + 1)))]) for sign in (1, -1)]
    for k in range(P):
        row = np.zeros((P, len(cost)))
        start = 2 * P + k * (P + 1)
        row[:, P : 2 * P] = np.eye(P)
        row[:, start] = -1
        row[:, start + 1 : start + 1 + P] = -np.eye(P)
        rows.append(row)
    A = np.concatenate(rows)
    bounds = [*zip(lower, upper, strict=True), *((0, None) for _ in range(len(cost) - P))]
    found = linprog(cost, A, np.zeros(len(A)), bounds=bounds)
    assert found.status == 0
    return lams @ -np.sort(-charged * np.abs(w)) - found.fun - w @ z


CASES = {
    "l1 ball": (lambda c: L1Ball(c, FACTORS), {"lower": LOWER, "upper": UPPER}, ball, 0.9),
    "l2 ball": (lambda c: L2Ball(c, FACTORS), {"lower": LOWER, "upper": UPPER}, sphere, 0.5),
    "total variation": (lambda c: TotalVariation(c, EDGES), {"lower": TIGHT[0], "upper": TIGHT[1]}, variation, 1.3),
    "slope": (lambda c: Slope(c * DECAY, FACTORS), {"lower": LOWER, "upper": UPPER}, sorted_norm, 4.0),
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


@pytest.mark.sample(8)
@pytest.mark.parametrize("name", CASES)
def test_squares_within_limits(name):
    check(name, Squared(), Y, lambda y, eta: eta - y)


@pytest.mark.slow
@pytest.mark.sample(8)
@pytest.mark.x64
@pytest.mark.parametrize("name", ["l2 ball", "l1 ball", "slope", "total variation"])  # another one runs by default
def test_logistic_within_limits(name):
    check(name, Logistic(), (Y > 0).astype(Y.dtype), lambda y, eta: 1 / (1 + np.exp(-eta)) - y)


@pytest.mark.slow
@pytest.mark.x64
def test_limits_of_a_sorted_norm_in_standardized_columns():
    """The linear program in the scale of the columns; at other points the gap is more than what is left to gain."""
    x, y, v = (np.asarray(a, float) for a in (X, Y, V))
    x = x - np.average(x, axis=0, weights=v)
    size = np.sqrt(np.average(x**2, axis=0, weights=v))
    penalty = Slope(8.0 * DECAY, FACTORS)
    found = regjax.fit(X, Y, Squared(), penalty, weights=V, lower=LOWER, upper=UPPER, standardize=True, tol=1e-13)
    assert bool(found.converged)
    assert found.gap <= 1e-12
    w = np.asarray(found.params.coef) * size
    x, y = np.sqrt(v)[:, None] * x / size, np.sqrt(v) * (y - np.average(y, weights=v))
    pull = x.T @ (y - x @ w)
    assert sorted_norm(8.0, w, pull, LOWER * size, UPPER * size) <= 1e-9 * np.abs(w @ pull)
    charged = np.where(np.isinf(FACTORS), 0, FACTORS)
    sizes = charged * np.abs(w)
    assert_close(sizes[5], sizes[6], f64=1e-13)  # two of one size, which is no limit
    assert np.count_nonzero(np.isclose(w, size * LOWER) | np.isclose(w, size * UPPER)) >= 2

    def objective(w):
        return np.sum((y - x @ w) ** 2) / 2 + 8.0 * DECAY @ -np.sort(-charged * np.abs(w))

    points = np.array([0.0, 0.5, 0.9, 0.999])[:, None] * w
    within = limit(penalty, LOWER * size, UPPER * size)
    gaps = jax.jit(jax.vmap(lambda w: Columns(x, y[:, None]).certify(within, w[:, None]).gap))(points)
    left = np.array([objective(point) for point in points]) - float(found.objective)
    assert_close(objective(w), found.objective, f64=1e-14)
    assert np.all((left > 0) & (left <= gaps) & (gaps <= 3 * left))


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


@pytest.mark.once
@pytest.mark.parametrize("loss", [Squared(), Logistic()], ids=["squared", "logistic"])
def test_limits_hold_to_the_last_bit_on_any_scale(loss):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 6)) * rng.uniform(0.3, 3, size=6)
    y = (X @ np.array([1.0, -1.0, 1.0, -1.0, 1.0, -1.0]) > 0).astype(float)
    limits = np.array([0.01, 0.03, 0.07, 0.011, 0.013, 0.017])
    fit = regjax.fit(X, y, loss, L1(0.01), lower=-limits, upper=limits, standardize=True)
    coef = np.asarray(fit.params.coef)
    assert bool(fit.converged)
    assert np.all(np.abs(coef) <= limits.astype(coef.dtype))
    assert np.sum(np.abs(coef) == limits.astype(coef.dtype)) >= 3
