"""Iteratively reweighted least squares, the textbook method for p-norms."""

from typing import Any

import jax.numpy as jnp
from jax import Array

from regjax.core.loop import iterate
from regjax.core.solution import Status
from regjax.losses import Lp, Quantile, Squared
from regjax.penalties import Penalty
from regjax.solvers.certificate import Certificate
from regjax.solvers.manifold import polish_point
from regjax.solvers.newton import newton_direction, penalty_hessian
from regjax.solvers.program import quantile_null
from regjax.solvers.run import Outcome
from regjax.solvers.task import Null, Task, distance, null_model

TAKES = (Lp, Quantile)


def irls(task: Task, penalty: Penalty, init: Array, *, tol: Any, max_iter: int = 1000) -> Outcome:
    """Least squares with the weights |rᵢ|^(p−2) of the residuals before, from weights of 1: no line search.

    The parabola of these weights lies above |r|^p/p and touches it, so that the objective falls at every step for
    1 ≤ p ≤ 2, at a linear rate that is 2 − p, and for p = 1 depends on the data. Weights are guarded: residuals below ε
    count as ε, a part of the largest |y|. For p = 1 (`Quantile(0.5)`; other quantiles add a linear term) the weighted
    residuals are a dual point of the linear program. Where the loss is smooth, Newton steps find the last digits if
    they lower the residual: near p = 1 slopes change too fast for that. The measure is the gap. `init` is not used.

    References:
        Osborne, Finite Algorithms in Optimization and Data Analysis, Wiley 1985, chapter 5.
        Hunter & Lange, Quantile regression via an MM algorithm, J. Comp. Graph. Stat. 9 (2000).
    """
    loss: Any = task.loss
    target, v = task.y - task.offset, task.weights[:, None]
    eps = float(jnp.finfo(init.dtype).eps)
    least = eps ** (2 / 3) * jnp.max(jnp.where(v > 0, jnp.abs(target), 0))
    least = jnp.where(least > 0, least, 1)
    even: Any = loss if loss.smooth else Quantile(0.5)
    tilt = 0 if loss.smooth else loss.tau - 0.5  # what the loss has besides its even part
    hessian = penalty_hessian(penalty, init[1:])
    if loss.smooth:
        null = null_model(task, penalty, free=jnp.zeros_like)
    else:
        nothing = jnp.zeros_like(init)
        null = Null(nothing, task.predictor(nothing), *quantile_null(task), jnp.array(True))

    def certify(point, dual):
        """With a dual point that the equations of weighted least squares make orthogonal to what is free."""
        eta = task.predictor(point)
        if not loss.smooth:
            over = jnp.maximum(dual / loss.tau, dual / (loss.tau - 1))
            dual = dual / jnp.max(jnp.where(v > 0, over, 0), initial=1)
        gap = loss.excess(task.y, eta, -dual, task.weights) + penalty.slack(point[1:], task.pull(v * dual)[1:])
        slopes = task.slopes(eta) if loss.smooth else -v * dual
        return Certificate(gap, null.deviance, distance(penalty, point, task.pull(slopes), null.of_one), null.slope)

    def step(state):
        point, h, _, _ = state
        eta = task.predictor(point)
        squares = task._replace(weights=v[:, 0] * h[:, 0], loss=Squared())
        point = point + newton_direction(squares, penalty, hessian, point, eta, v * (h * (eta - task.y) - tilt))
        r = task.y - task.predictor(point)
        dual = h * r + tilt
        size = jnp.maximum(jnp.abs(r), least)
        proof = certify(point, dual)
        return (point, even.gradient(jnp.zeros_like(size), size) / size, dual, proof), proof.error

    one, ones = jnp.ones((), init.dtype), jnp.ones_like(target)
    state = (jnp.zeros_like(init), ones, ones, Certificate(one, one, one, one))
    result = iterate(step, state, tol=4 * eps, max_iter=max_iter, patience=50)
    point, _, dual, proof = result.state
    if loss.smooth:
        point = polish_point(task, penalty, null, point)
        proof = certify(point, dual)
    status = jnp.where(proof.error <= tol, Status.CONVERGED, result.status)
    status = jnp.where((status == Status.CONVERGED) & ~(proof.error <= tol), Status.FLOOR, status)
    return Outcome(point, proof, result.num_iter, status.astype(jnp.int32))
