"""Float32 is honest: on 200 random lasso problems every lane stops by itself, with a gap that numpy confirms."""

import jax
import numpy as np
import pytest

import regjax
from regjax import Status

PER_SHAPE = 40
# samples, columns, and whether the columns are standardized
SHAPES = [(20, 2000, False), (2000, 20, True), (60, 150, True), (1000, 300, False), (300, 1200, True)]


def draw(n, p, seed):
    """AR(1) columns of scales from 1e-3 to 1e3, a sparse signal, noise of any size, and λ as a share of `lam_max`."""
    rng = np.random.default_rng((n, p, seed))
    correlation = rng.uniform(0, 0.95)
    X = rng.normal(size=(n, p))
    for j in range(1, p):
        X[:, j] = correlation * X[:, j - 1] + np.sqrt(1 - correlation**2) * X[:, j]
    coef = np.where(rng.random(p) < 10 / p, rng.normal(size=p), 0)
    coef[0] = 1
    y = X @ coef + rng.normal(size=n) * 10 ** rng.uniform(-1, 0.5)
    X *= 10 ** rng.uniform(-3, 3, size=p)
    return X.astype(np.float32), y.astype(np.float32), np.float32(10 ** rng.uniform(-2, -0.3))


def true_gap(X, y, model, lam, standardize):
    """(primal − dual)/null of a model by their definitions, in float64; the dual point is centred."""
    X, y, coef = (np.asarray(a, float) for a in (X, y, model.coef))
    size = X.std(axis=0) if standardize else np.ones(X.shape[1])
    residual = y - float(model.intercept) - X @ coef
    primal = residual @ residual / 2 + lam * np.sum(size * np.abs(coef))
    target, dual_point = y - y.mean(), residual - residual.mean()
    dual_point = dual_point * min(1, lam / np.abs(dual_point @ (X - X.mean(axis=0)) / size).max())
    dual = (target @ target - (target - dual_point) @ (target - dual_point)) / 2
    return (primal - dual) / (target @ target / 2)


@pytest.mark.skipif(jax.config.jax_enable_x64, reason="a statement about float32")
def test_two_hundred_problems_stop_by_themselves_at_a_true_gap():
    true, reported, status = [], [], []
    for n, p, standardize in SHAPES:
        X, y, share = (np.stack(part) for part in zip(*(draw(n, p, seed) for seed in range(PER_SHAPE)), strict=True))

        def one(X, y, share, standardize=standardize):
            lam = share * regjax.lam_max(X, y, standardize=standardize)
            return lam, regjax.lasso(X, y, lam, standardize=standardize)

        lams, fits = jax.device_get(jax.jit(jax.vmap(one))(X, y, share))
        models = [jax.tree.map(lambda leaf, k=k: leaf[k], fits.params) for k in range(PER_SHAPE)]
        true += [true_gap(X[k], y[k], models[k], float(lams[k]), standardize) for k in range(PER_SHAPE)]
        reported += fits.gap.tolist()
        status += fits.status.tolist()
    true, reported, status = map(np.array, (true, reported, status))
    assert len(true) == 200
    assert not np.any(status == Status.ITERATION_LIMIT)
    assert np.all((true <= 1e-4) | (status == Status.FLOOR))  # which says what it reached:
    assert np.max(np.abs(true - reported)) <= 1e-5
    assert np.median(true) <= 1e-5
    assert np.mean(status == Status.CONVERGED) >= 0.99
