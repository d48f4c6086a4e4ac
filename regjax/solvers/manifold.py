"""The equations that a solution fulfils along the manifold on which its penalty is smooth: for the last digits, and
for derivatives.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from regjax.core.krylov import conjugate_gradients
from regjax.core.linalg import solve_shifted
from regjax.core.loop import iterate
from regjax.core.products import cross
from regjax.penalties import Box, Limited, LimitedBlocks, Penalty, PlusL2
from regjax.penalties.balls import Ball
from regjax.penalties.limited_ordered import LimitedOrder
from regjax.penalties.separable import Separable
from regjax.solvers.task import Null, Task, distance

DENSE = 300  # unknowns up to which the Hessian is formed


def stationarity(point: Array, theta: tuple[Task, Penalty]) -> Array:
    """The gradient along the manifold; across it the coefficients, and without an intercept b, do not move."""
    return _conditions(point, theta, jnp.zeros_like(point[1:]))


def optimality(point: Array, theta: tuple[Task, Penalty]) -> Array:
    """`stationarity` on a manifold that moves with the limits or the radius that define it: for derivatives."""
    task, penalty = theta
    return _conditions(point, theta, drift(penalty, point[1:], -task.pull(task.slopes(task.predictor(point)))[1:]))


def drift(penalty: Penalty, w: Array, z: Array) -> Array:
    """0, with the derivative of what a limit or a radius does to coefficients w that it holds; z is −∇ of the loss."""
    if not _limits(penalty):
        return jnp.zeros_like(w)
    w, z = lax.stop_gradient((w, z))
    held = penalty.prox(w + z, 1)
    moved = held - lax.stop_gradient(held)
    return moved - penalty.tangent(w, moved)


def _limits(penalty: Any) -> bool:
    if isinstance(penalty, PlusL2):
        return _limits(penalty.penalty)
    return isinstance(penalty, Ball | Box | Limited | LimitedBlocks | LimitedOrder)


def _conditions(point: Array, theta: tuple[Task, Penalty], shift: Array) -> Array:
    task, penalty = theta
    inside = on_manifold(point, penalty, shift)
    return along_manifold(task, penalty, point, inside, task.pull(task.slopes(task.predictor(inside))), shift)


def on_manifold(point: Array, penalty: Penalty, shift: Array) -> Array:
    """The point, moved by a `shift`, whose part across the manifold has no derivative: Jacobians are then symmetric."""
    across = _across(point, penalty)
    return jnp.concatenate([point[:1], point[1:] - across + lax.stop_gradient(across) + shift])


def along_manifold(task: Task, penalty: Penalty, point: Array, inside: Array, pull: Array, shift: Array) -> Array:
    """The gradient along the manifold at `inside`, where that of the loss is `pull`, with what is across it."""
    at = lax.stop_gradient(point[1:])
    slope = pull[1:] + jax.grad(penalty.value)(inside[1:])
    first = pull[:1] + (1 - task.one) * point[:1]
    # the inner projection moves with the point, which on a curved manifold (a sphere) is part of the derivative
    along = penalty.tangent(at, penalty.tangent(inside[1:], slope))
    return jnp.concatenate([first, along + _across(point, penalty) - shift])


def _across(point: Array, penalty: Penalty) -> Array:
    return point[1:] - penalty.tangent(lax.stop_gradient(point[1:]), point[1:])


def diagonal_on_manifold(penalty: Penalty, w: Array, squares: Array) -> Array:
    """The diagonal of the Jacobian in w, given that of the loss, where moving one coefficient alone is on the manifold.

    Elsewhere 1, which is what it is across.
    """
    probe = jnp.sin(1 + jnp.arange(w.size, dtype=w.dtype)).reshape(w.shape)
    bend = jax.jvp(jax.grad(penalty.value), (w,), (jnp.ones_like(w),))[1]
    diagonal = squares + jnp.maximum(bend, 0)
    alone = penalty.tangent(w, probe) == probe
    return jnp.where(alone & (diagonal > 0) & jnp.isfinite(diagonal), diagonal, 1)


def by_conjugate_gradients(apply: Callable[[Array], Array], rhs: Array, diagonal: Array | None) -> Array:
    """The solution u of apply(u) = rhs to rounding; nan where no step led anywhere, since 0 would look like one."""
    tol = max(float(jnp.finfo(rhs.dtype).eps) ** 0.9, 1e-14)
    found = conjugate_gradients(apply, rhs, tol=tol, max_iter=min(4 * rhs.size, 1000), diagonal=diagonal)
    return jnp.where(jnp.any(found != 0) | jnp.all(rhs == 0), found, jnp.nan)


def solve_on_manifold(aux: Any, theta: tuple[Task, Penalty], point: Array, rhs: Array) -> Array:
    """The solution u of (∂F/∂point) u = rhs, F being the `stationarity`."""
    del aux
    task, penalty = theta

    def apply(u):
        return jax.jvp(lambda point: stationarity(point, theta), (point,), (u,))[1]

    size = point.size
    if size > DENSE:
        if task.loss.coupled:  # whose Hessian has no diagonal that is known
            return by_conjugate_gradients(apply, rhs, None)
        h = task.press(task.predictor(point), jnp.ones_like(task.y))
        first = jnp.where(task.one * jnp.sum(h, axis=0) > 0, jnp.sum(h, axis=0), 1)[None]
        rest = diagonal_on_manifold(penalty, point[1:], cross(task.X**2, h))
        return by_conjugate_gradients(apply, rhs, jnp.concatenate([first, rest]))
    basis = jnp.eye(size, dtype=point.dtype).reshape(size, *point.shape)
    matrix = jax.vmap(apply)(basis).reshape(size, size)
    matrix = (matrix + matrix.T) / 2
    diagonal = jnp.diagonal(matrix)
    scale = 1 / jnp.sqrt(jnp.where(diagonal > 0, diagonal, 1))
    scaled = matrix * scale[:, None] * scale
    zero = jnp.zeros((), point.dtype)
    return (scale * solve_shifted(scaled, scale * rhs.ravel(), zero)).reshape(point.shape)


def polish_point(task: Task, penalty: Penalty, null: Null, point: Array) -> Array:
    """Newton steps along the manifold for as long as they lower the residual; the point itself where they do not."""
    scale = jnp.where(null.slope > 0, null.slope, 1)

    def residual(point):
        off = distance(penalty, point, task.pull(task.slopes(task.predictor(point))), null.of_one) / scale
        return jnp.where(penalty.value(point[1:]) < jnp.inf, off, jnp.inf)  # over a limit there is nothing to gain

    def step(point):
        move = solve_on_manifold(None, (task, penalty), point, -stationarity(point, (task, penalty)))
        w = point[1:] + penalty.tangent(point[1:], move[1:])
        if isinstance(penalty, Ball):  # from whose surface tangents lead away
            w = penalty.prox(w, 1)
        elif isinstance(penalty, Separable):  # a step that ends at a limit is a good one
            w = penalty.within_limits(w)
        point = jnp.concatenate([point[:1] + task.one * move[:1], w])
        return point, residual(point)

    error = residual(point)
    eps = float(jnp.finfo(point.dtype).eps)
    settled = error <= 1e-2  # else the manifold is not yet the right one
    return iterate(step, point, tol=jnp.where(settled, eps, jnp.inf), max_iter=6, patience=1, error=error).state
