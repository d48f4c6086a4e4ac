"""`Slope` and `TotalVariation` within limits that are the same for all coefficients."""

from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from regjax.core.node import register_node
from regjax.penalties.chains import compose_all
from regjax.penalties.elementary import (
    PER_COEFFICIENT,
    ByCoefficient,
    bisect,
    cast,
    over_columns,
    per_row,
    rounding,
    times,
)
from regjax.penalties.elementwise import Box


class LimitedOrder(ByCoefficient):
    """The methods of P(w) with lower ≤ wⱼ ≤ upper for all j; a class gives the dual methods.

    Limits are cuts: the prox within them is that of P, clipped. Only the first row of an array of limits counts.
    """

    penalty: Any
    lower: Any
    upper: Any

    convex = True
    separable = False

    def box(self, w: Array) -> Box:
        """The limits, one per column."""
        return Box(*(jnp.broadcast_to(per_row(cast(limit, w), w), w.shape)[:1] for limit in (self.lower, self.upper)))

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


@register_node
@dataclass(frozen=True, eq=False)
class LimitedVariation(LimitedOrder):
    r"""`TotalVariation` with lower ≤ wⱼ ≤ upper, the same limits for all coefficients.

    A dual point is split into z = Dᵀc + q with |cⱼ| ≤ λfⱼ from the first coefficient to the last, c taking up as much
    of z as it can hold. That leaves the least Σ|qⱼ|, and Σ qⱼ is given: the limits carry the least of either sign.

    Attributes:
        penalty: `TotalVariation`.
        lower: ≤ 0. upper: ≥ 0.

    Example:
        >>> import jax.numpy as jnp
        >>> from regjax.penalties import TotalVariation
        >>> print(LimitedVariation(TotalVariation(1.0), 0.0, 4.0).prox(jnp.array([-2.0, 1.0, 5.0, 6.0]), 1.0))
        [0. 1. 4. 4.]
    """

    penalty: Any
    lower: Any = field(default=-jnp.inf, metadata=PER_COEFFICIENT)
    upper: Any = field(default=jnp.inf, metadata=PER_COEFFICIENT)

    def slack(self, w: Array, z: Array) -> Array:
        """P(w) + P*(z) − ⟨w, z⟩ = Σⱼ |dⱼ|(λfⱼ − sign(dⱼ)cⱼ), d the differences of w, and the slack of the box at q."""
        steps, charges = jnp.diff(w, axis=0), self.penalty.charges(w)
        held, rest = self._split(z)
        terms = jnp.where(steps == 0, 0, jnp.abs(steps) * (charges - jnp.sign(steps) * held))
        return jnp.sum(jnp.maximum(terms, 0)) + self.box(w).slack(w, rest)

    def conjugate(self, z: Array) -> Array:
        """P*(z), that of the box at q."""
        return self.box(z).conjugate(self._split(z)[1])

    def dual_scale(self, z: Array) -> Array:
        """The largest s in [0, 1] with s·z in the domain of P*."""
        box = self.box(z)
        z = z - self.unpenalised(z)
        return 1 / jnp.maximum(self._gauge(self.penalty, z, jnp.isinf(box.upper), jnp.isinf(box.lower)), 1)

    def dual_norm(self, z: Array) -> Array:
        """The smallest λ for which z ∈ ∂P(0); inf where z has a mean that only a limit could hold."""
        box = self.box(z)
        z = z - self.unpenalised(z)
        return self._gauge(replace(self.penalty, lam=1.0), z, box.upper > 0, box.lower < 0)

    def _split(self, z: Array) -> tuple[Array, Array]:
        """c (p − 1, …) and q (p, …), without what may be rounding where a limit is infinite."""
        z = z - self.unpenalised(z)

        def column(z, charges):
            ends = jnp.append(charges, 0)
            held = compose_all(-z, -ends, ends)
            return held[:-1], z - jnp.append(0, held[:-1]) + held

        held, rest = over_columns(column, z, self.penalty.charges(z))
        box = self.box(z)
        endless = jnp.where(rest > 0, jnp.isinf(box.upper), jnp.isinf(box.lower))
        return held, jnp.where(endless & (jnp.abs(rest) <= self._slip(z)), 0, rest)

    def _gauge(self, penalty: Any, z: Array, up: Array, down: Array) -> Array:
        """The smallest g at which the charges g·λf hold z of every stretch, in the directions that are open."""
        edge = jnp.zeros((1, *z.shape[1:]), z.dtype)

        def over(g, penalty, z):
            """By how much a stretch sums to more than the charges at its two ends, in the worst place."""
            charges = times(jnp.concatenate([edge, penalty.charges(z), edge]), g)
            sums = jnp.concatenate([edge, jnp.cumsum(z, axis=0)])
            sides = [(a - charges)[1:] - lax.cummin(a + charges)[:-1] for a in (sums, -sums)]
            return jnp.max(jnp.maximum(*(jnp.where(on, s, -jnp.inf) for on, s in zip((up, down), sides, strict=True))))

        fixed = lax.stop_gradient((penalty, z))
        charges = fixed[0].charges(z)
        most = jnp.sum(jnp.abs(fixed[1])) / jnp.min(jnp.where(charges > 0, charges, jnp.inf), initial=jnp.inf)
        slip = jnp.max(self._slip(fixed[1]))
        most = jnp.where(most > 0, most, 1)
        _, g = bisect(lambda g: over(g, *fixed) > slip, jnp.zeros_like(most), most)
        slope = jax.jvp(lambda g: over(g, *fixed), (g,), (jnp.ones_like(g),))[1]
        g = g - jnp.where(slope < 0, over(g, penalty, z) / jnp.where(slope < 0, slope, 1), 0)  # with a derivative
        holds = over(0 * most, *fixed) <= slip
        never = over(most, *fixed) > slip
        return jnp.where(holds, 0, jnp.where(never, jnp.inf, g)) + 0 * jnp.sum(z)

    def _slip(self, z: Array) -> Array:
        return rounding(z) * len(z) ** 0.5 * jnp.max(jnp.abs(z), axis=0)
