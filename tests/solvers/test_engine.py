"""The engine behind the lasso where its pieces meet: paths on a working set, and more than the set holds."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import regjax
from regjax import Status
from regjax.losses import Squared
from regjax.penalties import L1, Box, ElasticNet, Group, MultiTask
from regjax.solvers.certificate import Columns
from regjax.solvers.column_set import WHOLE
from tests.problems import assert_close, problem, tolerance


@pytest.mark.x64
def test_more_coefficients_than_the_working_set_holds():
    """An elastic net's support can exceed n, and all bounds of the engine: then all columns are swept."""
    rng = np.random.default_rng(0)
    n, p = 40, WHOLE + 76
    X, y = jnp.asarray(rng.normal(size=(n, p))), jnp.asarray(rng.normal(size=n))
    l1, l2 = 1e-3 * float(regjax.lam_max(X, y)), 50.0
    fit = regjax.elastic_net(X, y, l1, l2)
    assert bool(fit.converged)
    w = np.asarray(fit.params.coef)
    assert (w != 0).sum() > WHOLE // 2
    slope = np.asarray((X - X.mean(0)).T @ (y - fit.params(X))) - l2 * w
    # on the support the slope is l1·sign, off it no more than l1
    assert_close(slope[w != 0], l1 * np.sign(w[w != 0]), f64=1e-7)
    assert np.abs(slope).max() <= l1 * (1 + 1e-7)


@pytest.mark.sample(4)
@pytest.mark.parametrize("limits", [{}, {"lower": -0.0625, "upper": jnp.inf}], ids=["free", "limited"])
def test_a_path_on_the_working_set_is_optimal_at_every_lambda(limits):
    """More columns than are taken whole, some of them twice, one constant: the path grows its set chunk by chunk."""
    rng = np.random.default_rng(1)
    n, p = 60, WHOLE + 76
    X = rng.normal(size=(n, p))
    X[:, 7], X[:, 8], X[:, 9] = X[:, 5], 2 * X[:, 6], 3.0
    y = X[:, :5] @ np.array([3.0, -2.0, 1.5, 1.0, -1.0]) + X[:, 5] + 0.5 * rng.normal(size=n)
    X, y = jnp.asarray(X), jnp.asarray(y)
    lams = jnp.append(regjax.lam_grid(X, y, num=24, ratio=0.02, **limits), 0)
    fits = regjax.lasso_path(X, y, lams, **limits)
    assert bool(fits.converged.all())
    assert int(fits.num_iter.max()) < 100  # sweeps: λ = 0, where all columns are free, sends no lane elsewhere
    Xc, yc = (np.asarray(a, float) - np.asarray(a, float).mean(0) for a in (X, y))
    assert (np.asarray(fits.params.coef[-1]) != 0).sum() > 20
    for w, lam in zip(np.asarray(fits.params.coef, float), np.asarray(fits.lam, float), strict=True):
        slope, slip = (yc - Xc @ w) @ Xc, tolerance(1e-9, 2e-3) * float(fits.lam[0])
        held = w <= limits.get("lower", -np.inf)
        assert w[9] == 0
        assert np.all(w >= limits.get("lower", -np.inf))
        assert np.all(np.abs(slope[(w != 0) & ~held] - lam * np.sign(w[(w != 0) & ~held])) <= slip)
        assert np.all(slope[held] <= -lam + slip)
        assert np.all(np.abs(slope[w == 0]) <= lam + slip)


