"""Least squares."""

from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
from jax import Array

from regjax.core.node import register_node
from regjax.losses.protocol import Elementwise, check_link, raised


@register_node
@dataclass(frozen=True, eq=False)
class Squared(Elementwise):
    """½(y − η)².

    Example:
        >>> print(Squared().value(1.0, 3.0))
        2.0
    """

    has_dual = True

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


@register_node
@dataclass(frozen=True, eq=False)
class Gaussian(Elementwise):
    r"""½(y − μ)² with μ = η, or μ = e^η.

    Attributes:
        link: "identity", which is `Squared`, or "log".

    Example:
        >>> print(Gaussian("log").value(3.0, 0.0))
        2.0
    """

    link: str = field(default="identity", metadata={"static": True})

    dispersion_known = False
    weights_are_precisions = True  # of the likelihood, in which a weight elsewhere counts equal samples

    @property
    def convex(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """With the identity."""
        return self.link == "identity"

    @property
    def has_dual(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """With the identity."""
        return self.link == "identity"

    def mean(self, eta: Any) -> Array:
        """μ."""
        return jnp.asarray(eta) if check_link(self, ("identity", "log")) == "identity" else raised(jnp.asarray(eta), 2)

    def value(self, y, eta):
        """½(y − μ)²."""
        return (y - self.mean(eta)) ** 2 / 2

    def gradient(self, y, eta):
        """(μ − y)∂μ/∂η."""
        mu = self.mean(eta)
        return mu - y if self.link == "identity" else mu * (mu - y)

    def weight(self, y, eta):
        """(∂μ/∂η)²."""
        return 0 * (y + eta) + 1 if self.link == "identity" else 0 * y + self.mean(eta) ** 2

    def fisher(self, y, eta):
        """The expected curvature (∂μ/∂η)²."""
        return self.weight(y, eta)

    def conjugate(self, y, theta):
        """That of `Squared`."""
        return Squared().conjugate(y, theta) if self.has_dual else super().conjugate(y, theta)

    def start(self, y):
        """y, or its logarithm where that exists."""
        y = jnp.asarray(y)
        return y if self.link == "identity" else jnp.log(jnp.where(y > 0, y, 1))

    def variance(self, mu: Any) -> Array:
        """1, in units of the dispersion."""
        return jnp.ones_like(mu)

    def log_likelihood(self, y: Array, eta: Array, v: Array, dispersion: Array) -> Array:
        """Of errors of variance σ²/vᵢ."""
        density = jnp.log(2 * jnp.pi * dispersion / jnp.where(v > 0, v, 1)) + v * self.deviance(y, eta) / dispersion
        return -jnp.sum(jnp.where(v > 0, density, 0)) / 2
