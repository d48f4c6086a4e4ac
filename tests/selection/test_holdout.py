"""One split: the fit on the rest, and the error of the mean over samples."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import regjax
from regjax.losses import Squared
from regjax.penalties import L2
from regjax.selection.choice import choose
from regjax.selection.scores import of_each, resolve_score
from tests.problems import assert_close, problem

LAMS = jnp.array([0.1, 3.0])


def ridge(X, y, v, lam):
    """(b, w) by numpy."""
    mean_x, mean_y = v @ X / v.sum(), v @ y / v.sum()
    centred = X - mean_x
    w = np.linalg.solve((centred.T * v) @ centred + lam * np.eye(X.shape[1]), centred.T @ (v * (y - mean_y)))
    return mean_y - mean_x @ w, w


@pytest.mark.once
def test_is_the_fit_on_the_rest():
    X, y, v = (np.array(a) for a in problem(30, 3))
    test = np.arange(30) % 3 == 0
    found = regjax.holdout(X, y, Squared(), L2(LAMS), test=test, weights=v)
    models = [ridge(X[~test], y[~test], v[~test], lam) for lam in np.asarray(LAMS)]
    errors = np.array([(y[test] - b - X[test] @ w) ** 2 for b, w in models])
    weight = v[test]
    mean = errors @ weight / weight.sum()
    spread = (errors - mean[:, None]) ** 2 @ weight / weight.sum() / (len(weight) - 1)
    assert_close(found.mean, mean)
    assert_close(found.scores[:, 0], mean)
    assert_close(found.standard_error, np.sqrt(spread))
    assert int(found.best) == np.argmin(mean)
    assert_close(found.params.coef, ridge(X, y, v, float(LAMS[found.best]))[1])


@pytest.mark.once
def test_a_score_that_is_no_mean_has_no_standard_error():
    y, eta = jnp.zeros((4, 1)), jnp.ones((4, 1))
    own = resolve_score(lambda y, eta, v: jnp.max(jnp.abs(y - eta)), Squared())
    assert np.isnan(of_each(own, Squared(), y, eta)).all()
    best, one_se = choose(
        jnp.array([2.0, 1.0, 1.5]), jnp.full(3, jnp.nan), L2(jnp.array([3.0, 2.0, 1.0])), True, "larger"
    )
    assert (int(best), int(one_se)) == (1, 1)


@pytest.mark.once
def test_random_fraction_and_bad_arguments():
    X, y, _ = problem(12, 3)
    one, other = (regjax.holdout(X, y, Squared(), L2(LAMS), fraction=0.5, key=jax.random.key(s)) for s in (0, 1))
    assert not np.allclose(one.mean, other.mean)
    for arguments, words in [
        (dict(fraction=0.0), "fraction"),
        (dict(fraction=1.0), "fraction"),
        (dict(test=np.zeros(12, bool)), "test must leave"),
        (dict(test=np.zeros(11, bool)), "test has shape"),
        (dict(test=np.zeros(12)), "test has dtype"),
        (dict(test=np.arange(12) < 3, key=jax.random.key(0)), "key goes with fraction"),
    ]:
        with pytest.raises(ValueError, match=words):
            regjax.holdout(X, y, Squared(), L2(LAMS), **arguments)


@pytest.mark.once
def test_vmap_over_weights():
    X, y, v = problem(12, 3)
    lanes = jnp.stack([v, v.at[3].set(0.0)])

    def errors(v):
        found = regjax.holdout(X, y, Squared(), L2(LAMS), weights=v)
        return found.mean, found.standard_error

    together = jax.vmap(errors)(lanes)
    for lane in (0, 1):
        assert_close(jax.tree.map(lambda leaf, lane=lane: leaf[lane], together), errors(lanes[lane]))
