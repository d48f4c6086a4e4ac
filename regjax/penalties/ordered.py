"""Total variation, and what it shares with sorted ℓ1, the other penalty that makes coefficients equal."""

from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from regjax.core.node import register_node
from regjax.penalties.chains import block_means, jumps, pulled, refined_means
from regjax.penalties.elementary import (
    ByCoefficient,
    cast,
    divide,
    over_columns,
    rounding,
    strength,
    times,
)


class Gauge(ByCoefficient):
    """The dual methods of a norm, or of a sum of norms of columns; a class gives its `gauge`."""

    convex = True
    separable = False

    def gauge(self, z: Array) -> Array:
        """The smallest c with z ∈ ∂(cP)(0)."""
        raise TypeError(f"{type(self).__name__} has no gauge")

    def conjugate(self, z: Array) -> Array:
        """P*(z): 0 where the gauge is at most 1, else inf."""
        gauge = self.gauge(z)
        return jnp.where(gauge > 1 + rounding(z) * len(z) ** 0.5, jnp.inf, 0 * gauge)  # it is made of sums over z

    def dual_scale(self, z: Array) -> Array:
        """The largest s in [0, 1] with s·z in the domain of P*."""
        return 1 / jnp.maximum(self.gauge(z), 1)

    def prox(self, w: Array, step: ArrayLike) -> Array:
        """argmin over u of ‖u − w‖²/(2 step) + P(u)."""
        raise TypeError(f"{type(self).__name__} has no prox")

    def distance(self, w: Array, z: Array) -> Array:
        """|w − prox(w + z, 1)|, which is 0 exactly where z ∈ ∂P(w)."""
        return jnp.abs(w - self.prox(w + z, 1.0))


@register_node
@dataclass(frozen=True, eq=False)
class TotalVariation(Gauge):
    r"""P(w) = λ Σⱼ fⱼ|wⱼ₊₁ − wⱼ|: few jumps; with t targets the sum over the columns.

    What costs nothing, a constant on each stretch between jumps that are free, is not penalised: the dual methods
    ignore the means of z over these stretches, which the caller keeps at 0.

    Attributes:
        lam: λ ≥ 0, a scalar or one per target (t,).
        factors: f ≥ 0 (p − 1,), one per difference, since differences are what this penalty charges; 1 if None. 0
            leaves a jump free, inf forbids it. A coefficient is excluded by limits of [0, 0], see `LimitedVariation`.

    Example:
        >>> import jax.numpy as jnp
        >>> print(TotalVariation(1.0).prox(jnp.array([0.0, 1.0, 5.0, 6.0]), 1.0))
        [1. 1. 5. 5.]
        >>> print(TotalVariation(1.0, jnp.array([jnp.inf, 0.0, 1.0])).prox(jnp.array([0.0, 1.0, 5.0, 6.0]), 1.0))
        [0.5 0.5 5.5 5.5]

    References:
        Tibshirani, Saunders, Rosset, Zhu & Knight, Sparsity and smoothness via the fused lasso, JRSS B 67 (2005).
    """

    lam: Any
    factors: Any = None

    def charges(self, w: Array) -> Array:
        """λf of each difference, (p − 1,) or (p − 1, t)."""
        steps = jax.ShapeDtypeStruct((len(w) - 1, *w.shape[1:]), jnp.result_type(w, float))
        return jnp.broadcast_to(strength(self.lam, self.factors, steps), steps.shape)

    def value(self, w: Array) -> Array:
        """P(w)."""
        return jnp.sum(times(self.charges(w), jnp.abs(jnp.diff(w, axis=0))))

    def prox(self, w: Array, step: ArrayLike) -> Array:
        """argmin over u of ‖u − w‖²/(2 step) + P(u): constant on blocks, to the last bit."""
        step = cast(step, w)

        def column(w, charges, lam):
            signs = jumps(*lax.stop_gradient((w, charges, charges)))
            means = refined_means(pulled(w, signs, charges, charges), signs)
            return jnp.where(jnp.isnan(lam), lam, means)  # without jumps λ has no part in the means

        charges = self.charges(w)
        return over_columns(column, w, strength(step, charges, charges), self._lam(w))

    def slack(self, w: Array, z: Array) -> Array:
        """P(w) + P*(z) − ⟨w, z⟩ = Σⱼ |dⱼ|(λfⱼ + sign(dⱼ)cⱼ), d the differences of w and cⱼ = z₁ + … + zⱼ."""
        steps, charges = jnp.diff(w, axis=0), self.charges(w)
        nothing = (charges == 0) | (steps == 0)  # 0, also for an infinite charge
        terms = jnp.abs(steps) * (charges + jnp.sign(steps) * self._sums(z))
        return jnp.sum(jnp.where(nothing, 0, jnp.maximum(terms, 0))) + self.conjugate(z)

    def gauge(self, z: Array) -> Array:
        """The largest |z₁ + … + zⱼ|/(λfⱼ)."""
        charges = self.charges(z)
        return jnp.max(jnp.where(charges == 0, 0, divide(jnp.abs(self._sums(z)), charges)), initial=0)

    def dual_norm(self, z: Array) -> Array:
        """The smallest λ for which z ∈ ∂P(0)."""
        return replace(self, lam=1.0).gauge(z)

    def tangent(self, w: Array, u: Array) -> Array:
        """The mean of u over each run of equal coefficients."""
        ends = (jnp.diff(w, axis=0) != 0) | (self.charges(w) == 0)
        return over_columns(block_means, u, ends.astype(jnp.int8))

    def free(self, w: Array) -> Array:
        """The coefficients between two free jumps: all if λ is 0."""
        none = jnp.ones((1, *w.shape[1:]), bool)
        loose = jnp.concatenate([none, self.charges(w) == 0, none])
        return loose[:-1] & loose[1:]

    def unpenalised(self, u: Array) -> Array:
        """The mean of each stretch between free jumps: P does not see a constant."""
        return over_columns(block_means, u, (self.charges(u) == 0).astype(jnp.int8))

    def _lam(self, w: Array) -> Array:
        return jnp.broadcast_to(cast(self.lam, w), w.shape[1:])

    def _sums(self, z: Array) -> Array:
        return jnp.cumsum(z - self.unpenalised(z), axis=0)[:-1]