@pytest.mark.sample(4)
@pytest.mark.x64
@pytest.mark.parametrize("l2", [0.0, 5.0])
def test_lanes_between_two_solutions_are_read_off_where_the_tolerance_allows(l2):
    """No sweep is spent on them, and they are within the tolerance all the same; a fine one hardly leaves any out."""
    rng = np.random.default_rng(2)
    n, p = 80, WHOLE + 76
    X, y = rng.normal(size=(n, p)), rng.normal(size=n)
    X[:, 1:] += X[:, :-1]
    y = y + X[:, ::200].sum(1)
    X, y = X - X.mean(0), y - y.mean()
    lams = np.abs(y @ X).max() * np.geomspace(1, 0.05, 60)

    def gaps(fits):
        """From the residual as dual point: scaled for the lasso, as it is where l2 makes every point feasible."""
        W = np.asarray(fits.params.coef)
        R = y - W @ X.T
        scale = np.minimum(1, lams / np.abs(R @ X).max(1))[:, None] if l2 == 0 else np.ones((len(lams), 1))
        over = np.maximum(np.abs(R @ X) - lams[:, None], 0)
        conjugate = 0 if l2 == 0 else (over**2).sum(1) / (2 * l2)
        primal = (R**2).sum(1) / 2 + lams * np.abs(W).sum(1) + l2 / 2 * (W**2).sum(1)
        return (primal - (y**2).sum() / 2 + ((y - scale * R) ** 2).sum(1) / 2 + conjugate) / ((y**2).sum() / 2)

    for tol, least, most in ((1e-3, 10, 40), (1e-12, 50, 60)):
        fits = regjax.elastic_net_path(jnp.asarray(X), jnp.asarray(y), jnp.asarray(lams), l2, tol=tol)
        assert bool(fits.converged.all())
        assert np.all(gaps(fits) <= tol + 1e-14)
        assert np.abs(np.asarray(fits.gap) - gaps(fits)).max() <= 1e-13  # objectives differ by their rounding
        assert least <= (np.asarray(fits.num_iter) > 0).sum() <= most


@pytest.mark.slow
@pytest.mark.x64
def test_a_path_from_a_dense_start():
    """It does not make the working set too small: as many sweeps as without, and exact."""
    rng = np.random.default_rng(3)
    n, p = 30, 4 * WHOLE
    X, y = jnp.asarray(rng.normal(size=(n, p))), jnp.asarray(1e-5 * rng.normal(size=n))
    lams = regjax.lam_grid(X, y, num=9, ratio=0.02)
    plain = regjax.lasso_path(X, y, lams, tol=1e-4)
    fits = regjax.lasso_path(X, y, lams, tol=1e-4, init=jnp.ones(p))
    assert bool(fits.converged.all())
    assert int(fits.num_iter.sum()) <= 2 * int(plain.num_iter.sum())
    Xc, yc = (np.asarray(a) - np.asarray(a).mean(0) for a in (X, y))
    for w, lam in zip(np.asarray(fits.params.coef), np.asarray(lams), strict=True):
        residual = yc - Xc @ w
        theta = residual * min(1, lam / np.abs(residual @ Xc).max())
        dual = (yc @ yc - (yc - theta) @ (yc - theta)) / 2
        assert residual @ residual / 2 + lam * np.abs(w).sum() - dual <= 1e-4 * (yc @ yc) / 2


@pytest.mark.slow
def test_limits_far_away_are_as_good_as_none():
    """The conjugate counts every slope beyond its strength times the limit, and rounding is not to be counted."""
    limit = 9.9e35  # no limit at all, in glmnet
    X, y, _ = problem(40, 12, seed=5)
    lams = regjax.lam_grid(X, y, num=4, ratio=1e-3)
    fits = regjax.lasso_path(X, y, lams, lower=-limit, upper=limit)
    assert bool(fits.converged.all())
    assert_close(fits.params.coef, regjax.lasso_path(X, y, lams).params.coef)
    box = regjax.fit(X, y, Squared(), Box(-limit, limit))
    assert bool(box.converged)
    assert_close(box.params.coef, regjax.ols(X, y).params.coef)


def least_gap(X, Y, W, value, scale, conjugate):
    """Primal minus dual over the null objective at θ = s(Y − XW), s as large as the domain of P* allows."""
    residual = Y - X @ W
    pull = X.T @ residual
    theta = scale(pull) * residual
    primal = (residual**2).sum() / 2 + value(W)
    dual = (Y * theta).sum() - (theta**2).sum() / 2 - conjugate(scale(pull) * pull)
    return (primal - dual) / ((Y**2).sum() / 2)


