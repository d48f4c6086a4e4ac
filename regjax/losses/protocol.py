"""What a loss is."""

from functools import reduce
from typing import Any, ClassVar, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from regjax.core.thin import thin


class Loss(Protocol):
    """ℓ(y, η): what samples pay for their predictors, (n, t) each.

    The first group of methods is elementwise in its arguments. The second sums over samples with weights v (n,), in
    which rows of weight zero are silent; solvers call these, so that a loss that couples samples or targets (`coupled`)
    has only them.
    """

    @property
    def convex(self) -> bool:
        """Whether ℓ is convex in η: only then is a stationary point the answer."""
        ...

    @property
    def smooth(self) -> bool:
        """Whether ℓ has a derivative everywhere in its domain."""
        ...

    @property
    def has_dual(self) -> bool:
        """Whether `conjugate` is known in closed form (else it raises TypeError)."""
        ...

    @property
    def coupled(self) -> bool:
        """Whether samples or targets depend on each other, so that there is no elementwise form."""
        ...

    @property
    def steeper(self) -> bool:
        """Whether `weight` is a bound of a convex loss's curvature, which is 0 in places."""
        ...

    @property
    def cancels_constants(self) -> bool:
        """Whether a number added to all η changes nothing."""
        ...

    @property
    def domain(self) -> str:
        """The y that it takes, in words."""
        ...

    def value(self, y: Any, eta: Any) -> Array:
        """ℓ, infinite where η is outside of its domain."""
        ...

    def gradient(self, y: Any, eta: Any) -> Array:
        """∂ℓ/∂η."""
        ...

    def curvature(self, y: Any, eta: Any) -> Array:
        """∂²ℓ/∂η²."""
        ...

    def weight(self, y: Any, eta: Any) -> Array:
        """The positive curvature of a quadratic model: ∂²ℓ/∂η² where ℓ is convex, else its mean or a bound."""
        ...

    def conjugate(self, y: Any, theta: Any) -> Array:
        """The supremum over η of θη − ℓ(y, η)."""
        ...

    def mean(self, eta: Any) -> Array:
        """The prediction of y from η."""
        ...

    def saturated(self, y: Any) -> Array:
        """The infimum of ℓ(y, η) over η."""
        ...

    def deviance(self, y: Any, eta: Any) -> Array:
        """2(ℓ(y, η) − inf ℓ(y, ·))."""
        ...

    def valid(self, y: Any) -> Array:
        """Whether y is in the domain."""
        ...

    def start(self, y: Any) -> Array:
        """An η near the best one for y, in the interior of the domain."""
        ...

    def encode(self, y: Array, v: Array) -> Array:
        """What the methods below take in place of y, with the work that depends on y alone done."""
        ...

    def visible(self, u: Array) -> Array:
        """The part of a change of η that the loss can see."""
        ...

    def total(self, y: Array, eta: Array, v: Array) -> Array:
        """Σᵢ vᵢ ℓ(yᵢ, ηᵢ), a scalar."""
        ...

    def least(self, y: Array, v: Array) -> Array:
        """The infimum of `total` over all η, a scalar."""
        ...

    def slopes(self, y: Array, eta: Array, v: Array) -> Array:
        """The gradient of `total` in η."""
        ...

    def excess(self, y: Array, eta: Array, theta: Array, v: Array) -> Array:
        """Σᵢ vᵢ (ℓ(yᵢ, ηᵢ) + ℓ*(yᵢ, θᵢ) − θᵢηᵢ) ≥ 0: 0 exactly where θ is the slope at η; where there is a dual."""
        ...

    def press(self, y: Array, eta: Array, v: Array, u: Array) -> Array:
        """The Hessian of `total` in η times u; a positive semidefinite model of it where ℓ is not convex."""
        ...


