"""One split into samples that train and samples that test."""

from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from regjax.core.checks import require
from regjax.core.tree import as_design
from regjax.losses import Loss
from regjax.models.problem import check_samples, silence_design
from regjax.selection.choice import choose, summary
from regjax.selection.cross_validate import CrossValidation, Model, cross_validate
from regjax.selection.scores import of_each, resolve_score
from regjax.selection.splits import Splits, random_splits
from regjax.solvers.minimize import Solver


def holdout(
    X: Any,
    y: Any,
    loss: Loss,
    penalties: Any,
    *,
    fraction: float = 0.25,
    test: Any = None,
    score: Any = None,
    key: Any = None,
    per_sample: bool = False,
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
) -> CrossValidation:
    r"""The error of every penalty of a grid on samples that are held out once: `cross_validate` with a single split.

    With one fold there are no differences between folds, so the standard error is that of a mean over the m samples
    that are tested, √(Σ vᵢ(eᵢ − mean)²/Σvᵢ/(m − 1)) with eᵢ the error of sample i; nan for `Cox` and for a score of
    your own, which need not be such a mean, and then `one_se` is `best`.

    Args:
        X, y, loss, penalties, score, per_sample, simpler, model, weights, offset, lower, upper, intercept, standardize,
            solver, tol, max_iter: as in `cross_validate`.
        fraction: the share of the samples that is tested, drawn at random.
        test: (n,), True for the samples that are tested, in place of `fraction`.
        key: for the random draw; the same at every call if None.

    Returns:
        A `CrossValidation` with K = 1.

    Example:
        >>> import jax.numpy as jnp, regjax
        >>> data = regjax.data.diabetes()
        >>> penalties = regjax.penalties.L2(jnp.array([1e-3, 1.0, 1e3]))
        >>> result = regjax.holdout(data.X, data.y, regjax.losses.Squared(), penalties)
        >>> print(result.scores.shape, bool(result.standard_error[0] > 0))
        (3, 1) True
    """
    samples = check_samples(X, y, weights)
    n = len(samples.X)
    if test is None:
        splits = random_splits(n, 1, fraction=fraction, key=key)
    elif key is not None:
        raise ValueError("key goes with fraction; test has chosen the samples already")
    else:
        splits = _given(test, n)
    v = jnp.where(splits.test[0], 1.0 if samples.weights is None else samples.weights, 0).astype(samples.Y.dtype)
    require(lambda v: jnp.any(v > 0), v, message="weights are zero for all samples that are tested")
    result = cross_validate(
        X, y, loss, penalties, folds=splits, score=score, per_sample=per_sample, simpler=simpler, model=model,
        weights=weights, offset=offset, lower=lower, upper=upper, intercept=intercept, standardize=standardize,
        solver=solver, tol=tol, max_iter=max_iter,
    )  # fmt: skip
    shift = None if offset is None else jnp.asarray(offset, samples.Y.dtype).reshape(n, -1)
    error = _standard_error(
        jax.tree.map(lambda leaf: leaf[0], result.fits.params), as_design(X), samples.Y, v, shift, loss,
        score=resolve_score(score, loss),
    )  # fmt: skip
    _, one_se = choose(result.mean, error, penalties, model is None, simpler)
    return replace(result, standard_error=error, one_se=one_se)


def _given(test: Any, num_samples: int) -> Splits:
    mask = test if isinstance(test, jax.Array) else np.asarray(test)
    if mask.shape != (num_samples,):
        raise ValueError(f"test has shape {mask.shape}: it takes one boolean per sample, ({num_samples},)")
    if mask.dtype != bool:
        raise ValueError(f"test has dtype {mask.dtype}: it takes booleans, True for the samples that are tested")
    require(lambda mask: jnp.any(mask) & ~jnp.all(mask), mask, message="test must leave samples to train and to test")
    return Splits(~jnp.asarray(mask)[None], jnp.asarray(mask)[None])


@partial(jax.jit, static_argnames="score")
def _standard_error(params, X, y, v, shift, loss, *, score) -> Array:
    """(L,), from the errors of the tested samples under models (L,)."""
    seen = silence_design(X, v)

    def errors(model):
        eta = model(seen).reshape(len(y), -1)
        return of_each(score, loss, y, eta if shift is None else eta + shift)

    return summary(jax.vmap(errors)(params).T, v)[1]
