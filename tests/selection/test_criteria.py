"""Information criteria against R's, by hand, and along a path."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import comb

import regjax
from regjax import losses
from regjax.losses import Squared
from regjax.penalties import L2, ElasticNet, Zero
from tests.models.test_glm_reference import family
from tests.problems import assert_close, problem, reference

GLM = {name: case for name, case in reference("glm_reference.json").items() if case.get("aic") is not None}


def solution(coef):
    """A fit that R has made."""
    nothing = jnp.zeros(())
    return regjax.Solution(
        regjax.Linear(jnp.asarray(coef[1:]), jnp.asarray(coef[0])), jnp.zeros((), jnp.int32), nothing, nothing, nothing,
        nothing,
    )  # fmt: skip


@pytest.mark.x64
@pytest.mark.sample(16)
@pytest.mark.parametrize("name", GLM)
def test_equals_r(name):
    case = GLM[name]
    X, y = np.array(case["X"], float)[:, 1:], np.array(case["y"], float)
    v, offset = (np.array(case[k], float) if case.get(k) else None for k in ("prior_weights", "offset"))
    coef = np.array(case["coef_polished"] if "coef_polished" in case else case["coef"], float)
    found = regjax.information_criteria(X, y, family(case), solution(coef), weights=v, offset=offset)
    k = np.round((case["aic"] + 2 * case["loglik"]) / 2)
    n = len(y) if v is None else np.sum(v > 0)
    assert_close(found.num_parameters, k)
    assert_close(found.aic, case["aic"], f64=1e-8)
    assert_close(found.bic, k * np.log(n) - 2 * case["loglik"], f64=1e-8)
    assert_close(found.aicc, case["aic"] + 2 * k * (k + 1) / (n - k - 1), f64=1e-8)


def by_hand(X, residuals, v, k, gamma=0.5, active=0):
    """What R's AIC and BIC are for `lm`, σ² counted: errors of variance σ²/v, n samples of positive weight."""
    here = v > 0
    n = np.sum(here)
    rss = np.sum((v * residuals**2)[here])
    likelihood = -n / 2 * (np.log(2 * np.pi * rss / n) + 1) + np.sum(np.log(v[here])) / 2
    aic, bic = 2 * k - 2 * likelihood, np.log(n) * k - 2 * likelihood
    return aic, aic + 2 * k * (k + 1) / (n - k - 1), bic, bic + 2 * gamma * np.log(comb(X.shape[1], active))


@pytest.mark.once
def test_least_squares_with_weights():
    X, y, v = (np.array(a) for a in problem(30, 4))
    v[3], y[3] = 0, np.nan
    root = np.sqrt(v)[:, None]
    coef = np.linalg.lstsq(root * np.column_stack([np.ones(30), X]), root[:, 0] * np.nan_to_num(y), rcond=None)[0]
    fit = solution(coef)
    found = regjax.information_criteria(X, y, Squared(), fit, weights=v)
    expected = by_hand(X, y - np.asarray(fit.params(X)), v, 6, active=4)
    assert_close((found.aic, found.aicc, found.bic, found.ebic), expected)
    assert int(found.num_samples) == 29


@pytest.mark.once
def test_along_a_path():
    X, y, _ = (np.array(a) for a in problem(30, 5))
    X[:, 4] = X[:, 3]
    l2s = np.array([0.0, 0.0, 0.0, 2.0])
    net = ElasticNet(jnp.array([200.0, 3.0, 0.1, 3.0]), jnp.asarray(l2s))
    fits = regjax.path(X, y, Squared(), net)
    found = regjax.information_criteria(X, y, Squared(), fits, net)
    for i, w in enumerate(np.asarray(fits.params.coef)):
        active = (X - X.mean(0))[:, w != 0]
        s2 = np.linalg.svd(active, compute_uv=False) ** 2 if active.shape[1] else np.zeros(0)
        k = 2 + np.sum(s2[s2 > 1e-9] / (s2[s2 > 1e-9] + l2s[i]))
        eta = float(fits.params.intercept[i]) + X @ w
        expected = by_hand(X, y - eta, np.ones(30), k, active=np.sum(w != 0))
        assert_close(jax.tree.map(lambda a, i=i: a[i], (found.aic, found.aicc, found.bic, found.ebic)), expected)
    assert int(found.best("aic")) == np.argmin(found.aic)


@pytest.mark.once
def test_ridge_with_strengths_of_its_own():
    X, y, _ = (np.array(a) for a in problem(20, 3))
    lam = np.array([0.5, 2.0, 8.0])
    coef = np.linalg.solve(X.T @ X + np.diag(lam), X.T @ y)
    fit = solution(np.append(0.0, coef))
    found = regjax.information_criteria(X, y, Squared(), fit, L2(lam), intercept=False)
    assert_close(found.degrees_of_freedom, np.trace(X @ np.linalg.solve(X.T @ X + np.diag(lam), X.T)))


@pytest.mark.once
def test_bad_arguments():
    X, y, _ = problem(12, 3)
    fit = solution(np.ones(4))
    fits = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), fit)
    zero = jnp.zeros(1)
    for call, words in [
        (lambda: regjax.information_criteria(X, y, Squared(), fit.params), "solution takes"),
        (lambda: regjax.information_criteria(X, y, losses.Huber(1.0), fit), "likelihood"),
        (lambda: regjax.information_criteria(X, y[:5], Squared(), fit), "y has 5 samples"),
        (lambda: regjax.information_criteria(X, jnp.stack([y, y], 1), Squared(), fit), "one target"),
        (lambda: regjax.information_criteria(X, y, Squared(), fits, L2(jnp.ones(3))), "lengths"),
        (lambda: regjax.information_criteria(X, y, Squared(), fits, Zero()), "lengths"),
        (lambda: regjax.information_criteria(X, y, Squared(), fit, gamma=-1.0), "gamma"),
        (lambda: regjax.InformationCriteria(*[zero] * 8).best("cp"), "criterion"),
    ]:
        with pytest.raises(ValueError, match=words):
            call()
