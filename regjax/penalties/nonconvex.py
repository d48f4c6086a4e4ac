r"""MCP and SCAD: ℓ1 near 0 and constant far away, so that large coefficients are not shrunk.

The scale of the columns matters, since γ compares the curvature of the penalty with that of the loss. ncvreg minimises
‖y − Xβ‖²/(2n) + Σ p(βⱼ; λ, γ) with ‖xⱼ‖² = n. Multiplied by n this is the sum objective with the columns X/√n of unit
norm, w = √n·β, the strength √n·λ and the same γ. In the columns X themselves `MCP(n * lam, gamma / n)` is the same; no
`SCAD` is, since its λ is both a slope and a knot.
"""

from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
from jax import Array

from regjax.core.node import register_node
from regjax.penalties.elementary import PER_COEFFICIENT, STRENGTH, cast, soft
from regjax.penalties.separable import Separable, Terms, make_terms


def _best(penalty: Separable, terms: Terms, w: Array, step: Array, stationary: Array, unimodal: Array) -> Array:
    """The prox: the stationary point where the objective has one, else the better of its two local minima.

    For a long step the objective is concave in between: one minimum is near 0, where the penalty is ℓ1, and one far
    away, where it is constant. Limits cut them off.
    """
    candidates = (soft(w, step * terms.l1), w, stationary)
    near, far, stationary = (jnp.clip(u, terms.lower, terms.upper) for u in candidates)

    def objective(u):
        return (u - w) ** 2 / (2 * step) + penalty.curve(terms, u)

    return jnp.where(unimodal, stationary, jnp.where(objective(far) < objective(near), far, near))


@register_node
@dataclass(frozen=True, eq=False)
class MCP(Separable):
    r"""The minimax concave penalty P(w) = Σⱼ φ(|wⱼ|) with φ(a) = λa − a²/(2γ) for a ≤ γλ, and γλ²/2 beyond.

    Attributes:
        lam: λ ≥ 0, the slope at 0, a scalar or an array that broadcasts against w.
        gamma: γ > 0; the objective of a column x is convex if γ‖x‖² > 1. A large γ is ℓ1, γ → 1/‖x‖² selects subsets.
        factors: multiply λ; as in `L1`.

    Example:
        >>> import jax.numpy as jnp
        >>> print(MCP(1.0, 2.0).prox(jnp.array([0.5, 1.5, 5.0]), 1.0))
        [0. 1. 5.]

    References:
        Zhang, Nearly unbiased variable selection under minimax concave penalty, Annals of Statistics 38 (2010).
    """

    lam: Any = field(metadata=STRENGTH)
    gamma: Any = field(default=3.0, metadata=STRENGTH)
    factors: Any = field(default=None, metadata=PER_COEFFICIENT)

    convex = False
    least_gamma = 0

    def terms(self, w: Array) -> Terms:
        """λf in `l1`."""
        return make_terms(w, self.lam, 0.0, self.factors)

    def curve(self, terms: Terms, w: Array) -> Array:
        """φ(|w|)."""
        gamma = cast(self.gamma, w)
        a = jnp.minimum(jnp.abs(w), gamma * terms.l1)
        return terms.l1 * a - a**2 / (2 * gamma)

    def slope(self, terms: Terms, w: Array) -> Array:
        """φ′(|w|) = max(λ − |w|/γ, 0)."""
        return jnp.maximum(terms.l1 - jnp.abs(w) / cast(self.gamma, w), 0)

    def shrink(self, terms: Terms, w: Array, step: Array) -> Array:
        """The firm threshold for a step < γ, a hard threshold for longer ones."""
        gamma = cast(self.gamma, w)
        unimodal = step < gamma
        firm = soft(w, step * terms.l1) / jnp.where(unimodal, 1 - step / gamma, 1)
        stationary = jnp.where(jnp.abs(w) > gamma * terms.l1, w, firm)
        return _best(self, terms, w, step, stationary, unimodal)


@register_node
@dataclass(frozen=True, eq=False)
class SCAD(Separable):
    r"""The smoothly clipped absolute deviation P(w) = Σⱼ φ(|wⱼ|).

    φ(a) = λa for a ≤ λ, (2γλa − a² − λ²)/(2(γ − 1)) for λ < a ≤ γλ, and λ²(γ + 1)/2 beyond.

    Attributes:
        lam: λ ≥ 0, the slope at 0 and the first knot, a scalar or an array that broadcasts against w.
        gamma: γ > 2; the objective of a column x is convex if (γ − 1)‖x‖² > 1.
        factors: multiply λ; as in `L1`.

    Example:
        >>> import jax.numpy as jnp
        >>> print(SCAD(1.0, 3.0).prox(jnp.array([0.5, 1.5, 2.5, 5.0]), 1.0))
        [0.  0.5 2.  5. ]

    References:
        Fan & Li, Variable selection via nonconcave penalized likelihood, JASA 96 (2001).
    """

    lam: Any = field(metadata=STRENGTH)
    gamma: Any = field(default=3.7, metadata=STRENGTH)
    factors: Any = field(default=None, metadata=PER_COEFFICIENT)

    convex = False
    least_gamma = 2

    def terms(self, w: Array) -> Terms:
        """λf in `l1`."""
        return make_terms(w, self.lam, 0.0, self.factors)

    def curve(self, terms: Terms, w: Array) -> Array:
        """φ(|w|)."""
        gamma, lam, a = cast(self.gamma, w), terms.l1, jnp.abs(w)
        bent = jnp.clip(a, lam, gamma * lam)
        return lam * jnp.minimum(a, lam) + (gamma * lam * (bent - lam) - (bent**2 - lam**2) / 2) / (gamma - 1)

    def slope(self, terms: Terms, w: Array) -> Array:
        """φ′(|w|), λ up to the first knot and 0 beyond the second."""
        gamma, a = cast(self.gamma, w), jnp.abs(w)
        bent = jnp.maximum(gamma * terms.l1 - a, 0) / (gamma - 1)
        return jnp.where(a > terms.l1, bent, terms.l1 + 0 * a)

    def shrink(self, terms: Terms, w: Array, step: Array) -> Array:
        """Soft threshold, line and identity for a step < γ − 1; for longer ones it jumps."""
        gamma, a = cast(self.gamma, w), jnp.abs(w)
        unimodal = step < gamma - 1
        line = soft(w, step * gamma * terms.l1 / (gamma - 1)) / jnp.where(unimodal, 1 - step / (gamma - 1), 1)
        bent = jnp.where(a > terms.l1 * (1 + step), line, soft(w, step * terms.l1))
        return _best(self, terms, w, step, jnp.where(a > gamma * terms.l1, w, bent), unimodal)
