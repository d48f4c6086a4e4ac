"""Bad and extreme inputs: a clear error outside jit, a status inside, and never a wrong number in silence."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import regjax
from regjax import Status, penalties
from regjax.kernels import RBF
from regjax.losses import Squared
from tests.problems import assert_close, problem

X, y, V = problem(12, 3)
rng = np.random.default_rng(0)

FITS = {
    "ols": lambda X, y, **k: regjax.ols(X, y, **k),
    "ridge": lambda X, y, **k: regjax.ridge(X, y, 0.5, **k),
    "tikhonov": lambda X, y, **k: regjax.tikhonov(X, y, 0.5, jnp.ones(3), **k),
    "ridge_ball": lambda X, y, **k: regjax.ridge_ball(X, y, 0.5, **k),
    "gradient_descent": lambda X, y, **k: regjax.gradient_descent(X, y, 1e-3, 10, **k),
    "bayes_linear": lambda X, y, **k: regjax.bayes_linear(X, y, 0.5, 1.0, **k),
    "sgd": lambda X, y, **k: regjax.sgd(X, y, Squared(), penalties.L2(0.5), num_epochs=3, **k),
    "bayes_linear_fit": lambda X, y, **k: regjax.bayes_linear_fit(X, y, **k),
    "loo_residuals": lambda X, y, **k: regjax.loo_residuals(X, y, 0.5, **k),
    "gcv": lambda X, y, **k: regjax.gcv(X, y, 0.5, **k),
    "kernel_ridge": lambda X, y, **k: regjax.kernel_ridge(RBF(1.0), X, y, 0.5, **k),
    "multi_kernel_ridge": lambda X, y, **k: regjax.multi_kernel_ridge([RBF(1.0)], X, y, jnp.ones(1), **k),
    "nadaraya_watson": lambda X, y, **k: regjax.nadaraya_watson(RBF(1.0), X, y, **k),
    "kernel_loo_residuals": lambda X, y, **k: regjax.kernel_loo_residuals(RBF(1.0), X, y, 0.5, **k),
    "kernel_gcv": lambda X, y, **k: regjax.kernel_gcv(RBF(1.0), X, y, 0.5, **k),
    "kernel_gradient_descent": lambda X, y, **k: regjax.kernel_gradient_descent(RBF(1.0), X, y, 1e-2, 10, **k),
    # Gaussian processes
    "gp": lambda X, y, **k: regjax.gp(regjax.kernels.RBF(1.0), X, y, 0.5, **k),
}
every_fit = pytest.mark.parametrize("fit", FITS.values(), ids=FITS)
SPARSE = {
    "lasso": lambda X, y, **k: regjax.lasso(X, y, 0.5, **k),
    "elastic_net": lambda X, y, **k: regjax.elastic_net(X, y, 0.5, 0.2, **k),
    "group_lasso": lambda X, y, **k: regjax.group_lasso(X, y, 0.5, _pairs(X), **k),
    "sparse_group_lasso": lambda X, y, **k: regjax.sparse_group_lasso(X, y, 0.5, 0.2, _pairs(X), **k),
    "multitask_lasso": lambda X, y, **k: regjax.multitask_lasso(X, y, 0.5, **k),
    "nonnegative_least_squares": lambda X, y, **k: regjax.nonnegative_least_squares(X, y, **k),
    "lasso_ball": lambda X, y, **k: regjax.lasso_ball(X, y, 0.5, **k),
    "adaptive_lasso": lambda X, y, **k: regjax.adaptive_lasso(X, y, 0.5, **k),
    "relaxed_lasso": lambda X, y, **k: regjax.relaxed_lasso(X, y, 0.5, 0.5, **k),
    "lasso_path": lambda X, y, **k: regjax.lasso_path(X, y, jnp.array([1.0, 0.5]), **k),
    "elastic_net_path": lambda X, y, **k: regjax.elastic_net_path(X, y, jnp.array([1.0, 0.5]), 0.2, **k),
    "path": lambda X, y, **k: regjax.path(X, y, Squared(), penalties.Group(jnp.array([1.0, 0.5]), _pairs(X)), **k),
    "path of stationary points": lambda X, y, **k: regjax.path(X, y, Squared(), penalties.MCP(jnp.ones(2)), **k),
    "lam_max": lambda X, y, **k: regjax.lam_max(X, y, **k),
    "lam_grid": lambda X, y, **k: regjax.lam_grid(X, y, num=3, **k),
    "best_subset": lambda X, y, **k: regjax.best_subset(X, y, min(2, jnp.shape(X)[-1] if jnp.ndim(X) > 1 else 1), **k),
}
# which take longest to compile
SEARCHES = {
    "kernel_fit": lambda X, y, **k: regjax.kernel_fit(RBF(1.0), X, y, Squared(), 0.5, **k),
    "gp_fit": lambda X, y, **k: regjax.gp_fit(RBF(1.0), X, y, 0.5, restarts=1, **k),
    "nadaraya_watson_fit": lambda X, y, **k: regjax.nadaraya_watson_fit(RBF(1.0), X, y, **k),
}
GENERAL = {
    "logistic_regression": lambda X, y, **k: regjax.logistic_regression(X, _classes(y), penalties.L2(0.5), **k),
    "poisson_regression": lambda X, y, **k: regjax.poisson_regression(X, _classes(y), penalties.L1(0.5), **k),
    "multinomial_regression": lambda X, y, **k: regjax.multinomial_regression(X, _classes(y), penalties.L2(0.5), **k),
    "huber_regression": lambda X, y, **k: regjax.huber_regression(X, y, 1.0, penalties.L2(0.5), **k),
    "robust_regression": lambda X, y, **k: regjax.robust_regression(X, y, **k),
    "lp_regression": lambda X, y, **k: regjax.lp_regression(X, y, 1.5, **k),
    "quantile_regression": lambda X, y, **k: regjax.quantile_regression(X, y, 0.3, **k),
}
DATA = FITS | SPARSE | SEARCHES | GENERAL


def _classes(y):
    """0 and 1, with whatever is wrong with y."""
    return y if isinstance(y, np.ndarray) else jnp.where(jnp.isfinite(y), y > 0, y)


def _pairs(X):
    return tuple(j // 2 for j in range(jnp.shape(X)[-1] if jnp.ndim(X) > 1 else 1))


BAD = {
    "NaN in X": (lambda fit: fit(X.at[3, 1].set(jnp.nan), y), r"X contains NaN: 1 of 36 .* at \(3, 1\)"),
    "infinity in X": (lambda fit: fit(X.at[3, 1].set(jnp.inf), y), "X contains infinity"),
    "NaN in y": (lambda fit: fit(X, y.at[0].set(jnp.nan)), "y contains NaN"),
    "too few y": (lambda fit: fit(X, y[:-1]), "y has 11 samples, but X has 12"),
    "y of three axes": (lambda fit: fit(X, y[:, None, None]), r"y has shape \(12, 1, 1\)"),
    "no samples": (lambda fit: fit(X[:0], y[:0]), "X has 0 samples and 3 columns"),
    "no columns": (lambda fit: fit(X[:, :0], y), "X has 12 samples and 0 columns"),
    "no targets": (lambda fit: fit(X, jnp.zeros((12, 0))), r"y has shape \(12, 0\)"),
    "scalar X": (lambda fit: fit(1.0, y), "X is a scalar"),
    "text": (lambda fit: fit(X, np.array(["a"] * 12)), "y has dtype <U1: it takes numbers"),
    "complex": (lambda fit: fit(X + 1j, y), "X has dtype complex.*real"),
    "negative weights": (lambda fit: fit(X, y, weights=V.at[0].set(-1.0)), "weights must be non-negative"),
    "NaN weights": (lambda fit: fit(X, y, weights=V.at[0].set(jnp.nan)), "weights must be non-negative and not NaN"),
    "zero weights": (lambda fit: fit(X, y, weights=0 * V), "weights are all zero"),
    "too few weights": (lambda fit: fit(X, y, weights=V[:-1]), r"weights has shape \(11,\)"),
}


@pytest.mark.once
@pytest.mark.parametrize("fit", DATA.values(), ids=DATA)
@pytest.mark.parametrize("case", BAD)
def test_bad_data_raises_and_names_the_argument(fit, case):
    call, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        call(fit)


@pytest.mark.once
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: regjax.ridge(X, y, -1.0), "lam must be non-negative"),
        (lambda: regjax.ridge(X, y, jnp.nan), "lam must be non-negative and not NaN"),
        (lambda: regjax.ridge(X, y, jnp.ones(4)), r"lam has shape \(4,\).*jax.vmap"),
        (lambda: regjax.ridge({"a": X}, y, {"a": -1.0}), "lam must be non-negative"),
        (lambda: regjax.ridge({"a": X}, y, {"b": 1.0}), "lam takes a scalar"),
        (lambda: regjax.ridge({"a": X, "b": y[:-1]}, y, 1.0), r"X\['b'\] has 11 samples"),
        (lambda: regjax.ridge({}, y, 1.0), "X holds no arrays"),
        (lambda: regjax.tikhonov(X, y, 1.0), "got neither"),
        (lambda: regjax.tikhonov(X, y, 1.0, jnp.eye(3), penalty=jnp.eye(3)), "give one of them"),
        (lambda: regjax.tikhonov(X, y, 1.0, jnp.eye(4)), r"gamma has shape \(4, 4\)"),
        (lambda: regjax.tikhonov(X, y, 1.0, penalty=jnp.eye(4)), r"penalty has shape \(4, 4\)"),
        (lambda: regjax.ridge_ball(X, y, -0.1), "radius must be non-negative"),
        (lambda: regjax.loo_residuals(X, y, -1.0), "lam must be non-negative"),
        (lambda: regjax.gradient_descent(X, y, 0.0, 3), "step must be positive"),
        (lambda: regjax.gradient_descent(X, y, 0.1, -3), "num_steps must be non-negative"),
        (lambda: regjax.gradient_descent(X, y, 0.1, 3, jnp.ones(2)), "init has a leaf of shape"),
        (lambda: regjax.bayes_linear(X, y, 0.0, 1.0), "noise is a variance and must be positive"),
        (lambda: regjax.bayes_linear(X, y, 1.0, -jnp.ones(3)), "prior is a variance"),
        (lambda: regjax.bayes_linear(X, y, 1.0, jnp.ones((2, 2))), r"prior has shape \(2, 2\)"),
        (lambda: regjax.bayes_linear(X, y, 1.0, jnp.triu(jnp.ones((3, 3)))), "prior must be a symmetric matrix"),
        (lambda: regjax.smoothing_spline(X, y, 1.0), r"x has shape \(12, 3\)"),
        (lambda: regjax.ols(X, y).params(X[:, :2]), r"coef has a leaf of shape \(3,\)"),
        (lambda: regjax.inference(X, y, 3), "solution takes what ols and fit return"),
        (lambda: regjax.encode_labels(["a", "a"]), "at least two classes"),
        (lambda: regjax.encode_labels(["a", "b"], ["a", "c"]), r"labels has \['b'\]"),
        (lambda: regjax.decode_scores(jnp.ones((3, 2)), ["a", "b", "c"]), r"it takes \(n, 3\)"),
        (lambda: regjax.data.make_regression(jax.random.key(0), 5, 2, correlation=1.0), "correlation must be in"),
        (lambda: regjax.data.make_regression(jax.random.key(0), 5, 2, noise=-1.0), "noise is a standard deviation"),
        (lambda: regjax.data.make_regression(jax.random.key(0), 5, 0), "at least one sample, column and target"),
        (lambda: regjax.tikhonov(X, y, 1.0, penalty=jnp.triu(jnp.ones((3, 3)))), "penalty must be a symmetric matrix"),
        (lambda: regjax.tikhonov(X, y, 1.0, jnp.full(3, jnp.nan)), r"gamma contains NaN: .* at \(0,\)$"),
        (lambda: regjax.bayes_linear(X, y, 0.5, 1.0).params.interval(X, 1.5), r"level must be in \[0, 1\)"),
        (lambda: regjax.condition_number(X[:0]), "X has 0 samples"),
        # kernels
        (lambda: regjax.kernel_ridge(RBF(1.0), X, y, -1.0), "lam must be non-negative"),
        (lambda: regjax.kernel_ridge(RBF(-1.0), X, y, 1.0), r"kernel\.scale must be positive"),
        (lambda: regjax.kernel_ridge(RBF(jnp.ones(2)), X, y, 1.0), "scale takes a scalar"),
        (lambda: regjax.kernel_ridge(1.0, X, y, 1.0), "kernel must be one of regjax.kernels"),
        (lambda: regjax.kernel_ridge(RBF(1.0), X, y, 1.0).params(X[:, :2]), r"Z has points of shape \(2,\).*jax.vmap"),
        (lambda: regjax.kernel_gradient_descent(RBF(1.0), X, y, 0.0, 3), "step must be positive"),
    ],
)
def test_bad_arguments_raise_and_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


G = (0, 0, 1)


@pytest.mark.once
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: regjax.lasso(X, y, -1.0), "lam must be non-negative and not NaN, got -1"),
        (lambda: regjax.lasso(X, y, jnp.nan), "lam must be non-negative and not NaN, got nan"),
        (lambda: regjax.lasso(X, y, jnp.ones(4)), r"lam has shape \(4,\).*coefficients \(3,\) \(use jax.vmap"),
        (lambda: regjax.lasso(X, y, "a"), "lam has dtype <U1: it takes numbers"),
        (lambda: regjax.lasso(X, y, None), "lam is None"),
        (lambda: regjax.lasso({"a": X}, y, {"b": 1.0}), "lam takes a scalar"),
        (lambda: regjax.lasso(X, y, 1.0, factors=jnp.ones(4)), r"factors has shape \(4,\)"),
        (lambda: regjax.lasso(X, y, 1.0, factors=-jnp.ones(3)), "factors must be non-negative and not NaN, got"),
        (lambda: regjax.lasso(X, y, 1.0, lower=0.5), "lower must be at most 0, got 0.5"),
        (lambda: regjax.lasso(X, y, 1.0, upper=-0.5), "upper must be at least 0, got -0.5"),
        (lambda: regjax.lasso(X, y, 1.0, lower=jnp.nan), "lower must not exceed upper, and not be NaN, got nan"),
        (lambda: regjax.lasso(X, y, 1.0, lower=-jnp.ones(4)), r"lower has shape \(4,\)"),
        (lambda: regjax.lasso(X, y, 1.0, offset=jnp.ones(4)), r"offset has shape \(4,\)"),
        (lambda: regjax.lasso(X, y, 1.0, offset=jnp.full(12, jnp.nan)), "offset contains NaN"),
        (lambda: regjax.lasso(X, y, 1.0, solver="newtons"), "solver must be one of ista.*got 'newtons'"),
        (lambda: regjax.lasso(X, y, 1.0, solver=3), "solver must be one of ista.*got 3"),
        (lambda: regjax.lasso(X, y, 1.0, tol=-1.0), "tol must be non-negative and not NaN, got -1"),
        (lambda: regjax.lasso(X, y, 1.0, max_iter=0), "max_iter takes an integer, at least 1.*got 0"),
        (lambda: regjax.lasso(X, y, 1.0, max_iter=1.5), "max_iter takes an integer.*got 1.5"),
        (lambda: regjax.lasso(X, y, 1.0, init=jnp.ones(2)), r"init has a leaf of shape \(2,\)"),
        (lambda: regjax.lasso(X, y, 1.0, init={"a": jnp.ones(3)}), "init has the tree structure"),
        (lambda: regjax.lasso(X, y, 1.0, init=jnp.full(3, jnp.nan)), "init contains NaN"),
        (lambda: regjax.elastic_net(X, y, 1.0, jnp.nan), "l2 must be non-negative and not NaN, got nan"),
        (lambda: regjax.group_lasso(X, y, 1.0, (0, 1)), "groups has 2 labels: it takes one per column of X, 3"),
        (lambda: regjax.group_lasso(X, y, 1.0, (0, 2, 2)), r"groups must be integers from 0 .*got \[0, 2\]"),
        (lambda: regjax.group_lasso(X, y, 1.0, (0.0, 1.0, 1.0)), "groups must be integers"),
        (lambda: regjax.group_lasso(X, y, 1.0, None), "groups must be integers .*None"),
        (
            lambda: jax.jit(lambda: regjax.group_lasso(X, y, 1.0, jnp.arange(3) // 2))(),
            "groups must be known while tracing.*traced array: make them with numpy",
        ),
        (lambda: regjax.group_lasso(X, y, 1.0, G, factors=jnp.ones(3)), r"factors has shape \(3,\): .*group, \(2,\)"),
        (lambda: regjax.group_lasso(X, y, jnp.ones(4), G), r"lam has shape \(4,\): it takes a scalar or one per group"),
        (lambda: regjax.group_lasso(X, y, 1.0, G, solver="working_set"), "working_set takes L1 .* not Group"),
        (lambda: regjax.sparse_group_lasso(X, y, -1.0, 1.0, G), "l1 must be non-negative"),
        (lambda: regjax.sparse_group_lasso(X, y, 1.0, jnp.ones(5), G), r"l2 has shape \(5,\)"),
        (lambda: regjax.multitask_lasso(X, X[:, :2], jnp.ones(2)), r"lam has shape \(2,\): .*one per row, \(3, 1\)"),
        (lambda: regjax.lasso_ball(X, y, -1.0), "radius must be non-negative and not NaN, got -1"),
        (lambda: regjax.lasso_ball(X, y, jnp.ones(4)), r"radius has shape \(4,\)"),
        (lambda: regjax.lasso_ball(X, y, 1.0, tol=-1.0), "tol must be non-negative"),
        (lambda: regjax.lasso_ball(X, y, 1.0, init=jnp.full(3, jnp.nan)), "init contains NaN"),
        (lambda: regjax.adaptive_lasso(X, y, 1.0, pilot=jnp.ones(2)), r"pilot has a leaf of shape \(2,\)"),
        (lambda: regjax.adaptive_lasso(X, y, 1.0, pilot=jnp.full(3, jnp.nan)), "pilot contains NaN"),
        (lambda: regjax.adaptive_lasso(X, y, 1.0, power=0.0), "power must be positive, got 0"),
        (lambda: regjax.adaptive_lasso(X, y, 1.0, offset=jnp.ones(4)), r"offset has shape \(4,\)"),
        (lambda: regjax.relaxed_lasso(X, y, 1.0, 1.5), r"mix must be in \[0, 1\], got 1.5"),
        (lambda: regjax.relaxed_lasso(X, y, 1.0, jnp.ones(2)), r"mix has shape \(2,\)"),
        (lambda: regjax.lasso_path(X, y, 1.0), r"lams has shape \(\): it takes a grid"),
        (lambda: regjax.lasso_path(X, y, jnp.array([1.0, -1.0])), "lams must be non-negative and not NaN"),
        (lambda: regjax.elastic_net_path(X, y, jnp.ones(3), jnp.ones(2)), r"l2s has shape \(2,\)"),
        (lambda: regjax.path(X, y, Squared(), penalties.L1(1.0)), "penalties takes arrays with an axis"),
        (lambda: regjax.path(X, y, Squared(), penalties.L1(jnp.ones(0))), "penalties takes arrays with an axis"),
        (
            lambda: regjax.path(X, y, Squared(), penalties.L1(-jnp.ones(2))),
            "strengths of penalties must be non-negative",
        ),
        (lambda: regjax.path(X, y, Squared(), penalties.MCP(-jnp.ones(2))), "strengths of penalties must be non-neg"),
        (lambda: regjax.path(X, y, Squared(), 3.0), "penalties must be a penalty of regjax.penalties.*got 3"),
        (lambda: regjax.path(X, y, Squared(), penalties.L1), "penalties must be a penalty of regjax.penalties"),
        (lambda: regjax.path(X, y, Squared(), penalties.L1(jnp.ones((2, 4)))), r"lam has shape \(4,\)"),
        (lambda: regjax.elastic_net_path(X, y, -jnp.ones(2), 1.0), "l1s must be non-negative and not NaN"),
        (lambda: regjax.elastic_net_path(X, y, jnp.ones(2), -jnp.ones(2)), "l2s must be non-negative and not NaN"),
        (lambda: regjax.lasso_path(X, y, jnp.zeros(0)), r"lams has shape \(0,\): it takes a grid"),
        (lambda: regjax.lasso_path(X, y, jnp.array([1.0, jnp.nan])), "lams must be non-negative and not NaN"),
        (lambda: regjax.lam_grid(X, y, num=1.5), "num must be at least 1, an integer, got 1.5"),
        (lambda: regjax.lam_grid(X, y, ratio=jnp.ones(2)), r"ratio must be a number in \(0, 1\]"),
        (lambda: regjax.lam_grid(X, y, ratio=jnp.nan), r"ratio must be a number in \(0, 1\], got nan"),
        (lambda: regjax.lam_max(X, y, 3.0), "penalty must be a penalty of regjax.penalties.*got 3"),
        (lambda: regjax.lam_max(X, y, penalties.L1(1.0), factors=jnp.ones(3)), "factors belong to the penalty"),
        (lambda: regjax.lam_max(X, y, factors=-jnp.ones(3)), "factors must be non-negative"),
        (lambda: regjax.lam_max(X, y, lower=0.5), "lower must be at most 0, got 0.5"),
        (
            lambda: regjax.path(X, y, Squared(), penalties.ElasticNet(jnp.ones(3), jnp.ones(2))),
            r"penalties takes arrays with an axis .* got the shapes \[\(3,\), \(2,\)\]",
        ),
        (lambda: regjax.lam_grid(X, y, num=0), "num must be at least 1, an integer, got 0"),
        (lambda: regjax.lam_grid(X, y, ratio=2.0), r"ratio must be a number in \(0, 1\], got 2"),
        (lambda: regjax.fit(X, y, Squared(), 3.0), "penalty must be a penalty of regjax.penalties.*got 3"),
        (lambda: regjax.fit(X, y, Squared(), penalties.L1), "penalty must be a penalty of regjax.penalties"),
        (
            lambda: regjax.fit(X, y, Squared(), penalties.Tikhonov(1.0, jnp.eye(3)), lower=0.0),
            "lower and upper take a penalty .* not Tikhonov",
        ),
        (
            lambda: regjax.fit(X, y, Squared(), penalties.PlusL2(penalties.Slope(jnp.ones(3)), jnp.ones(3))),
            r"l2 has shape \(3,\): it takes a scalar",
        ),
        (
            lambda: regjax.fit(X, y, Squared(), penalties.Slope(jnp.ones(3)), lower=jnp.array([-1.0, 0.5, 0.0])),
            "lower must be at most 0",
        ),
        (
            lambda: regjax.fit(X, y, Squared(), penalties.Slope(jnp.ones(3), jnp.array([0.0, -2.0, 1.0]))),
            "factors must be non-negative",
        ),
        (
            lambda: regjax.fit(X, y, Squared(), penalties.TotalVariation(1.0), lower=jnp.array([-1.0, 0.5, 0.0])),
            "lower must be at most 0",
        ),
        (
            lambda: regjax.fit(X, y, Squared(), penalties.TotalVariation(1.0, jnp.ones(3))),
            r"factors has shape \(3,\): it takes a scalar or one per difference of neighbours, \(2,\)",
        ),
        (lambda: regjax.fit(X, y, Squared(), penalties.L2Ball(1.0, -jnp.ones(3))), "factors must be non-negative"),
        (lambda: regjax.fit(X, y, Squared(), penalties.L1Ball(-1.0)), "radius must be non-negative"),
        (lambda: regjax.fit(X, y, Squared(), penalties.Slope(jnp.arange(3.0))), "lams must not increase"),
        (lambda: regjax.fit(X, y, Squared(), penalties.Slope(jnp.ones(2))), r"lams has shape \(2,\)"),
    ],
)
def test_bad_arguments_of_sparse_models_raise_and_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_inside_jit_the_lane_gets_its_status():
    fit = jax.jit(lambda X, y, lam, v: regjax.ridge(X, y, lam, weights=v))
    assert int(fit(X, y, -1.0, V).status) == Status.INVALID
    assert int(fit(X, y, 1.0, -V).status) == Status.INVALID
    assert int(fit(X, y, 1.0, 0 * V).status) == Status.INVALID
    assert int(fit(X.at[0, 0].set(jnp.nan), y, 1.0, V).status) == Status.NON_FINITE
    lanes = jax.vmap(lambda lam: regjax.ridge(X, y, lam))(jnp.array([1.0, -1.0, 2.0]))
    assert lanes.status.tolist() == [0, Status.INVALID, 0]
    assert np.all(np.isnan(lanes.params.coef[1]))
    with pytest.raises(regjax.FitError, match=r"1 of 3 lanes \(1\): INVALID"):
        regjax.check(lanes)


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", ["ols", "ridge", "tikhonov", "ridge_ball", "gradient_descent"])
def test_constant_and_zero_columns_have_coefficient_zero(name):
    constant = X.at[:, 1].set(7.3)
    assert float(FITS[name](constant, y).params.coef[1]) == 0.0
    zero = X.at[:, 1].set(0.0)
    assert float(FITS[name](zero, y, intercept=False).params.coef[1]) == 0.0


@pytest.mark.sample(4)
@pytest.mark.once
@pytest.mark.parametrize("name", ["huber", "robust"])
def test_a_constant_column_is_left_to_the_intercept(name):
    """It has coefficient 0, and the rest is the fit without it."""
    fit = {"huber": lambda X: regjax.huber_regression(X, y, 1.0), "robust": lambda X: regjax.robust_regression(X, y)}
    constant, zero = (fit[name](X.at[:, 2].set(value)) for value in (7.3, 0.0))
    assert bool(constant.converged)
    assert float(constant.params.coef[2]) == 0
    assert_close(constant.params.coef, zero.params.coef)
    assert_close(constant.params.intercept, zero.params.intercept)
    if name == "huber":  # each piece of whose objective is a parabola
        assert int(constant.num_iter) <= 10
    alone = fit[name](jnp.broadcast_to(X[0], X.shape))
    assert np.all(alone.params.coef == 0)


def test_duplicated_columns_share_evenly():
    twice = jnp.column_stack([X, X[:, 0]])
    for fit in (regjax.ols(twice, y), regjax.ridge(twice, y, 0.0), regjax.ridge(twice, y, 0.7)):
        assert_close(fit.params.coef[0], fit.params.coef[3], f64=1e-12, f32=1e-4)
        assert bool(fit.converged)


def test_wide_at_zero_is_the_minimum_norm_interpolant_with_intercept():
    wide, t, _ = problem(6, 40)
    fit = regjax.ridge(wide, t, 0.0)
    centred = np.asarray(wide, float) - np.asarray(wide, float).mean(0)
    assert_close(fit.params.coef, np.linalg.pinv(centred) @ (np.asarray(t, float) - np.mean(t)), f32=1e-3)
    assert_close(fit.params(wide), t, f32=1e-4)


@pytest.mark.x64
def test_columns_of_very_different_scale():
    scale = np.array([1e-8, 1.0, 1e8])
    truth = regjax.ols(X, y).params
    assert_close(regjax.check(regjax.ols(X * scale, y)).params.coef * scale, truth.coef, f64=1e-10)
    lam = 1e-10
    x, t = np.asarray(X * scale) - np.mean(X * scale, axis=0), np.asarray(y) - np.mean(y)
    unit = x / scale  # in units where the matrix is tame
    expected = np.linalg.solve(unit.T @ unit + np.diag(lam / scale**2), unit.T @ t) / scale
    found = regjax.check(regjax.ridge(X * scale, y, lam))
    np.testing.assert_allclose(found.params.coef, expected, rtol=1e-9)
    grid = jax.vmap(lambda lam: regjax.ridge(X * scale, y, lam))(jnp.array([lam, 1.0]))
    right = np.allclose(grid.params.coef[0], expected, rtol=1e-4, atol=0)
    assert right or not bool(grid.converged[0])  # right, or flagged: never silent


def test_extreme_magnitudes():
    large = 1e25 if X.dtype == jnp.float32 else 1e200
    scaled = regjax.ols(X * large, y)
    right = np.allclose(np.asarray(scaled.params.coef, float) * large, regjax.ols(X, y).params.coef, rtol=1e-3)
    assert right or not bool(scaled.converged)
    assert right or not bool(regjax.ridge(X * large, y, 1.0).converged)


@pytest.mark.x64
def test_an_objective_that_overflows_is_flagged():
    assert not bool(regjax.ridge(X, y * 1e200, 1.0).converged)


@pytest.mark.parametrize("power", [-160, 160])
def test_squares_that_underflow_or_overflow_are_flagged(power):
    factor = 10.0 ** (power if X.dtype == jnp.float64 else power // 8)
    assert_close(regjax.ols(X * factor, y).params.coef * factor, regjax.ols(X, y).params.coef, f32=1e-4)
    for lam in (0.0, 1.0):
        assert not bool(regjax.ridge(X * factor, y, lam).converged)


def test_a_column_that_varies_in_its_last_digits_is_not_constant():
    base, step = (1e15, 1.0) if X.dtype == jnp.float64 else (1e6, 0.125)
    x = jnp.asarray(base + step * np.arange(6))[:, None]
    assert_close(regjax.ridge(x, jnp.arange(6.0), 0.0).params.coef, np.array([1 / step]), f32=1e-4)
    # at a condition of 1/eps the digits that refinement reaches depend on how the compiler rounds: the status says so
    fit = regjax.ols(x, jnp.arange(6.0))
    assert_close(fit.params.coef, np.array([1 / step]), f64=1e-4, f32=2e-3)
    assert Status(int(fit.status)) == Status.ILL_CONDITIONED


@pytest.mark.x64
def test_one_tiny_lam_does_not_spoil_a_grid_on_a_rank_deficient_design():
    """Directions in which the design is zero still have the penalty's λ: in leverages, evidence and derivatives."""
    rows = np.array(
        [[1.0, 2, 0, 1, 3, 1], [0, 1, 1, 2, 1, 0], [2, 1, 1, 0, 1, 1], [1, 1, 3, 1, 0, 2], [1, 1, 3, 1, 0, 2]]
    )
    t = jnp.array([1.0, 0, 2, 3, 1])
    lams = jnp.array([1e-300, 1e-8, 1.0, 1e6, jnp.inf])
    grid = jax.vmap(lambda lam: regjax.loo_residuals(rows, t, lam))(lams)
    for lam, found in zip(lams, grid, strict=True):
        assert_close(found, regjax.loo_residuals(rows, t, lam))
    assert_close(grid[1, 3:], np.array([2.0, -2.0]), f64=1e-6)
    assert_close(regjax.loo_residuals(rows, t, 0.0)[3:], np.array([2.0, -2.0]), f64=1e-7)
    twins, b = jnp.array([[1.0, 1], [2, 2], [4, 4]]), jnp.array([1.0, 2, 3])
    covariance = jax.vmap(lambda noise: regjax.bayes_linear(twins, b, noise, 1.0).params.covariance)(lams[1:3])
    assert_close(covariance[0], np.array([[0.5, -0.5], [-0.5, 0.5]]), f64=1e-6)
    direction = jnp.zeros((3, 2)).at[0, 1].set(1.0)
    _, slope = jax.jvp(lambda X: regjax.ridge(X, b, 1e-4).params.coef, (twins,), (direction,))
    x, h = np.asarray(twins), 1e-7
    exact = lambda x: np.linalg.solve((c := x - x.mean(0)).T @ c + 1e-4 * np.eye(2), c.T @ np.asarray(b))  # noqa: E731
    finite = (exact(x + h * np.asarray(direction)) - exact(x - h * np.asarray(direction))) / (2 * h)
    assert_close(slope, finite, f64=1e-5)


