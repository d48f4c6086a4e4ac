"""Conjugate gradients: preconditioned for many right-hand sides at once, and plain for one array of any shape."""

from collections.abc import Callable

import jax.numpy as jnp
from jax import Array

from regjax.core.loop import LoopResult, iterate


def preconditioned_cg(
    apply: Callable[[Array], Array],
    precondition: Callable[[Array], Array],
    rhs: Array,
    *,
    tol: float,
    max_iter: int,
) -> LoopResult:
    """Solve A U = rhs (n, t), each column with steps of its own; one product with A per iteration serves all columns.

    Args:
        apply: U ↦ AU; A symmetric positive definite, and it may differ from column to column.
        precondition: R ↦ P⁻¹R with P close to A, symmetric positive definite.
        rhs: (n, t).
        tol: stops where ‖rhs − AU‖ ≤ tol ‖rhs‖ in every column.
        max_iter: the most products to form.

    Returns:
        A `LoopResult`; `state[0]` is U. Not differentiable.

    Example:
        >>> import jax.numpy as jnp
        >>> A = jnp.diag(jnp.array([1.0, 100.0, 10_000.0]))
        >>> solve = preconditioned_cg(lambda u: A @ u, lambda r: r / jnp.diagonal(A)[:, None], jnp.ones((3, 1)),
        ...                           tol=1e-5, max_iter=9)
        >>> print(int(solve.num_iter), solve.state[0][:, 0])
        1 [1.e+00 1.e-02 1.e-04]
    """

    def dot(a, b):
        return jnp.einsum("it,it->t", a, b)

    def ratio(a, b):
        return jnp.where(b > 0, a / jnp.where(b > 0, b, 1), 0)

    size = jnp.sqrt(dot(rhs, rhs))

    def step(state):
        u, left, direction, energy = state
        image = apply(direction)
        length = ratio(energy, dot(direction, image))
        u, left = u + length * direction, left - length * image
        steepest = precondition(left)
        new = dot(left, steepest)
        direction = steepest + ratio(new, energy) * direction
        return (u, left, direction, new), jnp.max(ratio(jnp.sqrt(dot(left, left)), size))

    first = precondition(rhs)
    start = (jnp.zeros_like(rhs), rhs, first, dot(rhs, first))
    error = jnp.max(jnp.where(size > 0, 1, size))  # no step where all is zero; nan where it is
    return iterate(step, start, tol=tol, max_iter=max_iter, patience=50, error=error)


def conjugate_gradients(
    apply: Callable[[Array], Array], rhs: Array, *, tol: float, max_iter: int, diagonal: Array | None = None
) -> Array:
    """Solve `apply(u) = rhs` for a symmetric positive semidefinite operator on arrays of any shape, from u = 0.

    Stops at ‖rhs − apply(u)‖ ≤ tol ‖rhs‖, or where rounding allows no more. Not differentiable: the linear solve of an
    implicit derivative. `diagonal`, of the shape of `rhs` and positive, is that of the operator or near it: residuals
    are then in units of its root, and unknowns may differ in scale.
    """
    unit = jnp.ones((), rhs.dtype) if diagonal is None else 1 / jnp.sqrt(diagonal)

    def column(u):
        return (unit * apply(unit * u.reshape(rhs.shape))).reshape(-1, 1)

    result = preconditioned_cg(column, lambda r: r, (unit * rhs).reshape(-1, 1), tol=tol, max_iter=max_iter)
    return unit * result.state[0].reshape(rhs.shape)
