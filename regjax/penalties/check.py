"""A penalty as the user gave it, checked and in the form that solvers take: arrays against coefficients (p, t)."""

from dataclasses import fields, replace
from typing import Any, TypeVar

import jax.numpy as jnp
from jax import Array

from regjax.core.checks import require
from regjax.core.tree import Structure
from regjax.penalties.ravel import ravel_penalty

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
    if not hasattr(penalty, "prox"):
        raise ValueError(f"penalty must be a penalty of regjax.penalties, got {penalty!r}")
    groups = getattr(penalty, "groups", None)
    if groups is not None:
        _check_groups(groups, structure.num_columns)
    penalty = ravel_penalty(penalty, structure, trailing)
    changes = {}
    for name, value in _parts(penalty):
        if hasattr(value, "prox"):
            changes[name] = check_penalty(value, structure, trailing, dtype)
            continue
        if name in NON_NEGATIVE:
            require(lambda a: jnp.all(a >= 0), value, message=f"{name} must be non-negative and not NaN, got {value}")
        one_column = value.ndim == 1 and not trailing and name not in ("lams", "gamma")
        changes[name] = (value[:, None] if one_column else value).astype(dtype)
    if "lower" in changes:
        _check_limits(changes["lower"], changes["upper"], around_zero="penalty" in changes)
    return replace(penalty, **changes)  # pyright: ignore[reportArgumentType, reportCallIssue]


def _check_groups(groups: Any, num_columns: int) -> None:
    if len(groups) != num_columns:
        raise ValueError(f"groups has {len(groups)} labels: it takes one per column of X, {num_columns}")
    if sorted(set(groups)) != list(range(len(set(groups)))):
        raise ValueError(f"groups must be integers from 0 to the number of groups minus 1, got {sorted(set(groups))}")


def _check_limits(lower: Array, upper: Array, around_zero: bool) -> None:
    require(lambda lo, up: jnp.all(lo <= up), lower, upper, message="lower must not exceed upper, and not be NaN")
    if around_zero:
        for name, limit, sign in (("lower", lower, -1), ("upper", upper, 1)):
            require(
                lambda a, sign=sign: jnp.all(sign * a >= 0),
                limit,
                message=f"{name} must be {'at most' if sign < 0 else 'at least'} 0, got {limit}",
            )


def is_valid(penalty: Any) -> Array:
    """Whether a (traced) penalty has strengths that are not negative and limits in order."""
    good = jnp.array(True)
    for name, value in _parts(penalty):
        if hasattr(value, "prox"):
            good &= is_valid(value)
        elif name in NON_NEGATIVE:
            good &= jnp.all(jnp.asarray(value) >= 0)
    if hasattr(penalty, "lower"):
        good &= jnp.all(jnp.asarray(penalty.lower) <= jnp.asarray(penalty.upper))
    return good


def strength_axes(penalty: P) -> P:
    """What `jax.vmap` takes as `in_axes` for a path: 0 for strengths that have an axis, None for the rest."""
    axes: dict[str, Any] = {}
    for entry in fields(penalty):  # pyright: ignore[reportArgumentType]
        value = getattr(penalty, entry.name)
        if entry.metadata.get("static"):
            continue
        if hasattr(value, "prox"):
            axes[entry.name] = strength_axes(value)
        else:
            per_point = 1 if entry.name == "lams" else 0
            axes[entry.name] = 0 if entry.name in STRENGTHS and jnp.ndim(value) > per_point else None
    return replace(penalty, **axes)  # pyright: ignore[reportArgumentType, reportCallIssue]