def test_intercept_follows_the_smallest_coefficients():
    X = jnp.array([[1.0, 2.0], [3.0, 5.0]])
    fit = regjax.ols(X, jnp.array([1.0, 2.0]))
    assert_close(fit.params(X), jnp.array([1.0, 2.0]), f32=1e-5)
    column = jnp.asarray(rng.normal(size=6))
    dependent = jnp.stack([column, 10 * column + 5], axis=1)
    least, penalized = regjax.ols(dependent, y[:6]), regjax.ridge(dependent, y[:6], 0.0)
    assert_close(least.params.intercept, penalized.params.intercept, f32=1e-3)


@pytest.mark.once
def test_statistics_that_do_not_exist_are_nan():
    fit = regjax.ols(X[:4], y[:4])
    assert np.all(np.isnan(regjax.inference(X[:4], y[:4], fit).t.coef))
    constant = X.at[:, 1].set(2.0)
    assert np.isnan(regjax.inference(constant, y, regjax.ols(constant, y)).t.coef[1])
    assert np.isnan(regjax.loo_residuals(X[:1], y[:1], 0.5)[0])


@pytest.mark.once
def test_nonlinear_gamma_and_unknown_labels_are_refused():
    with pytest.raises(ValueError, match="linear function"):
        regjax.tikhonov(X, y, 1.0, lambda w: w + 1)
    with pytest.raises(ValueError, match=r"labels has \[7\]"):
        regjax.encode_labels([1, 2, 7], [1, 2])
    with pytest.raises(ValueError, match="scores contains NaN"):
        regjax.decode_scores([np.nan, 1.0], ["a", "b"])


