"""One place decides how a problem with a general loss is solved, and sends the lanes of `vmap` through it."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from regjax.core.lanes import by_platform, computes_on_cpu, map_problems, sees_lanes
from regjax.losses import Loss, Lp
from regjax.penalties import Penalty
from regjax.solvers.accelerated import accelerated
from regjax.solvers.engine import takes
from regjax.solvers.interior_point import interior_point
from regjax.solvers.minimize import Solver
from regjax.solvers.newton import is_quadratic, newton
from regjax.solvers.program import is_program
from regjax.solvers.proximal_newton import proximal_newton
from regjax.solvers.reweighted import TAKES, irls
from regjax.solvers.run import Outcome
from regjax.solvers.splitting import splitting
from regjax.solvers.task import Data, Task
from regjax.solvers.working_newton import working_newton

_BY_NAME: dict[str, Solver] = {
    "newton": newton,
    "proximal_newton": proximal_newton,
    "fista": accelerated,
    "interior_point": interior_point,
    "splitting": splitting,
    "irls": irls,
}


def resolve_loss(solver: str | Solver | None, loss: Loss, penalty: Penalty, num_targets: int) -> Solver:
    """The solver that was asked for, or the default; raises `ValueError` where it does not fit.

    `newton` serves quadratic penalties, `proximal_newton` convex ones that treat each target by itself, `fista` the
    rest, and `irls` p-norms, where Newton's parabola is a poor model near zero residuals. Quantiles are for
    `interior_point`, where that is a linear or quadratic program, else for `splitting`.
    """
    names, what = type(loss).__name__, type(penalty).__name__
    apart = not loss.coupled and (num_targets == 1 or penalty.separable)
    if solver is None:
        if not loss.smooth:
            solver = "interior_point" if is_program(penalty) or loss.coupled else "splitting"
        elif is_quadratic(penalty):
            solver = "irls" if isinstance(loss, Lp) and apart else "newton"
        else:
            solver = "proximal_newton" if apart and penalty.convex else "fista"
    found = _BY_NAME.get(solver) if isinstance(solver, str) else solver
    if found is None or not callable(found):
        raise ValueError(f"solver must be one of {', '.join(_BY_NAME)} for {names}, got {solver!r}")
    if found is irls and not (isinstance(loss, TAKES) and apart):
        raise ValueError(f"irls takes Lp and Quantile of one target at a time, not {names}")
    if found is not irls and loss.smooth == (found in (interior_point, splitting)):
        raise ValueError(
            f"interior_point and splitting take Quantile, the other solvers take smooth losses: not for {names}"
        )
    if found is interior_point and not is_program(penalty):
        raise ValueError(
            "interior_point, and quantiles that must not cross, take linear costs, limits and squares, such as L1, Box "
            f"and L2, not {what}"
        )
    if found is splitting and (loss.coupled or not penalty.convex):
        instead = "use interior_point for quantiles that must not cross" if loss.coupled else f"not {what}"
        raise ValueError(f"splitting takes convex penalties, of quantiles that may cross: {instead}")
    if found in (newton, irls) and not is_quadratic(penalty):
        instead = "interior_point or splitting" if not loss.smooth else "proximal_newton or fista"
        raise ValueError(f"{found.__name__} takes Zero, L2 and Tikhonov, not {what}: use {instead}")
    if found is proximal_newton and not (apart and penalty.convex):
        raise ValueError(f"proximal_newton takes convex penalties of one target at a time: use fista for {what}")
    return found


def takes_turned(solver: Solver, loss: Loss, penalty: Penalty) -> bool:
    """Whether `minimize_loss` will be done by a solver that takes columns one by one: `Turned` is for it alone."""
    return solver is proximal_newton and takes(penalty) and not loss.coupled and computes_on_cpu()


def minimize_loss(
    task: Task, penalty: Penalty, init: Array, *, solver: Solver, tol: Any, max_iter: int | None
) -> Outcome:
    """The point (p + 1, t) of least value; not differentiable.

    A loss that treats targets alike, with a penalty that is a sum over coefficients, takes each target as a problem of
    its own. Problems that share their data, as under `jax.vmap` over λ, are solved one after the other, each from the
    solution before it (on accelerators all at once).
    """
    one = partial(_minimize, solver=solver, max_iter=max_iter)
    t = init.shape[1]
    if t == 1 or task.loss.coupled or not penalty.separable:
        return one(task, penalty, init, tol)
    shape = (init.shape[0] - 1, t)
    each = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, shape).T[..., None], penalty)
    loss = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (t,)), task.loss)
    targets = task._replace(y=task.y.T[..., None], offset=task.offset.T[..., None], loss=loss)
    axes = Task(None, 0, 0, None, None, 0)  # pyright: ignore[reportArgumentType]
    out = jax.vmap(one, (axes, 0, 0, None))(targets, each, init.T[..., None], tol)
    return out._replace(coef=out.coef[..., 0].T)


def _minimize(task: Task, penalty: Penalty, init: Array, tol: Any, *, solver: Solver, max_iter: int | None) -> Outcome:
    numerics = {} if max_iter is None else {"max_iter": max_iter}

    def in_turn(data, variants):
        return _in_turn(partial(solver, **numerics), data, *variants)

    def on_columns_that_matter(data, variants):
        return working_newton(data, *variants, **({"max_iter": 100} | numerics))

    focused = takes_turned(solver, task.loss, penalty)

    @sees_lanes
    def over_lanes(data, loss, penalty, init, tol):
        how = on_columns_that_matter if focused else in_turn
        return map_problems(how, data, (loss, penalty, init, tol), rank=data[-1].ndim)

    data = (task.X, task.y, task.offset, task.weights, task.one)
    return over_lanes(*lax.stop_gradient((data, task.loss, penalty, init, tol)))


def _in_turn(solver, data: Data, loss, penalty, init, tol):
    """Variants of one problem, each started from the solution before it where that is safe."""

    def one(previous, variant):
        loss, penalty, init, tol = variant
        warm = penalty.convex and loss.convex
        start = jnp.where(jnp.all(init == 0), previous, init) if warm else init
        outcome = solver(Task(*data, loss), penalty, start, tol=tol)
        good = jnp.all(jnp.isfinite(outcome.coef))
        return jnp.where(good, outcome.coef, 0), outcome

    cold = jnp.zeros_like(init[0])
    variants = (loss, penalty, init, tol)
    if len(tol) == 1:
        alone = jax.tree.map(lambda leaf: leaf[0], variants)
        return jax.tree.map(lambda leaf: leaf[None], one(cold, alone)[1])
    return by_platform(
        *variants,
        cpu=lambda *variants: lax.scan(one, cold, variants)[1],
        default=lambda *variants: jax.vmap(lambda *variant: one(cold, variant)[1])(*variants),
    )
