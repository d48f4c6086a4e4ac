"""Kernels of transformed points: `warp` multiplies, `on` maps the inputs, a function of two points becomes a kernel."""

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax import Array

from regjax.core.node import register_node
from regjax.kernels.kernel import Kernel


@register_node
@dataclass(frozen=True, eq=False)
class Warped(Kernel):
    """f(x) k(x, z) f(z); see `warp`."""

    domains: ClassVar[dict[str, str]] = {"function": "real"}
    kernel: Kernel
    function: Any

    @property
    def positive_definite(self):
        """Where k is."""
        return self.kernel.positive_definite

    def __call__(self, x, z):
        """f(x) k(x, z) f(z)."""
        return self.function(x) * self.kernel(x, z) * self.function(z)

    def matrix(self, X, Z=None):
        """(n, m)."""
        rows = jax.vmap(self.function)(X)
        if rows.ndim != 1:
            raise ValueError(f"the function of warp is a scalar at every point, got one of shape {rows.shape[1:]}")
        columns = rows if Z is None else jax.vmap(self.function)(Z)
        return rows[:, None] * self.kernel.matrix(X, Z) * columns

    def log_matrix(self, X, Z):
        """(n, m)."""
        rows, columns = jax.vmap(self.function)(X), jax.vmap(self.function)(Z)
        logs = _log_size(rows)[:, None] + self.kernel.log_matrix(X, Z) + _log_size(columns)
        alike = (rows < 0)[:, None] == (columns < 0)
        return jnp.where(alike & ~jnp.isnan(logs), logs, super().log_matrix(X, Z))  # k may be negative with f(x) f(z)

    def diagonal(self, X):
        """(n,)."""
        return jax.vmap(self.function)(X) ** 2 * self.kernel.diagonal(X)


def _log_size(values: Array) -> Array:
    return jnp.where(values == 0, -jnp.inf, jnp.log(jnp.where(values == 0, 1, jnp.abs(values))))


@register_node
@dataclass(frozen=True, eq=False)
class On(Kernel):
    """k(f(x), f(z)); see `on`."""

    domains: ClassVar[dict[str, str]] = {"function": "real"}
    kernel: Kernel
    function: Any

    @property
    def positive_definite(self):
        """Where k is."""
        return self.kernel.positive_definite

    def __call__(self, x, z):
        """k(f(x), f(z))."""
        return self.kernel(self.function(x), self.function(z))

    def matrix(self, X, Z=None):
        """(n, m)."""
        return self.kernel.matrix(jax.vmap(self.function)(X), None if Z is None else jax.vmap(self.function)(Z))

    def log_matrix(self, X, Z):
        """(n, m)."""
        return self.kernel.log_matrix(jax.vmap(self.function)(X), jax.vmap(self.function)(Z))

    def diagonal(self, X):
        """(n,)."""
        return self.kernel.diagonal(jax.vmap(self.function)(X))


@register_node
@dataclass(frozen=True, eq=False)
class Pairwise(Kernel):
    """A function of two points as a kernel, of which nothing is known."""

    domains: ClassVar[dict[str, str]] = {"function": "real"}
    function: Any

    def __call__(self, x, z):
        """f(x, z)."""
        return self.function(x, z)


def as_kernel(kernel: Any) -> Kernel:
    """A kernel, or a function `k(x, z)` of two points made into one."""
    if isinstance(kernel, Kernel):
        return kernel
    if callable(kernel):
        return Pairwise(as_callable_tree(kernel))
    raise ValueError(f"kernel must be one of regjax.kernels or a function of two points, got {type(kernel).__name__}")


def warp(kernel: Kernel, function: Callable[[Any], Any]) -> Warped:
    """The kernel f(x) k(x, z) f(z): functions multiplied by f.

    Args:
        kernel: k.
        function: f, a scalar function of one point; a callable pytree may hold parameters.

    Example:
        >>> import jax.numpy as jnp
        >>> from regjax.kernels import RBF, warp
        >>> print(warp(RBF(1.0), lambda x: 2 * x[0])(jnp.array([1.0]), jnp.array([1.0])))
        4.0
    """
    return Warped(as_kernel(kernel), as_callable_tree(function))


def on(kernel: Kernel, function: Callable[[Any], Any] | int | str | Sequence[Any]) -> On:
    """The kernel k(f(x), f(z)): functions of f(x).

    Args:
        kernel: k.
        function: f, a function of one point; or what to select: a column (int), columns (a sequence of int), a leaf of
            points that are dictionaries (str), or leaves (a sequence of str).

    Example:
        >>> import jax.numpy as jnp
        >>> from regjax.kernels import Linear, RBF, gram, on
        >>> X = {"age": jnp.array([1.0, 3.0]), "genes": jnp.ones((2, 4))}
        >>> print(gram(on(Linear(), "age"), X), gram(on(RBF(1.0), (0, 2)), X["genes"])[0, 1])
        [[1. 3.]
         [3. 9.]] 1.0
    """
    if not callable(function):
        function = Select(function)
    return On(as_kernel(kernel), as_callable_tree(function))


@register_node
@dataclass(frozen=True, eq=False)
class Select:
    """What `on` selects of a point, as a function of the point without parameters."""

    key: Any = field(metadata={"static": True})

    def __post_init__(self):
        one = isinstance(self.key, (Integral, str))
        try:
            keys = tuple(k if isinstance(k, str) else operator.index(k) for k in ((self.key,) if one else self.key))
        except TypeError as error:
            raise ValueError(f"on takes a function, a column, a leaf or several of these, got {self.key!r}") from error
        object.__setattr__(self, "key", keys[0] if one else keys)

    def __call__(self, x: Any) -> Any:
        """A column, columns, a leaf or leaves of x."""
        several = isinstance(self.key, tuple)
        keys = self.key if several else (self.key,)
        if any(isinstance(k, str) for k in keys):
            if not isinstance(x, Mapping) or not set(keys) <= set(x):
                has = sorted(x) if isinstance(x, Mapping) else f"shape {jnp.shape(x)}"
                raise ValueError(f"on selects {self.key!r}, but the points have {has}")
            return {k: x[k] for k in keys} if several else x[self.key]
        # an index that is out of range would be clamped in silence
        size = len(x) if isinstance(x, (tuple, list)) else (*jnp.shape(x), 0)[0]
        if not all(-size <= k < size for k in keys):
            takes = f"it takes 0 to {size - 1}" if size else "there is nothing to select"
            raise ValueError(f"on selects {self.key!r}, but the points have {size} columns: {takes}")
        return x[jnp.array(keys)] if several else x[self.key]


def as_callable_tree(function: Any) -> Any:
    """A callable that is a pytree: its parameters are leaves, a plain function has none."""
    opaque = jax.tree_util.all_leaves([function])
    return jax.tree_util.Partial(function) if opaque else function
