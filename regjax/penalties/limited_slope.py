"""`Slope` within limits."""

from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
from jax import Array

from regjax.core.node import register_node
from regjax.penalties.elementary import PER_COEFFICIENT, rounding
from regjax.penalties.limited_ordered import LimitedOrder


@register_node
@dataclass(frozen=True, eq=False)
class LimitedSlope(LimitedOrder):
    r"""`Slope` with |wⱼ| ≤ c, 0 ≤ wⱼ ≤ c or −c ≤ wⱼ ≤ 0, c perhaps infinite.

    Coefficients that may have one sign only are cut at 0 before they are sorted. Other limits would have to know the
    order of the coefficients before it is found.

    Attributes:
        penalty: `Slope`.
        lower, upper: −c or 0, and c or 0: the same for all coefficients.

    Example:
        >>> import jax.numpy as jnp
        >>> from regjax.penalties import Slope
        >>> P = LimitedSlope(Slope(jnp.array([2.0, 1.0, 0.0])), 0.0, 1.5)
        >>> print(P.prox(jnp.array([0.5, -3.5, 4.0]), 1.0))
        [0.  0.  1.5]
    """

    penalty: Any
    lower: Any = field(default=-jnp.inf, metadata=PER_COEFFICIENT)
    upper: Any = field(default=jnp.inf, metadata=PER_COEFFICIENT)

    def opened(self, x: Array) -> Array:
        """x, 0 where its sign is not allowed."""
        box = self.box(x)
        return jnp.clip(x, jnp.where(box.lower < 0, -jnp.inf, 0), jnp.where(box.upper > 0, jnp.inf, 0))

    def slack(self, w: Array, z: Array) -> Array:
        """P(w) + P*(z) − ⟨w, z⟩: the terms of `Slope` with e of `conjugate` added to each sum, and e(c − |w|₍₁₎)."""
        steps, sums, first = self.penalty.ordered(w, z)
        excess, cap = self._excess(z)
        unused = jnp.where(excess == 0, 0, excess * jnp.maximum(jnp.where(jnp.isinf(cap), 0, cap) - first, 0))
        total = jnp.sum(jnp.maximum(steps * (sums + excess), 0)) + jnp.sum(unused)
        outside = jnp.any(jnp.isinf(cap) & (excess > 0))
        return jnp.where(outside, jnp.inf, total) + self.box(w).slack(w, self._loose(z)) + self.penalty.barrier(w)

    def conjugate(self, z: Array) -> Array:
        """P*(z) = c·e with e the largest Σ_{k ≤ i} (|z|₍ₖ₎ − λₖ), if that is positive."""
        excess, cap = self._excess(z)
        return jnp.sum(jnp.where(excess == 0, 0, excess * cap)) + self.box(z).conjugate(self._loose(z))

    def dual_scale(self, z: Array) -> Array:
        """The largest s in [0, 1] with s·z in the domain of P*: that of `Slope` where c is infinite."""
        endless = jnp.where(jnp.isinf(self._cap(z)), self.opened(z), 0 * z)
        return jnp.minimum(self.penalty.dual_scale(endless), self.box(z).dual_scale(self._loose(z)))

    def dual_norm(self, z: Array) -> Array:
        """The smallest multiple of this penalty for which z is in its subdifferential at 0."""
        return self.penalty.dual_norm(self.opened(z))

    def _cap(self, z: Array) -> Array:
        box = self.box(z)
        return jnp.broadcast_to(jnp.maximum(box.upper, -box.lower), z.shape)[0]

    def _excess(self, z: Array) -> tuple[Array, Array]:
        """e of `conjugate`, without what may be rounding where c is infinite, and c, both per column."""
        cap, sums = self._cap(z), self.penalty.surplus(self.opened(z))
        slip = rounding(z) * len(z) ** 0.5 * jnp.max(jnp.abs(z), axis=0)
        excess = jnp.max(sums, axis=0, initial=0)
        return jnp.where(jnp.isinf(cap) & (excess <= slip), 0, excess), cap

    def _loose(self, z: Array) -> Array:
        """z of the coefficients that have limits only."""
        return jnp.where(self.penalty.free(z) & ~self.free(z), z, 0)
