"""Paths of which lanes are read off solutions on both sides, and the solver of general losses that does so."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import regjax
from regjax.losses import Logistic, Poisson
from regjax.penalties import L1
from regjax.solvers.read_off import solve_or_read_off
from tests.problems import assert_close, tolerance

LOGISTIC = Logistic()


@pytest.mark.once
@pytest.mark.parametrize("lanes", [1, 2, 3, 33, 100])
@pytest.mark.parametrize("within", [1e-9, 0.0101, 1e9], ids=["never", "some", "always"])
def test_every_lane_is_solved_or_read_off_well(lanes, within):
    # the curve t², of which a chord of length h is off by up to h²/4
    times = jnp.where(jnp.arange(lanes) < lanes // 2, 1.0, 3.0) * (1 + jnp.arange(lanes)) / 30

    def solve(memory, lane, again, start):
        t = times[lane]
        # from what was read off for this lane, or from a lane before it
        right = jnp.where(again, start["time"] == t, memory < lane)
        return jnp.where(again, memory, lane), {"time": t, "value": t**2, "right": right}

    def read_off(memory, before, left, right, lane):
        t = times[lane]
        share = (right["time"] - t) / (right["time"] - left["time"])
        value = share * left["value"] + (1 - share) * right["value"]
        between = (left["time"] < t) & (t < right["time"]) & left["right"] & right["right"] & (left["time"] > 0)
        between &= (before["time"] < left["time"]) & (before["right"] | (before["time"] == 0))
        return {"time": t, "value": value, "right": between}, jnp.where(
            between, jnp.abs(value - t**2) / within, jnp.inf
        )

    def finish(points, solved, numbers):
        return points | {"solved": solved, "lane": numbers}

    blank = {"time": jnp.zeros(()), "value": jnp.zeros(()), "right": jnp.array(False)}
    found = jax.jit(lambda: solve_or_read_off(solve, read_off, finish, jnp.int32(-1), blank, jnp.array(True), lanes))()
    np.testing.assert_array_equal(found["lane"], np.arange(lanes))
    assert bool(jnp.all(found["right"]))
    assert float(jnp.max(jnp.abs(found["value"] - times**2))) <= within
    np.testing.assert_array_equal(found["value"][found["solved"]], times[found["solved"]] ** 2)
    assert bool(jnp.all(found["solved"][jnp.array([0, -1])]))
    if lanes == 100:
        share = float(jnp.mean(found["solved"]))
        assert {1e-9: share == 1, 0.0101: 0.2 < share < 0.7, 1e9: share < 0.25}[within], share


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


def distance(loss, X, y, v, lam, coef, intercept):
    """The largest distance of minus the gradient to the subdifferential, in columns about their means."""
    X, w = np.asarray(X, float), np.asarray(coef, float)
    eta = float(intercept) + X @ w
    pull = (X - v @ X / v.sum()).T @ (v * (y - (1 / (1 + np.exp(-eta)) if loss is LOGISTIC else np.exp(eta))))
    return np.max(np.where(w == 0, np.maximum(np.abs(pull) - lam, 0), np.abs(pull - lam * np.sign(w))))


@pytest.mark.parametrize("loss", [LOGISTIC, Poisson()], ids=["logistic", "Poisson"])
def test_lanes_of_a_loose_path_are_read_off_and_as_good_as_they_say(loss):
    X, y, v = wide(loss)
    lams = regjax.lam_max(X, y, L1(1.0), loss=loss, weights=v) * jnp.geomspace(1, 0.1, 60)
    loose = regjax.path(X, y, loss, L1(lams), weights=v, tol=1e-3)
    exact = regjax.path(X, y, loss, L1(lams), weights=v, tol=tolerance(1e-9, 1e-5))
    assert bool(jnp.all(loose.converged & exact.converged))
    read = np.asarray(loose.num_iter == 0)
    assert read.sum() >= 30
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
    # the residual is that of the point, not of what it was read off
    off = [distance(loss, X, y, v, float(lam), loose.params.coef[i], loose.params.intercept[i])
           for i, lam in enumerate(lams)]  # fmt: skip
    np.testing.assert_allclose(loose.residual, np.array(off) / float(lams[0]), rtol=1e-3, atol=tolerance(1e-9, 1e-4))


@pytest.mark.x64
def test_folds_on_one_design_equal_fits_one_by_one():
    loss = LOGISTIC
    X, y, v = wide(loss)
    lams = regjax.lam_max(X, y, L1(1.0), loss=loss, weights=v) * jnp.geomspace(1, 0.2, 20)
    folds = jnp.stack([jnp.where(jnp.arange(len(y)) % 3 == k, 0, v) for k in range(3)])
    tol = 1e-10
    both = jax.vmap(lambda v: regjax.path(X, y, loss, L1(lams), weights=v, tol=tol))(folds)
    for k in range(3):
        for i in (1, 10, 19):
            alone = regjax.fit(X, y, loss, L1(lams[i]), weights=folds[k], tol=tol)
            assert_close(both.params.coef[k, i], alone.params.coef, f64=1e-4)
            assert_close(both.objective[k, i], alone.objective, f64=1e-9)


@pytest.mark.x64
def test_lanes_that_no_line_connects_are_solved():
    loss = LOGISTIC
    X, y, v = wide(loss)
    top = float(regjax.lam_max(X, y, L1(1.0), loss=loss, weights=v))
    lams = top * jnp.array([0.5, 0.5, 0.9, 0.2, 0.7, 0.7, 0.0, 0.6, 2.0, 0.3])  # up, down, equal, and free
    fits = regjax.path(X[:, :20], y, loss, L1(lams), weights=v, tol=1e-4)
    for i, lam in enumerate(lams):
        alone = regjax.fit(X[:, :20], y, loss, L1(lam), weights=v, tol=1e-4)
        assert int(fits.status[i]) == int(alone.status), i
        assert_close(fits.objective[i], alone.objective, f64=3e-4)
