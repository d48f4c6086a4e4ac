"""`TotalVariation` within limits."""

from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from regjax.core.node import register_node
from regjax.penalties.chains import compose_all
from regjax.penalties.elementary import PER_COEFFICIENT, bisect, over_columns, rounding, times
from regjax.penalties.limited_ordered import LimitedOrder


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
