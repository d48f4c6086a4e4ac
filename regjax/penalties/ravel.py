"""Penalties of pytree designs."""

from dataclasses import fields, replace
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from regjax.core.checks import as_float_array
from regjax.core.tree import Structure, broadcast_strengths
from regjax.penalties.sums import PlusL2

P = TypeVar("P")


def ravel_penalty(penalty: P, structure: Structure, trailing: tuple[int, ...] = ()) -> P:
    """The same penalty of the ravelled coefficients (p,) or (p, t), its numbers as arrays of floats.

    Strengths, factors and limits per coefficient may be prefix pytrees of the design, one entry per block: these
    become (p,), or (p, 1) with targets; strengths of groups become (G,) or (G, 1). A scalar stays one. An array of
    strengths follows NumPy's rules against the coefficients, so that (t,) is one per target; an array (p,) of factors
    or limits is one per coefficient, and becomes (p, 1) with targets.

    Args:
        penalty: any penalty.
        structure: of the design, from `ravel_design`.
        trailing: (t,) with targets, else ().

    Example:
        >>> import jax.numpy as jnp
        >>> from regjax.core.tree import ravel_design
        >>> from regjax.penalties import L1
        >>> _, structure = ravel_design({"age": jnp.ones(3), "genes": jnp.ones((3, 2))})
        >>> print(ravel_penalty(L1({"age": 0.0, "genes": 3.0}), structure).lam)
        [0. 3. 3.]
    """
    shape = (structure.num_columns, *trailing)
    changes: dict[str, Any] = {}
    for entry in fields(penalty):  # pyright: ignore[reportArgumentType]
        value = getattr(penalty, entry.name)
        if value is None or entry.metadata.get("static"):
            continue
        kind, groups = entry.metadata.get("ravel"), _groups(penalty)
        if hasattr(value, "prox"):  # the penalty of `Limited`
            changes[entry.name] = ravel_penalty(value, structure, trailing)
        elif kind == "group" or (kind == "strength" and isinstance(penalty, PlusL2) and groups is not None):
            changes[entry.name] = _against_groups(entry.name, value, structure, groups, trailing, kind == "group")
        elif kind is not None:
            changes[entry.name] = _against_coef(entry.name, value, structure, shape, kind == "coefficient")
        elif isinstance(value, dict):
            raise ValueError(
                f"{entry.name} of {type(penalty).__name__} takes no value per block of the design: the penalty couples"
                " coefficients of different blocks"
            )
        else:
            changes[entry.name] = as_float_array(entry.name, value)
    return replace(penalty, **changes)  # pyright: ignore[reportArgumentType, reportCallIssue]


def _groups(penalty: Any) -> Any:
    """The groups of a penalty, or of the one that it holds."""
    return getattr(penalty, "groups", getattr(getattr(penalty, "penalty", None), "groups", None))


def _is_prefix(value: Any, structure: Structure) -> bool:
    """Whether a strength is a tree, for a design that is one."""
    is_tree = isinstance(value, dict) or not jax.tree_util.treedef_is_leaf(structure.treedef)
    return is_tree and not jax.tree_util.all_leaves([value])


def _against_groups(
    name: str, value: Any, structure: Structure, groups: Any, trailing: tuple[int, ...], per_group: bool
) -> Array:
    """An array as it is; a prefix pytree as one number per group, or per coefficient if not `per_group`."""
    message = f"{name} takes one number per block of the design, and no group may be in two of them"
    if not _is_prefix(value, structure):
        array = as_float_array(name, value)
        if array.ndim and not per_group:
            raise ValueError(f"{name} has shape {array.shape}: it takes a scalar; with groups {message}")
        return array
    leaves, tree = jax.tree.flatten(value)
    places = jax.tree.unflatten(tree, [jnp.full(jnp.shape(leaf), k) for k, leaf in enumerate(leaves)])
    with jax.ensure_compile_time_eval():
        block = np.asarray(broadcast_strengths(name, places, structure))
    _, first = np.unique(groups, return_index=True)
    if any(jnp.ndim(leaf) for leaf in leaves) or np.any(block != block[first][np.array(groups)]):
        raise ValueError(message)
    array = as_float_array(name, broadcast_strengths(name, value, structure))
    array = array[first] if per_group else array
    return array[:, None] if trailing else array


def _against_coef(name: str, value: Any, structure: Structure, shape: tuple[int, ...], per_coefficient: bool) -> Any:
    """A scalar, or an array that broadcasts against coefficients of this shape."""
    if _is_prefix(value, structure):
        value, per_coefficient = broadcast_strengths(name, value, structure), True
    array = as_float_array(name, value)
    if per_coefficient and array.ndim == 1 and len(shape) == 2:
        array = array[:, None]
    try:
        fits = jnp.broadcast_shapes(array.shape, shape) == shape
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(
            f"{name} has shape {array.shape}, which does not broadcast against coefficients {shape} (use jax.vmap or"
            " regjax.path for a grid)"
        )
    return array
