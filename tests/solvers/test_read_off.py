"""Paths of which every second lane is read off its neighbours, and the solver of general losses that does so."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import regjax
from regjax.losses import Logistic, Poisson
from regjax.penalties import L1
from regjax.solvers.read_off import PAIRS, solve_or_read_off
from tests.problems import assert_close, tolerance

LOGISTIC = Logistic()


@pytest.mark.once
@pytest.mark.parametrize("lanes", [1, 2, 3, 9, 40])
@pytest.mark.parametrize("within", [0.0, 0.01, 1.0], ids=["never", "some", "always"])
def test_every_lane_is_solved_or_read_off_well(lanes, within):
    # the curve t², on which the middle of a chord is off by a quarter of its length squared
    times = jnp.where(jnp.arange(lanes) < lanes // 2, 1.0, 3.0) * jnp.arange(lanes) / 10

    def solve(memory, lane, again, start):
        t = times[lane]
        # from the middle of the chord around it, or from the lane before that was solved in the order of the path
        right = jnp.where(again, jnp.abs(start["time"] - t) == 0, memory < lane)
        return jnp.where(again, memory, lane), {"time": t, "value": t**2}, {"value": t**2, "solved": right}

    def read_off(memory, ends, numbers):
        t = times[numbers]
        value = (ends["value"][:-1] + ends["value"][1:]) / 2
        off = jnp.abs(value - t**2)
        return ({"time": t, "value": value}, {"value": value, "solved": jnp.zeros(PAIRS, bool)}), off <= within

    point = {"time": jnp.zeros(()), "value": jnp.zeros(())}
    blank = point, {"value": jnp.zeros(()), "solved": jnp.array(False)}
    found = jax.jit(lambda: solve_or_read_off(solve, read_off, jnp.int32(-1), blank, jnp.array(True), lanes))()
    assert float(jnp.max(jnp.abs(found["value"] - times**2))) <= within
    np.testing.assert_array_equal(found["value"][found["solved"]], times[found["solved"]] ** 2)
    assert bool(jnp.all(found["solved"][jnp.array([0, -1])]))
    if lanes == 40:
        share = float(jnp.mean(found["solved"]))
        assert {0.0: share == 1, 0.01: 0.5 < share < 1, 1.0: 0.5 <= share < 0.56}[within], share


def wide(loss):
    rng = np.random.default_rng(3)
    n, p = 120, 300
    X = rng.normal(size=(n, p)) + 0.5 * rng.normal(size=(n, 1))
    eta = X[:, :10] @ rng.normal(size=10)
    y = rng.logistic(size=n) < eta if loss is LOGISTIC else rng.poisson(np.exp(eta / np.abs(eta).max()))
    weights = np.where(rng.uniform(size=n) < 0.1, 0, rng.uniform(0.5, 2, n))
    return jnp.asarray(X), jnp.asarray(y, float), jnp.asarray(weights)


def objective(loss, X, y, v, lam, model):
    eta = np.asarray(model.intercept + X @ model.coef, float)
    total = np.logaddexp(0, eta) - y * eta if loss is LOGISTIC else np.exp(eta) - y * eta
    return np.sum(v * total) + lam * np.sum(np.abs(np.asarray(model.coef, float)))


@pytest.mark.parametrize("loss", [LOGISTIC, Poisson()], ids=["logistic", "Poisson"])
def test_lanes_of_a_loose_path_are_read_off_and_as_good_as_they_say(loss):
    X, y, v = wide(loss)
    lams = regjax.lam_max(X, y, L1(1.0), loss=loss, weights=v) * jnp.geomspace(1, 0.1, 60)
    loose = regjax.path(X, y, loss, L1(lams), weights=v, tol=1e-3)
    exact = regjax.path(X, y, loss, L1(lams), weights=v, tol=tolerance(1e-9, 1e-5))
    assert bool(jnp.all(loose.converged & exact.converged))
    read = np.asarray(loose.num_iter == 0)
    assert 15 <= read.sum() < 30  # at most every second one
    assert float(jnp.max(loose.gap)) <= 1e-3
    # the gap bounds the excess of the objective, in units of half the null deviance
    y, v = np.asarray(y, float), np.asarray(v, float)
    values, best = (
        np.array([objective(loss, X, y, v, float(lam), jax.tree.map(lambda a, i=i: a[i], fits.params))
                  for i, lam in enumerate(lams)])
        for fits in (loose, exact)
    )  # fmt: skip
    mean = v @ y / v.sum()
    saturated = 0 if loss is LOGISTIC else v @ (y - np.where(y > 0, y * np.log(np.maximum(y, 1)), 0))
    null = v @ (-np.log(1 - mean) - y * np.log(mean / (1 - mean)) if loss is LOGISTIC else mean - y * np.log(mean))
    excess = (values - best) / (null - saturated)
    assert np.all(excess <= np.asarray(loose.gap) + tolerance(1e-8, 1e-4))
    assert np.all(excess >= -tolerance(1e-8, 1e-4))
    np.testing.assert_allclose(loose.objective, values, rtol=tolerance(1e-9, 1e-4))


def test_folds_with_lanes_read_off_equal_fits_one_by_one():
    loss = LOGISTIC
    X, y, v = wide(loss)
    lams = regjax.lam_max(X, y, L1(1.0), loss=loss, weights=v) * jnp.geomspace(1, 0.2, 20)
    folds = jnp.stack([jnp.where(jnp.arange(len(y)) % 3 == k, 0, v) for k in range(3)])
    tol = tolerance(1e-10, 1e-5)
    both = jax.vmap(lambda v: regjax.path(X, y, loss, L1(lams), weights=v, tol=tol))(folds)
    for k in range(3):
        kept = np.asarray(folds[k]) > 0
        for i in (1, 10, 19):
            alone = regjax.fit(X[kept], y[kept], loss, L1(lams[i]), weights=folds[k][kept], tol=tol)
            assert_close(both.params.coef[k, i], alone.params.coef, f64=1e-4, f32=5e-2)
            assert_close(both.objective[k, i], alone.objective, f64=1e-9, f32=1e-4)


def test_lanes_that_no_line_connects_are_solved():
    loss = LOGISTIC
    X, y, v = wide(loss)
    top = float(regjax.lam_max(X, y, L1(1.0), loss=loss, weights=v))
    lams = top * jnp.array([0.5, 0.5, 0.9, 0.2, 0.7, 0.7, 0.0, 0.6, 2.0, 0.3])  # up, down, equal, and free
    fits = regjax.path(X[:, :20], y, loss, L1(lams), weights=v, tol=1e-4)
    for i, lam in enumerate(lams):
        alone = regjax.fit(X[:, :20], y, loss, L1(lam), weights=v, tol=1e-4)
        assert int(fits.status[i]) == int(alone.status), i
        assert_close(fits.objective[i], alone.objective, f64=3e-4, f32=3e-4)
