"""Hyperparameters as one vector: which are free, in what units they are searched, and where."""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from regjax.core.checks import as_float_array, require
from regjax.kernels.kernel import Kernel
from regjax.kernels.maps import as_callable_tree

WIDE = math.log(1e5)  # how far from its given value a positive hyperparameter is searched
NEAR = math.log(1e2)  # how far from it starts are drawn


class Layout(NamedTuple):
    """How the leaves of a tree of hyperparameters make a vector; hashable.

    Attributes:
        treedef: of the tree.
        kinds: of each leaf: "log" (positive), "real", or None where it is fixed.
    """

    treedef: Any
    kinds: tuple[str | None, ...]

    def pack(self, tree: Any) -> Array:
        """The free leaves in the units of the search, as one vector (q,)."""
        leaves = zip(jax.tree.leaves(tree), self.kinds, strict=True)
        parts = [jnp.ravel(jnp.log(leaf) if kind == "log" else leaf) for leaf, kind in leaves if kind]
        return jnp.concatenate(parts)

    def unpack(self, vector: Array, tree: Any) -> Any:
        """The tree with its free leaves from the vector."""
        leaves, start = [], 0
        for leaf, kind in zip(jax.tree.leaves(tree), self.kinds, strict=True):
            if kind:
                part = vector[start : start + leaf.size].reshape(leaf.shape)
                start += leaf.size
                leaf = jnp.exp(part) if kind == "log" else part
            leaves.append(leaf)
        return jax.tree.unflatten(self.treedef, leaves)


class Search(NamedTuple):
    """Where to search: the box, and the range that starts are drawn from; all (q,)."""

    lower: Array
    upper: Array
    low_start: Array
    high_start: Array


def layout_of(tree: dict[str, Any], fixed: Any) -> Layout:
    """The layout of {"kernel", "noise", …}, with what `fixed` says held; noise per sample is held in any case."""
    held = jax.tree.leaves(_per_leaf("fixed", fixed, tree, False))
    domains = {name: jax.tree.map(lambda _: "real", part) for name, part in tree.items()}
    domains["kernel"], domains["noise"] = tree["kernel"].domain(), "positive"
    kinds = []
    for domain, hold in zip(jax.tree.leaves(domains), held, strict=True):
        kinds.append(None if hold else "real" if domain == "real" else "log")
    places = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_flatten_with_path(tree)[0]]
    if jnp.ndim(tree["noise"]):
        kinds[places.index("['noise']")] = None
    for place, leaf, kind in zip(places, jax.tree.leaves(tree), kinds, strict=True):
        if kind == "log":
            require(
                lambda a: jnp.all(a > 0),
                leaf,
                message=f"{place} starts at {leaf}: a search needs a positive value; give one, or fix it",
            )
    if not any(kinds):
        raise ValueError("fixed holds every hyperparameter: nothing is left to fit (use gp)")
    return Layout(jax.tree.structure(tree), tuple(kinds))


