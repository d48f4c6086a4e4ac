"""Cross-validation: folds × λ fits, their scores and their certificates, in one compiled call."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from regjax.core.checks import as_array, check_lengths, is_concrete
from regjax.core.lanes import check_devices, share_lanes
from regjax.core.node import register_node
from regjax.core.solution import Solution
from regjax.core.tree import as_design
from regjax.losses import Cox, Loss
from regjax.models.fit import with_outputs
from regjax.models.general import check_loss
from regjax.models.prepare import check_limits, check_offset
from regjax.models.problem import Samples, check_samples, silence_design
from regjax.penalties import check_penalty, scale_strengths, strength_axes
from regjax.selection.choice import Choice, check_simpler, choose, summary
from regjax.selection.path import check_grid, path
from regjax.selection.scores import held_out, resolve_score
from regjax.selection.splits import Splits, as_splits
from regjax.solvers.minimize import Solver

Model = Callable[[Any, Any, Any, Any], Solution]


@register_node
@dataclass(frozen=True, eq=False)
class CrossValidation(Choice):
    """Errors on held-out samples along a grid of L penalties, and the fits behind them.

    Attributes:
        scores: (L, K), the error of each penalty on each fold.
        mean, standard_error: (L,), over folds, each fold with its weight.
        best: the index of the least mean; of equal ones the most regularised.
        one_se: the index of the most regularised penalty whose mean is within one standard error of the least.
        path: the fits on all samples, a `Solution` with the axis (L,).
        fits: the fits on each fold's training samples, a `Solution` with the axes (K, L).
        penalties: the grid.
    """

    scores: Array
    mean: Array
    standard_error: Array
    best: Array
    one_se: Array
    path: Solution
    fits: Solution
    penalties: Any

    @property
    def converged(self) -> Array:
        """Whether every fit of every fold, and of the path, is the answer to its problem."""
        return jnp.all(self.path.converged) & jnp.all(self.fits.converged)


def cross_validate(
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
    simpler: Any = "larger",
    model: Model | None = None,
    devices: Sequence[Any] | None = None,
    weights: Any = None,
    offset: Any = None,
    lower: Any = None,
    upper: Any = None,
    intercept: bool = True,
    standardize: bool = False,
    solver: str | Solver | None = None,
    tol: float | None = None,
    max_iter: int | None = None,
) -> CrossValidation:
    r"""The error on held-out samples of every penalty of a grid.

    A fold is a weight vector, so that the folds and the fit on all samples are lanes of one `path`: one compiled call,
    and closed forms, warm starts and certificates as there. With Eₖ the mean error on fold k and wₖ the weight of its
    samples, the mean is m = Σ wₖEₖ/Σ wₖ and its standard error √(Σ wₖ(Eₖ − m)²/Σ wₖ/(K − 1)).

    Nested cross-validation is `jax.vmap` over `weights`, the training samples of the outer folds.

    Args:
        X, y, loss, weights, offset, lower, upper, intercept, standardize, solver, tol, max_iter: as in `fit`. The
            weights count in the fits and in the errors; standardisation is that of the fold's training samples.
        penalties: as in `path`: strengths with the axis (L,) in front.
        folds: how many; or an id for each sample (n,), from 0, with -1 for one that only trains; or `Splits`, see
            `regjax.selection` for grouped, blocked, stratified and time-ordered ones.
        score: "deviance" of the loss if None (of `Squared` the mean squared error), "mse", "mae", "class" for the
            share of wrong classes, or a function `(y, eta, weights) -> scalar` of held-out samples, the smaller the
            better. For `Cox` the deviance is that of Verweij and van Houwelingen.
        key: for random folds; the same folds at every call if None.
        repeats: how often to draw folds; each draw adds its lanes.
        per_sample: whether λ is per unit of weight, as in glmnet and scikit-learn: λ Σv_train/Σv in a fold. By default
            λ is held in the sum objective, and n folds are exact leave-one-out.
        simpler: which values of the grid are more regularised, "larger" or "smaller"; of radii always the smaller.
            Of the hyperparameters of a `model` also a prefix pytree, such as `{"bandwidth": "larger", "steps":
            "smaller"}`: the first in the order of the tree decides, the others between equals.
        model: `(X, y, hyperparameters, weights) -> Solution` in place of a penalised linear model, such as
            `lambda X, y, lam, v: regjax.kernel_ridge(kernel, X, y, lam, weights=v)`. `penalties` is then a pytree of
            hyperparameters with the axis (L,) in front of every leaf, and `loss` and `offset` only score.
        devices: to share the folds between, such as `jax.devices()`; each gets a copy of the data, and the results are
            gathered on the first. Where the data live if None. The cores of a CPU are devices if
            `jax.config.update("jax_num_cpu_devices", 2)` says so before the first computation.

    Returns:
        A `CrossValidation`.

    Example:
        >>> import regjax
        >>> data = regjax.data.diabetes()
        >>> X = (data.X - data.X.mean(0)) / data.X.std(0)
        >>> lams = regjax.lam_grid(X, data.y, num=20, ratio=0.01)
        >>> cv = regjax.cross_validate(X, data.y, regjax.losses.Squared(), regjax.penalties.L1(lams), folds=5)
        >>> print(cv.scores.shape, bool(cv.converged), int((cv.at(cv.one_se).params.coef != 0).sum()))
        (20, 5) True 4

    References:
        Hastie, Tibshirani & Friedman, The Elements of Statistical Learning, Springer 2009, section 7.10.
    """
    check_simpler(simpler, penalties, model is None)
    settings = Settings(model, intercept, standardize, solver, max_iter)
    study = Study(X, y, loss, penalties, weights, offset, lower, upper, tol)
    samples, study = check_study(study, settings, per_sample=per_sample)
    splits = as_splits(folds, len(samples.X), key, repeats)
    scored = resolve_score(score, study.loss)
    rows = None if isinstance(study.loss, Cox) or not is_concrete(splits) else _tested_rows(np.asarray(splits.test))
    devices = check_devices(devices)
    results = _run(study, splits, rows, settings=settings, score=scored, per_sample=per_sample, devices=devices)
    if devices is not None and is_concrete(results):
        results = jax.device_put(results, devices[0])
    everything, scores, sizes = results
    mean, error = summary(scores, sizes, splits.repeats)
    best, one_se = choose(mean, error, penalties, model is None, simpler)
    path, fits = (jax.tree.map(lambda leaf, part=part: leaf[part], everything) for part in (0, slice(1, None)))
    return CrossValidation(scores.T, mean, error, best, one_se, path, fits, penalties)


class Study(NamedTuple):
    """The arguments that are arrays, or pytrees of them."""

    X: Any
    y: Any
    loss: Any
    penalties: Any
    weights: Any
    offset: Any
    lower: Any
    upper: Any
    tol: Any


class Settings(NamedTuple):
    """The arguments that are not."""

    model: Model | None
    intercept: bool
    standardize: bool
    solver: str | Solver | None
    max_iter: int | None


def check_study(
    study: Study, settings: Settings, *, per_sample: bool = False, grid: bool = True
) -> tuple[Samples, Study]:
    """The samples, and the study as `jit` takes it: what `fit` says about its arguments, before they are traced.

    With `grid` the penalties have an axis (L,) in front.
    """
    samples, _ = with_outputs(check_samples(study.X, study.y, study.weights), study.loss, settings.intercept)
    study = as_arrays(study)._replace(loss=check_loss(study.loss, samples))
    if settings.model is not None:
        _check_unused(study, settings, per_sample)
        if grid:
            check_lengths("penalties", jax.tree.leaves(study.penalties))
        return samples, study
    trailing = () if samples.single else (samples.Y.shape[1],)
    check_offset(study.offset, samples)
    check_limits(study.lower, study.upper, samples.structure, trailing, samples.X.dtype)
    penalty = study.penalties
    if grid:  # its first
        check_grid(penalty)
        penalty = jax.tree.map(
            lambda axis, leaf: leaf if axis is None else leaf[0],
            strength_axes(penalty), penalty, is_leaf=lambda axis: axis is None,
        )  # fmt: skip
    check_penalty(penalty, samples.structure, trailing, samples.X.dtype)
    return samples, study


def _check_unused(study: Study, settings: Settings, per_sample: bool) -> None:
    """Raise for what a model of the user's own would not be told."""
    if per_sample:
        raise ValueError("per_sample goes with penalties; a model of your own scales its hyperparameters itself")
    given = {"lower": study.lower, "upper": study.upper, "standardize": settings.standardize or None}
    given |= {"solver": settings.solver, "tol": study.tol, "max_iter": settings.max_iter}
    for name, value in given.items():
        if value is not None:
            raise ValueError(f"{name} goes with penalties; give it to what your model calls")


