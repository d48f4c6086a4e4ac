"""ℓ1, ℓ2, their sum, and limits on the coefficients."""

from dataclasses import dataclass, field, replace
from typing import Any

import jax.numpy as jnp
from jax import Array

from regjax.core.node import register_node
from regjax.penalties.elementary import PER_COEFFICIENT, STRENGTH, cast, per_row
from regjax.penalties.separable import Separable, Terms, make_terms


@register_node
@dataclass(frozen=True, eq=False)
class Zero(Separable):
    """P(w) = 0: no penalty, every coefficient is free.

    Example:
        >>> import jax.numpy as jnp
        >>> print(Zero().prox(jnp.array([3.0, -1.0]), 2.0))
        [ 3. -1.]
    """

    def terms(self, w: Array) -> Terms:
        """Neither strengths nor limits."""
        return make_terms(w, 0.0, 0.0)

    def dual_norm(self, z: Array) -> Array:
        """inf, unless z is 0: no strength brings a coefficient to 0."""
        return L2(1.0).dual_norm(z)


@register_node
@dataclass(frozen=True, eq=False)
class L1(Separable):
    """P(w) = λ Σⱼ fⱼ|wⱼ|.

    Attributes:
        lam: λ ≥ 0, a scalar or an array that broadcasts against w.
        factors: f ≥ 0 (p,), or anything that broadcasts against w; 1 if None. 0 leaves a coefficient unpenalised, inf
            excludes it.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> w = jnp.array([3.0, -1.0, 0.5])
        >>> print(jax.vmap(lambda penalty: penalty.prox(w, 1.0))(L1(jnp.array([0.75, 2.0]))))
        [[ 2.25 -0.25  0.  ]
         [ 1.    0.    0.  ]]

    References:
        Tibshirani, Regression shrinkage and selection via the lasso, JRSS B 58 (1996).
    """

    lam: Any = field(metadata=STRENGTH)
    factors: Any = field(default=None, metadata=PER_COEFFICIENT)

    def terms(self, w: Array) -> Terms:
        """λf in `l1`."""
        return make_terms(w, self.lam, 0.0, self.factors)


@register_node
@dataclass(frozen=True, eq=False)
class L2(Separable):
    """P(w) = (λ/2) Σⱼ fⱼwⱼ².

    Attributes:
        lam, factors: as in `L1`.

    Example:
        >>> import jax.numpy as jnp
        >>> print(L2(1.0).prox(jnp.array([3.0, -1.0]), 1.0))
        [ 1.5 -0.5]
    """

    lam: Any = field(metadata=STRENGTH)
    factors: Any = field(default=None, metadata=PER_COEFFICIENT)

    def terms(self, w: Array) -> Terms:
        """λf in `l2`."""
        return make_terms(w, 0.0, self.lam, self.factors)


@register_node
@dataclass(frozen=True, eq=False)
class ElasticNet(Separable):
    """P(w) = Σⱼ fⱼ (l1·|wⱼ| + (l2/2)·wⱼ²).

    Attributes:
        l1, l2: ≥ 0, scalars or arrays that broadcast against w. l2 = 0 is the lasso, l1 = 0 ridge.
        factors: as in `L1`, of both parts.

    Example:
        >>> import jax.numpy as jnp
        >>> print(ElasticNet(1.0, 1.0).prox(jnp.array([3.0, -1.0]), 1.0))
        [1. 0.]

    References:
        Zou & Hastie, Regularization and variable selection via the elastic net, JRSS B 67 (2005).
    """

    l1: Any = field(metadata=STRENGTH)
    l2: Any = field(metadata=STRENGTH)
    factors: Any = field(default=None, metadata=PER_COEFFICIENT)

    def terms(self, w: Array) -> Terms:
        """f·l1 and f·l2."""
        return make_terms(w, self.l1, self.l2, self.factors)

    def unit(self) -> "ElasticNet":
        """With l1 = 1: l2 has no part in whether 0 is optimal."""
        return replace(self, l1=1.0)


