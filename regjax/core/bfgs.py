"""Smooth functions of a few variables within a box, where an evaluation is what costs: BFGS, one evaluation a step."""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from regjax.core.loop import iterate
from regjax.core.solution import Status
from regjax.core.triangular import triangular_inverse

LONGEST = 2.0  # the longest step in any variable
TRIES = 12  # evaluations along one direction


class Minimum(NamedTuple):
    """Where a minimisation ended.

    Attributes:
        point: (q,). value: a scalar. gradient: (q,).
        curvature: an approximation of the second derivative (q, q), positive definite.
        residual: the largest entry of the gradient, projected onto the box, over the scale.
        num_eval: evaluations of the function.
        status: CONVERGED, BOUNDARY, FLOOR, ITERATION_LIMIT, NON_FINITE (at the start), or DROPPED.
    """

    point: Array
    value: Array
    gradient: Array
    curvature: Array
    residual: Array
    num_eval: Array
    status: Array


class Rivals(NamedTuple):
    """k known minima with their second derivatives: a run that is in the bowl of one, or hopeless, is dropped.

    A run is in a bowl where its value, its slope on the line to the minimum and its whole gradient are those of the
    bowl's parabola. It is hopeless where it is behind the best by more than the margin, and neither ten times the fall
    that its own model expects nor a straight fall over the longest step would bring it there. The margin is what keeps
    runs near saddles alive, which stand still for a while before they fall.

    Attributes:
        value: (k,), infinite where there is none yet. point: (k, q). curvature: (k, q, q).
        margin: a scalar in the units of the function.
    """

    value: Array
    point: Array
    curvature: Array
    margin: Array

    @classmethod
    def none(cls, starts: Array, margin: float) -> "Rivals":
        """Room for one minimum from each start (k, q)."""
        k, q = starts.shape
        eye = jnp.broadcast_to(jnp.eye(q, dtype=starts.dtype), (k, q, q))
        return cls(jnp.full(k, jnp.inf, starts.dtype), starts, eye, jnp.asarray(margin, starts.dtype))

    def joined(self, index: Array, end: Minimum) -> "Rivals":
        """With the end of a run among them, unless it was dropped."""
        value = jnp.where((end.status == Status.DROPPED) | jnp.isnan(end.value), jnp.inf, end.value)
        return self._replace(
            value=self.value.at[index].set(value),
            point=self.point.at[index].set(end.point),
            curvature=self.curvature.at[index].set(end.curvature),
        )

    def beat(self, state: "_State", downhill: Array) -> Array:
        """Whether to drop a run."""
        above, away = state.value - self.value, state.point - self.point
        pull = jnp.einsum("kij,kj->ki", self.curvature, away)  # the gradient of the parabola
        rise, slope = jnp.sum(pull * away, axis=1), away @ state.gradient
        bowl = (above >= 0) & (4 * above < 3 * rise) & (rise < 3 * above)
        bowl &= (3 * slope > 2 * rise) & (2 * slope < 3 * rise)
        bowl &= 4 * jnp.sum((state.gradient - pull) ** 2, axis=1) < jnp.sum(pull**2, axis=1)
        behind = jnp.max(above)
        fall = jnp.maximum(-5 * (downhill @ state.gradient), LONGEST * jnp.sum(jnp.abs(state.gradient)))
        return jnp.any(bowl) | (behind > jnp.maximum(self.margin, fall))


class _State(NamedTuple):
    point: Array
    value: Array
    gradient: Array
    curvature: Array
    direction: Array
    length: Array
    tries: Array
    accepted: Array
    dropped: Array


