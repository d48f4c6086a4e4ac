"""What a kernel is: a function of two points with its hyperparameters as leaves; sums, products and multiples."""

import operator
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax import Array, lax

from regjax.core.node import register_node
from regjax.core.tree import broadcast_strengths, ravel_design


class Kernel:
    """k(x, z) for one pair of points. Write `__call__`; the rest follows, and may be written where that is faster.

    A kernel is a frozen dataclass registered as a pytree: its hyperparameters are leaves. A point is a vector, a
    scalar or a pytree of arrays; n points are the same with n in front. `k1 + k2`, `k1 * k2` and `a * k` are kernels.

    Attributes:
        positive_definite: whether every Gram matrix is known to be positive semidefinite; where it is not, fits look.
        domains: of the fields: "positive" (the default), "non-negative" or "real".

    Example:
        >>> import jax.numpy as jnp
        >>> from dataclasses import dataclass
        >>> from regjax.kernels import Kernel, gram, register_node
        >>> @register_node
        ... @dataclass(frozen=True, eq=False)
        ... class Brownian(Kernel):
        ...     variance: float
        ...     def __call__(self, x, z):
        ...         return self.variance * jnp.minimum(x, z)
        >>> print(gram(Brownian(2.0), jnp.array([1.0, 2.0])))
        [[2. 2.]
         [2. 4.]]
    """

    positive_definite = False
    domains: ClassVar[dict[str, str]] = {}

    def __call__(self, x: Any, z: Any) -> Array:
        """k(x, z), a scalar."""
        raise NotImplementedError(f"{type(self).__name__} must define __call__(x, z)")

    def matrix(self, X: Any, Z: Any = None) -> Array:
        """k(xᵢ, zⱼ) (n, m); without Z, the Gram matrix of X with itself (n, n)."""
        values = jax.vmap(lambda x: jax.vmap(lambda z: self(x, z))(X if Z is None else Z))(X)
        if values.ndim != 2:
            raise ValueError(f"a kernel of two points is a scalar, got one of shape {values.shape[2:]}")
        return values

    def diagonal(self, X: Any) -> Array:
        """k(xᵢ, xᵢ) (n,), the diagonal of `matrix(X)`."""
        return jax.vmap(lambda x: self(x, x))(X)

    def log_matrix(self, X: Any, Z: Any) -> Array:
        """log k(xᵢ, zⱼ) (n, m), nan where k is negative. Kernels that decay know it where k itself underflows."""
        K = self.matrix(X, Z)
        return jnp.where(K == 0, -jnp.inf, jnp.log(jnp.where(K == 0, 1, K)))

    def domain(self) -> Any:
        """A tree like the kernel with the domain of each hyperparameter in its place."""
        changed = {}
        for field in fields(self):  # pyright: ignore[reportArgumentType]
            value = getattr(self, field.name)
            if field.metadata.get("static"):
                continue
            if isinstance(value, Kernel):
                changed[field.name] = value.domain()
            else:
                kind = self.domains.get(field.name, "positive")
                changed[field.name] = jax.tree.map(lambda _, kind=kind: kind, value)
        return replace(self, **changed)  # pyright: ignore[reportArgumentType]

    def __add__(self, other: Any) -> "Kernel":
        if not isinstance(other, Kernel):
            raise TypeError(f"a kernel adds to a kernel, got {type(other).__name__}: write k + Constant(c) for k + c")
        return Sum(self, other)

    def __mul__(self, other: Any) -> "Kernel":
        return Product(self, other) if isinstance(other, Kernel) else Scaled(other, self)

    def __rmul__(self, other: Any) -> "Kernel":
        return self * other


@dataclass(frozen=True, eq=False)
class _Pair(Kernel):
    """Two kernels, combined value by value."""

    combine: ClassVar[Callable[[Array, Array], Array]]
    first: Kernel
    second: Kernel

    @property
    def positive_definite(self):
        """Where both are."""
        return self.first.positive_definite and self.second.positive_definite

    def __call__(self, x, z):
        """k₁(x, z) and k₂(x, z), combined."""
        return type(self).combine(self.first(x, z), self.second(x, z))

    def matrix(self, X, Z=None):
        """(n, m)."""
        return type(self).combine(self.first.matrix(X, Z), self.second.matrix(X, Z))

    def diagonal(self, X):
        """(n,)."""
        return type(self).combine(self.first.diagonal(X), self.second.diagonal(X))


