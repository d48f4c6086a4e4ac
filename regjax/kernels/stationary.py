"""Kernels of the difference x − z."""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax import Array, lax

from regjax.core.node import register_node
from regjax.core.tree import broadcast_strengths, ravel_design
from regjax.kernels.distances import absolute_distances, squared_distances
from regjax.kernels.kernel import Kernel, as_points, as_scalar, centred, scaled, scaled_pair


def _scaled_distances(X: Any, Z: Any, scale: Any, exact: bool) -> Array:
    """‖(x − z)/s‖² (n, m), whose derivatives in s come from the distances rather than from the points."""
    held = lax.stop_gradient(scale)
    ratios = jax.tree.map(lambda held, s: (held / s) ** 2, held, scale)
    leaves = jax.tree.leaves(ratios)
    one = len(leaves) == 1 and jnp.ndim(leaves[0]) == 0
    ratios = leaves[0] if one else broadcast_strengths("scale", ratios, ravel_design(X)[1])
    X, Z = scaled_pair("scale", X, Z, held)
    return squared_distances(X, Z, jnp.asarray(ratios, X.dtype), exact)


class _Radial(Kernel):
    """profile(‖(x − z)/s‖²)."""

    positive_definite = True
    cusp: ClassVar[bool] = False  # whether the profile's slope at 0 is infinite
    scale: Any

    def profile(self, distances: Array) -> Array:
        """The kernel as a function of the squared distance of the scaled points."""
        return jnp.exp(self.log_profile(distances))

    def log_profile(self, distances: Array) -> Array:
        """The logarithm of `profile`, also where that underflows."""
        raise NotImplementedError

    def __call__(self, x, z):
        """k(x, z)."""
        return self.profile(_scaled_distances(as_points(x), as_points(z), self.scale, True)[0, 0])

    def matrix(self, X, Z=None):
        """(n, m)."""
        return self.profile(_scaled_distances(X, Z, self.scale, self.cusp))

    def log_matrix(self, X, Z):
        """(n, m)."""
        return self.log_profile(_scaled_distances(X, Z, self.scale, self.cusp))

    def diagonal(self, X):
        """All one."""
        X = scaled("scale", X, self.scale)
        return self.profile(jnp.zeros(len(X), X.dtype))


@register_node
@dataclass(frozen=True, eq=False)
class RBF(_Radial):
    r"""exp(−‖x − z‖²/2s²), infinitely smooth.

    Attributes:
        scale: s > 0, or one per input.

    Example:
        >>> import jax.numpy as jnp
        >>> print(round(float(RBF(1.0)(jnp.array([0.0, 0.0]), jnp.array([1.0, 1.0]))), 4))
        0.3679
    """

    scale: Any = 1.0

    def log_profile(self, distances):
        """−d²/2."""
        return -distances / 2


@register_node
@dataclass(frozen=True, eq=False)
class Exponential(_Radial):
    r"""exp(−‖x − z‖₂/s), the Matérn kernel of order ½: continuous and nowhere smooth.

    Attributes:
        scale: s > 0, or one per input.

    Example:
        >>> import jax.numpy as jnp
        >>> print(Exponential(1.0)(jnp.array([0.0, 0.0]), jnp.array([3.0, 4.0])).round(4))
        0.0067
    """

    cusp: ClassVar[bool] = True
    scale: Any = 1.0

    def log_profile(self, distances):
        """−d."""
        return -_distance(distances, 1.0)


@register_node
@dataclass(frozen=True, eq=False)
class Matern32(_Radial):
    r"""(1 + √3 r) exp(−√3 r), r = ‖x − z‖/s: functions that are differentiable once.

    Attributes:
        scale: s > 0, or one per input.

    References:
        Rasmussen & Williams, Gaussian Processes for Machine Learning, MIT Press 2006, section 4.2.
    """

    scale: Any = 1.0

    def profile(self, distances):
        """(1 + √3 d) exp(−√3 d)."""
        return _once_smooth(distances, 3**0.5)

    def log_profile(self, distances):
        """log(1 + √3 d) − √3 d."""
        return _log_once_smooth(distances, 3**0.5)


@register_node
@dataclass(frozen=True, eq=False)
class Matern52(_Radial):
    r"""(1 + √5 r + 5r²/3) exp(−√5 r), r = ‖x − z‖/s: functions that are differentiable twice.

    Attributes:
        scale: s > 0, or one per input.

    References:
        Rasmussen & Williams, Gaussian Processes for Machine Learning, MIT Press 2006, section 4.2.
    """

    scale: Any = 1.0

    def profile(self, distances):
        """(1 + √5 d + 5d²/3) exp(−√5 d)."""
        return _twice_smooth(distances, 5**0.5)

    def log_profile(self, distances):
        """log(1 + √5 d + 5d²/3) − √5 d."""
        return _log_twice_smooth(distances, 5**0.5)


@register_node
@dataclass(frozen=True, eq=False)
class RationalQuadratic(_Radial):
    r"""(1 + ‖x − z‖²/2αs²)^(−α), a mixture of RBF kernels of many scales; α → ∞ is `RBF`.

    Attributes:
        scale: s > 0, or one per input.
        alpha: α > 0.
    """

    scale: Any = 1.0
    alpha: Any = 1.0

    def log_profile(self, distances):
        """−α log(1 + d²/2α)."""
        alpha = as_scalar("alpha", self.alpha, distances.dtype)
        return -alpha * jnp.log1p(distances / (2 * alpha))


# The derivatives in d² of the next functions are finite at d = 0, where those of the square root are not: they are
# written out.


