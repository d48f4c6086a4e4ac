"""Training and validation error along a hyperparameter and along the number of samples, with a plain verdict."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from regjax.core.checks import is_concrete
from regjax.core.node import register_node
from regjax.core.solution import Solution, succeeded
from regjax.losses import Cox, Loss
from regjax.models.fit import fit
from regjax.models.problem import Samples, silence, silence_design
from regjax.penalties import Penalty, Zero, scale_strengths
from regjax.selection.choice import summary
from regjax.selection.cross_validate import Model, Settings, Study, check_study, cross_validate
from regjax.selection.scores import held_out, resolve_score
from regjax.selection.splits import Splits, as_splits, is_number
from regjax.solvers.minimize import Solver
from regjax.solvers.task import Task, null_model

SHARE = 0.25  # of the null model's error, that must be explained, and that validation may lie above training


def verdict(training: Any, validation: Any, null: Any) -> str:
    """What training and validation error say next to the error of the null model, in one word.

    "overfit" where validation error exceeds training error by more than a quarter of the null model's; else "underfit"
    where training error is above three quarters of the null model's; else "balanced". "unknown" where one is nan. The
    rule is for errors that are 0 for a model that is always right.

    Example:
        >>> print(verdict(0.1, 0.8, 1.0), verdict(0.9, 0.95, 1.0), verdict(0.3, 0.4, 1.0))
        overfit underfit balanced
    """
    training, validation, null = (float(a) for a in (training, validation, null))
    if not np.isfinite([training, validation, null]).all():
        return "unknown"
    if validation - training > SHARE * null:
        return "overfit"
    return "underfit" if training > (1 - SHARE) * null else "balanced"


class Curve:
    """What both curves have in common."""

    training: Array
    validation: Array
    null: Array
    status: Array

    @property
    def converged(self) -> Array:
        """Whether every fit is the answer to its problem."""
        return jnp.all(succeeded(self.status))

    @property
    def verdicts(self) -> tuple[str, ...]:
        """One word for each point of the curve: "underfit", "overfit" or "balanced", see `verdict` in this module."""
        columns = np.broadcast_arrays(self.training, self.validation, self.null)
        return tuple(verdict(*point) for point in zip(*columns, strict=True))


@register_node
@dataclass(frozen=True, eq=False)
class ValidationCurve(Curve):
    """Errors along a grid of L penalties.

    Attributes:
        penalties: the grid.
        training, validation: (L,), the mean errors over folds on the samples that train and on those that are held out.
        training_se, validation_se: (L,), their standard errors.
        null: the validation error of the null model, a scalar: that of the intercept and the offset alone.
        status: (K, L), of the fits.
    """

    penalties: Any
    training: Array
    validation: Array
    training_se: Array
    validation_se: Array
    null: Array
    status: Array

    @property
    def best(self) -> Array:
        """The index of the least validation error."""
        return jnp.nanargmin(self.validation).astype(jnp.int32)

    @property
    def verdict(self) -> str:
        """That of the best: even there a model may be too plain, or too rich for its samples."""
        return self.verdicts[int(self.best)]


@register_node
@dataclass(frozen=True, eq=False)
class LearningCurve(Curve):
    """Errors along S numbers of training samples.

    Attributes:
        sizes: (S,), the numbers of samples that train.
        training, validation: (S,), the mean errors over folds on the samples that train and on those that are held out.
        training_se, validation_se: (S,), their standard errors.
        null: (S,), the validation error of the null model on the same samples: the intercept and the offset alone.
        status: (K, S), of the fits.
    """

    sizes: Array
    training: Array
    validation: Array
    training_se: Array
    validation_se: Array
    null: Array
    status: Array

    @property
    def verdict(self) -> str:
        """That of the last size."""
        return self.verdicts[-1]


def validation_curve(
    X: Any,
    y: Any,
    loss: Loss,
    penalties: Any,
    *,
    folds: Any = 10,
    score: Any = None,
    key: Any = None,
    repeats: int = 1,
    per_sample: bool = False,
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
) -> ValidationCurve:
    r"""Training and validation error of every penalty of a grid: where they part, a model overfits.

    Args:
        X, y, loss, penalties, folds, score, key, repeats, per_sample, model, weights, offset, lower, upper,
            intercept, standardize, solver, tol, max_iter: as in `cross_validate`, which does the fits.

    Returns:
        A `ValidationCurve`.

    Example:
        >>> import jax.numpy as jnp, regjax
        >>> data = regjax.data.diabetes()
        >>> X = (data.X - data.X.mean(0)) / data.X.std(0)
        >>> curve = regjax.validation_curve(
        ...     X, data.y, regjax.losses.Squared(), regjax.penalties.L2(jnp.array([1.0, 1e5])), folds=5)
        >>> print(curve.verdicts, bool(jnp.all(curve.validation > curve.training)))
        ('balanced', 'underfit') True
    """
    settings = Settings(model, intercept, standardize, solver, max_iter)
    study = Study(X, y, loss, penalties, weights, offset, lower, upper, tol)
    samples, study = check_study(study, settings, per_sample=per_sample)
    splits = as_splits(folds, len(samples.X), key, repeats)
    result = cross_validate(
        X, y, loss, penalties, folds=splits, score=score, per_sample=per_sample, model=model, weights=weights,
        offset=offset, lower=lower, upper=upper, intercept=intercept, standardize=standardize, solver=solver, tol=tol,
        max_iter=max_iter,
    )  # fmt: skip
    train, test = (_weighted(samples, mask) for mask in (splits.train, splits.test))
    training, _, null = _errors(
        study, result.fits.params, train[:, None], test, score=resolve_score(score, study.loss), intercept=intercept
    )
    sizes = jnp.sum(test, axis=1)
    mean, error = summary(training, sizes, splits.repeats)
    base, _ = summary(null, sizes, splits.repeats)
    return ValidationCurve(
        penalties, mean, result.mean, error, result.standard_error, base[0], result.fits.status
    )  # fmt: skip


def learning_curve(
    X: Any,
    y: Any,
    loss: Loss,
    penalty: Penalty | Any,
    *,
    sizes: Any = None,
    folds: Any = 10,
    score: Any = None,
    key: Any = None,
    repeats: int = 1,
    per_sample: bool = False,
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
) -> LearningCurve:
    r"""Training and validation error along the number of training samples: whether more of them would help.

    The first samples of a random order of each fold's training samples have their weight, the others 0, so that all
    sizes of all folds are lanes of one compiled fit.

    Args:
        X, y, loss, score, weights, offset, lower, upper, intercept, standardize, solver, tol, max_iter: as in
            `cross_validate`.
        penalty: one penalty, as in `fit`.
        sizes: (S,), numbers of training samples; if None eight of them, up to the size of the smallest training set.
        folds: as in `cross_validate`.
        key: of the folds and of the orders; the same at every call if None.
        repeats: as in `cross_validate`: how often to draw folds.
        per_sample: whether λ is per unit of weight, λ Σv_size/Σv, as in `cross_validate`. By default λ is held in the
            sum objective: the penalty then fades as samples are added.
        model: as in `cross_validate`, with `penalty` its hyperparameters.

    Returns:
        A `LearningCurve`.

    Example:
        >>> import jax.numpy as jnp, regjax
        >>> data = regjax.data.diabetes()
        >>> curve = regjax.learning_curve(
        ...     data.X, data.y, regjax.losses.Squared(), regjax.penalties.L2(0.01), sizes=[20, 350], folds=5)
        >>> print(curve.verdicts, curve.verdict)
        ('overfit', 'balanced') balanced
    """
    settings = Settings(model, intercept, standardize, solver, max_iter)
    study = Study(X, y, loss, penalty, weights, offset, lower, upper, tol)
    samples, study = check_study(study, settings, per_sample=per_sample, grid=False)
    n = len(samples.X)
    splits = as_splits(folds, n, key if is_number(folds) else None, repeats)  # the key is that of the orders too
    sizes = _check_sizes(sizes, splits, samples)
    v = _weighted(samples, jnp.ones(n, bool))
    base = jax.random.key(0) if key is None else key
    keys = jax.random.split(jax.random.fold_in(base, 1), len(splits.train))
    lanes = jax.vmap(lambda key, train: _first_samples(key, train & (v > 0), sizes))(keys, splits.train)
    train, test = jnp.where(lanes, v, 0), _weighted(samples, splits.test)  # (K, S, n), (K, n)
    fits = _fit_lanes(study, train, jnp.sum(v), settings=settings, per_sample=per_sample)
    errors = _errors(
        study, fits.params, train, test, score=resolve_score(score, study.loss), intercept=intercept
    )  # fmt: skip
    weight = jnp.sum(test, axis=1)
    (training, training_se), (validation, validation_se), (null, _) = (
        summary(part, weight, splits.repeats) for part in errors
    )
    return LearningCurve(sizes, training, validation, training_se, validation_se, null, fits.status)


def _weighted(samples: Samples, mask: Any) -> Array:
    v = jnp.ones(len(samples.X), samples.Y.dtype) if samples.weights is None else samples.weights
    return jnp.where(mask, v, 0)


def _check_sizes(sizes: Any, splits: Splits, samples: Samples) -> Array:
    known = is_concrete(splits, samples.weights)
    most = 0
    if known:
        present = True if samples.weights is None else np.asarray(samples.weights) > 0
        most = int(np.min(np.sum(np.asarray(splits.train) & present, axis=1)))
    if sizes is None:
        if not known:
            raise ValueError("sizes must be given where folds or weights are traced: their number is a shape")
        return jnp.asarray(np.unique(np.round(np.linspace(most / 8, most, 8)).astype(int)), jnp.int32)
    array = np.asarray(sizes) if is_concrete(sizes) else sizes
    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "iu":
        raise ValueError(f"sizes takes integers (S,), got dtype {array.dtype} of shape {array.shape}")
    if known and is_concrete(sizes) and not (array.min() >= 1 and array.max() <= most):
        raise ValueError(f"sizes must be from 1 to the smallest training set, {most}, got {array}")
    return jnp.asarray(array, jnp.int32)


def _first_samples(key: Any, present: Array, sizes: Array) -> Array:
    """(S, n), True for the first `sizes` of those present in a random order."""
    order = jnp.argsort(jnp.where(present, jax.random.uniform(key, present.shape), jnp.inf))
    return (jnp.argsort(order) < sizes[:, None]) & present


@partial(jax.jit, static_argnames=("settings", "per_sample"))
def _fit_lanes(study: Study, train: Array, total: Array, *, settings: Settings, per_sample: bool) -> Solution:
    """A `Solution` (K, S) for weights (K, S, n)."""

    def one(v):
        if settings.model is not None:
            return settings.model(study.X, study.y, study.penalties, v)
        penalty = scale_strengths(study.penalties, jnp.sum(v) / total) if per_sample else study.penalties
        return fit(
            study.X, study.y, study.loss, penalty, weights=v, offset=study.offset, lower=study.lower,
            upper=study.upper, intercept=settings.intercept, standardize=settings.standardize, solver=settings.solver,
            tol=study.tol, max_iter=settings.max_iter,
        )  # fmt: skip

    return jax.vmap(jax.vmap(one))(train)


@partial(jax.jit, static_argnames=("score", "intercept"))
def _errors(study: Study, params: Any, train: Array, test: Array, *, score, intercept: bool):
    """Training and validation errors (K, S) of models (K, S), with that of the null model (K, S).

    The weights of the samples that train are (K, S, n), or (K, 1, n) where all models of a fold share them, and then
    so is the error of the null model; those of the samples that test are (K, n).
    """
    n = test.shape[1]
    loss: Any = study.loss
    y = jnp.asarray(study.y, test.dtype).reshape(n, -1)
    shift = 0.0 if study.offset is None else jnp.asarray(study.offset, test.dtype).reshape(n, -1)
    num_outputs = 1 if isinstance(loss, Cox) else y.shape[1]
    one = jnp.asarray(float(intercept and not isinstance(loss, Cox)), test.dtype)

    X = study.X if study.weights is None else silence_design(study.X, study.weights)

    def of_model(model, train, test):
        eta = model(X).reshape(n, -1) + shift
        return score(loss, y, eta, train), held_out(score, loss, y, eta, train, test)

    def of_null(train, test):
        known = loss.encode(silence(y, train), train)
        offset = jnp.broadcast_to(silence(jnp.broadcast_to(shift, (n, num_outputs)), train), (n, num_outputs))
        task = Task(jnp.zeros((n, 1), y.dtype), known, offset, train, one, loss)
        b = null_model(task, Zero(), free=jnp.zeros_like).point[0]
        return held_out(score, loss, y, jnp.broadcast_to(one * b + shift, (n, num_outputs)), train, test)

    shared = train.shape[1] == 1
    inner = jax.vmap(of_model, (0, None if shared else 0, None))
    training, validation = jax.vmap(lambda models, train, test: inner(models, train[0] if shared else train, test))(
        params, train, test
    )
    null = jax.vmap(jax.vmap(of_null, (0, None)))(train, test)
    return training, validation, null
