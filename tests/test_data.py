import jax
import jax.numpy as jnp
import numpy as np
import pytest

from regjax import data


@pytest.mark.once
@pytest.mark.parametrize(
    ("load", "shape"),
    [
        (data.diabetes, (442, 10)),
        (data.longley, (16, 6)),
        (data.stackloss, (21, 3)),
        (data.engel, (235, 1)),
        (data.nile, (100, 1)),
        (data.co2, (2225, 1)),
    ],
)
def test_bundled_sets_load(load, shape):
    found = load()
    assert found.X.shape == shape
    assert found.y.shape == shape[:1]
    assert len(found.names) == shape[1]
    assert bool(jnp.all(jnp.isfinite(found.X)))
    assert "omain" in found.about or "BSD" in found.about


@pytest.mark.once
def test_dates_become_decimal_years():
    years = np.asarray(data.co2().X[:, 0])
    assert 1958.2 < years[0] < 1958.3
    assert np.all(np.diff(years) > 0)


@pytest.mark.once
def test_simulated_regression_has_the_promised_moments():
    found = data.make_regression(jax.random.key(0), 20000, 4, correlation=0.6, noise=0.5, intercept=2.0)
    correlation = np.corrcoef(np.asarray(found.X).T)
    expected = 0.6 ** np.abs(np.subtract.outer(np.arange(4), np.arange(4)))
    np.testing.assert_allclose(correlation, expected, atol=0.03)
    residuals = found.y - found.intercept - found.X @ found.coef
    assert abs(float(residuals.std()) - 0.5) < 0.02
    again = data.make_regression(jax.random.key(0), 20000, 4, correlation=0.6, noise=0.5, intercept=2.0)
    assert bool(jnp.all(again.y == found.y))


@pytest.mark.once
def test_simulated_sparsity_targets_and_outliers():
    found = data.make_regression(jax.random.key(1), 2000, 30, num_targets=3, num_nonzero=4, outliers=0.1)
    assert found.y.shape == (2000, 3)
    assert (found.coef != 0).sum(axis=0).tolist() == [4, 4, 4]
    residuals = np.abs(found.y - found.X @ found.coef)
    assert 0.03 < np.mean(residuals > 5) < 0.15
    single = data.make_regression(jax.random.key(1), 10, 3, dtype=jnp.float32)
    assert single.X.dtype == single.y.dtype == jnp.float32
