"""Selection probabilities against a loop over halves."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import regjax
from regjax.losses import Squared
from regjax.penalties import L1
from regjax.selection.stability import random_halves
from tests.problems import assert_close, problem


def lasso(X, y, v, lam):
    """Coefficients by coordinate descent in numpy."""
    X, y, v = (np.asarray(a, float) for a in (X, y, v))
    X, y = X - v @ X / v.sum(), y - v @ y / v.sum()
    w = np.zeros(X.shape[1])
    for _ in range(500):
        for j, x in enumerate(X.T):
            pull = x @ (v * (y - X @ w + x * w[j]))
            w[j] = np.sign(pull) * max(abs(pull) - lam, 0) / (v @ x**2)
    return w


@pytest.mark.once
def test_equals_a_loop():
    X, y, v = problem(20, 4)
    v = v.at[2].set(0.0)
    lams, key = jnp.array([6.0, 2.0]), jax.random.key(1)
    found = regjax.stability_selection(
        X, y, Squared(), L1(lams), key=key, num_subsamples=6, threshold=0.8, weights=v, per_sample=True
    )
    halves = np.asarray(random_halves(key, v > 0, 6, True))
    shares = [(v * half, float((v * half).sum() / v.sum())) for half in halves]
    chosen = np.array([[lasso(X, y, w, share * lam) != 0 for lam in np.asarray(lams)] for w, share in shares])
    assert_close(found.probabilities, chosen.mean(0))
    assert_close(found.maximum, chosen.mean(0).max(0))
    assert np.array_equal(found.selected, chosen.mean(0).max(0) >= 0.8)
    q = chosen.any(1).sum(1).mean()
    assert_close(found.num_selected, q)
    assert_close(found.error_bound, q**2 / (0.6 * 4))
    assert bool(found.converged)


@pytest.mark.once
def test_halves_and_bad_arguments():
    present = np.arange(21) > 1
    halves = np.asarray(random_halves(jax.random.key(0), jnp.asarray(present), 4, True)).reshape(2, 2, 21)
    assert np.all(halves.sum(2) == 9)
    assert not np.any(halves[:, 0] & halves[:, 1])
    assert not np.any(halves[..., ~present])
    alone = np.asarray(random_halves(jax.random.key(0), jnp.asarray(present), 3, False))
    assert alone.sum(1).tolist() == [9, 9, 9]
    X, y, _ = problem(12, 3)
    for arguments, words in [
        (dict(num_subsamples=3), "num_subsamples"),
        (dict(num_subsamples=0, pairs=False), "num_subsamples"),
        (dict(threshold=0.5), "threshold"),
        (dict(threshold=1.1), "threshold"),
    ]:
        with pytest.raises(ValueError, match=words):
            regjax.stability_selection(X, y, Squared(), L1(jnp.ones(1)), key=jax.random.key(0), **arguments)
