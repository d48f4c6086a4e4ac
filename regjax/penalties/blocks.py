"""Norms of groups of coefficients, which enter and leave the model together."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from regjax.core.checks import is_concrete
from regjax.core.node import register_node
from regjax.penalties.elementary import (
    PER_COEFFICIENT,
    PER_GROUP,
    STRENGTH,
    ByCoefficient,
    Like,
    cast,
    divide,
    misalignment,
    rounding,
    safe_sqrt,
    soft,
    strength,
)


class Blocks(ByCoefficient):
    """The methods of P(w) = l1 ‖w‖₁ + Σ_g κ_g ‖w_g‖₂; a class gives the blocks and the strengths.

    κ is finite, with a mask of the blocks that are excluded.
    """

    convex = True
    separable = False

    def total(self, x: Array) -> Array:
        """Sums of the entries of each block."""
        raise TypeError(f"{type(self).__name__} has no blocks")

    def expand(self, blocks: Array) -> Array:
        """The number of its block for each coefficient: broadcasts against w."""
        return blocks

    def per_block(self, x: Array) -> Array:
        """The number of each block, of numbers that are the same for all its coefficients: the inverse of `expand`."""
        return x

    def strengths(self, w: Array) -> tuple[Array, Array, Array]:
        """l1 (broadcasts against w), κ per block, and whether a block is excluded."""
        raise TypeError(f"{type(self).__name__} has no strengths")

    def norms(self, x: Array) -> Array:
        """‖x_g‖₂ of each block."""
        return safe_sqrt(self.total(x**2))

    def value(self, w: Array) -> Array:
        """P(w)."""
        l1, kappa, excluded = self.strengths(w)
        norms = self.norms(w)
        forbidden = jnp.any(excluded & (norms > 0))
        return jnp.sum(l1 * jnp.abs(w)) + jnp.sum(kappa * norms) + jnp.where(forbidden, jnp.inf, 0)

    def prox(self, w: Array, step: ArrayLike) -> Array:
        """argmin over u of ‖u − w‖²/(2 step) + P(u): a soft threshold, then each block is shortened."""
        step = cast(step, w)
        l1, kappa, excluded = self.strengths(w)
        w = soft(w, step * l1)
        norms, threshold = self.norms(w), self.per_block(step) * kappa
        vanishes = (norms <= threshold) & (threshold > 0) | excluded
        ratio = jnp.where(vanishes, 1, threshold / jnp.where(norms == 0, 1, norms))
        return self.expand(1 - ratio) * w

    def slack(self, w: Array, z: Array) -> Array:
        """P(w) + P*(z) − ⟨w, z⟩.

        With s = soft(z, l1) it is |w|(l1 − sign(w)·clip(z, −l1, l1)) for each coefficient and
        (κ − ‖s‖)‖w‖ + (‖s‖‖w‖ − ⟨s, w⟩) for each block.
        """
        l1, kappa, excluded = self.strengths(w)
        z = jnp.where(self.free(w), 0, z)
        norms, excess = self.norms(w), soft(z, l1)
        kink = jnp.maximum(jnp.abs(w) * (l1 - jnp.sign(w) * jnp.clip(z, -l1, l1)), 0)
        rest = jnp.maximum(kappa - self.norms(excess), 0) * norms
        rest = jnp.where(excluded, 0, rest + misalignment(w, excess, self.norms, self.expand))
        forbidden = jnp.any(excluded & (norms > 0))
        kink = jnp.where(self.expand(excluded), 0, kink)
        return jnp.sum(kink) + jnp.sum(rest) + jnp.where(forbidden, jnp.inf, 0) + self.conjugate(z)

    def conjugate(self, z: Array) -> Array:
        """P*(z): 0 where ‖soft(z_g, l1)‖ ≤ κ_g for each block, else inf."""
        l1, kappa, excluded = self.strengths(z)
        norms = self.norms(soft(jnp.where(self.free(z), 0, z), l1))
        outside = ~excluded & (norms > kappa + rounding(z) * jnp.max(self.norms(z), axis=0, initial=0))
        return jnp.where(jnp.any(outside), jnp.inf, 0 * jnp.sum(norms))

    def dual_scale(self, z: Array) -> Array:
        """The largest s in [0, 1] with s·z in the domain of P*."""
        return 1 / jnp.maximum(self.gauge(z), 1)

    def gauge(self, z: Array) -> Array:
        """The smallest c with z ∈ ∂(cP)(0)."""
        _, kappa, excluded = self.strengths(z)
        norms = jnp.where(excluded, 0, self.norms(jnp.where(self.free(z), 0, z)))
        return jnp.max(divide(norms, kappa), initial=0)

    def dual_norm(self, z: Array) -> Array:
        """The smallest strength for which z ∈ ∂P(0): max ‖z_g‖/f_g."""
        return replace(self, lam=1.0).gauge(z)  # pyright: ignore[reportArgumentType, reportCallIssue]

    def distance(self, w: Array, z: Array) -> Array:
        """The distance of z to ∂P(w), per block."""
        l1, kappa, excluded = self.strengths(w)
        norms = self.norms(w)
        off = z - self.expand(divide(kappa, norms)) * w
        off = jnp.where(w == 0, soft(off, l1), off - l1 * jnp.sign(w))
        inactive = jnp.maximum(self.norms(soft(z, l1)) - kappa, 0)
        return jnp.where(excluded, 0, jnp.where(norms == 0, inactive, self.norms(off)))

    def tangent(self, w: Array, u: Array) -> Array:
        """u on the blocks that are not 0 (with l1 > 0 on the coefficients that are not 0)."""
        l1, kappa, excluded = self.strengths(w)
        smooth = self.expand(((self.norms(w) != 0) | (kappa == 0)) & ~excluded)
        return jnp.where(smooth & ((w != 0) | (l1 == 0)), u, 0)

    def free(self, w: Array) -> Array:
        """The coefficients without strength."""
        l1, kappa, excluded = self.strengths(w)
        return jnp.broadcast_to((l1 == 0) & self.expand((kappa == 0) & ~excluded), w.shape)


def _finite(kappa: Array, blocks: Like) -> tuple[Array, Array]:
    """κ per block, 0 where it is infinite, and where that is."""
    excluded = jnp.broadcast_to(jnp.isinf(kappa), blocks.shape)
    return jnp.broadcast_to(jnp.where(jnp.isinf(kappa), 0, kappa), blocks.shape), excluded


class Labelled(Blocks):
    """Blocks given by a label per coefficient, in the static field `groups`."""

    groups: Any

    def total(self, x: Array) -> Array:
        """(G,) or (G, t)."""
        return jax.ops.segment_sum(x, np.array(self.groups), num_segments=max(self.groups) + 1)

    def expand(self, blocks: Array) -> Array:
        """(p,) or (p, t)."""
        return blocks[np.array(self.groups)]

    def per_block(self, x: Array) -> Array:
        """A scalar, (1, t), (G,) or (G, t)."""
        first = np.unique(np.array(self.groups), return_index=True)[1]
        return x[first] if x.ndim and len(x) == len(self.groups) else x

    def group_strengths(self, lam: Any, factors: Any, w: Array) -> tuple[Array, Array]:
        """λ f_g and the excluded groups, with f_g = √|g| by default."""
        factors = np.sqrt(np.bincount(np.array(self.groups))) if factors is None else factors
        blocks = jax.ShapeDtypeStruct((max(self.groups) + 1, *w.shape[1:]), w.dtype)
        return _finite(strength(lam, factors, blocks), blocks)


def _as_labels(penalty: Any) -> None:
    """Let `groups` be any sequence: as a static field it must be hashable, and unflattening passes the tuple back."""
    if not isinstance(penalty.groups, tuple):
        if not is_concrete(penalty.groups):
            raise ValueError(
                "groups must be known while tracing, as the shape of the penalty depends on them; got a traced array: "
                "make them with numpy, outside of jit, or as a tuple"
            )
        object.__setattr__(penalty, "groups", tuple(np.ravel(penalty.groups).tolist()))


@register_node
@dataclass(frozen=True, eq=False)
class Group(Labelled):
    r"""P(w) = λ Σ_g f_g ‖w_g‖₂; with t targets each column has groups of its own.

    Attributes:
        lam: λ ≥ 0, a scalar, or an array that broadcasts against the norms of the groups, (G,) or (G, t); in a fit also
            a prefix pytree of the design, if no group has coefficients in two blocks.
        groups: p integers 0, …, G − 1, the group of each coefficient: any sequence, kept as a tuple (static).
        factors: f ≥ 0 (G,); √|g| if None, the square root of the group's size.

    Example:
        >>> import jax.numpy as jnp
        >>> print(Group(1.0, [0, 0, 1], jnp.array([1.0, 2.0])).prox(jnp.array([3.0, 4.0, 1.5]), 1.0))
        [2.4 3.2 0. ]

    References:
        Yuan & Lin, Model selection and estimation in regression with grouped variables, JRSS B 68 (2006).
    """

    lam: Any = field(metadata=PER_GROUP)
    groups: Sequence[int] | Any = field(metadata={"static": True})
    factors: Any = None

    def __post_init__(self):
        _as_labels(self)

    def strengths(self, w: Array) -> tuple[Array, Array, Array]:
        """0 and λf."""
        return jnp.zeros((), w.dtype), *self.group_strengths(self.lam, self.factors, w)


@register_node
@dataclass(frozen=True, eq=False)
class SparseGroup(Labelled):
    r"""P(w) = l1 ‖w‖₁ + l2 Σ_g f_g ‖w_g‖₂: few groups, and few coefficients in each.

    Attributes:
        l1: ≥ 0, a scalar or an array that broadcasts against w.
        l2: ≥ 0, of the norms (not squared), as `lam` in `Group`.
        groups, factors: as in `Group`; factors have no part in l1, except that inf excludes the group.

    Example:
        >>> import jax.numpy as jnp
        >>> print(SparseGroup(1.0, 1.0, [0, 0, 1], jnp.ones(2)).prox(jnp.array([4.0, 5.0, 1.5]), 1.0))
        [2.4 3.2 0. ]

    References:
        Simon, Friedman, Hastie & Tibshirani, A sparse-group lasso, JCGS 22 (2013).
    """

    l1: Any = field(metadata=STRENGTH)
    l2: Any = field(metadata=PER_GROUP)
    groups: Sequence[int] | Any = field(metadata={"static": True})
    factors: Any = None

    def __post_init__(self):
        _as_labels(self)

    def strengths(self, w: Array) -> tuple[Array, Array, Array]:
        """`l1` and `l2`·f."""
        return cast(self.l1, w), *self.group_strengths(self.l2, self.factors, w)

    def gauge(self, z: Array) -> Array:
        """The smallest c with ‖soft(z_g, c·l1)‖ ≤ c·κ_g for each block."""
        return _sparse_gauge(self, z)

    def dual_norm(self, z: Array) -> Array:
        """The smallest multiple of this penalty for which z is in its subdifferential at 0."""
        return self.gauge(z)


@jax.jit
def _sparse_gauge(penalty: SparseGroup, z: Array) -> Array:
    """The root of a convex decreasing function: Newton's method from 0 rises to it and does not pass it."""
    l1, kappa, excluded = penalty.strengths(z)
    z = jnp.where(penalty.free(z) | penalty.expand(excluded), 0, z)
    alone = penalty.expand(kappa == 0)  # without a norm of its block: a coefficient is its own root
    singles = jnp.max(jnp.where(alone, divide(jnp.abs(z), l1), 0), initial=0)
    z = jnp.where(alone, 0, z)

    def newton(c, z, l1, kappa):
        excess = jnp.maximum(jnp.abs(z) - penalty.expand(c) * l1, 0)
        norms = penalty.norms(excess)
        slope = divide(penalty.total(l1 * excess), norms) + kappa
        return c + divide(norms - c * kappa, slope)

    def rise(carry):
        c, _, count = carry
        new = jnp.maximum(newton(c, *fixed), c)
        return new, jnp.any(new > c * (1 + rounding(z) / 16)), count + 1

    fixed = lax.stop_gradient((z, l1, kappa))
    start = (jnp.zeros_like(kappa), True, 0)
    c, _, _ = lax.while_loop(lambda carry: carry[1] & (carry[2] < 100), rise, start)
    last = newton(c, z, l1, kappa)  # the last step has the derivative of the root
    return jnp.maximum(jnp.max(last, initial=0), singles)


