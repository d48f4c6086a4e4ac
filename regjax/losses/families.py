"""Counts and positive quantities, whose variance grows with the mean."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import jax.numpy as jnp
from jax import Array
from jax.scipy.special import gammaln, xlogy

from regjax.core.node import register_node
from regjax.losses.protocol import Elementwise, check_link, log_largest, raised, times_log

_POWERS = {"sqrt": 0.5, "inverse": -1.0, "inverse_square": -2.0}


class PowerVariance(Elementwise):
    """ℓ = −y μ^(1−q)/(1−q) + μ^(2−q)/(2−q), with logarithms in place of zero powers: the variance is φμ^q.

    With L = log μ, which is η itself for the log link and log(η)/k for η = μ^k > 0, every derivative is a sum of
    exponentials of multiples of L.
    """

    link: str
    links: tuple[str, ...] = ("log",)
    power: Any
    steepest = 1  # the largest power of μ or 1/μ in ℓ
    dispersion_known = False

    def log_mean(self, eta: Any) -> tuple[Array, Array, Array]:
        """L, L′ and L″."""
        eta = jnp.asarray(eta)
        if check_link(self, self.links) == "log":
            # beyond these its powers would overflow
            most = log_largest(eta) / self.steepest
            return jnp.clip(eta, -most, most), jnp.ones_like(eta), jnp.zeros_like(eta)
        k = _POWERS[self.link]
        inside = jnp.where(eta > 0, eta, 1)
        return jnp.log(inside) / k, 1 / (k * inside), -1 / (k * inside**2)

    def mean(self, eta: Any) -> Array:
        """μ; nan where η is outside of the domain."""
        return jnp.where(self._inside(eta), raised(self.log_mean(eta)[0]), jnp.nan)

    def value(self, y, eta):
        """ℓ."""
        log_mu, _, _ = self.log_mean(eta)
        value = -y * _integral(1 - self.power, log_mu) + _integral(2 - self.power, log_mu)
        return jnp.where(self._inside(eta), value, jnp.inf)

    def gradient(self, y, eta):
        """μ^(−q)(μ − y)∂μ/∂η."""
        log_mu, slope, _ = self.log_mean(eta)
        return self._score(y, log_mu) * slope

    def curvature(self, y, eta):
        """∂²ℓ/∂η²."""
        log_mu, slope, bend = self.log_mean(eta)
        low, high = 1 - self.power, 2 - self.power
        return (high * raised(high * log_mu) - low * y * raised(low * log_mu)) * slope**2 + self._score(
            y, log_mu
        ) * bend

    def fisher(self, y, eta):
        """The expected curvature (∂μ/∂η)²/μ^q."""
        log_mu, slope, _ = self.log_mean(eta)
        return raised((2 - self.power) * log_mu) * slope**2 + 0 * y

    def weight(self, y, eta):
        """∂²ℓ/∂η², or its expectation where that may be negative."""
        return self.curvature(y, eta) if self.convex else self.fisher(y, eta)

    def saturated(self, y):
        """ℓ at μ = y."""
        y = jnp.asarray(y)
        log_y = jnp.log(jnp.where(y > 0, y, 1))
        value = -y * _integral(1 - self.power, log_y) + _integral(2 - self.power, log_y)
        return jnp.where(y > 0, value, 0)

    def valid(self, y):
        """Positive."""
        return (y > 0) & jnp.isfinite(y)

    def start(self, y):
        """The η of y, of a tenth where y is 0."""
        log_y = jnp.log(jnp.where(y > 0, y, 0.1))
        return log_y if self.link == "log" else jnp.exp(_POWERS[self.link] * log_y)

    def variance(self, mu: Any) -> Array:
        """μ^q."""
        return mu**self.power

    def _score(self, y, log_mu):
        return raised((2 - self.power) * log_mu) - y * raised((1 - self.power) * log_mu)

    def _inside(self, eta):
        return jnp.isfinite(eta) if self.link == "log" else jnp.asarray(eta) > 0


def _integral(power: Any, log_mu: Array) -> Array:
    """μ^a/a, log μ for a = 0."""
    if isinstance(power, float) and power == 0:
        return log_mu
    return raised(power * log_mu) / power


@register_node
@dataclass(frozen=True, eq=False)
class Poisson(PowerVariance):
    r"""μ − y log μ, with log μ = η, or √μ = η > 0.

    Attributes:
        link: "log" or "sqrt".

    Example:
        >>> print(Poisson().gradient(3.0, 0.0))
        -2.0
    """

    link: str = field(default="log", metadata={"static": True})

    links = ("log", "sqrt")
    power = 1.0
    domain = "counts: values that are not negative"
    dispersion_known = True
    has_dual = True

    def conjugate(self, y, theta):
        """t log t − t with t = y + θ ≥ 0 for "log"; its η solves 2η² − θη − 2y = 0 for "sqrt"."""
        if self.link == "sqrt":
            root = jnp.sqrt(theta**2 + 16 * y)
            # the larger root, without cancellation
            eta = jnp.where(theta > 0, (theta + root) / 4, 4 * y / jnp.where(theta > 0, 1, root - theta))
            return jnp.where(eta > 0, theta * eta - eta**2 + 2 * xlogy(y, eta), 0)
        t = jnp.asarray(y + theta)
        slip = 8 * float(jnp.finfo(jnp.result_type(t, float)).eps) * (1 + jnp.asarray(y))
        inside, t = t >= -slip, jnp.maximum(t, 0)
        return times_log(t) - t + jnp.where(inside, 0, jnp.inf)

    def valid(self, y):
        """Not negative."""
        return (y >= 0) & jnp.isfinite(y)

    def log_likelihood(self, y: Array, eta: Array, v: Array, dispersion: Array) -> Array:
        """Of counts."""
        del dispersion
        return -jnp.sum(jnp.where(v > 0, v * (self.value(y, eta) + gammaln(y + 1)), 0))


@register_node
@dataclass(frozen=True, eq=False)
class Gamma(PowerVariance):
    r"""y/μ + log μ, with 1/μ = η > 0, or log μ = η.

    Attributes:
        link: "inverse", the canonical one, or "log".

    Example:
        >>> print(Gamma("log").value(2.0, 0.0))
        2.0
    """

    link: str = field(default="inverse", metadata={"static": True})

    links = ("inverse", "log")
    power = 2.0
    domain = "positive values"
    has_dual = True

    def conjugate(self, y, theta):
        """−1 − log(y − θ), θ < y, for "inverse"; (1 − θ)(log((1 − θ)/y) − 1), θ ≤ 1, for "log"."""
        t = jnp.asarray((1 if self.link == "log" else y) - theta)
        inside = t >= 0 if self.link == "log" else t > 0
        safe = jnp.where(t > 0, t, 1)
        value = jnp.where(t > 0, t, 0) * (jnp.log(safe / y) - 1) if self.link == "log" else -1 - jnp.log(safe)
        return jnp.where(inside, value, jnp.inf)

    def log_likelihood(self, y: Array, eta: Array, v: Array, dispersion: Array) -> Array:
        """Of gamma variables of shape 1/φ; v counts them."""
        shape = 1 / dispersion
        log_mu = self.log_mean(eta)[0]
        density = shape * (jnp.log(shape * y) - log_mu) - gammaln(shape) - jnp.log(y) - shape * y * jnp.exp(-log_mu)
        return jnp.sum(jnp.where(v > 0, v * density, 0))


@register_node
@dataclass(frozen=True, eq=False)
class InverseGaussian(PowerVariance):
    r"""y/(2μ²) − 1/μ, with 1/μ² = η > 0, or log μ = η.

    Attributes:
        link: "inverse_square", the canonical one, or "log", which is not convex.

    Example:
        >>> print(InverseGaussian("log").value(2.0, 0.0))
        0.0
    """

    link: str = field(default="inverse_square", metadata={"static": True})

    links = ("inverse_square", "log")
    power = 3.0
    steepest = 2
    domain = "positive values"

    @property
    def convex(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """With the canonical link."""
        return self.link != "log"

    def weight(self, y, eta):
        """∂²ℓ/∂η², or with the log link y/μ², which it is in the mean, and which is large where μ is far below y.

        The expected curvature 1/μ is small there, and steps with it end on the flat side of the loss.
        """
        return self.curvature(y, eta) if self.convex else y * raised(-2 * self.log_mean(eta)[0])

    def log_likelihood(self, y: Array, eta: Array, v: Array, dispersion: Array) -> Array:
        """Of inverse Gaussian variables; v counts them."""
        density = jnp.log(2 * jnp.pi * dispersion * y**3) + self.deviance(y, eta) / dispersion
        return -jnp.sum(jnp.where(v > 0, v * density, 0)) / 2


@register_node
@dataclass(frozen=True, eq=False)
class Tweedie(PowerVariance):
    r"""−y e^((1−q)η)/(1−q) + e^((2−q)η)/(2−q): the variance is φμ^q, log μ = η.

    Between Poisson (q = 1) and gamma (q = 2): positive amounts with a chance of exactly 0.

    Attributes:
        power: q, 1 < q < 2.

    Example:
        >>> print(Tweedie(1.5).gradient(2.0, 0.0))
        -1.0
    """

    power: Any = 1.5

    link = "log"
    limits: ClassVar = {"power": (1.0, 2.0)}
    domain = "values that are not negative"

    def valid(self, y):
        """Not negative."""
        return (y >= 0) & jnp.isfinite(y)


@register_node
@dataclass(frozen=True, eq=False)
class NegativeBinomial(Elementwise):
    r"""−yη + (y + 1/α) log(1 + αe^η): counts with variance μ + αμ², log μ = η.

    Attributes:
        dispersion: α > 0; R's theta is 1/α. Poisson is the limit α → 0.

    Example:
        >>> print(NegativeBinomial(1.0).gradient(3.0, 0.0))
        -1.0
    """

    dispersion: Any = 1.0

    domain = "counts: values that are not negative"
    dispersion_known = True
    has_dual = True

    def mean(self, eta):
        """e^η."""
        return raised(jnp.asarray(eta))

    def _share(self, eta):
        """log of αμ/(1 + αμ) and of 1/(1 + αμ)."""
        x = jnp.asarray(eta) + jnp.log(self.dispersion)
        return -jnp.logaddexp(0, -x), -jnp.logaddexp(0, x)

    def value(self, y, eta):
        """ℓ."""
        return -y * eta - (y + 1 / self.dispersion) * self._share(eta)[1]

    def gradient(self, y, eta):
        """(μ − y)/(1 + αμ)."""
        up, down = self._share(eta)
        return jnp.exp(up) / self.dispersion - y * jnp.exp(down)

    def curvature(self, y, eta):
        """(y + 1/α) αμ/(1 + αμ)²."""
        up, down = self._share(eta)
        return (y + 1 / self.dispersion) * jnp.exp(up + down)

    def fisher(self, y, eta):
        """The expected curvature μ/(1 + αμ)."""
        return jnp.exp(self._share(eta)[0]) / self.dispersion + 0 * y

    def conjugate(self, y, theta):
        """By its maximiser, αμ/(1 + αμ) = (y + θ)/(y + 1/α) in [0, 1]."""
        t, whole = y + theta, y + 1 / jnp.asarray(self.dispersion)
        share = t / whole
        slip = 8 * float(jnp.finfo(jnp.result_type(share, float)).eps)
        inside, m = (share >= -slip) & (share <= 1 + slip), jnp.clip(share, 0, 1)
        value = whole * (times_log(m) + times_log(1 - m) - m * jnp.log(self.dispersion))
        return jnp.where(inside, value, jnp.inf)

    def saturated(self, y):
        """ℓ at μ = y."""
        y = jnp.asarray(y)
        return -times_log(y) + (y + 1 / self.dispersion) * jnp.log1p(self.dispersion * y)

    def valid(self, y):
        """Not negative."""
        return (y >= 0) & jnp.isfinite(y)

    def start(self, y):
        """log(y + ⅙)."""
        return jnp.log(jnp.maximum(y, 0) + 1 / 6)

    def variance(self, mu: Any) -> Array:
        """μ + αμ²."""
        return mu + self.dispersion * mu**2

    def log_likelihood(self, y: Array, eta: Array, v: Array, dispersion: Array) -> Array:
        """Of counts."""
        del dispersion
        size = 1 / jnp.asarray(self.dispersion)
        ways = gammaln(y + size) - gammaln(size) - gammaln(y + 1) + y * jnp.log(self.dispersion)
        return jnp.sum(jnp.where(v > 0, v * (ways - self.value(y, eta)), 0))
