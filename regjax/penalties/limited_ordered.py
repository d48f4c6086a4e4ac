"""What `Slope` and `TotalVariation` share within limits."""

from typing import Any

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from regjax.penalties.elementary import ByCoefficient, cast, per_row
from regjax.penalties.elementwise import Box


class LimitedOrder(ByCoefficient):
    """The methods of P(w) with lowerⱼ ≤ wⱼ ≤ upperⱼ; a class gives `prox`, `tangent` and the dual methods."""

    penalty: Any
    lower: Any
    upper: Any

    convex = True
    separable = False

    def box(self, w: Array) -> Box:
        """The limits, like w."""
        return Box(*(jnp.broadcast_to(per_row(cast(limit, w), w), w.shape) for limit in (self.lower, self.upper)))

    def value(self, w: Array) -> Array:
        """P(w)."""
        return self.penalty.value(w) + self.box(w).value(w)

    def prox(self, w: Array, step: ArrayLike) -> Array:
        """argmin over u of ‖u − w‖²/(2 step) + P(u)."""
        raise TypeError(f"{type(self).__name__} has no prox")

    def distance(self, w: Array, z: Array) -> Array:
        """|w − prox(w + z, 1)|, which is 0 exactly where z ∈ ∂P(w)."""
        return jnp.abs(w - self.prox(w + z, 1.0))

    def free(self, w: Array) -> Array:
        """The coefficients without strength and limits."""
        return self.penalty.free(w) & self.box(w).free(w)
