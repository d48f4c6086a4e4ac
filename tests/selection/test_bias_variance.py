"""Bias, variance and noise against the closed form of ridge."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import regjax
from tests.problems import assert_close, problem

LAMS = jnp.array([0.5, 20.0])
COEF = jnp.array([1.0, -2.0, 0.5])


def model(X, y, lam, v):
    return regjax.ridge(X, y, lam, weights=v)


def truth(X):
    return 1.0 + X @ COEF


def closed_form(X, at, v, noise):
    X, at, v = (np.asarray(a, float) for a in (X, at, v))
    mean = v @ X / v.sum()
    centred = X - mean
    parts = []
    for lam in np.asarray(LAMS, float):
        inner = np.linalg.solve((centred.T * v) @ centred + lam * np.eye(3), centred.T * v)
        H = v / v.sum() + (at - mean) @ (inner - np.outer(inner.sum(1), v / v.sum()))
        bias = H @ np.asarray(truth(X)) - np.asarray(truth(at))
        parts.append((np.mean(bias**2), noise * np.mean(np.sum(H**2 / v, axis=1))))
    return np.array(parts).T


def test_exact_expectation():
    X, _, v = problem(15, 3)
    at = X[:4] + 0.3
    found = regjax.bias_variance(model, truth, None, X, LAMS, noise=2.0, at=at, weights=v)
    bias, variance = closed_form(X, at, v, 2.0)
    assert_close(found.bias_squared, bias)
    assert_close(found.variance, variance)
    assert_close(found.mse, bias + variance + 2.0)
    assert int(found.best) == np.argmin(bias + variance)
    assert bool(found.converged)


def test_simulation_up_to_its_standard_error():
    X, _, v = problem(15, 3)
    found = regjax.bias_variance(model, truth, jax.random.key(3), X, LAMS, noise=2.0, num_replicates=4000, weights=v)
    bias, variance = closed_form(X, X, v, 2.0)
    assert np.all(np.abs(found.mse - (bias + variance + 2.0)) < 4 * found.standard_error)
    assert np.all(found.standard_error < 0.02 * found.mse)
    assert_close(found.bias_squared, bias, f64=0.02, f32=0.02)
    assert_close(found.variance, variance, f64=0.04, f32=0.04)
    assert_close(found.mse, found.bias_squared + found.variance + 2.0)
    assert found.status.shape == (4000, 2)


@pytest.mark.once
def test_bad_arguments():
    X, _, _ = problem(12, 3)
    key = jax.random.key(0)
    for arguments, words in [
        (dict(truth=jnp.ones(12)), "must be functions"),
        (dict(truth=lambda X: X), "one mean per sample"),
        (dict(num_replicates=1), "num_replicates"),
        (dict(noise=-1.0), "noise must be non-negative"),
        (dict(noise=jnp.ones(12)), "noise has shape"),
        (dict(hyperparameters=1.0), "axis"),
        (dict(hyperparameters=(jnp.ones(2), jnp.ones(3))), "one length"),
        (dict(weights=jnp.ones(3)), "weights has shape"),
    ]:
        with pytest.raises(ValueError, match=words):
            regjax.bias_variance(
                **{"model": model, "truth": truth, "key": key, "X": X, "hyperparameters": LAMS} | arguments
            )
