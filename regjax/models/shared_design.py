"""One copy of a design for all fits that differ in their weights: folds, repeats, bootstraps."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from regjax.core.lstsq import subtract_mean
from regjax.core.turned import Turned

_CANCELS = 1e-4  # a difference below this part of its terms has lost too many digits
_AT_ONCE = 32  # columns


class SharedDesign(NamedTuple):
    """The columns of X (n, p) as all fits see them, and what single fits need to know of them.

    Attributes:
        rows: (p, n), the columns less `center`; 0 where X is not finite, or in no fit's samples.
        center: (p,); zero without an intercept.
        constant: (p,), whether a column is constant in the samples of all fits.
        unknown: (n,), samples that have entries that are not finite.
        mean, squares: (p,) of one fit, Σ v a/Σ v and Σ v a² of the rows; (..., p) of all, as `share` gives them.
    """

    rows: Array
    center: Array
    constant: Array
    unknown: Array
    mean: Array
    squares: Array

    def pose(self, v: Array, about_means: bool, standardize: bool) -> tuple[Turned, Array]:
        """The columns of the fit with weights v (n,), centred and scaled, and what they are divided by (p,)."""
        positive = jnp.sum(v)
        total = jnp.where(positive > 0, positive, 1)
        spread = self.squares - self.mean**2 * total
        seen = self.squares > 0
        doubtful = ~self.constant & ~(seen & (spread > _CANCELS * self.squares))
        mean, spread, constant = lax.cond(
            jnp.any(doubtful),
            lambda: self._again(v, total),
            lambda: (self.mean, spread, self.constant),
        )
        size = jnp.where(constant | (spread <= 0), 1, jnp.sqrt(spread / total)) if standardize else jnp.ones_like(mean)
        middle = mean if about_means else jnp.zeros_like(mean)
        scale = jnp.where(constant, 0, 1 / size) if about_means else 1 / size
        return Turned(self.rows, middle, scale), size

    def _again(self, v: Array, total: Array) -> tuple[Array, Array, Array]:
        """Means, spreads, and which columns are constant in this fit, where a difference of sums would not tell."""
        columns, mean, constant = subtract_mean(self.rows.T, v, total)
        return mean, v @ columns**2, constant


def share(X: Array, weights: Array, about_means: bool) -> SharedDesign:
    """The design of fits with weights (..., n); leaves that differ between them have these axes in front."""
    lanes = weights.shape[:-1]
    weights = weights.reshape(-1, weights.shape[-1])
    most = jnp.max(weights, axis=0)
    total = jnp.sum(most)
    known = jnp.isfinite(X)
    X = jnp.where(known & (most > 0)[:, None], X, 0)
    centred, center, constant = subtract_mean(X, most, jnp.where(total > 0, total, 1))
    kept = jnp.where(constant, 0, centred) if about_means else X
    rows = lax.optimization_barrier(kept.T)  # in memory of its own
    sums = jnp.maximum(jnp.sum(weights, axis=1), jnp.finfo(X.dtype).tiny)
    # some columns at a time, so that their squares are never written to memory
    mean, squares = lax.map(lambda row: (weights @ row / sums, weights @ row**2), rows, batch_size=_AT_ONCE)
    center = center if about_means else jnp.zeros_like(center)
    mean, squares = (a.T.reshape(*lanes, -1) for a in (mean, squares))
    return SharedDesign(rows, center, constant, ~jnp.all(known, axis=1), mean, squares)


def with_lane_axes(design: SharedDesign, rank: int) -> SharedDesign:
    """With axes of size 1 in front of what all fits share."""
    alike = jax.tree.map(lambda a: a.reshape((1,) * rank + a.shape), design)
    return alike._replace(mean=design.mean, squares=design.squares)


def poisoned(offset: Array, design: SharedDesign, v: Array) -> Array:
    """The offset (n, t), NaN for the samples of a fit whose design is not finite."""
    return jnp.where((design.unknown & (v > 0))[:, None], jnp.nan, offset)
