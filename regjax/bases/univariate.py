"""Bases of functions of one variable, and polynomials in several: x ↦ φ(x), each with the matrix Ω of its penalty."""

from dataclasses import dataclass, field
from itertools import combinations_with_replacement
from typing import Any, Protocol

import jax
import jax.numpy as jnp
from jax import Array

from regjax.core.checks import as_float_array, check_finite, require
from regjax.core.node import register_node


class Basis(Protocol):
    """What a basis is: a pytree with a design matrix and a penalty."""

    def design(self, x: Any) -> Array:
        """φ(x) (n, p) for the points x (n,)."""
        ...

    def penalty(self) -> Array:
        """Ω (p, p), so that wᵀΩw is the roughness of Σ wⱼφⱼ."""
        ...


def _points(x: Any) -> Array:
    points = as_float_array("x", x)
    if points.ndim != 1:
        raise ValueError(f"x has shape {points.shape}: it takes (n,)")
    return points


def _knots(knots: Any, least: int) -> Array:
    array = as_float_array("knots", knots)
    if array.ndim != 1 or len(array) < least:
        raise ValueError(f"knots has shape {array.shape}: it takes at least {least} numbers, (m,)")
    check_finite("knots", array)
    require(lambda k: jnp.all(jnp.diff(k) > 0), array, message="knots must be strictly increasing")
    return array


@register_node
@dataclass(frozen=True, eq=False)
class Polynomial:
    r"""The monomials x, x², …, x^degree; for points (n, d) all monomials of total degree 1 to `degree`.

    The penalty is the identity. Monomials are ill-conditioned: scale x to [−1, 1] where you can.

    Example:
        >>> import jax.numpy as jnp
        >>> print(Polynomial(3).design(jnp.array([2.0])))
        [[2. 4. 8.]]
    """

    degree: int = field(metadata={"static": True})
    num_inputs: int = field(default=1, metadata={"static": True})

    def _exponents(self) -> list[tuple[int, ...]]:
        return [c for k in range(1, self.degree + 1) for c in combinations_with_replacement(range(self.num_inputs), k)]

    def design(self, x: Any) -> Array:
        """(n, p) for x (n,), or (n, d) with d = `num_inputs`."""
        points = as_float_array("x", x)
        points = points[:, None] if points.ndim == 1 else points
        if self.degree < 1:
            raise ValueError(f"degree must be at least 1, got {self.degree}")
        if points.ndim != 2 or points.shape[1] != self.num_inputs:
            raise ValueError(f"x has shape {jnp.shape(x)}: it takes (n, {self.num_inputs}), as num_inputs says")
        if self.num_inputs == 1:
            return points ** jnp.arange(1, self.degree + 1)
        return jnp.stack([jnp.prod(points[:, jnp.array(c)], axis=1) for c in self._exponents()], axis=1)

    def penalty(self) -> Array:
        """I (p, p)."""
        return jnp.eye(len(self._exponents()))


@register_node
@dataclass(frozen=True, eq=False)
class LinearSpline:
    r"""The ramps max(0, x − kⱼ): a continuous line with a change of slope at each knot.

    The penalty is the identity, so that with the free intercept D = diag(0, 1, …, 1).

    Example:
        >>> import jax.numpy as jnp
        >>> print(LinearSpline(jnp.array([0.0, 1.0])).design(jnp.array([1.5])))
        [[1.5 0.5]]
    """

    knots: Array

    def design(self, x: Any) -> Array:
        """(n, m) for x (n,) and m knots."""
        return jnp.maximum(0, _points(x)[:, None] - _knots(self.knots, 1))

    def penalty(self) -> Array:
        """I (m, m)."""
        return jnp.eye(len(self.knots))


