import jax
import jax.numpy as jnp
import numpy as np
import pytest

import regjax
from tests.problems import assert_close, problem


def refits(fit, X, Y, v):
    """What the definition says: n fits, each with the weight of one sample set to zero."""
    predict = jax.jit(lambda weights: fit(weights).params(X))
    return jnp.stack([Y[i] - predict(v.at[i].set(0.0))[i] for i in range(len(Y))])


@pytest.mark.sample(20)
@pytest.mark.once
@pytest.mark.parametrize("shape", [(20, 5), (8, 14), (9, 9), (9, 8)])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("penalized", [False, True])
def test_equals_refitting(shape, intercept, penalized):
    X, Y, v = problem(*shape, targets=2)
    v = v.at[1].set(0.0)
    gamma = jnp.asarray(np.random.default_rng(1).normal(size=(shape[1] - 1, shape[1]))) if penalized else None
    keywords = {"weights": v, "intercept": intercept}
    for lam in (0.3, jnp.array([0.05, 4.0])):

        def fit(weights, lam=lam):
            if gamma is None:
                return regjax.ridge(X, Y, lam, weights=weights, intercept=intercept)
            return regjax.tikhonov(X, Y, lam, gamma, weights=weights, intercept=intercept)

        expected = refits(fit, X, Y, v)
        found = regjax.loo_residuals(X, Y, lam, gamma, **keywords)
        assert_close(found, expected, f32=1e-2)
        assert_close(regjax.loo_predictions(X, Y, lam, gamma, **keywords), Y - expected, f32=1e-2)
        assert_close(regjax.loo_score(X, Y, lam, gamma, **keywords), v @ expected**2 / v.sum(), f32=2e-2)


@pytest.mark.sample(4)
@pytest.mark.parametrize("shape", [(20, 5), (8, 14)])
def test_at_zero_too(shape):
    """Least squares, and the interpolating fit of minimum norm."""
    X, y, v = problem(*shape)
    expected = refits(lambda weights: regjax.ridge(X, y, 0.0, weights=weights), X, y, v)
    assert_close(regjax.loo_residuals(X, y, 0.0, weights=v), expected, f32=1e-2)
    grid = jax.vmap(lambda lam: regjax.loo_residuals(X, y, lam, weights=v))(jnp.array([0.0, 1.0]))
    assert_close(grid[0], expected, f32=1e-2)


@pytest.mark.x64
def test_interpolating_fit_with_repeated_rows():
    X, y, _ = problem(7, 12)
    X = X.at[3].set(X[2])
    expected = refits(lambda weights: regjax.ridge(X, y, 0.0, weights=weights), X, y, jnp.ones(7))
    found = regjax.loo_residuals(X, y, 0.0)
    assert_close(found[2:4], expected[2:4], f64=1e-7)


def test_weight_of_zero_gives_the_ordinary_residual():
    for shape in [(20, 5), (8, 14)]:
        X, y, v = problem(*shape)
        v = v.at[2].set(0.0)
        fitted = regjax.ridge(X, y, 0.5, weights=v).params(X)
        assert_close(regjax.loo_residuals(X, y, 0.5, weights=v)[2], (y - fitted)[2])
        unknown = y.at[2].set(jnp.nan)
        assert np.isnan(regjax.loo_residuals(X, unknown, 0.5, weights=v)[2])
        assert_close(regjax.loo_predictions(X, unknown, 0.5, weights=v)[2], fitted[2])


def test_leverage_one_is_nan_not_a_number():
    X = jnp.zeros((6, 2)).at[0, 0].set(1.0).at[:, 1].set(jnp.arange(6.0))
    errors = regjax.loo_residuals(X, jnp.arange(6.0) ** 2, 0.0)
    assert np.isnan(errors[0])
    assert np.all(np.isfinite(errors[1:]))


@pytest.mark.sample(8)
@pytest.mark.parametrize("shape", [(20, 5), (8, 14)])
@pytest.mark.parametrize("intercept", [True, False])
def test_gcv_is_its_definition(shape, intercept):
    X, y, v = problem(*shape)
    v = v.at[3].set(0.0)
    lam, n = 0.7, shape[0] - 1
    predict = lambda y: regjax.ridge(X, y, lam, weights=v, intercept=intercept).params(X)  # noqa: E731
    hat = jax.jacfwd(predict)(y)
    r = y - predict(y)
    expected = n * (v @ r**2) / (n - jnp.trace(hat)) ** 2
    assert_close(regjax.gcv(X, y, lam, weights=v, intercept=intercept), expected, f32=1e-2)


def test_folds_and_lams_nest_either_way():
    X, y, _ = problem(20, 5)
    folds = (jnp.arange(20)[:, None] % 4 != jnp.arange(4)).T.astype(X.dtype)
    lams = jnp.array([0.1, 1.0, 10.0])
    score = lambda fold, lam: regjax.loo_score(X, y, lam, weights=fold)  # noqa: E731
    one = jax.vmap(jax.vmap(score, (None, 0)), (0, None))(folds, lams)
    two = jax.vmap(jax.vmap(score, (0, None)), (None, 0))(folds, lams)
    assert_close(one, two.T)
    assert_close(one[2, 1], score(folds[2], 1.0))


def test_score_holds_few_residuals_at_a_time():
    """100 λ × 400 targets × 50 samples are 2 million residuals; the program keeps a small part of them."""
    X, Y, _ = problem(50, 5, targets=400)
    scores = jax.jit(lambda lams: jax.vmap(lambda lam: regjax.loo_score(X, Y, lam))(lams))
    memory = scores.lower(jnp.ones(100)).compile().memory_analysis().temp_size_in_bytes
    assert memory < 0.5 * 100 * 400 * 50 * X.dtype.itemsize


@pytest.mark.x64
def test_choosing_lam_by_gradient_finds_the_grid_minimum():
    data = regjax.data.diabetes()
    score = lambda z: regjax.loo_score(data.X, data.y, jnp.exp(z))  # noqa: E731
    grid = jnp.linspace(-6, 6, 61)
    best = grid[jnp.argmin(jax.vmap(score)(grid))]
    assert -6 < best < 6
    slope = jax.vmap(jax.grad(score))(jnp.array([best - 0.2, best + 0.2]))
    assert slope[0] < 0 < slope[1]
