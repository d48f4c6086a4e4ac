"""Kernel ridge without its matrix: conjugate gradients and Nyström against the exact solution."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import regjax
from regjax import Status
from regjax.kernels import RBF, Matern32, White
from tests.core.test_linalg import count_calls
from tests.problems import assert_close, tolerance

rng = np.random.default_rng(0)
N = 60
X = jnp.asarray(rng.normal(size=(N, 2)))
Y = jnp.asarray(np.column_stack([np.sin(2 * X[:, 0]), X[:, 1] ** 2]) + 0.1 * rng.normal(size=(N, 2)))
V = jnp.asarray(rng.uniform(0.5, 2, size=N)).at[5].set(0.0)
Z = jnp.asarray(rng.normal(size=(7, 2)))
KERNEL = 1.5 * Matern32(1.0)
LAMS = jnp.array([0.1, 1.0])


@pytest.mark.sample(4)
@pytest.mark.parametrize(("lam", "intercept"), [(0.05, False), (LAMS, True)], ids=["one", "per target"])
def test_conjugate_gradients_are_exact(lam, intercept):
    keywords = {"weights": V, "intercept": intercept}
    exact = regjax.kernel_ridge(KERNEL, X, Y, lam, **keywords)
    fit = regjax.check(regjax.kernel_ridge(KERNEL, X, Y, lam, solver="cg", landmarks=20, **keywords))
    assert_close(fit.params(Z), exact.params(Z), f64=1e-8, f32=1e-3)
    assert_close(fit.params.intercept, exact.params.intercept, f64=1e-8, f32=1e-3, floor=1.0)
    assert_close(fit.objective, exact.objective, f64=1e-8, f32=1e-3)
    assert float(fit.residual) < tolerance(1e-9, 1e-3)
    assert 1 < int(fit.num_iter) < 60
    A = np.asarray(regjax.kernels.gram(KERNEL, X), float)
    left = np.asarray(V)[:, None] ** 0.5 * (np.asarray(Y - fit.params.intercept) - A @ np.asarray(fit.params.coef))
    root = np.where(V > 0, np.sqrt(np.where(V > 0, V, 1)), 1)[:, None]
    left = left - np.asarray(lam) * np.asarray(fit.params.coef) / root  # the residual that it claims, by numpy
    assert np.linalg.norm(left) < tolerance(1e-9, 1e-3) * np.linalg.norm(np.asarray(Y))


@pytest.mark.slow
@pytest.mark.once
def test_the_preconditioner_saves_iterations():
    counts = [
        int(regjax.kernel_ridge(RBF(1.0), X, Y, 1e-2, solver="cg", landmarks=rank, tol=1e-4).num_iter)
        for rank in (1, 40)
    ]
    assert counts[1] < counts[0] / 2


@pytest.mark.once
def test_conjugate_gradients_know_white_noise_and_say_when_they_stop_short():
    kernel = KERNEL + White(0.2)
    exact = regjax.kernel_ridge(kernel, X, Y, 0.1)
    fit = regjax.kernel_ridge(kernel, X, Y, 0.1, solver="cg")
    assert_close(fit.params.coef, exact.params.coef, f64=1e-8, f32=1e-3)
    short = regjax.kernel_ridge(RBF(1.0), X, Y, 1e-3, solver="cg", landmarks=1, max_iter=3)
    assert int(short.status) == Status.ITERATION_LIMIT
    assert float(short.residual) > 1e-3


@pytest.mark.once
def test_nystrom_with_all_points_is_exact_and_with_few_is_ridge_on_the_basis():
    keywords = {"weights": V, "intercept": True}
    exact = regjax.kernel_ridge(KERNEL, X, Y, LAMS, **keywords)
    fit = regjax.check(regjax.kernel_ridge(KERNEL, X, Y, LAMS, solver="nystrom", landmarks=X, **keywords))
    assert_close(fit.params(Z), exact.params(Z), f64=1e-7, f32=5e-3)
    assert_close(fit.objective, exact.objective, f64=1e-7, f32=5e-3)
    few = regjax.kernel_ridge(KERNEL, X, Y, LAMS, solver="nystrom", landmarks=X[:9], **keywords)
    basis = regjax.bases.Nystrom(KERNEL, X[:9])
    ridge = regjax.ridge(basis.design(X), Y, LAMS, **keywords)
    assert few.params.coef.shape == (9, 2)
    assert_close(few.params(Z), ridge.params(basis.design(Z)), f64=1e-8, f32=2e-3)
    assert_close(few.objective, ridge.objective, f64=1e-8, f32=2e-3)


@pytest.mark.once
def test_nystrom_in_blocks(monkeypatch):
    three = jnp.concatenate([Y, Y[:, :1]], axis=1)  # a shape that is compiled for this block
    whole = regjax.kernel_ridge(KERNEL, X, Y, 0.1, solver="nystrom", landmarks=X[:9], weights=V)
    monkeypatch.setattr(sys.modules["regjax.models.kernel_large"], "BLOCK", 9 * 7)
    blocks = regjax.kernel_ridge(KERNEL, X, three, 0.1, solver="nystrom", landmarks=X[:9], weights=V)
    assert_close(blocks.params.coef[:, :2], whole.params.coef, f64=1e-8, f32=1e-2)


@pytest.mark.once
def test_a_grid_of_lam_is_one_pass_and_one_eigendecomposition():
    lams = jnp.logspace(-2, 1, 20)

    def grid(lams):
        fit = lambda lam: regjax.kernel_ridge(KERNEL, X, Y, lam, solver="nystrom", landmarks=X[:9])  # noqa: E731
        return jax.vmap(lambda lam: fit(lam).params.coef)(lams)

    assert count_calls(grid, lams)["syevd"] == 1
    assert "[20,60,9]" not in jax.jit(grid).lower(lams).compile().as_text()
    each = [regjax.kernel_ridge(KERNEL, X, Y, lam, solver="nystrom", landmarks=X[:9]).params.coef for lam in lams[::9]]
    assert_close(grid(lams)[::9], jnp.stack(each), f64=1e-7)
    by_cg = jax.vmap(lambda lam: regjax.kernel_ridge(KERNEL, X, Y, lam, solver="cg").params(Z))(LAMS)
    by_eigh = jax.vmap(lambda lam: regjax.kernel_ridge(KERNEL, X, Y, lam).params(Z))(LAMS)
    assert_close(by_cg, by_eigh, f64=1e-8)


@pytest.mark.sample(4)
@pytest.mark.x64
@pytest.mark.parametrize("solver", ["cg", "nystrom"])
def test_derivatives(solver):
    keywords = {"landmarks": 20} if solver == "cg" else {"landmarks": X}

    def total(solver, keywords, scale, y, lam):
        fit = regjax.kernel_ridge(Matern32(scale), X, y, lam, intercept=True, solver=solver, **keywords)
        return jnp.sum(fit.params(Z) ** 2) + fit.objective

    at = (jnp.array(1.1), Y, jnp.array(0.3))
    ours = jax.grad(lambda *a: total(solver, keywords, *a), (0, 1, 2))(*at)
    exact = jax.grad(lambda *a: total(None, {}, *a), (0, 1, 2))(*at)
    assert_close(ours, exact, f64=1e-5)


@pytest.mark.once
@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"solver": "magic"}, "solver must be None, 'cg' or 'nystrom'"),
        ({"solver": "cg", "landmarks": 0}, "landmarks must be from 1 to the 60 points"),
        ({"solver": "cg", "landmarks": X}, "landmarks takes a number with solver 'cg'"),
        ({"solver": "nystrom", "landmarks": X[:, :1]}, "landmarks has points of shape"),
    ],
)
def test_bad_arguments_are_named(keywords, message):
    with pytest.raises(ValueError, match=message):
        regjax.kernel_ridge(KERNEL, X, Y, 1.0, **keywords)


@pytest.mark.once
def test_bad_data_have_their_status():
    with pytest.raises(ValueError, match="lam must be positive with solver 'cg'"):
        regjax.kernel_ridge(KERNEL, X, Y, 0.0, solver="cg")
    for solver in ("cg", "nystrom"):
        fit = jax.jit(lambda X, lam, s=solver: regjax.kernel_ridge(KERNEL, X, Y, lam, solver=s, landmarks=9).status)
        assert int(fit(X.at[3, 0].set(jnp.nan), 1.0)) == Status.NON_FINITE
        assert int(fit(X, -1.0)) == Status.INVALID