class Elementwise:
    """What follows for a loss from `value`, `gradient` and `saturated`, sample by sample."""

    convex = True
    smooth = True
    has_dual = False
    coupled = False
    weights_are_precisions = False
    steeper = False
    cancels_constants = False
    domain = "finite numbers"
    limits: ClassVar[dict[str, tuple[float, float]]] = {}  # between which a parameter lies, if not 0 and infinity
    instead: ClassVar[str] = ""  # what to take for a parameter at the end of its limits

    def value(self, y: Any, eta: Any) -> Array:
        """ℓ."""
        raise TypeError(f"{type(self).__name__} has no value")

    def gradient(self, y: Any, eta: Any) -> Array:
        """∂ℓ/∂η."""
        raise TypeError(f"{type(self).__name__} has no gradient")

    def curvature(self, y: Any, eta: Any) -> Array:
        """∂²ℓ/∂η²."""
        eta = jnp.asarray(eta)
        return jax.jvp(lambda eta: self.gradient(y, eta), (eta,), (jnp.ones_like(eta),))[1]

    def weight(self, y: Any, eta: Any) -> Array:
        """∂²ℓ/∂η², which is not negative."""
        return self.curvature(y, eta)

    def conjugate(self, y: Any, theta: Any) -> Array:
        """Not known: raises TypeError."""
        raise TypeError(f"{type(self).__name__} has no conjugate in closed form: `residual` certifies its fits")

    def mean(self, eta: Any) -> Array:
        """η."""
        return jnp.asarray(eta)

    def saturated(self, y: Any) -> Array:
        """0."""
        return jnp.zeros_like(y)

    def deviance(self, y: Any, eta: Any) -> Array:
        """2(ℓ(y, η) − inf ℓ(y, ·))."""
        return 2 * jnp.maximum(self.value(y, eta) - self.saturated(y), 0)

    def valid(self, y: Any) -> Array:
        """Every finite number."""
        return jnp.isfinite(y)

    def start(self, y: Any) -> Array:
        """y."""
        return jnp.asarray(y)

    def encode(self, y: Array, v: Array) -> Array:
        """y."""
        del v
        return y

    def visible(self, u: Array) -> Array:
        """All of it."""
        return u

    def total(self, y: Array, eta: Array, v: Array) -> Array:
        """Σᵢ vᵢ ℓ(yᵢ, ηᵢ)."""
        eta, y = thin(eta, y)
        return weighted_sum(v, self.value(y, eta))

    def least(self, y: Array, v: Array) -> Array:
        """Σᵢ vᵢ inf ℓ(yᵢ, ·)."""
        return weighted_sum(v, self.saturated(*thin(y)))

    def slopes(self, y: Array, eta: Array, v: Array) -> Array:
        """vᵢ ∂ℓ/∂η."""
        flat, y = thin(eta, y)
        return weighted(v, self.gradient(y, flat)).reshape(eta.shape)

    def excess(self, y: Array, eta: Array, theta: Array, v: Array) -> Array:
        """Σᵢ vᵢ (ℓ + ℓ* − θη)."""
        eta, y, theta = thin(eta, y, theta)
        rest = self.value(y, eta) + self.conjugate(y, theta) - theta * eta
        return weighted_sum(v, jnp.maximum(rest, 0))

    def press(self, y: Array, eta: Array, v: Array, u: Array) -> Array:
        """vᵢ hᵢ uᵢ with the `weight` h."""
        flat, y, u = thin(eta, y, u)
        return (weighted(v, self.weight(y, flat)) * u).reshape(eta.shape)


def weighted(v: Array, values: Array) -> Array:
    """vᵢ · values (n, t), where a row of weight zero is 0 whatever its values are, with the derivative in v."""
    v = v.reshape(-1, *(1,) * (values.ndim - 1))
    return v * jnp.where((v > 0) | jnp.isfinite(values), values, 0)


def weighted_sum(v: Array, values: Array) -> Array:
    """The sum of `weighted`."""
    heard = v.reshape(-1, *(1,) * (values.ndim - 1)) > 0
    return jnp.einsum("n,n...->", v, jnp.where(heard | jnp.isfinite(values), values, 0))


def log_one_plus(e: Array) -> Array:
    """log(1 + e) for e from 0 to 1, as 2 artanh(e/(2 + e)).

    Beside an exponential XLA's CPU backend takes logarithms one by one, ten times slower.
    """
    s = e / (2 + e)
    last = 35 if s.dtype == jnp.float64 else 17  # the powers of s ≤ 1/3 that are left out are below rounding
    return 2 * s * reduce(lambda tail, k: 1 / k + s**2 * tail, range(last, 0, -2), jnp.zeros_like(s))


def times_log(t: Array) -> Array:
    """t log t, 0 at 0, for t ≥ 0; with a selection instead of the maximum XLA takes the logarithms one by one."""
    t = jnp.asarray(t)
    return t * jnp.log(jnp.maximum(t, float(jnp.finfo(jnp.result_type(t, float)).tiny)))


def log_largest(like: Array) -> float:
    """The logarithm of a number that is large, but safe to add up."""
    return 0.9 * float(np.log(jnp.finfo(jnp.result_type(like, float)).max))


def raised(x: Array, power: float = 1.0) -> Array:
    """eˣ, where its `power` would overflow the largest number for which it does not."""
    return jnp.exp(jnp.minimum(x, log_largest(x) / power))


def check_link(loss: Any, links: tuple[str, ...]) -> str:
    """The link's name, or a `ValueError` that lists those there are."""
    if loss.link not in links:
        names = ", ".join(repr(link) for link in links)
        raise ValueError(f"link of {type(loss).__name__} must be one of {names}, got {loss.link!r}")
    return loss.link
