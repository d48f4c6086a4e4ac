"""`Slope` within limits."""

from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from regjax.core.node import register_node
from regjax.penalties.elementary import PER_COEFFICIENT, over_columns
from regjax.penalties.levels import maximiser
from regjax.penalties.limited_ordered import LimitedOrder
from regjax.penalties.slope import layered, scaled_limits


@register_node
@dataclass(frozen=True, eq=False)
class LimitedSlope(LimitedOrder):
    r"""`Slope` with lowerⱼ ≤ wⱼ ≤ upperⱼ.

    Coefficients that may not have the sign of w are 0, and then the sizes u = f|w| have caps cⱼ, f times the limit on
    the side of w. Both P(w) − ⟨w, z⟩ and P*(z) are integrals over levels t of what a set is worth, Σ (|z|/f)ⱼ over it
    less the first λ: of {u > t}, and of the best set of those with cⱼ > t, which is {u* > t} for a maximiser u*.

    Attributes:
        penalty: `Slope`.
        lower: ≤ 0, a scalar, (p,), or an array that broadcasts against w. upper: ≥ 0, likewise.

    Example:
        >>> import jax.numpy as jnp
        >>> from regjax.penalties import Slope
        >>> P = LimitedSlope(Slope(jnp.array([2.0, 1.0, 0.0])), 0.0, jnp.array([1.0, 2.0, 1.5]))
        >>> print(P.prox(jnp.array([0.5, -3.5, 4.0]), 1.0))
        [0.  0.  1.5]
    """

    penalty: Any
    lower: Any = field(default=-jnp.inf, metadata=PER_COEFFICIENT)
    upper: Any = field(default=jnp.inf, metadata=PER_COEFFICIENT)

    def prox(self, w: Array, step: ArrayLike) -> Array:
        """argmin over u of ‖u − w‖²/(2 step) + P(u)."""
        shrunk = self.penalty.prox_within(self._opened(w), step, self._limits(w))
        return self.box(w).prox(shrunk, 1.0)  # of coefficients that are not in the list

    def slack(self, w: Array, z: Array) -> Array:
        """P(w) + P*(z) − ⟨w, z⟩: for each level the worth of the best set less that of {f|w| > t}."""
        endless = jnp.isinf(self._limits(z))

        def column(sizes, terms, push, caps, lams):
            # above all limits no set is worth anything, or P* is inf
            caps = jnp.where(jnp.isinf(caps), jnp.max(jnp.where(jnp.isinf(caps), 0, caps)), caps)
            order, best = maximiser(push, lams, caps)
            levels, terms = lax.sort((-jnp.append(best, sizes), jnp.append(push[order] - lams, terms)), num_keys=1)
            return -levels, terms

        opened, (_, factors) = self._opened(z), self.penalty.listing(z)
        push, caps = jnp.abs(self.penalty.charged(opened)), scaled_limits(self._limits(z), factors)
        levels = over_columns(column, *self.penalty.ordered(w, z), push, caps, self.penalty.lams_of(z))
        outside = self.penalty.conjugate(jnp.where(endless, opened, 0)) + self.penalty.barrier(w)
        return layered(*levels) + outside + self.box(w).slack(w, self._loose(z))

    def conjugate(self, z: Array) -> Array:
        """P*(z), the slack at 0."""
        return self.slack(jnp.zeros_like(z), z)

    def dual_scale(self, z: Array) -> Array:
        """The largest s in [0, 1] with s·z in the domain of P*: that of `Slope` where z pushes at no limit."""
        endless = jnp.where(jnp.isinf(self._limits(z)), self._opened(z), 0 * z)
        return jnp.minimum(self.penalty.dual_scale(endless), self.box(z).dual_scale(self._loose(z)))

    def dual_norm(self, z: Array) -> Array:
        """The smallest multiple of this penalty for which z is in its subdifferential at 0."""
        return self.penalty.dual_norm(self._opened(z))

    def tangent(self, w: Array, u: Array) -> Array:
        """That of the penalty, 0 at the limits and for coefficients of the size of one that is at its limit."""
        box = self.box(w)
        return box.tangent(w, self.penalty.tangent_within(w, u, (w <= box.lower) | (w >= box.upper)))

    def _opened(self, x: Array) -> Array:
        """x, 0 where its sign is not allowed."""
        box = self.box(x)
        return jnp.clip(x, jnp.where(box.lower < 0, -jnp.inf, 0), jnp.where(box.upper > 0, jnp.inf, 0))

    def _limits(self, x: Array) -> Array:
        """The limit of the size of each coefficient on the side of x."""
        box = self.box(x)
        return jnp.where(x > 0, box.upper, -box.lower)

    def _loose(self, z: Array) -> Array:
        """z of the coefficients that have limits only."""
        return jnp.where(self.penalty.free(z) & ~self.free(z), z, 0)