@register_node
@dataclass(frozen=True, eq=False)
class Sum(_Pair):
    """k₁ + k₂, written `k1 + k2`."""

    combine = staticmethod(operator.add)

    def log_matrix(self, X, Z):
        """(n, m)."""
        return jnp.logaddexp(self.first.log_matrix(X, Z), self.second.log_matrix(X, Z))


@register_node
@dataclass(frozen=True, eq=False)
class Product(_Pair):
    """k₁k₂, written `k1 * k2`."""

    combine = staticmethod(operator.mul)

    def log_matrix(self, X, Z):
        """(n, m)."""
        return self.first.log_matrix(X, Z) + self.second.log_matrix(X, Z)


@register_node
@dataclass(frozen=True, eq=False)
class Scaled(Kernel):
    """a·k, written `a * k`.

    Attributes:
        factor: a ≥ 0; the variance of the functions, where k(x, x) = 1.
        kernel: k.
    """

    domains: ClassVar[dict[str, str]] = {"factor": "non-negative"}
    factor: Any
    kernel: Kernel

    @property
    def positive_definite(self):
        """Where k is."""
        return self.kernel.positive_definite

    def _scale(self, values):
        return as_scalar("factor", self.factor, values.dtype) * values

    def __call__(self, x, z):
        """a k(x, z)."""
        return self._scale(self.kernel(x, z))

    def matrix(self, X, Z=None):
        """(n, m)."""
        return self._scale(self.kernel.matrix(X, Z))

    def log_matrix(self, X, Z):
        """(n, m)."""
        logs = self.kernel.log_matrix(X, Z)
        return jnp.log(as_scalar("factor", self.factor, logs.dtype)) + logs

    def diagonal(self, X):
        """(n,)."""
        return self._scale(self.kernel.diagonal(X))


def as_scalar(name: str, value: Any, dtype: Any) -> Array:
    """A hyperparameter of which there is one; more would broadcast against the samples."""
    array = jnp.asarray(value, dtype)
    if array.ndim:
        raise ValueError(f"{name} of a kernel has shape {array.shape}: it takes a scalar (use jax.vmap for several)")
    return array


def flat(x: Any) -> Array:
    """A point as a vector (p,)."""
    return ravel_design(as_points(x))[0][0]


def as_points(x: Any) -> Any:
    """A point as one of n = 1 points."""
    return jax.tree.map(lambda a: jnp.asarray(a)[None], x)


def scaled(name: str, X: Any, scale: Any) -> Array:
    """X/s (n, p) for one scale, one per input, or a prefix pytree of X."""
    matrix, structure = ravel_design(X)
    return matrix / broadcast_strengths(name, scale, structure).astype(matrix.dtype)


def scaled_pair(name: str, X: Any, Z: Any, scale: Any) -> tuple[Array, Array]:
    """(X − c)/s (n, p) and (Z − c)/s (m, p), c the centre of Z; Z is X if None.

    Centred first, points far from the origin keep the digits of their differences, and so does the derivative in s.
    """
    X, structure = ravel_design(X)
    strengths = broadcast_strengths(name, scale, structure).astype(X.dtype)
    X, Z = centred(X, X if Z is None else ravel_design(Z)[0])
    return X / strengths, Z / strengths


def centred(X: Array, Z: Array) -> tuple[Array, Array]:
    """Both minus the median of some of Z, on which nothing depends that is a function of differences.

    A mean would follow a single far point, and round away the differences of all others.
    """
    some = Z[:: max(1, len(Z) // 100)]  # blocks of queries each come with all points: no sort of those
    centre = lax.stop_gradient(jnp.sort(some, axis=0)[len(some) // 2])
    return X - centre, Z - centre