@register_node
@dataclass(frozen=True, eq=False)
class MultiTask(Blocks):
    r"""P(W) = λ Σⱼ fⱼ ‖Wⱼ.‖₂ over the rows of W (p, t): a coefficient is in the model of all targets or of none.

    Attributes:
        lam: λ ≥ 0, a scalar or one per row, (p, 1).
        factors: f ≥ 0 (p,); 1 if None.

    Example:
        >>> import jax.numpy as jnp
        >>> print(MultiTask(1.0).prox(jnp.array([[3.0, 4.0], [0.5, 0.5]]), 1.0))
        [[2.4 3.2]
         [0.  0. ]]

    References:
        Obozinski, Taskar & Jordan, Joint covariate selection and joint subspace selection, Statistics and Computing 20
        (2010).
    """

    lam: Any = field(metadata=STRENGTH)
    factors: Any = field(default=None, metadata=PER_COEFFICIENT)

    def total(self, x: Array) -> Array:
        """(p, 1); (p,) for one target."""
        return x if x.ndim == 1 else jnp.sum(x, axis=1, keepdims=True)

    def strengths(self, w: Array) -> tuple[Array, Array, Array]:
        """0 and λf."""
        rows = jax.ShapeDtypeStruct(w.shape if w.ndim == 1 else (len(w), 1), w.dtype)
        return jnp.zeros((), w.dtype), *_finite(strength(self.lam, self.factors, rows), rows)
