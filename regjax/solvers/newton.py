"""Newton's method for any smooth loss: damped under quadratic penalties, proximal under the others."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from regjax.core.factors import Factor, Rows, factorize
from regjax.core.krylov import conjugate_gradients
from regjax.core.linalg import apply_factor
from regjax.core.loop import iterate
from regjax.core.products import weighted_moments
from regjax.core.solution import Status, succeeded
from regjax.penalties import L2, Penalty, Tikhonov, Zero
from regjax.solvers.manifold import polish_point
from regjax.solvers.run import Outcome
from regjax.solvers.task import Task, advance, certify_point, distance, null_model, place, runs_away, working_point

LARGE = 100_000  # entries of X from which a Hessian costs more than the steps that it saves
SHARE = 10  # far from the minimum the Hessian of every tenth sample does, where that many are enough,
FAR = 0.01  # that is, while the residual is above this part of the null model's slope,
TRIALS = 5  # for as many steps, if they gain about what they promise: else the sample is not like the rest


def is_quadratic(penalty: Penalty) -> bool:
    """Whether the penalty is a quadratic form, without a kink."""
    return isinstance(penalty, Zero | L2 | Tikhonov)


class Curvature(NamedTuple):
    """The Hessian at some point, made ready for steps: its factor, and where the columns were centred.

    Attributes:
        factor: of XᵀHX + Ω about the working means.
        mean: of the columns (p,), with the working weights.
        total: of those weights.
        whole: whether it is that of all samples.
    """

    factor: Factor
    mean: Array
    total: Array
    whole: Array


def newton(task: Task, penalty: Penalty, init: Array, *, tol: Any, max_iter: int = 100) -> Outcome:
    """Damped Newton steps (Fisher scoring where the loss is not convex) until the residual is `tol`, and one more.

    The intercept is profiled out of each step by centring the columns with the working weights. Where the residual is
    small but the next step would still be long, the minimum is at infinity: the status is SEPARATED. A Hessian costs
    as much as p gradients: among many samples it is kept for as long as each step leaves a tenth of the residual, and
    far from the minimum it is that of a part of them.

    References:
        McCullagh & Nelder, Generalized Linear Models, Chapman & Hall 1989, section 2.5.
    """
    null = null_model(task, penalty, free=jnp.zeros_like)
    hessian = penalty_hessian(penalty, init[1:])
    scale = jnp.where(null.slope > 0, null.slope, 1)
    eps = float(jnp.finfo(init.dtype).eps)
    goal = jnp.clip(tol, 4 * eps, eps**0.4)  # of the residual, which is small long after the gap is
    by_matrix = _by_matrix(task, init)

    def measure(here):
        at, slopes = working_point(task, here)
        pull = task.pull(slopes)
        error = distance(penalty, here.point, pull, null.of_one) / scale
        error = jnp.where(jnp.isfinite(here.loss) | jnp.isnan(error), error, jnp.finfo(error.dtype).max)
        return at, _with_bend(penalty, here.point, pull), error

    sampled = task.X.shape[0] >= 20 * SHARE * task.X.shape[1] and task.X.size >= 10 * LARGE

    def valued(here):
        return here.loss + penalty.value(here.point[1:])

    def refresh(curvature, point, at, before, error, trials):
        def anew(every=1):
            return curvature_at(task, penalty, hessian, point, at, every)

        if task.X.size < LARGE:
            return anew()
        serves = curvature.whole & ((error <= before / 10) | (error <= goal))
        if not sampled:
            return lax.cond(serves, lambda: curvature, anew)
        which = jnp.where(serves, 0, jnp.where((error <= FAR) | (trials <= 0), 1, 2))
        return lax.switch(which, (lambda: curvature, anew, partial(anew, SHARE)))

    def step(state):
        here, direction, slope, curvature, before, trials = state
        predicted, value = jnp.vdot(slope, direction), valued(here)
        here = advance(task, penalty, here, direction, predicted)
        if task.loss.steeper:  # a bound in place of the curvature leads there at a linear rate, the curvature at once
            here = place(task, polish_point(task, penalty, null, here.point))
        at, slope, error = measure(here)
        if by_matrix:
            trials = jnp.where(value - valued(here) >= -predicted / 10, trials, 0)
            curvature = refresh(curvature, here.point, at, before, error, trials)
            trials = jnp.where(curvature.factor.status == Status.CONVERGED, trials - 1, 0)
            direction = curved_step(task, penalty, curvature, here.point, slope)
        else:
            direction = _matrix_free(task, penalty, at, slope, here.point)
        # the step after the one that reaches the goal squares the error at the price of one pass
        shown = jnp.where((before > goal) & (error <= goal), 2 * goal, error)
        return (here, direction, slope, curvature, error, trials), shown

    given, zero = place(task, init), place(task, null.point, null.eta)
    cold = jnp.all(init == 0) | ~jnp.isfinite(given.loss + penalty.value(init[1:]))
    start = jax.tree.map(lambda a, b: jnp.where(cold, a, b), zero, given)
    still = jnp.zeros_like(init)
    nothing = jax.tree.map(
        lambda a: jnp.zeros(a.shape, a.dtype),
        jax.eval_shape(lambda: curvature_at(task, penalty, hessian, init, task.y)) if by_matrix else None,
    )
    state = (start, still, still, nothing, jnp.array(-1, init.dtype), jnp.int32(TRIALS))
    # on the way down a loss that is not convex slopes may grow for long
    patience = 5 if task.loss.convex else max_iter
    result = iterate(step, state, tol=goal, max_iter=max_iter + 1, patience=patience)
    here, direction, _, curvature, *_ = result.state
    remark = jnp.int32(Status.CONVERGED) if curvature is None else curvature.factor.status
    proof = certify_point(task, penalty, null, here.point, dual=not isinstance(penalty, Zero))
    status = jnp.where(proof.error <= tol, jnp.where(succeeded(remark), remark, Status.CONVERGED), result.status)
    status = jnp.where((status == Status.CONVERGED) & ~(proof.error <= tol), Status.FLOOR, status)
    endless = runs_away(task, here.eta, task.image(direction))
    if task.loss.convex:  # else a null model that does not settle says nothing about other points
        endless |= ~null.exists
    status = jnp.where(endless, Status.SEPARATED, status)
    status = jnp.where(jnp.isfinite(proof.error), status, Status.NON_FINITE)
    return Outcome(here.point, proof, result.num_iter - 1, status.astype(jnp.int32))


def penalty_hessian(penalty: Penalty, w: Array) -> Array | None:
    """Ω (p, p) of a quadratic penalty of one column; None for no penalty, and where it is not needed as a matrix."""
    if isinstance(penalty, Zero) or w.shape[1] > 1:
        return None
    return jax.jacfwd(jax.grad(penalty.value))(jnp.zeros_like(w)).reshape(len(w), len(w))


def newton_direction(
    task: Task, penalty: Penalty, hessian: Array | None, point: Array, at: Array, slopes: Array
) -> Array:
    """The Newton step at a point whose loss is modelled about the predictors `at`, where it has these slopes."""
    slope = _with_bend(penalty, point, task.pull(slopes))
    if not _by_matrix(task, point):
        return _matrix_free(task, penalty, at, slope, point)
    return curved_step(task, penalty, curvature_at(task, penalty, hessian, point, at), point, slope)


def _by_matrix(task: Task, point: Array) -> bool:
    """Whether Newton's steps are made with a Hessian, not by conjugate gradients."""
    n, p = task.X.shape
    return not (task.loss.coupled or point.shape[1] > 1 or p > n)


