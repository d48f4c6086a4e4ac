"""The arithmetic that penalties share: strengths with factors 0 and inf, soft thresholds, norms with safe gradients."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

# How a field is ravelled with a pytree design (see `ravel_penalty`): a strength broadcasts against the coefficients by
# NumPy's rules, what is given per coefficient has their first axis, what is given per group that of the groups.
STRENGTH = {"ravel": "strength"}
PER_COEFFICIENT = {"ravel": "coefficient"}
PER_GROUP = {"ravel": "group"}

Like = Array | jax.ShapeDtypeStruct


def rounding(like: Like) -> float:
    """The relative error that counts as rounding in a test of feasibility."""
    return 64 * float(jnp.finfo(jnp.result_type(like, float)).eps)


def cast(value: Any, like: Like) -> Array:
    """`value` in the dtype of `like`, so that a strength never changes the precision of the coefficients."""
    return jnp.asarray(value, jnp.result_type(like, float))


def per_row(value: Array, like: Like) -> Array:
    """One number per row, (p,), as a column (p, 1) where `like` has columns."""
    return value[:, None] if value.ndim == 1 and like.ndim == 2 else value


def times(a: Array, x: Array) -> Array:
    """a·x with inf·0 = 0."""
    return jnp.where(jnp.isinf(a) & (x == 0), 0, a) * x


def strength(lam: Any, factors: Any, like: Like) -> Array:
    """λf: 0 where f = 0, inf where f = inf, whatever λ is."""
    lam = cast(lam, like)
    if factors is None:
        return lam
    factors = per_row(cast(factors, like), like)
    excluded = jnp.isinf(factors)
    return jnp.where(excluded, jnp.inf, times(lam, jnp.where(excluded, 1, factors)))


def soft(x: Array, threshold: Array) -> Array:
    """sign(x) · max(|x| − threshold, 0)."""
    return x - jnp.clip(x, -threshold, threshold)


def safe_sqrt(square: Array) -> Array:
    """√s with derivatives 0 at s = 0."""
    zero = square == 0
    return jnp.where(zero, 0, jnp.sqrt(jnp.where(zero, 1, square)))


def divide(a: Array, b: Array) -> Array:
    """a/b, and a where b = 0."""
    return a / jnp.where(b == 0, 1, b)


def misalignment(
    w: Array, z: Array, norms: Callable[[Array], Array], expand: Callable[[Array], Array] = lambda norm: norm
) -> Array:
    """‖w‖‖z‖ − ⟨w, z⟩ per block, as ½‖w‖‖z‖ ‖w/‖w‖ − z/‖z‖‖², which does not cancel."""
    norm_w, norm_z = norms(w), norms(z)
    return norm_w * norm_z * norms(divide(w, expand(norm_w)) - divide(z, expand(norm_z))) ** 2 / 2


def bisect(below: Callable[[Array], Array], low: Array, high: Array) -> tuple[Array, Array]:
    """Where `below` holds last, and where it no longer does: neighbours, in an interval of length one."""

    def halve(_, bounds):
        low, high = bounds
        middle = (low + high) / 2
        left = below(middle)
        return jnp.where(left, middle, low), jnp.where(left, high, middle)

    return lax.fori_loop(0, 60, halve, (low, high))


def over_columns(fun: Callable[..., Any], *args: Array) -> Any:
    """`fun(*args)` for coefficients (p,); column by column, along the last axis of each argument, for (p, t)."""
    return fun(*args) if args[0].ndim == 1 else jax.vmap(fun, -1, -1)(*args)


class ByCoefficient:
    """What a penalty does not charge is told coefficient by coefficient."""

    def free(self, w: Array) -> Array:
        """The coefficients that P does not depend on."""
        raise TypeError(f"{type(self).__name__} does not say which coefficients are free")

    def unpenalised(self, u: Array) -> Array:
        """The part of u in directions that P does not charge."""
        return jnp.where(self.free(u), u, 0)
