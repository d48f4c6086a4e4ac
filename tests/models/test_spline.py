import jax
import jax.numpy as jnp
import numpy as np
import pytest

import regjax
from regjax import Status
from tests.problems import assert_close, reference, table

CASES = reference("smoothspline_reference.json")
MGCV = reference("mgcv_reference.json")
MCYCLE = table("mcycle.csv")


@pytest.mark.sample(6)
@pytest.mark.x64
@pytest.mark.parametrize("name", CASES)
def test_equals_the_exact_smoothing_spline(name):
    """R scales x to [0, 1] and merges ties; so do we, but λ is in the units of x."""
    case = CASES[name]
    x = np.array(case["x"])
    lam = case["lambda"] * np.ptp(x) ** 3
    exact = np.array(case["y_exact_natural_spline"])
    fit = regjax.check(regjax.smoothing_spline(MCYCLE[:, 0], MCYCLE[:, 1], lam))
    assert_close(fit.params(x), exact, f64=1e-8, scale=1.0)
    assert_close(fit.params.degrees_of_freedom, case["df_exact"], f64=1e-9)
    merged = regjax.smoothing_spline(x, np.array(case["yin"]), lam, weights=np.array(case["w"]))
    assert_close(merged.params(x), exact, f64=1e-8, scale=1.0)
    grid = jax.vmap(lambda lam: regjax.smoothing_spline(*MCYCLE.T, lam))(lam * jnp.array([1e-2, 1.0, 1e2]))
    assert_close(jax.tree.map(lambda a: a[1], grid.params)(x), exact, f64=1e-8, scale=1.0)


@pytest.mark.x64
def test_gcv_and_leave_one_out_by_refitting():
    x, y = MCYCLE[::4].T
    v = np.random.default_rng(0).uniform(0.5, 2, size=len(x))
    lam = 5.0
    fit = regjax.smoothing_spline(x, y, lam, weights=v)
    n, df = len(x), float(fit.params.degrees_of_freedom)
    rss = v @ (y - np.asarray(fit.params(x))) ** 2
    assert_close(fit.params.gcv, n * rss / (n - df) ** 2)
    basis = regjax.bases.NaturalSpline(np.unique(x))
    residuals = regjax.loo_residuals(basis.design(x), y, lam, penalty=basis.penalty(), weights=v)
    for i in range(0, len(x), 5):
        refit = regjax.smoothing_spline(x, y, lam, weights=np.where(np.arange(n) == i, 0, v))
        assert_close(residuals[i], y[i] - refit.params(x[i : i + 1])[0], f64=1e-9, scale=np.abs(y).max())
    as_tikhonov = regjax.tikhonov(basis.design(x), y, lam, penalty=basis.penalty(), weights=v)
    assert_close(as_tikhonov.params(basis.design(x)), fit.params(x), f64=1e-8)
    assert_close(regjax.gcv(basis.design(x), y, lam, penalty=basis.penalty(), weights=v), fit.params.gcv, f64=1e-8)


@pytest.mark.once
def test_limits_are_interpolation_and_a_line():
    x = jnp.array([0.0, 1.0, 1.0, 3.0, 4.0])
    y = jnp.array([0.0, 1.0, 3.0, 1.0, 5.0])
    rough, line = (regjax.check(regjax.smoothing_spline(x, y, lam)) for lam in (0.0, jnp.inf))
    assert_close(rough.params(x), jnp.array([0.0, 2.0, 2.0, 1.0, 5.0]), f32=1e-5)
    assert_close(line.params(x), regjax.ols(x, y).params(x), f32=1e-5)
    assert_close((rough.params.degrees_of_freedom, line.params.degrees_of_freedom), (4.0, 2.0), f32=1e-5)
    grid = jax.vmap(lambda lam: regjax.smoothing_spline(x, y, lam).params(x))(jnp.array([0.0, 1e-3, 1e15, jnp.inf]))
    assert_close(grid[0], rough.params(x), f32=1e-5)
    assert_close(grid[-1], line.params(x), f32=1e-4)
    assert_close(grid[-2], line.params(x), f64=1e-8, f32=1e-4)
    far = line.params(jnp.array([-10.0, 20.0]))
    assert_close(far, regjax.ols(x, y).params(jnp.array([-10.0, 20.0])), f32=1e-4)


@pytest.mark.sample(4)
@pytest.mark.parametrize("change", ["weight zero", "tie"])
def test_between_and_beyond_the_knots(change):
    """A sample of weight zero, or a tie, leaves a spare knot, which must not show."""
    x, y = jnp.array([0, 0.2, 0.4, 0.6, 0.8]), jnp.array([5, 6, 5.5, 7, 6.0])
    z = jnp.array([-0.3, 0.5, 0.7, 0.79, 0.9, 1.2])
    expected = regjax.smoothing_spline(x, y, 1e-3).params(z)
    if change == "weight zero":
        fit = regjax.smoothing_spline(jnp.append(x, 1.0), jnp.append(y, 9.0), 1e-3, weights=jnp.ones(6).at[5].set(0.0))
    else:
        fit = regjax.smoothing_spline(
            jnp.append(x, 0.4), jnp.append(y, 5.5), 1e-3, weights=jnp.array([1, 1, 0.5, 1, 1, 0.5])
        )
    assert_close(fit.params(z), expected, f32=1e-4)


def test_two_points_are_a_line():
    fit = regjax.check(regjax.smoothing_spline(jnp.array([0.0, 1.0]), jnp.array([1.0, 2.0]), 0.1))
    assert_close(fit.params(jnp.array([0.5, 2.0])), jnp.array([1.5, 3.0]), f32=1e-5)


def test_one_distinct_x_is_invalid():
    solution = regjax.smoothing_spline(jnp.ones(5), jnp.arange(5.0), 1.0)
    assert int(solution.status) == Status.INVALID


@pytest.mark.sample(4)
@pytest.mark.x64
@pytest.mark.parametrize("name", MGCV)
def test_penalized_splines_equal_mgcv(name):
    """mgcv's X and S, as it rescaled them; the first column is its intercept."""
    case = MGCV[name]
    X, y = np.array(case["X"]), np.array(case["y"])
    strengths = np.atleast_1d(case["sp"]) if np.size(case["sp"]) else [1.0]
    omega = np.zeros((X.shape[1], X.shape[1]))
    blocks = [block for group in case["S"] for block in group]
    for (first, last), block, strength in zip(case["index"], blocks, strengths, strict=True):
        omega[first - 1 : last, first - 1 : last] += strength * np.array(block)
    fit = regjax.check(regjax.tikhonov(X[:, 1:], y, 1.0, penalty=omega[1:, 1:]))
    assert_close(np.array([fit.params.intercept, *fit.params.coef]), np.array(case["coef"]), f64=1e-8)
    residuals = y - np.asarray(fit.params(X[:, 1:]))
    score = float(regjax.gcv(X[:, 1:], y, 1.0, penalty=omega[1:, 1:]))
    assert_close(score, len(y) * np.sum(residuals**2) / (len(y) - case["edf_total"]) ** 2, f64=1e-8)


def test_the_reference_has_thirteen_gaussian_fits():
    assert len(MGCV) == 13
    assert len(CASES) == 6
