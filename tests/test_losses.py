"""Losses: derivatives, conjugates, deviances, extremes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from regjax import losses
from regjax.losses.protocol import log_one_plus, times_log
from tests.problems import assert_close, tolerance

REAL, POSITIVE = np.linspace(-4, 4, 17), np.linspace(0.1, 4, 14)
# a loss, values of y in its domain, and predictors η in its domain
LOSSES = {
    "squared": (losses.Squared(), [-1.0, 0.5, 3.0], REAL),
    "gaussian identity": (losses.Gaussian(), [-1.0, 0.5, 3.0], REAL),
    "gaussian log": (losses.Gaussian("log"), [0.5, 3.0], REAL),
    "logit": (losses.Logistic(), [0.0, 0.3, 1.0], REAL),
    "probit": (losses.Binomial("probit"), [0.0, 0.3, 1.0], REAL),
    "cloglog": (losses.Binomial("cloglog"), [0.0, 0.3, 1.0], REAL),
    "cauchit": (losses.Binomial("cauchit"), [0.0, 0.3, 1.0], REAL),
    "poisson log": (losses.Poisson(), [0.0, 1.0, 7.0], REAL),
    "poisson sqrt": (losses.Poisson("sqrt"), [0.0, 1.0, 7.0], POSITIVE),
    "gamma inverse": (losses.Gamma(), [0.2, 1.0, 5.0], POSITIVE),
    "gamma log": (losses.Gamma("log"), [0.2, 1.0, 5.0], REAL),
    "inverse gaussian": (losses.InverseGaussian(), [0.2, 1.0, 5.0], POSITIVE),
    "inverse gaussian log": (losses.InverseGaussian("log"), [0.2, 1.0, 5.0], REAL),
    "negative binomial": (losses.NegativeBinomial(0.7), [0.0, 1.0, 7.0], REAL),
    "tweedie": (losses.Tweedie(1.4), [0.0, 1.0, 5.0], REAL),
    "huber": (losses.Huber(0.8), [-1.1, 0.6, 3.2], REAL),
    "log cosh": (losses.LogCosh(), [-1.1, 0.6, 3.2], REAL),
    "bisquare": (losses.Bisquare(3.1), [-1.1, 0.6, 3.2], REAL),
    "hampel": (losses.Hampel(0.75, 1.85, 3.27), [-1.1, 0.6, 3.2], REAL),
    "lp": (losses.Lp(1.4), [-1.1, 0.6, 3.2], REAL),
    "quantile": (losses.Quantile(0.3), [-1.1, 0.6, 3.2], REAL),
}
BOUNDS = (
    "huber",
    "log cosh",
    "bisquare",
    "hampel",
)  # whose working weight is the curvature of a parabola above the loss
every = pytest.mark.parametrize("name", LOSSES)


def grid(name):
    loss, y, eta = LOSSES[name]
    y, eta = np.meshgrid(y, eta)
    return loss, jnp.asarray(y.ravel()), jnp.asarray(eta.ravel())


@pytest.mark.sample(8)
@every
def test_derivatives_equal_autodiff(name):
    loss, y, eta = grid(name)
    slope = jax.vmap(jax.grad(loss.value, argnums=1))(y, eta)
    assert_close(loss.gradient(y, eta), slope, f64=1e-12, f32=1e-5)
    bend = jax.vmap(jax.grad(jax.grad(loss.value, argnums=1), argnums=1))(y, eta)
    assert_close(loss.curvature(y, eta), bend, f64=1e-11, f32=1e-4)


@pytest.mark.sample(4)
@pytest.mark.once
@every
def test_the_working_weight_is_a_curvature(name):
    loss, y, eta = grid(name)
    weight = np.asarray(loss.weight(y, eta))
    assert (weight >= 0).all()
    if name in BOUNDS:
        other = jnp.asarray(REAL)[:, None]
        above = loss.value(y, eta) + loss.gradient(y, eta) * (other - eta) + weight / 2 * (other - eta) ** 2
        assert float(jnp.min(above - loss.value(y, other))) >= -tolerance(1e-12, 1e-5)
    elif loss.convex and loss.smooth:
        assert_close(weight, loss.curvature(y, eta), f64=1e-12, f32=1e-5)


@pytest.mark.once
@every
def test_convexity_is_as_declared(name):
    loss, y, eta = grid(name)
    lowest = float(jnp.min(loss.curvature(y, eta)))
    assert lowest >= -1e-6 if loss.convex else lowest < 0


@pytest.mark.sample(4)
@pytest.mark.once
@every
def test_conjugate_equals_its_definition(name):
    loss, y, eta = grid(name)
    if not loss.has_dual:
        with pytest.raises(TypeError, match="no conjugate"):
            loss.conjugate(y, eta)
        return
    theta = loss.gradient(y, eta)
    scale = float(jnp.max(jnp.abs(theta * eta))) + 1
    assert_close(loss.conjugate(y, theta), theta * eta - loss.value(y, eta), f64=1e-12, f32=1e-5, scale=scale)
    # no other η does better
    other = jnp.asarray(LOSSES[name][2])[:, None]
    rest = loss.value(y, other) + loss.conjugate(y, theta) - theta * other
    assert float(jnp.min(rest)) >= -tolerance(1e-12, 1e-5) * scale


@pytest.mark.sample(4)
@pytest.mark.once
@every
def test_deviance_is_twice_the_distance_to_the_best_value(name):
    loss, y, eta = grid(name)
    at = jnp.geomspace(1e-4, 1e4, 10001)
    at = at if LOSSES[name][2] is POSITIVE else jnp.concatenate([-at, at])
    for value in LOSSES[name][1]:
        best = float(jnp.min(loss.value(value, at)))
        assert_close(best, loss.saturated(value), f64=1e-3, f32=1e-3, scale=1.0)
    assert float(jnp.min(loss.deviance(y, eta))) >= 0
    expected = 2 * (loss.value(y, eta) - loss.saturated(y))
    assert_close(loss.deviance(y, eta), jnp.maximum(expected, 0), f64=1e-12, f32=1e-5)


@pytest.mark.sample(4)
@every
def test_finite_at_extremes_in_float32(name):
    loss, y, eta = LOSSES[name]
    extremes = [1e-6, 1e6] if eta is POSITIVE else [-1e4, -90.0, -30.0, 30.0, 90.0, 1e4]
    y, eta = (a.astype(jnp.float32) for a in jnp.meshgrid(jnp.asarray(y), jnp.asarray(extremes)))
    for quantity in (loss.gradient, loss.curvature, loss.weight):
        assert bool(jnp.all(jnp.isfinite(quantity(y, eta)))), quantity
        assert quantity(y, eta).dtype == jnp.float32
    assert not bool(jnp.any(jnp.isnan(loss.value(y, eta))))


@pytest.mark.sample(4)
@pytest.mark.x64
@every
def test_relative_precision_in_the_tails(name):
    """A gradient is known to its last digits even where a sample is fitted almost perfectly."""
    loss, y, eta = grid(name)
    single = loss.gradient(y.astype(jnp.float32), eta.astype(jnp.float32))
    double = loss.gradient(y.astype(jnp.float32).astype(float), eta.astype(jnp.float32).astype(float))
    size = jnp.abs(double) + 1e-3 * jnp.abs(loss.weight(y, eta))
    assert float(jnp.max(jnp.abs(single - double) / jnp.maximum(size, 1e-6))) < 2e-2


@pytest.mark.sample(4)
@pytest.mark.once
@every
def test_mean_inverts_the_link(name):
    loss, y, _ = LOSSES[name]
    inside = jnp.asarray([value for value in y if value > 0])
    eta = loss.start(inside)
    assert bool(jnp.all(jnp.isfinite(loss.value(inside, eta))))
    if hasattr(loss, "fisher"):  # ∂μ/∂η² over the variance
        slope = jax.vmap(jax.grad(lambda e: loss.mean(e)))(eta)
        assert_close(loss.fisher(inside, eta), slope**2 / loss.variance(loss.mean(eta)), f64=1e-9, f32=1e-4)


def test_domains():
    for loss, bad in ((losses.Logistic(), 1.5), (losses.Poisson(), -1.0), (losses.Gamma(), 0.0)):
        assert not bool(loss.valid(bad))
        assert bool(loss.valid(1.0))
        assert loss.domain


def test_unknown_link_lists_the_known():
    with pytest.raises(ValueError, match="link of Poisson must be one of 'log', 'sqrt', got 'logit'"):
        losses.Poisson("logit").value(1.0, 1.0)


@pytest.mark.parametrize("eta", [-800.0, -3.0, 0.0, 3.0, 800.0])
def test_derivatives_of_the_logit_at_its_branches(eta):
    """Value, slope and curvature are each the derivative of the one before, at 0 too, where their formulas change."""
    loss, y = losses.Logistic(), 0.3
    eta = jnp.asarray(eta)
    assert jnp.allclose(jax.grad(lambda e: loss.value(y, e))(eta), loss.gradient(y, eta))
    assert jnp.allclose(jax.grad(lambda e: loss.gradient(y, e))(eta), loss.curvature(y, eta))
    assert jnp.allclose(loss.curvature(y, jnp.zeros(())), 0.25)


def test_logarithms_by_series_are_exact_to_rounding():
    e = jnp.concatenate([jnp.zeros(1), jnp.geomspace(1e-30, 1, 400)])
    eps = float(jnp.finfo(e.dtype).eps)
    np.testing.assert_allclose(log_one_plus(e), np.log1p(np.asarray(e, float)), rtol=4 * eps)
    np.testing.assert_allclose(
        times_log(e[1:]), np.asarray(e[1:], float) * np.log(np.asarray(e[1:], float)), rtol=4 * eps
    )
    assert float(times_log(jnp.zeros(()))) == 0
    assert float(jax.grad(log_one_plus)(0.0)) == 1
