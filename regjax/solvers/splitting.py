"""Quantiles under any convex penalty: the loss and the penalty take turns, each by its prox."""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from regjax.core.loop import iterate
from regjax.core.products import cross
from regjax.penalties import Penalty
from regjax.solvers.admm import ridge_solver
from regjax.solvers.certificate import Certificate, least_gap, orthogonal_to
from regjax.solvers.exact_fits import Kinks, most_exact_fits, newton_step, pack, slopes_at, unpack
from regjax.solvers.program import quantile_null
from regjax.solvers.run import Outcome
from regjax.solvers.task import Task, distance

_BURST = 50
_RELAXED = 1.6  # steps are longer by this factor


class _Split(NamedTuple):
    """Copies z of η and u of w, what they have been apart in sum, the intercept b, and the price σ of being apart."""

    z: Array
    z_sum: Array
    u: Array
    u_sum: Array
    b: Array
    sigma: Array


def splitting(task: Task, penalty: Penalty, init: Array, *, tol: Any, max_iter: int = 20_000) -> Outcome:
    """Minimise Σ vᵢ ρ_τ(yᵢ − zᵢ) + P(u) subject to z = η and u = w, by the alternating direction method of multipliers.

    The prox of the loss leaves slopes θ of the samples between −τ and 1 − τ: made orthogonal to what is not charged,
    they are the dual point of the gap. Those strictly between belong to samples that are fitted exactly; once these and
    the support have settled, Newton steps on the equations that they fulfil find the last digits.

    References:
        Boyd et al., Distributed optimization and statistical learning via ADMM, Foundations and Trends in ML 3 (2011).
    """
    X, y, offset, weights, one, loss = task
    tau = loss.tau  # pyright: ignore[reportAttributeAccessIssue]
    v, total = weights[:, None], jnp.sum(weights)
    null, slope = quantile_null(task)
    ridge, rho = ridge_solver(jnp.sqrt(v) * X)
    spread = null / total
    eps = float(jnp.finfo(init.dtype).eps)

    def certify(point, theta):
        return certify_slopes(task, penalty, null, slope, point, theta)

    def step(state):
        z, z_sum, u, u_sum, _, sigma = state
        aim = z - z_sum - offset
        b = one * jnp.sum(v * aim, axis=0) / total
        w = ridge(cross(X, v * aim) + rho * (u - u_sum), rho)
        eta = task.predictor(jnp.concatenate([b[None], w]))
        ahead = z_sum + z + _RELAXED * (eta - z)
        theta = jnp.clip(sigma * (ahead - y), -tau, 1 - tau)
        w = u_sum + u + _RELAXED * (w - u)
        u = penalty.prox(w, 1 / (sigma * rho))
        return _Split(ahead - theta / sigma, theta / sigma, u, w - u, b, sigma)

    def balanced(state, before):
        """A price at which the copies close up on each other as fast as they come to rest, in units of the data."""
        z, z_sum, u, u_sum = (a - b for a, b in zip(state[:4], before[:4], strict=True))
        apart, moved = (jnp.sqrt(jnp.sum(v * a**2) + rho * jnp.sum(b**2)) for a, b in ((z_sum, u_sum), (z, u)))
        apart, moved = apart / jnp.where(spread > 0, spread, 1), state.sigma * moved
        factor = jnp.where(moved > 0, jnp.sqrt(apart / jnp.where(moved > 0, moved, 1)), 1)
        factor = jnp.where((factor > 3) | (factor < 1 / 3), jnp.clip(factor, 0.1, 10), 1)
        return state._replace(z_sum=state.z_sum / factor, u_sum=state.u_sum / factor, sigma=state.sigma * factor)

    def polish(point, theta, proof):
        exact = (theta > -tau) & (theta < 1 - tau) & (v > 0)
        kinks = Kinks(task, penalty, exact.astype(init.dtype))
        _, index = lax.top_k(kinks.exact.ravel(), most_exact_fits(task))

        def newton(carry):
            state = newton_step(kinks, carry[0])
            point, multipliers = unpack(state, task)
            proof = certify(point, slopes_at(kinks, point, multipliers))
            return (state, proof), proof.error

        start = (pack(point, jnp.where(exact.ravel()[index], theta.ravel()[index], 0)), proof)
        state, proof = iterate(newton, start, tol=eps, max_iter=8, patience=2, error=proof.error).state
        return unpack(state, task)[0], proof

    def burst(carry):
        state, *_, left = carry
        steps = jnp.minimum(_BURST, left)
        state, before = lax.fori_loop(0, steps, lambda _, pair: (step(pair[0]), pair[0]), (state, state))
        point, theta = jnp.concatenate([state.b[None], state.u]), state.sigma * state.z_sum
        proof = certify(point, theta)
        point, proof = lax.cond(proof.error <= 0.1, lambda: polish(point, theta, proof), lambda: (point, proof))
        return (balanced(state, before), point, proof, left - steps), proof.error

    start = init.at[0].set(one * init[0])
    nothing = jnp.zeros_like(y - offset)
    sigma = 1 / jnp.where(spread > 0, spread, 1)
    state = _Split(task.predictor(start), nothing, start[1:], jnp.zeros_like(start[1:]), start[0], sigma)
    unknown = Certificate(null, null, slope, slope)
    patience = 100 if init.dtype == jnp.float64 else 20
    carry = (state, start, unknown, jnp.int32(max_iter))
    result = iterate(burst, carry, tol=tol, max_iter=-(-max_iter // _BURST), patience=patience)
    _, point, proof, _ = result.state
    return Outcome(point, proof, jnp.minimum(result.num_iter * jnp.int32(_BURST), max_iter), result.status)


def certify_slopes(task: Task, penalty: Penalty, null: Array, unit: Array, point: Array, theta: Array) -> Certificate:
    """The certificate of a point by slopes θ (n, t) per unit of weight, near −τ … 1 − τ and nearly orthogonal to b."""
    tau = task.loss.tau  # pyright: ignore[reportAttributeAccessIssue]
    v, total = task.weights[:, None], jnp.sum(task.weights)
    root = jnp.sqrt(v)
    theta = theta - task.one * jnp.sum(v * theta, axis=0) / total
    left, _ = orthogonal_to(root * task.X, root * theta, penalty.unpenalised)
    theta = left / jnp.where(root > 0, root, 1)
    theta = theta / jnp.max(jnp.maximum(theta / (1 - tau), -theta / tau), initial=1)
    eta, pull = task.predictor(point), task.pull(v * theta)

    def misfit(scale):
        return task.loss.excess(task.y, eta, scale * theta, task.weights)

    gap = least_gap(penalty, point[1:], -pull[1:], unit, misfit)
    return Certificate(gap, null, distance(penalty, point, pull), unit)