@pytest.mark.once
def test_nested_lists_are_a_matrix():
    assert_close(regjax.ols([[1, 2], [3, 4], [5, 7]], [1, 2, 4]).params.coef, np.array([-0.5, 1.0]), f32=1e-4)


def test_float32_with_a_large_offset():
    x = jnp.array([2017.0, 2018.0, 2019.0, 2020.0, 2021.0], jnp.float32)
    for fit in (regjax.ols(x, x), regjax.ridge(x, x, 0.0)):
        assert_close(fit.params(x), np.asarray(x), f64=1e-6, f32=1e-6)
        assert_close(fit.params.coef, 1.0, f64=1e-5, f32=1e-5)
    many = jnp.asarray(rng.normal(size=(5000, 2)) + 1000, jnp.float32)
    fit = regjax.ridge(many, many @ jnp.array([1.0, -2.0], jnp.float32), 0.1)
    assert_close(fit.params.coef, np.array([1.0, -2.0]), f64=1e-3, f32=1e-3)


def test_degenerate_targets_and_samples():
    for name in ("ols", "ridge", "ridge_ball"):
        constant = FITS[name](X, jnp.full(12, 3.0))
        assert bool(constant.converged)
        assert_close(constant.params.coef, jnp.zeros(3), scale=1.0, f64=1e-12, f32=1e-5)
        assert_close(constant.params.intercept, 3.0, f32=1e-5)
        alone = FITS[name](X[:1], y[:1])
        assert bool(alone.converged)
        assert_close(alone.params.coef, jnp.zeros(3), scale=1.0)
        assert_close(alone.params.intercept, y[0])
        nothing = FITS[name](jnp.zeros((5, 2)), jnp.arange(5.0))
        assert_close(nothing.params.coef, jnp.zeros(2), scale=1.0)
        assert bool(nothing.converged)


