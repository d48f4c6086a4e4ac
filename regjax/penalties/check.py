"""A penalty as the user gave it, checked and in the form that solvers take: arrays against coefficients (p, t)."""

from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields, replace
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from regjax.core.checks import require
from regjax.core.tree import Structure
from regjax.penalties.blocks import Blocks, MultiTask
from regjax.penalties.nonconvex import MCP, SCAD
from regjax.penalties.ordered import TotalVariation
from regjax.penalties.ravel import ravel_penalty
from regjax.penalties.sparse_variation import SparseVariation
from regjax.penalties.sums import PlusL2

P = TypeVar("P")
# fields that must not be negative, and those among them that a path varies
NON_NEGATIVE = ("lam", "l1", "l2", "lams", "radius", "factors")
STRENGTHS = ("lam", "l1", "l2", "lams", "radius")


def _parts(penalty: Any) -> list[tuple[str, Any]]:
    """Names and values of the fields that hold something."""
    return [
        (entry.name, getattr(penalty, entry.name))
        for entry in fields(penalty)
        if getattr(penalty, entry.name) is not None and not entry.metadata.get("static")
    ]


def check_penalty(penalty: P, structure: Structure, trailing: tuple[int, ...], dtype: Any) -> P:
    """The penalty of coefficients (p, t), t = 1 where y is (n,); raises `ValueError` with the argument's name."""
    if not hasattr(penalty, "prox") or isinstance(penalty, type):
        raise ValueError(f"penalty must be a penalty of regjax.penalties, such as L1(1.0), got {penalty!r}")
    for entry in fields(penalty):  # pyright: ignore[reportArgumentType]
        if entry.default is MISSING and getattr(penalty, entry.name) is None:
            raise ValueError(f"{entry.name} is None: {type(penalty).__name__} takes a value for it")
    groups = getattr(penalty, "groups", None)
    if groups is not None:
        _check_groups(groups, structure.num_columns)
    penalty = ravel_penalty(penalty, structure, trailing)
    _check_shapes(penalty, structure.num_columns, trailing)
    changes = {}
    for name, value in _parts(penalty):
        if hasattr(value, "prox"):
            changes[name] = check_penalty(value, structure, trailing, dtype)
            continue
        one_column = value.ndim == 1 and not trailing and name not in ("lams", "gamma")
        changes[name] = (value[:, None] if one_column else value).astype(dtype)
    checked = replace(penalty, **changes)  # pyright: ignore[reportArgumentType, reportCallIssue]
    check_rules(checked)
    return checked


def check_rules(penalty: Any) -> None:
    """Raise `ValueError` where the known numbers of a penalty are not what they must be."""
    for holds, values, message in _rules(penalty):
        require(holds, *values, message=message)


def _rules(penalty: Any) -> Iterator[tuple[Callable[..., Array], tuple[Any, ...], str]]:
    """What the fields of a penalty must be: a predicate, the fields that it takes, and what to say where it fails."""
    values = dict(_parts(penalty))
    for name, value in values.items():
        if name in NON_NEGATIVE:
            yield lambda a: jnp.all(a >= 0), (value,), f"{name} must be non-negative and not NaN, got {value}"
    if "lams" in values:
        falling = f"lams must not increase, λ₁ ≥ λ₂ ≥ …, got {values['lams']}"
        yield lambda a: jnp.all(a[1:] <= a[:-1]), (values["lams"],), falling
    if isinstance(penalty, MCP | SCAD):
        least, gamma = penalty.least_gamma, values["gamma"]
        yield lambda a: jnp.all(a > least), (gamma,), f"gamma must be above {least}, got {gamma}"
    if "lower" in values:
        lower, upper = values["lower"], values["upper"]
        message = f"lower must not exceed upper, and not be NaN, got {lower} and {upper}"
        yield lambda lo, up: jnp.all(lo <= up), (lower, upper), message
        if "penalty" in values:
            yield lambda a: jnp.all(a <= 0), (lower,), f"lower must be at most 0, got {lower}"
            yield lambda a: jnp.all(a >= 0), (upper,), f"upper must be at least 0, got {upper}"


