"""The functions of a kernel at a few landmarks as a basis: every linear model becomes a kernel model that scales."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from regjax.core.factors import jittered_cholesky
from regjax.core.node import register_node
from regjax.kernels.gram import check_kernel, check_points, precision_of
from regjax.kernels.kernel import Kernel
from regjax.kernels.pivots import random_pivots


@register_node
@dataclass(frozen=True, eq=False)
class Nystrom:
    r"""φ(x) = L⁻¹(k(x, lⱼ))ⱼ with LLᵀ the Gram matrix of the landmarks, so that φ(x)ᵀφ(z) ≈ k(x, z).

    Exact where x or z is a landmark. `ridge` on the design is kernel ridge over the functions of the landmarks, and the
    penalty is the identity: ‖w‖² = ‖f‖².

    Attributes:
        kernel: k.
        landmarks: m points; see `landmarks` for a choice.

    Example:
        >>> import jax, jax.numpy as jnp, regjax
        >>> x = jnp.linspace(0, 6, 200)
        >>> basis = regjax.bases.Nystrom(regjax.kernels.RBF(1.0), jnp.linspace(0, 6, 12))
        >>> fit = regjax.ridge(basis.design(x), jnp.sin(x), 1e-2)
        >>> print(bool(jnp.abs(fit.params(basis.design(x)) - jnp.sin(x)).max() < 0.05))
        True

    References:
        Williams & Seeger, Using the Nyström method to speed up kernel machines, NIPS 2000.
    """

    kernel: Kernel
    landmarks: Any

    def design(self, x: Any) -> Array:
        """(n, m) for n points and m landmarks."""
        points, x = check_points(self.landmarks, x)
        kernel = check_kernel(self.kernel, precision_of(points))
        values = kernel.matrix(x, points)
        return lax.linalg.triangular_solve(
            landmark_root(kernel, points), values, left_side=False, lower=True, transpose_a=True
        )

    def penalty(self) -> Array:
        """I (m, m)."""
        return jnp.eye(len(jax.tree.leaves(self.landmarks)[0]))


def landmark_root(kernel: Kernel, points: Any) -> Array:
    """The Cholesky factor (m, m) of the Gram matrix of landmarks, with the smallest jitter that makes it exist."""
    return jittered_cholesky(kernel.matrix(points, points))[0]


def landmarks(
    kernel: Any, X: Any, num: int, key: Array, *, sample: int | None = None, weights: Array | None = None
) -> Any:
    """Choose landmarks among the points X by randomly pivoted Cholesky: few where X is dense, many where k is rough.

    Args:
        kernel: of `regjax.kernels`, or a function of two points.
        X: n points.
        num: how many landmarks, at most n.
        key: of the random choice.
        sample: how many points, drawn evenly, to choose among; the smaller of n and 10·num if None. The memory is
            sample × num numbers.
        weights: (n,); points of weight zero are chosen where there are no others left.

    Returns:
        `num` points, a pytree like X.

    Example:
        >>> import jax, jax.numpy as jnp, regjax
        >>> X = jax.random.normal(jax.random.key(0), (500, 2))
        >>> print(regjax.bases.landmarks(regjax.kernels.RBF(1.0), X, 20, jax.random.key(1)).shape)
        (20, 2)

    References:
        Chen, Epperly, Tropp & Webber, Randomly pivoted Cholesky, Comm. Pure Appl. Math. 78 (2025).
    """
    X, _ = check_points(X)
    kernel = check_kernel(kernel, precision_of(X))
    n = len(jax.tree.leaves(X)[0])
    if not 1 <= num <= n:
        raise ValueError(f"num must be from 1 to the {n} points of X, got {num}")
    sample = min(n, 10 * num) if sample is None else sample
    if not num <= sample <= n:
        raise ValueError(f"sample must be from num = {num} to the {n} points of X, got {sample}")
    first, second = jax.random.split(key)
    if sample < n:
        odds = None if weights is None else (weights > 0) / jnp.sum(weights > 0)
        rows = jax.random.choice(first, n, (sample,), replace=False, p=odds)
        X, weights = jax.tree.map(lambda a: a[rows], (X, weights))
    chosen = random_pivots(kernel, X, num, second, weights).indices
    return jax.tree.map(lambda a: a[chosen], X)