@pytest.mark.sample(8)
@pytest.mark.once
@pytest.mark.parametrize("name", ["lasso", "group_lasso", "nonnegative_least_squares", "lasso_ball"])
def test_degenerate_data_of_sparse_models(name):
    fit = SPARSE[name]
    constant = fit(X, jnp.full(12, 3.0))
    assert bool(constant.converged)
    assert_close(constant.params.coef, jnp.zeros(3), scale=1.0, f64=1e-12)
    assert_close(constant.params.intercept, 3.0)
    alone = fit(X[:1], y[:1])
    assert bool(alone.converged)
    assert_close(alone.params.coef, jnp.zeros(3), scale=1.0)
    nothing = fit(jnp.zeros((12, 3)), y)
    assert bool(nothing.converged)
    assert_close(nothing.params.coef, jnp.zeros(3), scale=1.0)
    huge = fit(1e6 * X, y)
    assert bool(huge.converged)
    assert float(huge.residual) <= 1e-10


@pytest.mark.sample(6)
@pytest.mark.once
@pytest.mark.parametrize("name", ["lasso", "group_lasso", "lasso_ball", "best_subset"])
def test_a_failing_lane_leaves_the_others_alone(name):
    sets = jnp.stack([X, X.at[2, 1].set(jnp.nan), 2 * X])
    lanes = jax.jit(jax.vmap(lambda X: SPARSE[name](X, y)))(sets)
    assert lanes.status.tolist() == [0, Status.NON_FINITE, 0]
    assert np.all(np.isnan(lanes.params.coef[1]))
    assert_close(lanes.params.coef[0], SPARSE[name](X, y).params.coef)


