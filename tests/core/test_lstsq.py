"""Least squares on the NIST StRD problems, and at any rank."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import regjax
from regjax import Status
from tests.problems import REFERENCE, assert_close, reference, table

CERTIFIED = reference("nist/certified.json")
# correct digits of the coefficients: the best of numpy, scipy, scikit-learn, jax and R, or, less 0.3 for rounding,
# those of exact least squares on the float64 matrix where that is lower; REFINED: with 80-bit residuals, less 0.3
PEERS = {
    "Norris": 13.8, "Pontius": 12.7, "NoInt1": 14.4, "NoInt2": 14.7, "Filip": 7.3, "Longley": 13.8,
    "Wampler1": 9.8, "Wampler2": 12.9, "Wampler3": 9.7, "Wampler4": 8.6, "Wampler5": 6.7,
}  # fmt: skip
REFINED = {
    "Norris": 13.8, "Pontius": 13.2, "NoInt1": 14.4, "NoInt2": 14.7, "Filip": 7.3, "Longley": 14.0,
    "Wampler1": 13.5, "Wampler2": 12.9, "Wampler3": 13.7, "Wampler4": 12.1, "Wampler5": 9.4,
}  # fmt: skip


def digits(estimate, certified):
    """−log10 of the largest relative error, at most 15 (absolute where the certified value is 0)."""
    estimate, certified = np.asarray(estimate, float), np.asarray(certified, float)
    error = np.abs(estimate - certified) / np.where(certified == 0, 1, np.abs(certified))
    return float(-np.log10(np.clip(error, 1e-15, None)).min())


def nist(name):
    entry = CERTIFIED[name]
    rows = table(f"nist/{entry['csv']}")
    y, x = rows[:, 0], rows[:, 1:]
    if entry["degree"] and entry["degree"] > 1:
        x = np.stack([x[:, 0] ** k for k in range(1, entry["degree"] + 1)], axis=1)
    return x, y, entry["intercept"], entry["certified"]


def all_coefficients(params, intercept):
    return np.concatenate([[params.intercept], params.coef]) if intercept else np.asarray(params.coef)


def test_the_reference_is_complete():
    assert sorted(CERTIFIED) == sorted(PEERS)
    assert len(list((REFERENCE / "nist").glob("*.csv"))) == 11


@pytest.mark.sample(4)
@pytest.mark.x64
@pytest.mark.parametrize("name", PEERS)
def test_nist_coefficients(name):
    x, y, intercept, certified = nist(name)
    solution = regjax.check(regjax.ols(x, y, intercept=intercept))
    found = digits(all_coefficients(solution.params, intercept), certified["coef"])
    assert found >= PEERS[name]
    assert found >= REFINED[name]
    assert int(solution.status) == Status.CONVERGED


@pytest.mark.sample(8)
@pytest.mark.x64
@pytest.mark.parametrize("name", PEERS)
def test_nist_standard_errors(name):
    x, y, intercept, certified = nist(name)
    solution = regjax.ols(x, y, intercept=intercept)
    result = regjax.inference(x, y, solution, intercept=intercept)
    least = 5 if name == "Filip" else 6
    if certified["residual_sd"] == 0:  # Wampler 1 and 2 are exact polynomials
        assert float(result.residual_sd) <= 1e-15 * np.abs(y).max()
    else:
        assert digits(result.residual_sd, certified["residual_sd"]) >= least
        assert digits(all_coefficients(result.standard_errors, intercept), certified["sd"]) >= least
        assert digits(result.r_squared, certified["r_squared"]) >= 6
    assert int(result.degrees_of_freedom) == certified["df_residual"]


@pytest.mark.sample(8)
@pytest.mark.parametrize("name", PEERS)
def test_nist_in_float32_is_right_or_flagged(name):
    x, y, intercept, certified = nist(name)
    x, y = jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32)
    solution = regjax.ols(x, y, intercept=intercept)
    found = digits(all_coefficients(solution.params, intercept), certified["coef"])
    if name in ("Norris", "NoInt1", "NoInt2"):
        assert int(solution.status) == Status.CONVERGED
        assert found >= 5
    else:
        assert found >= 4 or int(solution.status) != Status.CONVERGED
    if name == "Filip":
        assert not bool(solution.converged)


def test_minimum_norm_at_any_rank():
    rng = np.random.default_rng(0)
    for n, p, rank in [(12, 5, 3), (5, 12, 5), (5, 12, 3), (6, 6, 2)]:
        X = rng.normal(size=(n, rank)) @ rng.normal(size=(rank, p))
        Y = rng.normal(size=(n, 2))
        solution = regjax.ols(X, Y, intercept=False)
        assert_close(solution.params.coef, np.linalg.pinv(X, rcond=1e-6) @ Y, f64=1e-8, f32=1e-2)
        assert int(solution.status) == Status.RANK_DEFICIENT
        assert bool(solution.converged)
        centred = regjax.ols(X + 1, Y)
        A = X - X.mean(0)
        assert_close(centred.params.coef, np.linalg.pinv(A, rcond=1e-5) @ (Y - Y.mean(0)), f64=1e-8, f32=2e-2)


def test_minimum_norm_with_columns_of_different_size():
    """The norm is that of the coefficients as they are, not of scaled ones."""
    X = jnp.array([[1.0, 100.0], [2.0, 200.0], [3.0, 300.0]])
    solution = regjax.ols(X, jnp.array([1.0, 2.0, 3.0]), intercept=False)
    assert_close(solution.params.coef, np.array([1.0, 100.0]) / 10001, f32=1e-5)


def test_interpolates_when_wide():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(6, 20)) + 3, rng.normal(size=6)
    solution = regjax.ols(X, y)
    assert_close(solution.params(X), y, f64=1e-12, f32=1e-5)
    assert float(solution.objective) < 1e-10


def test_batched_over_data_sets_under_jit():
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(4, 15, 3)), rng.normal(size=(4, 15))
    batch = jax.jit(jax.vmap(regjax.ols))(X, y)
    assert_close(batch.params.coef[2], regjax.ols(X[2], y[2]).params.coef)
    assert batch.status.shape == (4,)