def as_arrays(study: Study) -> Study:
    """The study with arrays for what may be lists of numbers or parts of a data frame."""
    y, weights, offset = map(as_array, (study.y, study.weights, study.offset))
    return study._replace(X=as_design(study.X), y=y, weights=weights, offset=offset)


def fit_grid(study: Study, settings: Settings, weights: Any, factor: Any) -> Solution:
    """A `Solution` (L,) with these weights, the strengths times `factor`."""
    if settings.model is not None:
        model = settings.model
        return jax.vmap(lambda values: model(study.X, study.y, values, weights))(study.penalties)
    return path(
        study.X, study.y, study.loss, scale_strengths(study.penalties, factor), weights=weights, offset=study.offset,
        lower=study.lower, upper=study.upper, intercept=settings.intercept, standardize=settings.standardize,
        solver=settings.solver, tol=study.tol, max_iter=settings.max_iter,
    )  # fmt: skip


def _tested_rows(test: np.ndarray) -> np.ndarray:
    """The samples that each fold tests (K, R), filled up with some that it does not where others test more."""
    most = max(int(np.max(np.sum(test, axis=1))), 1)
    return np.argsort(test == 0, axis=1, kind="stable")[:, :most]


@partial(jax.jit, static_argnames=("settings", "score", "per_sample", "devices"))
def _run(study: Study, splits: Splits, rows: Any, *, settings, score, per_sample, devices):
    """The fits (1 + K, L), the first on all samples; the scores (K, L); the weight of each test set (K,).

    `rows` (K, R) are the samples to predict for each fold; all of them if None.
    """
    n = splits.train.shape[1]
    y = jnp.asarray(study.y, jnp.result_type(float, study.y)).reshape(n, -1)
    v = jnp.ones(n, y.dtype) if study.weights is None else jnp.asarray(study.weights, y.dtype)
    train, test = (jnp.where(mask, v, 0) for mask in (splits.train, splits.test))
    # the fit on all samples gets a score as well, which nobody reads: on a fold, so that its derivative is finite
    train, test = jnp.concatenate([v[None], train]), jnp.concatenate([test[:1], test])
    rows = None if rows is None else jnp.concatenate([rows[:1], rows])
    factors = jnp.sum(train, axis=1) / jnp.sum(v) if per_sample else jnp.ones(len(train), v.dtype)
    shift = jnp.zeros((n, 1), y.dtype) if study.offset is None else jnp.asarray(study.offset).reshape(n, -1)

    def one(study, y, shift, train, factor, test, rows):
        fits = fit_grid(study, settings, train, factor)
        seen = slice(None) if rows is None else rows
        known = study.X if study.weights is None else silence_design(study.X, study.weights)  # once for all folds
        X = jax.tree.map(lambda leaf: jnp.asarray(leaf)[seen], known)

        def predict(model):
            eta = model(X).reshape(len(test[seen]), -1) + shift[seen]
            return held_out(score, study.loss, y[seen], eta, train[seen], test[seen])

        return fits, jax.vmap(predict)(fits.params)

    def every(shared, lanes):
        return jax.vmap(lambda lane: one(*shared, *lane))(lanes)

    fits, scores = share_lanes(every, (study, y, shift), (train, factors, test, rows), devices)
    return fits, scores[1:], jnp.sum(test[1:], axis=1)
