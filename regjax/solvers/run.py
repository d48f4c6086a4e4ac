"""How every iterative solver runs: steps in bursts, then the certificate; it stops on nothing else."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from regjax.core.loop import iterate
from regjax.penalties import Penalty
from regjax.solvers.certificate import Certificate, Problem, certify
from regjax.solvers.polish import polish


class Outcome(NamedTuple):
    """What a solver returns: coefficients (p, t) with their certificate, steps taken, and a `Status`.

    And the objective there, from one that knows it.
    """

    coef: Array
    certificate: Certificate
    num_iter: Array
    status: Array
    objective: Array | None = None


def run(
    step: Callable[[Any], Any],
    state: Any,
    coef_of: Callable[[Any], Array],
    problem: Problem,
    penalty: Penalty,
    *,
    tol: Any,
    max_iter: int,
    burst: int,
) -> Outcome:
    """Take `step`s in bursts until the certified error of `coef_of(state)` is at most `tol`.

    After every burst at whose end the support may have settled, the point is polished as far as rounding allows: a gap
    of `tol` alone leaves errors of its square root in the coefficients. The certificate is that of the better point,
    which is the one that is returned.
    """

    def outer(carry):
        state, _, _, left = carry
        state = lax.fori_loop(0, jnp.minimum(burst, left), lambda _, state: step(state), state)
        coef = coef_of(state)
        certificate = certify(problem, penalty, coef)
        coef, certificate = lax.cond(
            certificate.error <= 1e-3,
            lambda: polish(problem, penalty, coef, certificate),
            lambda: (coef, certificate),
        )
        return (state, coef, certificate, left - burst), certificate.error

    zero = jnp.zeros((), problem.X.dtype)
    unknown = Certificate(zero, zero, zero, zero)  # the loop begins with a burst
    carry = (state, jnp.zeros_like(coef_of(state)), unknown, jnp.int32(max_iter))
    # Along a flat valley the certificate may stay for long while the objective still falls. In float32, where rounding
    # is what many lanes end at, all of them would wait for it.
    patience = 100 if zero.dtype == jnp.float64 else 20
    result = iterate(outer, carry, tol=tol, max_iter=-(-max_iter // burst), patience=patience)
    _, coef, certificate, _ = result.state
    return Outcome(coef, certificate, jnp.minimum(result.num_iter * jnp.int32(burst), max_iter), result.status)
