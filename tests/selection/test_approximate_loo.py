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
from regjax.selection.influence import influence
from regjax.solvers.task import Task
from tests.problems import assert_close, problem

DATA = regjax.data.diabetes()
X = np.asarray((DATA.X - DATA.X.mean(0)) / DATA.X.std(0))
Y = np.asarray(DATA.y)
# λ as shares of the smallest that leaves nothing, and the mean errors of all 442 refits. Those of the lasso and the
# elastic net are by coordinate descent in numpy, at λ where the support of 35 and 9, 1 and 88 refits is another: where
# it is not, the step is exact.
CASES = {
    "lasso": (Squared(), Y, L1, [0.1, 0.01], [3090.3482, 2995.8010]),
    "elastic net": (Squared(), Y, lambda lam: ElasticNet(lam, lam / 2), [0.1, 0.01], [3938.3436, 3039.0124]),
    "poisson": (losses.Poisson(), np.round(Y / 20), L1, [0.3, 0.03], [1.1890604, 1.0473108]),
    "logistic": (losses.Logistic(), (np.median(Y) < Y).astype(float), L1, [0.3, 0.03], [1.0829145, 0.9897599]),
}


def arguments(name):
    loss, y, penalty, shares, refits = CASES[name]
    slopes = X.T @ np.asarray(loss.gradient(y, np.asarray(loss.start(jnp.mean(y)))))
    return (X, y, loss, penalty(jnp.abs(slopes).max() * jnp.array(shares))), refits


@pytest.mark.x64
@pytest.mark.sample(8)
@pytest.mark.parametrize("name", CASES)
def test_within_one_percent_of_refits(name):
    study, refits = arguments(name)
    loo = regjax.leave_one_out(*study)
    assert bool(loo.converged)
    np.testing.assert_allclose(loo.mean, refits, rtol=0.01)
    errors = np.asarray(loo.scores)
    assert_close(loo.mean, errors.mean(1))
    assert_close(loo.standard_error, errors.std(1, ddof=1) / np.sqrt(442))
    assert int(loo.best) == np.argmin(loo.mean)


@pytest.mark.x64
@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_the_refits(name):
    study, refits = arguments(name)
    np.testing.assert_allclose(regjax.cross_validate(*study, folds=442).mean, refits, rtol=1e-6)


def hessian(loss, y, eta):
    """∂²ℓ/∂η∂η of one sample, (t, t)."""
    if isinstance(loss, losses.Multinomial):
        share = np.exp(eta) / np.exp(eta).sum()
        return np.diag(share) - np.outer(share, share)
    return np.diag(np.abs(y - eta) <= 1.0 if isinstance(loss, losses.Huber) else np.exp(eta))


NEWTON = {"poisson": losses.Poisson(), "multinomial": losses.Multinomial(), "huber": losses.Huber(1.0)}


