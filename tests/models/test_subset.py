"""Best subset selection against enumeration, textbook pursuit and the definition of its optimality."""

import itertools
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import regjax
from regjax import Status
from regjax.losses import Poisson
from tests.problems import assert_close, problem

SOLVERS = ("swaps", "omp", "iht", "exhaustive")
every_solver = pytest.mark.parametrize("solver", SOLVERS)


def correlated(n, p, kind, k, noise, rng):
    """Columns of correlation ½, AR(1) or all alike, and a target from k of them."""
    X = rng.normal(size=(n, p))
    if kind == "ar1":
        for j in range(1, p):
            X[:, j] = 0.5 * X[:, j - 1] + np.sqrt(0.75) * X[:, j]
    else:
        X = np.sqrt(0.5) * X + np.sqrt(0.5) * rng.normal(size=(n, 1))
    coef = np.zeros(p)
    coef[rng.choice(p, k, replace=False)] = rng.normal(size=k)
    signal = X @ coef
    return X, 2 + signal + noise * np.std(signal) * rng.normal(size=n)


def loss_on(X, y, v, columns):
    """½ Σ v r² of weighted least squares with an intercept, by numpy."""
    Z = np.column_stack([np.ones(len(y)), X[:, list(columns)]]) * np.sqrt(v)[:, None]
    return np.sum((np.sqrt(v) * y - Z @ np.linalg.lstsq(Z, np.sqrt(v) * y)[0]) ** 2) / 2


def best_losses(X, y, v, fitted=loss_on):
    """The least loss with 0, …, p columns."""
    p = X.shape[1]
    return [min(fitted(X, y, v, S) for S in itertools.combinations(range(p), k)) for k in range(p + 1)]


@cache
def lanes_of(solver):
    """Problems with sizes of their own, in one call."""
    return jax.jit(jax.vmap(lambda X, y, k: regjax.best_subset(X, y, k, solver=solver, max_k=8)))


@pytest.mark.x64
@pytest.mark.parametrize("kind", ["ar1", "equal"])
def test_exchange_reaches_the_loss_of_exhaustive_search(kind):
    rng = np.random.default_rng(7)
    sizes = np.array([1 + i % 8 for i in range(50)])
    data = [correlated(40, 15, kind, 2 + i % 7, (0.3, 1.0, 2.0)[i % 3], rng) for i in range(50)]
    X, y = (jnp.asarray(np.stack(a)) for a in zip(*data, strict=True))
    losses = {}
    for solver in ("swaps", "exhaustive"):
        fits = lanes_of(solver)(X, y, sizes)
        assert np.all(fits.status == Status.CONVERGED)
        assert np.all(np.sum(fits.params.coef != 0, axis=1) <= sizes)
        losses[solver] = np.asarray(fits.objective)
    assert np.all(losses["swaps"] >= losses["exhaustive"] * (1 - 1e-10))
    assert np.sum(losses["swaps"] <= losses["exhaustive"] * (1 + 1e-10)) >= 48


X, Y, V = (np.asarray(a) for a in problem(20, 6))  # one shape for what follows: its programs are compiled once


def fit(X, y, k, solver, weights=V):
    return regjax.check(regjax.best_subset(X, y, k, weights=weights, solver=solver, max_k=6))


@pytest.mark.x64
def test_exhaustive_search_finds_the_best_of_all_subsets():
    path = regjax.best_subset_path(X, Y, 6, weights=V, solver="exhaustive")
    assert_close(path.objective, np.array(best_losses(X, Y, V)))
    assert_close(path.gap, np.zeros(7), scale=1.0)
    assert (path.params.coef != 0).sum(1).tolist() == list(range(7))


@pytest.mark.x64
def test_pursuit_is_that_of_the_textbook():
    path = regjax.best_subset_path(X, Y, 6, weights=V, solver="omp")
    Z, t = (np.sqrt(V)[:, None] * (a - V @ a / V.sum()) for a in (X, Y[:, None]))
    Z, S, r = Z / np.linalg.norm(Z, axis=0), [], t[:, 0]
    for k in range(6):
        assert sorted(np.flatnonzero(path.params.coef[k])) == sorted(S)
        S.append(int(np.argmax(np.abs(r @ Z))))
        r = t[:, 0] - Z[:, S] @ np.linalg.lstsq(Z[:, S], t[:, 0])[0]


@pytest.mark.x64
def test_no_exchange_of_one_column_lowers_the_loss():
    X, y = correlated(40, 15, "equal", 6, 1.0, np.random.default_rng(3))
    sizes = np.arange(1, 9)
    fits = lanes_of("swaps")(*(jnp.asarray(np.broadcast_to(a, (50, *a.shape))) for a in (X, y)), np.resize(sizes, 50))
    for k in sizes:
        S = set(np.flatnonzero(fits.params.coef[k - 1]).tolist())
        least = min(loss_on(X, y, np.ones(40), (S - {i}) | {j}) for i in S for j in set(range(15)) - S)
        assert_close(fits.objective[k - 1], loss_on(X, y, np.ones(40), S))
        assert fits.objective[k - 1] <= least * (1 + 1e-12)


