"""Penalties that make coefficients equal: sorted ℓ1 and total variation."""

from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from regjax.core.node import register_node
from regjax.penalties.chains import block_means, jumps, pulled, refined_means
from regjax.penalties.elementary import ByCoefficient, cast, divide, over_columns, per_row, rounding


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

    Example:
        >>> import jax.numpy as jnp
        >>> print(Slope(jnp.array([2.0, 1.0, 0.0])).prox(jnp.array([0.5, -3.5, 3.0]), 1.0))
        [ 0.5  -1.75  1.75]

    References:
        Bogdan, van den Berg, Sabatti, Su & Candès, SLOPE: adaptive variable selection via convex optimization, AOAS 9
        (2015).
    """

    lams: Any

    def value(self, w: Array) -> Array:
        """P(w)."""
        return jnp.sum(self._lams(w) * jnp.sort(jnp.abs(w), axis=0, descending=True))

    def prox(self, w: Array, step: ArrayLike) -> Array:
        """argmin over u of ‖u − w‖²/(2 step) + P(u): |w|₍ᵢ₎ − step·λᵢ made non-increasing, then cut at 0."""
        step = cast(step, w)

        def column(w, lams):
            order = _descending(jnp.abs(w))
            shrunk = jnp.abs(w)[order] - step * lams
            signs = jumps(lax.stop_gradient(shrunk), jnp.inf, 0.0)
            sizes = jnp.maximum(refined_means(shrunk, signs), 0)
            return jnp.sign(w) * jnp.zeros_like(w).at[order].set(sizes, unique_indices=True)

        return over_columns(column, w, self._lams(w))

    def slack(self, w: Array, z: Array) -> Array:
        """P(w) + P*(z) − ⟨w, z⟩ = Σᵢ (|w|₍ᵢ₎ − |w|₍ᵢ₊₁₎) Σ_{k ≤ i} (λₖ − sign(w)z₍ₖ₎), all in the order of |w|."""

        def column(w, z, lams):
            order = _descending(jnp.abs(w))
            sizes, aligned = jnp.abs(w)[order], (jnp.sign(w) * z)[order]
            steps = sizes - jnp.append(sizes[1:], 0)
            return jnp.sum(jnp.maximum(steps * jnp.cumsum(lams - aligned), 0))

        return jnp.sum(over_columns(column, w, self._penalised(z), self._lams(w))) + self.conjugate(z)

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

        return over_columns(column, w, u, self._lams(w))

    def free(self, w: Array) -> Array:
        """All coefficients if λ is 0, else none."""
        return jnp.broadcast_to(jnp.all(self._lams(w) == 0, axis=0), w.shape)

    def _lams(self, w: Array) -> Array:
        return jnp.broadcast_to(per_row(cast(self.lams, w), w), w.shape)

    def _penalised(self, z: Array) -> Array:
        return jnp.where(self.free(z), 0, z)


@register_node
@dataclass(frozen=True, eq=False)
class TotalVariation(Gauge):
    r"""P(w) = λ Σⱼ |wⱼ₊₁ − wⱼ|: few jumps; with t targets the sum over the columns.

    A constant is not penalised: the dual methods ignore the mean of z, which the caller keeps at 0.

    Attributes:
        lam: λ ≥ 0, a scalar or one per target (t,).

    Example:
        >>> import jax.numpy as jnp
        >>> print(TotalVariation(1.0).prox(jnp.array([0.0, 1.0, 5.0, 6.0]), 1.0))
        [1. 1. 5. 5.]

    References:
        Tibshirani, Saunders, Rosset, Zhu & Knight, Sparsity and smoothness via the fused lasso, JRSS B 67 (2005).
    """

    lam: Any

    def value(self, w: Array) -> Array:
        """P(w)."""
        variation = jnp.sum(jnp.abs(jnp.diff(w, axis=0)), axis=0)
        return jnp.sum(jnp.where(variation == 0, 0, self._lam(w) * variation))  # 0, also for λ = ∞

    def prox(self, w: Array, step: ArrayLike) -> Array:
        """argmin over u of ‖u − w‖²/(2 step) + P(u): constant on blocks, to the last bit."""
        step = cast(step, w)

        def column(w, lam):
            signs = jumps(*lax.stop_gradient((w, lam, lam)))
            means = refined_means(pulled(w, signs, lam, lam), signs)
            return jnp.where(jnp.isnan(lam), lam, means)  # without jumps λ has no part in the means

        return over_columns(column, w, step * self._lam(w))

    def slack(self, w: Array, z: Array) -> Array:
        """P(w) + P*(z) − ⟨w, z⟩ = Σⱼ |dⱼ|(λ + sign(dⱼ)cⱼ) for the differences d of w and the sums cⱼ = z₁ + … + zⱼ."""
        steps = jnp.diff(w, axis=0)
        terms = jnp.abs(steps) * (self._lam(w) + jnp.sign(steps) * self._sums(z))
        nothing = (self._lam(w) == 0) | (steps == 0)  # 0, also for λ = ∞
        return jnp.sum(jnp.where(nothing, 0, jnp.maximum(terms, 0))) + self.conjugate(z)

    def gauge(self, z: Array) -> Array:
        """The largest |z₁ + … + zⱼ|/λ."""
        lam = self._lam(z)
        sums = jnp.max(jnp.abs(self._sums(z)), axis=0, initial=0)
        return jnp.max(jnp.where(lam == 0, 0, divide(sums, lam)), initial=0)

    def dual_norm(self, z: Array) -> Array:
        """The smallest λ for which z ∈ ∂P(0)."""
        return replace(self, lam=1.0).gauge(z)

    def tangent(self, w: Array, u: Array) -> Array:
        """The mean of u over each run of equal coefficients."""

        def column(w, u, lam):
            return jnp.where(lam == 0, u, block_means(u, jnp.diff(w)))

        return over_columns(column, w, u, self._lam(w))

    def free(self, w: Array) -> Array:
        """All coefficients if λ is 0, else none."""
        return jnp.broadcast_to(self._lam(w) == 0, w.shape)

    def unpenalised(self, u: Array) -> Array:
        """The mean of each column: P does not see a constant."""
        return jnp.where(self.free(u), u, jnp.mean(u, axis=0))

    def _lam(self, w: Array) -> Array:
        return jnp.broadcast_to(cast(self.lam, w), w.shape[1:])

    def _sums(self, z: Array) -> Array:
        return jnp.cumsum(z - jnp.mean(z, axis=0), axis=0)[:-1]
