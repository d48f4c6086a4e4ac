"""Any loss in the space of a kernel."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import regjax
from regjax import kernels, losses
from regjax.penalties import L2
from tests.problems import assert_close, problem

X, y, V = problem(20, 3)
TARGETS = {
    "Logistic": (losses.Logistic(), (y > jnp.median(y)).astype(y.dtype)),
    "Poisson": (losses.Poisson(), jnp.round(jnp.abs(y))),
    "Huber": (losses.Huber(0.5), y),
    "Squared": (losses.Squared(), y),
}


@pytest.mark.slow
@pytest.mark.sample(16)
@pytest.mark.x64
@pytest.mark.parametrize("name", TARGETS)
def test_linear_kernel_is_the_linear_model(name):
    """The coefficients of `fit` under L2 are Xᵀα, with the intercept and without."""
    loss, target = TARGETS[name]
    for intercept in (False, True):
        found = regjax.kernel_fit(kernels.Linear(), X, target, loss, 0.7, weights=V, intercept=intercept)
        truth = regjax.fit(X, target, loss, L2(0.7), weights=V, intercept=intercept)
        assert bool(found.converged)
        assert_close(X.T @ found.params.coef, truth.params.coef, f64=1e-6, f32=5e-3)
        assert_close(found.params(X), truth.params(X), f64=1e-6, f32=5e-3)


def test_squared_loss_is_kernel_ridge():
    found = regjax.kernel_fit(kernels.RBF(2.0), X, y, losses.Squared(), 0.3, weights=V)
    assert_close(found.params(X), regjax.kernel_ridge(kernels.RBF(2.0), X, y, 0.3, weights=V).params(X), f64=1e-9)


@pytest.mark.once
def test_samples_of_weight_zero_leave_the_root_regular():
    """They are copies of another sample, but no reason to raise the diagonal; nor are they looked at by derivatives."""

    def value(v):
        fit = regjax.kernel_fit(kernels.Exponential(2.0), X[:8], y[:8], losses.Squared(), 0.3, weights=v)
        return jnp.sum(fit.params.coef), fit.status

    (_, status), slope = jax.jit(jax.value_and_grad(value, has_aux=True))(V[:8].at[3].set(0.0))
    assert int(status) == regjax.Status.CONVERGED
    assert float(slope[3]) == 0
    assert float(jnp.min(jnp.abs(jnp.delete(slope, 3)))) > 0


@pytest.mark.sample(6)
@pytest.mark.parametrize("name", ["Logistic", "Poisson", "Huber"])
def test_the_gradient_vanishes(name):
    """vℓ′(y, f) + λα = 0, computed by numpy."""
    loss, target = TARGETS[name]
    fit = regjax.kernel_fit(kernels.RBF(2.0), X, target, loss, 0.3, weights=V)
    slope = np.asarray(V * loss.gradient(target, fit.params(X)) + 0.3 * fit.params.coef)
    assert np.abs(slope).max() <= (1e-6 if slope.dtype == np.float64 else 2e-2)


@pytest.mark.x64
def test_quantiles_are_optimal():
    """−λα/v is a slope of the loss at f: −τ below y, 1 − τ above, and between where f goes through y."""
    tau, lam = 0.3, 0.3
    fit = regjax.kernel_fit(kernels.RBF(2.0), X, y, losses.Quantile(tau), lam, weights=V)
    assert bool(fit.converged)
    slope, above = (np.asarray(a, float) for a in (-lam * fit.params.coef / V, fit.params(X) - y))
    slip = 1e-5
    assert np.all((slope >= -tau - slip) & (slope <= 1 - tau + slip))
    assert np.all(np.abs(slope - (1 - tau))[above > slip] <= slip)
    assert np.all(np.abs(slope + tau)[above < -slip] <= slip)
    assert 0 < np.sum(above > slip) < len(y)


@pytest.mark.slow
@pytest.mark.x64
def test_derivative_in_the_scale():
    loss, target = TARGETS["Logistic"]

    def error(scale):
        return jnp.sum(regjax.kernel_fit(kernels.RBF(scale), X, target, loss, 0.3).params(X) ** 2)

    h = 1e-5
    assert_close(jax.grad(error)(2.0), (error(2 + h) - error(2 - h)) / (2 * h), f64=1e-5)
