import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, stats

import regjax
from regjax import Status
from tests.problems import assert_close, problem

rng = np.random.default_rng(0)


def dense(variance, size):
    variance = np.asarray(variance, float)
    return variance * np.eye(size) if variance.ndim == 0 else np.diag(variance) if variance.ndim == 1 else variance


@pytest.mark.sample(8)
@pytest.mark.parametrize("shape", [(12, 4), (5, 9)])
@pytest.mark.parametrize("noise", ["scalar", "vector"])
@pytest.mark.parametrize("prior", ["scalar", "vector", "matrix"])
def test_posterior_equals_the_gaussian_formulas(shape, noise, prior):
    n, p = shape
    X, y, _ = problem(n, p)
    noise = {"scalar": 0.5, "vector": rng.uniform(0.2, 1, n)}[noise]
    root = rng.normal(size=(p, p))
    prior = {"scalar": 0.7, "vector": rng.uniform(0.5, 2, p), "matrix": root @ root.T + 0.5 * np.eye(p)}[prior]
    solution = regjax.check(regjax.bayes_linear(X, y, noise, prior))
    P, S = dense(prior, p), np.asarray(X) @ dense(prior, p) @ np.asarray(X).T + dense(noise, n)
    gain = P @ np.asarray(X).T @ np.linalg.inv(S)
    covariance = P - gain @ np.asarray(X) @ P
    assert_close(solution.params.coef, gain @ np.asarray(y), f32=1e-3)
    assert_close(solution.params.covariance, covariance, f32=1e-3)
    assert_close(solution.params.log_evidence, stats.multivariate_normal(np.zeros(n), S).logpdf(y), f32=1e-3)
    Z = rng.normal(size=(3, p))
    latent = np.einsum("ij,jk,ik->i", Z, covariance, Z)
    assert_close(solution.params.variance(Z), latent, f32=1e-2)
    assert_close(solution.params.mean(Z), Z @ gain @ np.asarray(y), f32=1e-2)
    low, high = solution.params.interval(Z, 0.9)
    assert_close((high - low) / 2, stats.norm.ppf(0.95) * np.sqrt(latent), f32=1e-2)
    if np.ndim(noise) == 0:
        assert_close(solution.params.variance(Z, noise=True), latent + noise, f32=1e-2)
    else:
        with pytest.raises(ValueError, match="noise=True"):
            solution.params.variance(Z, noise=True)


@pytest.mark.sample(4)
@pytest.mark.parametrize("shape", [(12, 4), (5, 9)])
def test_posterior_mean_is_ridge(shape):
    X, y, v = problem(*shape)
    posterior = regjax.bayes_linear(X, y, 0.6, 0.2, weights=v, intercept=True).params
    ridge = regjax.ridge(X, y, 3.0, weights=v).params
    assert_close((posterior.coef, posterior.intercept), (ridge.coef, ridge.intercept))


@pytest.mark.x64
@pytest.mark.parametrize("shape", [(12, 4), (5, 9)])
def test_flat_intercept_is_the_limit_of_a_wide_prior(shape):
    n, p = shape
    X, y, _ = problem(n, p)
    posterior = regjax.bayes_linear(X, y, 0.5, 0.7, intercept=True).params
    wide = 1e8
    S = 0.7 * np.asarray(X) @ np.asarray(X).T + 0.5 * np.eye(n) + wide
    restricted = stats.multivariate_normal(np.zeros(n), S).logpdf(y) + 0.5 * np.log(2 * np.pi * wide)
    assert_close(posterior.log_evidence, restricted, f64=1e-6)
    Z = rng.normal(size=(3, p))
    cross = 0.7 * Z @ np.asarray(X).T + wide
    expected = 0.7 * np.sum(Z**2, axis=1) + wide - np.einsum("ij,ij->i", cross, np.linalg.solve(S, cross.T).T)
    assert_close(posterior.variance(Z), expected, f64=1e-6)


@pytest.mark.sample(4)
@pytest.mark.x64
@pytest.mark.parametrize("shape", [(30, 4), (10, 14)])
def test_fit_maximises_the_evidence(shape):
    n, p = shape
    data = regjax.data.make_regression(jax.random.key(2), n, p, noise=4.0)
    solution = regjax.check(regjax.bayes_linear_fit(data.X, data.y))
    gram = np.asarray(data.X) @ np.asarray(data.X).T

    def negative(log_variances):
        noise, prior = np.exp(log_variances)
        return -stats.multivariate_normal(np.zeros(n), prior * gram + noise * np.eye(n)).logpdf(data.y)

    chosen = np.log([float(solution.params.noise), float(solution.params.prior)])
    best = optimize.minimize(negative, chosen + 0.1, method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-12})
    assert -best.fun <= float(solution.params.log_evidence) + 1e-9
    assert_close(chosen, best.x, f64=1e-5, scale=1.0)
    assert_close(solution.lam, np.exp(chosen[0] - chosen[1]))


@pytest.mark.once
def test_fit_per_target_and_its_boundary():
    X, Y, _ = problem(30, 4, targets=2)
    both = regjax.bayes_linear_fit(X, Y, intercept=True)
    for k in range(2):
        one = regjax.bayes_linear_fit(X, Y[:, k], intercept=True)
        assert_close((both.params.noise[k], both.params.log_evidence[k]), (one.params.noise, one.params.log_evidence))
        assert_close(both.params.coef[:, k], one.params.coef)
    assert both.params.variance(X[:3], noise=True).shape == (3, 2)
    pure_noise = jnp.asarray(np.linalg.qr(np.column_stack([np.ones(30), X, rng.normal(size=30)]))[0][:, -1])
    solution = regjax.bayes_linear_fit(X, pure_noise, intercept=True)
    assert int(solution.status) == Status.BOUNDARY
    assert float(jnp.abs(solution.params.coef).max()) < 1e-3


def test_grid_of_variances_is_one_eigendecomposition():
    X, y, _ = problem(20, 4)

    def evidence(noise, prior):
        return regjax.bayes_linear(X, y, noise, prior).params.log_evidence

    grid = jax.jit(jax.vmap(jax.vmap(evidence, (None, 0)), (0, None)))
    noises, priors = jnp.array([0.5, 1.0, 2.0]), jnp.array([0.1, 1.0])
    text = grid.lower(noises, priors).compile().as_text()
    assert text.count("syevd") >= 1
    assert "potrf" not in text
    assert_close(grid(noises, priors)[2, 1], evidence(2.0, 1.0))


@pytest.mark.once
def test_improper_prior_matrix_is_flagged():
    X, y, _ = problem(10, 2)
    solution = regjax.bayes_linear(X, y, 1.0, jnp.array([[1.0, 2.0], [2.0, 1.0]]))
    assert int(solution.status) == Status.NOT_POSITIVE_DEFINITE
