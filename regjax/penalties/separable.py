"""Sums over single coefficients: every method follows from four numbers per coefficient."""

from dataclasses import replace
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from regjax.core.thin import thin
from regjax.penalties.elementary import ByCoefficient, cast, per_row, rounding, soft, strength


class Terms(NamedTuple):
    """The function l1·|w| + (l2/2)·w² on [lower, upper] of each coefficient; finite strengths that broadcast against w.

    An excluded coefficient has no strength and the limits [0, 0].
    """

    l1: Array
    l2: Array
    lower: Array
    upper: Array

    @property
    def unpenalised(self) -> Array:
        """No strength; there may be limits."""
        return (self.l1 == 0) & (self.l2 == 0)

    @property
    def free(self) -> Array:
        """Neither strength nor limits."""
        return self.unpenalised & jnp.isinf(self.lower) & jnp.isinf(self.upper)

    def limited(self, w: Array, lower: Any, upper: Any) -> "Terms":
        """The same function on a smaller interval."""
        lower, upper = (per_row(cast(limit, w), w) for limit in (lower, upper))
        return self._replace(lower=jnp.maximum(self.lower, lower), upper=jnp.minimum(self.upper, upper))

    def barrier(self, w: Array) -> Array:
        """0 where w keeps the limits up to rounding, else inf: a scalar."""
        slip = rounding(w)
        outside = (w < self.lower - slip * abs(self.lower)) | (w > self.upper + slip * abs(self.upper))
        return jnp.where(jnp.any(outside), jnp.inf, jnp.zeros((), w.dtype))

    def unbounded(self, z: Array) -> Array:
        """Whether the coefficient can go to infinity in the direction of z, held back by `l1` alone."""
        return (self.l2 == 0) & jnp.where(z > 0, jnp.isinf(self.upper), jnp.isinf(self.lower))

    def ideal(self, excess: Array) -> Array:
        """The maximiser of w·z − φ(w) without limits, given soft(z, l1): infinite where no `l2` holds it."""
        endless = jnp.where(excess == 0, 0, jnp.sign(excess) * jnp.inf)
        return jnp.where(self.l2 > 0, excess / jnp.where(self.l2 > 0, self.l2, 1), endless)

    def maximiser(self, z: Array) -> tuple[Array, Array, Array]:
        """The maximiser of w·z − φ(w), infinite where z is outside of the domain; that without limits; soft(z, l1)."""
        excess = soft(z, self.l1)
        # rounding, which neither an open end nor a limit far away must multiply
        excess = jnp.where((self.l2 == 0) & (jnp.abs(excess) <= _slip(z)), 0, excess)
        ideal = self.ideal(excess)
        return jnp.clip(ideal, self.lower, self.upper), ideal, excess


def make_terms(w: Array, l1: Any, l2: Any, factors: Any = None) -> Terms:
    """The terms without limits, for coefficients w."""
    first, second = strength(l1, factors, w), strength(l2, factors, w)
    excluded = jnp.isinf(first) | jnp.isinf(second)
    limit = jnp.where(excluded, 0, cast(jnp.inf, w))
    return Terms(jnp.where(excluded, 0, first), jnp.where(excluded, 0, second), -limit, limit)


def _slip(z: Array) -> Array:
    """The rounding of the entries of a gradient z, which have a common scale: its column's largest entry."""
    return rounding(z) * jnp.max(jnp.abs(z), axis=0, initial=0)


