"""Seeded problems, the table of models, and tolerances by dtype: what every test shares."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import regjax

REFERENCE = Path(__file__).parent / "reference"


@cache
def reference(name: str):
    return json.loads((REFERENCE / name).read_text())


def table(name: str) -> np.ndarray:
    return np.genfromtxt(REFERENCE / name, delimiter=",", skip_header=1)


def tolerance(float64: float, float32: float) -> float:
    """The tolerance for the dtype that the suite runs in."""
    return float64 if jax.config.jax_enable_x64 else float32


def assert_close(actual, desired, *, f64: float = 1e-9, f32: float = 2e-3, scale=None, floor: float = 1e-12):
    """Equal to within a tolerance relative to the largest entry of `desired` (or to `scale`), leaf by leaf."""
    for a, d in zip(jax.tree.leaves(actual), jax.tree.leaves(desired), strict=True):
        a, d = np.asarray(a, float), np.asarray(d, float)
        assert a.shape == d.shape, f"shapes {a.shape} and {d.shape}"
        largest = np.max(np.abs(d), initial=0) if scale is None else scale
        np.testing.assert_allclose(a, d, rtol=0, atol=tolerance(f64, f32) * max(largest, floor))


class Problem(NamedTuple):
    X: jax.Array
    y: jax.Array
    weights: jax.Array


def problem(n: int, p: int, targets: int | None = None, seed: int = 0) -> Problem:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) + rng.normal(size=p)
    coef = rng.normal(size=(p, targets or 1))
    Y = 0.7 + X @ coef + rng.normal(size=(n, targets or 1))
    y = Y[:, 0] if targets is None else Y
    return Problem(jnp.asarray(X), jnp.asarray(y), jnp.asarray(rng.uniform(0.5, 2, size=n)))


SHAPES = {"tall": (20, 4), "wide": (8, 13)}


class Model(NamedTuple):
    """A row of the table: `fit(X, y, lam, weights)` returns what the model promises as arrays."""

    fit: Callable
    takes_pytree: bool = True
    shapes: tuple[str, ...] = ("tall", "wide")


def _solution(solution):
    return solution.params.coef, solution.params.intercept, solution.objective


def _posterior(solution):
    params = solution.params
    return params.coef, params.intercept, params.covariance, params.log_evidence


def _two_targets(y):
    """The target and a curved function of it."""
    return jnp.stack([y, jnp.sin(y) + 0.3 * y], axis=1)


def _roughness(X):
    matrix, _ = regjax.core.tree.ravel_design(X)
    return jnp.diff(jnp.eye(matrix.shape[1], dtype=matrix.dtype), axis=0) + 0.1 * jnp.eye(matrix.shape[1])[:-1]


def _spline(solution, x):
    return solution.params(x), solution.params.degrees_of_freedom, solution.params.gcv


KERNEL = 2.0 * regjax.kernels.Matern52(3.0)
CG = tolerance(1e-12, 1e-6)


def _expansion(solution, X):
    """Predictions at the first samples, since there are as many coefficients as samples."""
    return solution.params(jax.tree.map(lambda a: a[:3], X)), solution.params.intercept, solution.objective


def _process(process, X):
    Z = jax.tree.map(lambda a: a[:3], X)
    return process(Z), process.variance(Z), process.log_marginal_likelihood


MODELS = {
    "ols": Model(lambda X, y, lam, v: _solution(regjax.ols(X, y, weights=v))),
    "ridge": Model(lambda X, y, lam, v: _solution(regjax.ridge(X, y, lam, weights=v))),
    "ridge without intercept": Model(
        lambda X, y, lam, v: _solution(regjax.ridge(X, y, lam, weights=v, intercept=False))
    ),
    "tikhonov": Model(lambda X, y, lam, v: _solution(regjax.tikhonov(X, y, lam, _roughness(X), weights=v))),
    "ridge_ball": Model(
        lambda X, y, lam, v: (lambda s: (_solution(s), s.lam))(regjax.ridge_ball(X, y, 0.3 * lam, weights=v))
    ),
    "gradient_descent": Model(lambda X, y, lam, v: _solution(regjax.gradient_descent(X, y, 2e-3 * lam, 50, weights=v))),
    "bayes_linear": Model(lambda X, y, lam, v: _posterior(regjax.bayes_linear(X, y, lam, 0.8, weights=v))),
    "bayes_linear_fit": Model(
        lambda X, y, lam, v: _posterior(regjax.bayes_linear_fit(X, y, weights=v, intercept=True)),
        shapes=("tall",),
    ),
    "loo_residuals": Model(lambda X, y, lam, v: regjax.loo_residuals(X, y, lam, weights=v)),
    "loo_score": Model(lambda X, y, lam, v: regjax.loo_score(X, y, lam, weights=v)),
    "gcv": Model(lambda X, y, lam, v: regjax.gcv(X, y, lam, weights=v)),
    "smoothing_spline": Model(
        lambda X, y, lam, v: _spline(regjax.smoothing_spline(X[:, 0], y, 0.1 * lam, weights=v), X[:, 0]),
        takes_pytree=False,
    ),
    "lasso": Model(lambda X, y, lam, v: _solution(regjax.lasso(X, y, lam, weights=v))),
    "elastic_net within limits": Model(
        lambda X, y, lam, v: _solution(regjax.elastic_net(X, y, lam, 0.5, weights=v, lower=-0.4, upper=0.8)),
        shapes=("tall",),
    ),
    "group_lasso": Model(
        lambda X, y, lam, v: _solution(regjax.group_lasso(X, y, lam, (0, 0, 1, 1), weights=v)), shapes=("tall",)
    ),
    "logistic lasso": Model(
        lambda X, y, lam, v: _solution(
            regjax.logistic_regression(X, jax.nn.sigmoid(0.3 * y), regjax.penalties.L1(lam), weights=v)
        ),
        shapes=("tall",),
    ),
    "huber ridge": Model(
        lambda X, y, lam, v: _solution(regjax.huber_regression(X, y, 0.9, regjax.penalties.L2(lam), weights=v)),
        shapes=("tall",),
    ),
    "poisson lasso": Model(
        lambda X, y, lam, v: _solution(
            regjax.poisson_regression(X, jnp.exp(0.3 * y), regjax.penalties.L1(lam), weights=v)
        ),
        shapes=("tall",),
    ),
    "gamma ridge": Model(
        lambda X, y, lam, v: _solution(
            regjax.gamma_regression(X, jnp.exp(0.3 * y), regjax.penalties.L2(lam), link="log", weights=v)
        ),
        shapes=("tall",),
    ),
    "multinomial ridge": Model(
        lambda X, y, lam, v: _solution(
            regjax.fit(
                X, jax.nn.softmax(_two_targets(y)), regjax.losses.Multinomial(), regjax.penalties.L2(lam), weights=v
            )
        ),
        shapes=("tall",),
    ),
    "cox ridge": Model(
        lambda X, y, lam, v: (lambda s: (s.params.coef, s.objective))(
            regjax.cox_regression(X, jnp.exp(y), y > 0, regjax.penalties.L2(lam), ties="breslow", weights=v)
        ),
        shapes=("tall",),
    ),
    "lp ridge": Model(
        lambda X, y, lam, v: _solution(regjax.lp_regression(X, y, 1.5, regjax.penalties.L2(lam), weights=v)),
        shapes=("tall",),
    ),
    "quantile": Model(
        lambda X, y, lam, v: _solution(regjax.quantile_regression(X, y, 0.3 / (1 + lam), weights=v)), shapes=("tall",)
    ),
    "condition_number": Model(lambda X, y, lam, v: regjax.condition_number(X, lam, weights=v), shapes=("tall",)),
    "gp": Model(
        lambda X, y, lam, v: _process(regjax.gp(1.5 * regjax.kernels.RBF(2.0), X, y, lam, mean=0.1, weights=v), X)
    ),
    "max_step": Model(lambda X, y, lam, v: regjax.max_step(X, weights=v)),
    "kernel_ridge": Model(
        lambda X, y, lam, v: _expansion(regjax.kernel_ridge(KERNEL, X, y, lam, weights=v, intercept=True), X)
    ),
    "kernel_loo_residuals": Model(lambda X, y, lam, v: regjax.kernel_loo_residuals(KERNEL, X, y, lam, weights=v)),
    "kernel_gcv": Model(lambda X, y, lam, v: regjax.kernel_gcv(KERNEL, X, y, lam, weights=v)),
    "multi_kernel_ridge": Model(
        lambda X, y, lam, v: _expansion(
            regjax.multi_kernel_ridge((KERNEL, regjax.kernels.Linear()), X, y, jnp.stack([lam, 2 * lam]), weights=v), X
        )
    ),
    "kernel_fit": Model(
        lambda X, y, lam, v: _expansion(
            regjax.kernel_fit(KERNEL, X, y, regjax.losses.Huber(0.9), lam, weights=v, intercept=True), X
        )
    ),
    "kernel_gradient_descent": Model(
        lambda X, y, lam, v: _expansion(regjax.kernel_gradient_descent(KERNEL, X, y, 5e-3 * lam, 50, weights=v), X)
    ),
    "nadaraya_watson_loo": Model(
        lambda X, y, lam, v: tuple(regjax.nadaraya_watson_loo(regjax.kernels.RBF(1 + lam), X, y, weights=v))
    ),
    "kernel_ridge by cg": Model(
        lambda X, y, lam, v: _expansion(
            regjax.kernel_ridge(KERNEL, X, y, lam, weights=v, intercept=True, solver="cg", landmarks=5, tol=CG), X
        ),
        shapes=("tall",),
    ),
    "lasso_ball": Model(
        lambda X, y, lam, v: (lambda s: (_solution(s), s.lam))(regjax.lasso_ball(X, y, 2 * lam, weights=v)),
        shapes=("tall",),
    ),
    "sparse_group_lasso": Model(
        lambda X, y, lam, v: _solution(regjax.sparse_group_lasso(X, y, 6 * lam, 3 * lam, (0, 1, 1, 0), weights=v)),
        shapes=("tall",),
    ),
    "multitask_lasso": Model(
        lambda X, y, lam, v: _solution(regjax.multitask_lasso(X, _two_targets(y), 16 * lam, weights=v)),
        shapes=("tall",),
    ),
    "nonnegative_least_squares": Model(
        lambda X, y, lam, v: _solution(regjax.nonnegative_least_squares(X, y, weights=v)),
        shapes=("tall",),
    ),
    "adaptive_lasso": Model(
        lambda X, y, lam, v: _solution(regjax.adaptive_lasso(X, y, 4 * lam, weights=v)), shapes=("tall",)
    ),
    "relaxed_lasso": Model(
        lambda X, y, lam, v: _solution(regjax.relaxed_lasso(X, y, 8 * lam, 0.3, weights=v)), shapes=("tall",)
    ),
    "lasso_path": Model(
        lambda X, y, lam, v: jax.tree.map(  # λ last, where the flattened leaves of a tree are those of the matrix
            lambda leaf: jnp.moveaxis(leaf, 0, -1),
            _solution(regjax.lasso_path(X, y, lam * jnp.array([20.0, 1.0, 8.0]), weights=v)),
        ),
        shapes=("tall",),
    ),
    "sgd": Model(
        lambda X, y, lam, v: _solution(
            regjax.sgd(
                X,
                y,
                regjax.losses.Squared(),
                regjax.penalties.L2(lam),
                weights=v,
                step=5e-3,
                batch_size=50,
                num_epochs=20,
            )
        ),
        shapes=("tall",),
    ),
    "lam_max": Model(lambda X, y, lam, v: regjax.lam_max(X, y, weights=v), shapes=("tall",)),
    "best_subset": Model(lambda X, y, lam, v: _solution(regjax.best_subset(X, y, 2, weights=v))),
}

# one form of the solution each, both where they are two pieces of code: primal and dual, homotopy and certificate
BOTH = ("ols", "ridge", "loo_residuals", "lasso")
ONE = [(name, model.shapes[k % len(model.shapes)]) for k, (name, model) in enumerate(MODELS.items())]
# what is made of the others: asked for derivatives on every change, for the rest by `make test-all`
RELATIVES = (
    "multi_kernel_ridge", "kernel_gcv", "kernel_ridge by cg", "lasso_ball", "sparse_group_lasso", "multitask_lasso",
    "nonnegative_least_squares", "adaptive_lasso", "relaxed_lasso", "lasso_path", "logistic lasso", "huber ridge",
    "elastic_net within limits", "nadaraya_watson_loo", "ridge without intercept", "loo_score", "gcv", "max_step",
    "sgd", "kernel_fit", "kernel_gradient_descent", "poisson lasso", "gamma ridge", "multinomial ridge", "cox ridge",
    "lp ridge", "quantile",
)  # fmt: skip
CASES = ONE + [(name, shape) for name in BOTH for shape in MODELS[name].shapes if (name, shape) not in ONE]
