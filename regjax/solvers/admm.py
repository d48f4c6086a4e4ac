"""The alternating direction method of multipliers."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import Array

from regjax.core.factors import spectrum
from regjax.core.products import cross
from regjax.penalties import Penalty
from regjax.solvers.certificate import Problem
from regjax.solvers.run import Outcome, run


def ridge_solver(X: Array) -> tuple[Callable[[Array, Array], Array], Array]:
    """B, ρ ↦ (XᵀX + ρI)⁻¹B, by one eigendecomposition of the smaller Gram matrix for every ρ, and a ρ to begin with."""
    dual = X.shape[1] > X.shape[0]
    decomposition = spectrum(X @ X.T, (X,)) if dual else spectrum(cross(X, X), (X.T,))
    values, vectors = decomposition.values, decomposition.vectors

    def ridge(B, rho):
        if dual:
            seen = cross(vectors, X @ B) / (values + rho)[:, None]
            return (B - cross(X, vectors @ seen)) / rho
        return vectors @ (cross(vectors, B) / (values + rho)[:, None])

    top = jnp.max(values)
    return ridge, jnp.where(top > 0, jnp.mean(values) + 1e-3 * top, 1)


def admm(problem: Problem, penalty: Penalty, init: Array, *, tol: Any, max_iter: int = 20_000) -> Outcome:
    """Split W = U: a ridge solve for W, a prox for U, and a running sum of their difference.

    One eigendecomposition serves every ρ, so ρ can follow the balance of the two residuals.

    References:
        Boyd et al., Distributed optimization and statistical learning via ADMM, Foundations and Trends in ML 3 (2011).
    """
    ridge, rho = ridge_solver(problem.X)
    moments = cross(problem.X, problem.Y)

    def step(state):
        W, U, dual_sum, rho = state
        W = ridge(moments + rho * (U - dual_sum), rho)
        new = penalty.prox(W + dual_sum, 1 / rho)
        dual_sum = dual_sum + W - new
        apart, moved = jnp.linalg.norm(W - new), rho * jnp.linalg.norm(new - U)
        scale = jnp.linalg.norm(rho * dual_sum)
        size = jnp.maximum(jnp.linalg.norm(W), jnp.linalg.norm(new))
        apart, moved = apart / jnp.where(size > 0, size, 1), moved / jnp.where(scale > 0, scale, 1)
        factor = jnp.where(apart > 10 * moved, 1.5, jnp.where(moved > 10 * apart, 1 / 1.5, 1.0)).astype(rho.dtype)
        return W, new, dual_sum / factor, rho * factor

    state = (init, init, jnp.zeros_like(init), rho)
    return run(step, state, lambda state: state[1], problem, penalty, tol=tol, max_iter=max_iter, burst=20)