@pytest.mark.x64
def test_lasso_at_the_ends_of_lam():
    least = regjax.lasso(X, y, 0.0)
    assert bool(least.converged)
    assert_close(least.params, regjax.ols(X, y).params)
    empty = regjax.lasso(X, y, jnp.inf)
    assert bool(empty.converged)
    assert not np.any(empty.params.coef)
    wide, t, _ = problem(6, 20)
    interpolates = regjax.lasso(wide, t, 0.0)  # the null model is exact: nothing is left to compare a gap with
    assert bool(interpolates.converged)
    assert_close(interpolates.params(wide), t)
    doubled = regjax.lasso(jnp.column_stack([X, X[:, 0]]), y, 0.5)
    assert bool(doubled.converged)
    assert_close(doubled.objective, regjax.lasso(X, y, 0.5).objective)


@pytest.mark.x64
def test_squares_that_underflow_in_the_lasso():
    """Flagged where the columns have a part that is lost, not where λ leaves them out; together with y too."""
    for factor, target, lam in ((1e-200, 1.0, 0.0), (1e-200, 1e-200, 0.0)):
        assert int(regjax.lasso(factor * X, target * y, lam).status) == Status.ILL_CONDITIONED
    empty = regjax.lasso(1e-200 * X, y, 1.0)
    assert bool(empty.converged)
    assert not np.any(empty.params.coef)


