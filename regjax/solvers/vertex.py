"""The solution of a `Program` as a function of its data: that of a few linear equations, which has derivatives."""

import jax.numpy as jnp
from jax import Array, lax

from regjax.core.linalg import symmetric_solver
from regjax.solvers.program import Program


def vertex(program: Program, beta: Array) -> Array:
    """β (q,) again, from the rows B that it fits exactly: Zβ = y there, and Ωβ = Zᵀd with dᵢ at its limit elsewhere.

    Near a solution that is unique, with no more such rows than it takes, B stays what it is, so that the derivatives of
    these equations are those of the solution. Elsewhere there are none, and they are nan.
    """
    Z, y, low, high, omega = program
    q = len(beta)
    r = y - Z @ lax.stop_gradient(beta)
    near = float(jnp.finfo(Z.dtype).eps) ** 0.6 * jnp.max(jnp.abs(y) + jnp.abs(Z) @ jnp.abs(beta))
    exact = lax.stop_gradient((jnp.abs(r) <= near) & jnp.any(Z != 0, axis=1))
    level = jnp.where(exact, 0, jnp.where(r > 0, high, low))  # the limit of d that counts
    first, index = lax.top_k(exact.astype(Z.dtype), min(q, len(y)))
    rows, targets = first[:, None] * Z[index], first * y[index]
    matrix = jnp.block([[omega, -rows.T], [-rows, jnp.diag(1 - first)]])
    solve, regular = symmetric_solver(lax.stop_gradient(matrix))
    rhs = jnp.concatenate([level @ Z, -targets])
    found = lax.custom_linear_solve(lambda u: matrix @ u, rhs, lambda _, rhs: solve(rhs), symmetric=True)
    unique = (jnp.sum(exact) <= len(index)) & regular
    return found[:q] * jnp.where(unique, 1, jnp.nan)
