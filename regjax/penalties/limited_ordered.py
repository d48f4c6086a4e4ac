"""What `Slope` and `TotalVariation` share within limits."""

from typing import Any

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from regjax.penalties.elementary import ByCoefficient, cast, per_row
from regjax.penalties.elementwise import Box


class LimitedOrder(ByCoefficient):
    """The methods of P(w) with lowerⱼ ≤ wⱼ ≤ upperⱼ; a class gives the dual methods.

    Where limits are the same for all coefficients they are cuts: the prox within them is that of P, clipped.
    """

    penalty: Any
    lower: Any
    upper: Any

    convex = True
    separable = False

    def box(self, w: Array) -> Box:
        """The limits of each coefficient."""
        return Box(*(jnp.broadcast_to(per_row(cast(limit, w), w), w.shape) for limit in (self.lower, self.upper)))

    def opened(self, x: Array) -> Array:
        """The part of x that P sees of it."""
        return x

    def value(self, w: Array) -> Array:
        """P(w)."""
        return self.penalty.value(w) + self.box(w).value(w)

    def prox(self, w: Array, step: ArrayLike) -> Array:
        """argmin over u of ‖u − w‖²/(2 step) + P(u): that without limits, clipped."""
        return self.box(w).prox(self.penalty.prox(self.opened(w), step), 1.0)

    def distance(self, w: Array, z: Array) -> Array:
        """|w − prox(w + z, 1)|, which is 0 exactly where z ∈ ∂P(w)."""
        return jnp.abs(w - self.prox(w + z, 1.0))

    def tangent(self, w: Array, u: Array) -> Array:
        """That of the penalty, 0 at the limits."""
        return self.box(w).tangent(w, self.penalty.tangent(w, u))

    def free(self, w: Array) -> Array:
        """The coefficients without strength and limits."""
        return self.penalty.free(w) & self.box(w).free(w)

    def unpenalised(self, u: Array) -> Array:
        """That of the penalty, where there are no limits."""
        return jnp.where(self.box(u).free(u), self.penalty.unpenalised(u), 0)