def test_squares_of_coefficients_that_overflow():
    """In float32 (1e24)² is inf, and without a ridge it has no part in the objective."""
    small, large = jnp.asarray(1e-12 * X, jnp.float32), jnp.asarray(1e12 * y, jnp.float32)
    fit, plain = regjax.lasso(small, large, 5.0), regjax.lasso(X, y, 5.0)
    assert bool(fit.converged)
    assert 0 <= float(fit.gap) <= 1e-5
    assert_close(1e-24 * np.asarray(fit.params.coef, float), plain.params.coef, f64=1e-4)
    assert_close(1e-24 * float(fit.objective), plain.objective, f64=1e-4)


@pytest.mark.x64
def test_least_squares_on_a_support_is_not_called_rank_deficient():
    sparse = regjax.relaxed_lasso(X, y, 20.0, 0.0)
    assert 0 < int(regjax.support(sparse).sum()) < 3
    assert int(sparse.status) == Status.CONVERGED


@pytest.mark.sample(12)
@pytest.mark.once
@every_fit
@pytest.mark.parametrize("dtype", ["int32", "uint8", "bool", "float16"])
def test_integers_and_halves_are_cast(fit, dtype):
    whole = np.abs(rng.integers(0, 2 if dtype == "bool" else 9, size=(12, 3))).astype(dtype)
    a, b = fit(whole, y), fit(jnp.asarray(whole, y.dtype), y)
    leaves = [leaf for leaf in jax.tree.leaves(a) if jnp.issubdtype(leaf.dtype, jnp.floating)]
    others = [leaf for leaf in jax.tree.leaves(b) if jnp.issubdtype(leaf.dtype, jnp.floating)]
    assert_close(leaves[0], others[0], f64=1e-4)


