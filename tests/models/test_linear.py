"""Identities and references of the closed-form models."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import regjax
from regjax import Status
from tests.problems import REFERENCE, assert_close, problem, reference, tolerance

rng = np.random.default_rng(0)


@pytest.mark.sample(4)
@pytest.mark.parametrize("shape", [(30, 6), (7, 15)])
@pytest.mark.parametrize("lam", [1e-3, 0.5, 40.0])
def test_ridge_is_least_squares_on_augmented_rows_and_its_dual(shape, lam):
    X, y, _ = problem(*shape)
    coef = regjax.ridge(X, y, lam, intercept=False).params.coef
    n, p = shape
    rows = np.vstack([X, np.sqrt(lam) * np.eye(p)])
    assert_close(coef, np.linalg.lstsq(rows, np.concatenate([y, np.zeros(p)]), rcond=None)[0])
    assert_close(coef, X.T @ np.linalg.solve(X @ X.T + lam * np.eye(n), y), f64=1e-8, f32=2e-2)


@pytest.mark.sample(8)
@pytest.mark.once
@pytest.mark.parametrize("shape", [(30, 6), (7, 15)])
@pytest.mark.parametrize("intercept", [True, False])
def test_ridge_at_zero_is_ols(shape, intercept):
    X, y, v = problem(*shape)
    X = X.at[:, -1].set(X[:, 0])  # dependent columns
    one = regjax.ridge(X, y, 0.0, weights=v, intercept=intercept)
    grid = jax.vmap(lambda lam: regjax.ridge(X, y, lam, weights=v, intercept=intercept))(jnp.array([0.0, 1.0]))
    expected = regjax.ols(X, y, weights=v, intercept=intercept)
    assert_close((one.params.coef, one.params.intercept), (expected.params.coef, expected.params.intercept))
    assert_close(grid.params.coef[0], expected.params.coef)
    assert int(one.status) == int(grid.status[0]) == int(expected.status) == Status.RANK_DEFICIENT


@pytest.mark.x64
def test_a_grid_serves_columns_of_all_scales():
    """Every coefficient has its digits, also those of columns 1e-10 times as large as others."""
    X, y, _ = problem(40, 6)
    scales = 10.0 ** np.linspace(-5, 5, 6)
    X, lams = X * scales, np.logspace(-8, 8, 9)
    coef = jax.jit(jax.vmap(lambda lam: regjax.ridge(X, y, lam).params.coef))(lams)
    x, t = np.asarray(X - X.mean(0), np.longdouble), np.asarray(y - y.mean(), np.longdouble)
    for lam, w in zip(lams, np.asarray(coef), strict=True):
        matrix, moments = x.T @ x + lam * np.eye(6), x.T @ t
        size = np.sqrt(np.diag(matrix))  # of unit diagonal the matrix is well conditioned
        exact = np.linalg.solve((matrix / np.outer(size, size)).astype(float), (moments / size).astype(float)) / size
        assert np.max(np.abs(w / exact - 1)) <= 1e-9


def test_certificates_are_those_of_the_returned_point():
    """Recomputed with numpy in float64, by the definitions."""
    X, y, v = problem(25, 5)
    lam = 0.7
    solution = regjax.ridge(X, y, lam, weights=v)
    x, t, w = (np.asarray(a, float) for a in (X, y, solution.params.coef))
    b, v = float(solution.params.intercept), np.asarray(v, float)
    r = t - b - x @ w
    primal = 0.5 * v @ r**2 + lam / 2 * w @ w
    assert_close(solution.objective, primal, f32=1e-5)
    mean = v @ t / v.sum()
    null = 0.5 * v @ (t - mean) ** 2
    centred = x - v @ x / v.sum()
    theta = v * (r - v @ r / v.sum())  # a dual point: 1ᵀθ = 0
    dual = theta @ t - 0.5 * np.sum(theta**2 / v) - np.sum((centred.T @ theta) ** 2) / (2 * lam)
    assert abs(float(solution.gap) - (primal - dual) / null) <= tolerance(1e-14, 1e-6)
    size = np.sqrt(v @ centred**2)
    slope = np.abs(centred.T @ (v * r) - lam * w) / size
    start = np.abs(centred.T @ (v * (t - mean))) / size
    assert abs(float(solution.residual) - slope.max() / start.max()) <= tolerance(1e-13, 1e-5)


@pytest.mark.parametrize("name", ["longley_lm_ridge", "prostate_lm_ridge"])
def test_ridge_equals_mass(name):
    case = reference("misc_reference.json")[name]
    rows = np.genfromtxt(REFERENCE / f"{case['data']}.csv", delimiter=",", names=True, deletechars="")
    names = [n for n in rows.dtype.names if n not in (case["y"], "rownames")]
    X, y = np.stack([rows[n] for n in names], axis=1), rows[case["y"]]
    scale = np.sqrt(np.mean((X - X.mean(0)) ** 2, axis=0))
    for lam, coef in zip(case["lambda"], case["coef"], strict=True):
        solution = regjax.ridge((X - X.mean(0)) / scale, y, lam)
        found = np.asarray(solution.params.coef, float) / scale
        constant = float(solution.params.intercept) - X.mean(0) @ found
        assert_close(np.array([constant, *found]), np.array(coef), f64=1e-8, f32=5e-2)


def test_prostate_inference_equals_r():
    case = reference("misc_reference.json")["prostate_ols"]
    rows = np.genfromtxt(REFERENCE / "prostate_lasso2.csv", delimiter=",", names=True)
    X = np.stack([rows[n] for n in rows.dtype.names if n != "lpsa"], axis=1)
    y = rows["lpsa"]
    solution = regjax.ols(X, y)
    result = regjax.inference(X, y, solution)
    estimates = np.array([solution.params.intercept, *solution.params.coef])
    errors = np.array([result.standard_errors.intercept, *result.standard_errors.coef])
    assert_close(estimates, np.array(case["coef"]), f64=1e-10, f32=1e-4)
    assert_close(errors, np.array(case["se"]), f64=1e-10, f32=1e-4)
    assert_close(result.residual_sd, case["sigma"], f64=1e-12, f32=1e-4)
    assert_close(result.r_squared, case["r2"], f64=1e-12, f32=1e-4)
    assert_close(jnp.sqrt(jnp.diagonal(result.covariance)), errors, f32=1e-4)
    assert_close(result.t.coef, estimates[1:] / errors[1:], f32=1e-3)


@pytest.mark.once
def test_inference_with_weights_and_targets_equals_dense_formulas():
    X, Y, v = problem(20, 3, targets=2)
    v = v.at[4].set(0.0)
    result = regjax.inference(X, Y, regjax.ols(X, Y, weights=v), weights=v)
    Z = np.column_stack([np.ones(20), X])
    A = Z.T @ (np.asarray(v)[:, None] * Z)
    theta = np.linalg.solve(A, Z.T @ (np.asarray(v)[:, None] * np.asarray(Y)))
    s2 = np.asarray(v) @ (np.asarray(Y) - Z @ theta) ** 2 / (19 - 4)
    assert int(result.degrees_of_freedom) == 15
    assert_close(result.covariance, s2[:, None, None] * np.linalg.inv(A))
    assert_close(result.standard_errors.coef, np.sqrt(s2 * np.diag(np.linalg.inv(A))[1:, None]))
    alone = regjax.inference(X, Y[:, 0], regjax.ols(X, Y[:, 0], weights=v, intercept=False), weights=v, intercept=False)
    assert alone.covariance.shape == (3, 3)
    assert_close(alone.standard_errors.intercept, 0.0)


@pytest.mark.once
def test_tikhonov_says_the_same_in_four_ways():
    X, y, v = problem(20, 5)
    gamma = jnp.asarray(rng.normal(size=(3, 5)))
    by_matrix = regjax.tikhonov(X, y, 0.6, gamma, weights=v).params.coef
    assert_close(regjax.tikhonov(X, y, 0.6, penalty=gamma.T @ gamma, weights=v).params.coef, by_matrix)
    assert_close(regjax.tikhonov(X, y, 0.6, lambda w: gamma @ w, weights=v).params.coef, by_matrix)
    diagonal = jnp.arange(5.0)
    by_vector = regjax.tikhonov(X, y, 0.6, diagonal, weights=v).params.coef
    assert_close(regjax.tikhonov(X, y, 0.6, jnp.diag(diagonal), weights=v).params.coef, by_vector)
    v, x, t = (np.asarray(a, float) for a in (v, X, y))
    x, t = x - v @ x / v.sum(), t - v @ t / v.sum()
    normal = x.T @ (v[:, None] * x) + 0.6 * np.asarray(gamma.T @ gamma, float)
    assert_close(by_matrix, np.linalg.solve(normal, x.T @ (v * t)))
    ridge = regjax.ridge(X, y, 0.6)
    assert_close(regjax.tikhonov(X, y, 0.6, jnp.ones(5)).params.coef, ridge.params.coef)


def test_tikhonov_takes_functions_of_pytrees_and_ridge_takes_blocks():
    X, y, _ = problem(20, 3)
    design = {"age": X[:, 0], "genes": X[:, 1:]}
    free_age = regjax.tikhonov(design, y, 5.0, lambda w: w["genes"])
    by_block = regjax.ridge(design, y, {"age": 0.0, "genes": 5.0})
    assert_close(by_block.params.coef, free_age.params.coef)
    matrix = regjax.tikhonov(X, y, 5.0, jnp.array([0.0, 1.0, 1.0]))
    assert_close(by_block.params.coef["genes"], matrix.params.coef[1:])
    assert_close(by_block.params(design), matrix.params(X))


def test_shared_null_space_is_flagged():
    X = jnp.asarray(rng.normal(size=(10, 3))).at[:, 2].set(0.0)
    solution = regjax.tikhonov(X, X[:, 0], 1.0, jnp.array([1.0, 1.0, 0.0]))
    assert int(solution.status) == Status.RANK_DEFICIENT
    assert_close(solution.params.coef[2], 0.0)


@pytest.mark.sample(4)
@pytest.mark.parametrize("shape", [(30, 6), (7, 15)])
def test_ridge_ball_is_ridge_at_its_lam(shape):
    X, y, v = problem(*shape)
    free = float(jnp.linalg.norm(regjax.ols(X, y, weights=v).params.coef))
    for share in (0.01, 0.4, 0.99):
        solution = regjax.check(regjax.ridge_ball(X, y, share * free, weights=v))
        assert_close(jnp.linalg.norm(solution.params.coef), share * free, f64=1e-12, f32=1e-4)
        assert_close(solution.params.coef, regjax.ridge(X, y, solution.lam, weights=v).params.coef)
        assert int(solution.num_iter) < 15
    inside = regjax.ridge_ball(X, y, 2 * free, weights=v)
    assert float(inside.lam) == 0
    assert_close(inside.params.coef, regjax.ols(X, y, weights=v).params.coef)
    nothing = regjax.check(regjax.ridge_ball(X, y, 0.0, weights=v))
    assert float(nothing.lam) == np.inf
    assert not np.any(nothing.params.coef)


@pytest.mark.parametrize("shape", [(30, 6), (7, 15)])
@pytest.mark.parametrize("intercept", [True, False])
def test_gradient_descent_equals_iterating(shape, intercept):
    X, y, v = problem(*shape)
    start = jnp.asarray(rng.normal(size=shape[1]))
    step = 0.9 * float(regjax.max_step(X, weights=v, intercept=intercept))
    x, t, u = (np.asarray(a, float) for a in (X, y, v))
    if intercept:
        x, t = x - u @ x / u.sum(), t - u @ t / u.sum()
    w = np.asarray(start, float)
    for count in range(1, 9):
        w = w + step * x.T @ (u * (t - x @ w))
        if count in (1, 2, 8):
            found = regjax.gradient_descent(X, y, step, count, start, weights=v, intercept=intercept)
            assert_close(found.params.coef, w)
            assert int(found.status) == Status.CONVERGED
    assert_close(
        2 / regjax.max_step(X, weights=v, intercept=intercept), np.linalg.norm(np.sqrt(u)[:, None] * x, 2) ** 2
    )


@pytest.mark.once
def test_gradient_descent_limits_and_statuses():
    X, y, _ = problem(7, 15)
    limit = regjax.max_step(X)
    far = regjax.gradient_descent(X, y, 0.5 * limit, 10_000_000)
    assert_close(far.params.coef, regjax.ols(X, y).params.coef)
    assert float(far.residual) < tolerance(1e-9, 1e-4)
    start = jnp.ones(15)
    moved = regjax.gradient_descent(X, y, 0.5 * limit, 10_000_000, start).params.coef
    x = np.asarray(X, float) - np.asarray(X, float).mean(0)
    assert_close(moved - far.params.coef, start - np.linalg.pinv(x) @ (x @ np.asarray(start)))
    growing = regjax.gradient_descent(X, y, 1.5 * limit, 5)
    assert int(growing.status) == Status.DIVERGED
    assert np.all(np.isfinite(growing.params.coef))
    half = regjax.gradient_descent(X, y, 0.9 * limit, 2.5)
    assert int(half.status) == Status.INVALID
    assert np.all(np.isnan(half.params.coef))
    between = jax.vmap(lambda k: regjax.gradient_descent(X, y, 0.2 * limit, k))(jnp.array([2.0, 2.5, 3.0])).params.coef
    assert np.all(np.diff(np.linalg.norm(between, axis=1)) > 0)


def test_condition_number():
    X = jnp.asarray(rng.normal(size=(9, 4)))
    assert_close(regjax.condition_number(X), np.linalg.cond(X), f32=1e-4)
    singular = np.linalg.svd(X, compute_uv=False)
    expected = np.sqrt((singular[0] ** 2 + 2) / (singular[-1] ** 2 + 2))
    assert_close(regjax.condition_number(X, 2.0), expected, f32=1e-4)
    assert_close(regjax.condition_number(X.T, 2.0), np.sqrt((singular[0] ** 2 + 2) / 2), f32=1e-4)
    assert_close(regjax.condition_number(X, intercept=True), np.linalg.cond(X - X.mean(0)), f32=1e-3)


@pytest.mark.once
def test_labels_round_trip_and_classify():
    names = np.array(["cat", "dog", "eel"])[rng.integers(0, 3, size=60)]
    X = rng.normal(size=(60, 2)) + 4 * np.stack([names == "cat", names == "dog"], axis=1)
    y, classes = regjax.encode_labels(names)
    assert y.shape == (60, 3)
    assert set(np.unique(y)) == {-1.0, 1.0}
    guess = regjax.decode_scores(regjax.ridge(X, y, 1.0).params(X), classes)
    assert np.mean(guess == names) > 0.9
    one_hot = regjax.ridge(X, (y + 1) / 2, 1.0).params(X)
    assert np.array_equal(regjax.decode_scores(one_hot, classes), guess)
    two, pair = regjax.encode_labels(jnp.array([3, 7, 7]))
    assert two.tolist() == [-1.0, 1.0, 1.0]
    assert regjax.decode_scores(two, pair).tolist() == [3, 7, 7]
    traced = jax.jit(lambda labels: regjax.encode_labels(labels, [3, 7])[0])(jnp.array([7, 3]))
    assert traced.tolist() == [1.0, -1.0]


def test_batched_model_called_directly_says_what_to_do():
    X, y, _ = problem(20, 4)
    path = jax.vmap(lambda lam: regjax.ridge(X, y, lam))(jnp.array([1.0, 2.0, 3.0]))
    with pytest.raises(ValueError, match="vmap"):
        path.params(X)
    assert jax.vmap(lambda model, X: model(X), (0, None))(path.params, X).shape == (3, 20)
