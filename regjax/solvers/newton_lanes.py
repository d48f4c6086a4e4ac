"""Newton's method for many small problems at once: whole steps from the null model, in plain operations.

A problem of some hundred samples is solved in a few dozen operations, each of which takes less time than it takes to
start it; problems of one shape are therefore advanced together. Whole steps are all that an ordinary problem needs.
What does not get to its minimum that way (a step that overshoots, columns that depend on each other, classes that a
plane separates) is for `newton`, which takes more care.
"""

import jax
import jax.numpy as jnp
from jax import Array, lax

from regjax.core.linalg import solve_small
from regjax.core.loop import iterate
from regjax.core.solution import Status
from regjax.penalties import Penalty, Zero
from regjax.solvers.newton import penalty_hessian
from regjax.solvers.run import Outcome
from regjax.solvers.task import Null, Task, certify_and_pull, runs_away, worth_of_one

_STEPS = 12  # Hessians that a problem may take
_SOUND = 1e-5  # smallest pivot of a Hessian with unit diagonal whose steps need no second look


def newton_attempt(task: Task, penalty: Penalty, init: Array, tol: Array) -> tuple[Outcome, Array, Array]:
    """Whole Newton steps of one problem, the objective there, and whether it is a minimum beyond doubt."""
    n, p = task.X.shape
    rows = lax.optimization_barrier(jnp.concatenate([jnp.full((1, n), task.one), task.X.T]))
    # a Hessian with rounding gives as good steps, in half of the time
    coarse = jnp.concatenate([jnp.full((n, 1), task.one), task.X], axis=1).astype(jnp.float32)
    dual = not isinstance(penalty, Zero)
    null = _null_model(task, rows, dual)
    bend = penalty_hessian(penalty, init[1:])
    bend = jnp.zeros((p + 1, p + 1), rows.dtype) if bend is None else jnp.pad(bend, ((1, 0), (1, 0)))
    inside = jnp.append(task.one, penalty.tangent(init[1:], jnp.ones_like(init[1:])))
    scale = jnp.where(null.slope > 0, null.slope, 1)
    unit = jnp.ones_like(init[:, 0]).at[0].set(null.of_one)
    eps = float(jnp.finfo(init.dtype).eps)
    rounding = float(jnp.finfo(coarse.dtype).eps)
    goal = jnp.clip(tol, 4 * eps, eps**0.4)

    def step(state):
        point, *_, before = state
        eta = task.offset + (point @ rows)[:, None]
        slopes, h = task.slopes(eta)[:, 0], task.press(eta, jnp.ones_like(eta))[:, 0]
        slope = (rows @ slopes + bend @ point) * inside
        hessian = ((rows * h).astype(coarse.dtype) @ coarse).astype(rows.dtype)
        hessian = (hessian + bend) * inside * inside[:, None] + jnp.diag(1 - inside)
        direction, pivot = solve_small(hessian, -slope)
        error = jnp.max(jnp.abs(slope) * unit) / scale
        # the error after the step, with a margin: squares go down, as far as the rounding of the Hessian lets them
        fall = jnp.maximum(jnp.minimum(error / before, 0.5) ** 2, rounding / jnp.maximum(pivot, rounding))
        return (point + direction, direction, pivot, error), 4 * error * fall

    start = jnp.where(jnp.all(init == 0), null.point, init)[:, 0]
    state = (start, jnp.zeros_like(start), jnp.ones_like(tol), jnp.full_like(tol, jnp.finfo(tol.dtype).tiny))
    result = iterate(step, state, tol=goal, max_iter=_STEPS, last=True)
    point, direction, pivot, _ = result.state
    eta, change = (task.offset * on + (a @ rows)[:, None] for a, on in ((point, 1), (direction, 0)))
    point = point[:, None]
    proof, _ = certify_and_pull(task, penalty, null, point, dual=dual, eta=eta, pull=lambda slopes: rows @ slopes)
    done = null.exists & (result.status == Status.CONVERGED) & (proof.error <= tol) & (pivot > _SOUND)
    done &= ~runs_away(task, eta, change)
    objective = task.total(eta) + penalty.value(point[1:])
    return Outcome(point, proof, result.num_iter, result.status), objective, done


def _null_model(task: Task, rows: Array, measured: bool) -> Null:
    """The fit of the intercept alone; it exists where whole Newton steps have found it.

    Without an offset the predictor is that of the mean of y, which is found on single numbers before samples are
    looked at. The deviance is 0 unless it is `measured`.
    """

    def look(shift):
        eta = task.offset + task.one * shift
        slopes, h = task.slopes(eta)[:, 0], task.press(eta, jnp.ones_like(eta))[:, 0]
        slope, bend = task.one * jnp.sum(slopes), jnp.sum(h)
        return (shift, slopes, slope / jnp.where(bend > 0, bend, 1)), jnp.abs(slope) / jnp.sum(jnp.abs(slopes))

    def towards(_, shift):
        mean, slope = jax.jvp(task.loss.mean, (shift,), (jnp.ones_like(shift),))
        return shift - jnp.where(slope > 0, (mean - middle) / jnp.where(slope > 0, slope, 1), 0)

    total = jnp.sum(task.weights)
    middle, offset = (task.weights @ a[:, 0] / total for a in (task.y, task.offset))
    shift = task.one * (lax.fori_loop(0, _STEPS, towards, task.loss.start(middle)) - offset)
    eps = float(jnp.finfo(shift.dtype).eps)
    start, error = look(shift)
    result = iterate(lambda state: look(state[0] - state[2]), start, tol=eps**0.75, max_iter=_STEPS, error=error)
    shift, slopes, _ = result.state
    eta = task.offset + task.one * shift
    point = jnp.zeros((len(rows), 1), rows.dtype).at[0].set(shift)
    deviance = jnp.maximum(task.total(eta) - task.loss.least(task.y, task.weights), 0) if measured else shift * 0
    settled = (result.status == Status.CONVERGED) & jnp.isfinite(deviance)
    slope = jnp.max(jnp.abs((rows @ slopes)[1:]))
    return Null(point, eta, deviance, slope, settled, worth_of_one(slope, slopes))