class Separable(ByCoefficient):
    """The methods of a separable penalty; a class gives its `terms`.

    A penalty that is not convex also replaces `curve`, `slope` and `shrink`, which `Limited` calls with narrower terms.
    """

    convex = True
    separable = True

    def terms(self, w: Array) -> Terms:
        """The four numbers per coefficient, for coefficients like w."""
        raise TypeError(f"{type(self).__name__} has no terms")

    def within_limits(self, w: Array) -> Array:
        """w with the coefficients that rounding took over a limit back on it."""
        terms = self.terms(w)
        return jnp.clip(w, terms.lower, terms.upper)

    def unit(self) -> Any:
        """The same penalty with strength 1."""
        if not hasattr(self, "lam"):
            raise TypeError(f"{type(self).__name__} has no strength, so that dual_norm is not defined for it")
        return replace(self, lam=1.0)  # pyright: ignore[reportArgumentType, reportCallIssue]

    def curve(self, terms: Terms, w: Array) -> Array:
        """φ(w) of each coefficient, limits apart."""
        return terms.l1 * jnp.abs(w) + terms.l2 / 2 * w * w  # in this order 0 also where w² overflows

    def slope(self, terms: Terms, w: Array) -> Array:
        """φ′(|w|) of each coefficient; at 0 from the right."""
        return terms.l1 + terms.l2 * jnp.abs(w)

    def shrink(self, terms: Terms, w: Array, step: Array) -> Array:
        """The prox of each coefficient."""
        return jnp.clip(soft(w, step * terms.l1) / (1 + step * terms.l2), terms.lower, terms.upper)

    def value(self, w: Array) -> Array:
        """P(w)."""
        w, self = thin(w, self)
        terms = self.terms(w)
        # what XLA's CPU backend takes into a sum it computes one by one; a selection it leaves outside
        return jnp.sum(jnp.where(jnp.isnan(w), jnp.nan, self.curve(terms, w))) + terms.barrier(w)

    def prox(self, w: Array, step: ArrayLike) -> Array:
        """argmin over u of ‖u − w‖²/(2 step) + P(u)."""
        return self.shrink(self.terms(w), w, cast(step, w))

    def slack(self, w: Array, z: Array) -> Array:
        """P(w) + P*(z) − ⟨w, z⟩.

        With m the maximiser of w·z − φ(w) and s = soft(z, l1) each coefficient gives
        |w|(l1 − sign(w)·clip(z, −l1, l1)) + (l2/2)(w − m)² + (l2·m − s)(w − m), the last only where m is a limit.
        """
        w, z, self = thin(w, z, self)
        terms, z = self._dual(w, z)
        best, ideal, excess = terms.maximiser(z)
        outside = jnp.isinf(best)
        best = jnp.where(outside, 0, best)
        push = jnp.where(ideal == best, 0, terms.l2 * best - excess)
        kink = jnp.abs(w) * (terms.l1 - jnp.sign(w) * jnp.clip(z, -terms.l1, terms.l1))
        parts = jnp.maximum(kink, 0) + terms.l2 / 2 * (w - best) * (w - best) + jnp.maximum(push * (w - best), 0)
        return jnp.sum(jnp.where(outside, jnp.inf, parts)) + terms.barrier(w)

    def conjugate(self, z: Array) -> Array:
        """P*(z)."""
        terms, z = self._dual(z, z)
        best, _, excess = terms.maximiser(z)
        outside = jnp.isinf(best)
        best = jnp.where(outside, 0, best)
        return jnp.sum(jnp.where(outside, jnp.inf, best * excess - terms.l2 / 2 * best**2))

    def dual_scale(self, z: Array) -> Array:
        """The largest s in [0, 1] with s·z in the domain of P*."""
        z, self = thin(z, self)
        terms, z = self._dual(z, z)
        violated = terms.unbounded(z) & (jnp.abs(z) - terms.l1 > _slip(z))
        return jnp.min(jnp.where(violated, terms.l1 / jnp.where(violated, jnp.abs(z), 1), 1 + 0 * z), initial=1)

    def inner_scale(self, w: Array, z: Array) -> Array:
        """The largest s in [0, 1] with |s·z| ≤ l1 where l1 alone holds a coefficient w between its limits."""
        terms, z = self._dual(w, z)
        held = (w > terms.lower) & (w < terms.upper) & (terms.l1 > 0) & (terms.l2 == 0)
        over = held & (jnp.abs(z) > terms.l1)
        return jnp.min(jnp.where(over, terms.l1 / jnp.where(over, jnp.abs(z), 1), 1 + 0 * z), initial=1)

    def distance(self, w: Array, z: Array) -> Array:
        """The distance of z to ∂P(w), per coefficient: to the interval of the one-sided derivatives."""
        shape = w.shape
        w, z, self = thin(w, z, self)
        terms = self.terms(w)
        slope = self.slope(terms, w)
        left, right = (jnp.where(w == 0, side * slope, jnp.sign(w) * slope) for side in (-1, 1))
        left = jnp.where(w <= terms.lower, -jnp.inf, left)
        right = jnp.where(w >= terms.upper, jnp.inf, right)
        return jnp.maximum(jnp.maximum(left - z, z - right), 0).reshape(shape)

    def dual_norm(self, z: Array) -> Array:
        """The smallest strength for which z ∈ ∂P(0)."""
        terms = self.unit().terms(z)
        up, down = jnp.where(terms.upper > 0, z, 0), jnp.where(terms.lower < 0, -z, 0)
        push = jnp.where(terms.unpenalised, 0, jnp.maximum(jnp.maximum(up, down), 0))
        # the derivative of a quadratic at 0 is 0; without a gradient, in which 0·inf would be NaN
        never = jnp.where(push == 0, 0, lax.stop_gradient(push) * jnp.inf)
        return jnp.max(jnp.where(terms.l1 > 0, push / jnp.where(terms.l1 > 0, terms.l1, 1), never), initial=0)

    def tangent(self, w: Array, u: Array) -> Array:
        """u where P is smooth at w, else 0."""
        terms = self.terms(w)
        smooth = ((w != 0) | (terms.l1 == 0)) & (w > terms.lower) & (w < terms.upper)
        return jnp.where(smooth, u, 0)

    def free(self, w: Array) -> Array:
        """The coefficients without strength and limits."""
        return jnp.broadcast_to(self.terms(w).free, w.shape)

    def _dual(self, w: Array, z: Array) -> tuple[Terms, Array]:
        if not self.convex:
            raise TypeError(f"{type(self).__name__} is not convex: it has no conjugate; use distance as a certificate")
        terms = self.terms(w)
        return terms, jnp.where(terms.free, 0, z)
