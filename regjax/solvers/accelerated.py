"""The accelerated proximal gradient method for any smooth loss: it needs nothing but slopes and a prox."""

from typing import Any

import jax.numpy as jnp
from jax import Array, lax

from regjax.core.loop import iterate
from regjax.core.solution import Status
from regjax.penalties import Penalty
from regjax.solvers.certificate import Certificate
from regjax.solvers.manifold import polish_point
from regjax.solvers.run import Outcome
from regjax.solvers.task import Task, certify_point, null_model, separated

_BURST = 20


def accelerated(task: Task, penalty: Penalty, init: Array, *, tol: Any, max_iter: int = 20_000) -> Outcome:
    """FISTA with a step that adapts to the curvature along the way, restarted where the momentum points uphill.

    For losses that couple targets or samples, penalties that couple targets, and penalties that are not convex. Once
    the support has settled, Newton steps along its manifold find the last digits.

    References:
        Beck & Teboulle, A fast iterative shrinkage-thresholding algorithm, SIAM J. Imaging Sciences 2 (2009).
    """
    null = null_model(task, penalty)
    eps = float(jnp.finfo(init.dtype).eps)

    def forward(point, bound):
        """A proximal gradient step 1/L, L raised until the parabola with this curvature lies above the loss."""
        eta = task.predictor(point)
        slope, base = task.pull(task.slopes(eta)), task.total(eta)
        slip = 64 * eps * (jnp.abs(base) + jnp.sum(task.weights))

        def attempt(state):
            _, bound = state
            bound = 2 * bound
            moved = point - slope / bound
            moved = jnp.concatenate([task.one * moved[:1], penalty.prox(moved[1:], 1 / bound)])
            change = moved - point
            model = base + jnp.vdot(slope, change) + bound / 2 * jnp.vdot(change, change)
            above = task.total(task.predictor(moved)) <= model + slip
            return (moved, bound), jnp.where(above, 0, 1).astype(init.dtype)

        return iterate(attempt, (point, bound / 2), tol=0.5, max_iter=60, patience=61).state

    def advance(state):
        point, ahead, momentum, bound = state
        new, bound = forward(ahead, 0.9 * bound)
        uphill = jnp.vdot(ahead - new, new - point) > 0
        momentum = jnp.where(uphill, 1, momentum)
        following = (1 + jnp.sqrt(1 + 4 * momentum**2)) / 2
        return new, new + jnp.where(uphill, 0, (momentum - 1) / following) * (new - point), following, bound

    def step(carry):
        state = lax.fori_loop(0, _BURST, lambda _, state: advance(state), carry[0])
        point = polish_point(task, penalty, null, state[0])
        proof = certify_point(task, penalty, null, point)
        return (state, point, proof), proof.error

    start = jnp.where(jnp.all(init == 0), null.point, init)
    one = jnp.ones((), init.dtype)
    guess = jnp.sum(task.weights[:, None] * task.X**2) / task.X.shape[1]
    state = (start, start, one, jnp.where(guess > 0, guess, one))
    unknown = Certificate(one, one, one, one)
    result = iterate(step, (state, start, unknown), tol=tol, max_iter=-(-max_iter // _BURST), patience=20)
    _, point, proof = result.state
    status = jnp.where(separated(task, penalty, null, point), Status.SEPARATED, result.status)
    return Outcome(point, proof, result.num_iter * jnp.int32(_BURST), status.astype(jnp.int32))
