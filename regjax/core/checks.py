"""Checks of arguments: outside of `jit` a bad one raises, with its name, what it got and what it takes."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer


def is_concrete(*arrays: Any) -> bool:
    """Whether the values can be looked at, that is, none is traced by `jit`, `vmap` or `grad`."""
    return not any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(arrays))


def as_float_array(name: str, value: Any, whole: Any = None) -> Array:
    """`value` as an array of floats; half precision is raised to single.

    Integers and booleans are cast to the dtype `whole`, the default one for floats if None.
    """
    if not isinstance(value, jax.Array):
        try:
            value = np.asarray(value)
        except ValueError as error:
            raise ValueError(f"{name} is not an array: {error}") from error
        if value.dtype == object or value.dtype.kind in "USOMmV":
            raise ValueError(f"{name} has dtype {value.dtype}: it takes numbers")
    array = jnp.asarray(value)
    if jnp.issubdtype(array.dtype, jnp.complexfloating):
        raise ValueError(f"{name} has dtype {array.dtype}: it takes real numbers")
    if not jnp.issubdtype(array.dtype, jnp.floating):
        array = array.astype(jnp.result_type(float) if whole is None else whole)
    if array.dtype.itemsize < 4:
        array = array.astype(jnp.float32)
    return array


def require(predicate: Callable[..., Any], *arrays: Any, message: str) -> None:
    """Raise `ValueError(message)` unless `predicate(*arrays)` holds; traced arrays pass."""
    if not is_concrete(*arrays):
        return
    with jax.ensure_compile_time_eval():  # also for constants inside jit
        if not bool(predicate(*arrays)):
            raise ValueError(message)


def as_array(value: Any) -> Any:
    """`value` as an array, of numpy if it is not one yet; None stays."""
    return value if value is None or isinstance(value, jax.Array) else np.asarray(value)


def check_lengths(name: str, parts: Sequence[Any]) -> int:
    """L, where all parts of a grid have an axis (L,) in front."""
    shapes = [jnp.shape(part) for part in parts]
    if len({shape[:1] for shape in shapes}) != 1 or not shapes[0] or shapes[0][0] == 0:
        raise ValueError(f"{name} takes arrays with an axis (L,) in front, all of one length, got the shapes {shapes}")
    return shapes[0][0]


def check_finite(name: str, array: Array, weights: Array | None = None, *, samples: bool = False) -> None:
    """Raise if `array` has NaN or infinities; in rows of positive weight only, if it holds `samples` with weights."""
    if not is_concrete(array, weights):
        return
    with jax.ensure_compile_time_eval():
        bad = ~jnp.isfinite(array)
        if weights is not None:
            bad &= (weights > 0).reshape(-1, *(1,) * (array.ndim - 1))
        if bool(jnp.any(bad)):
            first = tuple(int(i) for i in np.argwhere(np.asarray(bad))[0])
            what = "NaN" if bool(jnp.any(jnp.isnan(array) & bad)) else "infinity"
            advice = ". Remove those samples, or give them weight 0" if samples else ""
            raise ValueError(
                f"{name} contains {what}: {int(bad.sum())} of {array.size} values are not finite, the first at {first}"
                f"{advice}"
            )


def check_strength(name: str, value: Any, dtype: Any, num_targets: int | None = None) -> Array:
    """A non-negative scalar, or one per target (t,) where `num_targets` is given."""
    array = as_float_array(name, value).astype(dtype)
    if array.ndim and (num_targets is None or array.shape != (num_targets,)):
        takes = "a scalar" if num_targets is None else f"a scalar or one value per target, shape ({num_targets},)"
        raise ValueError(f"{name} has shape {array.shape}: it takes {takes} (use jax.vmap for a grid)")
    require(lambda a: jnp.all(a >= 0), array, message=f"{name} must be non-negative and not NaN, got {array}")
    return array
