"""Losses that large residuals hurt less than squares do, and those of quantiles and p-norms."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax import Array

from regjax.core.node import register_node
from regjax.losses.protocol import Elementwise, log_one_plus


@register_node
@dataclass(frozen=True, eq=False)
class Huber(Elementwise):
    r"""½r² for |r| ≤ δ, δ|r| − ½δ² beyond, r = y − η.

    Attributes:
        delta: δ > 0, in the units of y.

    Example:
        >>> print(Huber(1.0).value(0.0, 3.0))
        2.5

    References:
        Huber, Robust estimation of a location parameter, Ann. Math. Stat. 35 (1964).
    """

    delta: Any = 1.345

    has_dual = True
    steeper = True

    def value(self, y, eta):
        """ℓ."""
        size = jnp.abs(y - eta)
        return jnp.where(size <= self.delta, size**2 / 2, self.delta * (size - self.delta / 2))

    def gradient(self, y, eta):
        """η − y, clipped to ±δ."""
        return jnp.clip(eta - y, -self.delta, self.delta)

    def weight(self, y, eta):
        """min(1, δ/|r|): the parabola of this curvature lies above ℓ."""
        return self.delta / jnp.maximum(jnp.abs(y - eta), self.delta)

    def conjugate(self, y, theta):
        """θy + ½θ² for |θ| ≤ δ."""
        return jnp.where(jnp.abs(theta) <= self.delta * (1 + 1e-6), theta * y + theta**2 / 2, jnp.inf)


@register_node
@dataclass(frozen=True, eq=False)
class LogCosh(Elementwise):
    r"""log cosh r, r = y − η: squares near 0, absolute values far from it, smooth everywhere.

    Example:
        >>> print(round(float(LogCosh().value(0.0, 1.0)), 4))
        0.4338
    """

    has_dual = True

    def value(self, y, eta):
        """ℓ."""
        size = jnp.abs(y - eta)
        return size + log_one_plus(jnp.exp(-2 * size)) - jnp.log(2.0).astype(jnp.result_type(size, float))

    def gradient(self, y, eta):
        """tanh(η − y)."""
        return jnp.tanh(eta - y)

    def curvature(self, y, eta):
        """1/cosh²."""
        decay = jnp.exp(-2 * jnp.abs(y - eta))
        return 4 * decay / (1 + decay) ** 2

    def weight(self, y, eta):
        """tanh(r)/r: the parabola of this curvature lies above ℓ."""
        size = jnp.abs(y - eta)
        small = size < 1e-4
        return jnp.where(small, 1 - size**2 / 3, jnp.tanh(size) / jnp.where(small, 1, size))

    def conjugate(self, y, theta):
        """θy + ½(1 + θ)log(1 + θ) + ½(1 − θ)log(1 − θ) for |θ| ≤ 1."""
        inside = jnp.abs(theta) <= 1
        both = sum(jax.scipy.special.xlog1py(1 + t, t) for t in (jnp.clip(theta, -1, 1), -jnp.clip(theta, -1, 1)))
        return jnp.where(inside, theta * y + both / 2, jnp.inf)


@register_node
@dataclass(frozen=True, eq=False)
class Bisquare(Elementwise):
    r"""Tukey's (c²/6)(1 − (1 − (r/c)²)³) for |r| ≤ c, c²/6 beyond: a far outlier counts for nothing.

    Not convex: what is found is a stationary point near the start.

    Attributes:
        c: > 0, in the units of y; 4.685 standard deviations make it 95% efficient for normal errors.

    Example:
        >>> print(Bisquare(2.0).gradient(0.0, 3.0))
        0.0

    References:
        Beaton & Tukey, The fitting of power series, Technometrics 16 (1974).
    """

    c: Any = 4.685

    convex = False

    def _share(self, y, eta):
        """max(0, 1 − (r/c)²)."""
        return jnp.maximum(1 - ((y - eta) / self.c) ** 2, 0)

    def value(self, y, eta):
        """ℓ."""
        return self.c**2 / 6 * (1 - self._share(y, eta) ** 3)

    def gradient(self, y, eta):
        """(η − y)(1 − (r/c)²)² within c."""
        return (eta - y) * self._share(y, eta) ** 2

    def weight(self, y, eta):
        """(1 − (r/c)²)²: the parabola of this curvature lies above ℓ."""
        return self._share(y, eta) ** 2


@register_node
@dataclass(frozen=True, eq=False)
class Hampel(Elementwise):
    r"""½r² up to a, linear up to b, then bending down to a constant from c on: ψ has three parts.

    ψ(r) = min(|r|, a, a·max(c − |r|, 0)/(c − b)) sign(r), r = y − η. Not convex: what is found is a stationary point
    near the start.

    Attributes:
        a, b, c: 0 < a < b < c, in the units of y; multiples 2, 4 and 8 of their scale are usual.

    Example:
        >>> print(Hampel(2.0, 4.0, 8.0).gradient(0.0, 6.0))
        1.0

    References:
        Hampel, Ronchetti, Rousseeuw & Stahel, Robust Statistics, Wiley 1986, section 2.6.
    """

    a: Any = 2.0
    b: Any = 4.0
    c: Any = 8.0

    convex = False

    @property
    def limits(self) -> dict:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Each beyond the one before."""
        return {"b": (self.a, float("inf")), "c": (self.b, float("inf"))}

    def value(self, y, eta):
        """ℓ."""
        size = jnp.abs(y - eta)
        near = jnp.minimum(size, self.a)
        rest = jnp.maximum(self.c - jnp.maximum(size, self.b), 0) / (self.c - self.b)  # 1 up to b, 0 from c on
        middle = jnp.clip(size, self.a, self.b) - self.a
        return near**2 / 2 + self.a * (middle + (self.c - self.b) / 2 * (1 - rest**2))

    def gradient(self, y, eta):
        """ψ(η − y)."""
        return jnp.sign(eta - y) * self._slope(jnp.abs(y - eta))

    def weight(self, y, eta):
        """ψ(r)/r: the parabola of this curvature lies above ℓ."""
        size = jnp.abs(y - eta)
        return self._slope(jnp.maximum(size, self.a)) / jnp.maximum(size, self.a)

    def _slope(self, size):
        return jnp.minimum(jnp.minimum(size, self.a), self.a * jnp.maximum(self.c - size, 0) / (self.c - self.b))


