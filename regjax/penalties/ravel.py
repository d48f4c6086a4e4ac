"""Penalties of pytree designs."""

from dataclasses import fields, replace
from typing import Any, TypeVar

import jax
import jax.numpy as jnp

from regjax.core.checks import as_float_array
from regjax.core.tree import Structure, broadcast_strengths

P = TypeVar("P")


def ravel_penalty(penalty: P, structure: Structure, trailing: tuple[int, ...] = ()) -> P:
    """The same penalty of the ravelled coefficients (p,) or (p, t), its numbers as arrays of floats.

    Strengths, factors and limits per coefficient may be prefix pytrees of the design, one entry per block: these
    become (p,), or (p, 1) with targets. A scalar stays one. An array of strengths follows NumPy's rules against the
    coefficients, so that (t,) is one per target; an array (p,) of factors or limits is one per coefficient, and becomes
    (p, 1) with targets.

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
        if hasattr(value, "prox"):  # the penalty of `Limited`
            changes[entry.name] = ravel_penalty(value, structure, trailing)
        elif "ravel" in entry.metadata:
            per_coefficient = entry.metadata["ravel"] == "coefficient"
            changes[entry.name] = _against_coef(entry.name, value, structure, shape, per_coefficient)
        else:
            changes[entry.name] = as_float_array(entry.name, value)
    return replace(penalty, **changes)  # pyright: ignore[reportArgumentType, reportCallIssue]


def _against_coef(name: str, value: Any, structure: Structure, shape: tuple[int, ...], per_coefficient: bool) -> Any:
    """A scalar, or an array that broadcasts against coefficients of this shape."""
    is_tree = isinstance(value, dict) or not jax.tree_util.treedef_is_leaf(structure.treedef)
    if is_tree and not jax.tree_util.all_leaves([value]):
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