def search_of(layout: Layout, tree: dict[str, Any], bounds: Any, Y: Array, weights: Array | None) -> Search:
    """Boxes and ranges of starts: `bounds` where given; else around the given values, noise and mean by the data."""
    pairs = jax.tree.leaves(_per_leaf("bounds", bounds, tree, None), is_leaf=_is_pair)
    paths = [path for path, _ in jax.tree_util.tree_flatten_with_path(tree)[0]]
    middle, spread = _middle_and_spread(Y, weights)
    sides = []
    for path, leaf, kind, pair in zip(paths, jax.tree.leaves(tree), layout.kinds, pairs, strict=True):
        if not kind:
            continue
        value = jnp.log(leaf) if kind == "log" else leaf
        width = (WIDE, NEAR) if kind == "log" else (jnp.inf, jnp.maximum(jnp.abs(leaf), 1))
        side = [value - width[0], value + width[0], value - width[1], value + width[1]]
        if path[0].key == "noise":
            size = 2 * jnp.log(spread)
            side = [jnp.minimum(side[0], size - WIDE), jnp.maximum(side[1], size), size - NEAR, size]
        if path[0].key == "mean" and len(path) == 1:
            side[2:] = [jnp.broadcast_to(middle - spread, leaf.shape), jnp.broadcast_to(middle + spread, leaf.shape)]
        if pair is not None:
            low, high = (jnp.broadcast_to(_end(path, end, kind, leaf.dtype), leaf.shape) for end in pair)
            require(
                lambda low, high: jnp.all(low <= high), low, high, message=f"bounds of {_name(path)}: low above high"
            )
            # starts are drawn between the bounds, on a side without one as far as they would be without any
            first, last = (jnp.clip(near, low, high) for near in side[2:])
            first, last = jnp.where(jnp.isfinite(low), low, first), jnp.where(jnp.isfinite(high), high, last)
            side = [low, high, first, last]
        sides.append(tuple(side))
    return Search(*(jnp.concatenate([jnp.ravel(side[k]) for side in sides]) for k in range(4)))


def _middle_and_spread(Y: Array, weights: Array | None) -> tuple[Array, Array]:
    """The mean of all targets and their standard deviation, 1 where that is 0; samples of weight zero do not count."""
    present = jnp.ones(len(Y), bool) if weights is None else weights > 0
    share = present / jnp.maximum(jnp.sum(present), 1).astype(Y.dtype)
    Y = jnp.where(present[:, None], Y, 0)
    means = share @ Y
    spread = jnp.sqrt(jnp.mean(share @ (Y - means) ** 2))
    rounding = 8 * jnp.finfo(Y.dtype).eps * jnp.max(jnp.abs(Y))
    return jnp.mean(means), jnp.where(spread > rounding, spread, 1)


def priors_of(priors: Any, tree: dict[str, Any]) -> tuple[Any, ...]:
    """One callable pytree per leaf, or None: the log density of its value."""
    spread = _per_leaf("priors", priors, tree, None, is_leaf=lambda p: callable(p) and not isinstance(p, Kernel))
    functions = jax.tree.leaves(spread, is_leaf=lambda p: p is None or (callable(p) and not isinstance(p, Kernel)))
    return tuple(None if function is None else as_callable_tree(function) for function in functions)


def log_prior(priors: tuple[Any, ...], tree: Any) -> Array | float:
    """Σ log p(leaf) over the leaves that have a prior."""
    pairs = zip(priors, jax.tree.leaves(tree), strict=True)
    return sum(jnp.sum(function(leaf)) for function, leaf in pairs if function is not None)


def _is_pair(x: Any) -> bool:
    return x is None or isinstance(x, tuple)


def _per_leaf(name: str, given: Any, tree: dict[str, Any], default: Any, is_leaf: Any = _is_pair) -> Any:
    """`given`, a dictionary of prefixes of some parts of the tree, for every leaf of it."""
    given = {} if given is None else given
    if not isinstance(given, dict) or not set(given) <= set(tree):
        raise ValueError(f"{name} takes a dictionary with keys among {sorted(tree)}, got {given!r}")
    spread = {}
    for part, full in tree.items():
        try:
            spread[part] = jax.tree.broadcast(given.get(part, default), full, is_leaf=lambda x: x is None or is_leaf(x))
        except ValueError as error:
            raise ValueError(f"{name}['{part}'] does not have the structure of {full!r}: {error}") from error
    return spread


def _name(path: Any) -> str:
    return jax.tree_util.keystr(path)


def _end(path: Any, end: Any, kind: str, dtype: Any) -> Array:
    end = as_float_array(f"bounds of {_name(path)}", end).astype(dtype)
    if kind != "log":
        return end
    require(lambda a: jnp.all(a > 0), end, message=f"bounds of {_name(path)} must be positive, got {end}")
    return jnp.log(end)
