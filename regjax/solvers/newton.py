"""Newton's method for any smooth loss: damped under quadratic penalties, proximal under the others."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from regjax.core.factors import factorize
from regjax.core.krylov import conjugate_gradients
from regjax.core.linalg import cross, solve
from regjax.core.loop import iterate
from regjax.core.solution import Status, succeeded
from regjax.penalties import L2, Penalty, Tikhonov, Zero
from regjax.solvers.run import Outcome
from regjax.solvers.task import Task, certify_point, damped, distance, null_model, runs_away, working_point


def is_quadratic(penalty: Penalty) -> bool:
    """Whether the penalty is a quadratic form, without a kink."""
    return isinstance(penalty, Zero | L2 | Tikhonov)


def newton(task: Task, penalty: Penalty, init: Array, *, tol: Any, max_iter: int = 100) -> Outcome:
    """Damped Newton steps (Fisher scoring where the loss is not convex) to the floor of rounding.

    The intercept is profiled out of each step by centring the columns with the working weights. Where the residual is
    small but the next step would still be long, the minimum is at infinity: the status is SEPARATED.

    References:
        McCullagh & Nelder, Generalized Linear Models, Chapman & Hall 1989, section 2.5.
    """
    null = null_model(task, penalty, free=jnp.zeros_like)
    hessian = penalty_hessian(penalty, init[1:])
    scale = jnp.where(null.slope > 0, null.slope, 1)

    def step(state):
        point, direction, slope, _ = state
        point = damped(task, penalty, point, direction, jnp.vdot(slope, direction))
        at, slopes = working_point(task, point)
        error = distance(penalty, point, task.pull(slopes)) / scale
        feasible = jnp.all(at == task.predictor(point))
        error = jnp.where(feasible | jnp.isnan(error), error, jnp.finfo(error.dtype).max)
        return (point, *newton_direction(task, penalty, hessian, point, at, slopes)), error

    cold = jnp.all(init == 0)
    start = jnp.where(cold | ~jnp.isfinite(task.objective(penalty, init)), null.point, init)
    eps = float(jnp.finfo(init.dtype).eps)
    still = jnp.zeros_like(init)
    state = (start, still, still, jnp.int32(Status.CONVERGED))
    result = iterate(step, state, tol=4 * eps, max_iter=max_iter + 1, patience=5)
    point, direction, _, remark = result.state
    proof = certify_point(task, penalty, null, point, dual=not isinstance(penalty, Zero))
    status = jnp.where(proof.error <= tol, jnp.where(succeeded(remark), remark, Status.CONVERGED), result.status)
    status = jnp.where((status == Status.CONVERGED) & ~(proof.error <= tol), Status.FLOOR, status)
    status = jnp.where(runs_away(task, point, direction) | ~null.exists, Status.SEPARATED, status)
    status = jnp.where(jnp.isfinite(proof.error), status, Status.NON_FINITE)
    return Outcome(point, proof, result.num_iter - 1, status.astype(jnp.int32))


def penalty_hessian(penalty: Penalty, w: Array) -> Array | None:
    """Ω (p, p) of a quadratic penalty of one column; None for no penalty, and where it is not needed as a matrix."""
    if isinstance(penalty, Zero) or w.shape[1] > 1:
        return None
    return jax.jacfwd(jax.grad(penalty.value))(jnp.zeros_like(w)).reshape(len(w), len(w))


def newton_direction(
    task: Task, penalty: Penalty, hessian: Array | None, point: Array, at: Array, slopes: Array
) -> tuple[Array, Array, Array]:
    """The Newton step, the gradient, and a status of the linear system."""
    bend = jax.grad(penalty.value)(point[1:])
    slope = task.pull(slopes) + jnp.concatenate([jnp.zeros_like(point[:1]), bend])
    n, p = task.X.shape
    if task.loss.coupled or point.shape[1] > 1 or p > n:
        return _matrix_free(task, penalty, at, slope, point), slope, jnp.int32(Status.CONVERGED)
    h = task.press(at, jnp.ones_like(at))
    total = jnp.sum(h)
    mean = task.one * (h[:, 0] @ task.X) / jnp.where(total > 0, total, 1)
    centred = task.X - mean
    gram = cross(h * centred, centred)
    rhs = mean[:, None] * slope[0] - slope[1:]
    inside = penalty.tangent(point[1:], jnp.ones_like(rhs))  # all but excluded coefficients
    gram, rhs = gram * inside * inside.T + jnp.diag(1 - inside[:, 0]), inside * rhs
    if hessian is None:
        lam = jnp.zeros((), gram.dtype)
        factor = factorize(gram, lam, root=((jnp.sqrt(h) * centred).T,))
        step = solve(factor, gram, rhs, lam, in_range=True)
    else:
        lam = jnp.ones((), gram.dtype)
        factor = factorize(gram, lam, penalty=hessian)
        step = solve(factor, gram, rhs, lam, hessian)
    shift = -task.one * slope[0] / jnp.where(total > 0, total, 1) - mean @ step
    return jnp.concatenate([shift[None], step]), slope, factor.status


def _matrix_free(task: Task, penalty: Penalty, at: Array, slope: Array, point: Array) -> Array:
    """The Newton step by conjugate gradients."""
    eps = float(jnp.finfo(point.dtype).eps)

    def project(u):
        return jnp.concatenate([task.one * u[:1], penalty.tangent(point[1:], u[1:])])

    def apply(u):
        inside = project(u)
        bend = jax.jvp(jax.grad(penalty.value), (point[1:],), (inside[1:],))[1]
        image = task.pull(task.press(at, task.image(inside)))
        return project(image.at[1:].add(bend)) + u - inside

    return project(
        conjugate_gradients(apply, -project(slope), tol=max(eps**0.9, 1e-14), max_iter=min(2 * point.size, 1000))
    )