@pytest.mark.slow
@pytest.mark.x64
def test_labels_do_not_raise_the_precision():
    single, event = X.astype(jnp.float32), y > 0
    assert regjax.ridge(single, event, 1.0).params.coef.dtype == jnp.float32
    assert regjax.cox_regression(single, single[:, 0], event, regjax.penalties.L2(1.0)).objective.dtype == jnp.float32


def test_targets_as_a_column_are_not_broadcast():
    fit = regjax.ridge(X, y[:, None], 0.5)
    assert fit.params.coef.shape == (3, 1)
    assert fit.params(X).shape == (12, 1)
    assert_close(fit.params.coef[:, 0], regjax.ridge(X, y, 0.5).params.coef)


@pytest.mark.slow
@pytest.mark.x64
def test_gradients_at_equal_singular_values():
    orthonormal = jnp.asarray(np.linalg.qr(rng.normal(size=(8, 3)))[0])
    t = jnp.asarray(rng.normal(size=8))
    losses = {
        "ols": lambda X: jnp.sum(regjax.ols(X, t, intercept=False).params.coef ** 2),
        "ridge": lambda X: jnp.sum(regjax.ridge(X, t, 0.5, intercept=False).params.coef ** 2),
        "grid": lambda X: jnp.sum(
            jax.vmap(lambda lam: regjax.ridge(X, t, lam, intercept=False).params.coef)(jnp.array([0.5, 1.0])) ** 2
        ),
        "descent": lambda X: jnp.sum(regjax.gradient_descent(X, t, 0.3, 4, intercept=False).params.coef ** 2),
        "loo": lambda X: jnp.sum(regjax.loo_residuals(X, t, 0.5, intercept=False) ** 2),
    }
    direction = jnp.asarray(rng.normal(size=(8, 3)))
    for name, loss in losses.items():
        slope = jnp.vdot(jax.grad(loss)(orthonormal), direction)
        h = 1e-6
        finite = (loss(orthonormal + h * direction) - loss(orthonormal - h * direction)) / (2 * h)
        np.testing.assert_allclose(slope, finite, rtol=1e-6, atol=1e-8, err_msg=name)