@register_node
@dataclass(frozen=True, eq=False)
class BSpline:
    r"""B-splines of any degree on clamped knots, without the first (whose span is that of the constant).

    Beyond the boundary the outermost polynomials go on.

    Attributes:
        knots: (m,), increasing, with the two boundaries first and last.
        degree: of the pieces; 3 is cubic.
        order: of the penalty: of the differences of the coefficients or of the derivative.
        kind: "derivative" penalises ∫(f^(order))², "difference" Σ(Δ^order w)² (Eilers & Marx).

    Example:
        >>> import jax.numpy as jnp
        >>> print(BSpline(jnp.array([0.0, 1.0, 2.0])).design(jnp.array([1.0])).round(3))
        [[0.25 0.5  0.25 0.  ]]

    References:
        de Boor, A Practical Guide to Splines, Springer 1978. Eilers & Marx, Statistical Science 11 (1996).
    """

    knots: Array
    degree: int = field(default=3, metadata={"static": True})
    order: int = field(default=2, metadata={"static": True})
    kind: str = field(default="derivative", metadata={"static": True})

    def design(self, x: Any) -> Array:
        """(n, m + degree − 2) for x (n,) and m knots."""
        return self._evaluate(_points(x), self.degree)[:, 1:]

    def penalty(self) -> Array:
        """Ω of the given order and kind."""
        size = len(self.knots) + self.degree - 1
        if self.kind == "difference":
            if not 1 <= self.order < size:
                raise ValueError(f"order must be from 1 to {size - 1}, got {self.order}")
            difference = jnp.diff(jnp.eye(size), n=self.order, axis=0)
            omega = difference.T @ difference
        elif self.kind == "derivative":
            if not 1 <= self.order <= self.degree:
                raise ValueError(f"order must be from 1 to the degree {self.degree}, got {self.order}")
            omega = self._integrated_squares()
        else:
            raise ValueError(f"kind must be 'derivative' or 'difference', got {self.kind!r}")
        return omega[1:, 1:]

    def _padded(self) -> Array:
        knots = _knots(self.knots, 2)
        if self.degree < 0:
            raise ValueError(f"degree must be non-negative, got {self.degree}")
        return jnp.concatenate([jnp.repeat(knots[:1], self.degree), knots, jnp.repeat(knots[-1:], self.degree)])

    def _evaluate(self, x: Array, degree: int) -> Array:
        """All B-splines of a degree up to `self.degree` on the padded knots, by the recursion of Cox and de Boor."""
        t, knots = self._padded(), _knots(self.knots, 2)
        piece = jnp.clip(jnp.searchsorted(knots, x, side="right") - 1, 0, len(knots) - 2) + self.degree
        values = jax.nn.one_hot(piece, len(t) - 1, dtype=jnp.result_type(x, t))
        for k in range(1, degree + 1):
            left, right = t[: -k - 1], t[k + 1 :]
            rise = _divide(x[:, None] - left, t[k:-1] - left)
            fall = _divide(right - x[:, None], right - t[1:-k])
            values = rise * values[:, :-1] + fall * values[:, 1:]
        return values

    def _integrated_squares(self) -> Array:
        """∫ of products of derivatives, exact: Gauss's rule in each piece on splines of the lower degree."""
        t, low = self._padded(), self.degree - self.order
        derive = jnp.eye(len(self.knots) + self.degree - 1, dtype=t.dtype)
        for k in range(self.degree, low, -1):  # the coefficients of the derivative, one degree down
            derive = k * _divide(jnp.diff(derive, axis=0), (t[k + 1 : -1] - t[1 : -k - 1])[:, None])
            t = t[1:-1]
        nodes, weights = _gauss(low + 1)
        knots = _knots(self.knots, 2)
        nodes, weights = nodes.astype(knots.dtype), weights.astype(knots.dtype)
        width = jnp.diff(knots)
        x = (knots[:-1, None] + width[:, None] * nodes).ravel()
        mass = (width[:, None] * weights).ravel()
        splines = self._evaluate(x, low)
        inner = splines[:, self.order : splines.shape[1] - self.order]
        values = inner @ derive
        return values.T @ (mass[:, None] * values)


def _divide(a: Array, b: Array) -> Array:
    """a/b, and 0 over an empty interval."""
    return jnp.where(b > 0, a / jnp.where(b > 0, b, 1), 0)


def _gauss(count: int) -> tuple[Array, Array]:
    """Nodes and weights of Gauss's rule on [0, 1], exact for degree 2·count − 1 (Golub & Welsch)."""
    k = jnp.arange(1, count)
    off = k / jnp.sqrt(4.0 * k**2 - 1)
    nodes, vectors = jnp.linalg.eigh(jnp.diag(off, 1) + jnp.diag(off, -1) if count > 1 else jnp.zeros((1, 1)))
    return (nodes + 1) / 2, vectors[0] ** 2


@register_node
@dataclass(frozen=True, eq=False)
class NaturalSpline:
    r"""Natural cubic splines by their values at the knots: φⱼ(kᵢ) = δᵢⱼ, linear beyond the boundary.

    The first is left out: with the intercept b the values are f(kⱼ) = b + wⱼ, f(k₁) = b. The penalty is exact:
    wᵀΩw = ∫f″².

    Attributes:
        knots: (m,), increasing, m ≥ 2.

    Example:
        >>> import jax.numpy as jnp, numpy as np
        >>> print(np.asarray(NaturalSpline(jnp.array([0.0, 1.0, 2.0])).design(jnp.array([0.5, 3.0]))).round(3))
        [[ 0.688 -0.094]
         [-1.5    2.25 ]]

    References:
        Green & Silverman, Nonparametric Regression and Generalized Linear Models, Chapman & Hall 1994, chapter 2.
    """

    knots: Array

    def design(self, x: Any) -> Array:
        """(n, m − 1) for x (n,) and m knots."""
        return natural_spline_design(_points(x), _knots(self.knots, 2))[:, 1:]

    def penalty(self) -> Array:
        """Ω (m − 1, m − 1) with wᵀΩw = ∫f″²."""
        return natural_spline_penalty(_knots(self.knots, 2))[1:, 1:]


