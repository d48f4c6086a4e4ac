"""Quantile regression by a primal-dual interior point method: a linear or quadratic program, solved to rounding."""

from typing import Any

import jax.numpy as jnp
from jax import Array

from regjax.core.linalg import solve_shifted
from regjax.core.loop import iterate
from regjax.core.products import cross
from regjax.core.solution import Status
from regjax.penalties import Penalty
from regjax.penalties.separable import Separable
from regjax.solvers.certificate import Certificate
from regjax.solvers.program import Program, program_gap, quantile_null, quantile_program
from regjax.solvers.run import Outcome
from regjax.solvers.task import Task


def interior_point(task: Task, penalty: Penalty, init: Array, *, tol: Any, max_iter: int = 100) -> Outcome:
    """Minimise Σ vᵢ ρ_τ(yᵢ − ηᵢ) + P(w) together with its dual, d in [(τ−1)v, τv] with Zᵀd = Ωβ.

    Penalties, limits and the order of quantiles are further rows of a `Program`. Mehrotra's predictor and corrector
    share a factorization; the start does not matter, and `init` is not used.

    References:
        Portnoy & Koenker, The Gaussian hare and the Laplacian tortoise, Statistical Science 12 (1997).
    """
    program = quantile_program(task, penalty)
    Z, y, low, high, omega = program
    up, down = jnp.isfinite(high), jnp.isfinite(low)  # a limit of d that is infinite has no multiplier
    count = jnp.sum(up) + jnp.sum(down)
    eps = float(jnp.finfo(Z.dtype).eps)
    null, slope = quantile_null(task)
    unit = jnp.where(null > 0, null, 1)
    size = jnp.max(jnp.abs(y))
    size = jnp.where(size > 0, size, 1)

    def slacks(d):
        """The distances of d to its two limits."""
        return jnp.where(up, high - d, 1), jnp.where(down, d - low, 1)

    def step(carry):
        beta, u, s, d = carry[0]
        primal, dual = y - Z @ beta - u + s, omega @ beta - d @ Z
        above, below = slacks(d)
        scale = 1 / (u / above + s / below)
        matrix = cross(scale[:, None] * Z, Z) + omega

        def direction(first, second):
            """The step towards the complementarities u·above = …, s·below = …, given their defects."""
            first, second = jnp.where(up, first, 0), jnp.where(down, second, 0)
            q = primal - first / above + second / below
            dbeta = solve_shifted(matrix, (scale * q) @ Z - dual, jnp.zeros((), Z.dtype))
            dd = scale * (q - Z @ dbeta)
            return dbeta, (first + u * dd) / above, (second - s * dd) / below, dd

        def reach(du, ds, dd):
            """How far the step can go before a variable turns negative: primal and dual."""
            return (_longest((u, du, up), (s, ds, down)), _longest((above, -dd, up), (below, dd, down)))

        _, du, ds, dd = direction(-u * above, -s * below)
        far, far_dual = reach(du, ds, dd)
        mu = (jnp.sum(u * above) + jnp.sum(s * below)) / count
        ahead = jnp.sum((u + far * du) * (above - far_dual * dd)) + jnp.sum((s + far * ds) * (below + far_dual * dd))
        goal = mu * jnp.clip(ahead / count / mu, 0, 1) ** 3
        dbeta, du, ds, dd = direction(goal - u * above + du * dd, goal - s * below - ds * dd)
        far, far_dual = reach(du, ds, dd)
        state = (beta + far * dbeta, u + far * du, s + far * ds, d + far_dual * dd)
        gap, off = program_gap(program, state[0], state[3])
        error = (gap + off * jnp.sum(jnp.abs(state[0]))) / unit + _violation(program, state[0]) / size
        return (state, gap, off), error

    inside = jnp.where(up & down, 0, jnp.where(up, -1, 1) * jnp.mean(task.weights) / 10)
    start = (
        jnp.zeros_like(Z[0]),
        *(jnp.where(has, jnp.maximum(a, 0) + size / 10, 0) for has, a in ((up, y), (down, -y))),
    )
    one = jnp.ones((), Z.dtype)
    result = iterate(step, ((*start, inside.astype(Z.dtype)), one, one), tol=8 * eps, max_iter=max_iter, patience=5)
    (beta, *_), gap, off = result.state
    point = _with_zeros(task, penalty, program, beta.reshape(init.shape))
    status = jnp.where(jnp.isfinite(result.error), jnp.where(result.error <= tol, Status.CONVERGED, Status.FLOOR),
                       Status.NON_FINITE)  # fmt: skip
    return Outcome(point, Certificate(gap, null, off, slope), result.num_iter, status.astype(jnp.int32))


def _violation(program: Program, beta: Array) -> Array:
    """By how much the worst constraint fails."""
    r = program.targets - program.rows @ beta
    above = jnp.where(jnp.isinf(program.high), r, 0)
    below = jnp.where(jnp.isinf(program.low), -r, 0)
    return jnp.maximum(jnp.max(jnp.maximum(above, below)), 0)


def _longest(*variables: tuple[Array, Array, Array]) -> Array:
    """The largest t ≤ 1 with x + t·dx > 0 for every variable that there is, less a little."""
    bounds = [
        jnp.min(jnp.where((dx < 0) & exists, -x / jnp.where(dx < 0, dx, 1), jnp.inf)) for x, dx, exists in variables
    ]
    return jnp.minimum(0.99995 * jnp.min(jnp.stack(bounds)), 1)


def _with_zeros(task: Task, penalty: Penalty, program: Program, point: Array) -> Array:
    """The point with exact zeros for the coefficients that an ℓ1 penalty holds near 0, where that costs nothing."""
    eps = float(jnp.finfo(point.dtype).eps)
    sizes = jnp.abs(point[1:])
    seen = (task.weights > 0)[:, None]
    reach, target = (jnp.max(jnp.where(seen, jnp.abs(a), 0), axis=0) for a in (task.X, task.y - task.offset))
    # where all are held at 0, none is large beside another
    tiny = (sizes <= eps**0.5 * jnp.max(sizes)) | (reach[:, None] * sizes <= eps**0.75 * jnp.max(target))
    rounded = point.at[1:].set(jnp.where(tiny, 0, point[1:]))
    if isinstance(penalty, Separable):  # limits are kept to the last bit
        point, rounded = (a.at[1:].set(penalty.within_limits(a[1:])) for a in (point, rounded))
    old, new = (task.objective(penalty, a) for a in (point, rounded))
    broken, before = (_violation(program, a.ravel()) for a in (rounded, point))
    return jnp.where((new <= old * (1 + 1e-12)) & (broken <= before), rounded, point)