@register_node
@dataclass(frozen=True, eq=False)
class Limited(Separable):
    """P(w) with limits on the coefficients: lowerⱼ ≤ wⱼ ≤ upperⱼ, else inf.

    Attributes:
        penalty: a separable penalty.
        lower: ≤ 0, a scalar, (p,), or an array that broadcasts against w.
        upper: ≥ 0, likewise.

    Example:
        >>> import jax.numpy as jnp
        >>> print(Limited(L1(1.0), 0.0, jnp.inf).prox(jnp.array([3.0, -3.0]), 1.0))
        [2. 0.]
    """

    penalty: Any
    lower: Any = field(default=-jnp.inf, metadata=PER_COEFFICIENT)
    upper: Any = field(default=jnp.inf, metadata=PER_COEFFICIENT)

    @property
    def convex(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether the penalty is."""
        return self.penalty.convex

    def terms(self, w: Array) -> Terms:
        """Those of the penalty on the smaller interval."""
        if not self.penalty.separable:
            raise TypeError(f"Limited takes a separable penalty, got {type(self.penalty).__name__}")
        return self.penalty.terms(w).limited(w, self.lower, self.upper)

    def unit(self) -> "Limited":
        """The limits of the unit penalty."""
        return replace(self, penalty=self.penalty.unit())

    def curve(self, terms: Terms, w: Array) -> Array:
        """That of the penalty."""
        return self.penalty.curve(terms, w)

    def slope(self, terms: Terms, w: Array) -> Array:
        """That of the penalty."""
        return self.penalty.slope(terms, w)

    def shrink(self, terms: Terms, w: Array, step: Array) -> Array:
        """That of the penalty, which keeps the limits of the terms."""
        return self.penalty.shrink(terms, w, step)


@register_node
@dataclass(frozen=True, eq=False)
class Box(Separable):
    """The constraint lowerⱼ ≤ wⱼ ≤ upperⱼ: P(w) is 0 in the box, inf outside.

    Attributes:
        lower, upper: scalars, (p,), or arrays that broadcast against w; -inf and inf are no limits.
        factors: as in `L1`: 0 leaves a coefficient without limits, inf excludes it; others change nothing.

    Example:
        >>> import jax.numpy as jnp
        >>> print(Box(-1.0, 2.0).prox(jnp.array([3.0, -3.0, 1.0]), 1.0))
        [ 2. -1.  1.]
    """

    lower: Any = field(metadata=PER_COEFFICIENT)
    upper: Any = field(metadata=PER_COEFFICIENT)
    factors: Any = field(default=None, metadata=PER_COEFFICIENT)

    def terms(self, w: Array) -> Terms:
        """The limits alone."""
        lower, upper = self.lower, self.upper
        if self.factors is not None:
            factors = per_row(cast(self.factors, w), w)
            limits = (per_row(cast(limit, w), w) for limit in (lower, upper))
            lower, upper = (jnp.where(jnp.isinf(factors), 0, limit) for limit in limits)
            lower, upper = jnp.where(factors == 0, -jnp.inf, lower), jnp.where(factors == 0, jnp.inf, upper)
        return make_terms(w, 0.0, 0.0, self.factors).limited(w, lower, upper)


@register_node
@dataclass(frozen=True, eq=False)
class NonNegative(Separable):
    """The constraint wⱼ ≥ 0.

    The domain of the conjugate is z ≤ 0, into which no scaling brings a positive entry: `dual_scale` is then 0.

    Attributes:
        factors: as in `Box`.

    Example:
        >>> import jax.numpy as jnp
        >>> print(NonNegative().prox(jnp.array([3.0, -3.0]), 1.0))
        [3. 0.]
    """

    factors: Any = field(default=None, metadata=PER_COEFFICIENT)

    def terms(self, w: Array) -> Terms:
        """The limits alone."""
        return Box(0.0, jnp.inf, self.factors).terms(w)