# Gaussian processes


SMOOTH = regjax.kernels.RBF(1.0)


@pytest.mark.once
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: regjax.gp(regjax.kernels.RBF(-1.0), X, y, 0.1), "scale must be positive"),
        (lambda: regjax.gp("rbf", X, y, 0.1), "kernel must be one of regjax.kernels"),
        (lambda: regjax.gp(SMOOTH, X, y, -0.1), "noise is a variance and must be non-negative"),
        (lambda: regjax.gp(SMOOTH, X, y, jnp.nan), "noise is a variance"),
        (lambda: regjax.gp(SMOOTH, X, y, jnp.inf), "noise contains infinity"),
        (lambda: regjax.gp(SMOOTH, X, y, jnp.ones(5)), r"noise has shape \(5,\): .* \(12,\)"),
        (lambda: regjax.gp(SMOOTH, X, y, 0.1, mean=jnp.ones(2)), r"mean has shape \(2,\)"),
        (lambda: regjax.gp(SMOOTH, X, y, 0.1)(X[:, :2]), r"Z has points of shape \(2,\)"),
        (lambda: regjax.gp(SMOOTH, X, y, 0.1).interval(X, 1.0), r"level must be in \[0, 1\)"),
        (lambda: regjax.gp(SMOOTH, X, y, jnp.ones(12)).variance(X, noise=True), "noise=True needs one noise variance"),
        (lambda: regjax.gp_fit(SMOOTH, X, y, 0.0), r"\['noise'\] starts at 0.0"),
        (lambda: regjax.gp_fit(SMOOTH, X, y, 0.1, restarts=0), "restarts must be at least 1"),
        (lambda: regjax.gp_fit(SMOOTH, X, y, 0.1, objective="mse"), "objective must be one of"),
        (lambda: regjax.gp_fit(SMOOTH, X, y, 0.1, fixed={"scale": True}), "fixed takes a dictionary with keys among"),
        (lambda: regjax.gp_fit(SMOOTH, X, y, 0.1, fixed={"kernel": True, "noise": True}), "nothing is left to fit"),
        (lambda: regjax.gp_fit(SMOOTH, X, y, 0.1, bounds={"noise": (-1.0, 1.0)}), "must be positive"),
        (lambda: regjax.gp_fit(SMOOTH, X, y, 0.1, bounds={"noise": (2.0, 1.0)}), "low above high"),
        (lambda: regjax.gp_fit(SMOOTH, X, y, 0.1, bounds={"kernel": 2.0 * SMOOTH}), "does not have the structure"),
    ],
)
def test_bad_arguments_of_processes_raise_and_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def _seen(solution, X):
    return solution.status, solution.params(X)


KERNEL_FITS = {  # X, y to a status and predictions at X
    "kernel_ridge": lambda X, y: _seen(regjax.kernel_ridge(SMOOTH, X, y, 0.1), X),
    "kernel_ridge by cg": lambda X, y: _seen(regjax.kernel_ridge(SMOOTH, X, y, 0.1, solver="cg", landmarks=1), X),
    "kernel_ridge by nystrom": lambda X, y: _seen(
        regjax.kernel_ridge(SMOOTH, X, y, 0.1, solver="nystrom", landmarks=1), X
    ),
    "multi_kernel_ridge": lambda X, y: _seen(regjax.multi_kernel_ridge([SMOOTH, RBF(2.0)], X, y, jnp.full(2, 0.1)), X),
    "kernel_gradient_descent": lambda X, y: _seen(regjax.kernel_gradient_descent(SMOOTH, X, y, 0.05, 20), X),
    "kernel_fit": lambda X, y: _seen(regjax.kernel_fit(SMOOTH, X, y, Squared(), 0.1), X),
    "gp": lambda X, y: (lambda process: (process.status, process(X)))(regjax.gp(SMOOTH, X, y, 0.1)),
    "gp without noise": lambda X, y: (lambda process: (process.status, process(X)))(regjax.gp(SMOOTH, X, y, 0.0)),
    "sparse_gp": lambda X, y: (lambda process: (process.status, process(X)))(
        regjax.sparse_gp(SMOOTH, X, y, 0.1, X[:3])
    ),
}


@pytest.mark.sample(8)
@pytest.mark.parametrize("name", KERNEL_FITS)
def test_degenerate_data_of_kernel_models(name):
    fit = jax.jit(KERNEL_FITS[name])
    points, target = X[:6], jnp.sin(y[:6])
    twice = jnp.array([0, 1, 2, 0, 1, 2])
    for A, b in ((points[twice], target[twice]), (0 * points, target), (points, 0 * target + 3), (points, 0 * target)):
        status, found = fit(A, b)
        assert Status(int(status)).succeeded
        assert bool(jnp.all(jnp.isfinite(found)))
        assert float(jnp.max(jnp.abs(found))) <= 1.5 * float(jnp.max(jnp.abs(b)))
    assert_close(*(lambda found: (found[:3], found[3:]))(fit(points[twice], target[twice])[1]), f64=1e-6)
    for A, b in ((points.at[4, 0].set(jnp.nan), target), (points, target.at[4].set(jnp.nan))):
        assert Status(int(fit(A, b)[0])) in (Status.NON_FINITE, Status.INVALID)
    status, found = KERNEL_FITS[name](points[:1], target[:1])
    assert Status(int(status)).succeeded
    assert float(jnp.abs(found[0])) <= 1.001 * float(jnp.abs(target[0]))
