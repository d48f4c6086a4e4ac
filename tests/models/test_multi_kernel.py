"""Several kernels at once: one kernel is kernel ridge, linear kernels are banded ridge, strengths are found."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import regjax
from regjax.kernels import RBF, Linear, Matern52, on
from regjax.models.multi_kernel import _mixtures, _search
from tests.problems import assert_close

rng = np.random.default_rng(0)
X = jnp.asarray(rng.normal(size=(30, 4)))
Z = jnp.asarray(rng.normal(size=(5, 4)))
V = jnp.asarray(rng.uniform(0.5, 2, size=30))
Y = jnp.asarray(
    np.column_stack([np.sin(2 * X[:, 0]), np.cos(2 * X[:, 2]) * X[:, 3], X[:, 1]]) + 0.1 * rng.normal(size=(30, 3))
)
BLOCKS = [on(Linear(), (0, 1)), on(Linear(), (2, 3))]
both = pytest.mark.parametrize("intercept", [False, True])


def test_one_kernel_is_kernel_ridge():
    kernel, lams = Matern52(1.0), jnp.array([[0.3, 1.0, 3.0]])
    ours = regjax.multi_kernel_ridge([kernel], X, Y, lams, weights=V, intercept=True)
    other = regjax.kernel_ridge(kernel, X, Y, lams[0], weights=V, intercept=True)
    assert_close(ours.params(Z), other.params(Z), f32=1e-4)
    assert_close(ours.objective, other.objective, f32=1e-4)
    assert bool(regjax.check(ours).converged)
    single = regjax.multi_kernel_ridge([kernel], X, Y[:, 1], jnp.ones(1), weights=V, intercept=True)
    assert_close(single.params(Z), other.params(Z)[:, 1], f32=1e-4)


@pytest.mark.sample(4)
@pytest.mark.once
@both
def test_linear_kernels_on_blocks_are_ridge_with_a_strength_per_block(intercept):
    lams = jnp.array([0.5, 4.0])
    ours = regjax.multi_kernel_ridge(BLOCKS, X, Y, lams, weights=V, intercept=intercept)
    tree = {"a": X[:, :2], "b": X[:, 2:]}
    ridge = regjax.ridge(tree, Y, {"a": 0.5, "b": 4.0}, weights=V, intercept=intercept)
    at = {"a": Z[:, :2], "b": Z[:, 2:]}
    assert_close(ours.params(Z), ridge.params(at), f32=1e-4)
    parts = ours.params.components(Z)
    assert_close(parts[1], at["b"] @ ridge.params.coef["b"], f32=1e-4)
    assert_close(ours.objective, ridge.objective, f32=1e-4)
    apart = regjax.multi_kernel_ridge(BLOCKS, X, Y, jnp.tile(lams[:, None], 3), weights=V, intercept=intercept)
    assert_close(apart.params(Z), ours.params(Z), f32=1e-4)
    without = regjax.multi_kernel_ridge(BLOCKS, X, Y, jnp.array([0.5, jnp.inf]), intercept=intercept)
    assert_close(without.params(Z), regjax.ridge(X[:, :2], Y, 0.5, intercept=intercept).params(Z[:, :2]), f32=1e-4)


@pytest.mark.once
def test_the_strengths_say_which_block_matters():
    kernels = [on(RBF(1.0), (0, 1)), on(RBF(1.0), (2, 3))]
    fit = regjax.multi_kernel_ridge_fit(kernels, X, Y, num_candidates=6, num_scales=8)
    assert fit.lam.shape == (2, 3)
    assert [int(k) for k in jnp.argmin(fit.lam, axis=0)] == [0, 1, 0]
    refit = regjax.multi_kernel_ridge(kernels, X, Y, fit.lam)
    assert_close(fit.params(Z), refit.params(Z), f32=1e-3)


@pytest.mark.once
def test_samples_of_weight_zero_do_not_change_the_search():
    pad = jnp.full((40, 4), 9.0)
    padded = (jnp.concatenate([X, pad]), jnp.concatenate([Y, pad[:, :3]]))
    weights = jnp.concatenate([jnp.ones(30), jnp.zeros(40)])
    alone, other = (
        _search((Linear(),), *data, jnp.ones((1, 1)), intercept=False, num_scales=5)
        for data in ((X, Y, None), (*padded, weights))
    )
    assert_close(other.log_lams, alone.log_lams)


@pytest.mark.x64
def test_gradient_lowers_the_leave_one_out_error_to_a_stationary_point():
    kernels = [on(RBF(1.0), (0, 1)), on(RBF(1.0), (2, 3))]

    def score(logs, y):
        kernel = jnp.exp(-logs[0]) * kernels[0] + jnp.exp(-logs[1]) * kernels[1]
        return jnp.mean(regjax.kernel_loo_residuals(kernel, X, y, 1.0) ** 2)

    targets = Y[:, 1:2] * jnp.array([1.0, 0.0])  # no strength is better than another for a target of zeros
    start = regjax.multi_kernel_ridge_fit(kernels, X, targets, num_candidates=4, num_scales=6).lam[:, 0]
    fit = regjax.multi_kernel_ridge_fit(kernels, X, targets, num_candidates=4, num_scales=6, method="gradient")
    end = fit.lam[:, 0]
    assert int(fit.num_iter) > 0
    assert bool(fit.converged)
    assert int(end.argmin()) == 1
    assert float(score(jnp.log(end), Y[:, 1])) <= float(score(jnp.log(jnp.minimum(start, 1e6)), Y[:, 1]))
    assert float(jnp.abs(jax.grad(score)(jnp.log(end), Y[:, 1])).max()) < 1e-5


@pytest.mark.x64
def test_mixtures_have_the_precision_of_the_data():
    assert _mixtures(jax.random.key(0), 2, 3, jnp.float32).dtype == jnp.float32


@pytest.mark.once
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: regjax.multi_kernel_ridge(RBF(1.0), X, Y, jnp.ones(1)), "kernels takes a sequence"),
        (lambda: regjax.multi_kernel_ridge(BLOCKS, X, Y, jnp.ones(3)), r"lams has shape \(3,\): .* \(2,\).*\(2, 3\)"),
        (lambda: regjax.multi_kernel_ridge(BLOCKS, X, Y, jnp.zeros(2)), "lams must be positive"),
        (lambda: regjax.multi_kernel_ridge_fit(BLOCKS, X, Y, method="guess"), "method must be"),
    ],
)
def test_bad_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
