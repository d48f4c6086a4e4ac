"""Kernels of the inner product xᵀz, and the two of no point at all: a constant and white noise."""

from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax import Array

from regjax.core.node import register_node
from regjax.core.tree import ravel_design
from regjax.kernels.kernel import Kernel, as_scalar, flat


class _InnerProduct(Kernel):
    """profile(xᵀz)."""

    positive_definite = True

    def profile(self, products: Array) -> Array:
        """The kernel as a function of the inner product."""
        raise NotImplementedError

    def __call__(self, x, z):
        """k(x, z)."""
        return self.profile(flat(x) @ flat(z))

    def matrix(self, X, Z=None):
        """(n, m)."""
        X = ravel_design(X)[0]
        Z = X if Z is None else ravel_design(Z)[0]
        return self.profile(jnp.einsum("ip,jp->ij", X, Z, precision="highest"))

    def diagonal(self, X):
        """profile(‖xᵢ‖²)."""
        X = ravel_design(X)[0]
        return self.profile(jnp.einsum("ip,ip->i", X, X))


@register_node
@dataclass(frozen=True, eq=False)
class Linear(_InnerProduct):
    """xᵀz: kernel ridge with it is ridge.

    Example:
        >>> import jax.numpy as jnp
        >>> print(Linear()(jnp.array([1.0, 2.0]), jnp.array([3.0, 1.0])))
        5.0
    """

    def profile(self, products):
        """xᵀz."""
        return products


@register_node
@dataclass(frozen=True, eq=False)
class Polynomial(_InnerProduct):
    """(xᵀz + c)ᵈ.

    Attributes:
        degree: d, a whole number.
        bias: c ≥ 0.

    Example:
        >>> import jax.numpy as jnp
        >>> print(Polynomial(2, 1.0)(jnp.array([1.0, 2.0]), jnp.array([3.0, 1.0])))
        36.0
    """

    domains: ClassVar[dict[str, str]] = {"bias": "non-negative"}
    degree: int = field(default=2, metadata={"static": True})
    bias: Any = 1.0

    def profile(self, products):
        """(xᵀz + c)ᵈ."""
        if not isinstance(self.degree, Integral) or self.degree < 0:
            raise ValueError(f"degree must be a whole number that is not negative, got {self.degree!r}")
        return (products + as_scalar("bias", self.bias, products.dtype)) ** int(self.degree)


@register_node
@dataclass(frozen=True, eq=False)
class Sigmoid(_InnerProduct):
    """tanh(α xᵀz + θ): not positive semidefinite in general, which fits look at and report.

    Attributes:
        alpha: α.
        theta: θ.
    """

    positive_definite = False
    domains: ClassVar[dict[str, str]] = {"alpha": "real", "theta": "real"}
    alpha: Any = 1.0
    theta: Any = 0.0

    def profile(self, products):
        """tanh(α xᵀz + θ)."""
        alpha, theta = (as_scalar(name, getattr(self, name), products.dtype) for name in ("alpha", "theta"))
        return jnp.tanh(alpha * products + theta)


@register_node
@dataclass(frozen=True, eq=False)
class Constant(Kernel):
    """c: functions that are constant, with prior variance c.

    Attributes:
        value: c ≥ 0.
    """

    positive_definite = True
    domains: ClassVar[dict[str, str]] = {"value": "non-negative"}
    value: Any = 1.0

    def __call__(self, x, z):
        """c."""
        dtype = jnp.result_type(*map(jnp.result_type, jax.tree.leaves((x, z))), float)
        return as_scalar("value", self.value, dtype)

    def matrix(self, X, Z=None):
        """(n, m)."""
        X = ravel_design(X)[0]
        return jnp.full((len(X), len(X if Z is None else ravel_design(Z)[0])), as_scalar("value", self.value, X.dtype))

    def diagonal(self, X):
        """All c."""
        X = ravel_design(X)[0]
        return jnp.full(len(X), as_scalar("value", self.value, X.dtype))


@register_node
@dataclass(frozen=True, eq=False)
class White(Kernel):
    """Noise of its own at every sample: on the diagonal of a Gram matrix of X with itself, and zero elsewhere.

    It goes by index, not by equality of points: of two samples at one point each has its own, and so has a new sample
    at the place of an old one.

    Attributes:
        noise: the variance, ≥ 0.

    Example:
        >>> import jax.numpy as jnp
        >>> from regjax.kernels import gram
        >>> x = jnp.zeros(2)
        >>> print(gram(White(0.5), x), gram(White(0.5), x, x).sum())
        [[0.5 0. ]
         [0.  0.5]] 0.0
    """

    positive_definite = True
    domains: ClassVar[dict[str, str]] = {"noise": "non-negative"}
    noise: Any = 1.0

    def __call__(self, x, z):
        """0: two points are two samples."""
        return jnp.zeros((), jnp.result_type(*map(jnp.result_type, jax.tree.leaves((x, z))), float))

    def matrix(self, X, Z=None):
        """(n, m)."""
        X = ravel_design(X)[0]
        if Z is None:
            return as_scalar("noise", self.noise, X.dtype) * jnp.eye(len(X), dtype=X.dtype)
        return jnp.zeros((len(X), len(ravel_design(Z)[0])), X.dtype)

    def diagonal(self, X):
        """All the variance."""
        X = ravel_design(X)[0]
        return jnp.full(len(X), as_scalar("noise", self.noise, X.dtype))
