"""Constraints on the norm of the coefficients.

The projection onto the ℓ1 ball is written out: that of optax loses float32 its digits where the ball is small, and
raises an error for float32 coefficients under `jax_enable_x64`.
"""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike
from optax.projections import projection_l2_ball

from regjax.core.node import register_node
from regjax.penalties.elementary import (
    ByCoefficient,
    cast,
    divide,
    misalignment,
    over_columns,
    rounding,
    safe_sqrt,
    soft,
)


class Ball(ByCoefficient):
    """The methods of the constraint ‖w‖ ≤ r on each column; a class gives the norm, its dual and the projection."""

    radius: Any

    convex = True
    separable = False

    def norm(self, w: Array) -> Array:
        """‖w‖, per column."""
        raise TypeError(f"{type(self).__name__} has no norm")

    def polar(self, z: Array) -> Array:
        """The dual norm, per column: the largest ⟨w, z⟩ with ‖w‖ ≤ 1."""
        raise TypeError(f"{type(self).__name__} has no dual norm")

    def project(self, w: Array, radius: Array) -> Array:
        """The nearest point of a ball of positive radius to w (p,)."""
        raise TypeError(f"{type(self).__name__} has no projection")

    def value(self, w: Array) -> Array:
        """0 in the ball up to rounding, else inf."""
        norm = self.norm(w)
        return jnp.where(jnp.any(norm > self._radius(w) * (1 + rounding(w))), jnp.inf, 0 * jnp.sum(norm))

    def prox(self, w: Array, step: ArrayLike) -> Array:
        """The projection onto the ball, whatever the step is."""
        del step

        def column(w, radius):
            some = radius > 0
            point = jnp.where(some, self.project(w, jnp.where(some, radius, 1)), 0)
            # a point that is far from a small ball is projected with the rounding of its own size
            return point * lax.stop_gradient(divide(radius, jnp.maximum(self.norm(point), radius)))

        return over_columns(column, w, self._radius(w))

    def conjugate(self, z: Array) -> Array:
        """P*(z), the radius times the dual norm."""
        return jnp.sum(self._radius(z) * self.polar(z))

    def dual_scale(self, z: Array) -> Array:
        """1: every z is in the domain of P*."""
        return 1 + 0 * jnp.sum(z)

    def distance(self, w: Array, z: Array) -> Array:
        """|w − prox(w + z, 1)|, which is 0 exactly where z ∈ ∂P(w)."""
        return jnp.abs(w - self.prox(w + z, 1.0))

    def dual_norm(self, z: Array) -> Array:
        """Not defined: raises TypeError."""
        raise TypeError(f"{type(self).__name__} has no strength, so that dual_norm is not defined for it")

    def free(self, w: Array) -> Array:
        """None."""
        return jnp.zeros(w.shape, bool)

    def _radius(self, w: Array) -> Array:
        return jnp.broadcast_to(cast(self.radius, w), w.shape[1:])

    def _on_sphere(self, w: Array) -> Array:
        return self.norm(w) >= self._radius(w) * (1 - rounding(w))


@register_node
@dataclass(frozen=True, eq=False)
class L1Ball(Ball):
    """The constraint ‖w‖₁ ≤ r; with t targets on each column.

    Attributes:
        radius: r ≥ 0, a scalar or one per target (t,).

    Example:
        >>> import jax.numpy as jnp
        >>> print(L1Ball(2.0).prox(jnp.array([3.0, -2.0, 0.0]), 1.0))
        [ 1.5 -0.5  0. ]
    """

    radius: Any

    def norm(self, w: Array) -> Array:
        """‖w‖₁."""
        return jnp.sum(jnp.abs(w), axis=0)

    def polar(self, z: Array) -> Array:
        """‖z‖∞."""
        return jnp.max(jnp.abs(z), axis=0, initial=0)

    def project(self, w: Array, radius: Array) -> Array:
        """The soft threshold at max over k of (the sum of the k largest sizes − r)/k, if that is positive."""
        sums = jnp.cumsum(jnp.sort(jnp.abs(w), descending=True))
        count = jnp.arange(1, len(w) + 1, dtype=w.dtype)
        return soft(w, jnp.max((sums - radius) / count, initial=0))

    def slack(self, w: Array, z: Array) -> Array:
        """P(w) + P*(z) − ⟨w, z⟩ = Σⱼ |wⱼ|(‖z‖∞ − sign(wⱼ)zⱼ) + ‖z‖∞(r − ‖w‖₁)."""
        largest = self.polar(z)
        inside = largest * jnp.maximum(self._radius(w) - self.norm(w), 0)
        return jnp.sum(jnp.abs(w) * (largest - jnp.sign(w) * z)) + jnp.sum(inside) + self.value(w)

    def tangent(self, w: Array, u: Array) -> Array:
        """u inside of the ball; on its surface u on the support, without its part across the face."""
        signs = jnp.sign(w)
        across = divide(jnp.sum(signs * u, axis=0), jnp.sum(jnp.abs(signs), axis=0))
        return jnp.where(self._on_sphere(w), jnp.where(w == 0, 0, u - signs * across), u)


@register_node
@dataclass(frozen=True, eq=False)
class L2Ball(Ball):
    """The constraint ‖w‖₂ ≤ r; with t targets on each column.

    Attributes:
        radius: r ≥ 0, a scalar or one per target (t,).

    Example:
        >>> import jax.numpy as jnp
        >>> print(L2Ball(1.0).prox(jnp.array([3.0, 4.0]), 1.0))
        [0.6 0.8]
    """

    radius: Any

    def norm(self, w: Array) -> Array:
        """‖w‖₂."""
        return safe_sqrt(jnp.sum(w**2, axis=0))

    def polar(self, z: Array) -> Array:
        """‖z‖₂."""
        return self.norm(z)

    def project(self, w: Array, radius: Array) -> Array:
        """w, shortened."""
        return projection_l2_ball(w, radius)

    def slack(self, w: Array, z: Array) -> Array:
        """P(w) + P*(z) − ⟨w, z⟩ = ‖z‖(r − ‖w‖) + (‖w‖‖z‖ − ⟨w, z⟩)."""
        inside = self.norm(z) * jnp.maximum(self._radius(w) - self.norm(w), 0)
        return jnp.sum(inside + misalignment(w, z, self.norm)) + self.value(w)

    def tangent(self, w: Array, u: Array) -> Array:
        """u inside of the ball; on its surface, which is curved, u without its part along w."""
        along = divide(jnp.sum(w * u, axis=0), jnp.sum(w**2, axis=0))
        return jnp.where(self._on_sphere(w), jnp.where(self._radius(w) == 0, 0, u - w * along), u)
