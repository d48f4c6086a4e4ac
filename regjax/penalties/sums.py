"""A penalty and a ridge: the sum whose prox is always known."""

from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from regjax.core.node import register_node
from regjax.penalties.elementary import STRENGTH, cast


@register_node
@dataclass(frozen=True, eq=False)
class PlusL2:
    r"""P(w) + (l2/2)‖w‖²: the elastic form of any convex penalty, such as of `Group` or `MultiTask`.

    Attributes:
        penalty: P, convex.
        l2: ≥ 0, a scalar; an array that broadcasts against w where P is a sum over its entries (over rows, groups) and
            the array is the same for all of them. In a fit with groups: a prefix pytree of the design.

    Example:
        >>> import jax.numpy as jnp
        >>> from regjax.penalties import L1
        >>> print(PlusL2(L1(1.0), 1.0).prox(jnp.array([3.0, -1.0]), 1.0))
        [1. 0.]
    """

    penalty: Any
    l2: Any = field(metadata=STRENGTH)

    @property
    def convex(self) -> bool:
        """Whether P is."""
        return self.penalty.convex

    @property
    def separable(self) -> bool:
        """Whether P is."""
        return self.penalty.separable

    def value(self, w: Array) -> Array:
        """P(w) + (l2/2)‖w‖²."""
        return self.penalty.value(w) + jnp.sum(cast(self.l2, w) / 2 * w**2)

    def prox(self, w: Array, step: ArrayLike) -> Array:
        """The prox of P of a shorter step at a smaller point."""
        shrink = 1 / (1 + cast(step, w) * cast(self.l2, w))
        return self.penalty.prox(shrink * w, cast(step, w) * shrink)

    def slack(self, w: Array, z: Array) -> Array:
        """P's slack at z − l2·m plus (l2/2)‖w − m‖², m being the maximiser of ⟨w, z⟩ minus this penalty."""
        best, l2 = self._maximiser(z)
        return self.penalty.slack(w, z - l2 * best) + jnp.sum(l2 / 2 * (w - best) ** 2)

    def conjugate(self, z: Array) -> Array:
        """The Moreau envelope of P*."""
        best, l2 = self._maximiser(z)
        smooth = jnp.sum(jnp.where(l2 > 0, z * best, 0)) - self.value(best)
        return smooth + self.penalty.conjugate(jnp.where(l2 > 0, 0, z))

    def dual_scale(self, z: Array) -> Array:
        """That of P for what no ridge holds."""
        return self.penalty.dual_scale(jnp.where(cast(self.l2, z) > 0, 0, z))

    def distance(self, w: Array, z: Array) -> Array:
        """That of P to what the ridge leaves of z."""
        return self.penalty.distance(w, z - cast(self.l2, w) * w)

    def dual_norm(self, z: Array) -> Array:
        """That of P: the ridge has no slope at 0."""
        return self.penalty.dual_norm(z)

    def tangent(self, w: Array, u: Array) -> Array:
        """That of P."""
        return self.penalty.tangent(w, u)

    def free(self, w: Array) -> Array:
        """That of P, unless there is a ridge."""
        return self.penalty.free(w) & (cast(self.l2, w) == 0)

    def unpenalised(self, u: Array) -> Array:
        """That of P, unless there is a ridge."""
        return jnp.where(cast(self.l2, u) == 0, self.penalty.unpenalised(u), 0)

    def _maximiser(self, z: Array) -> tuple[Array, Array]:
        l2 = cast(self.l2, z)
        safe = jnp.where(l2 > 0, l2, 1)
        nowhere = self.penalty.prox(jnp.zeros_like(z), 1.0)  # where P is 0
        return jnp.where(l2 > 0, self.penalty.prox(z / safe, 1 / safe), nowhere), l2