def _check_groups(groups: Any, num_columns: int) -> None:
    if not all(isinstance(label, int | np.integer) for label in groups):
        raise ValueError(f"groups must be integers from 0 to the number of groups minus 1, got {groups}")
    if len(groups) != num_columns:
        raise ValueError(f"groups has {len(groups)} labels: it takes one per column of X, {num_columns}")
    if sorted(set(groups)) != list(range(len(set(groups)))):
        raise ValueError(f"groups must be integers from 0 to the number of groups minus 1, got {sorted(set(groups))}")


def _check_shapes(penalty: Any, num_columns: int, trailing: tuple[int, ...]) -> None:
    """What broadcasts against something other than the coefficients: numbers per group, per row, or sorted ones."""
    groups = getattr(penalty, "groups", None)
    for name, value in _parts(penalty):
        if groups is not None and name != "l1":
            size, what = max(groups) + 1, "one per group"
            takes = [(), (size,)] if name == "factors" or not trailing else [(), trailing, (size, 1), (size, *trailing)]
        elif isinstance(penalty, MultiTask):
            size, what = num_columns, "one per row"
            takes = [(), (size, 1)] if trailing else [(), (size,)]
        elif isinstance(penalty, TotalVariation | SparseVariation):
            takes, what = [(), trailing], "one per target"
            if name == "factors":
                takes, what = [(), (num_columns - 1,)], "one per difference of neighbours"
        elif isinstance(penalty, PlusL2) and name == "l2" and not penalty.penalty.separable:
            takes, what = _ridge_shapes(penalty.penalty, num_columns, trailing)
        elif name == "lams":
            size, what = num_columns, "one per coefficient"
            takes = [(size,), (size, *trailing)]
        else:
            continue
        if value.shape not in takes:
            scalar = "a scalar or " if () in takes else ""
            several = "a scalar" if set(takes) == {()} else f"{scalar}{what}, {takes[-1]}"
            raise ValueError(f"{name} has shape {value.shape}: it takes {several}")


def _ridge_shapes(penalty: Any, num_columns: int, trailing: tuple[int, ...]) -> tuple[list[tuple[int, ...]], str]:
    """Shapes of the l2 of a `PlusL2` with a penalty that is not separable, and what the last of them is."""
    each = (num_columns, 1) if trailing else (num_columns,)
    if isinstance(penalty, MultiTask):
        return [(), each], "one per row"
    if isinstance(penalty, Blocks):
        return [(), each], "one per block"
    return [()], ""


def is_valid(penalty: Any) -> Array:
    """Whether the numbers of a (traced) penalty are what `check_penalty` asks for."""
    good = [holds(*map(jnp.asarray, values)) for holds, values, _ in _rules(penalty)]
    good += [is_valid(value) for _, value in _parts(penalty) if hasattr(value, "prox")]
    return jnp.all(jnp.array([True, *good]))


def strength_axes(penalty: P) -> P:
    """What `jax.vmap` takes as `in_axes` for a path: 0 for strengths that have an axis, None for the rest."""
    axes: dict[str, Any] = {}
    for entry in fields(penalty):  # pyright: ignore[reportArgumentType]
        value = getattr(penalty, entry.name)
        if entry.metadata.get("static"):
            continue
        if hasattr(value, "prox"):
            axes[entry.name] = strength_axes(value)
        elif entry.name in STRENGTHS:
            depth = 1 if entry.name == "lams" else 0
            axes[entry.name] = jax.tree.map(lambda leaf, depth=depth: 0 if jnp.ndim(leaf) > depth else None, value)
        else:
            axes[entry.name] = jax.tree.map(lambda _: None, value)
    return replace(penalty, **axes)  # pyright: ignore[reportArgumentType, reportCallIssue]


def scale_strengths(penalty: P, factor: Any) -> P:
    """The penalty with its strengths times `factor`; radii, factors and shapes stay."""
    changes: dict[str, Any] = {}
    for entry in fields(penalty):  # pyright: ignore[reportArgumentType]
        value = getattr(penalty, entry.name)
        if hasattr(value, "prox"):
            changes[entry.name] = scale_strengths(value, factor)
        elif entry.name in STRENGTHS and entry.name != "radius":
            changes[entry.name] = jax.tree.map(lambda leaf: jnp.asarray(leaf) * factor, value)
    return replace(penalty, **changes)  # pyright: ignore[reportArgumentType, reportCallIssue]
