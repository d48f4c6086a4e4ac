"""Arguments that `fit` and `lam_max` share: checked, and on the scale on which the penalty applies."""

from typing import Any

import jax.numpy as jnp
from jax import Array

from regjax.core.checks import as_float_array, check_finite
from regjax.core.implicit import with_derivative_of
from regjax.core.tree import Structure
from regjax.models.problem import Centred, Samples, center
from regjax.penalties import Limited, Zero, check_penalty, limit


def check_offset(offset: Any, samples: Samples) -> Array:
    """The offset (n, t), or 0."""
    if offset is None:
        return jnp.zeros((), samples.Y.dtype)
    array = as_float_array("offset", offset).astype(samples.Y.dtype)
    takes = samples.Y.shape[:1] if samples.single else samples.Y.shape
    if array.shape not in (takes, samples.Y.shape[:1]):
        raise ValueError(f"offset has shape {array.shape}: it takes the shape of y, {takes}")
    check_finite("offset", array, samples.weights, samples=True)
    return array.reshape(len(array), -1)


def check_limits(lower: Any, upper: Any, structure: Structure, trailing: tuple[int, ...], dtype: Any):
    """Limits that broadcast against (p, t), or None where there are none."""
    if lower is None and upper is None:
        return None
    limits = Limited(Zero(), -jnp.inf if lower is None else lower, jnp.inf if upper is None else upper)
    limits = check_penalty(limits, structure, trailing, dtype)
    return limits.lower, limits.upper


def prepare(X, Y, weights, penalty, limits, intercept, standardize):
    """Centred data with scaled columns, the penalty with its limits on that scale, and the scale (p,)."""
    data = center(X, Y, weights, intercept)
    size = jnp.ones_like(data.mean_x)
    if standardize:
        size = _column_sizes(X, data, intercept)
        data = data._replace(X=data.X / size, mean_x=data.mean_x / size)
    if limits is not None:
        penalty = limit(penalty, *(end * size[:, None] for end in limits))
    return data, penalty, size


def within(limits: tuple[Array, Array] | None, coef: Array) -> Array:
    """Coefficients (p, t) that a change of scale may have brought beyond their limits by a rounding: within them."""
    return coef if limits is None else with_derivative_of(jnp.clip(coef, *limits), coef)


def _column_sizes(X: Array, data: Centred, intercept: bool) -> Array:
    """Weighted standard deviations (p,), about the mean even without an intercept; 1 for a constant column."""
    if not intercept:
        data = center(X, data.Y, data.weights, True)
    return jnp.where(data.empty | (data.size == 0), 1, jnp.sqrt(data.size / data.total))