@register_node
@dataclass(frozen=True, eq=False)
class Lp(Elementwise):
    r"""|r|^p/p, r = y − η, for 1 ≤ p ≤ 2.

    Attributes:
        p: the power. Absolute errors, p = 1, are twice `Quantile(0.5)`: `fit` takes them as that where `jit` does not
            trace p, and else refuses them.

    Example:
        >>> print(round(float(Lp(1.5).value(0.0, 4.0)), 4))
        5.3333
    """

    p: Any = 1.5

    has_dual = True
    limits: ClassVar = {"p": (1.0, 2.0 + 1e-6)}
    instead: ClassVar = "; absolute errors, p = 1, are twice Quantile(0.5): see lp_regression"

    def _size(self, y, eta):
        """|r|, kept a little away from 0, where negative powers are infinite."""
        size = jnp.abs(y - eta)
        return jnp.maximum(size, 1e3 * float(jnp.finfo(jnp.result_type(size, float)).tiny) ** 0.25)

    def value(self, y, eta):
        """ℓ."""
        return jnp.where(jnp.asarray(y) == eta, 0, self._size(y, eta) ** self.p / self.p)

    def gradient(self, y, eta):
        """sign(η − y)|r|^(p−1)."""
        return jnp.sign(eta - y) * self._size(y, eta) ** (self.p - 1)

    def curvature(self, y, eta):
        """(p − 1)|r|^(p−2)."""
        return (self.p - 1) * self._size(y, eta) ** (self.p - 2)

    def conjugate(self, y, theta):
        """θy + |θ|^q/q with 1/p + 1/q = 1."""
        q = self.p / (self.p - 1)
        return theta * y + jnp.abs(theta) ** q / q


@register_node
@dataclass(frozen=True, eq=False)
class Quantile(Elementwise):
    r"""τ·r for r = y − η ≥ 0, (τ − 1)·r below: its minimiser is the quantile τ of y.

    Attributes:
        tau: τ, between 0 and 1; ½ is the median, with half the absolute error. With t targets also one for each (t,).
        non_crossing: whether the predictors of every sample are kept in the order of their τ.

    Example:
        >>> print(Quantile(0.75).value(1.0, 0.0))
        0.75

    References:
        Koenker & Bassett, Regression quantiles, Econometrica 46 (1978).
    """

    tau: Any = 0.5
    non_crossing: bool = field(default=False, metadata={"static": True})

    smooth = False
    has_dual = True
    limits: ClassVar = {"tau": (0.0, 1.0)}

    @property
    def coupled(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether quantiles are kept from crossing."""
        return self.non_crossing

    def value(self, y, eta):
        """ℓ."""
        r = y - eta
        return jnp.maximum(self.tau * r, (self.tau - 1) * r)

    def gradient(self, y, eta):
        """1 − τ above y, −τ below, and ½ − τ at y: one of the subgradients."""
        return (1 + jnp.sign(eta - y)) / 2 - self.tau

    def curvature(self, y, eta) -> Array:
        """0."""
        return jnp.zeros_like(y + eta)

    def conjugate(self, y, theta):
        """θy for −τ ≤ θ ≤ 1 − τ."""
        slip = 8 * float(jnp.finfo(jnp.result_type(theta, float)).eps)
        inside = (theta >= -self.tau - slip) & (theta <= 1 - self.tau + slip)
        return jnp.where(inside, theta * y, jnp.inf)
