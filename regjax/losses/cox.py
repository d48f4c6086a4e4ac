"""Survival times: the partial likelihood of proportional hazards."""

from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from regjax.core.node import register_node
from regjax.losses.protocol import Elementwise

_LEVELS = 8  # units in which risks are summed, each e^40 (float32) or e^300 (float64) of the next


class Deaths(NamedTuple):
    """What the times say, one number per sample from the longest time to the shortest.

    Attributes:
        order: the permutation. last: the last position with the same time, that is the end of the risk set.
        weight: v of an event, else 0. present: v.
        tie: a number per distinct time. count: its events. rank: the share of them that come before.
    """

    order: Array
    last: Array
    weight: Array
    present: Array
    tie: Array
    rank: Array
    count: Array


@register_node
@dataclass(frozen=True, eq=False)
class Cox(Elementwise):
    r"""−Σ over events i of vᵢ(ηᵢ − log Σ_{tₖ ≥ tᵢ} vₖ e^ηₖ): y (n, 2) holds times, and 1 for an event or 0 for none.

    There is no intercept: it would cancel. Samples depend on each other, so there are no elementwise methods.

    Attributes:
        ties: "breslow" for events of one time as above, "efron" to let them leave the risk set one after the other.

    Example:
        >>> import jax.numpy as jnp
        >>> y = jnp.array([[1.0, 1.0], [2.0, 0.0]])
        >>> print(Cox().total(y, jnp.zeros((2, 1)), jnp.ones(2)).round(4))  # log 2
        0.6931

    References:
        Cox, Regression models and life tables, JRSS B 34 (1972). Efron, JASA 72 (1977).
    """

    ties: str = field(default="breslow", metadata={"static": True})

    coupled = True
    cancels_constants = True
    domain = "two columns: finite times, and 1 for an event or 0 for a censored time"

    def encode(self, y: Array, v: Array) -> Array:
        """The fields of `Deaths` as columns, so that sorting is done once."""
        if self.ties not in ("breslow", "efron"):
            raise ValueError(f"ties must be 'breslow' or 'efron', got {self.ties!r}")
        order = jnp.argsort(-y[:, 0])
        time, seen, v = y[order, 0], (y[order, 1] > 0) & (v[order] > 0), v[order]
        first, last = (jnp.searchsorted(-time, -time, side=side) for side in ("left", "right"))
        before = jnp.concatenate([jnp.zeros(1, y.dtype), jnp.cumsum(seen.astype(y.dtype))])
        count = jnp.maximum(before[last] - before[first], 1)
        rank = (before[:-1] - before[first]) / count
        columns = (order, last - 1, jnp.where(seen, v, 0), v, first, rank, count)
        return jnp.stack([jnp.asarray(c, y.dtype) for c in columns], axis=1)

    def _read(self, y: Array, v: Array) -> Deaths:
        y = self.encode(y, v) if y.shape[1] == 2 else y
        order, last, weight, present, tie, rank, count = y.T
        integers = (a.astype(jnp.int32) for a in (order, last, tie))
        order, last, tie = lax.stop_gradient(tuple(integers))
        return Deaths(order, last, weight, present, tie, rank, count)

    def total(self, y: Array, eta: Array, v: Array) -> Array:
        """The negative partial log-likelihood."""
        order, last, weight, present, tie, rank, count = self._read(y, v)
        n, event = len(y), weight > 0
        score = jnp.where(present > 0, eta[order, 0], 0)
        at_risk, known = (a[last] for a in _log_of_sums(score, present))
        if self.ties == "efron":
            share = jnp.where(event, present * jnp.exp(jnp.where(event, score - at_risk, 0)), 0)
            failing = jax.ops.segment_sum(share, tie, n)[tie]
            at_risk = at_risk + jnp.log1p(-jnp.where(event, rank * failing, 0))
            mean = jax.ops.segment_sum(weight, tie, n)[tie] / count
        else:
            mean = weight
        value = jnp.sum(jnp.where(event, mean * at_risk - weight * score, 0))
        return jnp.where(jnp.all(known | ~event), value, jnp.nan)

    def least(self, y: Array, v: Array) -> Array:
        """With every event alone in its risk set, but for ties."""
        _, _, weight, _, tie, rank, count = self._read(y, v)
        tied = jax.ops.segment_sum(weight, tie, len(v))[tie]
        left = jnp.log(jnp.where(tied > 0, tied, 1))
        efron = self.ties == "efron"
        mean, left = (tied / count, left + jnp.log1p(-rank)) if efron else (weight, left)
        return jnp.sum(jnp.where(weight > 0, mean * left, 0))

    def slopes(self, y: Array, eta: Array, v: Array) -> Array:
        """The gradient of `total` in η."""
        return jax.grad(lambda eta: self.total(y, eta, v))(eta)

    def press(self, y: Array, eta: Array, v: Array, u: Array) -> Array:
        """The Hessian of `total` in η times u."""
        return jax.jvp(lambda eta: self.slopes(y, eta, v), (eta,), (u,))[1]

    def log_likelihood(self, y: Array, eta: Array, v: Array, dispersion: Array) -> Array:
        """The partial one."""
        del dispersion
        return -self.total(y, eta, v)

    def observed(self, y: Array, v: Array) -> Array:
        """The number of events."""
        return jnp.sum((y[:, 1] > 0) & (v > 0))

    def mean(self, eta):
        """The relative risk e^η."""
        return jnp.exp(jnp.asarray(eta))

    def valid(self, y):
        """Finite times, and 0 or 1."""
        return jnp.isfinite(y[:, :1]) & ((y[:, 1:] == 0) | (y[:, 1:] == 1))

    def start(self, y):
        """0."""
        return jnp.zeros_like(y[:, :1])


def _log_of_sums(score: Array, weight: Array) -> tuple[Array, Array]:
    """log Σ_{j ≤ i} wⱼ e^{sⱼ} (n,), every sum in a unit of its own size; and whether it is above the smallest unit.

    In one unit for all, the risks of late sets would be below the rounding of an early one's. A running log-sum-exp,
    as an associative scan, takes half a minute to compile with its second derivatives.
    """
    fixed = lax.stop_gradient(jnp.where(weight > 0, score, -jnp.inf))
    width = 40 if score.dtype == jnp.float32 else 300
    units = jnp.max(fixed) - width * jnp.arange(_LEVELS, dtype=score.dtype)
    level = jnp.clip((units[0] - lax.cummax(fixed)) // width, 0, _LEVELS - 1)
    level = jnp.where(jnp.isfinite(level), level, 0).astype(jnp.int32)
    above = score - units[:, None]
    risks = jnp.where(above > 1, 0, weight * jnp.exp(jnp.where(above > 1, 0, above)))  # no set of this unit has these
    sums = jnp.cumsum(risks, axis=1)[level, jnp.arange(len(score))]
    return jnp.log(jnp.where(sums > 0, sums, 1)) + units[level], sums > 0