def _distance(squares: Array, c: float) -> Array:
    """c√u, with derivative 0 at its cusp."""
    apart = squares > 0
    return c * jnp.where(apart, jnp.sqrt(jnp.where(apart, squares, 1)), lax.stop_gradient(squares))


def _decay(squares: Array, c: float) -> Array:
    return jnp.exp(-_distance(squares, c))


@jax.custom_jvp
def _once_smooth(squares: Array, c: float) -> Array:
    """(1 + t) exp(−t), t = c√u: its derivative in u is −(c²/2) exp(−t)."""
    t = _distance(squares, c)
    return (1 + t) * jnp.exp(-t)


@_once_smooth.defjvp
def _once_smooth_jvp(primals, tangents):
    squares, c = primals
    return _once_smooth(squares, c), -(c**2) / 2 * _decay(squares, c) * tangents[0]


@jax.custom_jvp
def _twice_smooth(squares: Array, c: float) -> Array:
    """(1 + t + t²/3) exp(−t), t = c√u: its derivative in u is −(c²/6)(1 + t) exp(−t)."""
    t = _distance(squares, c)
    return (1 + t + t**2 / 3) * jnp.exp(-t)


@_twice_smooth.defjvp
def _twice_smooth_jvp(primals, tangents):
    squares, c = primals
    return _twice_smooth(squares, c), -(c**2) / 6 * _once_smooth(squares, c) * tangents[0]


@jax.custom_jvp
def _log_once_smooth(squares: Array, c: float) -> Array:
    """log(1 + t) − t, t = c√u: its derivative in u is −(c²/2)/(1 + t)."""
    t = _distance(squares, c)
    return jnp.log1p(t) - t


@_log_once_smooth.defjvp
def _log_once_smooth_jvp(primals, tangents):
    squares, c = primals
    return _log_once_smooth(squares, c), -(c**2) / 2 / (1 + _distance(squares, c)) * tangents[0]


@jax.custom_jvp
def _log_twice_smooth(squares: Array, c: float) -> Array:
    """log(1 + t + t²/3) − t, t = c√u: its derivative in u is −(c²/6)(1 + t)/(1 + t + t²/3)."""
    t = _distance(squares, c)
    return jnp.log1p(t + t**2 / 3) - t


@_log_twice_smooth.defjvp
def _log_twice_smooth_jvp(primals, tangents):
    squares, c = primals
    t = _distance(squares, c)
    return _log_twice_smooth(squares, c), -(c**2) / 6 * (1 + t) / (1 + t + t**2 / 3) * tangents[0]


@register_node
@dataclass(frozen=True, eq=False)
class Laplace(Kernel):
    r"""exp(−‖x − z‖₁/s), with a scale per input exp(−Σⱼ|xⱼ − zⱼ|/sⱼ): a product of `Exponential`s.

    Attributes:
        scale: s > 0, or one per input.

    Example:
        >>> import jax.numpy as jnp
        >>> print(Laplace(2.0)(jnp.array([0.0, 0.0]), jnp.array([1.0, -3.0])).round(4))
        0.1353
    """

    positive_definite = True
    scale: Any = 1.0

    def __call__(self, x, z):
        """k(x, z)."""
        return self.matrix(as_points(x), as_points(z))[0, 0]

    def matrix(self, X, Z=None):
        """(n, m)."""
        return jnp.exp(self.log_matrix(X, Z))

    def log_matrix(self, X, Z):
        """(n, m)."""
        return -absolute_distances(*scaled_pair("scale", X, Z, self.scale))

    def diagonal(self, X):
        """All one."""
        X = scaled("scale", X, self.scale)
        return jnp.ones(len(X), X.dtype)


@register_node
@dataclass(frozen=True, eq=False)
class Periodic(Kernel):
    r"""exp(−2 Σⱼ sin²(π(xⱼ − zⱼ)/Tⱼ)/sⱼ²): functions of period T in each input.

    It is the RBF kernel of the points (cos 2πx/T, sin 2πx/T), coordinate by coordinate, which makes it positive
    definite in any dimension.

    Attributes:
        scale: s > 0, or one per input.
        period: T > 0, or one per input.

    References:
        MacKay, Introduction to Gaussian processes, in Neural Networks and Machine Learning, Springer 1998.
    """

    positive_definite = True
    scale: Any = 1.0
    period: Any = 1.0

    def __call__(self, x, z):
        """k(x, z)."""
        start, end = scaled_pair("period", as_points(x), as_points(z), self.period)
        radius = scaled("scale", jax.tree.map(jnp.ones_like, as_points(x)), self.scale)
        return jnp.exp(-2 * jnp.sum((radius * jnp.sin(jnp.pi * (start - end))) ** 2))

    def _circle(self, X):
        turns = scaled("period", X, self.period)
        angle = 2 * jnp.pi * (turns - jnp.floor(turns))
        radius = scaled("scale", jax.tree.map(lambda a: jnp.ones_like(jnp.asarray(a, angle.dtype)), X), self.scale)
        return jnp.concatenate([radius * jnp.cos(angle), radius * jnp.sin(angle)], axis=1)

    def matrix(self, X, Z=None):
        """(n, m)."""
        return jnp.exp(self.log_matrix(X, Z))

    def log_matrix(self, X, Z):
        """(n, m)."""
        Z = X if Z is None else Z
        # about a point among them: the turns of large x have no digits left for the angle
        X, Z = (jax.tree.map(lambda x, z, k=k: centred(jnp.asarray(x), jnp.asarray(z))[k], X, Z) for k in (0, 1))
        return -squared_distances(*centred(self._circle(X), self._circle(Z)), jnp.ones(())) / 2

    def diagonal(self, X):
        """All one."""
        X = scaled("scale", X, self.scale)
        return jnp.ones(len(X), X.dtype)
