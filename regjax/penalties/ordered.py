"""Penalties that make coefficients equal: sorted ℓ1 and total variation."""

from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from regjax.core.node import register_node
from regjax.penalties.chains import block_means, jumps, pulled, refined_means
from regjax.penalties.elementary import (
    PER_COEFFICIENT,
    ByCoefficient,
    cast,
    divide,
    over_columns,
    per_row,
    rounding,
    strength,
    times,
)
from regjax.penalties.elementwise import L1


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


def _descending(x: Array) -> Array:
    return jnp.argsort(lax.stop_gradient(x), descending=True)


@register_node
@dataclass(frozen=True, eq=False)
class Slope(Gauge):
    r"""Sorted ℓ1: P(w) = Σᵢ λᵢ |w|₍ᵢ₎ with |w|₍₁₎ ≥ |w|₍₂₎ ≥ …; with t targets the sum over the columns.

    Correlated columns get coefficients of equal size. A constant λ is ℓ1, (λ, 0, …) is ℓ∞, a linear λ is OSCAR.

    Attributes:
        lams: λ₁ ≥ λ₂ ≥ … ≥ 0, (p,); also (p, t), sorted in each column.
        factors: 0, 1 or inf for each coefficient (p,), or anything that broadcasts against w; 1 if None. 0 leaves a
            coefficient out of the sorted list and unpenalised, inf excludes it; those in the list take the first λ.
            Other factors are refused: the prox of a reweighted sorted norm has no known form.

    Example:
        >>> import jax.numpy as jnp
        >>> print(Slope(jnp.array([2.0, 1.0, 0.0])).prox(jnp.array([0.5, -3.5, 3.0]), 1.0))
        [ 0.5  -1.75  1.75]
        >>> listed = Slope(jnp.array([2.0, 1.0, 0.0]), jnp.array([1.0, 0.0, 1.0]))
        >>> print(listed.prox(jnp.array([0.5, -3.5, 3.0]), 1.0))
        [ 0.  -3.5  1. ]

    References:
        Bogdan, van den Berg, Sabatti, Su & Candès, SLOPE: adaptive variable selection via convex optimization, AOAS 9
        (2015).
    """

    lams: Any
    factors: Any = field(default=None, metadata=PER_COEFFICIENT)

    def value(self, w: Array) -> Array:
        """P(w)."""
        return jnp.sum(self._lams(w) * jnp.sort(jnp.abs(self._listed(w)), axis=0, descending=True)) + self.barrier(w)

    def barrier(self, w: Array) -> Array:
        """0 where excluded coefficients are 0, else inf."""
        return cast(0.0, w) if self.factors is None else L1(0.0, self.factors).value(w)

    def prox(self, w: Array, step: ArrayLike) -> Array:
        """argmin over u of ‖u − w‖²/(2 step) + P(u): |w|₍ᵢ₎ − step·λᵢ made non-increasing, then cut at 0."""
        step = cast(step, w)

        def column(w, lams):
            order = _descending(jnp.abs(w))
            shrunk = jnp.abs(w)[order] - step * lams
            signs = jumps(lax.stop_gradient(shrunk), jnp.inf, 0.0)
            sizes = jnp.maximum(refined_means(shrunk, signs), 0)
            return jnp.sign(w) * jnp.zeros_like(w).at[order].set(sizes, unique_indices=True)

        return self._restored(over_columns(column, self._listed(w), self._lams(w)), w)

    def slack(self, w: Array, z: Array) -> Array:
        """P(w) + P*(z) − ⟨w, z⟩ = Σᵢ (|w|₍ᵢ₎ − |w|₍ᵢ₊₁₎) Σ_{k ≤ i} (λₖ − sign(w)z₍ₖ₎), all in the order of |w|."""
        steps, sums, _ = self.ordered(w, z)
        return jnp.sum(jnp.maximum(steps * sums, 0)) + self.conjugate(z) + self.barrier(w)

    def ordered(self, w: Array, z: Array) -> tuple[Array, Array, Array]:
        """|w|₍ᵢ₎ − |w|₍ᵢ₊₁₎ and Σ_{k ≤ i} (λₖ − sign(w)z₍ₖ₎) in the order of |w|, and |w|₍₁₎."""

        def column(w, z, lams):
            order = _descending(jnp.abs(w))
            sizes, aligned = jnp.abs(w)[order], (jnp.sign(w) * z)[order]
            return sizes - jnp.append(sizes[1:], 0), jnp.cumsum(lams - aligned), sizes[0]

        return over_columns(column, self._listed(w), self._penalised(z), self._lams(w))

    def surplus(self, z: Array) -> Array:
        """Σ_{k ≤ i} (|z|₍ₖ₎ − λₖ)."""
        sizes = jnp.sort(jnp.abs(self._penalised(z)), axis=0, descending=True)
        return jnp.cumsum(sizes - self._lams(z), axis=0)

    def gauge(self, z: Array) -> Array:
        """The largest Σ_{k ≤ i} |z|₍ₖ₎ / Σ_{k ≤ i} λₖ."""
        sizes = jnp.sort(jnp.abs(self._penalised(z)), axis=0, descending=True)
        return jnp.max(divide(jnp.cumsum(sizes, axis=0), jnp.cumsum(self._lams(z), axis=0)), initial=0)

    def dual_norm(self, z: Array) -> Array:
        """The smallest multiple of this penalty for which z is in its subdifferential at 0."""
        return self.gauge(z)

    def tangent(self, w: Array, u: Array) -> Array:
        """The mean of sign(w)·u over the coefficients of one size; 0 on those that are 0."""

        def column(w, u, lams):
            order = _descending(jnp.abs(w))
            sizes, signs = jnp.abs(w)[order], jnp.sign(w)[order]
            means = signs * block_means(signs * u[order], jnp.diff(sizes))
            unpenalised = lams[jnp.minimum(jnp.sum(w != 0), len(w) - 1)] == 0  # so are all below the first zero
            means = jnp.where(sizes == 0, jnp.where(unpenalised, u[order], 0), means)
            return jnp.zeros_like(u).at[order].set(means, unique_indices=True)

        return self._restored(over_columns(column, self._listed(w), u, self._lams(w)), u)

    def free(self, w: Array) -> Array:
        """The coefficients that are not in the list; all that are not excluded, if λ is 0."""
        nothing = jnp.broadcast_to(jnp.all(self._lams(w) == 0, axis=0), w.shape)
        return nothing if self.factors is None else jnp.isfinite(self._factors(w)) & (nothing | (self._factors(w) == 0))

    def _lams(self, w: Array) -> Array:
        return jnp.broadcast_to(per_row(cast(self.lams, w), w), w.shape)

    def _factors(self, w: Array) -> Array:
        return jnp.broadcast_to(per_row(cast(self.factors, w), w), w.shape)

    def _listed(self, x: Array) -> Array:
        """x with 0 in place of coefficients that are not in the list: these come last in it, and add nothing."""
        return x if self.factors is None else jnp.where(self._factors(x) == 1, x, 0)

    def _restored(self, listed: Array, x: Array) -> Array:
        """What became of the list, with the coefficients of x that are free of it; excluded ones are 0."""
        if self.factors is None:
            return listed
        factors = self._factors(x)
        return jnp.where(factors == 1, listed, jnp.where(factors == 0, x, 0))

    def _penalised(self, z: Array) -> Array:
        return self._listed(jnp.where(self.free(z), 0, z))


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