def _with_bend(penalty: Penalty, point: Array, pull: Array) -> Array:
    """The gradient of the objective (p + 1, t) from that of the loss."""
    return pull.at[1:].add(jax.grad(penalty.value)(point[1:]))


def curvature_at(
    task: Task, penalty: Penalty, hessian: Array | None, point: Array, at: Array, every: int = 1
) -> Curvature:
    """The Hessian of the loss about predictors `at`, as seen in `every` so manyth sample, with that of the penalty."""
    h = every * task.press(at, jnp.ones_like(at))[::every, 0]
    X = task.X[::every]
    total = jnp.sum(h)
    sums, gram = weighted_moments(X, h)
    mean = task.one * sums / jnp.where(total > 0, total, 1)
    raw = jnp.diag(gram)
    gram = gram - total * jnp.outer(mean, mean)  # rounding here costs speed, not accuracy: slopes are exact
    varies = jnp.diag(gram) > 64 * float(jnp.finfo(gram.dtype).eps) * raw  # else it is all that is left
    gram = jnp.where(varies[:, None] & varies, gram, 0)
    inside = _inside(penalty, point)
    gram = gram * inside * inside.T + jnp.diag(1 - inside[:, 0])
    if hessian is None:
        factor = factorize(gram, jnp.zeros((), gram.dtype), root=Rows(X, h, mean))
    else:
        factor = factorize(gram, jnp.ones((), gram.dtype), penalty=hessian)
    return Curvature(factor, mean, total, jnp.array(every == 1))


def curved_step(task: Task, penalty: Penalty, curvature: Curvature, point: Array, slope: Array) -> Array:
    """Minus the inverse of the Hessian times the slope."""
    factor, mean, total, _ = curvature
    size = jnp.where(total > 0, total, 1)
    rhs = _inside(penalty, point) * (mean[:, None] * slope[0] - slope[1:])
    step = apply_factor(factor, rhs, in_range=isinstance(penalty, Zero))
    return jnp.concatenate([(-task.one * slope[0] / size - mean @ step)[None], step])


def _inside(penalty: Penalty, point: Array) -> Array:
    """1 for coefficients that may move, 0 for excluded ones: (p, 1)."""
    return penalty.tangent(point[1:], jnp.ones_like(point[1:]))


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
