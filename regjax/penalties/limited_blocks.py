"""Norms of groups of coefficients, each of which has limits of its own."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from regjax.core.node import register_node
from regjax.penalties.elementary import (
    PER_COEFFICIENT,
    ByCoefficient,
    bisect,
    cast,
    divide,
    misalignment,
    per_row,
    rounding,
    soft,
)
from regjax.penalties.separable import Terms


class _Parts(NamedTuple):
    """Strengths l1 (like w) and κ (per block), and the limits (like w), which are [0, 0] in excluded blocks."""

    l1: Array
    kappa: Array
    lower: Array
    upper: Array

    def clip(self, w: Array) -> Array:
        """The nearest point of the box."""
        return jnp.clip(w, self.lower, self.upper)

    def barrier(self, w: Array) -> Array:
        """0 where w is in the box up to rounding, else inf."""
        return Terms(self.l1, jnp.zeros_like(w), self.lower, self.upper).barrier(w)

    def ahead(self, z: Array) -> Array:
        """How far a coefficient can go from 0 in the direction of z."""
        return jnp.where(z > 0, self.upper, -self.lower)


@register_node
@dataclass(frozen=True, eq=False)
class LimitedBlocks(ByCoefficient):
    r"""`Group`, `SparseGroup` or `MultiTask` on a box: l1 ‖w‖₁ + Σ_g κ_g ‖w_g‖₂ where lowerⱼ ≤ wⱼ ≤ upperⱼ, else inf.

    With e = soft(a, l1) everything follows from points clip(s·e, lower, upper) along one ray per block: ‖clip(s·e)‖/s
    falls as s grows, so the s of the prox and of the conjugate are found by bisection.

    Attributes:
        penalty: P without limits.
        lower: ≤ 0, a scalar, (p,), or an array that broadcasts against w.
        upper: ≥ 0, likewise.

    Example:
        >>> import jax.numpy as jnp
        >>> from regjax.penalties import Group
        >>> P = LimitedBlocks(Group(1.0, [0, 0], jnp.ones(1)), 0.0)
        >>> print(P.prox(jnp.array([3.0, -4.0]), 1.0))
        [2. 0.]
    """

    penalty: Any
    lower: Any = field(default=-jnp.inf, metadata=PER_COEFFICIENT)
    upper: Any = field(default=jnp.inf, metadata=PER_COEFFICIENT)

    convex = True
    separable = False

    def value(self, w: Array) -> Array:
        """P(w)."""
        return self.penalty.value(w) + self._parts(w).barrier(w)

    def prox(self, w: Array, step: ArrayLike) -> Array:
        """argmin over u of ‖u − w‖²/(2 step) + P(u): clip(s·e) with (1 − s)‖clip(s·e)‖ = s·step·κ in each block."""
        step = cast(step, w)
        parts = self._parts(w)
        excess, threshold = soft(w, step * parts.l1), self.penalty.per_block(step) * parts.kappa

        def surplus(s, excess, threshold, parts):
            return (1 - s) * self._norms(parts.clip(self._expand(s) * excess)) - s * threshold

        fixed = lax.stop_gradient((excess, threshold, parts))
        one = jnp.ones_like(fixed[1])
        low, high = bisect(lambda s: surplus(s, *fixed) > 0, jnp.zeros_like(one), one)
        s = (low + high) / 2
        # a last step of Newton's method has the derivative of the root
        inner = (parts.lower < self._expand(s) * excess) & (self._expand(s) * excess < parts.upper)
        point = parts.clip(self._expand(s) * excess)
        growth = divide(self.penalty.total(jnp.where(inner, point * excess, 0)), self._norms(point))
        slope = lax.stop_gradient((1 - s) * growth - self._norms(point) - threshold)
        s = s - jnp.where(slope < 0, surplus(s, excess, threshold, parts) / jnp.where(slope < 0, slope, -1), 0)
        open_norm = self._norms(jnp.where(parts.ahead(excess) > 0, excess, 0))
        s = jnp.where((open_norm <= threshold) & (threshold > 0), 0, jnp.where(threshold == 0, 1, jnp.clip(s, 0, 1)))
        s = s + 0 * threshold  # a strength that is nan is seen
        return parts.clip(self._expand(s) * excess)

    def slack(self, w: Array, z: Array) -> Array:
        """P(w) + P*(z) − ⟨w, z⟩.

        With u the maximiser of ⟨u, z⟩ − P(u), z is a part in [−l1, l1], a part v with ‖v‖ ≤ κ along u, and a rest q
        that pushes against limits: |w|(l1 − sign(w)·clip(z, −l1, l1)) + κ‖w‖ − ⟨w, v⟩ + ⟨u − w, q⟩, each not negative.
        """
        parts = self._parts(w)
        z = jnp.where(self.free(w), 0, z)
        best, along, push, outside = self._maximiser(parts, z)
        kink = jnp.maximum(jnp.abs(w) * (parts.l1 - jnp.sign(w) * jnp.clip(z, -parts.l1, parts.l1)), 0)
        norms = self._norms(w)
        rest = jnp.maximum(parts.kappa - self._norms(along), 0) * norms + misalignment(
            w, along, self._norms, self._expand
        )
        held = jnp.maximum((best - w) * push, 0)
        total = jnp.sum(kink) + jnp.sum(rest) + jnp.sum(held)
        return jnp.where(outside, jnp.inf, total) + parts.barrier(w)

    def conjugate(self, z: Array) -> Array:
        """P*(z)."""
        parts = self._parts(z)
        z = jnp.where(self.free(z), 0, z)
        best, _, push, outside = self._maximiser(parts, z)
        return jnp.where(outside, jnp.inf, jnp.sum(best * push))

    def dual_scale(self, z: Array) -> Array:
        """The largest s in [0, 1] with s·z in the domain of P*; 0 where z pulls an unpenalised w without an end."""
        parts = self._parts(z)
        endless = jnp.where((jnp.isinf(parts.ahead(z)) & ~self.free(z)) | jnp.isnan(z), z, 0)
        loose = self.penalty.free(z) & (jnp.abs(endless) > rounding(z) * jnp.max(jnp.abs(z), axis=0, initial=0))
        return jnp.where(jnp.any(loose), 0, 1 / jnp.maximum(self.penalty.gauge(endless), 1))

    def distance(self, w: Array, z: Array) -> Array:
        """The distance of z to ∂P(w), per block."""
        parts = self._parts(w)
        norms = self._norms(w)
        off = z - self._expand(divide(parts.kappa, norms)) * w
        off = jnp.where(w == 0, soft(off, parts.l1), off - parts.l1 * jnp.sign(w))
        off = jnp.where(((w >= parts.upper) & (off > 0)) | ((w <= parts.lower) & (off < 0)), 0, off)
        excess = soft(z, parts.l1)
        waiting = self._norms(jnp.where(parts.ahead(excess) > 0, excess, 0))
        return jnp.where(norms == 0, jnp.maximum(waiting - parts.kappa, 0), self._norms(off))

    def dual_norm(self, z: Array) -> Array:
        """That of the penalty without limits, of the entries whose limits let them follow z."""
        return self.penalty.dual_norm(jnp.where((self._parts(z).ahead(z) > 0) | jnp.isnan(z), z, 0))

    def tangent(self, w: Array, u: Array) -> Array:
        """That of the penalty, 0 at the limits."""
        parts = self._parts(w)
        return jnp.where((w > parts.lower) & (w < parts.upper), self.penalty.tangent(w, u), 0)

    def free(self, w: Array) -> Array:
        """The coefficients without strength and limits."""
        parts = self._parts(w)
        return self.penalty.free(w) & jnp.isinf(parts.lower) & jnp.isinf(parts.upper)

    def _parts(self, w: Array) -> _Parts:
        l1, kappa, excluded = self.penalty.strengths(w)
        shut = self._expand(excluded)
        limits = (jnp.where(shut, 0, per_row(cast(limit, w), w)) for limit in (self.lower, self.upper))
        return _Parts(jnp.broadcast_to(l1, w.shape), kappa, *(jnp.broadcast_to(limit, w.shape) for limit in limits))

    def _norms(self, x: Array) -> Array:
        return self.penalty.norms(x)

    def _expand(self, blocks: Array) -> Array:
        return self.penalty.expand(blocks)

    def _maximiser(self, parts: _Parts, z: Array) -> tuple[Array, Array, Array, Array]:
        """u, the largest ⟨u, z⟩ − P(u); v and q of `slack`; whether z is outside of the domain.

        u = clip(τe) with ‖clip(τe)‖ = κτ. The entries that can go on for ever have a norm below κ; the others end at
        their limits, whose norm bounds τ from above.
        """
        excess = soft(z, parts.l1)
        reach = parts.ahead(excess)
        excess = jnp.where((reach == 0) | (excess == 0), 0, excess)
        endless = self._norms(jnp.where(jnp.isinf(reach), excess, 0))
        slip = rounding(z) * jnp.max(jnp.abs(z), axis=0, initial=0)
        outside = jnp.any(endless > parts.kappa + slip)
        span = self._norms(jnp.where(jnp.isinf(reach) | (excess == 0), 0, reach))
        room = jnp.sqrt(jnp.maximum(parts.kappa**2 - endless**2, rounding(z) * parts.kappa**2))
        active = (self._norms(excess) > parts.kappa) & (span > 0)
        pinned = active & (parts.kappa == 0)  # no norm to hold them: all at their limits
        ends = jnp.where(excess == 0, jnp.inf, divide(reach, jnp.abs(excess)))
        largest = jnp.where(active & ~pinned, divide(span, room), 1)
        smallest = jnp.minimum(self._least(ends), largest)

        def before(log_tau):
            tau = jnp.exp(log_tau)
            return self._norms(parts.clip(self._expand(tau) * excess)) > tau * parts.kappa

        low, high = (jnp.log(jnp.where(active & ~pinned, end, 1)) for end in (smallest, largest))
        low, high = bisect(before, low, high)
        tau = jnp.exp((low + high) / 2)
        best = parts.clip(self._expand(jnp.where(active, tau, 0)) * excess)
        at_limits = jnp.where(jnp.isinf(reach), 0, jnp.sign(excess) * jnp.where(jnp.isinf(reach), 0, reach))
        best = jnp.where(self._expand(pinned), at_limits, best)
        ray = jnp.where(self._expand(pinned), 0, divide(best, self._expand(jnp.where(active, tau, 1))))
        along = jnp.where(self._expand(active), ray, excess)
        push = soft(z, parts.l1) - along
        push = jnp.where((best < parts.upper) & (best > parts.lower), 0, push)
        return best, along, push, outside

    def _least(self, x: Array) -> Array:
        """The least entry of each block, from above by a norm of the reciprocals: a start for a bisection."""
        return divide(jnp.ones_like(self._norms(x)), self._norms(divide(jnp.ones_like(x), x)))
