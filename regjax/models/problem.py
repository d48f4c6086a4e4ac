"""A least squares problem made ready: checked, ravelled, weighted, its intercept profiled out."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from regjax.core.checks import as_float_array, check_finite, require
from regjax.core.lstsq import subtract_mean
from regjax.core.node import register_node
from regjax.core.tree import Structure, ravel_design


@register_node
@dataclass(frozen=True, eq=False)
class Linear:
    """The linear model η = b + Xw, a callable pytree.

    Attributes:
        coef: w, a pytree like the design with the sample axis removed; with t targets each leaf has a last axis t.
        intercept: b, a scalar or (t,); zero without an intercept.

    Example:
        >>> import jax.numpy as jnp
        >>> model = Linear(jnp.array([1.0, 2.0]), jnp.array(0.5))
        >>> print(model(jnp.array([[1.0, 1.0]])))
        [3.5]
    """

    coef: Any
    intercept: Array

    def __call__(self, X: Any) -> Array:
        """Predictions (n,) or (n, t) for a design X like the one of the fit."""
        matrix, structure = ravel_design(X)
        return self.intercept + matrix @ structure.ravel(self.coef, jnp.shape(self.intercept))


class Samples(NamedTuple):
    """Checked arguments of a fit: arrays of one float dtype.

    Attributes:
        X: (n, p). Y: (n, t). weights: (n,) or None.
        structure: of the design. single: whether y was (n,).
    """

    X: Array
    Y: Array
    weights: Array | None
    structure: Structure
    single: bool

    def model(self, coef: Array, intercept: Array) -> Linear:
        """The model of coefficients (p, t) in the shapes of the arguments."""
        if self.single:
            coef, intercept = coef[:, 0], intercept[0]
        return Linear(self.structure.unravel(coef), intercept)

    def per_target(self, values: Array) -> Array:
        """(..., t) as (...,) where y was (n,)."""
        return values[..., 0] if self.single else values


def check_samples(X: Any, y: Any, weights: Any = None) -> Samples:
    """Check the data of a fit; raises `ValueError` with the argument's name."""
    matrix, structure = ravel_design(X)
    target = as_float_array("y", y, matrix.dtype)  # labels do not raise the precision of X
    if target.ndim not in (1, 2):
        raise ValueError(f"y has shape {target.shape}: it takes (n,) or (n, t)")
    n, p = matrix.shape
    if n == 0 or p == 0:
        raise ValueError(f"X has {n} samples and {p} columns: it takes at least one of each")
    if len(target) != n:
        raise ValueError(f"y has {len(target)} samples, but X has {n}")
    if target.ndim == 2 and target.shape[1] == 0:
        raise ValueError(f"y has shape {target.shape}: it takes at least one target")
    dtype = jnp.result_type(matrix, target)
    if weights is not None:
        weights = check_weights(weights, n, dtype)
    check_finite("X", matrix, weights, samples=True)
    check_finite("y", target, weights, samples=True)
    Y = target.astype(dtype).reshape(n, -1)
    return Samples(matrix.astype(dtype), Y, weights, structure, target.ndim == 1)


def check_design(X: Any, weights: Any = None) -> tuple[Array, Array | None]:
    """Check a design alone: the matrix (n, p) and the weights."""
    matrix, _ = ravel_design(X)
    n, p = matrix.shape
    if n == 0 or p == 0:
        raise ValueError(f"X has {n} samples and {p} columns: it takes at least one of each")
    if weights is not None:
        weights = check_weights(weights, n, matrix.dtype)
    check_finite("X", matrix, weights, samples=True)
    return matrix, weights


def check_weights(weights: Any, num_samples: int, dtype: Any) -> Array:
    """Sample weights (n,): non-negative, not all zero."""
    array = as_float_array("weights", weights).astype(dtype)
    if array.shape != (num_samples,):
        raise ValueError(f"weights has shape {array.shape}: it takes one per sample, ({num_samples},)")
    require(lambda v: jnp.all(v >= 0), array, message="weights must be non-negative and not NaN")
    check_finite("weights", array)
    require(
        lambda v: jnp.any(v > 0),
        array,
        message="weights are all zero: at least one sample must have a positive weight",
    )
    return array


class Centred(NamedTuple):
    """Data with the intercept profiled out: minimise ½ Σᵢ vᵢ ‖yᵢ − xᵢw‖² over w alone.

    Attributes:
        X: (n, p), minus the weighted means; a constant column is exactly 0.
        Y: (n, t), minus the weighted means; a constant target is exactly 0.
        weights: v (n,). root: √v.
        mean_x, mean_y: what was subtracted; zero without an intercept.
        total: Σv. unit: √(v/Σv), the direction of the intercept; zero without one.
        size: Σᵢ vᵢxᵢⱼ² for each column (p,). empty: whether a column is zero (p,), which `size` may say by underflow.
        valid: whether the weights are (non-negative, not all zero).
    """

    X: Array
    Y: Array
    weights: Array
    root: Array
    mean_x: Array
    mean_y: Array
    total: Array
    unit: Array
    size: Array
    empty: Array
    valid: Array

    def intercept_of(self, coef: Array) -> Array:
        """b (t,) for coefficients (p, t)."""
        return self.mean_y - self.mean_x @ coef

    @property
    def scaled_x(self) -> Array:
        """√v X."""
        return self.root[:, None] * self.X

    @property
    def scaled_y(self) -> Array:
        """√v Y."""
        return self.root[:, None] * self.Y


def center(X: Array, Y: Array, weights: Array | None, intercept: bool) -> Centred:
    """Weight and centre, so that rows of weight zero have no influence, whatever they hold."""
    v = jnp.ones(len(X), X.dtype) if weights is None else weights
    valid = jnp.all(v >= 0) & jnp.any(v > 0)
    if weights is not None:
        X, Y = silence(X, v), silence(Y, v)
    positive = v > 0
    root = jnp.where(positive, jnp.sqrt(jnp.where(positive, v, 1)), 0)
    total = jnp.sum(v)
    if not intercept:
        mean_x, mean_y = jnp.zeros_like(X[0]), jnp.zeros_like(Y[0])
        empty = (v > 0).astype(X.dtype) @ jnp.abs(X) == 0
        return Centred(X, Y, v, root, mean_x, mean_y, total, jnp.zeros_like(v), _column_squares(X, v), empty, valid)
    X, mean_x, constant = subtract_mean(X, v, total)
    Y, mean_y, constant_y = subtract_mean(Y, v, total)
    # exactly 0, with its derivative
    X, Y = (jnp.where(same, a - lax.stop_gradient(a), a) for a, same in ((X, constant), (Y, constant_y)))
    unit = root / jnp.sqrt(total)
    return Centred(X, Y, v, root, mean_x, mean_y, total, unit, _column_squares(X, v), constant, valid)


def _column_squares(X: Array, v: Array) -> Array:
    return jnp.einsum("i,ij,ij->j", v, X, X)


def silence(a: Array, weights: Array) -> Array:
    """The array (n, ...) with 0 for NaN and infinity in rows of weight zero, since 0 · NaN is NaN."""
    seen = (weights > 0).reshape(-1, *(1,) * (a.ndim - 1))
    return jnp.where(seen | jnp.isfinite(a), a, 0)


def silence_design(X: Any, weights: Array) -> Any:
    """`silence` of every array of a design, so that neither predictions nor their derivatives see such rows."""
    return jax.tree.map(lambda leaf: silence(jnp.asarray(leaf), weights), X)
