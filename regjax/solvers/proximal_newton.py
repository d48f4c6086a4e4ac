"""Proximal Newton: a smooth loss under any convex penalty, as a sequence of penalised least squares problems."""

from typing import Any

import jax.numpy as jnp
from jax import Array

from regjax.core.loop import iterate
from regjax.core.solution import Status
from regjax.penalties import Penalty
from regjax.solvers.certificate import Certificate, pose
from regjax.solvers.manifold import polish_point
from regjax.solvers.proximal import fista
from regjax.solvers.run import Outcome
from regjax.solvers.task import Task, advance, certify_point, null_model, place, quadratic_model, separated


def proximal_newton(task: Task, penalty: Penalty, init: Array, *, tol: Any, max_iter: int = 100) -> Outcome:
    """Damped steps to the minimiser of a quadratic model of the loss plus the penalty itself.

    The model ½ Σ hᵢ(zᵢ − b − xᵢw)² + P(w), with the working weights h and responses z of a generalized linear model, is
    minimised by `fista` on all columns; once the support has settled, there are Newton steps along its manifold. On CPU
    ℓ1-type penalties are minimised on the columns that matter (`working_newton`).

    References:
        Lee, Sun & Saunders, Proximal Newton-type methods for minimizing composite functions, SIAM J. Optim. 24 (2014).
        Friedman, Hastie & Tibshirani, Regularization paths for GLMs via coordinate descent, JSS 33 (2010).
    """
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
    status = jnp.where(separated(task, penalty, null, point), Status.SEPARATED, result.status)
    return Outcome(point, proof, result.num_iter, status.astype(jnp.int32))
