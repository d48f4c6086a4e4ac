"""Coordinate descent, cyclic: a coordinate is a row of W, or a group of rows."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from regjax.core.products import cross
from regjax.penalties import Group, LimitedBlocks, MultiTask, Penalty, PlusL2, SparseGroup
from regjax.solvers.certificate import Problem
from regjax.solvers.run import Outcome, run


def coordinate_descent(problem: Problem, penalty: Penalty, init: Array, *, tol: Any, max_iter: int = 10_000) -> Outcome:
    """Minimise over one row of W after the other, always with the newest values of the others; a step is a sweep.

    With dⱼ = ‖xⱼ‖² the update is wⱼ ← prox(wⱼ + xⱼᵀr/dⱼ, 1/dⱼ), for the lasso the soft threshold S(xⱼᵀr + dⱼwⱼ, λ)/dⱼ;
    a group of rows takes a proximal step with the largest eigenvalue of its block. The gradient is kept up to date
    through the Gram matrix where p ≤ n, through the residuals otherwise.

    References:
        Friedman, Hastie & Tibshirani, Regularization paths for GLMs via coordinate descent, JSS 33 (2010).
    """
    X, Y = problem.X, problem.Y
    members, parts = _blocks(penalty, init.shape)
    padded = jnp.concatenate([X, jnp.zeros((len(X), 1), X.dtype)], axis=1)
    columns = padded.T[members]  # (blocks, size, n)
    curvature = _block_curvature(columns)
    step = 1 / jnp.where(curvature > 0, curvature, 1)

    def update(block, W, pull):
        """New values of one block's rows, given Xᵀr for them."""
        rows = members[block]
        old = W[rows]
        part = jax.tree.map(lambda leaf: leaf[block], parts)
        new = part.prox(old + step[block] * pull, step[block])
        new = jnp.where(curvature[block] > 0, new, part.prox(jnp.zeros_like(old), jnp.ones_like(step[block])))
        return W.at[rows].set(new).at[-1].set(0), new - old

    # The gradient kept by updates gathers rounding, slowly: every sweep begins with a fresh one.
    def by_gram(gram):
        def one(block, carry):
            W, pull = carry
            W, change = update(block, W, pull[members[block]])
            return W, pull - jnp.einsum("kp,kt->pt", gram[block], change)

        return lambda W: lax.fori_loop(0, len(members), one, (W, cross(padded, Y - padded @ W)))[0]

    def by_residuals(W):
        def one(block, carry):
            W, residuals = carry
            W, change = update(block, W, columns[block] @ residuals)
            return W, residuals - jnp.einsum("kn,kt->nt", columns[block], change)

        return lax.fori_loop(0, len(members), one, (W, Y - padded @ W))[0]

    sweep = by_gram(cross(padded, padded)[members]) if X.shape[1] <= X.shape[0] else by_residuals
    start = jnp.concatenate([init, jnp.zeros_like(init[:1])])
    return run(sweep, start, lambda W: W[:-1], problem, penalty, tol=tol, max_iter=max_iter, burst=10)


def _block_curvature(columns: Array) -> Array:
    """The largest eigenvalue of each block's Gram matrix (blocks,), from above: exact for single columns."""
    if columns.shape[1] == 1:
        return jnp.einsum("bkn,bkn->b", columns, columns)
    block_gram = jnp.einsum("bkn,bln->bkl", columns, columns)
    # the largest row sum of absolute values bounds the spectrum, and needs no batched factorization
    return jnp.max(jnp.sum(jnp.abs(block_gram), axis=2), axis=1)


def _blocks(penalty: Penalty, shape: tuple[int, ...]) -> tuple[Array, Penalty]:
    """The rows of each block (blocks, size), p where a block has fewer, and the penalty of each: lanes of a pytree."""
    p = shape[0]

    def rows(value, members):
        """What broadcasts against W, for the rows of each block; 0 where it has fewer."""
        whole = jnp.broadcast_to(jnp.asarray(value), shape)
        return jnp.concatenate([whole, jnp.zeros_like(whole[:1])])[members]

    if penalty.separable:
        return jnp.arange(p)[:, None], jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, shape)[:, None], penalty)
    if isinstance(penalty, MultiTask):
        return jnp.arange(p)[:, None], jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (p, 1))[:, None], penalty)
    if isinstance(penalty, Group | SparseGroup):
        l1, kappa, excluded = penalty.strengths(jnp.zeros(shape, jnp.result_type(float)))
        members = _members(penalty.groups)
        kappa = jnp.where(excluded, jnp.inf, kappa)[:, None]
        labels, one = (0,) * members.shape[1], jnp.ones((len(members), 1))
        if isinstance(penalty, Group):
            return members, Group(kappa, labels, one)
        return members, SparseGroup(rows(l1, members), kappa, labels, one)
    if isinstance(penalty, PlusL2):
        members, part = _blocks(penalty.penalty, shape)
        return members, PlusL2(part, rows(penalty.l2, members))
    if isinstance(penalty, LimitedBlocks):
        members, part = _blocks(penalty.penalty, shape)
        return members, LimitedBlocks(part, rows(penalty.lower, members), rows(penalty.upper, members))
    raise ValueError(
        "coordinate_descent takes penalties that are sums over coefficients, rows or groups, not"
        f" {type(penalty).__name__}: use fista or admm"
    )


def _members(groups: Sequence[int]) -> Array:
    """The rows of each group, filled up with p."""
    labels = np.array(groups)
    rows = [np.flatnonzero(labels == g) for g in range(labels.max() + 1)]
    size = max(map(len, rows))
    return jnp.array([np.pad(r, (0, size - len(r)), constant_values=len(labels)) for r in rows])
