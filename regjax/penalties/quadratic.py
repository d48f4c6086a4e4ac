"""General quadratic penalties."""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from regjax.core.linalg import solve_shifted
from regjax.core.node import register_node
from regjax.core.products import cross
from regjax.penalties.elementary import ByCoefficient, cast, divide, over_columns, per_row


@register_node
@dataclass(frozen=True, eq=False)
class Tikhonov(ByCoefficient):
    r"""P(w) = (λ/2)‖Γw‖².

    The null space of Γ is not penalised: the dual methods ignore that part of z, which the caller keeps at 0. With a
    matrix Γ they factorize it, and so does the prox.

    Attributes:
        lam: λ ≥ 0, a scalar or one per target (t,).
        gamma: Γ, a matrix (q, p), or (p,) for a diagonal.

    Example:
        >>> import jax.numpy as jnp
        >>> print(Tikhonov(2.0, jnp.array([[1.0, -1.0]])).value(jnp.array([3.0, 1.0])))
        4.0
    """

    lam: Any
    gamma: Any

    convex = True
    separable = False  # in general: it is with a vector Γ, but `L2` has factors for that

    def value(self, w: Array) -> Array:
        """P(w)."""
        return jnp.sum(self._lam(w) / 2 * self._image(w) ** 2)

    def prox(self, w: Array, step: ArrayLike) -> Array:
        """(I + step·λΓᵀΓ)⁻¹w; under `vmap` over λ or the step one eigendecomposition serves all."""
        gamma, strength = self._gamma(w), cast(step, w) * self._lam(w)
        if gamma.ndim == 1:
            return w / (1 + strength * per_row(gamma, w) ** 2)
        gram = cross(gamma, gamma)

        def column(w, strength):
            shift = 1 / jnp.where(strength == 0, 1, strength)
            return jnp.where(strength == 0, w, solve_shifted(gram, shift * w, shift))

        return over_columns(column, w, strength)

    def slack(self, w: Array, z: Array) -> Array:
        """P(w) + P*(z) − ⟨w, z⟩ = (λ/2)‖Γw − v/λ‖² with v the shortest solution of Γᵀv = z."""
        lam = self._lam(w)
        return jnp.sum(lam / 2 * (self._image(w) - divide(self._preimage(z), lam)) ** 2)

    def conjugate(self, z: Array) -> Array:
        """P*(z) = ‖v‖²/(2λ) with v the shortest solution of Γᵀv = z."""
        lam = self._lam(z)
        return jnp.sum(jnp.where(lam == 0, 0, divide(self._preimage(z) ** 2, 2 * lam)))

    def dual_scale(self, z: Array) -> Array:
        """1: every z is in the domain of P*."""
        return 1 + 0 * jnp.sum(z)

    def distance(self, w: Array, z: Array) -> Array:
        """|z − λΓᵀΓw| per coefficient."""
        gamma, image = self._gamma(w), self._lam(w) * self._image(w)
        return jnp.abs(
            z - (per_row(gamma, w) * image if gamma.ndim == 1 else jnp.einsum("qp,q...->p...", gamma, image))
        )

    def dual_norm(self, z: Array) -> Array:
        """inf, unless z is 0: no strength brings a coefficient to 0."""
        size = jnp.max(jnp.abs(jnp.where(self._empty(z), 0, z)), initial=0)
        return jnp.where(size > 0, jnp.inf, size)

    def tangent(self, w: Array, u: Array) -> Array:
        """u: P is smooth."""
        return u

    def free(self, w: Array) -> Array:
        """The coefficients whose column of Γ is 0, or all if λ is 0."""
        return jnp.broadcast_to(self._empty(w) | (self._lam(w) == 0), w.shape)

    def unpenalised(self, u: Array) -> Array:
        """The part of u in the null space of Γ."""
        gamma = self._gamma(u)
        if gamma.ndim == 1:
            return jnp.where(self.free(u), u, 0)
        return jnp.where(self._lam(u) == 0, u, u - jnp.linalg.pinv(gamma) @ (gamma @ u))

    def _lam(self, w: Array) -> Array:
        return jnp.broadcast_to(cast(self.lam, w), w.shape[1:])

    def _gamma(self, w: Array) -> Array:
        return cast(self.gamma, w)

    def _image(self, w: Array) -> Array:
        gamma = self._gamma(w)
        return per_row(gamma, w) * w if gamma.ndim == 1 else gamma @ w

    def _preimage(self, z: Array) -> Array:
        gamma = self._gamma(z)
        if gamma.ndim == 1:
            return jnp.where(per_row(gamma, z) == 0, 0, divide(z, per_row(gamma, z)))
        return jnp.einsum("pq,p...->q...", jnp.linalg.pinv(gamma), z)

    def _empty(self, w: Array) -> Array:
        gamma = self._gamma(w)
        return per_row(gamma == 0 if gamma.ndim == 1 else jnp.all(gamma == 0, axis=0), w)
