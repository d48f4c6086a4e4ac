"""The duality gap of the lasso and the elastic net with factors and limits, for many lanes at once."""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from regjax.solvers.gram_block import Penalty, soft


class Data(NamedTuple):
    """X (n, p) and y (n,) with what is often needed: Xᵀy, the squared norms of the columns, and ‖y‖²."""

    X: Array
    y: Array
    moments: Array
    diagonal: Array
    energy: Array

    @property
    def scale(self) -> Array:
        """max |Xᵀy|, the unit of errors in correlations."""
        return jnp.max(jnp.abs(self.moments))


def duality_gap(data: Data, penalty: Penalty, w: Array, c: Array, rss: Array) -> Array:
    """The gap at w over ½‖y‖², for lanes in front: w and c = Xᵀr (..., p), rss = ‖r‖² (...).

    The dual point is θ = s·r with the largest s ≤ 1 for which P* is finite at z = Xᵀθ: |zⱼ| ≤ l1ⱼ where neither l2 nor
    a limit bounds wⱼ. The gap ½‖r − θ‖² + Σⱼ Pⱼ(wⱼ) + Pⱼ*(zⱼ) − wⱼzⱼ has no negative terms. For a tiny
    l2, where P* is finite but huge, the s that would be taken without l2 may do better: the smaller gap counts.

    A coefficient that nothing bounds requires zⱼ = 0, which rounding never meets: it is taken to be at most ‖y‖/‖xⱼ‖
    away from wⱼ, and the gap is then that within this distance.
    """
    excluded, l2 = jnp.isinf(penalty.l1), penalty.l2
    l1 = jnp.where(excluded, 0, penalty.l1)
    distance = jnp.sqrt(data.energy / jnp.where(data.diagonal > 0, data.diagonal, 1))
    distance = jnp.where((l1 == 0) & (l2 == 0), distance, jnp.inf)
    lower, upper = w - distance, w + distance
    if penalty.limits is not None:
        lower, upper = jnp.maximum(lower, penalty.limits[0]), jnp.minimum(upper, penalty.limits[1])
    beyond = ~excluded & (jnp.abs(c) > l1) & jnp.isinf(jnp.where(c > 0, upper, lower))

    def scaled_to(border):
        s = jnp.min(jnp.where(border, l1 / jnp.where(border, jnp.abs(c), 1), 1), axis=-1, keepdims=True)
        z = s * c
        force = jnp.where(border, 0, soft(z, l1))  # on the border of the domain, up to rounding
        best = jnp.where(l2 > 0, force / jnp.where(l2 > 0, l2, 1), jnp.where(force == 0, 0, jnp.inf * force))
        best = jnp.clip(best, jnp.minimum(lower, 0), jnp.maximum(upper, 0))  # the maximiser in P*
        slack = l1 * (jnp.abs(w) - jnp.abs(best)) + (w - best) * (l2 * (w + best) / 2 - z)
        slack = jnp.where(excluded, 0, jnp.maximum(slack, 0))
        return (1 - s[..., 0]) ** 2 * rss / 2 + jnp.sum(slack, axis=-1)

    gap = jnp.minimum(scaled_to(beyond & (l2 == 0)), scaled_to(beyond))
    return gap / jnp.where(data.energy > 0, data.energy / 2, 1)


def certify_lanes(data: Data, penalty: Penalty, coef: Array) -> Array:
    """The gaps of lanes coef (C, p) by two products with X."""
    residuals = data.y - coef @ data.X.T
    return duality_gap(data, penalty, coef, residuals @ data.X, jnp.einsum("ln,ln->l", residuals, residuals))
