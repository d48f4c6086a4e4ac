"""What pictures are drawn from: results of regjax or plain arrays, read as arrays of numpy."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from regjax.penalties import strength_axes


def strengths_of(result: Any, lams: Any) -> np.ndarray:
    """λ (L,): as given, or those that a result holds, of several the first that vary."""
    if lams is None:
        lams = getattr(result, "lam", None)
    if lams is None:
        lams = _first_that_varies(_grid_of(result))
    array = np.asarray([] if lams is None else lams, float)
    if array.ndim != 1 or len(array) == 0:
        raise ValueError(f"lams takes the values (L,) of λ, got {'none' if lams is None else f'shape {array.shape}'}")
    return array


def symbol_of(result: Any) -> str:
    """What the values along a grid are called: λ, the radius of a ball, or as the hyperparameter of a model is."""
    grid = _grid_of(result)
    while hasattr(grid, "penalty"):
        grid = grid.penalty
    if hasattr(grid, "prox"):
        return "radius" if hasattr(grid, "radius") else "λ"
    first = [where[-1:] for where, _ in jax.tree_util.tree_leaves_with_path(grid)][:1]
    name = "".join(jax.tree_util.keystr(where, simple=True) for where in first)
    return name if name.isidentifier() and name != "lam" else "λ"


def _grid_of(result: Any) -> Any:
    return getattr(result, "penalties", getattr(result, "hyperparameters", None))


def _first_that_varies(grid: Any) -> Any:
    axes = strength_axes(grid) if hasattr(grid, "prox") else jax.tree.map(lambda _: 0, grid)
    pairs = zip(*(jax.tree.leaves(tree, is_leaf=lambda leaf: leaf is None) for tree in (axes, grid)), strict=True)
    return next((leaf for axis, leaf in pairs if axis == 0), None)


def coefficients_of(model: Any, names: Sequence[str], lead: int | None = None) -> tuple[np.ndarray, Sequence[str]]:
    """(p,), or (L, p) with a leading axis of length `lead`, and names from the tree where it has some."""
    for attribute in ("path", "params", "coef"):
        model = getattr(model, attribute, model)
    shape = () if lead is None else (lead,)
    columns, found = [], []
    for path, leaf in jax.tree_util.tree_leaves_with_path(model):
        leaf = np.asarray(leaf, float)
        if leaf.shape[: len(shape)] != shape or (leaf.ndim == len(shape) == 1 and not path):
            raise ValueError(f"the coefficients have shape {leaf.shape}: they take {(*shape, 'p')}")
        columns.append(leaf.reshape(*shape, -1))
        name = ".".join(str(getattr(key, "key", getattr(key, "idx", key))) for key in path)
        width = columns[-1].shape[-1]
        found += [name] if width == 1 else [f"{name}[{j}]" for j in range(width)]
    coefs = np.concatenate(columns, axis=-1)
    if len(names) not in (0, coefs.shape[-1]):
        raise ValueError(f"names has {len(names)} entries for {coefs.shape[-1]} coefficients")
    tree = len(columns) > 1
    names = names if len(names) or not tree else found
    return coefs, [str(name).replace("$", r"\$") for name in names]  # which matplotlib would read as mathematics


def as_shape(name: str, value: Any, shape: tuple[int | None, ...]) -> np.ndarray:
    """`value` as an array of that shape, None for any length."""
    array = np.asarray(value, float)
    if array.ndim != len(shape) or any(want not in (None, got) for got, want in zip(array.shape, shape, strict=True)):
        raise ValueError(f"{name} has shape {array.shape}: it takes {shape}")
    return array
