"""One copy of a design for fits that differ in their weights."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import regjax
from regjax.losses import Logistic
from regjax.models.prepare import prepare
from regjax.models.shared_design import share
from regjax.penalties import L1, Zero
from tests.problems import assert_close


def design():
    """Columns with an offset, one that is constant, one that is constant in the first fold, one that barely varies."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 6)) + 3 * rng.normal(size=6)
    X[:, 1] = 7
    X[10:, 2] = -1
    X[:, 3] = 1e3 + 1e-2 * rng.normal(size=30)
    weights = rng.uniform(0.5, 2, size=(3, 30))
    for fold in range(3):
        weights[fold, 10 * fold : 10 * fold + 10] = 0
    return jnp.asarray(X), jnp.asarray(weights)


@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
def test_a_fold_has_the_columns_that_it_would_have_alone(intercept, standardize):
    X, weights = design()
    shared = share(X, weights, intercept)
    for fold, v in enumerate(weights):
        own = shared._replace(mean=shared.mean[fold], squares=shared.squares[fold])
        columns, size = jax.jit(own.pose, static_argnums=(1, 2))(v, intercept, standardize)
        alone, _, own_size = prepare(X, jnp.zeros((30, 1)), v, Zero(), None, intercept, standardize)
        dense, seen = columns @ jnp.eye(6), np.asarray(v) > 0
        assert_close(size, own_size, f64=1e-9, f32=1e-2)
        for j in range(6):
            length = max(float(jnp.max(jnp.abs(alone.X[seen, j]))), 1e-9)
            assert_close(dense[seen, j], alone.X[seen, j], f64=1e-9, f32=2e-2, scale=length)


def test_samples_that_are_not_finite_count_where_they_have_weight():
    X, weights = design()
    X = X.at[4, 0].set(jnp.nan).at[5, 5].set(jnp.inf)
    y = (jnp.arange(30) % 3 == 0).astype(X.dtype)
    fits = jax.vmap(lambda v: regjax.path(X, y, Logistic(), L1(jnp.array([4.0, 2.0])), weights=v))(weights)
    converged = np.asarray(fits.converged)
    assert converged[0].all()  # the fold that leaves these samples out
    assert not converged[1:].any()
    kept = slice(10, None)
    alone = regjax.fit(X[kept], y[kept], Logistic(), L1(2.0), weights=weights[0][kept])
    assert_close(fits.params.coef[0, 1], alone.params.coef, f64=1e-6, f32=1e-2)


@pytest.mark.x64
def test_derivatives_of_folds_equal_finite_differences():
    X, weights = design()
    X = X[:, jnp.array([0, 4, 5])]
    y = (jnp.arange(30) % 3 == 0).astype(X.dtype)

    def total(X, scale):
        fits = jax.vmap(
            lambda v: regjax.path(X, y, Logistic(), L1(scale * jnp.array([1.0, 0.5])), weights=v,
                                  tol=1e-13)
        )(weights)  # fmt: skip
        return jnp.sum(fits.params.coef**2)

    step = 1e-5
    slope = jax.grad(total, argnums=(0, 1))(X, 1.0)
    along = jnp.asarray(np.random.default_rng(1).normal(size=X.shape))
    numeric = (total(X + step * along, 1.0) - total(X - step * along, 1.0)) / (2 * step)
    assert_close(jnp.vdot(slope[0], along), numeric, f64=1e-5)
    numeric = (total(X, 1.0 + step) - total(X, 1.0 - step)) / (2 * step)
    assert_close(slope[1], numeric, f64=1e-5)
