"""Random Fourier features: a stationary kernel as an inner product of cosines of random frequencies."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from regjax.core.node import register_node
from regjax.core.tree import broadcast_strengths, ravel_design
from regjax.kernels import RBF, Exponential, Laplace, Matern32, Matern52, On, Product, RationalQuadratic, Scaled, Sum
from regjax.kernels.gram import check_kernel, check_points, precision_of
from regjax.kernels.kernel import Kernel, as_scalar


@register_node
@dataclass(frozen=True, eq=False)
class RandomFeatures:
    r"""φ(x) = √(2/num) (cos ωᵀx, sin ωᵀx) with ω from the spectral density of k, so that E φ(x)ᵀφ(z) = k(x, z).

    Of `RBF` (normal frequencies), `Matern32`, `Matern52`, `Exponential` (Student's t of 3, 5 and 1 degrees of freedom),
    `Laplace` (Cauchy in each input), `RationalQuadratic` (normal with a gamma variance) and products of these; of
    multiples and sums (which share the features evenly), and `on`. The error is of order 1/√num. The penalty is the
    identity. The frequencies are a function of the key and the scales, which may be differentiated.

    Attributes:
        kernel: k.
        num: the number of features, even.
        key: of the random frequencies.

    Example:
        >>> import jax, jax.numpy as jnp, regjax
        >>> x = jnp.array([0.0, 1.0])
        >>> phi = regjax.bases.RandomFeatures(regjax.kernels.RBF(1.0), 4000, jax.random.key(0)).design(x)
        >>> print(bool(jnp.abs(phi @ phi.T - regjax.kernels.gram(regjax.kernels.RBF(1.0), x)).max() < 0.05))
        True

    References:
        Rahimi & Recht, Random features for large-scale kernel machines, NIPS 2007.
    """

    kernel: Kernel
    num: int = field(metadata={"static": True})
    key: Array

    def design(self, x: Any) -> Array:
        """(n, num) for n points."""
        if self.num < 2 or self.num % 2:
            raise ValueError(f"num must be even and positive, got {self.num}")
        points, _ = check_points(x)
        return _features(check_kernel(self.kernel, precision_of(points)), points, self.num, self.key)

    def penalty(self) -> Array:
        """I (num, num)."""
        return jnp.eye(self.num)


def _features(kernel: Kernel, X: Any, num: int, key: Array) -> Array:
    if isinstance(kernel, Sum):
        half = num // 4 * 2
        if half == 0:
            raise ValueError(f"num must be at least 2 for each kernel of a sum, got {num} for {type(kernel).__name__}")
        first, second = jax.random.split(key)
        parts = (_features(kernel.first, X, half, first), _features(kernel.second, X, num - half, second))
        return jnp.concatenate(parts, axis=1)
    if isinstance(kernel, Scaled):
        features = _features(kernel.kernel, X, num, key)
        return jnp.sqrt(as_scalar("factor", kernel.factor, features.dtype)) * features
    if isinstance(kernel, On):
        return _features(kernel.kernel, jax.vmap(kernel.function)(X), num, key)
    if isinstance(kernel, Product):
        factor, kernel = _without_multiples(kernel)
        if factor is not None:
            return _features(Scaled(factor, kernel), X, num, key)
    phase = ravel_design(X)[0] @ _frequencies(kernel, X, num // 2, key)
    return jnp.concatenate([jnp.cos(phase), jnp.sin(phase)], axis=1) / (num // 2) ** 0.5


def _without_multiples(kernel: Kernel) -> tuple[Any, Kernel]:
    """The amplitude of a product of multiples, None if it has none, and the product of what is multiplied."""
    if isinstance(kernel, Scaled):
        factor, inner = _without_multiples(kernel.kernel)
        return kernel.factor if factor is None else kernel.factor * factor, inner
    if not isinstance(kernel, Product):
        return None, kernel
    (first, left), (second, right) = _without_multiples(kernel.first), _without_multiples(kernel.second)
    factors = [factor for factor in (first, second) if factor is not None]
    return math.prod(factors) if factors else None, Product(left, right)


def _frequencies(kernel: Kernel, X: Any, count: int, key: Array) -> Array:
    """(p, count) from the spectral density; that of a product is the distribution of a sum."""
    if isinstance(kernel, Product):
        first, second = jax.random.split(key)
        return _frequencies(kernel.first, X, count, first) + _frequencies(kernel.second, X, count, second)
    if type(kernel) not in _STANDARD:
        known = ", ".join(sorted(kind.__name__ for kind in _STANDARD))
        raise ValueError(
            f"kernel has a part {type(kernel).__name__} with no random features here: they are known of {known}, and of"
            " multiples, sums, products and `on` of these; Nystrom takes any kernel"
        )
    matrix, structure = ravel_design(X)
    scale = broadcast_strengths("scale", kernel.scale, structure).astype(matrix.dtype)  # pyright: ignore
    return _STANDARD[type(kernel)](kernel, key, (matrix.shape[1], count), matrix.dtype) / scale[:, None]


def _normal(kernel: Any, key: Array, shape: tuple[int, int], dtype: Any) -> Array:
    del kernel
    return jax.random.normal(key, shape, dtype)


def _student(freedom: float) -> Callable[..., Array]:
    def sample(kernel, key, shape, dtype):
        first, second = jax.random.split(key)
        # the square of a chi variable over its degrees of freedom, one for all inputs
        spread = jax.random.gamma(first, freedom / 2, (shape[1],), dtype) / (freedom / 2)
        return _normal(kernel, second, shape, dtype) / jnp.sqrt(spread)

    return sample


def _mixture(kernel: Any, key: Array, shape: tuple[int, int], dtype: Any) -> Array:
    """(1 + u/2α)^(−α) is the mean of exp(−τu/2) for τ of a gamma distribution with shape and rate α."""
    first, second = jax.random.split(key)
    alpha = as_scalar("alpha", kernel.alpha, dtype)
    return jnp.sqrt(jax.random.gamma(first, alpha, (shape[1],), dtype) / alpha) * _normal(kernel, second, shape, dtype)


_STANDARD: dict[type, Callable[..., Array]] = {
    RBF: _normal,
    Exponential: _student(1.0),
    Matern32: _student(3.0),
    Matern52: _student(5.0),
    Laplace: lambda kernel, key, shape, dtype: jax.random.cauchy(key, shape, dtype),
    RationalQuadratic: _mixture,
}
