"""Stability selection: which coefficients are selected on most random halves of the samples."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from regjax.core.checks import as_float_array, require
from regjax.core.node import register_node
from regjax.core.solution import succeeded
from regjax.losses import Loss
from regjax.selection.cross_validate import Settings, Study, check_study, fit_grid
from regjax.solvers.minimize import Solver


@register_node
@dataclass(frozen=True, eq=False)
class StabilitySelection:
    """How often each coefficient is selected.

    Attributes:
        probabilities: the share of subsamples on which a coefficient is not zero, like `params.coef` of a path: (L, p).
        maximum: the largest of them along the grid, (p,).
        selected: whether that reaches the threshold, (p,).
        num_selected: q, the mean over subsamples of how many coefficients are selected somewhere on the grid.
        error_bound: q²/((2π − 1)p), which bounds the expected number of coefficients that are selected falsely.
        status: (S, L), of the fits.
    """

    probabilities: Any
    maximum: Any
    selected: Any
    num_selected: Array
    error_bound: Array
    status: Array

    @property
    def converged(self) -> Array:
        """Whether every fit is the answer to its problem."""
        return jnp.all(succeeded(self.status))


def stability_selection(
    X: Any,
    y: Any,
    loss: Loss,
    penalties: Any,
    *,
    key: Any,
    num_subsamples: int = 100,
    threshold: Any = 0.6,
    pairs: bool = True,
    per_sample: bool = False,
    weights: Any = None,
    offset: Any = None,
    lower: Any = None,
    upper: Any = None,
    intercept: bool = True,
    standardize: bool = False,
    solver: str | Solver | None = None,
    tol: float | None = None,
    max_iter: int | None = None,
) -> StabilitySelection:
    r"""Coefficients that are selected on most random halves of the samples, with a bound on false selections.

    A half is a vector of 0/1 weights, so that all of them are lanes of one `path`. With q coefficients selected on
    average somewhere on the grid, the expected number of false ones among those whose probability reaches π is at most
    q²/((2π − 1)p), if the coefficients that are truly zero are exchangeable and the true ones are selected at least as
    easily as these. A short grid of large strengths keeps q, and with it the bound, small.

    Args:
        X, y, loss, weights, offset, lower, upper, intercept, standardize, solver, tol, max_iter: as in `fit`.
        penalties: as in `path`: strengths with the axis (L,) in front. Coefficients without a penalty are always
            selected.
        key: of the random halves.
        num_subsamples: S, how many.
        threshold: π, above ½.
        pairs: whether halves come in pairs that share no sample, as Shah and Samworth advise; S is then even.
        per_sample: whether λ is per unit of weight, as in `cross_validate`: about λ/2 for a half.

    Returns:
        A `StabilitySelection`.

    Example:
        >>> import jax, jax.numpy as jnp, regjax
        >>> data = regjax.data.diabetes()
        >>> lams = regjax.lam_grid(data.X, data.y, num=5, ratio=0.3, standardize=True)
        >>> result = regjax.stability_selection(
        ...     data.X, data.y, regjax.losses.Squared(), regjax.penalties.L1(lams), key=jax.random.key(0),
        ...     num_subsamples=20, standardize=True)
        >>> print(result.probabilities.shape, [data.names[j] for j in jnp.flatnonzero(result.selected)])
        (5, 10) ['bmi', 's5']

    References:
        Meinshausen & Bühlmann, Stability selection, J. R. Stat. Soc. B 72 (2010). Shah & Samworth, Variable selection
        with error control: another look at stability selection, J. R. Stat. Soc. B 75 (2013).
    """
    if num_subsamples < 1 or (pairs and num_subsamples % 2):
        raise ValueError(f"num_subsamples must be at least 1, and even with pairs, got {num_subsamples}")
    settings = Settings(None, intercept, standardize, solver, max_iter)
    samples, study = check_study(Study(X, y, loss, penalties, weights, offset, lower, upper, tol), settings)
    threshold = as_float_array("threshold", threshold).astype(samples.X.dtype)
    require(
        lambda t: jnp.all((t > 0.5) & (t <= 1)), threshold, message=f"threshold must be in (0.5, 1], got {threshold}"
    )
    v = jnp.ones(len(samples.X), samples.X.dtype) if samples.weights is None else samples.weights
    halves = random_halves(key, v > 0, num_subsamples, pairs)
    return _run(study, halves, v, threshold, settings=settings, per_sample=per_sample)


def random_halves(key: Any, present: Array, num: int, pairs: bool) -> Array:
    """(num, n), True for the samples of a half; with pairs the second of two shares none with the first."""
    size = jnp.sum(present) // 2

    def draw(key):
        order = jnp.argsort(jnp.where(present, jax.random.uniform(key, present.shape), jnp.inf))
        place = jnp.argsort(order)
        return jnp.stack([place < size, (place >= size) & (place < 2 * size)])

    if pairs:
        return jax.vmap(draw)(jax.random.split(key, num // 2)).reshape(num, -1)
    return jax.vmap(draw)(jax.random.split(key, num))[:, 0]


@partial(jax.jit, static_argnames=("settings", "per_sample"))
def _run(study: Study, halves: Array, v: Array, threshold: Array, *, settings: Settings, per_sample: bool):
    lanes = jnp.where(halves, v, 0)
    factors = jnp.sum(lanes, axis=1) / jnp.sum(v) if per_sample else jnp.ones(len(lanes), v.dtype)
    fits = jax.vmap(lambda v, factor: fit_grid(study, settings, v, factor))(lanes, factors)
    chosen = jax.tree.map(lambda w: w != 0, fits.params.coef)  # (S, L, ...)
    anywhere = [jnp.any(leaf, axis=1).reshape(len(lanes), -1) for leaf in jax.tree.leaves(chosen)]
    q = jnp.mean(jnp.sum(jnp.concatenate(anywhere, axis=1), axis=1).astype(v.dtype))
    p = sum(leaf.shape[1] for leaf in anywhere)
    probabilities = jax.tree.map(lambda leaf: jnp.mean(leaf.astype(v.dtype), axis=0), chosen)
    maximum = jax.tree.map(lambda leaf: jnp.max(leaf, axis=0), probabilities)
    selected = jax.tree.map(lambda leaf: leaf >= threshold - 1e-6, maximum)  # a share of exactly π counts
    bound = q**2 / ((2 * threshold - 1) * p)
    return StabilitySelection(probabilities, maximum, selected, q, bound, fits.status)