GROUPS = (0, 0, 1, 1, 2, 2)
FAMILY = {
    "lasso": (L1(2.0), lambda W: 2 * np.abs(W).sum(), lambda Z: min(1, 2 / np.abs(Z).max()), lambda Z: 0),
    "elastic net": (
        ElasticNet(2.0, 3.0),
        lambda W: 2 * np.abs(W).sum() + 1.5 * (W**2).sum(),
        lambda Z: 1,
        lambda Z: (np.maximum(np.abs(Z) - 2, 0) ** 2).sum() / 6,
    ),
    "groups": (
        Group(2.0, GROUPS),
        lambda W: 2 * np.sqrt(2) * np.linalg.norm(W.reshape(3, 2), axis=1).sum(),
        lambda Z: min(1, 2 * np.sqrt(2) / np.linalg.norm(Z.reshape(3, 2), axis=1).max()),
        lambda Z: 0,
    ),
    "rows": (
        MultiTask(2.0),
        lambda W: 2 * np.linalg.norm(W, axis=1).sum(),
        lambda Z: min(1, 2 / np.linalg.norm(Z, axis=1).max()),
        lambda Z: 0,
    ),
}


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", FAMILY)
def test_the_gap_of_a_point_far_from_optimal_is_true(name):
    penalty, *parts = FAMILY[name]
    X, y, _ = problem(30, 6, seed=2)
    Y = jnp.stack([y, y**2], axis=1) if name == "rows" else y[:, None]
    y = Y if name == "rows" else y
    fit = regjax.fit(X, y, Squared(), penalty, intercept=False, solver="ista", max_iter=2, tol=0.0)
    assert int(fit.num_iter) == 2
    W = np.asarray(fit.params.coef, float).reshape(6, -1)
    true = least_gap(np.asarray(X, float), np.asarray(Y, float), W, *parts)
    assert true > 1e-3
    assert_close(fit.gap, true, f64=1e-9, f32=1e-4)


@pytest.mark.sample(4)
@pytest.mark.parametrize("solver", ["ista", "fista", "coordinate_descent"])
def test_one_step_is_exact_for_orthonormal_columns(solver):
    rng = np.random.default_rng(0)
    X, y = np.linalg.qr(rng.normal(size=(30, 6)))[0], rng.normal(size=30)
    moments = X.T @ y
    fit = regjax.lasso(jnp.asarray(X), jnp.asarray(y), 0.4, intercept=False, solver=solver, max_iter=1)
    assert int(fit.num_iter) == 1
    assert_close(fit.params.coef, np.sign(moments) * np.maximum(np.abs(moments) - 0.4, 0), f64=1e-12, f32=1e-5)


@pytest.mark.once
def test_the_certificate_of_data_that_are_not_numbers_is_none():
    """In many lanes too: the largest of several at once loses what is NaN."""
    X, y, _ = problem(10, 1100)
    columns = Columns(X.at[2, 3].set(jnp.nan), y[:, None])
    proof = jax.jit(jax.vmap(lambda lam, W: columns.certify(L1(lam), W)))(jnp.ones(6), jnp.zeros((6, 1100, 1)))
    assert np.all(np.isnan(proof.residual))
    assert np.all(np.isnan(proof.error))


@pytest.mark.slow
@pytest.mark.x64
def test_a_strength_that_is_not_a_number_stays_in_its_lane():
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(20, WHOLE + 76)), rng.normal(size=20)
    lams = float(regjax.lam_max(X, y)) * np.array([0.05, 0.7, 0.3, 0.28, 0.2])
    path = jax.jit(jax.vmap(lambda X, lam: regjax.lasso(X, y, lam), (None, 0)))
    good, lost = path(X, lams), path(X, np.where(np.arange(5) == 2, np.nan, lams))
    rest = np.arange(5) != 2
    assert np.asarray(lost.status).tolist() == np.where(rest, Status.CONVERGED, Status.INVALID).tolist()
    assert_close(lost.params.coef[rest], good.params.coef[rest])
