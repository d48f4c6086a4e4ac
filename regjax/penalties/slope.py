"""Sorted ℓ1."""

from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from regjax.core.node import register_node
from regjax.penalties.chains import block_ids, jumps, refined_means
from regjax.penalties.elementary import PER_COEFFICIENT, cast, divide, over_columns, per_row
from regjax.penalties.elementwise import L1
from regjax.penalties.levels import minimiser, part_ratios
from regjax.penalties.ordered import Gauge


def _descending(x: Array) -> Array:
    return jnp.argsort(lax.stop_gradient(x), descending=True)


@register_node
@dataclass(frozen=True, eq=False)
class Slope(Gauge):
    r"""Sorted ℓ1: P(w) = Σᵢ λᵢ (f|w|)₍ᵢ₎ with (f|w|)₍₁₎ ≥ (f|w|)₍₂₎ ≥ …; with t targets the sum over the columns.

    Correlated columns get coefficients of equal size. A constant λ is ℓ1, (λ, 0, …) is ℓ∞, a linear λ is OSCAR.

    Attributes:
        lams: λ₁ ≥ λ₂ ≥ … ≥ 0, (p,); also (p, t), sorted in each column.
        factors: f ≥ 0 for each coefficient (p,), or anything that broadcasts against w; 1 if None. The list is that of
            the f|w|: 0 leaves a coefficient out of it and unpenalised, inf excludes it; those in it take the first λ.

    Example:
        >>> import jax.numpy as jnp
        >>> print(Slope(jnp.array([2.0, 1.0, 0.0])).prox(jnp.array([0.5, -3.5, 3.0]), 1.0))
        [ 0.5  -1.75  1.75]
        >>> listed = Slope(jnp.array([2.0, 1.0, 0.0]), jnp.array([1.0, 0.0, 0.5]))
        >>> print(listed.prox(jnp.array([0.5, -3.5, 3.0]), 1.0))
        [ 0.  -3.5  2. ]

    References:
        Bogdan, van den Berg, Sabatti, Su & Candès, SLOPE: adaptive variable selection via convex optimization, AOAS 9
        (2015).
    """

    lams: Any
    factors: Any = field(default=None, metadata=PER_COEFFICIENT)

    def value(self, w: Array) -> Array:
        """P(w)."""
        return jnp.sum(self.lams_of(w) * jnp.sort(self.sizes(w), axis=0, descending=True)) + self.barrier(w)

    def barrier(self, w: Array) -> Array:
        """0 where excluded coefficients are 0, else inf."""
        return cast(0.0, w) if self.factors is None else L1(0.0, self.factors).value(w)

    def prox(self, w: Array, step: ArrayLike) -> Array:
        """argmin over u of ‖u − w‖²/(2 step) + P(u).

        Without factors |w|₍ᵢ₎ − step·λᵢ made non-increasing, then cut at 0; with them the order is part of the problem.
        """
        if self.factors is not None:
            return self.prox_within(w, step, jnp.full_like(w, jnp.inf))
        step = cast(step, w)

        def column(w, lams):
            order = _descending(jnp.abs(w))
            shrunk = jnp.abs(w)[order] - step * lams
            signs = jumps(lax.stop_gradient(shrunk), jnp.inf, 0.0)
            sizes = jnp.maximum(refined_means(shrunk, signs), 0)
            return jnp.sign(w) * jnp.zeros_like(w).at[order].set(sizes, unique_indices=True)

        return over_columns(column, w, self.lams_of(w))

    def prox_within(self, w: Array, step: ArrayLike, limits: Array) -> Array:
        """The prox with |u| ≤ limits, > 0 where w is not 0, for the coefficients in the list."""
        step = cast(step, w)

        def column(w, listed, factors, lams, limits):
            sizes = jnp.where(listed, jnp.abs(w), 0)
            caps = jnp.where(sizes > 0, scaled_limits(limits, factors), jnp.inf)
            levels = minimiser(sizes / factors, 1 / factors**2, step * lams, caps)
            # a limit to the last bit, which cf/f may not be
            return jnp.sign(w) * jnp.where(levels >= caps, limits, levels / factors)

        return self._restored(over_columns(column, w, *self.listing(w), self.lams_of(w), limits), w)

    def slack(self, w: Array, z: Array) -> Array:
        """P(w) + P*(z) − ⟨w, z⟩ = Σᵢ (u₍ᵢ₎ − u₍ᵢ₊₁₎) Σ_{k ≤ i} (λₖ − sign(w)(z/f)₍ₖ₎), all in the order of u = f|w|."""
        return layered(*self.ordered(w, z)) + self.conjugate(z) + self.barrier(w)

    def ordered(self, w: Array, z: Array) -> tuple[Array, Array]:
        """u₍ᵢ₎ and λᵢ − sign(w)(z/f)₍ᵢ₎ in the order of u = f|w|."""

        def column(sizes, aligned, lams):
            order = _descending(sizes)
            return sizes[order], lams - aligned[order]

        return over_columns(column, self.sizes(w), jnp.sign(w) * self.charged(z), self.lams_of(w))

    def gauge(self, z: Array) -> Array:
        """The largest Σ_{k ≤ i} (|z|/f)₍ₖ₎ / Σ_{k ≤ i} λₖ."""
        sizes = jnp.sort(jnp.abs(self.charged(z)), axis=0, descending=True)
        return jnp.max(divide(jnp.cumsum(sizes, axis=0), jnp.cumsum(self.lams_of(z), axis=0)), initial=0)

    def dual_norm(self, z: Array) -> Array:
        """The smallest multiple of this penalty for which z is in its subdifferential at 0."""
        return self.gauge(z)

    def tangent(self, w: Array, u: Array) -> Array:
        """For coefficients of one size f|w| the projection on sign(w)/f; 0 on those that are 0."""
        return self.tangent_within(w, u, jnp.zeros(w.shape, bool))

    def tangent_within(self, w: Array, u: Array, held: Array) -> Array:
        """The tangent where coefficients that are `held` by a limit do not move, nor those of their size."""
        slip = 0 if self.factors is None else 16 * jnp.finfo(u.dtype).eps  # of f|w|, given w

        def column(w, u, held, factors, lams, sizes):
            order = _descending(sizes)
            sizes, along = sizes[order], (jnp.sign(w) / factors)[order]
            ids = block_ids((-jnp.diff(sizes) > slip * sizes[:-1]).astype(jnp.int8))
            moves = along * part_ratios(along * u[order], along**2, ids)
            moves = jnp.where(part_ratios(held[order].astype(u.dtype), jnp.ones_like(u), ids) > 0, 0, moves)
            unpenalised = lams[jnp.minimum(jnp.sum(sizes != 0), len(w) - 1)] == 0  # so are all below the first zero
            moves = jnp.where(sizes == 0, jnp.where(unpenalised, u[order], 0), moves)
            return jnp.zeros_like(u).at[order].set(moves, unique_indices=True)

        _, factors = self.listing(w)
        return self._restored(over_columns(column, w, u, held, factors, self.lams_of(w), self.sizes(w)), u)

    def free(self, w: Array) -> Array:
        """The coefficients that are not in the list; all that are not excluded, if λ is 0."""
        nothing = jnp.broadcast_to(jnp.all(self.lams_of(w) == 0, axis=0), w.shape)
        return nothing if self.factors is None else jnp.isfinite(self._factors(w)) & (nothing | (self._factors(w) == 0))

    def lams_of(self, w: Array) -> Array:
        """λ like w."""
        return jnp.broadcast_to(per_row(cast(self.lams, w), w), w.shape)

    def listing(self, w: Array) -> tuple[Array, Array]:
        """Which coefficients are in the list, and f, or 1 for those that are not: like w."""
        if self.factors is None:
            return jnp.ones(w.shape, bool), jnp.ones_like(w)
        factors = self._factors(w)
        listed = (factors > 0) & jnp.isfinite(factors)
        return listed, jnp.where(listed, factors, 1)

    def sizes(self, w: Array) -> Array:
        """f|w|, with 0 for coefficients that are not in the list: these come last in it, and add nothing."""
        listed, factors = self.listing(w)
        return jnp.where(listed, factors * jnp.abs(w), 0)

    def charged(self, z: Array) -> Array:
        """z/f in the list, else 0."""
        listed, factors = self.listing(z)
        return jnp.where(listed & ~self.free(z), z / factors, 0)

    def _factors(self, w: Array) -> Array:
        return jnp.broadcast_to(per_row(cast(self.factors, w), w), w.shape)

    def _restored(self, moved: Array, x: Array) -> Array:
        """What became of the list, with the coefficients of x that are free of it; excluded ones are 0."""
        if self.factors is None:
            return moved
        return jnp.where(self.listing(x)[0], moved, jnp.where(self._factors(x) == 0, x, 0))


def scaled_limits(limits: Array, factors: Array) -> Array:
    """Limits of f|w| from those of |w|; where there is none, none, without a derivative of inf·f."""
    endless = jnp.isinf(limits)
    return jnp.where(endless, jnp.inf, jnp.where(endless, 1, limits) * factors)


def layered(sizes: Array, terms: Array) -> Array:
    """Σᵢ (u₍ᵢ₎ − u₍ᵢ₊₁₎)·Σ_{k ≤ i} termₖ over sizes u in descending order, of products that are not negative."""
    steps = -jnp.diff(sizes, axis=0, append=0)
    return jnp.sum(jnp.maximum(steps * jnp.cumsum(terms, axis=0), 0))
