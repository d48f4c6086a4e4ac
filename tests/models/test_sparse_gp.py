"""Gaussian processes through inducing points: equal to the exact ones where they should be, bounds elsewhere."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import regjax
from regjax import Status, kernels
from tests.problems import assert_close, tolerance

rng = np.random.default_rng(0)
X = jnp.asarray(rng.uniform(0, 4, size=(40, 2)))
y = jnp.sin(2 * X[:, 0]) + 0.3 * X[:, 1] + 0.1 * jnp.asarray(rng.normal(size=40))
Z = jnp.asarray(rng.uniform(0, 4, size=(5, 2)))
KERNEL = 1.5 * kernels.Matern52(jnp.array([0.8, 1.2]))
NOISE = 0.05


def test_inducing_points_at_the_samples_are_the_exact_process():
    exact, sparse = regjax.gp(KERNEL, X, y, NOISE, mean=0.2), regjax.sparse_gp(KERNEL, X, y, NOISE, X, mean=0.2)
    assert int(sparse.status) == Status.CONVERGED
    assert_close(sparse.bound, exact.log_marginal_likelihood, f64=1e-8, f32=1e-2)
    assert_close(sparse(Z), exact(Z), f64=1e-8, f32=1e-2)
    assert_close(sparse.variance(Z, noise=True), exact.variance(Z, noise=True), f64=1e-8, f32=1e-2)
    assert_close(sparse.interval(Z)[1], exact.interval(Z)[1], f64=1e-7, f32=1e-2)
    variances = jnp.linspace(0.02, 0.2, 40)
    exact, sparse = regjax.gp(KERNEL, X, y, variances), regjax.sparse_gp(KERNEL, X, y, variances, X)
    assert_close((sparse.bound, sparse(Z)), (exact.log_marginal_likelihood, exact(Z)), f64=1e-8, f32=1e-2)


def test_the_bound_by_its_definition():
    U = X[:7]
    sparse = regjax.sparse_gp(KERNEL, X, y, NOISE, U)
    K, K_u, K_ux = (np.asarray(kernels.gram(KERNEL, *a), float) for a in ((X,), (U,), (U, X)))
    Q = K_ux.T @ np.linalg.solve(K_u, K_ux)
    G = Q + NOISE * np.eye(40)
    t = np.asarray(y, float)
    value = -(t @ np.linalg.solve(G, t) + np.linalg.slogdet(G)[1] + 40 * np.log(2 * np.pi)) / 2
    value -= np.trace(K - Q) / (2 * NOISE)
    assert_close(sparse.bound, value)
    assert float(sparse.bound) < float(regjax.gp(KERNEL, X, y, NOISE).log_marginal_likelihood)
    assert_close(sparse(X), Q @ np.linalg.solve(G, t))


def test_blocks_equal_the_whole(monkeypatch):
    whole = regjax.sparse_gp(KERNEL, X, y, NOISE, Z)
    monkeypatch.setattr("regjax.models.sparse_gp.BLOCK", 7 * 6)
    extra = jnp.concatenate([Z, Z[:1] + 50.0])  # a shape of its own; far from all, and of no use
    cut = regjax.sparse_gp(KERNEL, X, y, NOISE, extra)
    assert_close(cut.bound, whole.bound, f32=5e-3)
    assert_close(cut.variance(X[:13]), whole.variance(X[:13]), f32=5e-3)


@pytest.mark.once
def test_weights_are_precisions_and_zero_is_none():
    weights = jnp.linspace(0.5, 2.0, 40).at[7].set(0.0)
    rows = jnp.flatnonzero(weights)
    junk = (X.at[7].set(jnp.nan), y.at[7].set(jnp.inf))
    whole = regjax.sparse_gp(KERNEL, *junk, NOISE, Z, weights=weights)
    part = regjax.sparse_gp(KERNEL, X[rows], y[rows], NOISE / weights[rows], Z)
    assert int(whole.status) == Status.CONVERGED
    assert_close((whole.bound, whole.coef, whole.inner), (part.bound, part.coef, part.inner))


@pytest.mark.x64
def test_derivatives_equal_finite_differences():
    def value(logs, points):
        kernel = jnp.exp(logs[0]) * kernels.Matern52(jnp.exp(logs[1:3]))
        process = regjax.sparse_gp(kernel, X, y, jnp.exp(logs[3]), points, mean=logs[4])
        return process.bound + jnp.sum(process(Z)) + jnp.sum(process.variance(Z))

    args = (jnp.array([0.2, -0.3, 0.4, -2.0, 0.3]), X[:6])
    along = tuple(jnp.asarray(rng.normal(size=a.shape)) for a in args)
    slopes = jax.jit(jax.grad(value, (0, 1)))(*args)
    h = 1e-5
    up, down = (value(*(a + s * h * d for a, d in zip(args, along, strict=True))) for s in (1, -1))
    assert_close(sum(jnp.vdot(a, b) for a, b in zip(slopes, along, strict=True)), (up - down) / (2 * h), f64=1e-6)


def test_fit_raises_the_bound():
    start = X[:6]
    before = regjax.sparse_gp(KERNEL, X, y, NOISE, start)
    fit = regjax.sparse_gp_fit(KERNEL, X, y, NOISE, start, max_iter=60)
    assert float(fit.params.bound) > float(before.bound) + 1
    assert_close(fit.objective, -fit.params.bound, f64=1e-8, scale=40.0)  # a difference of large terms
    held = regjax.sparse_gp_fit(KERNEL, X, y, NOISE, start, max_iter=60, fixed={"inducing": True})
    assert_close(held.params.inducing, start)
    assert float(held.params.bound) <= float(fit.params.bound) + tolerance(1e-6, 1e-1)
    assert bool(held.converged) or not jax.config.jax_enable_x64
    with pytest.raises(ValueError, match="noise must be positive"):
        regjax.sparse_gp(KERNEL, X, y, 0.0, start)


@pytest.mark.once
def test_vmap_equals_loop_and_exports():
    def bound(noise, y):
        return jax.value_and_grad(lambda noise: regjax.sparse_gp(KERNEL, X, y, noise, X[:6]).bound)(noise)

    noises, sets = jnp.array([0.05, 0.1, 0.2]), jnp.stack([y, y**2, y[::-1]])
    lanes = jax.jit(jax.vmap(bound))(noises, sets)
    for k in range(3):
        assert_close(jax.tree.map(lambda a, k=k: a[k], lanes), bound(noises[k], sets[k]))
    exported = jax.export.export(jax.jit(jax.vmap(bound)), platforms=("cuda", "tpu"))(noises, sets)
    assert exported.platforms == ("cuda", "tpu")
