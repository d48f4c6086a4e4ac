"""Quantile regression by a primal-dual interior point method: a linear program, solved to rounding."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from regjax.core.linalg import cross, solve_shifted
from regjax.core.loop import iterate
from regjax.core.solution import Status
from regjax.penalties import L1, L2, ElasticNet, Penalty, Tikhonov, Zero
from regjax.solvers.certificate import Certificate
from regjax.solvers.run import Outcome
from regjax.solvers.task import Task

TAKES = (Zero, L1, L2, ElasticNet, Tikhonov)


def interior_point(task: Task, penalty: Penalty, init: Array, *, tol: Any, max_iter: int = 100) -> Outcome:
    """Minimise Σ vᵢ ρ_τ(yᵢ − ηᵢ) + P(w) together with its dual, d in [(τ−1)v, τv] with Zᵀd = Ωβ.

    A penalty λ|w| is a sample with the row w, the target 0, the weight 2λ and τ = ½. Mehrotra's predictor and corrector
    share a factorization; the start does not matter, and `init` is not used.

    References:
        Portnoy & Koenker, The Gaussian hare and the Laplacian tortoise, Statistical Science 12 (1997).
    """
    del init
    Z, y, v, tau, omega = _program(task, penalty)
    eps = float(jnp.finfo(Z.dtype).eps)
    null, slope = _null(task)

    def parts(state):
        """Primal residual, dual residual, the objective, and its distance to the dual objective."""
        beta, u, s, d = state
        r = y - Z @ beta
        loss = v * jnp.maximum(tau * r, (tau - 1) * r)
        charge = beta @ omega @ beta / 2
        return r - u + s, omega @ beta - d @ Z, jnp.sum(loss) + charge, jnp.sum(loss - d * r)

    def step(carry):
        beta, u, s, d = carry[:4]
        primal, dual, _, _ = parts(carry[:4])
        above, below = tau * v - d, d + (1 - tau) * v  # slacks of the two limits of d
        scale = 1 / (u / above + s / below)
        matrix = cross(scale[:, None] * Z, Z) + omega

        def direction(first, second):
            """The step towards the complementarities u·above = …, s·below = …, given their defects."""
            q = primal - first / above + second / below
            dbeta = solve_shifted(matrix, (scale * q) @ Z - dual, jnp.zeros((), Z.dtype))
            dd = scale * (q - Z @ dbeta)
            return dbeta, (first + u * dd) / above, (second - s * dd) / below, dd

        def reach(du, ds, dd):
            """How far the step can go before a variable turns negative: primal and dual."""
            return _longest((u, du), (s, ds)), _longest((above, -dd), (below, dd))

        _, du, ds, dd = direction(-u * above, -s * below)
        far, far_dual = reach(du, ds, dd)
        count = 2 * len(y)
        mu = (jnp.sum(u * above) + jnp.sum(s * below)) / count
        ahead = jnp.sum((u + far * du) * (above - far_dual * dd)) + jnp.sum((s + far * ds) * (below + far_dual * dd))
        goal = mu * jnp.clip(ahead / count / mu, 0, 1) ** 3
        dbeta, du, ds, dd = direction(goal - u * above + du * dd, goal - s * below - ds * dd)
        far, far_dual = reach(du, ds, dd)
        state = (beta + far * dbeta, u + far * du, s + far * ds, d + far_dual * dd)
        _, dual, value, gap = parts(state)
        off = jnp.max(jnp.abs(dual))
        error = (gap + off * jnp.sum(jnp.abs(state[0]))) / jnp.where(null > 0, null, 1)
        return (*state, gap, off, value), jnp.maximum(error, 0)

    size = jnp.max(jnp.abs(y))
    size = jnp.where(size > 0, size, 1)
    d = jnp.zeros_like(y)
    start = jnp.zeros_like(Z[0])
    u, s = jnp.maximum(y, 0) + size / 10, jnp.maximum(-y, 0) + size / 10
    one = jnp.ones((), Z.dtype)
    result = iterate(step, (start, u, s, d, one, one, one), tol=8 * eps, max_iter=max_iter, patience=5)
    beta, _, _, _, gap, off, _ = result.state
    point = _with_zeros(task, penalty, beta[:, None])
    status = jnp.where(jnp.isfinite(result.error), jnp.where(result.error <= tol, Status.CONVERGED, Status.FLOOR),
                       Status.NON_FINITE)  # fmt: skip
    proof = Certificate(jnp.maximum(gap, 0), null, off, slope)
    return Outcome(point, proof, result.num_iter, status.astype(jnp.int32))


def _program(task: Task, penalty: Any) -> tuple[Array, Array, Array, Array, Array]:
    """Rows, targets, weights and quantiles of the samples and of the penalty, and Ω (p + 1, p + 1)."""
    X, dtype = task.X, task.X.dtype
    n, p = X.shape
    seen = task.weights > 0
    Z = jnp.concatenate([jnp.full((n, 1), task.one), X], axis=1)
    Z, y = jnp.where(seen[:, None], Z, 0), jnp.where(seen, (task.y - task.offset)[:, 0], 0)
    v = jnp.where(seen, task.weights, 1)  # a row of zeros is free of cost
    tau = jnp.full(n, task.loss.tau, dtype)  # pyright: ignore[reportAttributeAccessIssue]
    w = jnp.zeros((p, 1), dtype)
    bend = jax.jacfwd(jax.grad(penalty.value))(w).reshape(p, p)
    omega = jnp.zeros((p + 1, p + 1), dtype).at[1:, 1:].set(bend).at[0, 0].set(1 - task.one)
    if isinstance(penalty, L1 | ElasticNet):
        terms = penalty.terms(w)
        l1, excluded = (jnp.broadcast_to(a, w.shape)[:, 0] for a in (terms.l1, terms.upper == 0))
        Z = Z.at[:, 1:].multiply(jnp.where(excluded, 0, 1))
        omega += jnp.diag(jnp.concatenate([jnp.zeros(1, dtype), excluded.astype(dtype)]))
        rows = jnp.concatenate([jnp.zeros((p, 1), dtype), jnp.diag((l1 > 0).astype(dtype))], axis=1)
        Z, y = jnp.concatenate([Z, rows]), jnp.concatenate([y, jnp.zeros(p, dtype)])
        v = jnp.concatenate([v, jnp.where(l1 > 0, 2 * l1, 1)])
        tau = jnp.concatenate([tau, jnp.full(p, 0.5, dtype)])
    return Z, y, v, tau, omega


def _null(task: Task) -> tuple[Array, Array]:
    """The objective of the best constant, a quantile of the weighted sample, and the largest slope there."""
    target = (task.y - task.offset)[:, 0]
    order = jnp.argsort(target)
    share = jnp.cumsum(task.weights[order]) / jnp.sum(task.weights)
    tau = task.loss.tau  # pyright: ignore[reportAttributeAccessIssue]
    b = task.one * target[order][jnp.minimum(jnp.sum(share < tau), len(target) - 1)]
    eta = task.offset + b
    return task.total(eta), jnp.max(jnp.abs(task.pull(task.slopes(eta))[1:]))


def _longest(*pairs: tuple[Array, Array]) -> Array:
    """The largest t ≤ 1 with x + t·dx > 0 for every pair, less a little."""
    bounds = [jnp.min(jnp.where(dx < 0, -x / jnp.where(dx < 0, dx, 1), jnp.inf)) for x, dx in pairs]
    return jnp.minimum(0.99995 * jnp.min(jnp.stack(bounds)), 1)


def _with_zeros(task: Task, penalty: Penalty, point: Array) -> Array:
    """The point with exact zeros for the coefficients that an ℓ1 penalty holds near 0, where that costs nothing."""
    tiny = jnp.abs(point[1:]) <= float(jnp.finfo(point.dtype).eps) ** 0.5 * jnp.max(jnp.abs(point[1:]))
    rounded = point.at[1:].set(jnp.where(tiny, 0, point[1:]))
    old, new = (task.objective(penalty, a) for a in (point, rounded))
    return jnp.where(new <= old * (1 + 1e-12), rounded, point)
