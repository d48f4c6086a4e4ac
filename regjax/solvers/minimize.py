"""One place decides how a problem is solved, and sends the lanes of `vmap` through it."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from regjax.core.lanes import by_platform, map_problems, sees_lanes
from regjax.penalties import Penalty
from regjax.solvers.admm import admm
from regjax.solvers.certificate import Columns, Moments, Problem, pose
from regjax.solvers.coordinate import coordinate_descent
from regjax.solvers.engine import takes, working_set, working_set_path
from regjax.solvers.proximal import fista, ista
from regjax.solvers.run import Outcome

Solver = Callable[..., Outcome]
_BY_NAME: dict[str, Solver] = {
    "ista": ista,
    "fista": fista,
    "coordinate_descent": coordinate_descent,
    "admm": admm,
    "working_set": working_set,
}


def automatic(problem: Problem, penalty: Penalty, init: Array, *, tol: Any, max_iter: int = 50_000) -> Outcome:
    """The default for the lasso and the elastic net: `working_set` on CPU.

    Its loops are sequential, which accelerators are slow at: there it is `fista`, all lanes at once.
    """
    return fista(problem, penalty, init, tol=tol, max_iter=max_iter)


def resolve(solver: str | Solver | None, penalty: Penalty) -> Solver:
    """The solver that was asked for, or the default: `automatic` where the engine applies, else `fista`."""
    if solver is None:
        return automatic if takes(penalty) else fista
    found = _BY_NAME.get(solver) if isinstance(solver, str) else solver
    if found is None or not callable(found):
        raise ValueError(f"solver must be one of {', '.join(_BY_NAME)}, got {solver!r}")
    if found is working_set and not takes(penalty):
        raise ValueError(
            f"working_set takes L1 and ElasticNet with factors and limits, not {type(penalty).__name__}: use fista"
        )
    return found


def minimize(
    X: Array, Y: Array, penalty: Penalty, init: Array, *, solver: Solver, tol: Any, max_iter: int | None
) -> Outcome:
    """Coefficients (p, t) of least value; not differentiable.

    Penalties that are sums over single coefficients take each target as a problem of its own. Problems that share
    their data and differ in the penalty only, as under `jax.vmap` over λ, are solved one after the other, each from
    the solution before it (on accelerators all at once).
    """
    if penalty.separable and Y.shape[1] > 1:
        each = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, init.shape).T[..., None], penalty)
        one = partial(_minimize, solver=solver, max_iter=max_iter)
        out = jax.vmap(one, (None, 0, 0, 0, None))(X, Y.T[..., None], each, init.T[..., None], tol)
        return out._replace(coef=out.coef[..., 0].T)
    return _minimize(X, Y, penalty, init, tol, solver=solver, max_iter=max_iter)


def minimize_moments(
    gram: Array, moments: Array, energy: Array, penalty: Penalty, init: Array, *, tol: Any, max_iter: int | None
) -> Outcome:
    """`minimize` by the engine, given XᵀX (p, p), XᵀY (p, t) and the squares of the targets (t,)."""
    numerics = {} if max_iter is None else {"max_iter": max_iter}

    def as_path(sums, variants):
        return working_set_path(Moments(*sums), *variants, **numerics)

    @sees_lanes
    def over_lanes(gram, moments, energy, penalty, init, tol):
        return map_problems(as_path, (gram, moments, energy), (penalty, init, tol), rank=energy.ndim)

    def one(moments, energy, penalty, init):
        return over_lanes(*lax.stop_gradient((gram, moments, energy, penalty, init, tol)))

    if init.shape[1] == 1:
        return one(moments[:, 0], energy[0], penalty, init)
    each = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, init.shape).T[..., None], penalty)
    out = jax.vmap(one)(moments.T, energy, each, init.T[..., None])
    return out._replace(coef=out.coef[..., 0].T)


def _minimize(X, Y, penalty, init, tol, *, solver, max_iter) -> Outcome:
    numerics = {} if max_iter is None else {"max_iter": max_iter}

    def in_turn(data, variants):
        return _in_turn(partial(solver, **numerics), *data, *variants)

    def as_path(data, variants):
        return working_set_path(Columns(*data), *variants, **numerics)

    def on_this_platform(data, variants):
        return by_platform(data, variants, cpu=as_path, default=in_turn)

    @sees_lanes
    def over_lanes(X, Y, penalty, init, tol):
        how = on_this_platform if solver is automatic else as_path if solver is working_set else in_turn
        return map_problems(how, (X, Y), (penalty, init, tol), rank=Y.ndim - 2)

    return over_lanes(*lax.stop_gradient((X, Y, penalty, init, tol)))


def _in_turn(solver, X, Y, penalty, init, tol):
    """Variants of one problem, each started from the solution before it; non-convex ones from their own start."""

    def one(previous, variant):
        penalty, init, tol = variant
        start = jnp.where(jnp.all(init == 0), previous, init) if penalty.convex else init
        outcome = solver(pose(X, Y, penalty), penalty, start, tol=tol)
        good = jnp.all(jnp.isfinite(outcome.coef))
        return jnp.where(good, outcome.coef, 0), outcome

    cold = jnp.zeros_like(init[0])
    return by_platform(
        penalty,
        init,
        tol,
        cpu=lambda *variants: lax.scan(one, cold, variants)[1],
        default=lambda *variants: jax.vmap(lambda *variant: one(cold, variant)[1])(*variants),
    )
