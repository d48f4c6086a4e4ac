"""Kernels of the inner product xᵀz, and the two of no point at all: a constant and white noise."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax import Array

from regjax.core.tree import ravel_design, register
from regjax.kernels.kernel import Kernel, flat


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


@register
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


@register
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
        if not isinstance(self.degree, int) or self.degree < 0:
            raise ValueError(f"degree must be a whole number that is not negative, got {self.degree!r}")
        return (products + jnp.asarray(self.bias, products.dtype)) ** self.degree


@register
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
        alpha, theta = (jnp.asarray(a, products.dtype) for a in (self.alpha, self.theta))
        return jnp.tanh(alpha * products + theta)


@register
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
        return jnp.asarray(self.value, jnp.result_type(*map(jnp.result_type, jax.tree.leaves((x, z))), float))

    def matrix(self, X, Z=None):
        """(n, m)."""
        X = ravel_design(X)[0]
        return jnp.full((len(X), len(X if Z is None else ravel_design(Z)[0])), self.value, X.dtype)

    def diagonal(self, X):
        """All c."""
        X = ravel_design(X)[0]
        return jnp.full(len(X), self.value, X.dtype)


@register
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
            return jnp.asarray(self.noise, X.dtype) * jnp.eye(len(X), dtype=X.dtype)
        return jnp.zeros((len(X), len(ravel_design(Z)[0])), X.dtype)

    def diagonal(self, X):
        """All the variance."""
        X = ravel_design(X)[0]
        return jnp.full(len(X), self.noise, X.dtype)
