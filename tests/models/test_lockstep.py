"""Many small problems in one call: each lane is what it is alone, whatever its neighbours are."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import regjax
from regjax.core.linalg import solve_small
from regjax.core.solution import Status
from regjax.losses import Huber, Logistic, Poisson
from regjax.penalties import L2, Zero
from tests.problems import assert_close, tolerance

N, P = 60, 3


def lanes(seed=0, count=6):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(count, N, P))
    return X, X @ np.array([1.0, -0.5, 0.0]) + rng.normal(size=(count, N))


def test_hard_lanes_beside_ordinary_ones():
    X, eta = lanes()
    y = (eta > 0).astype(float)
    y[1] = X[1, :, 0] > 0  # separated by a plane
    y[2] = 1  # one class
    X[3, :, 2] = X[3, :, 1]  # dependent columns
    X[4] += 1e4  # far from the origin: to be centred first
    fit = jax.jit(lambda X, y: regjax.fit(X, y, Logistic(), Zero()))
    together = jax.jit(jax.vmap(fit))(jnp.asarray(X), jnp.asarray(y))
    assert together.status.tolist()[1:4] == [Status.SEPARATED, Status.SEPARATED, Status.RANK_DEFICIENT]
    for lane in range(len(X)):
        alone = fit(jnp.asarray(X[lane]), jnp.asarray(y[lane]))
        assert together.status[lane] == alone.status
        if lane in (0, 3, 5) or (lane == 4 and tolerance(1, 0)):  # float32 has no digits left at 1e4
            assert_close(together.params.coef[lane], alone.params.coef, f64=1e-7, f32=2e-3)
            assert_close(together.objective[lane], alone.objective, f64=1e-10, f32=1e-4)
            assert alone.residual <= tolerance(1e-9, 1e-4)
            assert together.residual[lane] <= tolerance(1e-9, 1e-4)


def test_a_lane_that_is_not_finite_leaves_the_others_alone():
    X, eta = lanes(1, 4)
    y = (eta > 0).astype(float)
    X[2, 5, 1] = np.nan
    fits = jax.jit(jax.vmap(lambda X, y: regjax.fit(X, y, Logistic(), Zero())))(jnp.asarray(X), jnp.asarray(y))
    assert fits.status.tolist() == [0, 0, Status.NON_FINITE, 0]
    assert np.all(np.isnan(fits.params.coef[2]))
    assert np.all(np.isfinite(np.delete(np.asarray(fits.params.coef), 2, axis=0)))


@pytest.mark.once
@pytest.mark.parametrize(
    "loss", [Poisson(), pytest.param(Huber(1.0), marks=pytest.mark.slow)], ids=["poisson", "huber"]
)
def test_weights_offset_and_ridge_in_every_lane(loss):
    X, eta = lanes(2, 5)
    rng = np.random.default_rng(3)
    y = rng.poisson(np.exp(np.clip(eta, -3, 3))).astype(float)
    weights, offset = rng.integers(0, 3, (5, N)).astype(float), 0.3 * rng.normal(size=N)
    X[0, weights[0] == 0] = np.nan  # which no one looks at
    lams = np.array([0.0, 0.1, 1.0, 10.0, np.inf])

    def fit(X, y, v, lam):
        return regjax.fit(X, y, loss, L2(1.5, jnp.array([1.0, lam, 0.0])), weights=v, offset=jnp.asarray(offset))

    arguments = [jnp.asarray(a) for a in (X, y, weights, lams)]
    together = jax.jit(jax.vmap(fit))(*arguments)
    alone = [fit(*(a[lane] for a in arguments)) for lane in range(5)]
    assert np.all(together.converged)
    for lane, one in enumerate(alone):
        assert_close(together.params.coef[lane], one.params.coef, f64=1e-7, f32=1e-3)
        assert_close(together.params.intercept[lane], one.params.intercept, f64=1e-7, f32=1e-3)
        assert together.gap[lane] <= tolerance(1e-10, 1e-5)
        assert_close(together.objective[lane], one.objective, f64=1e-10, f32=1e-5)


@pytest.mark.slow
@pytest.mark.once
def test_derivatives_of_every_lane():
    X, eta = lanes(4, 3)
    y = (eta > 0).astype(float)

    def weight_of_first(X, y, lam):
        return regjax.fit(X, y, Logistic(), L2(lam)).params.coef[0]

    lams = jnp.array([0.5, 1.0, 2.0])
    arguments = jnp.asarray(X), jnp.asarray(y)
    slopes = jax.jit(jax.vmap(jax.grad(weight_of_first, argnums=2)))(*arguments, lams)
    step = tolerance(1e-4, 2e-2)
    weights = jax.jit(jax.vmap(weight_of_first))
    ends = [weights(*arguments, lams + sign * step) for sign in (1, -1)]
    assert_close(slopes, (ends[0] - ends[1]) / (2 * step), f64=1e-6, f32=2e-2)


def test_elimination_solves_and_knows_dependent_columns():
    A = np.random.default_rng(5).normal(size=(4, 9, 5))
    A[3, :, 4] = A[3, :, 0]
    gram, b = np.einsum("gni,gnj->gij", A, A), np.ones((4, 5))
    x, pivot = jax.vmap(solve_small)(jnp.asarray(gram), jnp.asarray(b))
    assert_close(x[:3], np.linalg.solve(gram[:3], b[:3, :, None])[..., 0], f64=1e-10, f32=1e-3)
    assert np.all(pivot[:3] > 1e-3)
    assert abs(pivot[3]) < 1e-5
