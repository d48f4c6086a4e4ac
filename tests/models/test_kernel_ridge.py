"""Kernel ridge and its scores against numpy, refits, limits and ridge."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import regjax
from regjax import Status
from regjax.kernels import RBF, Linear, Matern52, Polynomial, Sigmoid, gram
from tests.core.test_linalg import count_calls
from tests.problems import assert_close, tolerance

rng = np.random.default_rng(0)
N = 10
X = jnp.asarray(rng.normal(size=(N, 2)))
Y = jnp.asarray(rng.normal(size=(N, 3)) + 0.5)
V = jnp.asarray(rng.uniform(0.5, 2, size=N))
Z = jnp.asarray(rng.normal(size=(4, 2)))
KERNEL = Matern52(1.0)
both = pytest.mark.parametrize("intercept", [False, True])
LAMS = jnp.array([0.05, 0.5, 3.0])


def solve(K, y, lam, v, intercept):
    """α and b from the optimality conditions, by numpy."""
    K, y, v = (np.asarray(a, float) for a in (K, y, v))
    n = len(K)
    system = np.zeros((n + 1, n + 1))
    system[:n, :n] = K + lam * np.diag(1 / v)
    system[:n, n] = system[n, :n] = float(intercept)
    system[n, n] = 1 - float(intercept)
    solution = np.linalg.solve(system, np.append(y, 0))
    return solution[:n], solution[n]


def left_out(kernel, X, y, lam, v, intercept):
    """yᵢ minus the prediction of a fit without sample i, n times."""
    K = np.asarray(gram(kernel, X), float)
    errors = []
    for i in range(len(K)):
        rest = np.arange(len(K)) != i
        alpha, b = solve(K[np.ix_(rest, rest)], y[rest], lam, v[rest], intercept)
        errors.append(y[i] - b - K[i, rest] @ alpha)
    return np.array(errors)


@pytest.mark.sample(4)
@both
def test_equals_the_formula(intercept):
    fit = regjax.check(regjax.kernel_ridge(KERNEL, X, Y, LAMS, weights=V, intercept=intercept))
    for t in range(3):
        alpha, b = solve(gram(KERNEL, X), Y[:, t], float(LAMS[t]), V, intercept)
        assert_close((fit.params.coef[:, t], fit.params.intercept[t]), (alpha, b), f32=1e-4, floor=1e-3)
        assert_close(fit.params(Z)[:, t], b + np.asarray(gram(KERNEL, Z, X)) @ alpha, f32=1e-4)
    residuals = Y - fit.params(X)
    energy = jnp.sum(fit.params.coef * (gram(KERNEL, X) @ fit.params.coef), axis=0)
    assert_close(fit.objective, (jnp.sum(V[:, None] * residuals**2) + jnp.sum(LAMS * energy)) / 2, f32=1e-4)
    assert float(fit.residual) < tolerance(1e-13, 1e-5)


@pytest.mark.sample(4)
@pytest.mark.parametrize(("intercept", "weighted"), [(False, False), (True, True)])
def test_leave_one_out_is_n_refits(intercept, weighted):
    v = V if weighted else np.ones(N)
    keywords = {"weights": V} if weighted else {}
    errors = regjax.kernel_loo_residuals(KERNEL, X, Y, LAMS, intercept=intercept, **keywords)
    grid = jax.vmap(lambda lam: regjax.kernel_loo_residuals(KERNEL, X, Y[:, 0], lam, intercept=intercept, **keywords))
    lams = jnp.array([0.0, 0.05, 10.0])
    by_grid = grid(lams)
    alone = regjax.kernel_loo_residuals(KERNEL, X, Y[:, 0], 0.0, intercept=intercept, **keywords)
    for t in range(3):
        refits = left_out(KERNEL, X, Y[:, t], float(LAMS[t]), v, intercept)
        assert_close(errors[:, t], refits, f32=1e-3)
        assert_close(by_grid[t], left_out(KERNEL, X, Y[:, 0], float(lams[t]), v, intercept), f32=2e-3)
    assert_close(alone, by_grid[0], f32=2e-3)


def test_leave_one_out_with_duplicates_and_no_regularization():
    """Without one of two samples at a point the fit interpolates the other."""
    points, y = jnp.concatenate([X, X[:1]]), jnp.append(Y[:, 0], 3.0)
    for errors in (
        regjax.kernel_loo_residuals(KERNEL, points, y, 0.0),
        jax.vmap(lambda lam: regjax.kernel_loo_residuals(KERNEL, points, y, lam))(jnp.array([0.0, 1.0]))[0],
    ):
        assert_close(errors[jnp.array([0, N])], jnp.array([y[0] - 3, 3 - y[0]]), f64=1e-5, f32=2e-2)


@pytest.mark.sample(4)
@pytest.mark.once
@both
def test_linear_kernel_is_ridge(intercept):
    kernel = regjax.kernel_ridge(Linear(), X, Y, LAMS, weights=V, intercept=intercept)
    ridge = regjax.ridge(X, Y, LAMS, weights=V, intercept=intercept)
    assert_close(kernel.params(Z), ridge.params(Z), f32=1e-4)
    assert_close(kernel.objective, ridge.objective, f32=1e-4)
    scores = regjax.kernel_loo_residuals(Linear(), X, Y, LAMS, weights=V, intercept=intercept)
    assert_close(scores, regjax.loo_residuals(X, Y, LAMS, weights=V, intercept=intercept), f32=1e-3)
    gcv = regjax.kernel_gcv(Linear(), X, Y, LAMS, weights=V, intercept=intercept)
    assert_close(gcv, regjax.gcv(X, Y, LAMS, weights=V, intercept=intercept), f32=1e-3)


@pytest.mark.slow
@pytest.mark.once
def test_wide_bandwidth_is_a_shrunken_mean():
    """Bandwidth → ∞: f → Σy/(n + λ)."""
    fit = regjax.kernel_ridge(RBF(1e5), X, Y[:, 0], 2.0)
    assert_close(fit.params(Z), jnp.full(4, Y[:, 0].sum() / (N + 2)), f64=1e-8, f32=1e-4)


def test_interpolant_of_minimum_norm():
    """λ = 0 by pseudo-inverse: duplicate points, and a polynomial kernel of rank 6."""
    duplicates = jnp.concatenate([X, X[:3]])
    targets = jnp.asarray(np.random.default_rng(1).normal(size=13))
    for kernel, points in [(KERNEL, duplicates), (Polynomial(2, 1.0), duplicates), (Polynomial(2, 1.0), X)]:
        y = targets[: len(points)]
        K = np.asarray(gram(kernel, points), float)
        expected = np.linalg.pinv(K, rcond=tolerance(1e-10, 1e-5)) @ np.asarray(y, float)
        alone = regjax.kernel_ridge(kernel, points, y, 0.0)
        grid = jax.vmap(lambda lam, k=kernel, p=points, y=y: regjax.kernel_ridge(k, p, y, lam))(jnp.array([0.0, 1.0]))
        assert int(alone.status) == int(grid.status[0]) == Status.RANK_DEFICIENT
        assert bool(alone.converged)
        for coef in (alone.params.coef, grid.params.coef[0]):
            assert_close(K @ coef, K @ expected, f64=1e-7, f32=5e-3)
            assert_close(coef, expected, f64=1e-6, f32=2e-2)
    sound = regjax.kernel_ridge(KERNEL, X, Y, 0.0)
    assert int(sound.status) == Status.CONVERGED
    assert_close(sound.params(X), Y, f64=1e-9, f32=1e-3)


@pytest.mark.once
@both
def test_gcv_and_likelihood_equal_numpy(intercept):
    K, v, y, lam = np.asarray(gram(KERNEL, X), float), np.asarray(V, float), np.asarray(Y[:, 0], float), 0.5
    hat = np.zeros((N, N))
    for j in range(N):
        alpha, b = solve(K, np.eye(N)[j], lam, v, intercept)
        hat[:, j] = b + K @ alpha
    gcv = N * np.sum(v * (y - hat @ y) ** 2) / (N - np.trace(hat)) ** 2
    assert_close(regjax.kernel_gcv(KERNEL, X, Y[:, 0], lam, weights=V, intercept=intercept), gcv, f32=1e-4)
    C = K + lam * np.diag(1 / v)
    alpha, _ = solve(K, y, lam, v, intercept)
    value = -(y @ alpha + np.linalg.slogdet(C)[1] + (N - intercept) * np.log(2 * np.pi)) / 2
    if intercept:
        value -= np.log(np.ones(N) @ np.linalg.solve(C, np.ones(N))) / 2
    ours = regjax.kernel_log_likelihood(KERNEL, X, Y[:, 0], lam, weights=V, intercept=intercept)
    assert_close(ours, value, f32=1e-4)
    grid = jax.vmap(lambda a: regjax.kernel_log_likelihood(KERNEL, X, Y, a, weights=V, intercept=intercept))(LAMS)
    assert_close(grid[1, 0], value, f32=1e-4)


@pytest.mark.once
def test_gradient_descent_is_iterating():
    K, v, y = np.asarray(gram(KERNEL, X), float), np.asarray(V, float), np.asarray(Y[:, 0], float)
    step = 0.1
    alpha = np.zeros(N)
    for _ in range(30):
        b = v @ (y - K @ alpha) / v.sum()
        alpha = alpha + step * v * (y - b - K @ alpha)
    b = v @ (y - K @ alpha) / v.sum()
    fit = regjax.kernel_gradient_descent(KERNEL, X, Y[:, 0], step, 30, weights=V, intercept=True)
    assert_close(fit.params.coef, alpha, f32=1e-4)
    assert_close(fit.params.intercept, b, f32=1e-4, scale=1.0)
    assert int(fit.status) == Status.CONVERGED
    assert int(regjax.kernel_gradient_descent(KERNEL, X, Y[:, 0], 10.0, 3).status) == Status.DIVERGED


@pytest.mark.x64
def test_derivatives_with_respect_to_the_kernel():
    def scores(scale, lam):
        kernel = 1.5 * Matern52(scale)
        return (
            jnp.sum(regjax.kernel_loo_residuals(kernel, X, Y, lam, intercept=True) ** 2)
            + regjax.kernel_log_likelihood(kernel, X, Y[:, 0], lam)
            + jnp.sum(regjax.kernel_gcv(kernel, X, Y, lam, weights=V))
            + jnp.sum(regjax.kernel_ridge(kernel, X, Y, lam).params(Z) ** 2)
            + jnp.sum(regjax.kernel_gradient_descent(kernel, X, Y, 0.1 * lam, 7).params(Z) ** 2)
        )

    scores = jax.jit(scores)
    at = (jnp.array([0.9, 1.4]), jnp.array(0.4))
    gradient = jax.jit(jax.grad(scores, (0, 1)))(*at)
    h = 1e-5
    for k in range(3):
        move = (h * jnp.eye(3)[k, :2], h * jnp.eye(3)[k, 2])
        up, down = (scores(at[0] + s * move[0], at[1] + s * move[1]) for s in (1, -1))
        assert_close(jnp.append(*gradient)[k], (up - down) / (2 * h), f64=1e-6)


@pytest.mark.once
def test_one_eigendecomposition_serves_the_grid():
    lams = jnp.logspace(-3, 2, 50)
    folds = jnp.asarray(np.random.default_rng(2).integers(0, 2, size=(4, N)).astype(float)).at[:, 0].set(1.0)

    def grid(function):
        return lambda X, lams: jax.vmap(lambda lam: function(X, lam))(lams)

    ridge = grid(lambda X, lam: regjax.kernel_ridge(KERNEL, X, Y, lam).params(Z))
    scores = grid(lambda X, lam: regjax.kernel_loo_residuals(KERNEL, X, Y, lam))
    likelihood = grid(lambda X, lam: regjax.kernel_log_likelihood(KERNEL, X, Y, lam))
    gradient = jax.grad(lambda X, lams: jnp.sum(scores(X, lams) ** 2))
    for function in (ridge, scores, likelihood, gradient):
        assert count_calls(function, X, lams) == {"syevd": 1, "potrf": 0}
    one = lambda v, lam: regjax.kernel_ridge(KERNEL, X, Y, lam, weights=v).params(Z)  # noqa: E731
    fold_lam = jax.vmap(jax.vmap(one, (None, 0)), (0, None))
    lam_fold = jax.vmap(jax.vmap(one, (0, None)), (None, 0))
    assert count_calls(fold_lam, folds, lams) == count_calls(lam_fold, folds, lams) == {"syevd": 1, "potrf": 0}
    assert count_calls(lambda X: regjax.kernel_ridge(KERNEL, X, Y, 0.3).params(Z), X)["potrf"] == 1


def test_bad_and_extreme_data():
    constant = regjax.kernel_ridge(KERNEL, X, jnp.full(N, 2.0), 0.5, intercept=True)
    assert_close(constant.params(Z), jnp.full(4, 2.0), f32=1e-5)
    assert_close(regjax.kernel_loo_residuals(KERNEL, X, jnp.full(N, 2.0), 0.5, intercept=True), jnp.zeros(N), scale=1.0)
    one = regjax.check(regjax.kernel_ridge(KERNEL, X[:1], Y[:1, 0], 1.0))
    assert_close(one.params(X[:1]), Y[:1, 0] / 2, f32=1e-6)
    assert_close(regjax.kernel_loo_residuals(KERNEL, X[:1], Y[:1, 0], 1.0), Y[:1, 0], f32=1e-6)
    infinite = jax.vmap(lambda lam: regjax.kernel_ridge(KERNEL, X, Y[:, 0], lam, intercept=True))(
        jnp.array([1.0, jnp.inf])
    )
    at = jax.vmap(lambda model: model(Z))(infinite.params)
    assert_close(at[1], jnp.full(4, Y[:, 0].mean()), f32=1e-5)
    status = jax.jit(lambda X, lam: regjax.kernel_ridge(KERNEL, X, Y, lam).status)
    assert int(status(X.at[0, 0].set(jnp.nan), 1.0)) == Status.NON_FINITE
    assert int(status(X, -1.0)) == Status.INVALID


@pytest.mark.once
def test_an_indefinite_kernel_is_reported():
    fit = regjax.kernel_ridge(Sigmoid(2.0, -1.0), X, Y, 1.0)
    assert int(fit.status) == Status.NOT_POSITIVE_DEFINITE
    assert int(regjax.kernel_ridge(lambda x, z: jnp.vdot(x, z), X, Y, 1.0).status) == Status.CONVERGED


@pytest.mark.once
def test_a_batch_of_models_is_called_with_vmap():
    fits = jax.vmap(lambda lam: regjax.kernel_ridge(KERNEL, X, Y[:, 0], lam))(LAMS)
    each = jax.vmap(lambda model, Z: model(Z), (0, None))(fits.params, Z)
    assert_close(each[1], regjax.kernel_ridge(KERNEL, X, Y[:, 0], LAMS[1]).params(Z), f32=1e-5)
    with pytest.raises(ValueError, match=r"jax\.vmap\(lambda model"):
        fits.params(Z)


def test_the_derivative_in_a_weight_of_zero_is_given_as_zero():
    """Such a sample may hold anything, and is not looked at; the derivatives in other weights are right."""
    data, targets = jnp.array([0.0, 0.5, 2.0, jnp.nan]), jnp.array([1.0, -1.0, 0.5, jnp.inf])

    def value(weights, data, targets):
        return jnp.sum(
            regjax.kernel_ridge(regjax.kernels.RBF(1.0), data, targets, 0.5, weights=weights).params(data[:2])
        )

    slope = jax.grad(value)(jnp.array([1.0, 2.0, 0.5, 0.0]), data, targets)
    assert float(slope[3]) == 0
    assert_close(slope[:3], jax.grad(value)(jnp.array([1.0, 2.0, 0.5]), data[:3], targets[:3]))
