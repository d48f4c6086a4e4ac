"""Quantiles and polyhedral penalties as one program: a sum of two-sided linear costs of rows, and a quadratic form."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from regjax.penalties import (
    L1,
    L2,
    Box,
    Limited,
    LimitedVariation,
    NonNegative,
    Penalty,
    PlusL2,
    SparseVariation,
    Tikhonov,
    TotalVariation,
    Zero,
)
from regjax.penalties.elementary import per_row
from regjax.penalties.separable import Separable
from regjax.solvers.task import Task


class Program(NamedTuple):
    """Minimise Σᵢ max(highᵢrᵢ, lowᵢrᵢ) + ½βᵀΩβ over β, r = y − Zβ.

    A sample of weight v has (τ − 1)v and τv, a penalty λ|w| the row w, the target 0 and ∓λ. An infinite `high` with
    `low` 0 is the constraint r ≤ 0, an infinite `low` with `high` 0 is r ≥ 0.

    Attributes:
        rows: Z (m, q). targets: y (m,). low, high: (m,), low ≤ 0 ≤ high. omega: Ω (q, q).
    """

    rows: Array
    targets: Array
    low: Array
    high: Array
    omega: Array


def is_program(penalty: Penalty) -> bool:
    """Whether the penalty is a sum of linear costs, limits and a quadratic form."""
    if isinstance(penalty, PlusL2):
        return is_program(penalty.penalty)
    linear = isinstance(penalty, TotalVariation | SparseVariation | LimitedVariation)
    return linear or isinstance(penalty, Tikhonov) or (isinstance(penalty, Separable) and penalty.convex)


def quantile_program(task: Task, penalty: Penalty) -> Program:
    """The program whose unknowns are the point (p + 1, t), row by row."""
    n, p = task.X.shape
    loss: Any = task.loss
    t = task.offset.shape[1]
    seen = task.weights > 0
    Z = jnp.concatenate([jnp.full((n, 1), task.one), task.X], axis=1)
    Z = jnp.where(seen[:, None], Z, 0)
    y = jnp.where(seen[:, None], task.y - task.offset, 0)
    v = jnp.where(seen, task.weights, 1)[:, None]  # a row of zeros is free of cost
    tau = jnp.broadcast_to(loss.tau, (t,))
    parts = [_rows(jnp.kron(Z, jnp.eye(t, dtype=Z.dtype)), y, (tau - 1) * v, tau * v)]
    if loss.coupled:  # the next quantile is not below this one
        ordered = jnp.eye(t, dtype=Z.dtype)[jnp.argsort(tau)]
        steps = jnp.kron(Z, ordered[1:] - ordered[:-1])
        parts.append(_constraints(steps, jnp.zeros((n, t - 1), Z.dtype), jnp.repeat(seen, t - 1), above=True))
    w = jnp.zeros((p, t), Z.dtype)
    omega = jnp.zeros((p + 1, t, p + 1, t), Z.dtype).at[1:, :, 1:].set(jax.jacfwd(jax.grad(penalty.value))(w))
    first = jnp.eye(1, p + 1, dtype=Z.dtype)[0]
    omega = omega.reshape((p + 1) * t, -1) + jnp.diag(jnp.repeat(first * (1 - task.one), t))
    charged, excluded = _charges(penalty, w, jnp.sum(v * jnp.abs(Z)))
    out = jnp.concatenate([jnp.zeros(t, bool), excluded.ravel()])  # columns of coefficients that are held at 0
    pad = [(jnp.concatenate([jnp.zeros((len(a[0]), t), Z.dtype), a[0]], axis=1), *a[1:]) for a in charged]
    rows, targets, low, high = (jnp.concatenate(both) for both in zip(*parts, *pad, strict=True))
    return Program(jnp.where(out, 0, rows), targets, low, high, omega + jnp.diag(out.astype(Z.dtype)))


def program_gap(program: Program, beta: Array, d: Array) -> tuple[Array, Array]:
    """Primal minus dual objective of β and d, and the largest |Ωβ − Zᵀd|."""
    Z, y, low, high, omega = program
    r = y - Z @ beta
    cost = jnp.maximum(jnp.where(jnp.isfinite(high), high, 0) * r, jnp.where(jnp.isfinite(low), low, 0) * r)
    return jnp.sum(jnp.abs(cost - d * r)), jnp.max(jnp.abs(omega @ beta - d @ Z))


def quantile_null(task: Task) -> tuple[Array, Array]:
    """The objective of the best constants, quantiles of the weighted sample, and the largest slope there."""
    target = task.y - task.offset
    order = jnp.argsort(target, axis=0)
    share = jnp.cumsum(task.weights[order], axis=0) / jnp.sum(task.weights)
    tau = task.loss.tau  # pyright: ignore[reportAttributeAccessIssue]
    place = jnp.minimum(jnp.sum(share < tau, axis=0), len(target) - 1)
    b = task.one * jnp.take_along_axis(jnp.sort(target, axis=0), place[None], axis=0)
    eta = task.offset + b
    return task.total(eta), jnp.max(jnp.abs(task.pull(task.slopes(eta))[1:]))


def _charges(penalty: Any, w: Array, steepest: Array) -> tuple[list, Array]:
    """Rows over the coefficients (p, t) for what of the penalty is not quadratic, and which are excluded.

    No sum of slopes of the loss is more than `steepest`.
    """
    if isinstance(penalty, PlusL2):
        return _charges(penalty.penalty, w, steepest)
    none = jnp.zeros(w.shape, bool)
    each = jnp.eye(w.size, dtype=w.dtype)
    if isinstance(penalty, TotalVariation):
        charges = penalty.charges(w)
        endless = jnp.isinf(charges)  # more than the loss and the other charges can pull is enough to forbid a jump
        enough = 2 * (steepest + jnp.sum(jnp.where(endless, 0, charges)))
        jumps = jnp.kron(jnp.diff(jnp.eye(len(w), dtype=w.dtype), axis=0), jnp.eye(w.shape[1], dtype=w.dtype))
        return [_absolute(jumps, jnp.where(endless, enough, charges))], none
    if isinstance(penalty, SparseVariation):
        return [part for each in (penalty.variation, L1(penalty.l1)) for part in _charges(each, w, steepest)[0]], none
    if isinstance(penalty, LimitedVariation):
        box = Box(*(per_row(jnp.asarray(limit, w.dtype), w) for limit in (penalty.lower, penalty.upper)))
        limits, excluded = _charges(box, w, steepest)
        return [*_charges(penalty.penalty, w, steepest)[0], *limits], excluded
    if not isinstance(penalty, Separable):
        return [], none
    terms = penalty.terms(w)
    l1, lower, upper = (jnp.broadcast_to(a, w.shape) for a in (terms.l1, terms.lower, terms.upper))
    rows = [] if isinstance(penalty, Zero | L2 | Box | NonNegative) else [_absolute(each, l1)]
    if isinstance(penalty, Limited | Box | NonNegative):
        for limit, above in ((lower, True), (upper, False)):
            known = jnp.isfinite(limit)
            rows.append(_constraints(each, jnp.where(known, limit, 0), known.ravel(), above=above))
    return rows, (lower == 0) & (upper == 0)


def _rows(rows: Array, targets: Array, low: Array, high: Array) -> tuple[Array, Array, Array, Array]:
    low, high = (jnp.broadcast_to(a, targets.shape).ravel() for a in (low, high))
    return rows, targets.ravel(), low, high


def _absolute(rows: Array, lam: Array) -> tuple[Array, Array, Array, Array]:
    """λ|row·w|; a row of zeros where λ is 0."""
    cost = jnp.where(lam > 0, lam, 1)
    return _rows(rows * (lam > 0).reshape(-1, 1), jnp.zeros_like(lam), -cost, cost)


def _constraints(rows: Array, limits: Array, known: Array, *, above: bool) -> tuple[Array, Array, Array, Array]:
    """row·w ≥ limit (`above`) or ≤ limit; a row of zeros where it is not `known`."""
    least, most = (0.0, jnp.inf) if above else (-jnp.inf, 0.0)
    low, high = (jnp.where(known, one, other).astype(rows.dtype) for one, other in ((least, -1), (most, 1)))
    return _rows(rows * known[:, None], limits.ravel(), low, high)
