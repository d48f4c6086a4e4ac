"""Generalized linear models against R's glm and glmnet's polished solutions."""

import jax.numpy as jnp
import numpy as np
import pytest

import regjax
from regjax import losses
from regjax.penalties import ElasticNet, MultiTask, PlusL2, Zero
from tests.models.test_sparse_reference import columns, design
from tests.problems import REFERENCE, assert_close, reference

GLM = reference("glm_reference.json")


def family(case):
    name, link = case.get("family"), case.get("link")
    if name is None:
        return losses.NegativeBinomial(1 / case["theta"])
    if name == "poisson":
        return losses.Poisson(link)
    if name == "Gamma":
        return losses.Gamma(link)
    if name == "inverse.gaussian":
        return losses.InverseGaussian("log" if link == "log" else "inverse_square")
    if name == "gaussian":
        return losses.Gaussian(link)
    if name == "Tweedie":
        return losses.Tweedie(1.5)
    return losses.NegativeBinomial(1 / 1.3) if name.startswith("Negative") else losses.Binomial(link)


@pytest.mark.sample(24)
@pytest.mark.x64
@pytest.mark.parametrize("name", GLM)
def test_equals_r_glm(name):
    case = GLM[name]
    loss = family(case)
    X, y = np.array(case["X"], float)[:, 1:], np.array(case["y"], float)
    weights, offset = (np.array(case[k], float) if case.get(k) else None for k in ("prior_weights", "offset"))
    fit = regjax.fit(X, y, loss, Zero(), weights=weights, offset=offset)
    assert bool(fit.converged)
    found = np.concatenate([[fit.params.intercept], fit.params.coef])
    truth = np.array(case["coef_polished"] if "coef_polished" in case else case["coef"], float)
    assert_close(found, truth, f64=1e-9)
    if "se" not in case:  # the dispersion was fitted as well
        return
    result = regjax.inference(X, y, fit, loss, weights=weights, offset=offset)
    errors = np.concatenate([[result.standard_errors.intercept], result.standard_errors.coef])
    estimated = case["family"] == "quasibinomial" or case["family"].startswith("Negative")
    scale = np.sqrt(case["dispersion"]) if estimated else 1.0  # R scales these by a dispersion that is 1 here
    assert_close(errors * scale / np.array(case["se"], float), np.ones_like(errors), f64=1e-8)
    assert_close(result.deviance, case["deviance"], f64=1e-8)
    assert_close(result.null_deviance, case["null_deviance"], f64=1e-8)
    assert int(result.degrees_of_freedom) == case["df_residual"]
    if estimated or not loss.dispersion_known:
        assert_close(result.pearson, case["dispersion"], f64=2e-8)
    if case["aic"] is not None:
        assert_close(result.aic, case["aic"], f64=1e-8)
        assert_close(result.log_likelihood, case["loglik"], f64=1e-8)


GLMNET = reference("glmnet/glmnet_reference.json")
FAMILIES = {
    "binomial": losses.Logistic(),
    "poisson": losses.Poisson(),
    "poisson()": losses.Poisson(),
}
ELEMENTWISE = [name for name, case in GLMNET.items() if case["family"] in FAMILIES]


def glmnet_arguments(case):
    """glmnet's objective is a weighted mean and rescales factors: multiply by n to get ours."""
    data, args = columns(case["data"]), case["args"]
    X = design(data)
    n, p = X.shape
    v = data[args["weights"]] if "weights" in args else np.ones(n)
    y = data[case["y"]] if case["y"] in data.dtype.names else data["succ"] / data["trials"]
    v = v * (1 if case["y"] in data.dtype.names else data["trials"])
    factors = np.array(args.get("penalty.factor", np.ones(p)), float)
    factors = factors * p / factors.sum()
    for excluded in args.get("exclude", []):
        factors[excluded - 1] = np.inf
    lams, alpha = np.array(case["lambda"], float), args["alpha"]
    lams = jnp.asarray(np.pad(lams, (0, 10 - len(lams)), mode="edge"))  # cases of one shape compile once
    v = v * n / v.sum()
    size = np.ones(p)
    if args.get("standardize", True):
        size = np.sqrt(np.average((X - np.average(X, axis=0, weights=v)) ** 2, axis=0, weights=v))
    options = dict(
        weights=v,
        offset=data["offset"] if args.get("offset") else np.zeros(n),
        intercept=args.get("intercept", True),
        lower=args.get("lower.limits"),
        upper=args.get("upper.limits"),
    )
    return X / size, size, y, n * lams * alpha, n * lams * (1 - alpha), factors, options


@pytest.mark.sample(36)
@pytest.mark.x64
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_equals_glmnet(name):
    case = GLMNET[name]
    X, size, y, l1, l2, factors, options = glmnet_arguments(case)
    fits = regjax.path(X, y, FAMILIES[case["family"]], ElasticNet(l1, l2, factors), **options)
    assert bool(fits.converged.all())
    found = np.column_stack([fits.params.intercept, fits.params.coef / size])
    assert_close(found[: len(case["lambda"])], np.array(case["coef_polished"], float), f64=1e-8)
    assert float(fits.gap.max()) < 1e-10


MULTINOMIAL = [name for name, case in GLMNET.items() if case["family"] == "multinomial"]
COX = [name for name, case in GLMNET.items() if case["family"] == "cox"]


