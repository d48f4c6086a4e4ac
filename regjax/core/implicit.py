"""The derivative of a solution, by the implicit function theorem."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
from jax import lax


@partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def implicit_solution(optimality: Callable[..., Any], solve: Callable[..., Any], solution, theta, aux):
    r"""Return `solution` unchanged, with the derivative that the equation F(w, θ) = 0 gives it.

    If w(θ) solves F(w, θ) = 0 with F the gradient of an objective, so that ∂F/∂w is symmetric, then

        dw = −(∂F/∂w)⁻¹ (∂F/∂θ) dθ.

    The equation is differentiated by JAX; only the linear solve is given. The rule calls itself, so derivatives of
    any order, forward and reverse, are exact at an exact solution, whatever found that solution.

    Args:
        optimality: `optimality(solution, theta)`, the array F, of the shape of `solution`. It must not close over
            traced values: everything that it depends on belongs in `theta`.
        solve: `solve(aux, theta, solution, rhs)`, the solution u of (∂F/∂w) u = rhs. Not differentiated.
        solution: the array w, found by any means, under `stop_gradient`.
        theta: a pytree, differentiated.
        aux: a pytree for `solve`, such as a factorization; not differentiated.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> def cube_root(a):
        ...     w = jax.lax.stop_gradient(a) ** (1 / 3)
        ...     return implicit_solution(
        ...         lambda w, a: w**3 - a, lambda aux, a, w, rhs: rhs / (3 * w**2), w, a, None)
        >>> print(round(float(jax.grad(cube_root)(8.0)), 4))
        0.0833

    References:
        Blondel et al., Efficient and Modular Implicit Differentiation, NeurIPS 2022.
    """
    del optimality, solve, theta, aux
    return solution


@implicit_solution.defjvp
def _implicit_jvp(optimality, solve, primals, tangents):
    raw, theta, aux = primals
    _, dtheta, _ = tangents
    solution = implicit_solution(optimality, solve, raw, theta, aux)
    _, drift = jax.jvp(lambda th: optimality(solution, th), (theta,), (dtheta,))

    def hessian_product(u):
        return jax.jvp(lambda w: optimality(w, theta), (solution,), (u,))[1]

    tangent = lax.custom_linear_solve(
        hessian_product,
        jax.tree.map(lambda d: -d, drift),
        lambda _, rhs: solve(*lax.stop_gradient((aux, theta, solution)), rhs),
        symmetric=True,
    )
    return solution, tangent


@jax.custom_jvp
def with_derivative_of(value, proxy):
    """Return `value` with the derivatives of `proxy`: the same quantity, less accurate but differentiable."""
    del proxy
    return value


@with_derivative_of.defjvp
def _with_derivative_of_jvp(primals, tangents):
    return with_derivative_of(*primals), tangents[1]
