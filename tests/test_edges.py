"""Ends of the range: λ = 0, no signal, weights and penalties outside of their domain inside jit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import regjax
from regjax import Status
from tests.problems import assert_close, problem

X, y, V = problem(12, 3)


@pytest.mark.x64
def test_smoothing_spline_has_a_derivative_at_zero():
    x = X[:, 0]

    @jax.jit
    def fitted(lam):
        return regjax.smoothing_spline(x, y, lam).params(x)

    assert_close(fitted(0.0), y, f64=1e-13)
    assert_close(jax.jacfwd(fitted)(0.0), (fitted(1e-10) - fitted(0.0)) / 1e-10, f64=1e-3)


@pytest.mark.parametrize("value", [0.0, 3.0])
def test_a_target_without_signal_is_at_the_boundary(value):
    fit = regjax.bayes_linear_fit(X, jnp.full(12, value), intercept=True)
    assert Status(int(fit.status)) == Status.BOUNDARY
    assert_close(fit.params.coef, jnp.zeros(3), scale=1.0)
    assert_close(fit.params.intercept, value, scale=1.0, f32=1e-6)


def test_inference_of_negative_weights_is_nan_inside_jit():
    errors = jax.jit(lambda v: regjax.inference(X, y, regjax.ols(X, y), weights=v).standard_errors.coef)
    assert np.all(np.isnan(errors(V.at[0].set(-1.0))))


def test_an_indefinite_penalty_without_a_minimum_is_flagged():
    omega = jnp.diag(jnp.array([1.0, 1.0, -5.0]))
    assert not bool(regjax.tikhonov(X, y, 100.0, penalty=omega).converged)
    assert not bool(
        jnp.any(jax.vmap(lambda lam: regjax.tikhonov(X, y, lam, penalty=omega))(jnp.array([50.0, 100.0])).converged)
    )


def test_intercept_none_is_no_intercept():
    assert_close(regjax.ols(X, y, intercept=None).params, regjax.ols(X, y, intercept=False).params)  # pyright: ignore