@pytest.mark.sample(4)
@pytest.mark.once
@every_solver
def test_orthogonal_columns_are_chosen_by_their_correlation(solver):
    basis = np.linalg.qr(np.column_stack([np.ones(20), X]))[0][:, 1:]
    scale = np.array([1e-2, 1, 3, 1e2, 1, 7])
    best = fit(basis * scale, 5 + basis @ np.array([3.0, 0.5, -2, 4, 0.2, -1]), 3, solver, weights=np.ones(20))
    assert_close(best.params.coef * scale, np.array([3.0, 0, -2, 4, 0, 0]), f32=1e-4)
    assert_close(best.params.intercept, 5.0, f32=1e-5)
    assert_close(best.objective, (0.5**2 + 0.2**2 + 1) / 2, f32=1e-4)
    assert float(best.residual) < 1e-6


@pytest.mark.sample(4)
@every_solver
def test_scales_and_useless_columns_do_not_matter(solver):
    scale = np.array([1e-5, 1.0, 1e4, 1.0, 20.0, 1e-3])
    assert_close(fit(X * scale, Y, 2, solver).params.coef * scale, fit(X, Y, 2, solver).params.coef, f32=1e-4)
    useless = np.column_stack([np.full(20, 7.3), X[:, 0], X[:, 1], X[:, 0], 2 * X[:, 1], np.zeros(20)])
    for k in (2, 6):
        best = fit(useless, Y, k, solver)
        if k == 6 or solver != "iht":  # to a threshold, duplicates are as good as two columns
            assert_close(best.objective, loss_on(X, Y, V, (0, 1)), f32=1e-4)
        assert int((best.params.coef != 0).sum()) <= 2
        assert float(best.params.coef[0]) == float(best.params.coef[5]) == 0.0


@pytest.mark.x64
@pytest.mark.parametrize("solver", ["swaps", *(pytest.param(s, marks=pytest.mark.slow) for s in SOLVERS[1:])])
def test_lanes_of_size_fold_and_target_equal_single_fits(solver):
    targets = np.column_stack([Y, np.sin(3 * Y) + X[:, 2]])
    folds = V * (np.arange(20) % 3 != np.arange(2)[:, None])
    over_sizes = jax.vmap(
        lambda k, w: regjax.best_subset(X, targets, k, weights=w, solver=solver, max_k=6), (0, None)
    )  # fmt: skip
    grid = jax.vmap(over_sizes, (None, 0))(jnp.arange(4), folds)
    assert grid.params.coef.shape == (2, 4, 6, 2)
    for f, k in itertools.product(range(2), range(4)):
        alone = [fit(X, targets[:, t], k, solver, folds[f]) for t in range(2)]
        assert_close(grid.params.coef[f, k], jnp.stack([one.params.coef for one in alone], axis=1))
        assert_close(grid.objective[f, k], alone[0].objective + alone[1].objective)


@pytest.mark.x64
@every_solver
def test_the_ends_of_k(solver):
    empty = fit(X, Y, 0, solver)
    assert not np.any(empty.params.coef)
    assert_close(empty.params.intercept, V @ Y / V.sum())
    root = np.sqrt(V)[:, None]
    least = np.linalg.lstsq(root * np.column_stack([np.ones(20), X]), root[:, 0] * Y)[0]
    assert_close(fit(X, Y, 6, solver).params.coef, least[1:])
    few = fit(X, Y, 6, solver, V * (np.arange(20) < 4))  # 4 samples: an intercept and 3 columns interpolate
    assert 0 < int((few.params.coef != 0).sum()) <= 3
    assert_close(few.params(X[:4]), Y[:4])
    constant = fit(X, np.full(20, 3.0), 2, solver)
    assert not np.any(constant.params.coef)
    assert_close(constant.params.intercept, 3.0)


@pytest.mark.once
def test_inside_jit_bad_sizes_and_data_get_a_status():
    run = jax.jit(lambda X, k, v: regjax.best_subset(X, Y, k, weights=v, max_k=2))
    assert int(run(X, 2, V).status) == Status.CONVERGED
    for k in (-1, 3):
        assert int(run(X, k, V).status) == Status.INVALID
        assert np.all(np.isnan(run(X, k, V).params.coef))
    assert int(run(jnp.asarray(X).at[0, 0].set(jnp.nan), 2, V).status) == Status.NON_FINITE
    assert int(run(X, 2, 0 * V).status) == Status.INVALID


