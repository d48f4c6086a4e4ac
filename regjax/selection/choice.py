"""Which penalty of a grid to take: mean errors, their standard errors, and the most regularised of the good ones."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from regjax.core.solution import Solution
from regjax.penalties import strength_axes


class Choice:
    """What results along a grid have in common: the fits on all samples, and the one that was chosen."""

    path: Solution
    best: Array

    @property
    def params(self) -> Any:
        """The model of `best`, fitted on all samples."""
        return self.at(self.best).params

    def at(self, index: Any) -> Solution:
        """The fit on all samples with this penalty of the grid, such as `result.at(result.one_se)`."""
        return jax.tree.map(lambda leaf: leaf[index], self.path)


def check_simpler(simpler: Any, penalties: Any, named: bool) -> None:
    """Raise unless it is one of the two directions, or, of the hyperparameters of a model, a prefix pytree of these."""
    words = jax.tree.leaves(simpler)
    if not words or any(word not in ("larger", "smaller") for word in words) or (named and words != [simpler]):
        trees = "" if named else ", or a prefix pytree of these"
        raise ValueError(f"simpler must be 'larger' or 'smaller'{trees}, got {simpler!r}")
    if not named:
        try:
            jax.tree.map(lambda *_: None, simpler, penalties)
        except ValueError as error:
            raise ValueError(f"simpler takes a prefix pytree of the hyperparameters: {error}") from error


def summary(scores: Array, sizes: Array, repeats: int = 1) -> tuple[Array, Array]:
    """The mean (L,) over folds (K, L) of these sizes (K,), and its standard error, the average over rounds."""
    rounds, w = scores.reshape(repeats, -1, scores.shape[1]), sizes.reshape(repeats, -1, 1)
    rounds = jnp.where(w > 0, rounds, 0)  # a fold without weight has no score
    total, count = jnp.sum(w, axis=1), jnp.sum(w > 0, axis=1)
    means = jnp.sum(w * rounds, axis=1) / total
    squares = jnp.sum(w * (rounds - means[:, None]) ** 2, axis=1) / total
    variance = jnp.where(count > 1, squares / jnp.maximum(count - 1, 1), jnp.nan)
    return jnp.mean(means, axis=0), jnp.sqrt(jnp.mean(variance, axis=0))


def choose(mean: Array, error: Array, penalties: Any, named: bool, simpler: Any) -> tuple[Array, Array]:
    """The index of the least mean, and of the most regularised within one standard error of it.

    Args:
        mean, error: (L,); an error that is nan is taken for 0.
        penalties: the grid.
        named: whether it is a penalty, whose strengths are known, or a pytree of hyperparameters.
        simpler: what `check_simpler` takes.
    """
    rank = _rank(penalties, named, simpler)
    least = jnp.nanmin(mean)
    best = _first(jnp.isclose(mean, least, rtol=0, atol=0), rank)
    slack = jnp.where(jnp.isnan(error[best]), 0, error[best])
    return best, _first(mean <= least + slack, rank)


def _rank(penalties: Any, named: bool, simpler: Any) -> Array:
    """(L,), the larger the more regularised."""

    def towards(word, part):
        return jax.tree.map(lambda leaf: (1 if word == "larger" else -1) * jnp.asarray(leaf), part)

    if named:
        axes = strength_axes(penalties)
        pairs = jax.tree_util.tree_leaves_with_path(penalties, is_leaf=lambda leaf: leaf is None)
        mapped = jax.tree.leaves(axes, is_leaf=lambda leaf: leaf is None)
        keys = [towards("smaller" if "radius" in jax.tree_util.keystr(where) else simpler, leaf)
                for (where, leaf), axis in zip(pairs, mapped, strict=True) if axis == 0]  # fmt: skip
    else:
        keys = jax.tree.leaves(jax.tree.map(towards, simpler, penalties))
    keys = [jnp.mean(leaf.reshape(len(leaf), -1), axis=1) for leaf in keys]
    return jnp.argsort(jnp.lexsort(keys[::-1]))


def _first(eligible: Array, rank: Array) -> Array:
    """The index of the most regularised among the eligible."""
    return jnp.argmax(jnp.where(eligible, rank, jnp.iinfo(rank.dtype).min)).astype(jnp.int32)
