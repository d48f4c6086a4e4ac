"""ℓ1 and total variation at once."""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from regjax.core.node import register_node
from regjax.penalties.chains import compose_all
from regjax.penalties.elementary import cast, over_columns, soft, strength, times
from regjax.penalties.ordered import Gauge, TotalVariation
from regjax.penalties.stretches import chain_rounding, least_multiple, worst_stretch


@register_node
@dataclass(frozen=True, eq=False)
class SparseVariation(Gauge):
    r"""P(w) = l1 Σⱼ|wⱼ| + λ Σⱼ fⱼ|wⱼ₊₁ − wⱼ|, the fused lasso: few jumps, and stretches of zeros.

    A function that is the same for all coefficients and does not fall keeps the order of neighbours, and so the
    subgradients of total variation: the prox is the soft threshold of that of total variation. With limits, or an l1
    for each coefficient, that is not so, and there are none.

    Attributes:
        l1: ≥ 0, a scalar or one per target (t,).
        lam: λ ≥ 0, likewise. factors: f ≥ 0 (p − 1,), one per difference, as in `TotalVariation`.

    Example:
        >>> import jax.numpy as jnp
        >>> print(SparseVariation(1.0, 1.0).prox(jnp.array([0.0, 1.0, 5.0, 6.0]), 1.0))
        [0. 0. 4. 4.]

    References:
        Tibshirani, Saunders, Rosset, Zhu & Knight, Sparsity and smoothness via the fused lasso, JRSS B 67 (2005).
        Friedman, Hastie, Höfling & Tibshirani, Pathwise coordinate optimization, Annals of Applied Statistics 1 (2007).
    """

    l1: Any
    lam: Any
    factors: Any = None

    @property
    def variation(self) -> TotalVariation:
        """The second part."""
        return TotalVariation(self.lam, self.factors)

    def value(self, w: Array) -> Array:
        """P(w)."""
        return jnp.sum(times(cast(self.l1, w), jnp.abs(w))) + self.variation.value(w)

    def prox(self, w: Array, step: ArrayLike) -> Array:
        """argmin over u of ‖u − w‖²/(2 step) + P(u): constant on blocks, to the last bit."""
        return soft(self.variation.prox(w, step), cast(step, w) * cast(self.l1, w))

    def slack(self, w: Array, z: Array) -> Array:
        """P(w) + P*(z) − ⟨w, z⟩ = Σⱼ |dⱼ|(λfⱼ − sign(dⱼ)cⱼ) + Σⱼ |wⱼ|(l1 − sign(wⱼ)qⱼ), d the differences of w.

        For any split z = Dᵀc + q with |cⱼ| ≤ λfⱼ and |qⱼ| ≤ l1.
        """
        steps, charges, l1 = jnp.diff(w, axis=0), self.variation.charges(w), self._l1(w)
        held, rest = over_columns(_split, z - self.unpenalised(z), charges, l1)
        jumps = jnp.where(steps == 0, 0, jnp.abs(steps) * (charges - jnp.sign(steps) * held))
        sizes = jnp.abs(w) * (l1 - jnp.sign(w) * rest)
        sizes = jnp.where(l1 == 0, 0, jnp.maximum(sizes, 0))  # what is left of a z that is not held is rounding
        return jnp.sum(jnp.maximum(jumps, 0)) + jnp.sum(sizes) + self.conjugate(z)

    def gauge(self, z: Array) -> Array:
        """The smallest g with |Σz over a stretch| ≤ g(l1·length + λf at its two ends) for every stretch."""
        z = z - self.unpenalised(z)

        def over(g, penalty, z):
            charges, l1 = penalty.variation.charges(z), penalty._l1(z)
            charges, everywhere = strength(g, charges, charges), jnp.ones(z.shape, bool)
            sides = (over_columns(worst_stretch, side - g * l1, everywhere, charges) for side in (z, -z))
            return jnp.maximum(*map(jnp.max, sides))

        return least_multiple(over, (self, z), jnp.max(lax.stop_gradient(chain_rounding(z)))) + 0 * jnp.sum(z)

    def dual_norm(self, z: Array) -> Array:
        """The smallest multiple of this penalty for which z is in its subdifferential at 0."""
        return self.gauge(z)

    def tangent(self, w: Array, u: Array) -> Array:
        """The mean of u over each run of equal coefficients, 0 where they are 0."""
        return jnp.where((w == 0) & (self._l1(w) > 0), 0, self.variation.tangent(w, u))

    def free(self, w: Array) -> Array:
        """The coefficients between two free jumps, if l1 is 0."""
        return self.variation.free(w) & (self._l1(w) == 0)

    def unpenalised(self, u: Array) -> Array:
        """The mean of each stretch between free jumps, if l1 is 0."""
        return jnp.where(self._l1(u) == 0, self.variation.unpenalised(u), 0)

    def _l1(self, w: Array) -> Array:
        return jnp.broadcast_to(cast(self.l1, w), w.shape)


def _split(z: Array, charges: Array, l1: Array) -> tuple[Array, Array]:
    """c (p − 1,) and q (p,) with z = Dᵀc + q, |cⱼ| ≤ aⱼ and |qⱼ| ≤ l1, if there are any.

    From the first entry to the last the cⱼ that the ones before allow are an interval, whose ends are clipped sums;
    back from the last one each c is taken out of it, such that q is as small as can be.
    """
    bounds = jnp.append(charges, 0)
    ends = (compose_all(-z + side * l1, -bounds, bounds) for side in (-1, 1))
    c = compose_all(z[::-1], *(jnp.append(0, end[:-1])[::-1] for end in ends))[::-1][1:]
    return c, z - jnp.append(0, c) + jnp.append(c, 0)
