"""The models of the contest: each cross-validates itself over its grid, on the folds of the problem.

Targets that are numbers are standardised before models of squared error, so that their grids suit every table; errors
are stated in the units of the target.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from regjax import kernels
from regjax.bases import NaturalSpline
from regjax.core.solution import Solution
from regjax.losses import Huber, Logistic, Loss, Poisson, Squared
from regjax.models.bayes import bayes_linear_fit
from regjax.models.gp_fit import gp_fit
from regjax.models.kernel_fit import kernel_fit
from regjax.models.kernel_ridge import kernel_ridge
from regjax.models.linear import ols, ridge, tikhonov
from regjax.models.problem import Linear
from regjax.penalties import L1, L2, ElasticNet
from regjax.selection.cross_validate import CrossValidation, cross_validate
from regjax.selection.leave_one_out import loo_residuals, loo_score
from regjax.selection.path import lam_grid
from regjax.selection.splits import Splits

NUMBERS, COUNTS, CLASSES = "numbers", "counts", "classes"
RATIOS = (0.2, 0.5, 0.8)
KNOTS = 5


class Problem(NamedTuple):
    """What is predicted from what, and the folds that all models share.

    Attributes:
        X: (n, p), standardised. y: (n,), as in the table. kind: of the target: "numbers", "counts" or "classes".
        folds: which samples train and test.
    """

    X: Array
    y: Array
    kind: str
    folds: Splits

    @property
    def standardised(self) -> Array:
        """The target with mean 0 and standard deviation 1."""
        return (self.y - self.y.mean()) / self.y.std()

    def validate(self, loss: Loss, grid: Any, model: Any = None, X: Any = None) -> CrossValidation:
        """Cross-validation of penalties or of the hyperparameters of a `model`, by squared error or deviance."""
        score = "deviance" if self.kind == CLASSES else "mse"
        y = self.standardised if isinstance(loss, (Squared, Huber)) else self.y
        return cross_validate(self.X if X is None else X, y, loss, grid, folds=self.folds, score=score, model=model)


class Trial(NamedTuple):
    """A model at its best.

    Attributes:
        cv: along λ at the best setting; of one value where there is no grid.
        index: of the best along it.
        loss: whose mean function turns η into predictions; for `Squared` and `Huber` of the standardised target.
        setting: what was chosen, by name.
        solution: the fit on all samples.
        lams: λ along `cv`; None where there is no grid.
        splines: one `NaturalSpline` or None for each column where the model is linear in them, else None.
        design: what the fits of the folds take, if it is not X.
    """

    cv: CrossValidation
    index: int
    loss: Loss
    setting: dict[str, float]
    solution: Solution
    lams: Any = None
    splines: tuple[NaturalSpline | None, ...] | None = None
    design: Any = None


class Candidate(NamedTuple):
    """A row of the table of models: what it is, for which targets, and for how many rows it is practical."""

    about: str
    kinds: tuple[str, ...]
    run: Callable[[Problem], Trial]
    most_rows: int = 100_000


def _trial(cv: CrossValidation, loss: Loss, lams: Any = None, **setting: float) -> Trial:
    index = int(cv.best)
    if lams is not None:
        setting = {"λ": float(lams[index]), **setting}
    return Trial(cv, index, loss, setting, cv.at(index), lams)


def _least(trials: list[Trial]) -> Trial:
    return min(trials, key=lambda trial: float(trial.cv.mean[trial.index]))


def _strengths(problem: Problem, num: int = 40) -> Array:
    """λ of quadratic penalties: the columns are standardised, so that XᵀX has the diagonal n."""
    return len(problem.y) * jnp.logspace(1, -5, num)


def _centre(problem: Problem) -> Trial:
    loss, link = (Logistic(), jax.scipy.special.logit) if problem.kind == CLASSES else (Squared(), jnp.asarray)

    def model(X, y, _, v):
        b = link(v @ y / jnp.sum(v))
        zero = jnp.zeros_like(b)
        return Solution(
            Linear(jnp.zeros(X.shape[1], b.dtype), b), zero.astype(jnp.int32), zero, zero, zero + jnp.nan, zero
        )

    return _trial(problem.validate(loss, jnp.zeros(1), model), loss)


def _ols(problem: Problem) -> Trial:
    return _trial(problem.validate(Squared(), jnp.zeros(1), lambda X, y, _, v: ols(X, y, weights=v)), Squared())


def _ridge(problem: Problem) -> Trial:
    lams = _strengths(problem)
    return _trial(problem.validate(Squared(), lams, lambda X, y, lam, v: ridge(X, y, lam, weights=v)), Squared(), lams)


def _lasso(problem: Problem) -> Trial:
    # an elastic net without its second part, so that both run one compiled program
    lams = lam_grid(problem.X, problem.standardised, num=60)
    return _trial(problem.validate(Squared(), ElasticNet(lams, jnp.zeros_like(lams))), Squared(), lams)


def _elastic_net(problem: Problem) -> Trial:
    lams = lam_grid(problem.X, problem.standardised, num=60)
    trials = []
    for ratio in RATIOS:
        grid = lams / ratio
        cv = problem.validate(Squared(), ElasticNet(ratio * grid, (1 - ratio) * grid))
        trials.append(_trial(cv, Squared(), grid, **{"l1 ratio": ratio}))
    return _least(trials)


def _huber(problem: Problem) -> Trial:
    lams, z = _strengths(problem, 20), problem.standardised
    scores = jax.vmap(lambda lam: loo_score(problem.X, z, lam))(lams)
    residuals = loo_residuals(problem.X, z, lams[jnp.argmin(scores)])  # of samples not seen: also where p > n
    loss = Huber(1.345 * float(jnp.median(jnp.abs(residuals)) / 0.6745) or 1.0)
    return _trial(problem.validate(loss, L2(lams)), loss, lams)


def _bayes_linear(problem: Problem) -> Trial:
    cv = problem.validate(Squared(), jnp.zeros(1), lambda X, y, _, v: bayes_linear_fit(X, y, weights=v, intercept=True))
    params = cv.at(0).params
    return _trial(cv, Squared(), noise=float(params.noise), prior=float(params.prior))


def _splines(problem: Problem) -> Trial:
    splines = tuple(_spline(np.asarray(column)) for column in problem.X.T)
    design, omega = expand(problem.X, splines), _roughness(splines)
    lams = _strengths(problem)

    def model(X, y, lam, v):
        return tikhonov(X, y, lam, penalty=omega, weights=v)

    trial = _trial(problem.validate(Squared(), lams, model, design), Squared(), lams)
    return trial._replace(splines=splines, design=design)


def _spline(column: np.ndarray) -> NaturalSpline | None:
    """Knots at quantiles, for a column with enough different values."""
    knots = np.unique(np.quantile(column, np.linspace(0, 1, KNOTS)))
    return NaturalSpline(jnp.asarray(knots)) if len(knots) == KNOTS else None


def expand(X: Array, splines: tuple[NaturalSpline | None, ...]) -> Array:
    """The columns of the additive model: a basis for each column with a spline, the column itself elsewhere."""
    parts = [X[:, [j]] if s is None else s.design(X[:, j]) for j, s in enumerate(splines)]
    return jnp.concatenate(parts, axis=1)


def _roughness(splines: tuple[NaturalSpline | None, ...]) -> Array:
    """Ω of Σⱼ ∫fⱼ″², plus a little of the identity, so that it also shrinks what is not curved."""
    blocks = [jnp.zeros((1, 1)) if s is None else s.penalty() for s in splines]
    return jax.scipy.linalg.block_diag(*blocks) + 0.01 * jnp.eye(sum(len(block) for block in blocks))


def _bandwidths(problem: Problem) -> Array:
    """Multiples of the distance between two samples, which is √(2p) on standardised columns."""
    return (2 * problem.X.shape[1]) ** 0.5 * jnp.array([0.5, 1.0, 2.0, 4.0, 8.0])


def _kernel_model(X, y, lam, v):
    return kernel_ridge(kernels.RBF(1.0), X, y, lam, weights=v, intercept=True)


def _kernel_ridge(problem: Problem) -> Trial:
    return _over_bandwidths(problem, Squared(), jnp.logspace(2, -6, 25), _kernel_model)


def _kernel_logistic_model(X, y, lam, v):
    return kernel_fit(kernels.RBF(1.0), X, y, Logistic(), lam, weights=v, intercept=True)


def _kernel_logistic(problem: Problem) -> Trial:
    return _over_bandwidths(problem, Logistic(), jnp.logspace(1, -3, 8), _kernel_logistic_model)


def _over_bandwidths(problem: Problem, loss: Loss, lams: Array, model: Any) -> Trial:
    trials = []
    for scale in _bandwidths(
        problem
    ):  # a kernel of bandwidth 1 on X/scale, so that λ share a matrix and scales a program
        cv = problem.validate(loss, lams, model, problem.X / scale)
        trial = _trial(cv, loss, lams, bandwidth=float(scale))
        params = replace(trial.solution.params, kernel=kernels.RBF(scale), points=problem.X)
        solution = replace(trial.solution, params=params)
        trials.append(trial._replace(solution=solution, design=problem.X / scale))
    return _least(trials)


def _gp_model(X, y, _, v):
    kernel = 0.5 * kernels.RBF(2.0 * X.shape[1] ** 0.5) + 0.1 * kernels.Linear()
    return gp_fit(kernel, X, y, 0.5, weights=v, restarts=1, max_iter=100)


def _gp(problem: Problem) -> Trial:
    trial = _trial(problem.validate(Squared(), jnp.zeros(1), _gp_model), Squared())
    params = trial.solution.params
    chosen = {"bandwidth": float(params.kernel.first.kernel.scale), "noise": float(params.noise)}
    return trial._replace(setting=chosen)


def _generalized(loss: Loss, penalty: Any):
    def run(problem: Problem) -> Trial:
        if penalty is L1:
            lams = lam_grid(problem.X, problem.y, L1(1.0), loss=loss, num=40, ratio=1e-3)
        else:
            lams = _strengths(problem, 25)
        return _trial(problem.validate(loss, penalty(lams)), loss, lams)

    return run


SQUARED = (NUMBERS, COUNTS)
CANDIDATES = {
    "mean": Candidate("the mean of the target, whatever the columns", (NUMBERS, COUNTS, CLASSES), _centre),
    "ols": Candidate("least squares", SQUARED, _ols),
    "ridge": Candidate("least squares with a penalty on squares", SQUARED, _ridge),
    "lasso": Candidate("least squares with a penalty on absolute values: few columns", SQUARED, _lasso),
    "elastic_net": Candidate("both penalties, in three proportions", SQUARED, _elastic_net),
    "huber": Candidate("ridge that outliers do not move", SQUARED, _huber),
    "bayes_linear": Candidate("ridge with its strength from the evidence", SQUARED, _bayes_linear),
    "splines": Candidate("a sum of smooth curves, one for each column", SQUARED, _splines, 20_000),
    "kernel_ridge": Candidate("any smooth function, by a radial kernel of chosen width", SQUARED, _kernel_ridge, 1000),
    "gp": Candidate("a Gaussian process: smooth plus linear, tuned by its likelihood", SQUARED, _gp, 1000),
    "poisson_ridge": Candidate("Poisson regression with a penalty on squares", (COUNTS,), _generalized(Poisson(), L2)),
    "poisson_lasso": Candidate("Poisson regression with few columns", (COUNTS,), _generalized(Poisson(), L1)),
    "logistic_ridge": Candidate(
        "logistic regression with a penalty on squares", (CLASSES,), _generalized(Logistic(), L2)
    ),
    "logistic_lasso": Candidate("logistic regression with few columns", (CLASSES,), _generalized(Logistic(), L1)),
    "kernel_logistic": Candidate(
        "logistic regression by a radial kernel of chosen width", (CLASSES,), _kernel_logistic, 1000
    ),
}
