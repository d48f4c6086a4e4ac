"""The fused lasso, ℓ1 and total variation at once, judged by a method of its own and by a linear program."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import linprog

import regjax
from regjax.losses import Squared
from regjax.penalties import SparseVariation
from tests.problems import assert_close, problem

QUICKLY = {"xla_backend_optimization_level": 0}
P = 9
EDGES = np.array([1.0, 0.5, 0.0, np.inf, 2.0, 1.0, 1.0, 0.5])
D = np.diff(np.eye(P), axis=0)


def by_splitting(X, y, rows, costs):
    """argmin over w of ½‖y − Xw‖² + Σ costs|rows·w|, by 20,000 steps of the method of multipliers."""
    inverse = np.linalg.inv(X.T @ X + rows.T @ rows)
    split = dual = np.zeros(len(rows))
    for _ in range(20_000):
        w = inverse @ (X.T @ y + rows.T @ (split - dual))
        image = rows @ w + dual
        split = image - np.clip(image, -costs, costs)
        dual = image - split
    return w


def gauge(z, l1, charges):
    """The smallest g with z = Dᵀc + q, |c| ≤ g·charges and |q| ≤ g·l1; c is not bounded where a jump is forbidden."""
    parts = np.hstack([D.T, np.eye(P), np.zeros((P, 1))])
    bounded = np.concatenate([np.isfinite(charges), np.ones(P, bool)])
    most = np.concatenate([charges, np.full(P, l1)])[bounded, None]
    rows = np.eye(2 * P - 1)[bounded]
    below = np.vstack([np.hstack([sign * rows, -most]) for sign in (1, -1)])
    cost = np.append(np.zeros(2 * P - 1), 1)
    return linprog(cost, A_eq=parts, b_eq=z, A_ub=below, b_ub=np.zeros(len(below)), bounds=(None, None)).fun


@pytest.mark.once
@pytest.mark.x64
def test_the_fused_lasso():
    """Coefficients, gap and λ_max against numpy's; derivatives against differences."""
    X, Y, V = problem(30, P, seed=4)
    Y = Y + X[:, 1] * 3 + X[:, 2] * 3
    along = (jnp.cos(jnp.arange(30.0)), jnp.asarray(0.3), jnp.asarray(-0.2))

    @partial(jax.jit, compiler_options=QUICKLY)
    def fit(*args):
        def solve(y, l1, lam):
            found = regjax.fit(X, y, Squared(), SparseVariation(l1, lam, EDGES), weights=V)
            return found.params.coef, found

        return jax.jvp(solve, args, along, has_aux=True)

    args = Y, jnp.asarray(12.0), jnp.asarray(20.0)
    w, slope, found = fit(*args)
    x, y, v = (np.asarray(a, float) for a in (X, Y, V))
    x, y = np.sqrt(v)[:, None] * (x - v @ x / v.sum()), np.sqrt(v) * (y - v @ y / v.sum())
    charges = 20 * EDGES
    kept = np.isfinite(EDGES)
    merged = np.delete(np.eye(P), 4, axis=1)
    merged[4, 3] = 1  # between which a jump is forbidden
    rows, costs = np.vstack([np.eye(P), D[kept]]) @ merged, np.concatenate([np.full(P, 12.0), charges[kept]])
    best = merged @ by_splitting(x @ merged, y, rows, costs)
    assert_close(w, best, f64=1e-8)
    assert np.sum(w == 0) > 0
    assert w[3] == w[4]
    assert np.any((np.diff(w) == 0) & (w[1:] != 0))

    w, residuals = np.asarray(w, float), y - x @ w
    scale = 1 / max(1, gauge(x.T @ residuals, 12.0, charges))
    primal = residuals @ residuals / 2 + 12 * np.abs(w).sum() + charges[kept] @ np.abs(np.diff(w))[kept]
    dual = (y @ y - np.sum((y - scale * residuals) ** 2)) / 2
    assert_close(found.objective, primal, f64=1e-12)
    assert 0 <= float(found.gap) <= 1e-10
    assert abs((primal - dual) / (y @ y / 2) - float(found.gap)) <= 1e-12
    assert_close(regjax.lam_max(X, Y, SparseVariation(1.0, 0.5, EDGES), weights=V), gauge(x.T @ y, 1.0, 0.5 * EDGES))
    ends = [fit(*(a + s * 1e-5 * d for a, d in zip(args, along, strict=True)))[0] for s in (1, -1)]
    assert_close(slope, (ends[0] - ends[1]) / 2e-5, f64=1e-6)


@pytest.mark.once
@pytest.mark.parametrize(
    ("penalty", "limits", "message"),
    [
        (SparseVariation(np.ones(P), 1.0), {}, r"l1 has shape \(9,\): it takes a scalar"),
        (SparseVariation(1.0, 1.0), {"lower": 0.0}, "lower and upper take .* not SparseVariation"),
        (SparseVariation(-1.0, 1.0), {}, "l1 must be non-negative"),
        (SparseVariation(1.0, 1.0, np.ones(P)), {}, r"factors has shape \(9,\): .* difference of neighbours, \(8,\)"),
    ],
)
def test_what_the_fused_lasso_does_not_take(penalty, limits, message):
    X, y, _ = problem(12, P)
    with pytest.raises(ValueError, match=message):
        regjax.fit(X, y, Squared(), penalty, **limits)
