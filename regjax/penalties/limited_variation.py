"""`TotalVariation` within limits."""

from dataclasses import dataclass, field, replace
from typing import Any

import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from regjax.core.node import register_node
from regjax.penalties.chains import block_max, block_means, pulled, refined_means
from regjax.penalties.elementary import PER_COEFFICIENT, cast, over_columns, strength
from regjax.penalties.limited_chains import block_limits, limited_jumps, split
from regjax.penalties.limited_ordered import LimitedOrder
from regjax.penalties.stretches import chain_rounding, least_multiple, worst_stretch


@register_node
@dataclass(frozen=True, eq=False)
class LimitedVariation(LimitedOrder):
    r"""`TotalVariation` with lowerⱼ ≤ wⱼ ≤ upperⱼ; limits of [0, 0] exclude a coefficient.

    A dual point is split into z = Dᵀc + q with |cⱼ| ≤ λfⱼ, such that the limits carry q at the least cost.

    Attributes:
        penalty: `TotalVariation`.
        lower: ≤ 0, a scalar, (p,), or an array that broadcasts against w. upper: ≥ 0, likewise.

    Example:
        >>> import jax.numpy as jnp
        >>> from regjax.penalties import TotalVariation
        >>> P = LimitedVariation(TotalVariation(1.0), 0.0, jnp.array([4.0, 4.0, 2.0, jnp.inf]))
        >>> print(P.prox(jnp.array([-2.0, 3.0, 5.0, 6.0]), 1.0))
        [0. 2. 2. 5.]
    """

    penalty: Any
    lower: Any = field(default=-jnp.inf, metadata=PER_COEFFICIENT)
    upper: Any = field(default=jnp.inf, metadata=PER_COEFFICIENT)

    def prox(self, w: Array, step: ArrayLike) -> Array:
        """argmin over u of ‖u − w‖²/(2 step) + P(u): constant on blocks, to the last bit."""

        def column(w, charges, lower, upper, lam):
            signs, _ = limited_jumps(*lax.stop_gradient((w, charges, lower, upper)), linear=False)
            means = refined_means(pulled(w, signs, charges, charges), signs)
            return jnp.clip(jnp.where(jnp.isnan(lam), lam, means), *block_limits(lower, upper, signs))

        charges, box = self.penalty.charges(w), self.box(w)
        lam = jnp.broadcast_to(cast(self.penalty.lam, w), w.shape[1:])
        return over_columns(column, w, strength(cast(step, w), charges, charges), box.lower, box.upper, lam)

    def slack(self, w: Array, z: Array) -> Array:
        """P(w) + P*(z) − ⟨w, z⟩ = Σⱼ |dⱼ|(λfⱼ − sign(dⱼ)cⱼ), d the differences of w, and the slack of the box at q."""
        steps, charges = jnp.diff(w, axis=0), self.penalty.charges(w)
        held, rest, beyond = self._split(z)
        terms = jnp.where(steps == 0, 0, jnp.abs(steps) * (charges - jnp.sign(steps) * held))
        return jnp.sum(jnp.maximum(terms, 0)) + self.box(w).slack(w, rest) + beyond

    def conjugate(self, z: Array) -> Array:
        """P*(z), that of the box at q."""
        _, rest, beyond = self._split(z)
        return self.box(z).conjugate(rest) + beyond

    def dual_scale(self, z: Array) -> Array:
        """The largest s in [0, 1] with s·z in the domain of P*."""
        box = self.box(z)
        return 1 / jnp.maximum(self._gauge(self.penalty, z, jnp.isinf(box.upper), jnp.isinf(box.lower)), 1)

    def dual_norm(self, z: Array) -> Array:
        """The smallest λ for which z ∈ ∂P(0); inf where only a limit could hold z."""
        box = self.box(z)
        return self._gauge(replace(self.penalty, lam=1.0), z, box.upper > 0, box.lower < 0)

    def tangent(self, w: Array, u: Array) -> Array:
        """The mean of u over each run of equal coefficients, 0 where one of them is at a limit."""
        box, ends = self.box(w), (jnp.diff(w, axis=0) != 0) | (self.penalty.charges(w) == 0)
        return _loose_means(u, ends, (w <= box.lower) | (w >= box.upper))

    def unpenalised(self, u: Array) -> Array:
        """The mean of each stretch between free jumps, 0 where one of its coefficients has a limit."""
        return _loose_means(u, self.penalty.charges(u) == 0, ~self.box(u).free(u))

    def _split(self, z: Array) -> tuple[Array, Array, Array]:
        """c (p − 1, …) and q (p, …), 0 where a limit is infinite; inf if there q is more than rounding, else 0."""
        z, box = z - self.unpenalised(z), self.box(z)
        held, rest = over_columns(split, z, self.penalty.charges(z), box.lower, box.upper)
        endless = jnp.where(rest > 0, jnp.isinf(box.upper), jnp.isinf(box.lower))
        beyond = jnp.where(
            endless & ~(jnp.abs(rest) <= chain_rounding(z)), lax.stop_gradient(jnp.abs(rest)) * jnp.inf, 0
        )
        return held, jnp.where(endless, 0, rest), jnp.sum(beyond)

    def _gauge(self, penalty: Any, z: Array, up: Array, down: Array) -> Array:
        """The smallest g at which the charges g·λf hold every stretch of z, in the directions in which it is open."""
        z = z - self.unpenalised(z)

        def over(g, penalty, z):
            """By how much a stretch sums to more than the charges at its two ends, in the worst place."""
            charges = penalty.charges(z)
            charges = strength(g, charges, charges)
            return jnp.maximum(*(jnp.max(over_columns(worst_stretch, *a, charges)) for a in ((z, up), (-z, down))))

        return least_multiple(over, (penalty, z), jnp.max(lax.stop_gradient(chain_rounding(z)))) + 0 * jnp.sum(z)


def _loose_means(u: Array, ends: Array, held: Array) -> Array:
    """The mean of u over each run, 0 in runs of which an entry is held."""

    def column(u, ends, held):
        return jnp.where(block_max(held, ends) > 0, 0, block_means(u, ends))

    return over_columns(column, u, ends.astype(jnp.int8), held.astype(jnp.int8))
