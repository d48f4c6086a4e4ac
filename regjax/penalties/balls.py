r"""Constraints on the norm of the coefficients, alone and within limits.

A ball is the set S(w) ≤ R of a separable penalty S, so that everything follows from τS with the right price τ ≥ 0: the
projection is the prox of τS at the τ that brings it into the ball, and the conjugate, sup of ⟨w, z⟩ over the ball, is
the least τR + (τS)*(z). Limits of the coefficients are limits of S. At the price ∞ the charged coefficients are 0.
"""

from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike
from optax.projections import projection_l2_ball

from regjax.core.node import register_node
from regjax.penalties.elementary import (
    PER_COEFFICIENT,
    ByCoefficient,
    bisect,
    cast,
    over_columns,
    per_row,
    rounding,
    safe_sqrt,
    soft,
)
from regjax.penalties.elementwise import L1, L2, Limited
from regjax.penalties.separable import Separable


class Ball(ByCoefficient):
    """The methods of the constraint S(w) ≤ R on each column; a class gives S, and the price of a dual point."""

    radius: Any
    factors: Any

    convex = True
    separable = False

    def charged(self, price: Array) -> Separable:
        """τS for a price τ, a scalar or one per column."""
        raise TypeError(f"{type(self).__name__} has no penalty")

    def norm(self, w: Array) -> Array:
        """What the radius limits, per column; inf is taken for the size of a coefficient."""
        raise TypeError(f"{type(self).__name__} has no norm")

    def room(self, w: Array) -> Array:
        """R − S(w), per column."""
        raise TypeError(f"{type(self).__name__} has no room")

    def normal(self, w: Array) -> Array:
        """The gradient of S where it is smooth."""
        raise TypeError(f"{type(self).__name__} has no normal")

    def price(self, z: Array) -> Array:
        """The τ with the least τR + (τS)*(z), per column, for a positive radius."""
        raise TypeError(f"{type(self).__name__} has no price")

    def project(self, w: Array) -> Array:
        """The nearest point of a ball of positive radius.

        S falls as τ grows, and is in the ball at the price of w as a dual point: a bisection, then a step of Newton's
        method, which has the derivative of the root.
        """
        fixed, at = lax.stop_gradient((self, w))

        def room(price, ball=fixed, w=at):
            return ball.room(ball.charged(price).prox(w, 1.0))

        nothing = jnp.zeros_like(self._radius(w))
        low, high = bisect(lambda price: room(price) < 0, nothing, fixed._unlimited().price(at))
        price = (low + high) / 2
        slope = jax.jvp(room, (price,), (jnp.ones_like(price),))[1]
        move = jnp.where(slope > 0, room(price, self, w) / jnp.where(slope > 0, slope, 1), 0)
        return self.charged(jnp.where(room(nothing) < 0, jnp.maximum(price - move, 0), 0)).prox(w, 1.0)

    def value(self, w: Array) -> Array:
        """0 in the ball and within the limits up to rounding, else inf."""
        return self._beyond(w) + self.charged(cast(1.0, w)).terms(w).barrier(w)

    def prox(self, w: Array, step: ArrayLike) -> Array:
        """The projection onto the ball, whatever the step is."""
        del step
        radius = self._radius(w)
        charged = self.factor(w) > 0
        point = jnp.where(charged & ~(radius > 0), 0, self.project(w))
        # a point that is far from a small ball is projected with the rounding of its own size; what is in the ball up
        # to rounding stays, with coefficients exactly at their limits
        norm = self.norm(point)
        fits = norm <= radius * (1 + rounding(w) / 8)
        shorter = lax.stop_gradient(jnp.where(fits, 1, radius / jnp.where(norm == 0, 1, norm)))
        return point * jnp.where(charged, shorter, 1)

    def slack(self, w: Array, z: Array) -> Array:
        """P(w) + P*(z) − ⟨w, z⟩: that of τS, and τ(R − S(w))."""
        price = self._price(z)
        unused = _paid(price, jnp.maximum(self.room(w), 0))
        return jnp.sum(unused) + self.charged(price).slack(w, z) + self._beyond(w)

    def conjugate(self, z: Array) -> Array:
        """P*(z) = τR + (τS)*(z); without limits the radius times the dual norm."""
        price = self._price(z)
        return jnp.sum(_paid(price, self.room(jnp.zeros_like(z)))) + self.charged(price).conjugate(z)

    def dual_scale(self, z: Array) -> Array:
        """1; 0 where z pulls a coefficient that is not charged away from its only limit."""
        return self.charged(jnp.where(jnp.isinf(self._radius(z)), 0, cast(jnp.inf, z))).dual_scale(z)

    def distance(self, w: Array, z: Array) -> Array:
        """|w − prox(w + z, 1)|, which is 0 exactly where z ∈ ∂P(w)."""
        return jnp.abs(w - self.prox(w + z, 1.0))

    def dual_norm(self, z: Array) -> Array:
        """Not defined: raises TypeError."""
        raise TypeError(f"{type(self).__name__} has no strength, so that dual_norm is not defined for it")

    def tangent(self, w: Array, u: Array) -> Array:
        """u within the limits; on the surface where S is smooth, and without its part along the gradient of S."""
        radius = self._radius(w)
        outer = self.norm(w) >= radius * (1 - rounding(w))
        price = jnp.where(outer, jnp.where(radius > 0, 1, cast(jnp.inf, w)), 0)
        along, normal = (self.charged(price).tangent(w, a) for a in (u, jnp.where(outer, self.normal(w), 0)))
        size = jnp.sum(normal**2, axis=0)
        return along - normal * jnp.sum(normal * along, axis=0) / jnp.where(size > 0, size, 1)

    def free(self, w: Array) -> Array:
        """The coefficients that are neither charged nor limited; without limits all, if the radius is infinite."""
        return self.charged(jnp.where(jnp.isinf(self._radius(w)), 0, cast(1.0, w))).free(w)

    def factor(self, w: Array) -> Array:
        """f, 0 also where a coefficient is excluded."""
        if self.factors is None:
            return cast(1.0, w)
        factors = per_row(cast(self.factors, w), w)
        return jnp.where(jnp.isinf(factors), 0, factors)

    def _unlimited(self) -> "Ball":
        return self

    def _beyond(self, w: Array) -> Array:
        """0 in the ball up to rounding, limits apart, else inf."""
        norm = self.norm(w)
        return jnp.where(jnp.any(norm > self._radius(w) * (1 + rounding(w))), jnp.inf, 0 * jnp.sum(norm))

    def _radius(self, w: Array) -> Array:
        return jnp.broadcast_to(cast(self.radius, w), w.shape[1:])

    def _price(self, z: Array) -> Array:
        """`price`, also for the radius 0 (a point) and ∞ (no ball)."""
        radius = self._radius(z)
        return jnp.where(radius > 0, jnp.where(jnp.isinf(radius), 0, self.price(z)), jnp.inf)


