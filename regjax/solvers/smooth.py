"""Smooth functions of a few numbers, such as hyperparameters: L-BFGS that stops on the gradient."""

from collections.abc import Callable

import jax.numpy as jnp
import optax
from jax import Array

from regjax.core.loop import LoopResult, iterate


def lbfgs(function: Callable[[Array], Array], start: Array, *, tol: float, max_iter: int) -> LoopResult:
    """Minimise `function` from `start` (p,) until the largest entry of its gradient is at most `tol`.

    Returns:
        A `LoopResult`; `state[0]` is the point with the smallest gradient that was seen, `error` that gradient.

    Example:
        >>> import jax.numpy as jnp
        >>> result = lbfgs(lambda x: jnp.sum((x - 2) ** 4 + x**2), jnp.zeros(1), tol=1e-3, max_iter=50)
        >>> print(round(float(result.state[0][0]), 3))
        1.165

    References:
        Nocedal & Wright, Numerical Optimization, Springer 2006, chapter 7.
    """
    solver = optax.lbfgs()
    value_and_grad = optax.value_and_grad_from_state(function)

    def step(state):
        point, memory = state
        value, gradient = value_and_grad(point, state=memory)
        updates, memory = solver.update(gradient, memory, point, value=value, grad=gradient, value_fn=function)
        point = optax.apply_updates(point, updates)
        return (point, memory), jnp.max(jnp.abs(optax.tree.get(memory, "grad")))  # of the new point

    unknown = jnp.full((), jnp.inf, start.dtype)  # of the precision of the gradient, which the memory need not have
    return iterate(step, (start, solver.init(start)), tol=tol, max_iter=max_iter, error=unknown)
