"""More than two classes."""

from dataclasses import dataclass

import jax.numpy as jnp
from jax import Array
from jax.nn import log_softmax, softmax
from jax.scipy.special import gammaln

from regjax.core.node import register_node
from regjax.losses.protocol import Elementwise, times_log, weighted, weighted_sum


@register_node
@dataclass(frozen=True, eq=False)
class Multinomial(Elementwise):
    r"""log Σₖ e^ηₖ − Σₖ yₖηₖ: one row of y (n, K) per sample, a 1 for its class, or the shares of the classes.

    The classes are treated alike: adding a number to all η of a sample changes nothing, and without a penalty that
    charges it the solution of minimum norm is found. `gradient` couples the K columns; `value` has one.

    Example:
        >>> import jax.numpy as jnp
        >>> print(Multinomial().mean(jnp.log(jnp.array([[1.0, 2.0, 1.0]]))).round(3))
        [[0.25 0.5  0.25]]
    """

    coupled = True
    has_dual = True
    domain = "one row of K shares per sample, not negative and of sum 1"

    def value(self, y, eta):
        """ℓ (n, 1)."""
        return -jnp.sum(y * log_softmax(eta), axis=-1, keepdims=True)

    def gradient(self, y, eta):
        """softmax(η) − y (n, K)."""
        return softmax(eta) - y

    def curvature(self, y, eta):
        """The diagonal p(1 − p) of the Hessian of each sample (n, K)."""
        share = softmax(jnp.asarray(eta))
        return share * (1 - share) + 0 * y

    def conjugate(self, y, theta):
        """Σₖ tₖ log tₖ with t = y + θ in the simplex (n, 1)."""
        t = y + theta
        slip = 64 * float(jnp.finfo(t.dtype).eps)
        inside = jnp.all(t >= -slip, axis=-1, keepdims=True)
        t = jnp.maximum(t, 0)
        return jnp.where(inside, jnp.sum(times_log(t), axis=-1, keepdims=True), jnp.inf)

    def mean(self, eta):
        """The probabilities of the classes."""
        return softmax(jnp.asarray(eta))

    def saturated(self, y):
        """The entropy of each row (n, 1)."""
        return -jnp.sum(times_log(y), axis=-1, keepdims=True)

    def valid(self, y):
        """Rows of shares."""
        total = jnp.sum(y, axis=-1, keepdims=True)
        return (y >= 0) & (jnp.abs(total - 1) <= 1e-4)

    def start(self, y):
        """Halfway between y and equal shares."""
        return jnp.log(jnp.maximum(y, 0) / 2 + 0.5 / y.shape[-1])

    def visible(self, u: Array) -> Array:
        """The differences between classes."""
        return u - jnp.mean(u, axis=-1, keepdims=True)

    def press(self, y: Array, eta: Array, v: Array, u: Array) -> Array:
        """v(p∘u − p(pᵀu))."""
        share = softmax(eta)
        return weighted(v, share * (u - jnp.sum(share * u, axis=-1, keepdims=True)))

    def excess(self, y: Array, eta: Array, theta: Array, v: Array) -> Array:
        """Σ v (ℓ + ℓ* − θη)."""
        rest = self.value(y, eta) + self.conjugate(y, theta) - jnp.sum(theta * eta, axis=-1, keepdims=True)
        return weighted_sum(v, jnp.maximum(rest, 0))

    def log_likelihood(self, y: Array, eta: Array, v: Array, dispersion: Array) -> Array:
        """Of vᵢyᵢₖ members of class k among vᵢ."""
        del dispersion
        ways = gammaln(v + 1) - jnp.sum(gammaln(v[:, None] * y + 1), axis=-1)
        return jnp.sum(jnp.where(v > 0, ways, 0)) - self.total(y, eta, v)

    def pearson(self, y: Array, eta: Array, v: Array) -> Array:
        """Σ v Σₖ (yₖ − pₖ)²/pₖ."""
        share = softmax(eta)
        return weighted_sum(v, jnp.where(share > 0, (y - share) ** 2 / jnp.where(share > 0, share, 1), 0))

    def observed(self, y: Array, v: Array) -> Array:
        """K − 1 free shares of each sample."""
        return (y.shape[1] - 1) * jnp.sum(v > 0)
