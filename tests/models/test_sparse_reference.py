"""Sparse models against glmnet's polished solutions and the exact knots of the lasso path."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import regjax
from regjax.losses import Squared
from regjax.penalties import L1, ElasticNet, MultiTask, PlusL2
from tests.problems import REFERENCE, assert_close, reference

GLMNET = reference("glmnet/glmnet_reference.json")
GAUSSIAN = [name for name, case in GLMNET.items() if case["family"] in ("gaussian", "gaussian()")]
MULTI = [name for name, case in GLMNET.items() if case["family"] == "mgaussian"]


def columns(name):
    return np.genfromtxt(REFERENCE / "glmnet" / f"{name}.csv", delimiter=",", names=True)


def design(data):
    names = [n for n in data.dtype.names if n[0] == "x"] or list(data.dtype.names[:-1])
    return np.column_stack([data[n] for n in names])


def solve_like_glmnet(case, targets):
    """glmnet's objective is a weighted mean, scales y inside and rescales factors: multiply by n to get ours."""
    data, args = columns(case["data"]), case["args"]
    X = design(data)
    n, p = X.shape
    y = np.column_stack([data[t] for t in targets]) if len(targets) > 1 else data[targets[0]]
    v = data[args["weights"]] if "weights" in args else np.ones(n)
    v = v * n / v.sum()
    offset = data["offset"] if args.get("offset") else None
    factors = np.ones(p)
    if "penalty.factor" in args:
        factors = np.array(args["penalty.factor"], float)
        factors = factors * p / factors.sum()
    for excluded in args.get("exclude", []):
        factors[excluded - 1] = np.inf
    intercept = args.get("intercept", True)
    lams, alpha = np.array(case["lambda"], float), args["alpha"]
    centred = y - (0 if offset is None else offset)
    mean = np.average(centred, axis=0, weights=v) if intercept else 0
    sd = np.sqrt(np.average((centred - mean) ** 2, axis=0, weights=v))
    scale_y = np.ones_like(sd)
    if args.get("standardize.response"):
        scale_y = sd
    ridge_scale = sd if case["family"] == "gaussian" else 1.0
    l1, l2 = n * lams * alpha, n * lams * (1 - alpha) / ridge_scale
    limits = {key: args.get(f"{key}.limits") for key in ("lower", "upper")}
    common = dict(weights=v, offset=offset, intercept=intercept, standardize=args.get("standardize", True), **limits)
    if len(targets) == 1:
        fits = regjax.path(X, y, Squared(), ElasticNet(jnp.asarray(l1), jnp.asarray(l2), factors), **common)
        return np.column_stack([fits.params.intercept, fits.params.coef]), fits
    common = {k: common[k] for k in ("weights", "offset", "intercept", "standardize")}
    penalty = PlusL2(MultiTask(jnp.asarray(l1), factors), jnp.asarray(l2))
    fits = regjax.path(X, y / scale_y, Squared(), penalty, **common)
    coef = np.concatenate([fits.params.intercept[:, None], fits.params.coef], axis=1) * scale_y
    return np.moveaxis(coef, -1, 0), fits


@pytest.mark.sample(24)
@pytest.mark.x64
@pytest.mark.parametrize("name", GAUSSIAN)
def test_gaussian_equals_glmnet(name):
    case = GLMNET[name]
    found, fits = solve_like_glmnet(case, ["target" if case["data"] == "diabetes" else "y"])
    truth = np.array(case["coef_polished"], float)
    first = 1 if name == "gauss_autolambda_a0" else 0  # glmnet fits its first λ at infinity there
    assert bool(fits.converged.all())
    assert_close(found[first:], truth[first:], f64=1e-9)


@pytest.mark.sample(8)
@pytest.mark.x64
@pytest.mark.parametrize("name", MULTI)
def test_multi_response_equals_glmnet(name):
    targets = ["Y1", "Y2", "Y3"]
    found, fits = solve_like_glmnet(GLMNET[name], targets)
    truth = np.array([GLMNET[name]["coef_polished"][target] for target in targets], float)
    assert bool(fits.converged.all())
    assert_close(found, truth, f64=1e-9)


KNOTS = reference("lasso_path_exact.json")


def unit_norm_data(name):
    """Centred y and columns of unit length, as the exact knots assume."""
    case = KNOTS[name]
    folder = {"glmnet": REFERENCE / "glmnet", "nist": REFERENCE / "nist"}.get(case["data"].split("/")[0], REFERENCE)
    data = np.genfromtxt(folder / case["data"].split("/")[-1], delimiter=",", names=True, dtype=None, encoding="utf8")
    X = np.column_stack([data[f] for f in case["features"]]).astype(float)
    X = X - X.mean(0)
    y = data[case["y"]].astype(float)
    return X / np.sqrt((X**2).sum(0)), y - y.mean(), case["lasso"]


@pytest.mark.sample(6)
@pytest.mark.x64
@pytest.mark.parametrize("name", KNOTS)
def test_exact_knots(name):
    X, y, exact = unit_norm_data(name)
    lams = np.array(exact["lambda_"], float)
    coefs = np.array(exact["coef_unitnorm"], float)
    fits = regjax.lasso_path(X, y, lams)
    scale = np.abs(coefs).max()
    assert_close(fits.params.coef, coefs, f64=1e-9, scale=scale)
    # between two knots the path is a straight line
    middle = regjax.lasso_path(X, y, (lams[1:] + lams[:-1]) / 2)
    assert_close(middle.params.coef, (coefs[1:] + coefs[:-1]) / 2, f64=1e-9, scale=scale)


@pytest.mark.x64
def test_knots_one_by_one_equal_the_path():
    X, y, exact = unit_norm_data("diabetes")
    lams = jnp.array([float(s) for s in exact["lambda_"]])[1:-1]
    together = regjax.path(X, y, Squared(), L1(lams)).params.coef
    apart = jnp.stack([regjax.lasso(X, y, lam).params.coef for lam in lams])
    assert_close(together, apart, f64=1e-9)
    assert jax.tree.all(jax.tree.map(lambda a: bool(jnp.all(jnp.isfinite(a))), together))
