"""Proximal Newton: a smooth loss under any convex penalty, as a sequence of penalised least squares problems."""

from functools import partial
from typing import Any

import jax.numpy as jnp
from jax import Array

from regjax.core.lanes import by_platform
from regjax.core.loop import iterate
from regjax.core.solution import Status
from regjax.penalties import Limited, Penalty
from regjax.solvers.certificate import Certificate, pose
from regjax.solvers.engine import strengths_of, takes
from regjax.solvers.gram_block import Strengths
from regjax.solvers.manifold import polish_point
from regjax.solvers.proximal import fista
from regjax.solvers.run import Outcome
from regjax.solvers.task import Task, advance, certify_point, null_model, place, quadratic_model
from regjax.solvers.working_newton import working_newton


def proximal_newton(task: Task, penalty: Penalty, init: Array, *, tol: Any, max_iter: int = 100) -> Outcome:
    """Damped steps to the minimiser of a quadratic model of the loss plus the penalty itself.

    The model ½ Σ hᵢ(zᵢ − b − xᵢw)² + P(w), with the working weights h and responses z of a generalized linear model, is
    minimised by the solver that least squares with this penalty has; for ℓ1-type penalties, on the columns that matter.

    References:
        Lee, Sun & Saunders, Proximal Newton-type methods for minimizing composite functions, SIAM J. Optim. 24 (2014).
        Friedman, Hastie & Tibshirani, Regularization paths for GLMs via coordinate descent, JSS 33 (2010).
    """
    general = partial(_proximal_newton, task, penalty, max_iter=max_iter)
    if not takes(penalty) or task.loss.coupled or init.shape[1] > 1:
        return general(init, tol)
    l1, l2, lower, upper = strengths_of(penalty, init[1:].shape)
    strengths = Strengths(l1, l2, (lower, upper) if isinstance(penalty, Limited) else None)
    focused = partial(working_newton, task, penalty, strengths, max_iter=max_iter)
    return by_platform(init, tol, cpu=lambda init, tol: focused(init, tol=tol), default=general)


def _proximal_newton(task: Task, penalty: Penalty, init: Array, tol: Array, *, max_iter: int) -> Outcome:
    """With `fista` on all columns; once the support has settled, Newton steps along its manifold."""
    null = null_model(task, penalty)

    def step(state):
        point, proof = state
        w = point[1:]
        here = place(task, point)
        h, target, slopes = quadratic_model(task, here)
        total = jnp.sum(h)
        mean_x = task.one * (h[:, 0] @ task.X) / jnp.where(total > 0, total, 1)
        mean_y = task.one * jnp.sum(h * target) / jnp.where(total > 0, total, 1)
        root = jnp.sqrt(h)
        goal = 1e-2 * jnp.clip(proof.error, tol, 1)
        model = pose(root * (task.X - mean_x), root * (target - mean_y), penalty)
        best = fista(model, penalty, w, tol=goal).coef
        direction = jnp.concatenate([(mean_y - mean_x @ best)[None], best]) - point
        predicted = jnp.vdot(task.pull(slopes), direction) + penalty.value(best) - penalty.value(w)
        point = polish_point(task, penalty, null, advance(task, penalty, here, direction, predicted).point)
        proof = certify_point(task, penalty, null, point)
        return (point, proof), proof.error

    start = jnp.where(jnp.all(init == 0), null.point, init)
    unknown = Certificate(jnp.ones_like(null.slope), jnp.ones_like(null.slope), null.slope, null.slope)
    result = iterate(step, (start, unknown), tol=tol, max_iter=max_iter, patience=10)
    point, proof = result.state
    status = jnp.where(null.exists, result.status, Status.SEPARATED)
    return Outcome(point, proof, result.num_iter, status.astype(jnp.int32))
