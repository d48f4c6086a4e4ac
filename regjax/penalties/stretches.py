"""What holds a chain: every stretch of it against the charges at its two ends."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from regjax.penalties.chains import compose_all
from regjax.penalties.elementary import rounding


def worst_stretch(z: Array, reach: Array, charges: Array) -> Array:
    """The largest of Σz over a stretch within reach minus the charges at its two ends.

    Where the stretch begins is decided as in `compose_all`: the best one so far goes on, or a new one begins.
    """
    charges = jnp.append(charges, 0)
    begun = compose_all(z, -charges, jnp.where(reach, jnp.inf, -charges))
    return jnp.max(jnp.where(reach, jnp.append(0, begun[:-1]) + z - charges, -jnp.inf))


def least_multiple(over: Callable[..., Array], given: Any, slip: Array) -> Array:
    """The smallest g ≥ 0 with over(g, *given) ≤ 0, inf if there is none; differentiable in what is given.

    `over` is the largest of functions that are linear in g. From 0 Newton's steps do not pass the root, and end at it.
    Where stretches tie a step may be too long; the next one returns. What is at most `slip` is rounding.
    """
    fixed = lax.stop_gradient(given)

    def line(g):
        return jax.jvp(lambda g: over(g, *fixed), (g,), (jnp.ones_like(g),))

    def step(carry):
        k, g, (excess, slope) = carry
        g = g - excess / slope
        return k + 1, g, line(g)

    def goes_on(carry):
        k, _, (excess, slope) = carry
        return (jnp.abs(excess) > slip) & (slope < 0) & ((excess > 0) | (k > 0)) & (k < 100)

    nothing = jnp.zeros((), slip.dtype)
    steps, g, (excess, slope) = lax.while_loop(goes_on, step, (0, nothing, line(nothing)))
    downhill = slope < 0
    root = g - jnp.where(downhill, over(g, *given) / jnp.where(downhill, slope, 1), 0)  # with a derivative
    found = jnp.where((steps == 0) & (excess <= slip), 0, jnp.where(downhill | (excess <= slip), root, jnp.inf))
    return jnp.where(jnp.isnan(excess), excess, found)


def chain_rounding(z: Array) -> Array:
    """The rounding of sums over the columns of z."""
    return rounding(z) * len(z) ** 0.5 * jnp.max(jnp.abs(z), axis=0)
