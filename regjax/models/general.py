"""Σᵢ vᵢ ℓ(yᵢ, oᵢ + b + xᵢw) + P(w) for losses other than the squared one."""

from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from regjax.core.checks import as_float_array, require
from regjax.core.implicit import implicit_solution, with_derivative_of
from regjax.core.solution import Status, succeeded
from regjax.losses import Loss
from regjax.models.by_lanes import Found, are_small, fit_lanes
from regjax.models.penalized import worst
from regjax.models.prepare import prepare, within
from regjax.models.problem import Samples, silence
from regjax.models.shared_design import SharedDesign, poisoned, share
from regjax.penalties import Penalty, Zero, is_valid, limit
from regjax.solvers.any_loss import minimize_loss, takes_turned
from regjax.solvers.exact_fits import quantile_null_pull, with_derivatives
from regjax.solvers.manifold import optimality, solve_on_manifold
from regjax.solvers.program import is_program, quantile_program
from regjax.solvers.task import Task, null_model, place, working_point
from regjax.solvers.vertex import vertex


class Arguments(NamedTuple):
    """Checked arrays of a fit: X (n, p), y (n, k), offset (n, t), weights (n,) or None, limits or None."""

    X: Array
    y: Array
    offset: Array
    weights: Array | None
    loss: Loss
    penalty: Penalty
    limits: tuple[Array, Array] | None


class Limits(NamedTuple):
    """A number of a loss, and the open interval in which it must lie."""

    name: str
    value: Any
    low: float
    high: float

    def hold(self) -> Array:
        """Whether it does."""
        value = jnp.asarray(self.value)
        return jnp.all((value > self.low) & (value < self.high))


def limits_of(loss: Any) -> list[Limits]:
    """Those of all numbers of a loss; its other fields choose a form."""
    numbers = [entry.name for entry in fields(loss) if not entry.metadata.get("static")]
    return [Limits(name, getattr(loss, name), *loss.limits.get(name, (0.0, float("inf")))) for name in numbers]


def check_loss(loss: Any, samples: Samples) -> Loss:
    """The loss with its numbers as arrays; raises `ValueError` where y is outside of its domain."""
    if not hasattr(loss, "slopes"):
        raise ValueError(f"loss must be a loss of regjax.losses, got {loss!r}")
    numbers = {a.name: as_float_array(a.name, a.value).astype(samples.X.dtype) for a in limits_of(loss)}
    loss = replace(loss, **numbers)
    for number in limits_of(loss):
        name, value, low, high = number
        if value.shape not in ((), samples.Y.shape[1:]):
            takes = "a number" if samples.single else f"a number or one for each target, {samples.Y.shape[1:]}"
            raise ValueError(f"{name} of {type(loss).__name__} has shape {value.shape}: it takes {takes}")
        require(
            lambda value, number=number: number._replace(value=value).hold(),
            value,
            message=f"{name} of {type(loss).__name__} must be between {low:g} and {high:g}, got {value}{loss.instead}",
        )
    require(
        lambda y, v: jnp.all(accepted(loss, y, v)),
        samples.Y,
        samples.weights,
        message=f"y of {type(loss).__name__} takes {loss.domain}; it has other values",
    )
    return loss


def known_parameters(loss: Any) -> Array:
    """Whether the (traced) numbers of a loss are between the limits that `check_loss` asks for."""
    return jnp.all(jnp.array([True, *(number.hold() for number in limits_of(loss))]))


def accepted(loss: Loss, y: Array, weights: Array | None) -> Array:
    """Whether the loss takes y, or does not look at it."""
    good = loss.valid(y)
    return good if weights is None else good | (weights == 0)[:, None]


