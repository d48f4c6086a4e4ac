"""Sparse models: optimality recomputed by numpy, agreement of the solvers, identities, derivatives, float32."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import linprog, nnls

import regjax
from regjax import solvers
from regjax.losses import Squared
from regjax.penalties import L1, L2, MCP, SCAD, Group, L1Ball, MultiTask, PlusL2, Slope, SparseGroup, TotalVariation
from tests.problems import assert_close, problem, tolerance

SIZES = {"tall": (40, 12), "wide": (15, 40)}
sizes = pytest.mark.parametrize("size", SIZES)


def centred(X, y, v):
    """Data in numpy and float64 with the intercept profiled out and rows multiplied by √v."""
    X, y, v = (np.asarray(a, float) for a in (X, y, v))
    root = np.sqrt(v)[:, None]
    X, y = X - np.average(X, axis=0, weights=v), y - np.average(y, axis=0, weights=v)
    return root * X, root[:, 0] * y


def lasso_gap(X, y, coef, lam):
    """Primal minus dual over the null objective, by their definitions."""
    residual = y - X @ coef
    primal = residual @ residual / 2 + np.sum(lam * np.abs(coef))
    pull = np.abs(X.T @ residual)
    theta = residual * min(1, np.min(np.where(pull > 0, lam / np.where(pull > 0, pull, 1), np.inf)))
    dual = (y @ y - (y - theta) @ (y - theta)) / 2
    return (primal - dual) / (y @ y / 2)


@sizes
def test_gap_is_true(size):
    X, y, v = problem(*SIZES[size], seed=3)
    lams = regjax.lam_grid(X, y, num=20, ratio=1e-3, weights=v)
    fits = regjax.lasso_path(X, y, lams, weights=v)
    Xc, yc = centred(X, y, v)
    true = np.array(
        [lasso_gap(Xc, yc, np.asarray(w, float), float(lam)) for w, lam in zip(fits.params.coef, lams, strict=True)]
    )
    assert bool(fits.converged.all())
    assert true.max() <= tolerance(1e-10, 1e-4)
    assert np.max(np.abs(true - fits.gap)) <= tolerance(1e-10, 1e-5)


@pytest.mark.sample(10)
@sizes
@pytest.mark.parametrize("solver", ["ista", "fista", "coordinate_descent", "admm", "working_set"])
def test_solvers_agree_on_the_elastic_net(size, solver):
    X, y, v = problem(*SIZES[size], seed=1)
    lam = 0.1 * regjax.lam_max(X, y, weights=v)
    fit = regjax.elastic_net(X, y, lam, 0.3, weights=v, solver=solver)
    truth = regjax.elastic_net(X, y, lam, 0.3, weights=v)
    assert bool(fit.converged)
    assert_close(fit.params, truth.params, f64=1e-7, f32=5e-3)


GROUPS = tuple(np.repeat(np.arange(4), 3))
FAMILY = {
    "group": Group(2.0, GROUPS),
    "sparse group": SparseGroup(1.0, 1.0, GROUPS),
    "multitask": MultiTask(3.0),
    "total variation": TotalVariation(2.0),
    "slope": Slope(jnp.linspace(3.0, 1.0, 12)),
    "ball": L1Ball(1.5),
}


@pytest.mark.sample(12)
@pytest.mark.parametrize("name", FAMILY)
@pytest.mark.x64
def test_solvers_agree_on_the_family(name):
    X, y, v = problem(*SIZES["tall"], targets=3 if name == "multitask" else None, seed=2)
    fits = {solver: regjax.fit(X, y, Squared(), FAMILY[name], weights=v, solver=solver) for solver in ("fista", "admm")}
    if name in ("group", "sparse group", "multitask"):
        fits["coordinate_descent"] = regjax.fit(
            X, y, Squared(), FAMILY[name], weights=v, solver=solvers.coordinate_descent
        )
    for fit in fits.values():
        assert bool(fit.converged), name
        assert_close(fit.params, fits["fista"].params, f64=1e-6, f32=2e-2)


@pytest.mark.slow
@pytest.mark.x64
def test_coordinate_descent_takes_groups_with_a_ridge_within_limits():
    """Groups of different sizes, with limits of each coefficient that bind."""
    X, y, v = problem(*SIZES["tall"], seed=2)
    groups = np.array([0, 0, 1, 2, 2, 2, 3, 3, 3, 3, 1, 2])
    penalty = PlusL2(SparseGroup(1.0, 1.0, groups), 1.5)
    upper = jnp.linspace(0.2, 1.0, 12)
    fit = regjax.fit(X, y, Squared(), penalty, weights=v, lower=-0.4, upper=upper, solver="coordinate_descent")
    w = np.asarray(fit.params.coef, float)
    Xc, yc = centred(X, y, v)
    norms = np.sqrt(np.bincount(groups) * np.bincount(groups, w**2)).sum()
    assert_close(fit.objective, np.sum((yc - Xc @ w) ** 2) / 2 + np.abs(w).sum() + norms + 0.75 * w @ w)
    assert bool(fit.converged)
    assert 0 <= float(fit.gap) <= 1e-10
    assert np.any(w == upper)


def test_coordinate_descent_refuses_what_is_not_separable():
    X, y, _ = problem(20, 5)
    with pytest.raises(ValueError, match="coordinate_descent takes"):
        regjax.fit(X, y, Squared(), TotalVariation(1.0), solver="coordinate_descent")


@pytest.mark.sample(4)
@pytest.mark.parametrize("solver", ["ista", "fista", "coordinate_descent", "admm", "working_set"])
@pytest.mark.x64
def test_orthonormal_columns_are_a_soft_threshold(solver):
    rng = np.random.default_rng(0)
    X = np.linalg.qr(rng.normal(size=(30, 6)))[0]
    y = rng.normal(size=30)
    moments = X.T @ y
    truth = np.sign(moments) * np.maximum(np.abs(moments) - 0.4, 0)
    fit = regjax.lasso(jnp.asarray(X), jnp.asarray(y), 0.4, intercept=False, solver=solver)
    assert_close(fit.params.coef, truth, f64=1e-10, f32=1e-4)


@pytest.mark.sample(4)
@pytest.mark.parametrize("solver", ["ista", "fista", "coordinate_descent", "admm", "working_set"])
@pytest.mark.x64
def test_one_column_has_its_closed_form(solver):
    X, y, _ = problem(15, 1)
    x, t = np.asarray(X[:, 0] - X[:, 0].mean(), float), np.asarray(y - y.mean(), float)
    for lam in (0.5, 1e3):
        truth = np.sign(x @ t) * max(abs(x @ t) - lam, 0) / (x @ x)
        assert_close(regjax.lasso(X, y, lam, solver=solver).params.coef, np.atleast_1d(truth), f64=1e-10, f32=1e-4)


@pytest.mark.sample(4)
@sizes
@pytest.mark.x64
def test_elastic_net_is_a_lasso_on_augmented_rows(size):
    X, y, _ = problem(*SIZES[size])
    p = X.shape[1]
    wide = jnp.concatenate([X, jnp.sqrt(0.7) * jnp.eye(p)])
    fit = regjax.lasso(wide, jnp.concatenate([y, jnp.zeros(p)]), 2.0, intercept=False)
    assert_close(regjax.elastic_net(X, y, 2.0, 0.7, intercept=False).params.coef, fit.params.coef, f64=1e-8, f32=5e-3)


@pytest.mark.sample(4)
@pytest.mark.once
@sizes
def test_lam_max_is_where_the_first_coefficient_enters(size):
    X, y, v = problem(*SIZES[size])
    factors = jnp.ones(X.shape[1]).at[0].set(0.0).at[1].set(jnp.inf).at[2].set(3.0)
    top = regjax.lam_max(X, y, weights=v, factors=factors)
    above, below = (regjax.lasso(X, y, scale * top, weights=v, factors=factors).params.coef for scale in (1.001, 0.98))
    assert int((above != 0).sum()) == 1  # the unpenalised one
    assert int((below != 0).sum()) >= 2
    assert float(below[1]) == 0


@pytest.mark.sample(4)
@sizes
@pytest.mark.x64
def test_ball_and_penalised_form_agree(size):
    X, y, v = problem(*SIZES[size])
    lam = 0.2 * regjax.lam_max(X, y, weights=v)
    penalised = regjax.lasso(X, y, lam, weights=v)
    radius = jnp.abs(penalised.params.coef).sum()
    ball = regjax.lasso_ball(X, y, radius, weights=v)
    assert bool(ball.converged)
    assert_close(ball.params, penalised.params, f64=1e-8, f32=1e-2)
    assert_close(ball.lam, lam, f64=1e-8, f32=1e-2)


@pytest.mark.slow
@pytest.mark.x64
def test_ball_at_the_ends():
    X, y, _ = problem(*SIZES["tall"])
    inside = regjax.lasso_ball(X, y, 1e3)
    assert float(inside.lam) == 0
    assert_close(inside.params, regjax.ols(X, y).params)
    empty = regjax.lasso_ball(X, y, 0.0)
    assert_close(empty.lam, regjax.lam_max(X, y), f64=1e-12, f32=1e-5)
    assert not np.any(empty.params.coef)
    assert bool(empty.converged)


@pytest.mark.x64
def test_a_ball_of_radius_zero_lets_nothing_in():
    X, y, _ = problem(20, 6, seed=3)  # where rounding would, at λ_max
    fit = regjax.lasso_ball(X, y, 0.0)
    assert bool(fit.converged)
    assert not np.any(fit.params.coef)
    assert float(fit.lam) == float(regjax.lam_max(X, y))


def test_limits_hold_and_are_optimal():
    X, y, v = problem(*SIZES["tall"])
    low, high = (float(jnp.asarray(limit)) for limit in (-0.3, 0.6))  # as rounded to the dtype
    fit = regjax.lasso(X, y, 0.5, weights=v, lower=low, upper=high)
    w = np.asarray(fit.params.coef, float)
    assert bool(fit.converged)
    assert w.min() >= low
    assert w.max() <= high
    assert (w == high).any()
    Xc, yc = centred(X, y, v)
    pull = Xc.T @ (yc - Xc @ w)
    free = (w > low) & (w < high) & (w != 0)
    assert np.abs(pull - 0.5 * np.sign(w))[free].max() <= tolerance(1e-7, 1e-2)
    assert np.all(pull[w == high] >= 0.5 - tolerance(1e-7, 1e-2))


def test_nonnegative_least_squares_satisfies_its_conditions():
    X, y, v = problem(*SIZES["tall"])
    fit = regjax.nonnegative_least_squares(X, y, weights=v)
    w = np.asarray(fit.params.coef, float)
    Xc, yc = centred(X, y, v)
    pull = Xc.T @ (yc - Xc @ w)
    assert bool(fit.converged)
    assert w.min() >= 0
    scale = np.abs(Xc.T @ yc).max()
    assert np.abs(pull[w > 0]).max() <= tolerance(1e-8, 1e-3) * scale
    assert pull[w == 0].max() <= tolerance(1e-8, 1e-3) * scale


def test_the_gap_of_nonnegative_least_squares_is_true():
    """No multiple of the residuals is a dual point, but one near them is: Xᵀθ ≤ 0. Also in a flat valley."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(20, 40))
    y = X @ rng.normal(size=40) + rng.normal(size=20)
    Xc, yc = X - X.mean(axis=0), y - y.mean()
    best = nnls(Xc, yc)[1] ** 2 / 2

    def excess(fit):
        w = np.asarray(fit.params.coef, float)
        assert w.min() >= 0
        return (np.sum((yc - Xc @ w) ** 2) / 2 - best) / (yc @ yc / 2)

    fit = regjax.nonnegative_least_squares(jnp.asarray(X), jnp.asarray(y))
    assert abs(excess(fit)) <= float(fit.gap) + tolerance(1e-9, 1e-5)
    assert not jax.config.jax_enable_x64 or (bool(fit.converged) and float(fit.gap) <= 1e-10)
    early = regjax.nonnegative_least_squares(jnp.asarray(X), jnp.asarray(y), max_iter=60)
    assert 1e-4 < excess(early) < float(early.gap) < 0.1


