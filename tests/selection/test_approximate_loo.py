"""Leave-one-out without refits against refits, and against itself where it is exact."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import regjax
from regjax import losses
from regjax.kernels import RBF
from regjax.losses import Squared
from regjax.penalties import L1, L2, ElasticNet
from tests.problems import assert_close, problem

DATA = regjax.data.diabetes()
X = np.asarray((DATA.X - DATA.X.mean(0)) / DATA.X.std(0))
Y = np.asarray(DATA.y)
# λ as shares of the smallest that leaves nothing
CASES = {
    "lasso": (Squared(), Y, L1),
    "logistic": (losses.Logistic(), (Y > np.median(Y)).astype(float), L1),
    "elastic net": (Squared(), Y, lambda lam: ElasticNet(lam, lam / 2)),
    "poisson": (losses.Poisson(), np.round(Y / 20), L1),
}


def compare(name, left_out):
    """Mean errors of these samples, predicted without refits and with them: (L,) each."""
    loss, y, penalty = CASES[name]
    slopes = X.T @ np.asarray(loss.gradient(y, np.asarray(loss.start(jnp.mean(y)))))
    penalties = penalty(jnp.abs(slopes).max() * jnp.array([0.3, 0.03]))
    folds = np.full(len(y), -1)
    folds[left_out] = np.arange(len(left_out))
    refits = regjax.cross_validate(X, y, loss, penalties, folds=folds)
    loo = regjax.leave_one_out(X, y, loss, penalties)
    assert bool(refits.converged)
    assert bool(loo.converged)
    return loo, np.mean(np.asarray(loo.scores)[:, left_out], axis=1), np.asarray(refits.mean)


@pytest.mark.x64
@pytest.mark.sample(2)
@pytest.mark.parametrize("name", CASES)
def test_within_one_percent_of_refits(name):
    loo, without, refits = compare(name, np.arange(0, 442, 15))
    np.testing.assert_allclose(without, refits, rtol=0.01)
    errors = np.asarray(loo.scores)
    assert_close(loo.mean, errors.mean(1))
    assert_close(loo.standard_error, errors.std(1, ddof=1) / np.sqrt(442))
    assert int(loo.best) == np.argmin(loo.mean)


@pytest.mark.x64
@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_within_one_percent_of_all_refits(name):
    loo, _, refits = compare(name, np.arange(442))
    np.testing.assert_allclose(loo.mean, refits, rtol=0.01)


@pytest.mark.parametrize("shape", [(20, 3), (8, 12)])
def test_exact_for_quadratic_penalties(shape):
    """By the general formula (as there are factors) and by that of linear smoothers: with weights, offset, no intercept."""
    X, y, v = problem(*shape)
    v = v.at[1].set(0.0)
    offset = jnp.linspace(-1, 1, shape[0])
    lams = jnp.array([0.5, 4.0])
    keywords = dict(weights=v, offset=offset, intercept=shape[0] > shape[1])
    general = regjax.leave_one_out(X, y, Squared(), L2(lams, jnp.ones(shape[1])), **keywords)
    special = regjax.leave_one_out(X, y, Squared(), L2(lams), **keywords)
    kept = np.asarray(v) > 0
    assert_close(general.predictions[:, kept], special.predictions[:, kept], f32=1e-2)
    assert_close(general.mean, special.mean, f32=1e-2)
    keywords.pop("offset")
    residuals = jax.vmap(lambda lam: regjax.loo_residuals(X, y - offset, lam, **keywords))(lams)
    assert_close(y - special.predictions, residuals)
    assert_close(special.mean, (np.asarray(residuals) ** 2 @ np.asarray(v)) / v.sum(), f32=1e-2)


def test_models_that_are_linear_in_y():
    X, y, v = problem(15, 2)
    lams = jnp.array([0.3, 3.0])
    found = regjax.leave_one_out(
        X, y, Squared(), lams, model=lambda X, y, lam, v: regjax.kernel_ridge(RBF(2.0), X, y, lam, weights=v), weights=v
    )
    exact = jax.vmap(lambda lam: regjax.kernel_loo_residuals(RBF(2.0), X, y, lam, weights=v))(lams)
    assert_close(y - found.predictions, exact, f32=1e-2)


@pytest.mark.x64
def test_smoothing_spline():
    x, lam = np.linspace(0, 3, 12), 0.05
    y = np.sin(2 * x) + 0.1 * np.cos(20 * x)
    found = regjax.leave_one_out(
        x, y, Squared(), jnp.array([lam]), model=lambda x, y, lam, v: regjax.smoothing_spline(x, y, lam, weights=v)
    )
    refit = jax.jit(lambda v: regjax.smoothing_spline(x, y, lam, weights=v).params(x))
    expected = [refit(1.0 - (np.arange(12) == i))[i] for i in range(12)]
    assert_close(found.predictions[0], np.array(expected), f64=1e-7)


@pytest.mark.x64
def test_two_classes_by_two_predictors():
    """Multinomial with ‖W‖² is logistic with half of it in the difference: blocks of predictors, and a model's derivative."""
    X, y, v = problem(20, 2)
    y = (y > 0.7).astype(float)
    lams = jnp.array([0.5, 2.0])
    both = regjax.leave_one_out(X, jnp.stack([1 - y, y], 1), losses.Multinomial(), L2(lams), weights=v, tol=1e-14)
    one = regjax.leave_one_out(X, y, losses.Logistic(), L2(lams / 2), weights=v)
    assert_close(both.predictions[..., 1] - both.predictions[..., 0], one.predictions, f64=1e-5)
    assert_close(both.mean, one.mean, f64=1e-5)


@pytest.mark.once
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (dict(loss=losses.Quantile(0.5)), "smooth and a sum over samples, not Quantile"),
        (dict(simpler="bigger"), "simpler must be"),
        (dict(score="auc"), "score must be"),
        (dict(y=np.ones(5)), "y has 5 samples"),
        (dict(penalties=L1(jnp.array([-1.0]))), "lam must be non-negative"),
        (dict(penalties=regjax.penalties.L2Ball(jnp.ones(1))), "penalised form"),
    ],
)
def test_bad_arguments(arguments, words):
    X, y, _ = problem(12, 3)
    with pytest.raises(ValueError, match=words):
        regjax.leave_one_out(**{"X": X, "y": y, "loss": Squared(), "penalties": L1(jnp.ones(1))} | arguments)
