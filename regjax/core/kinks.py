"""Functions of a few variables that are smooth but for kinks, such as the error of a lasso along its strengths."""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from regjax.core.loop import iterate
from regjax.core.solution import Status

LONGEST = 2.0  # the longest step in any variable
TRIES = 40  # evaluations along one direction


class Bottom(NamedTuple):
    """Where a descent ended.

    Attributes:
        point: (q,). value: a scalar.
        residual: the largest entry of the shortest vector between the gradients at the point and at a neighbour.
        num_eval: evaluations of the function.
        status: CONVERGED, FLOOR, ITERATION_LIMIT, or NON_FINITE (at the start).
    """

    point: Array
    value: Array
    residual: Array
    num_eval: Array
    status: Array


class _State(NamedTuple):
    point: Array
    value: Array
    gradient: Array
    inverse: Array  # of the Hessian
    direction: Array
    length: Array
    short: Array
    long: Array
    tries: Array
    accepted: Array
    residual: Array


def descend(
    function: Callable[[Array], tuple[Array, Array]], start: Array, *, tol: Array | float, max_iter: int
) -> Bottom:
    """Minimise a function with kinks by BFGS, whose steps fulfil the weak conditions of Wolfe.

    These ask a step to reach a place where the slope is less steep, so that it crosses a kink rather than stops short
    of it, and BFGS learns from the jump of the gradient that the function bends there. Every step of the loop
    evaluates the function once. A kink is recognised as a minimum by two gradients, a short step apart, that almost
    cancel.

    Args:
        function: x (q,) to its value and gradient; a value that is not finite is a step too long.
        start: (q,).
        tol: for the residual.
        max_iter: the most evaluations.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> kink = jax.value_and_grad(lambda x: jnp.abs(x[0] - x[1] ** 2) + 0.1 * (x[1] - 1) ** 2)
        >>> print(descend(kink, jnp.array([3.0, -1.0]), tol=1e-4, max_iter=200).point.round(1))
        [1. 1.]

    References:
        Lewis & Overton, Nonsmooth optimization via quasi-Newton methods, Mathematical Programming 141 (2013).
    """
    eps = float(jnp.finfo(start.dtype).eps)
    eye = jnp.eye(len(start), dtype=start.dtype)
    near = eps ** (1 / 3)

    def step(state: _State):
        trial = state.point + state.length * state.direction
        value, gradient = function(trial)
        first = jnp.isinf(state.value)
        finite = jnp.isfinite(value) & jnp.all(jnp.isfinite(gradient))
        slope = state.gradient @ state.direction
        high = ~finite | (value > state.value + 1e-4 * state.length * slope)
        steep = gradient @ state.direction < 0.5 * slope
        accept = finite & (first | ~(high | steep))

        move, bend = trial - state.point, gradient - state.gradient
        close = finite & ~first & (jnp.max(jnp.abs(move)) <= near)
        turn = bend @ bend
        share = jnp.clip(-(state.gradient @ bend) / jnp.where(turn > 0, turn, 1), 0, 1)
        between = jnp.max(jnp.abs(state.gradient + share * bend))
        residual = jnp.where(accept, jnp.max(jnp.abs(gradient)), state.residual)
        residual = jnp.where(close, jnp.minimum(residual, between), residual)

        across = move @ bend
        inverse = jnp.where(state.accepted == 1, across / jnp.where(turn > 0, turn, 1) * eye, state.inverse)
        inverse = jnp.where(accept & (across > 0), _update(inverse, move, bend), state.inverse)
        point = jnp.where(accept, trial, state.point)
        slopes = jnp.where(accept, gradient, state.gradient)
        downhill = -(inverse @ slopes)
        reach = LONGEST / jnp.maximum(jnp.max(jnp.abs(downhill)), eps)
        direction = jnp.where(accept, downhill, state.direction)
        short = jnp.where(accept, 0, jnp.where(high, state.short, state.length))
        long = jnp.where(accept, jnp.inf, jnp.where(high, state.length, state.long))
        length = jnp.where(jnp.isfinite(long), (short + long) / 2, 2 * short)
        length = jnp.where(accept, jnp.minimum(1, reach), length)
        tries = jnp.where(accept, 0, state.tries + 1)
        lost = (tries >= TRIES) | (first & ~finite) | jnp.any(~jnp.isfinite(point + length * direction))
        state = _State(
            point, jnp.where(accept, value, state.value), slopes, inverse, direction, length, short, long, tries,
            state.accepted + accept, residual,
        )  # fmt: skip
        return state, jnp.where(lost, jnp.inf, residual)

    flat, zero = jnp.zeros_like(start), jnp.zeros((), jnp.int32)
    infinite = jnp.full((), jnp.inf, start.dtype)
    begin = _State(
        start, infinite, flat, eye, flat, jnp.ones((), start.dtype), jnp.zeros((), start.dtype), infinite, zero, zero,
        infinite,
    )  # fmt: skip
    result = iterate(step, begin, tol=tol, max_iter=max_iter, patience=max_iter + 1, last=True)
    state = result.state
    status = jnp.where(result.status == Status.NON_FINITE, Status.FLOOR, result.status)
    status = jnp.where(jnp.isinf(state.value), Status.NON_FINITE, status).astype(jnp.int32)
    return Bottom(state.point, state.value, state.residual, result.num_iter, status)


def _update(inverse: Array, move: Array, bend: Array) -> Array:
    """The BFGS formula for the inverse of the second derivative."""
    across = move @ bend
    rho = 1 / jnp.where(across > 0, across, 1)
    image = inverse @ bend
    curved = rho * (1 + rho * (bend @ image))
    return inverse - rho * (jnp.outer(move, image) + jnp.outer(image, move)) + curved * jnp.outer(move, move)
