"""Designs are pytrees: a tree of arrays with the samples in front is a matrix, and its coefficients have its shape."""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from regjax.core.checks import as_array, as_float_array


class Structure(NamedTuple):
    """How a design was ravelled: its tree, and the shape of each leaf without the sample axis."""

    treedef: Any
    shapes: tuple[tuple[int, ...], ...]

    @property
    def num_columns(self) -> int:
        """Columns of the ravelled matrix."""
        return sum(math.prod(shape) for shape in self.shapes)

    def unravel(self, coef: Array) -> Any:
        """Coefficients (p,) or (p, t) as a tree like the design; a leaf (n, *s) gets (*s,) or (*s, t)."""
        leaves, start = [], 0
        for shape in self.shapes:
            stop = start + math.prod(shape)
            leaves.append(coef[start:stop].reshape(shape + coef.shape[1:]))
            start = stop
        return jax.tree.unflatten(self.treedef, leaves)

    def ravel(self, coef: Any, trailing: tuple[int, ...], name: str = "coef") -> Array:
        """The inverse of `unravel`: a tree of coefficients as (p, *trailing)."""
        leaves, treedef = jax.tree.flatten(coef)
        if treedef != self.treedef:
            raise ValueError(f"{name} has the tree structure {treedef}, but the design X has {self.treedef}")
        for leaf, shape in zip(leaves, self.shapes, strict=True):
            if jnp.shape(leaf) != shape + trailing:
                raise ValueError(
                    f"{name} has a leaf of shape {jnp.shape(leaf)} where the design X takes {shape + trailing}"
                    " (a batch of models is called with jax.vmap(lambda model, X: model(X), (0, None))(params, X))"
                )
        return jnp.concatenate([jnp.reshape(leaf, (-1, *trailing)) for leaf in leaves])


def as_design(X: Any) -> Any:
    """The design with every leaf an array, as `jit` takes it: nested lists of numbers are a matrix."""
    if isinstance(X, (list, tuple)) and all(isinstance(leaf, (int, float)) for leaf in jax.tree.leaves(X)):
        return as_float_array("X", X)
    return jax.tree.map(as_array, X)


def ravel_design(X: Any) -> tuple[Array, Structure]:
    """Ravel a design to a matrix (n, p).

    Args:
        X: (n, p), or a pytree of arrays (n, ...): a leaf (n,) is one column.

    Returns:
        The matrix, and the `Structure` that turns coefficients back into a tree.

    Example:
        >>> import jax.numpy as jnp
        >>> matrix, structure = ravel_design({"age": jnp.ones(3), "genes": jnp.zeros((3, 2))})
        >>> print(matrix.shape, structure.unravel(jnp.arange(3.0))["genes"])
        (3, 3) [1. 2.]
    """
    paths, treedef = jax.tree_util.tree_flatten_with_path(as_design(X))
    if not paths:
        raise ValueError("X holds no arrays: it takes an (n, p) matrix or a pytree of arrays with n samples in front")
    leaves = [as_float_array(f"X{jax.tree_util.keystr(path)}", leaf) for path, leaf in paths]
    for (path, _), leaf in zip(paths, leaves, strict=True):
        if leaf.ndim == 0:
            raise ValueError(f"X{jax.tree_util.keystr(path)} is a scalar: it takes an array with the samples in front")
        if len(leaf) != len(leaves[0]):
            raise ValueError(
                f"X{jax.tree_util.keystr(path)} has {len(leaf)} samples, but other leaves of X have {len(leaves[0])}"
            )
    structure = Structure(treedef, tuple(leaf.shape[1:] for leaf in leaves))
    columns = [leaf.reshape(len(leaf), math.prod(leaf.shape[1:])) for leaf in leaves]
    return (columns[0] if len(columns) == 1 else jnp.concatenate(columns, axis=1)), structure


def broadcast_strengths(name: str, strengths: Any, structure: Structure) -> Array:
    """Penalty strengths as one number per column (p,).

    Args:
        name: the argument's name, for errors.
        strengths: a scalar, an array that broadcasts against the coefficients, or a prefix pytree of the design, one
            entry per block.
        structure: of the design.
    """
    zeros = structure.unravel(jnp.zeros(structure.num_columns))
    try:
        full = jax.tree.map(
            lambda s, block: jax.tree.map(lambda z: jnp.broadcast_to(jnp.asarray(s), z.shape), block),
            strengths,
            zeros,
            is_leaf=lambda s: s is None,
        )
        if jax.tree.structure(full) != structure.treedef:
            raise ValueError
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"{name} takes a scalar, an array that broadcasts against the coefficients or a prefix pytree of the"
            f" design X with tree {structure.treedef}; got {jax.tree.map(jnp.shape, strengths)}"
        ) from error
    return structure.ravel(full, (), name)
