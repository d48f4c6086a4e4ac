"""Newton's method on the active manifold: once a solver has found the support, the rest is a smooth problem."""

import jax
import jax.numpy as jnp
from jax import Array

from regjax.core.krylov import conjugate_gradients
from regjax.core.loop import iterate
from regjax.core.products import cross
from regjax.penalties import Penalty
from regjax.penalties.separable import Separable
from regjax.solvers.certificate import Certificate, Problem, certify


def curvature(X: Array, weights: Array | None, penalty: Penalty, W: Array, u: Array) -> Array:
    """The Hessian of ½Σv(Y − XW)² + P at W, restricted to the manifold on which P is smooth there, times u.

    The identity in the directions that leave the manifold, so that it is a symmetric operator on all arrays.
    """
    along = penalty.tangent(W, u)
    image = X @ along
    image = cross(X, image if weights is None else weights[:, None] * image)
    image += jax.jvp(jax.grad(penalty.value), (W,), (along,))[1]
    return penalty.tangent(W, image) + u - along


def polish(problem: Problem, penalty: Penalty, W: Array, certificate: Certificate) -> tuple[Array, Certificate]:
    """Newton steps from W along its manifold for as long as they lower the residual; W itself where they do not.

    The residual is linear in the error of the coefficients where the gap is quadratic: at a gap that rounding no longer
    lets fall, half of their digits are still to be had.
    """
    eps = float(jnp.finfo(W.dtype).eps)

    def newton(state):
        W, _ = state
        slope = cross(problem.X, problem.Y - problem.X @ W) - jax.grad(penalty.value)(W)
        step = conjugate_gradients(
            lambda u: curvature(problem.X, None, penalty, W, u),
            penalty.tangent(W, slope),
            tol=max(eps**0.9, 1e-14),
            max_iter=min(2 * W.size, 500),
        )
        moved = W + penalty.tangent(W, step)
        if isinstance(penalty, Separable):  # a coefficient near its limit may step over it by rounding
            moved = penalty.within_limits(moved)
        certificate = certify(problem, penalty, moved)
        return (moved, certificate), certificate.residual

    result = iterate(newton, (W, certificate), tol=eps, max_iter=6, patience=1)
    _, new = result.state
    better = (new.residual < certificate.residual) & (new.error <= jnp.maximum(certificate.error, eps))
    return jax.tree.map(lambda new, old: jnp.where(better, new, old), result.state, (W, certificate))
