"""TotalVariation within limits of each coefficient, judged by linear programs and by arithmetic of its own."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import regjax
from regjax.losses import Squared
from regjax.penalties import LimitedVariation, TotalVariation, limit
from regjax.solvers.certificate import Columns
from tests.models.test_limits import largest
from tests.problems import assert_close, problem, tolerance

QUICKLY = {"xla_backend_optimization_level": 0}
LANES = 40


def cases(p):
    """Ties, limits that are equal, infinite or 0 on either side, jumps that are free or forbidden, λ = 0 and large."""
    rng = np.random.default_rng(p)
    y = 3 * rng.normal(size=(LANES, p))
    y[::3] = np.round(y[::3])
    y[4] = 0
    factors = rng.choice([0.0, 0.5, 1.0, 2.0, np.inf], size=(LANES, p - 1), p=[0.1, 0.3, 0.3, 0.2, 0.1])
    lower, upper = rng.choice([0.0, 0.25, 0.5, 1.0, 2.0, np.inf], size=(2, LANES, p))
    upper[::2] *= rng.uniform(size=upper[::2].shape)
    lower[::5], upper[1::5] = np.inf, np.inf
    dtype = jnp.result_type(float)
    return [a.astype(dtype) for a in (y, factors, -lower, upper, rng.choice([0.0, 0.1, 0.7, 2.0, 30.0], size=LANES))]


def charged(lam, factors):
    """λf, where an infinite factor forbids a jump whatever λ is."""
    forbidden = np.isinf(factors)
    return np.where(forbidden, np.inf, lam * np.where(forbidden, 1, factors))


def variation(u, charges):
    """Σ λf|Δu|; forbidden jumps are not there."""
    steps = np.abs(np.diff(u))
    assert np.all(steps[np.isinf(charges)] <= tolerance(1e-14, 1e-6))
    return steps @ np.where(np.isinf(charges), 0, charges)


@partial(jax.jit, compiler_options=QUICKLY)
@jax.vmap
def methods(y, factors, lower, upper, lam):
    penalty = LimitedVariation(TotalVariation(lam, factors), lower, upper)
    u = penalty.prox(y, 1.0)
    scale = penalty.dual_scale(y)
    z = 0.999 * scale * y
    return {
        "prox": u,
        "no slack": penalty.slack(u, y - u),
        "unpenalised": penalty.unpenalised(y),
        "scale": scale,
        "conjugate": penalty.conjugate(z),
        "beyond": penalty.conjugate(1.001 * scale * y),
        "slack": penalty.slack(u, z),
        "norm": penalty.dual_norm(y),
    }


@pytest.mark.sample(4)
@pytest.mark.parametrize("p", [1, 2, 6])
def test_random_cases_equal_linear_programs(p):
    """Prox, conjugate and its domain, slack, and the strength from which 0 is optimal."""
    given = cases(p)
    found = jax.tree.map(lambda a: np.asarray(a, float), methods(*given))
    seen = set()
    eps = tolerance(1e-12, 2e-5)
    for k, (y, factors, lower, upper, lam) in enumerate(zip(*(a.astype(float) for a in given), strict=True)):
        f = {key: values[k] for key, values in found.items()}
        u, scale, norm, charges = f["prox"], f["scale"], f["norm"], charged(lam, factors)
        conjugate = partial(largest, lower=lower, upper=upper, rows=np.diff(np.eye(p), axis=0), cost=charges)
        value = variation(u, charges)
        assert np.all((u >= lower) & (u <= upper))
        far = {"lower": np.maximum(lower, -20), "upper": np.minimum(upper, 20)}  # no u goes there
        assert value + conjugate(y - u, **far) - u @ (y - u) <= 20 * eps
        assert 0 <= f["no slack"] <= 20 * eps
        y = y - f["unpenalised"]
        z = 0.999 * scale * y
        best = conjugate(z)
        assert_close(f["conjugate"], best, f64=1e-13, f32=1e-6, scale=10 + best)
        assert_close(f["slack"], value + best - u @ z, f64=1e-13, f32=1e-6, scale=10 + value + best)
        if scale < 1:  # where it is 0, no multiple is in the domain
            assert scale == 0 or np.isinf(f["beyond"])
            assert np.isinf(conjugate((1.001 * scale if scale > 0 else 1e-3) * y))
        signs = {"lower": -1.0 * (lower < 0), "upper": 1.0 * (upper > 0)}
        if np.isinf(norm):
            assert conjugate(y, **signs, cost=charged(1e6, factors)) > 1e-3
        else:
            assert conjugate(y, **signs, cost=charged(1.0001 * norm, factors)) <= 10 * eps
            assert norm == 0 or conjugate(y, **signs, cost=charged(0.99 * norm, factors)) > 1e-4
        seen |= {("scale", "0" if scale == 0 else "1" if scale == 1 else "between")}
        seen |= {("norm", "0" if norm == 0 else "inf" if np.isinf(norm) else "between")}
    assert p == 1 or len(seen) == 6, seen


@pytest.mark.once
def test_equal_limits_are_cuts():
    """Within limits that are the same for all coefficients the prox is that without, clipped."""
    rng = np.random.default_rng(3)
    y = jnp.asarray(np.cumsum(rng.normal(size=(4, 500)), axis=1) / 5)

    @partial(jax.jit, compiler_options=QUICKLY)
    @jax.vmap
    def both(y, lam):
        alone = TotalVariation(lam)
        return LimitedVariation(alone, -0.4, 1.1).prox(y, 0.5), jnp.clip(alone.prox(y, 0.5), -0.4, 1.1)

    limited, cut = both(y, jnp.array([0.0, 0.1, 1.0, 3.0]))
    assert_close(limited, cut, f64=1e-13)
    assert np.all(np.ptp(limited[:3], axis=1) == 1.5)  # both bind


@pytest.mark.x64
def test_the_prox_moves_with_the_limits():
    """A limit takes the whole block along; others have no part. Against differences, in all arguments."""
    y, factors, lower, upper, _ = cases(6)
    rng = np.random.default_rng(0)
    lower, upper = (rng.uniform(0.1, 1.0, size=(LANES, 6)) * s for s in (-1, 1))
    args = [y + 0.1 * rng.normal(size=y.shape), lower, upper, rng.uniform(0.1, 1.0, size=LANES)]
    along = [rng.normal(size=a.shape) for a in args]

    @partial(jax.jit, compiler_options=QUICKLY)
    @jax.vmap
    def prox(args, along, factors):
        def of(y, lower, upper, lam):
            return LimitedVariation(TotalVariation(lam, factors), lower, upper).prox(y, 0.7)

        u, slope = jax.jvp(of, args, along)
        return u, slope, jax.vjp(of, *args)[1](slope)

    u, slope, pulled = prox(args, along, factors)
    ends = [prox([a + s * 1e-6 * d for a, d in zip(args, along, strict=True)], along, factors)[0] for s in (1, -1)]
    assert_close(slope, (ends[0] - ends[1]) / 2e-6, f64=1e-8)
    assert_close(sum(np.sum(a * d) for a, d in zip(pulled, along, strict=True)), np.sum(slope**2), f64=1e-10, scale=100)
    shared = (np.diff(u, axis=1) == 0) & np.any([u[:, 1:] == end[:, 1:] for end in (lower, upper)], axis=0)
    assert shared.sum() > 10  # a block at a limit


P = 7
EDGES = np.array([1.0, 0.5, 0.0, np.inf, 2.0, 1.0])
LOWER = np.array([-np.inf, -0.25, -1.0, -0.5, -0.1, 0.0, 0.0])
UPPER = np.array([np.inf, 0.1875, np.inf, 0.5, 0.3125, 0.0, 2.0])


@pytest.mark.slow
@pytest.mark.x64
def test_a_standardised_fit_and_its_gap():
    """Objective and duality gap of the scaled columns by hand, at the solution and away from it; derivatives."""
    X, Y, V = problem(30, P, seed=4)
    X = X * jnp.asarray(np.linspace(0.5, 3.0, P), X.dtype)
    moving = np.isfinite(UPPER) & (UPPER > 0)
    directions = (jnp.cos(jnp.arange(len(Y), dtype=X.dtype)), jnp.asarray(np.where(moving, 0.1, 0.0), X.dtype))

    @partial(jax.jit, compiler_options=QUICKLY)
    def fit(y, upper):
        def solve(y, upper):
            penalty, limits = TotalVariation(2.0, EDGES), {"lower": LOWER, "upper": upper}
            found = regjax.fit(X, y, Squared(), penalty, weights=V, standardize=True, **limits)
            return found.params.coef, found

        return jax.jvp(solve, (y, upper), directions, has_aux=True)

    args = Y, jnp.asarray(UPPER, X.dtype)
    w, slope, found = fit(*args)
    x, y, v = (np.asarray(a, float) for a in (X, Y, V))
    x, y = np.sqrt(v)[:, None] * (x - v @ x / v.sum()), np.sqrt(v) * (y - v @ y / v.sum())
    size = np.sqrt(np.sum(x**2, axis=0) / v.sum())
    x, charges = x / size, charged(2.0, EDGES)
    limits = {"lower": np.maximum(LOWER, -20) * size, "upper": np.minimum(UPPER, 20) * size}

    def judge(u, scale=1.0):
        """The objective, and its gap to the dual objective at the scaled residuals."""
        residuals, value = y - x @ u, variation(u, charges)
        pull = scale * x.T @ residuals
        excess = value + largest(pull, **limits, rows=np.diff(np.eye(P), axis=0), cost=charges) - u @ pull
        return residuals @ residuals / 2 + value, (1 - scale) ** 2 * (residuals @ residuals) / 2 + excess

    objective, gap = judge(size * np.asarray(w, float))
    assert bool(found.converged)
    assert_close(found.objective, objective, f64=1e-12)
    assert gap <= 1e-9 * objective
    assert w[5] == 0
    assert np.any(w[moving] == UPPER[moving])
    penalty = limit(TotalVariation(2.0, EDGES), LOWER * size, UPPER * size)
    start = np.clip(0.9 * size * w, limits["lower"], limits["upper"]).astype(X.dtype)
    start[3:5] = start[3:5].mean()  # between which a jump is forbidden
    columns = Columns(jnp.asarray(x, X.dtype), jnp.asarray(y, X.dtype)[:, None])
    measured = jax.jit(columns.certify, compiler_options=QUICKLY)(penalty, start[:, None])
    scale = float(penalty.dual_scale(columns.X.T @ (columns.Y[:, 0] - columns.X @ start)))
    there, gap = judge(start.astype(float), scale)
    assert_close(measured.gap, gap, f64=1e-10)
    assert gap >= there - objective > 0
    ends = [fit(*(a + s * 1e-5 * d for a, d in zip(args, directions, strict=True)))[0] for s in (1, -1)]
    assert_close(slope, (ends[0] - ends[1]) / 2e-5, f64=1e-6)