@partial(jax.jit, static_argnames=("intercept", "standardize", "solver", "max_iter"))
def fit_general(arguments: Arguments, init, tol, *, intercept, standardize, solver, max_iter):
    """Coefficients (p, t), the intercept (t,), and the rest of a `Solution`."""
    turned = takes_turned(solver, arguments.loss, arguments.penalty)

    def share_columns(X, weights):
        return share(X, weights, intercept or arguments.loss.cancels_constants)

    def careful(arguments, init, tol):
        pose = partial(_pose_turned, share=share_columns) if turned else pose_task
        task, penalty, data, size = pose(arguments, intercept, standardize)
        start = jnp.concatenate([jnp.zeros_like(init[:1]), init * size[:, None]])
        outcome = minimize_loss(task, penalty, start, solver=solver, tol=tol, max_iter=max_iter)
        point, objective = outcome.coef, outcome.objective
        objective = task.objective(penalty, point) if objective is None else objective
        b = task.one * point[0] - data.mean_x @ point[1:]
        return Found(outcome._replace(coef=point.at[0].set(b), objective=None), objective)

    small = are_small(arguments, init, solver) and not standardize
    outcome, known_objective = fit_lanes(
        arguments, init, tol, careful, intercept=intercept, small=small, share=share_columns if turned else None
    )
    task, penalty, data, size = pose_task(arguments, intercept, standardize)  # X only for derivatives
    known_b, w = task.loss.visible(outcome.coef[0]), outcome.coef[1:]
    centred_b = outcome.coef[0] + lax.stop_gradient(data.mean_x) @ w
    outcome = outcome._replace(coef=jnp.concatenate([centred_b[None], w]))
    if isinstance(penalty, Zero):  # of what the loss does not see, as what all classes have in common, there is none
        outcome = outcome._replace(coef=task.loss.visible(outcome.coef))
    if task.loss.smooth:
        point = implicit_solution(optimality, solve_on_manifold, outcome.coef, (task, penalty), None)
        point = task.loss.visible(point) if isinstance(penalty, Zero) else point  # and of its derivative
    elif is_program(penalty):
        again = vertex(quantile_program(task, penalty), outcome.coef.ravel())
        point = with_derivative_of(outcome.coef, again.reshape(outcome.coef.shape))
    else:
        point = with_derivative_of(outcome.coef, with_derivatives(task, penalty, outcome.coef))
    objective = task.objective(penalty, point)
    b = task.loss.visible(task.one * point[0] - data.mean_x @ point[1:])  # no penalty charges what it does not see
    b, objective = with_derivative_of(known_b, b), with_derivative_of(known_objective, objective)
    proof = outcome.certificate if outcome.status.ndim == 0 else outcome.certificate.over_targets()
    taken = jnp.all(accepted(arguments.loss, arguments.y, data.weights))
    valid = data.valid & is_valid(penalty) & known_parameters(arguments.loss) & (tol >= 0) & taken
    status = worst(jnp.atleast_1d(outcome.status))
    status = jnp.where(succeeded(status) & ~jnp.isfinite(objective), Status.NON_FINITE, status)
    status = jnp.where(valid, status, Status.INVALID).astype(jnp.int32)
    known = valid & (status != Status.NON_FINITE)
    coef = within(arguments.limits, point[1:] / size[:, None])
    coef, b = (jnp.where(known, a, jnp.nan) for a in (coef, b))
    return coef, b, status, jnp.max(outcome.num_iter), proof.residual, proof.relative_gap, objective


def pose_task(arguments: Arguments, intercept: bool, standardize: bool):
    """The task on centred, scaled columns, its penalty, the centred data, and the scale of the columns (p,)."""
    X, y, offset, weights, loss, penalty, limits = arguments
    about_means = intercept or loss.cancels_constants  # which makes the intercept of the centred columns 0 as well
    data, penalty, size = prepare(X, y, weights, penalty, limits, about_means, standardize)
    data = data if intercept else data._replace(mean_x=jnp.zeros_like(data.mean_x))
    y, offset = (a if weights is None else silence(a, weights) for a in (y, offset))
    one = jnp.asarray(float(intercept), X.dtype)
    return Task(data.X, loss.encode(y, data.weights), offset, data.weights, one, loss), penalty, data, size


class Middle(NamedTuple):
    """The means of the scaled columns (p,), zero without an intercept."""

    mean_x: Array


def _pose_turned(arguments: Arguments, intercept: bool, standardize: bool, share: Callable[[Array, Array], Any]):
    """`pose_task` of a `SharedDesign`, or of X: of the centred data only the means are known."""
    X, y, offset, weights, loss, penalty, limits = arguments
    v = jnp.ones(len(y), y.dtype) if weights is None else weights
    design = X if isinstance(X, SharedDesign) else share(X, v)
    columns, size = design.pose(v, intercept or loss.cancels_constants, standardize)
    if limits is not None:
        penalty = limit(penalty, *(end * size[:, None] for end in limits))
    y, offset = silence(y, v), poisoned(silence(offset, v), design, v)
    one = jnp.asarray(float(intercept), columns.dtype)
    mean_x = one * (design.center + columns.mean) / size
    return Task(columns, loss.encode(y, v), offset, v, one, loss), penalty, Middle(mean_x), size


@partial(jax.jit, static_argnames=("intercept", "standardize"))
def lam_max_general(arguments: Arguments, *, intercept, standardize):
    """The dual norm of the gradient at the null model."""
    task, penalty, _, _ = pose_task(arguments, intercept, standardize)
    if not task.loss.smooth:
        return penalty.dual_norm(-quantile_null_pull(task, penalty)[1:])
    null = null_model(task, penalty)
    _, slopes = working_point(task, place(task, null.point))
    return penalty.dual_norm(-task.pull(slopes)[1:])