@pytest.mark.once
@pytest.mark.parametrize("loss", NEWTON.values(), ids=NEWTON)
def test_is_one_newton_step_on_the_support(loss):
    """By numpy. The point need not be a minimum: only the slope of the sample that leaves makes the step."""
    X, _, v = (np.array(a) for a in problem(9, 3))
    t = 3 if loss.coupled else 1
    y = np.eye(3)[np.arange(9) % 3] if loss.coupled else np.arange(9.0)[:, None] % 4
    rng = np.random.default_rng(0)
    point = rng.normal(size=(4, t)) * 0.3
    point[2, 0] = 0.0  # the first coefficient of the second column is not in the support
    l2 = 0.7
    task = Task(*map(jnp.asarray, (X, y, np.zeros((9, t)), v, 1.0)), loss)

    @jax.jit
    def found(task, point):
        at = influence(task, ElasticNet(1.0, l2), point)
        return loss.visible(at.left_out()), at.degrees_of_freedom

    left_out, freedom = found(task, jnp.asarray(point))
    Z = np.column_stack([np.ones(9), X])
    eta = Z @ point
    free = np.ones((4, t), bool)
    free[2, 0] = False
    rows = np.einsum("ij,st->isjt", Z, np.eye(t)).reshape(9, t, -1)[..., free.ravel()]
    bends = [v[i] * hessian(loss, y[i], eta[i]) for i in range(9)]
    mean = np.exp(eta) / np.exp(eta).sum(1, keepdims=True) if loss.coupled else np.exp(eta)
    slopes = v[:, None] * (np.clip(eta - y, -1, 1) if isinstance(loss, losses.Huber) else mean - y)
    ridge = np.diag(np.broadcast_to(l2 * (np.arange(4) > 0)[:, None], (4, t))[free])
    whole = ridge + sum(rows[i].T @ bends[i] @ rows[i] for i in range(9))
    for i in range(9):
        without = whole - rows[i].T @ bends[i] @ rows[i]
        step = np.linalg.lstsq(without, rows[i].T @ slopes[i], rcond=None)[0]
        assert_close(left_out[i], loss.visible(eta[i] + rows[i] @ step), f64=1e-7, f32=1e-2)
    trace = np.trace(np.linalg.lstsq(whole, whole - ridge, rcond=None)[0])
    assert_close(freedom, trace)


@pytest.mark.once
@pytest.mark.sample(4)
@pytest.mark.parametrize("shape", [(20, 3), pytest.param((8, 12), marks=pytest.mark.slow)])
def test_exact_for_quadratic_penalties(shape):
    """The general formula, which serves where there are factors, and that of linear smoothers."""
    X, y, v = problem(*shape)
    v = v.at[1].set(0.0)
    lams = jnp.array([0.5, 4.0])
    options = dict(weights=v, offset=jnp.linspace(-1, 1, shape[0]), intercept=shape[0] > shape[1])
    general = regjax.leave_one_out(X, y, Squared(), L2(lams, jnp.ones(shape[1])), **options)
    special = regjax.leave_one_out(X, y, Squared(), L2(lams), **options)
    kept = np.asarray(v) > 0
    assert_close(general.predictions[:, kept], special.predictions[:, kept], f32=1e-2)
    assert_close(general.mean, special.mean, f32=1e-2)
    assert_close(special.mean, (np.asarray(y - special.predictions) ** 2 @ np.asarray(v)) / v.sum(), f32=1e-2)


@pytest.mark.once
def test_models_that_are_linear_in_y():
    X, y, v = problem(15, 2)
    lams = jnp.array([0.3, 3.0])
    found = regjax.leave_one_out(
        X, y, Squared(), lams, model=lambda X, y, lam, v: regjax.kernel_ridge(RBF(2.0), X, y, lam, weights=v), weights=v
    )
    exact = jax.vmap(lambda lam: regjax.kernel_loo_residuals(RBF(2.0), X, y, lam, weights=v))(lams)
    assert_close(y - found.predictions, exact, f32=1e-2)


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.x64
def test_two_classes_by_two_predictors():
    """Multinomial with ‖W‖² is logistic with half of it in the difference."""
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
        (dict(loss=losses.Huber(1.0), model=lambda *a: None, penalties=jnp.ones(1)), "depends on y everywhere"),
        (dict(simpler="bigger"), "simpler must be"),
        (dict(score="auc"), "score must be"),
        (dict(y=np.ones(5)), "y has 5 samples"),
        (dict(penalties=L1(jnp.array([-1.0]))), "strengths of penalties must be non-negative"),
        (dict(penalties=regjax.penalties.L2Ball(jnp.ones(1))), "penalised form"),
    ],
)
def test_bad_arguments(arguments, words):
    X, y, _ = problem(12, 3)
    with pytest.raises(ValueError, match=words):
        regjax.leave_one_out(**{"X": X, "y": y, "loss": Squared(), "penalties": L1(jnp.ones(1))} | arguments)
