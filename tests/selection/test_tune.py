"""Gradients through the fit find the minimum that a grid finds, and more of them than a grid can."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import regjax
from regjax import Status
from regjax.core.kinks import descend
from tests.problems import assert_close, problem, tolerance

X, y, _ = problem(30, 4)
TRAIN, TEST = slice(0, 18), slice(18, 30)


def held_out(model):
    return jnp.mean((y[TEST] - model(X[TEST])) ** 2)


@pytest.mark.once
def test_one_strength_by_leave_one_out():
    def error(lam):
        return regjax.loo_score(X, y, lam)

    found = regjax.tune(error, 1.0)
    grid = jnp.exp(jnp.linspace(-4, 4, 2001))
    values = jax.vmap(error)(grid)
    assert bool(found.converged)
    assert float(found.objective) <= float(values.min()) * (1 + tolerance(1e-9, 1e-5))
    assert abs(float(jnp.log(found.params / grid[values.argmin()]))) < tolerance(1e-2, 0.2)


@pytest.mark.x64
def test_elastic_net_on_a_holdout_has_its_minimum_at_a_kink():
    @jax.jit
    def error(h):
        return held_out(regjax.elastic_net(X[TRAIN], y[TRAIN], h["l1"], h["l2"]).params)

    found = regjax.tune(error, {"l1": 1.0, "l2": 1.0})
    assert bool(found.converged)
    assert float(found.residual) < 1e-5
    near = np.exp(np.linspace(-1.0, 1.0, 15))
    least = min(float(error({"l1": a * found.params["l1"], "l2": b * found.params["l2"]})) for a in near for b in near)
    assert float(found.objective) <= least * (1 + 1e-6)
    assert_close(found.objective, error(found.params))


@pytest.mark.slow
@pytest.mark.x64
def test_a_factor_for_every_column():
    def error(factors):
        ridge = regjax.tikhonov(X[TRAIN], y[TRAIN], 1.0, jnp.sqrt(factors))
        return held_out(ridge.params)

    found = regjax.tune(error, jnp.ones(4), max_iter=300)
    assert float(found.objective) < float(error(jnp.ones(4)))
    gradient = jax.grad(lambda logs: error(jnp.exp(logs)))(jnp.log(found.params))
    assert np.max(np.abs(gradient)) <= 1e-5 * float(error(jnp.ones(4))) * 1.01
    assert bool(found.converged)


@pytest.mark.once
def test_signs_pytrees_and_jit():
    def error(h):
        return (h["a"] + 3.0) ** 2 + jnp.sum((jnp.log(h["b"]) - 1.0) ** 2)

    found = jax.jit(lambda b: regjax.tune(error, {"a": 1.0, "b": b}, positive={"a": False, "b": True}))(jnp.ones(2))
    assert_close(found.params, {"a": -3.0, "b": np.full(2, np.e)}, f64=1e-4)
    assert int(regjax.tune(lambda a: a * jnp.nan, 1.0).status) == Status.NON_FINITE
    assert int(regjax.tune(lambda a: (a - 2.0) ** 4, 1.0, max_iter=2).status) == Status.ITERATION_LIMIT


@pytest.mark.once
def test_descent_over_kinks():
    function = jax.value_and_grad(lambda x: jnp.abs(x[0]) + 3 * jnp.abs(x[1] - x[0]) + 0.5 * (x[2] - 1) ** 2)
    found = descend(function, jnp.array([2.0, -1.0, 5.0]), tol=0.0, max_iter=300)
    assert_close(found.point, np.array([0.0, 0.0, 1.0]), f64=1e-6, f32=2e-3)


@pytest.mark.once
def test_bad_arguments():
    for arguments, words in [
        (dict(objective=1.0, hyperparameters=1.0), "objective must be a function"),
        (dict(objective=lambda h: h, hyperparameters=jnp.ones(2)), "scalar"),
        (dict(objective=lambda h: h, hyperparameters=-1.0), "positive"),
        (dict(objective=lambda h: h, hyperparameters=jnp.nan, positive=False), "finite"),
        (dict(objective=lambda h: 1.0, hyperparameters={}), "nothing to tune"),
        (dict(objective=lambda h: h["a"], hyperparameters={"a": 1.0}, positive={"b": True}), "positive takes"),
        (dict(objective=lambda h: h, hyperparameters=1.0, max_iter=0), "max_iter"),
        (dict(objective=lambda h: h, hyperparameters=1.0, tol=-1.0), "tol"),
    ]:
        with pytest.raises(ValueError, match=words):
            regjax.tune(**arguments)