def _paid(price: Array, amount: Array) -> Array:
    """Their product, 0 where one of them is."""
    nothing = (price == 0) | (amount == 0)
    return jnp.where(nothing, 0, jnp.where(nothing, 1, price) * amount)


@register_node
@dataclass(frozen=True, eq=False)
class L1Ball(Ball):
    """The constraint Σⱼ fⱼ|wⱼ| ≤ r; with t targets on each column.

    Attributes:
        radius: r ≥ 0, a scalar or one per target (t,).
        factors: f ≥ 0 (p,), or anything that broadcasts against w; 1 if None. 0 leaves a coefficient out of the norm,
            inf excludes it.

    Example:
        >>> import jax.numpy as jnp
        >>> print(L1Ball(2.0).prox(jnp.array([3.0, -2.0, 0.0]), 1.0))
        [ 1.5 -0.5  0. ]
        >>> print(L1Ball(2.0, jnp.array([1.0, 0.0, jnp.inf])).prox(jnp.array([3.0, -2.0, 1.0]), 1.0))
        [ 2. -2.  0.]
    """

    radius: Any
    factors: Any = field(default=None, metadata=PER_COEFFICIENT)

    def charged(self, price: Array) -> Separable:
        """S(w) = Σ f|w|."""
        return L1(price, self.factors)

    def norm(self, w: Array) -> Array:
        """Σ f|w|."""
        return jnp.sum(_times(self.factor(w), jnp.abs(w)), axis=0)

    def room(self, w: Array) -> Array:
        """r − Σ f|w|."""
        return self._radius(w) - self.norm(w)

    def normal(self, w: Array) -> Array:
        """f sign(w)."""
        return self.factor(w) * jnp.sign(w)

    def price(self, z: Array) -> Array:
        """The dual norm, max |z|/f."""
        return jnp.max(_over(jnp.abs(z), self.factor(z)), axis=0, initial=0)

    def project(self, w: Array) -> Array:
        """The soft threshold at τf, with τ the largest (Σ f|w| − r)/Σ f² over the k largest |w|/f, if it is positive.

        Written out: that of optax loses float32 its digits where the ball is small, and raises an error for float32
        coefficients under `jax_enable_x64`.
        """
        factors = jnp.broadcast_to(self.factor(w), w.shape)
        sizes = jnp.abs(w)
        _, sums, squares = lax.sort((-_over(sizes, factors), factors * sizes, factors**2), dimension=0, num_keys=1)
        sums, squares = (jnp.cumsum(a, axis=0) for a in (sums, squares))
        return self.charged(jnp.max(_over(sums - self._radius(w), squares), axis=0, initial=0)).prox(w, 1.0)


