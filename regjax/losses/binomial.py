"""Probabilities: successes of a Bernoulli or binomial trial."""

import math
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.special import gammaln, logit, ndtri

from regjax.core.node import register_node
from regjax.losses.protocol import Elementwise, check_link, log_one_plus, raised, times_log

_LINKS = ("logit", "probit", "cloglog", "cauchit")


@register_node
@dataclass(frozen=True, eq=False)
class Binomial(Elementwise):
    r"""−y log μ − (1 − y) log(1 − μ), μ = F(η).

    y is 0 or 1, or a fraction of successes whose number of trials is the sample's weight.

    Attributes:
        link: "logit" F = 1/(1 + e^−η), "probit" F = Φ(η), "cloglog" F = 1 − exp(−e^η), or "cauchit"
            F = ½ + arctan(η)/π. The first three are convex.

    Example:
        >>> print(Binomial("logit").value(1.0, 0.0).round(4))
        0.6931

    References:
        McCullagh & Nelder, Generalized Linear Models, Chapman & Hall 1989, chapter 4.
    """

    link: str = field(default="logit", metadata={"static": True})

    dispersion_known = True
    domain = "values from 0 to 1: classes 0 and 1, or fractions of successes"

    @property
    def convex(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Unless the link is "cauchit"."""
        return self.link != "cauchit"

    @property
    def has_dual(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """For "logit"."""
        return self.link == "logit"

    def logs(self, eta: Any) -> tuple[Array, Array]:
        """log μ and log(1 − μ), each to full relative precision."""
        eta = jnp.asarray(eta)
        link = check_link(self, _LINKS)
        if link == "logit":
            tail = log_one_plus(jnp.exp(_below(eta)))
            return jnp.where(eta >= 0, 0, eta) - tail, -jnp.where(eta >= 0, eta, 0) - tail
        if link == "probit":
            return _log_normal(eta), _log_normal(-eta)
        if link == "cauchit":
            up, down = (jnp.arctan2(jnp.ones_like(eta), side) / jnp.pi for side in (-eta, eta))
            return _log_of_share(up, down), _log_of_share(down, up)
        rate = raised(eta)
        tiny = eta < -30  # μ = e^η there, which 1 − exp(−e^η) would flush to 0
        rest = jnp.where(tiny, 1, rate)
        return jnp.where(tiny, eta, _log_of_share(-jnp.expm1(-rest), jnp.exp(-rest))), -rate

    def slopes_of_logs(self, eta: Any) -> tuple[Array, Array]:
        """The derivatives of log μ and log(1 − μ)."""
        eta = jnp.asarray(eta)
        if check_link(self, _LINKS) == "logit":
            up, down = _sigmoids(eta)
            return down, -up
        if self.link == "probit":
            return _mills(-eta), -_mills(eta)
        if self.link == "cauchit":
            one = jnp.ones_like(eta)
            density = 1 / (1 + eta**2)
            return density / jnp.arctan2(one, -eta), -density / jnp.arctan2(one, eta)
        rate = raised(eta)
        tiny = rate < 1e-12
        return jnp.where(tiny, 1, rate * jnp.exp(-rate) / -jnp.expm1(-jnp.where(tiny, 1, rate))), -rate

    def value(self, y, eta):
        """ℓ."""
        up, down = self.logs(eta)
        return -(y * up + (1 - y) * down)

    def gradient(self, y, eta):
        """F′(η)(μ − y)/(μ(1 − μ)) as a sum of terms of one sign each."""
        up, down = self.slopes_of_logs(eta)
        return -(y * up + (1 - y) * down)

    def curvature(self, y, eta):
        """∂²ℓ/∂η²: μ(1 − μ) for "logit"."""
        return self.fisher(y, eta) if self.link == "logit" else super().curvature(y, eta)

    def fisher(self, y, eta):
        """The expected curvature F′²/(μ(1 − μ))."""
        up, down = self.slopes_of_logs(eta)
        return -up * down + 0 * y

    def weight(self, y, eta):
        """∂²ℓ/∂η², or its expectation where that may be negative."""
        return jnp.maximum(self.curvature(y, eta), 0) if self.convex else self.fisher(y, eta)

    def conjugate(self, y, theta):
        """t log t + (1 − t) log(1 − t) with t = y + θ in [0, 1], for "logit"."""
        if not self.has_dual:
            return super().conjugate(y, theta)
        t = jnp.asarray(y + theta)
        slip = 8 * float(jnp.finfo(jnp.result_type(t, float)).eps)
        inside = (t >= -slip) & (t <= 1 + slip)
        t = jnp.clip(t, 0, 1)
        return times_log(t) + times_log(1 - t) + jnp.where(inside, 0, jnp.inf)

    def mean(self, eta: Any) -> Array:
        """μ."""
        return _sigmoids(jnp.asarray(eta))[0] if self.link == "logit" else jnp.exp(self.logs(eta)[0])

    def saturated(self, y):
        """The entropy of y."""
        y = jnp.asarray(y)
        return -(times_log(y) + times_log(1 - y))

    def valid(self, y):
        """From 0 to 1."""
        return (y >= 0) & (y <= 1)

    def start(self, y):
        """The η of (y + ½)/2."""
        mu = (jnp.clip(y, 0, 1) + 0.5) / 2
        if self.link == "probit":
            return ndtri(mu)
        if self.link == "cauchit":
            return jnp.tan(jnp.pi * (mu - 0.5))
        return logit(mu) if self.link == "logit" else jnp.log(-jnp.log1p(-mu))

    def variance(self, mu: Any) -> Array:
        """μ(1 − μ)."""
        return mu * (1 - mu)

    def log_likelihood(self, y: Array, eta: Array, v: Array, dispersion: Array) -> Array:
        """Of vᵢyᵢ successes in vᵢ trials."""
        del dispersion
        wins = v * y
        ways = gammaln(v + 1) - gammaln(wins + 1) - gammaln(v - wins + 1)
        return jnp.sum(jnp.where(v > 0, ways - v * self.value(y, eta), 0))


def _log_of_share(share: Array, rest: Array) -> Array:
    """log of a share with 1 − share given, from the smaller of the two, which has all its digits."""
    large = share > 0.5
    return jnp.where(large, jnp.log1p(-jnp.where(large, rest, 0)), jnp.log(jnp.where(large, 1, share)))


def _sigmoids(eta: Array) -> tuple[Array, Array]:
    """μ and 1 − μ of the logit link, each to full relative precision, from one exponential."""
    small = jnp.exp(_below(eta))
    above, below = 1 / (1 + small), small / (1 + small)
    return jnp.where(eta >= 0, above, below), jnp.where(eta >= 0, below, above)


def _below(eta: Array) -> Array:
    """−|η|, by branches that have the derivative of a smooth function at 0."""
    return jnp.where(eta >= 0, -eta, eta)


def Logistic() -> Binomial:
    """`Binomial("logit")`: log(1 + e^η) − yη.

    Example:
        >>> print(Logistic().gradient(1.0, 0.0))
        -0.5
    """
    return Binomial("logit")


# log(erfc(z)eᶻ²(1 + z/2)) for z ≥ 0 as a Chebyshev series in 8/(2 + z) − 2 (Press et al., Numerical Recipes, §6.2)
_ERFC = (
    -1.3026537197817094, 6.4196979235649026e-1, 1.9476473204185836e-2, -9.561514786808631e-3, -9.46595344482036e-4,
    3.66839497852761e-4, 4.2523324806907e-5, -2.0278578112534e-5, -1.624290004647e-6, 1.303655835580e-6,
    1.5626441722e-8, -8.5238095915e-8, 6.529054439e-9, 5.059343495e-9, -9.91364156e-10, -2.27365122e-10,
    9.6467911e-11, 2.394038e-12, -6.886027e-12, 8.94487e-13, 3.13092e-13, -1.12708e-13, 3.81e-16, 7.106e-15,
    -1.523e-15, -9.4e-17, 1.21e-16, -2.8e-17,
)  # fmt: skip


def _log_scaled(x: Array) -> Array:
    """log(2Φ(−x)e^(x²/2)) for x ≥ 0: jax.scipy's log_ndtr is some hundred operations, and they add up in a solver."""
    z = x / math.sqrt(2)
    t = 2 / (2 + z)
    u = 4 * t - 2
    d, dd = jnp.zeros_like(x), jnp.zeros_like(x)
    for c in _ERFC[:0:-1]:
        d, dd = u * d - dd + c, d
    return jnp.log(t) + (_ERFC[0] + u * d) / 2 - dd


@jax.custom_jvp
def _log_normal(x: Array) -> Array:
    """log Φ(x)."""
    lower = _log_scaled(jnp.abs(x)) - x**2 / 2 - math.log(2)  # of −|x|
    return jnp.where(x > 0, jnp.log1p(-jnp.exp(jnp.minimum(lower, -0.5))), lower)


_log_normal.defjvps(lambda dx, value, x: _mills(-x) * dx)


@jax.custom_jvp
def _mills(x: Array) -> Array:
    """φ(x)/(1 − Φ(x)), which grows like x."""
    scaled = _log_scaled(jnp.abs(x))
    lower = jnp.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)
    below = lower / (1 - jnp.exp(jnp.minimum(scaled - x**2 / 2 - math.log(2), -0.5)))
    return jnp.where(x > 0, math.sqrt(2 / math.pi) * jnp.exp(-scaled), below)


@_mills.defjvp
def _mills_jvp(primals, tangents):
    (x,), (dx,) = primals, tangents
    ratio = _mills(x)
    # r(r − x), which tends to 1: from its asymptotic series where r and x cancel
    far = x > 30
    square = jnp.where(far, x, 30.0) ** 2
    slope = jnp.where(far, 1 - 1 / square + 6 / square**2, ratio * (ratio - x))
    return ratio, slope * dx