def counts(rng):
    X = rng.normal(size=(60, 6))
    X[:, 1] += X[:, 0]
    return X, rng.poisson(np.exp(0.3 + 0.5 * X[:, 0] - 0.4 * X[:, 3] + 0.1 * X[:, 4])).astype(float)


def poisson_loss(X, y, v, columns):
    """Σ v (e^η − yη) at its minimum, by Newton's method in numpy."""
    Z, theta = np.column_stack([np.ones(len(y)), X[:, list(columns)]]), np.zeros(len(columns) + 1)
    for _ in range(30):
        mu = np.exp(Z @ theta)
        theta -= np.linalg.solve((Z.T * (v * mu)) @ Z, Z.T @ (v * (mu - y)))
    return np.sum(v * (np.exp(Z @ theta) - y * (Z @ theta)))


@pytest.mark.slow
@pytest.mark.sample(4)
@pytest.mark.x64
@pytest.mark.parametrize("solver", ["swaps", "exhaustive"])
def test_subsets_of_a_poisson_regression(solver):
    rng = np.random.default_rng(1)
    X, y = counts(rng)
    v = rng.uniform(0.5, 2, size=60)
    path = regjax.check(regjax.best_subset_path(X, y, 3, loss=Poisson(), weights=v, solver=solver))
    assert_close(path.objective, np.array(best_losses(X, y, v, poisson_loss)[:4]))
    assert np.all(path.residual < 1e-10)


@pytest.mark.slow
@pytest.mark.x64
@pytest.mark.parametrize("solver", ["omp", "iht"])
def test_other_solvers_take_losses_too(solver):
    X, y = counts(np.random.default_rng(1))
    fit = regjax.check(regjax.best_subset(X, y, 2, loss=Poisson(), solver=solver))
    columns = np.flatnonzero(fit.params.coef)
    assert_close(fit.objective, poisson_loss(X, y, np.ones(60), columns))


@pytest.mark.once
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda X, y: regjax.best_subset(X, y, -1), "k takes an integer between 0 and p = 3, got -1"),
        (lambda X, y: regjax.best_subset(X, y, 4), "k takes an integer between 0 and p = 3, got 4"),
        (lambda X, y: regjax.best_subset(X, y, 1.5), "k takes one integer between 0 and p = 3, got 1.5"),
        (lambda X, y: regjax.best_subset(X, y, True), "k takes one integer .* got True"),
        (lambda X, y: regjax.best_subset(X, y, "2"), "k takes one integer .* got '2'"),
        (
            lambda X, y: regjax.best_subset(X, y, jnp.array([1, 2])),
            r"k takes one integer .*\(use jax.vmap for a grid\)",
        ),
        (lambda X, y: jax.vmap(lambda k: regjax.best_subset(X, y, k))(jnp.ones(2)), "k takes one integer"),
        (lambda X, y: regjax.best_subset(X, y, 2, max_k=1), "k must not exceed max_k = 1, got 2"),
        (lambda X, y: regjax.best_subset(X, y, 2, max_k=4), "max_k takes an integer between 0 and p = 3.* got 4"),
        (lambda X, y: regjax.best_subset(X, y, 2, max_k=2.0), "max_k takes an integer .* got 2.0"),
        (lambda X, y: regjax.best_subset(X, y, 2, solver="lasso"), "solver must be one of swaps, .* got 'lasso'"),
        (lambda X, y: regjax.best_subset(X, y, 2, loss=3), "loss must be a loss of regjax.losses, got 3"),
        (lambda X, y: regjax.best_subset(X, y, 2, loss=Poisson()), "y of Poisson takes"),
        (lambda X, y: regjax.best_subset(X, y, 2, loss=regjax.losses.Quantile(0.5)), "which Quantile is not"),
        (lambda X, y: regjax.best_subset(X, y, 2, offset=jnp.ones(4)), r"offset has shape \(4,\)"),
        (lambda X, y: regjax.best_subset_path(X, y, 4), "max_k takes an integer between 0 and p = 3.* got 4"),
        (lambda X, y: regjax.best_subset_path(X, y, 1.5), "max_k takes an integer, at least 0, got 1.5"),
        (
            lambda X, y: regjax.best_subset(jnp.ones((3, 19)), y[:3], 2, solver="exhaustive"),
            "at most 18 columns, but X has 19: use swaps",
        ),
        (
            lambda X, y: regjax.best_subset(jnp.ones((3, 13)), jnp.ones(3), 2, solver="exhaustive", loss=Poisson()),
            "at most 12 columns, but X has 13: use swaps",
        ),
    ],
)
def test_bad_arguments_raise_and_are_named(call, message):
    X, y, _ = problem(12, 3)
    with pytest.raises(ValueError, match=message):
        call(X, y)