@pytest.mark.sample(6)
@pytest.mark.x64
@pytest.mark.parametrize("name", MULTINOMIAL)
def test_multinomial_equals_glmnet(name):
    case = GLMNET[name]
    X, size, _, l1, l2, _, _ = glmnet_arguments({**case, "y": "yclass"})
    labels = columns(case["data"])["yclass"].astype(int) - 1
    grouped = case["args"].get("type.multinomial") == "grouped"
    penalty = PlusL2(MultiTask(l1), l2) if grouped else ElasticNet(l1, l2)
    fits = regjax.path(X, np.eye(3)[labels], losses.Multinomial(), penalty)
    assert bool(fits.converged.all())
    truth = np.moveaxis(np.array(list(case["coef_polished"].values()), float), 0, -1)
    used = len(case["lambda"])
    intercept = fits.params.intercept - fits.params.intercept.mean(axis=1, keepdims=True)
    assert_close(intercept[:used], truth[:, 0], f64=1e-8)
    assert_close((fits.params.coef / size[:, None])[:used], truth[:, 1:], f64=1e-8)
    assert float(fits.gap.max()) < 1e-10


@pytest.mark.sample(6)
@pytest.mark.x64
@pytest.mark.parametrize("name", COX)
def test_cox_equals_glmnet(name):
    case = GLMNET[name]
    X, size, _, l1, l2, factors, options = glmnet_arguments({**case, "y": "status"})
    data = columns(case["data"])
    y = np.column_stack([data["time" if "noties" in name else "time_ties"], data["status"]])
    fits = regjax.path(X, y, losses.Cox(), ElasticNet(l1, l2, factors), offset=options["offset"])
    assert bool(fits.converged.all())
    assert_close((fits.params.coef / size)[: len(case["lambda"])], np.array(case["coef_polished"], float), f64=1e-8)


@pytest.mark.sample(8)
@pytest.mark.x64
@pytest.mark.parametrize("ties", ["efron", "breslow"])
def test_equals_coxph(ties):
    case = reference("cox_reference.json")[ties]
    data = columns("d1")
    fit = regjax.cox_regression(design(data), data["time_ties"], data["status"], ties=ties)
    assert bool(fit.converged)
    assert_close(fit.params.coef, np.array(case["coef"], float), f64=1e-9)
    y = np.column_stack([data["time_ties"], data["status"]])
    result = regjax.inference(design(data), y, fit, losses.Cox(ties))
    assert_close(result.standard_errors.coef / np.array(case["se"], float), np.ones(8), f64=1e-8)
    null, best = case["loglik"]
    assert_close(result.log_likelihood, float(best), f64=1e-9)
    assert_close(result.null_deviance - result.deviance, 2 * float(best - null), f64=1e-8)
    assert_close(result.aic, 16 - 2 * float(best), f64=1e-9)
    assert int(result.degrees_of_freedom) == int(data["status"].sum()) - 8
    # a number added to a column changes nothing, and a constant column, which says nothing, has coefficient 0
    far = regjax.cox_regression(design(data) + 1e4 * np.arange(8), data["time_ties"], data["status"], ties=ties)
    assert_close(far.params.coef, fit.params.coef, f64=1e-8)
    constant = np.where(np.arange(8) == 2, 7.3, design(data))
    without = regjax.cox_regression(constant, data["time_ties"], data["status"], ties=ties)
    assert bool(without.converged)
    assert float(without.params.coef[2]) == 0 == float(without.params.intercept)


def csv(name):
    if name == "d1":
        return columns(name)
    if name == "engel":
        data = regjax.data.engel()
        return {"income": np.asarray(data.X)[:, 0], "foodexp": np.asarray(data.y)}
    return np.genfromtxt(REFERENCE / f"{name}.csv", delimiter=",", names=True, deletechars="")


RLM = reference("rlm_reference.json")
RESPONSE = {"stackloss": "stack.loss", "phones": "calls", "engel": "foodexp", "d1": "y"}


def split(name):
    data = csv(name)
    names = list(data) if isinstance(data, dict) else list(data.dtype.names)
    kept = [n for n in names if (n[0] == "x" if name == "d1" else n != RESPONSE[name])]
    return np.column_stack([data[n] for n in kept]), np.asarray(data[RESPONSE[name]]), data


@pytest.mark.sample(24)
@pytest.mark.x64
@pytest.mark.parametrize("name", RLM)
def test_equals_rlm(name):
    case = RLM[name]
    X, y, data = split(case["data"].split()[0])
    intercept = "no intercept" not in case["data"]
    weights = data["w"] if "weights" in case["note"] else None
    scale = "proposal2" if "proposal 2" in case["note"] else "mad"
    fit = regjax.robust_regression(X, y, psi=case["psi"], scale=scale, weights=weights, intercept=intercept)
    assert bool(fit.converged)
    found = np.concatenate([[fit.params.intercept], fit.params.coef])[0 if intercept else 1 :]
    assert_close(found, np.array(case["coef"], float), f64=1e-8)
    assert_close(fit.params.scale, case["scale"], f64=1e-8)


QUANTREG = reference("quantreg_reference.json")


@pytest.mark.sample(12)
@pytest.mark.x64
@pytest.mark.parametrize("name", QUANTREG)
def test_equals_quantreg(name):
    case = QUANTREG[name]
    X, y, data = split(case["data"])
    weights = data["w"] if "weights" in case else np.ones(len(y))
    fit = regjax.quantile_regression(X, y, case["tau"], weights=weights)
    assert bool(fit.converged)
    truth = np.array(case["coef"], float)
    r = y - truth[0] - X @ truth[1:]
    objective = np.sum(weights * np.maximum(case["tau"] * r, (case["tau"] - 1) * r))
    assert_close(fit.objective, objective, f64=1e-9)
    if "objective" in case:
        assert_close(fit.objective, case["objective"], f64=1e-9)