def natural_spline_curvature(knots: Array) -> tuple[Array, Array]:
    """Q (m, m − 2) and R (m − 2, m − 2): the second derivatives at the inner knots are R⁻¹Qᵀ times the values."""
    h = jnp.diff(knots)
    m = len(knots)
    rows = jnp.arange(m - 2)
    Q = jnp.zeros((m, m - 2), knots.dtype)
    Q = (
        Q.at[rows, rows]
        .set(1 / h[:-1])
        .at[rows + 1, rows]
        .set(-1 / h[:-1] - 1 / h[1:])
        .at[rows + 2, rows]
        .set(1 / h[1:])
    )
    R = jnp.diag((h[:-1] + h[1:]) / 3) + jnp.diag(h[1:-1] / 6, 1) + jnp.diag(h[1:-1] / 6, -1)
    return Q, R


def natural_spline_penalty(knots: Array) -> Array:
    """K = QR⁻¹Qᵀ (m, m), with gᵀKg = ∫f″² for the natural cubic spline f of the values g."""
    if len(knots) < 3:
        return jnp.zeros((len(knots), len(knots)), knots.dtype)
    Q, R = natural_spline_curvature(knots)
    half = jax.scipy.linalg.solve_triangular(jnp.linalg.cholesky(R), Q.T, lower=True)
    return half.T @ half


def natural_spline_design(x: Array, knots: Array) -> Array:
    """(n, m): the natural cubic splines that are 1 at one knot and 0 at the others."""
    m = len(knots)
    dtype = jnp.result_type(x, knots)
    bend = jnp.zeros((m, m), dtype)
    if m > 2:
        Q, R = natural_spline_curvature(knots)
        bend = bend.at[1:-1].set(jax.scipy.linalg.cho_solve((jnp.linalg.cholesky(R), True), Q.T))
    inside = jnp.clip(x, knots[0], knots[-1])
    piece = jnp.clip(jnp.searchsorted(knots, inside, side="right") - 1, 0, m - 2)
    h = knots[piece + 1] - knots[piece]
    a, b = (knots[piece + 1] - inside) / h, (inside - knots[piece]) / h
    low, high = jax.nn.one_hot(piece, m, dtype=dtype), jax.nn.one_hot(piece + 1, m, dtype=dtype)
    values = a[:, None] * low + b[:, None] * high
    sag = ((a**3 - a) * h**2 / 6)[:, None] * low + ((b**3 - b) * h**2 / 6)[:, None] * high
    # beyond the boundary: the slope there, times the distance
    slope = (high - low) / h[:, None] + (((1 - 3 * a**2) * low.T + (3 * b**2 - 1) * high.T) * h / 6).T @ bend
    return values + sag @ bend + (x - inside)[:, None] * slope


@register_node
@dataclass(frozen=True, eq=False)
class Fourier:
    r"""sin(2πjx/T) and cos(2πjx/T) for j = 1, …, num: periodic functions of period T.

    The penalty is exact: wᵀΩw = ∫f″² over a period.

    Attributes:
        num: the number of frequencies; the columns are num sines, then num cosines.
        period: T > 0.

    Example:
        >>> import jax.numpy as jnp
        >>> print(Fourier(1, 4.0).design(jnp.array([0.0])))
        [[0. 1.]]
    """

    num: int = field(metadata={"static": True})
    period: Any = 1.0

    def _frequencies(self) -> Array:
        if self.num < 1:
            raise ValueError(f"num must be at least 1, got {self.num}")
        period = as_float_array("period", self.period)
        if period.ndim:
            raise ValueError(f"period has shape {period.shape}: it takes a scalar")
        require(lambda t: t > 0, period, message=f"period must be positive, got {period}")
        return 2 * jnp.pi * jnp.arange(1, self.num + 1, dtype=period.dtype) / period

    def design(self, x: Any) -> Array:
        """(n, 2·num) for x (n,)."""
        self._frequencies()
        points = _points(x)
        turns = points / jnp.asarray(self.period, points.dtype)
        turns = turns - jnp.floor(turns)  # large x keep their digits
        phase = 2 * jnp.pi * turns[:, None] * jnp.arange(1, self.num + 1, dtype=points.dtype)
        return jnp.concatenate([jnp.sin(phase), jnp.cos(phase)], axis=1)

    def penalty(self) -> Array:
        """Ω = (T/2) diag(ωⱼ⁴), twice."""
        roughness = jnp.asarray(self.period) / 2 * self._frequencies() ** 4
        return jnp.diag(jnp.concatenate([roughness, roughness]))
