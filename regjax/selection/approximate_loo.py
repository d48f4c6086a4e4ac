"""Leave-one-out along a grid of penalties without refitting: exact for linear smoothers, else by one Newton step."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from regjax.core.node import register_node
from regjax.core.solution import Solution
from regjax.losses import Bisquare, Cox, Hampel, Huber, Loss
from regjax.models.fit import is_squared
from regjax.models.prepare import check_offset
from regjax.models.problem import Samples
from regjax.penalties import L2, Tikhonov
from regjax.selection.choice import Choice, check_simpler, choose, summary
from regjax.selection.cross_validate import Model, Settings, Study, check_study, fit_grid
from regjax.selection.influence import Influence, along_path, refuse_curved
from regjax.selection.leave_one_out import loo_predictions
from regjax.selection.scores import of_each, resolve_score
from regjax.solvers.minimize import Solver

FLAT = (Huber, Bisquare, Hampel)  # losses whose slope is, for outliers, the same whatever y is


@register_node
@dataclass(frozen=True, eq=False)
class LeaveOneOut(Choice):
    """The error of each sample under the fit without it, along a grid of L penalties.

    Attributes:
        scores: (L, n), the error of each sample; nan where the score is not a mean over samples.
        mean: (L,), over samples, each with its weight.
        standard_error: (L,), √(Σ v(e − mean)²/Σv/(n − 1)) of these n errors; nan with them.
        best: the index of the least mean; of equal ones the most regularised.
        one_se: the index of the most regularised penalty whose mean is within one standard error of the least.
        predictions: η of each sample under the fit without it, (L, n) or (L, n, t).
        path: the fits on all samples, a `Solution` with the axis (L,).
        penalties: the grid.
    """

    scores: Array
    mean: Array
    standard_error: Array
    best: Array
    one_se: Array
    predictions: Array
    path: Solution
    penalties: Any

    @property
    def converged(self) -> Array:
        """Whether every fit of the path is the answer to its problem."""
        return jnp.all(self.path.converged)


def leave_one_out(
    X: Any,
    y: Any,
    loss: Loss,
    penalties: Any,
    *,
    score: Any = None,
    simpler: Any = "larger",
    model: Model | None = None,
    weights: Any = None,
    offset: Any = None,
    lower: Any = None,
    upper: Any = None,
    intercept: bool = True,
    standardize: bool = False,
    solver: str | Solver | None = None,
    tol: float | None = None,
    max_iter: int | None = None,
) -> LeaveOneOut:
    r"""Cross-validation with as many folds as samples, at the price of one path.

    The fit without sample i is reached from the fit on all samples by one Newton step: with hᵢ = zᵢ(ZᵀDZ + P″)⁻¹zᵢᵀ, Z
    holding the intercept, D = diag(vℓ″), and within the directions in which the penalty is smooth (the support of ℓ1
    penalties),

        η̃ᵢ = ηᵢ + hᵢ vᵢℓ′ᵢ/(1 − hᵢ vᵢℓ″ᵢ).

    The step is exact for `Squared` with quadratic penalties (`L2`, `Tikhonov`), where it is `loo_residuals`; elsewhere
    it errs by terms of second order, and by the samples without which the support would be another.

    Args:
        X, y, loss, weights, offset, lower, upper, intercept, standardize, solver, tol, max_iter: as in `fit`. The loss
            is smooth and a sum over samples (not `Quantile`, not `Cox`). The scales of `standardize` stay those of all
            samples.
        penalties: as in `path`: strengths with the axis (L,) in front; least squares is `L2(jnp.zeros(1))`.
        score, simpler: as in `cross_validate`.
        model: `(X, y, hyperparameters, weights) -> Solution` in place of a penalised linear model, as in
            `cross_validate`: it minimises Σ vℓ plus a penalty, and its derivative with respect to y gives h; the slope
            of the loss must depend on y (that of `Huber` does not, beyond δ). Exact for `kernel_ridge`,
            `smoothing_spline` and other models that are linear in y.

    Returns:
        A `LeaveOneOut`. The error of a sample that alone determines a direction of the fit (hᵢvᵢℓ″ᵢ = 1) does not
        exist: it is nan, and so is the mean at that λ, which is not chosen.

    Example:
        >>> import regjax
        >>> data = regjax.data.diabetes()
        >>> X = (data.X - data.X.mean(0)) / data.X.std(0)
        >>> lams = regjax.lam_grid(X, data.y, num=20)
        >>> loo = regjax.leave_one_out(X, data.y, regjax.losses.Squared(), regjax.penalties.L1(lams))
        >>> print(loo.scores.shape, bool(loo.converged), int((loo.at(loo.one_se).params.coef != 0).sum()))
        (20, 442) True 4

    References:
        Rad & Maleki, A scalable estimate of the out-of-sample prediction error via approximate leave-one-out
        cross-validation, J. R. Stat. Soc. B 82 (2020).
    """
    check_simpler(simpler, penalties, model is None)
    refuse_curved(penalties)
    settings = Settings(model, intercept, standardize, solver, max_iter)
    samples, study = check_study(Study(X, y, loss, penalties, weights, offset, lower, upper, tol), settings)
    loss = study.loss
    scored = resolve_score(score, loss)
    if not loss.smooth or isinstance(loss, Cox):
        raise ValueError(
            f"leave_one_out takes a loss that is smooth and a sum over samples, not {type(loss).__name__}:"
            " use cross_validate"
        )
    if model is not None and (loss.coupled or isinstance(loss, FLAT)):
        raise ValueError(
            f"model goes with a loss of one predictor whose slope depends on y everywhere, not with"
            f" {type(loss).__name__}: use cross_validate"
        )
    fits, eta, errors, mean = _run(study, settings=settings, score=scored)
    v = jnp.ones_like(eta[0, :, 0]) if samples.weights is None else samples.weights
    _, standard_error = summary(errors.T, v)
    best, one_se = choose(mean, standard_error, penalties, model is None, simpler)
    predictions = eta[..., 0] if samples.single else eta
    return LeaveOneOut(errors, mean, standard_error, best, one_se, predictions, fits, penalties)


@partial(jax.jit, static_argnames=("settings", "score"))
def _run(study: Study, *, settings: Settings, score):
    """The fits (L,), the predictors left out (L, n, t), the errors of the samples (L, n), and the scores (L,)."""
    samples, _ = check_study(study, settings)
    fits = fit_grid(study, settings, samples.weights, 1.0)
    if settings.model is not None:
        eta = jax.vmap(lambda values: _model_left_out(samples, study, settings.model, values))(study.penalties)
    elif _is_smoother(study, settings):
        eta = _smoother_left_out(samples, study, settings)
    else:
        eta = along_path(Influence.left_out, samples, study, settings, fits.params)
    v = jnp.ones(len(samples.X), eta.dtype) if samples.weights is None else samples.weights
    y = samples.Y
    errors, means = jax.vmap(lambda eta: (of_each(score, study.loss, y, eta), score(study.loss, y, eta, v)))(eta)
    return fits, eta, errors, means


def _is_smoother(study: Study, settings: Settings) -> bool:
    """Whether `loo_predictions` serves these penalties: all λ from one factorization, and exact for λ → 0."""
    penalty = study.penalties
    quadratic = isinstance(penalty, Tikhonov) or (isinstance(penalty, L2) and penalty.factors is None)
    plain = study.lower is None and study.upper is None and not settings.standardize
    return is_squared(study.loss) and plain and quadratic and jnp.ndim(penalty.lam) == 1


def _smoother_left_out(samples: Samples, study: Study, settings: Settings) -> Array:
    shift = check_offset(study.offset, samples)
    gamma = getattr(study.penalties, "gamma", None)

    def one(lam):
        return loo_predictions(
            study.X, samples.Y - shift, lam, gamma, weights=samples.weights, intercept=settings.intercept
        )

    return jax.vmap(one)(jnp.asarray(study.penalties.lam)) + shift


def _model_left_out(samples: Samples, study: Study, model: Any, values: Any) -> Array:
    """(n, t) for a model of which only its derivative is known: ∂ηᵢ/∂yᵢ = −hᵢ vᵢ ∂ℓ′ᵢ/∂yᵢ."""
    Y, loss = samples.Y, study.loss
    shift = check_offset(study.offset, samples)

    def predict(Y):
        return model(study.X, samples.per_target(Y), values, samples.weights).params(study.X).reshape(Y.shape)

    def own(i):
        """The response of each target of sample i to itself."""
        direction = jnp.zeros_like(Y).at[i].set(1)
        return jax.jvp(predict, (Y,), (direction,))[1][i]

    eta = predict(Y) + shift
    _, turn = jax.jvp(lambda Y: loss.gradient(Y, eta), (Y,), (jnp.ones_like(Y),))
    leverage = -jax.vmap(own)(jnp.arange(len(Y))) / turn  # h v
    left = 1 - leverage * loss.curvature(Y, eta)
    tiny = 10 * float(jnp.finfo(left.dtype).eps) ** 0.6
    return eta + leverage * loss.gradient(Y, eta) / jnp.where(left < tiny, jnp.nan, left)