@pytest.mark.parametrize("penalty", [MCP(4.0), SCAD(4.0)], ids=["MCP", "SCAD"])
def test_non_convex_penalties_reach_a_stationary_point(penalty):
    X, y, v = problem(*SIZES["tall"])
    fit = regjax.fit(X, y, Squared(), penalty, weights=v)
    assert bool(fit.converged)
    assert np.isnan(float(fit.gap))
    assert float(fit.residual) <= tolerance(1e-10, 1e-4)


@pytest.mark.x64
def test_a_path_of_stationary_points_follows_the_solution_before():
    """Every point is stationary, and one in the middle is that of a fit from the point before, in fewer steps."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 20)) + rng.normal(size=(60, 1))
    X = jnp.asarray(X / np.linalg.norm(X - X.mean(0), axis=0))
    y = X[:, :4] @ jnp.array([3.0, -2.0, 2.0, 1.0]) + jnp.asarray(0.2 * rng.normal(size=60))
    lams = regjax.lam_grid(X, y, MCP(1.0), num=8, ratio=0.05)
    fits = regjax.path(X, y, Squared(), MCP(lams))
    assert np.all(fits.converged)
    assert np.all(np.isnan(fits.gap))
    Xc, yc = centred(X, y, np.ones(60))
    for w, lam in zip(np.asarray(fits.params.coef, float), np.asarray(lams, float), strict=True):
        slope = np.maximum(lam - np.abs(w) / 3, 0)
        pull = Xc.T @ (yc - Xc @ w)
        off = np.where(w == 0, np.maximum(np.abs(pull) - slope, 0), np.abs(pull - np.sign(w) * slope))
        assert off.max() <= 1e-9 * float(lams[0])
    alone, again = (regjax.fit(X, y, Squared(), MCP(lams[4]), init=w) for w in (0 * X[0], fits.params.coef[3]))
    assert int(again.num_iter) == int(fits.num_iter[4]) < int(alone.num_iter)
    assert_close(again.params.coef, fits.params.coef[4], f64=1e-9)


@pytest.mark.once
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": np.full((4, 2), np.nan)}, "X contains NaN"),
        ({"offset": np.full(4, np.inf)}, "offset contains infinity"),
        ({"init": np.array([0.0, np.nan])}, "init contains NaN"),
        ({"init": np.zeros(3)}, r"init has a leaf of shape \(3,\)"),
        ({"tol": -1.0}, "tol must be non-negative"),
        ({"lower": 0.5}, "lower must be at most 0"),
        ({"penalties": MCP(np.ones(2), -1.0)}, "gamma must be above 0"),
    ],
)
def test_a_path_of_stationary_points_looks_at_its_arguments(change, message):
    with pytest.raises(ValueError, match=message):
        regjax.path(
            **{"X": np.eye(4)[:, :2], "y": np.ones(4), "loss": Squared(), "penalties": MCP(np.ones(2))} | change
        )


@pytest.mark.x64
def test_standardize_equals_scaled_columns():
    X, y, v = problem(*SIZES["tall"])
    mean = jnp.average(X, axis=0, weights=v)
    size = jnp.sqrt(jnp.average((X - mean) ** 2, axis=0, weights=v))
    fit = regjax.lasso(X, y, 2.0, weights=v, standardize=True, upper=0.5)
    scaled = regjax.lasso(X / size, y, 2.0, weights=v, upper=0.5 * size)
    assert_close(fit.params.coef, scaled.params.coef / size, f64=1e-9)
    assert_close(fit.params.intercept, scaled.params.intercept, f64=1e-9)


@pytest.mark.x64
def test_offset_is_subtracted():
    X, y, v = problem(*SIZES["tall"])
    offset = jnp.sin(jnp.arange(len(y)))
    fit, truth = regjax.lasso(X, y, 1.0, weights=v, offset=offset), regjax.lasso(X, y - offset, 1.0, weights=v)
    assert_close(fit.params, truth.params)


@pytest.mark.x64
def test_strengths_by_block_and_by_coefficient():
    X, y, v = problem(*SIZES["tall"])
    lams = jnp.array([0.0] + 3 * [2.0] + 8 * [0.7])
    tree = {"a": X[:, 0], "b": X[:, 1:4], "c": X[:, 4:]}
    blocks = regjax.lasso(tree, y, {"a": 0.0, "b": 2.0, "c": 0.7}, weights=v).params.coef
    each = regjax.lasso(X, y, lams, weights=v).params.coef
    factors = regjax.lasso(X, y, 1.0, factors=lams, weights=v).params.coef
    assert_close(jnp.concatenate([jnp.ravel(b) for b in jax.tree.leaves(blocks)]), each)
    assert_close(factors, each)


@pytest.mark.x64
def test_duplicated_and_constant_columns():
    X, y, _ = problem(*SIZES["tall"])
    doubled = jnp.concatenate([X, X[:, :3], jnp.ones((len(X), 1))], axis=1)
    fit, plain = regjax.lasso(doubled, y, 1.0), regjax.lasso(X, y, 1.0)
    assert bool(fit.converged)
    assert_close(fit.objective, plain.objective)
    assert_close(fit.params(doubled), plain.params(X), f64=1e-6)
    assert float(fit.params.coef[-1]) == 0


@pytest.mark.x64
def test_penalties_are_tuned_by_gradient():
    """One strength per coefficient, by gradient descent on the error on held-out samples."""
    n, p = 120, 200
    X, _, _ = problem(n, p, seed=5)
    truth = jnp.zeros(p).at[:5].set(jnp.array([3.0, -2.0, 2.0, 1.0, -1.0]))
    y = X @ truth + jax.random.normal(jax.random.key(0), (n,))
    train, test = slice(0, 80), slice(80, n)

    @jax.jit
    @jax.value_and_grad
    def validation(log_lams):
        model = regjax.lasso(X[train], y[train], jnp.exp(log_lams)).params
        return jnp.mean((y[test] - model(X[test])) ** 2)

    log_lams = jnp.full(p, jnp.log(3.0))
    first, _ = validation(log_lams)
    for _ in range(60):
        _, slope = validation(log_lams)
        log_lams = log_lams - 0.5 * slope
    last, _ = validation(log_lams)
    assert float(last) < 0.8 * float(first)


@pytest.mark.x64
def test_hyperparameter_gradients_over_a_batch():
    X, y, v = problem(*SIZES["tall"])

    def error(lam):
        return jnp.sum((y - regjax.lasso(X, y, lam, weights=v).params(X)) ** 2)

    lams = jnp.array([0.5, 2.0, 8.0])
    slopes = jax.jit(jax.vmap(jax.grad(error)))(lams)
    h = 1e-5
    finite = jnp.stack([(error(lam + h) - error(lam - h)) / (2 * h) for lam in lams])
    assert_close(slopes, finite, f64=1e-6)


@pytest.mark.x64
def test_relaxed_and_adaptive():
    X, y, v = problem(*SIZES["tall"])
    sparse = regjax.lasso(X, y, 4.0, weights=v)
    assert_close(regjax.relaxed_lasso(X, y, 4.0, 1.0, weights=v).params, sparse.params)
    kept = np.asarray(regjax.support(sparse))
    full = regjax.relaxed_lasso(X, y, 4.0, 0.0, weights=v).params
    assert_close(np.asarray(full.coef)[kept], regjax.ols(X[:, kept], y, weights=v).params.coef)
    assert not np.any(np.asarray(full.coef)[~kept])
    assert int(regjax.degrees_of_freedom(X, sparse, weights=v).round()) == kept.sum()
    pilot = regjax.ols(X, y, weights=v).params.coef
    truth = regjax.lasso(X, y, 1.0, factors=1 / jnp.abs(pilot), weights=v)
    assert_close(regjax.adaptive_lasso(X, y, 1.0, weights=v).params, truth.params)


@pytest.mark.once
def test_limits_of_groups_hold_and_are_certified():
    """Recomputed by the definition: the objective of no feasible point nearby is lower."""
    X, y, v = problem(40, 6)
    groups = [0, 0, 1, 1, 2, 2]
    fit = regjax.group_lasso(X, y, 2.0, groups, lower=-0.2, upper=0.4, weights=v)
    w, b = np.asarray(fit.params.coef), float(fit.params.intercept)
    assert bool(fit.converged)
    assert float(fit.gap) <= tolerance(1e-10, 1e-5)
    assert np.all((w >= -0.2) & (w <= 0.4))
    assert np.any((w == -0.2) | (w == 0.4))

    def objective(w, b):
        norms = [np.linalg.norm(w[np.array(groups) == g]) for g in range(3)]
        return 0.5 * np.asarray(v) @ (np.asarray(y) - b - np.asarray(X) @ w) ** 2 + 2 * np.sqrt(2) * sum(norms)

    assert_close(fit.objective, objective(w, b))
    around = np.random.default_rng(0).normal(size=(200, 7)) * 1e-3
    assert all(objective(np.clip(w + d[:6], -0.2, 0.4), b + d[6]) >= objective(w, b) * (1 - 1e-12) for d in around)
    wide = regjax.group_lasso(X, y, 2.0, groups, lower=-99.0, upper=99.0, weights=v)
    assert_close(wide.params.coef, regjax.group_lasso(X, y, 2.0, groups, weights=v).params.coef)


@pytest.mark.slow
@pytest.mark.sample(8)
@pytest.mark.once
@pytest.mark.parametrize(
    "given",
    [{"factors": np.array([0.0, 1.0, 2.0, np.inf, 1.0])}, {"lower": -0.1, "upper": 0.6, "standardize": True}],
    ids=["factors", "limits"],
)
def test_ball_takes_what_the_lasso_takes(given):
    X, y, _ = problem(30, 5)
    X = X * np.array([1.0, 2.0, 0.5, 1.0, 3.0])
    offset = np.linspace(-1, 1, 30)
    ball = regjax.lasso_ball(X, y, 0.4, offset=offset, **given)
    size = np.std(X, axis=0) if given.get("standardize") else np.ones(5)
    factors = np.where(np.isinf(given.get("factors", 1.0)), 0, given.get("factors", 1.0))
    assert_close(np.sum(factors * size * np.abs(ball.params.coef)), 0.4)
    assert_close(ball.params.coef, regjax.lasso(X, y, ball.lam, offset=offset, **given).params.coef)


@pytest.mark.slow
@pytest.mark.x64
def test_a_ball_that_holds_an_interpolant_though_not_that_of_least_norm():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(4, 8)), rng.normal(size=4)
    least = linprog(np.ones(16), A_eq=np.hstack([X, -X]), b_eq=y).fun
    radius = (least + np.abs(np.linalg.pinv(X) @ y).sum()) / 2
    fit = regjax.lasso_ball(jnp.asarray(X), jnp.asarray(y), radius, intercept=False)
    assert bool(fit.converged)
    assert least < radius
    assert 0 <= float(fit.lam) <= 1e-9
    assert float(fit.objective) <= 1e-12
    assert np.abs(fit.params.coef).sum() <= radius * (1 + 1e-9)


def test_a_path_of_strengths_for_each_block():
    X, y, _ = problem(30, 5, seed=6)
    design = {"age": X[:, 0], "genes": X[:, 1:]}
    lams = {"age": jnp.array([1.0, 0.5]), "genes": jnp.array([2.0, 1.0])}
    fits = regjax.path(design, y, Squared(), L1(lams))
    for k in range(2):
        one = regjax.fit(design, y, Squared(), L1({name: lam[k] for name, lam in lams.items()}))
        assert_close(fits.params.coef["genes"][k], one.params.coef["genes"], f64=1e-9)


@pytest.mark.x64
def test_groups_and_a_ridge_with_strengths_for_each_block():
    """The same as arrays, with the ridge as more rows of the design."""
    X, y, _ = problem(30, 5, seed=6)
    design, groups = {"age": X[:, 0], "genes": X[:, 1:]}, (2, 0, 0, 1, 1)
    penalty = PlusL2(Group({"age": 2.0, "genes": 8.0}, groups), {"age": 0.0, "genes": 6.0})
    fit = regjax.fit(design, y, Squared(), penalty, intercept=False)
    rows = jnp.concatenate([X, 6**0.5 * jnp.eye(5)[1:]])
    target = jnp.concatenate([y, jnp.zeros(4)])
    other = regjax.group_lasso(rows, target, jnp.array([8.0, 8.0, 2.0]), groups, intercept=False)
    assert_close(jnp.append(fit.params.coef["age"], fit.params.coef["genes"]), other.params.coef, f64=1e-9)
    assert_close(fit.objective, other.objective)
    assert 0 <= float(fit.gap) <= 1e-10


def test_the_grid_of_ridge_begins_at_the_largest_curvature():
    X, y, v = problem(30, 5, seed=6)
    grid = regjax.lam_grid(X, y, L2(1.0), num=3, ratio=0.01, weights=v)
    Xc, _ = centred(X, y, v)
    assert_close(grid, np.linalg.norm(Xc, 2) ** 2 * np.array([1, 0.1, 0.01]), f64=0.03, f32=0.03)


@pytest.mark.x64
@pytest.mark.parametrize("share", [1e-2, 1e-4])
def test_derivatives_do_not_depend_on_the_scales_of_columns(share):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 60)) * 10 ** rng.uniform(-2, 2, 60)
    y = X[:, :10] @ rng.normal(size=10) + rng.normal(size=60)
    lam = share * regjax.lam_max(X, y)
    value, slope = jax.jit(
        jax.value_and_grad(lambda lam: jnp.sum(regjax.lasso(X, y, lam, tol=1e-12).params.coef ** 2))
    )(lam)
    coef = np.asarray(regjax.lasso(X, y, lam, tol=1e-12).params.coef)
    on = coef != 0
    A = (X - X.mean(axis=0))[:, on]
    moves = -np.linalg.lstsq(A.T @ A, np.sign(coef[on]), rcond=None)[0]
    assert_close(value, coef @ coef)
    assert_close(slope, 2 * coef[on] @ moves, f64=1e-7)