@register_node
@dataclass(frozen=True, eq=False)
class L2Ball(Ball):
    """The constraint Σⱼ fⱼwⱼ² ≤ r²; with t targets on each column.

    Attributes:
        radius, factors: as in `L1Ball`; L2(λ, factors) is the same constraint in its penalised form.

    Example:
        >>> import jax.numpy as jnp
        >>> print(L2Ball(1.0).prox(jnp.array([3.0, 4.0]), 1.0))
        [0.6 0.8]
        >>> print(L2Ball(1.0, jnp.array([4.0, 0.0])).prox(jnp.array([3.0, 4.0]), 1.0))
        [0.5 4. ]
    """

    radius: Any
    factors: Any = field(default=None, metadata=PER_COEFFICIENT)

    def charged(self, price: Array) -> Separable:
        """S(w) = ½ Σ f w²."""
        return L2(price, self.factors)

    def norm(self, w: Array) -> Array:
        """√Σ f w²."""
        return safe_sqrt(jnp.sum(_times(self.factor(w), w**2), axis=0))

    def room(self, w: Array) -> Array:
        """(r² − Σ f w²)/2, as a product that does not cancel."""
        norm, radius = self.norm(w), self._radius(w)
        finite = jnp.where(jnp.isinf(radius), 0, radius)  # so that derivatives are
        return jnp.where(jnp.isinf(radius), jnp.inf, (finite - norm) * (finite + norm) / 2)

    def normal(self, w: Array) -> Array:
        """f w."""
        return self.factor(w) * w

    def price(self, z: Array) -> Array:
        """The dual norm √Σ z²/f, over the radius."""
        radius = self._radius(z)
        dual_norm = safe_sqrt(jnp.sum(_over(z**2, self.factor(z)), axis=0))
        return dual_norm / jnp.where(radius > 0, radius, 1)

    def project(self, w: Array) -> Array:
        """Without factors w, shortened."""
        if self.factors is not None:
            return super().project(w)
        radius = self._radius(w)
        ball = (radius > 0) & jnp.isfinite(radius)
        return jnp.where(jnp.isinf(radius), w, over_columns(projection_l2_ball, w, jnp.where(ball, radius, 1)))


@register_node
@dataclass(frozen=True, eq=False)
class LimitedBall(Ball):
    """The constraint of a ball on a box, lowerⱼ ≤ wⱼ ≤ upperⱼ.

    Attributes:
        penalty: `L1Ball` or `L2Ball`.
        lower: ≤ 0, a scalar, (p,), or an array that broadcasts against w.
        upper: ≥ 0, likewise.

    Example:
        >>> import jax.numpy as jnp
        >>> print(LimitedBall(L1Ball(2.0), 0.0, 1.0).prox(jnp.array([3.0, 1.5, 1.0, -3.0]), 1.0))
        [1.   0.75 0.25 0.  ]
    """

    penalty: Any
    lower: Any = field(default=-jnp.inf, metadata=PER_COEFFICIENT)
    upper: Any = field(default=jnp.inf, metadata=PER_COEFFICIENT)

    @property
    def radius(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        """That of the ball."""
        return self.penalty.radius

    @property
    def factors(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Those of the ball."""
        return self.penalty.factors

    def charged(self, price: Array) -> Separable:
        """That of the ball, within the limits."""
        return Limited(self.penalty.charged(price), self.lower, self.upper)

    def norm(self, w: Array) -> Array:
        """That of the ball."""
        return self.penalty.norm(w)

    def room(self, w: Array) -> Array:
        """That of the ball."""
        return self.penalty.room(w)

    def normal(self, w: Array) -> Array:
        """That of the ball."""
        return self.penalty.normal(w)

    def price(self, z: Array) -> Array:
        """The τ from which on the maximiser of ⟨w, z⟩ − τS(w) is in the ball, at most that without limits."""
        fixed, z = lax.stop_gradient((self, z))

        def beyond(price):
            terms = fixed.charged(price).terms(z)
            return fixed.room(jnp.clip(terms.ideal(soft(z, terms.l1)), terms.lower, terms.upper)) < 0

        nothing = jnp.zeros_like(self._radius(z))
        most = fixed._unlimited().price(z)
        return jnp.where(beyond(nothing) | jnp.isnan(most), bisect(beyond, nothing, most)[1], 0)

    def _unlimited(self) -> Ball:
        return self.penalty._unlimited()


def _times(factor: Array, size: Array) -> Array:
    """Their product, 0 where the factor is, also for an infinite size."""
    return jnp.where(factor > 0, factor * size, 0 * factor)


def _over(size: Array, factor: Array) -> Array:
    """Their quotient, 0 where the factor is."""
    return jnp.where(factor > 0, size / jnp.where(factor > 0, factor, 1), 0)
