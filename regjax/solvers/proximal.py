"""Proximal gradient methods: ISTA and FISTA."""

from functools import partial
from typing import Any

import jax.numpy as jnp
from jax import Array

from regjax.core.loop import iterate
from regjax.core.products import cross
from regjax.penalties import Penalty
from regjax.solvers.certificate import Problem
from regjax.solvers.run import Outcome, run


def largest_curvature(X: Array) -> Array:
    """A bound of σ₁² of X, by power iteration: exact where that ends at an eigenvector, else a percent above."""
    p = X.shape[1]
    start = 1 + jnp.sin(jnp.arange(p, dtype=X.dtype))[:, None] / 2

    def step(state):
        v, old = state
        image = cross(X, X @ v)
        size = jnp.linalg.norm(image)
        return (image / jnp.where(size > 0, size, 1), size), jnp.abs(size - old) / jnp.where(size > 0, size, 1)

    scale = jnp.linalg.norm(start)
    start = (start / scale, jnp.zeros((), X.dtype))
    v, size = iterate(step, start, tol=1e-4, max_iter=200, patience=200).state
    off = jnp.linalg.norm(cross(X, X @ v) - size * v)
    found = off <= 64 * float(jnp.finfo(X.dtype).eps) * size
    return jnp.where(found, size, 1.02 * size)  # what the iteration finds is too small, by less than a percent


def _gradient_step(problem: Problem, penalty: Penalty):
    """W ↦ prox(W + Xᵀ(Y − XW)/L), on the Gram matrix where that is smaller than X."""
    X, Y = problem.X, problem.Y
    curvature = largest_curvature(X)
    step = 1 / jnp.where(curvature > 0, curvature, 1)
    if 2 * X.shape[1] <= X.shape[0]:
        gram, moments = cross(X, X), cross(X, Y)
        return lambda W: penalty.prox(W + step * (moments - gram @ W), step)
    return lambda W: penalty.prox(W + step * cross(X, Y - X @ W), step)


def ista(problem: Problem, penalty: Penalty, init: Array, *, tol: Any, max_iter: int = 100_000) -> Outcome:
    """The proximal gradient method W ← prox(W − ∇f(W)/L), L = σ₁².

    References:
        Daubechies, Defrise & De Mol, An iterative thresholding algorithm, CPAM 57 (2004).
    """
    forward = _gradient_step(problem, penalty)
    return run(forward, init, lambda W: W, problem, penalty, tol=tol, max_iter=max_iter, burst=20)


def fista(problem: Problem, penalty: Penalty, init: Array, *, tol: Any, max_iter: int = 50_000) -> Outcome:
    """The accelerated proximal gradient method, restarted where the momentum points uphill.

    References:
        Beck & Teboulle, A fast iterative shrinkage-thresholding algorithm, SIAM J. Imaging Sciences 2 (2009).
        O'Donoghue & Candès, Adaptive restart for accelerated gradient schemes, FoCM 15 (2015).
    """
    forward = _gradient_step(problem, penalty)
    one = jnp.ones((), init.dtype)
    return run(
        partial(_accelerated, forward), (init, init, one), lambda state: state[0], problem, penalty,
        tol=tol, max_iter=max_iter, burst=20,
    )  # fmt: skip


def _accelerated(forward, state):
    W, ahead, momentum = state
    new = forward(ahead)
    uphill = jnp.vdot(ahead - new, new - W) > 0  # the restart needs no objective value, which float32 blurs
    momentum = jnp.where(uphill, 1, momentum)
    following = (1 + jnp.sqrt(1 + 4 * momentum**2)) / 2
    return new, new + jnp.where(uphill, 0, (momentum - 1) / following) * (new - W), following
