"""Losses ℓ(y, η): what a sample pays for a prediction."""

from dataclasses import dataclass
from typing import Protocol

from jax import Array

from regjax.core.node import register_node


class Loss(Protocol):
    """ℓ(y, η), elementwise in its arguments."""

    def value(self, y: Array, eta: Array) -> Array:
        """ℓ."""
        ...

    def gradient(self, y: Array, eta: Array) -> Array:
        """∂ℓ/∂η."""
        ...

    def curvature(self, y: Array, eta: Array) -> Array:
        """∂²ℓ/∂η²."""
        ...

    def conjugate(self, y: Array, theta: Array) -> Array:
        """sup over η of θη − ℓ(y, η)."""
        ...


@register_node
@dataclass(frozen=True, eq=False)
class Squared:
    """½(y − η)².

    Example:
        >>> print(Squared().value(1.0, 3.0))
        2.0
    """

    def value(self, y, eta):
        """½(y − η)²."""
        return (y - eta) ** 2 / 2

    def gradient(self, y, eta):
        """η − y."""
        return eta - y

    def curvature(self, y, eta):
        """1."""
        return 0 * (y + eta) + 1

    def conjugate(self, y, theta):
        """θy + ½θ²."""
        return theta * y + theta**2 / 2