def minimize_box(
    function: Callable[[Array], tuple[Array, Array]],
    start: Array,
    lower: Array,
    upper: Array,
    *,
    scale: Array | float,
    tol: float,
    max_iter: int,
    rivals: Rivals | None = None,
    active: Array | None = None,
) -> Minimum:
    """Minimise a smooth function within lower ≤ x ≤ upper by BFGS with projection.

    Every step of the loop evaluates the function once. A step is accepted if it lowers the value enough or, where
    values differ by rounding only, if it lowers the gradient. It stops on the gradient alone.

    Args:
        function: x (q,) to its value and gradient; a value that is not finite is a step too long.
        start: (q,), within the box. lower, upper: (q,), may be infinite.
        scale: what the gradient is measured against. tol: for the residual.
        max_iter: the most evaluations.
        rivals: minima that are known.
        active: whether to start at all; if not, nothing is evaluated and the status is DROPPED.

    References:
        Nocedal & Wright, Numerical Optimization, Springer 2006, section 6.1; with Powell's damping (section 18.3).
    """
    eps = jnp.finfo(start.dtype).eps
    eye = jnp.eye(len(start), dtype=start.dtype)

    def projected(x, gradient):
        return jnp.max(jnp.abs(x - jnp.clip(x - gradient, lower, upper)))

    def step(state: _State):
        trial = jnp.clip(state.point + state.length * state.direction, lower, upper)
        value, gradient = function(trial)
        first = jnp.isinf(state.value)
        move, bend = trial - state.point, gradient - state.gradient
        expected = state.gradient @ move
        lowers = value <= state.value + 1e-4 * expected
        level = value <= state.value + 8 * eps * jnp.abs(state.value)
        level &= projected(trial, gradient) < projected(state.point, state.gradient)
        accept = (first | lowers | level) & jnp.isfinite(value) & jnp.all(jnp.isfinite(gradient))

        model = jnp.where((state.accepted == 1) & (move @ bend > 0), bend @ bend / (move @ bend) * eye, state.curvature)
        model = jnp.where(move @ move > 0, _update(model, move, bend), model)
        model = jnp.where(first, jnp.maximum(jnp.max(jnp.abs(gradient)), 1) * eye, model)
        model = jnp.where(accept, model, state.curvature)
        point, value_, gradient_ = (
            jnp.where(accept, new, old)
            for new, old in ((trial, state.point), (value, state.value), (gradient, state.gradient))
        )
        free = ~(((point <= lower) & (gradient_ > 0)) | ((point >= upper) & (gradient_ < 0)))
        root = triangular_inverse(jnp.linalg.cholesky(jnp.where(free & free[:, None], model, eye)))
        downhill = -(root @ jnp.where(free, gradient_, 0)) @ root
        whole = jnp.minimum(1, LONGEST / jnp.maximum(jnp.max(jnp.abs(downhill)), LONGEST))
        excess = value - state.value - expected
        shorter = jnp.clip(-expected / (2 * jnp.where(excess > 0, excess, 1)), 0.1, 0.5)
        shorter = jnp.where(jnp.isfinite(value) & (excess > 0), shorter, 0.25) * state.length
        tries = jnp.where(accept, 0, state.tries + 1)
        state = _State(
            point=point,
            value=value_,
            gradient=gradient_,
            curvature=model,
            direction=jnp.where(accept, downhill, state.direction),
            length=jnp.where(accept, whole, shorter),
            tries=tries,
            accepted=state.accepted + accept,
            dropped=state.dropped,
        )
        if rivals is not None:
            state = state._replace(dropped=accept & rivals.beat(state, downhill))
        residual = projected(point, gradient_) / scale
        lost = jnp.isinf(value_) | (tries >= TRIES) | state.dropped  # at a start that is not finite, too
        return state, jnp.where(lost, jnp.inf, residual)

    zero = jnp.zeros((), jnp.int32)
    flat = jnp.zeros_like(start)
    begin = _State(
        point=start,
        value=jnp.full((), jnp.inf, start.dtype),
        gradient=flat,
        curvature=eye,
        direction=flat,
        length=jnp.ones((), start.dtype),
        tries=zero,
        accepted=zero,
        dropped=jnp.array(False),
    )
    known = None if active is None else jnp.where(active, jnp.inf, 0).astype(start.dtype)
    result = iterate(step, begin, tol=tol, max_iter=max_iter, patience=max_iter + 1, error=known, last=True)
    state = result.state
    status = jnp.where(result.status == Status.NON_FINITE, Status.FLOOR, result.status)
    status = jnp.where(jnp.isinf(state.value), Status.NON_FINITE, status)
    at_end = ((state.point <= lower) & (state.gradient > 0)) | ((state.point >= upper) & (state.gradient < 0))
    status = jnp.where((status == Status.CONVERGED) & jnp.any(at_end), Status.BOUNDARY, status)
    skipped = jnp.array(False) if active is None else ~active
    status = jnp.where(state.dropped | skipped, Status.DROPPED, status).astype(jnp.int32)
    residual = projected(state.point, state.gradient) / scale
    return Minimum(state.point, state.value, state.gradient, state.curvature, residual, result.num_iter, status)


def _update(model: Array, move: Array, bend: Array) -> Array:
    """The BFGS formula for the second derivative, from a step and the change of the gradient along it."""
    image = model @ move
    had, found = move @ image, move @ bend
    share = jnp.where(found < 0.2 * had, 0.8 * had / jnp.where(found < 0.2 * had, had - found, 1), 1)
    bend = share * bend + (1 - share) * image  # damped: a fifth of the curvature stays where the function is concave
    return model - jnp.outer(image, image) / had + jnp.outer(bend, bend) / (move @ bend)
