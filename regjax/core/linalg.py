"""Shifted positive semidefinite systems: (A + λΩ) W = B is solved here and nowhere else.

What is computed from a factor has derivatives of its own, which never go through the factorization.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from regjax.core.factors import Factor, Root, Spectrum, factorize
from regjax.core.implicit import implicit_solution
from regjax.core.lanes import in_any_lane
from regjax.core.products import cross


def _shifted(A, lam, penalty, W):
    return A @ W + lam * (W if penalty is None else penalty @ W)


def _shifted_optimality(W, theta):
    A, lam, penalty, B = theta
    return _shifted(A, lam, penalty, W) - B


def apply_factor(factor: Factor, rhs: Array, *, in_range: bool = False) -> Array:
    """(A + λΩ)⁻¹ rhs for rhs (p, t), `in_range` as in `solve`; not differentiable."""
    if in_range:
        factor = factor._replace(scale=jnp.where(factor.kept, factor.scale, jnp.inf))
    return factor.basis @ (cross(factor.basis, rhs) / factor.scale[:, None])


def _graded(A):
    """Whether the diagonal of a matrix spans orders of magnitude, in any lane."""
    diagonal = jnp.diagonal(A)
    least = jnp.min(jnp.where(diagonal > 0, diagonal, jnp.inf))
    return in_any_lane(least < 1e-4 * jnp.max(diagonal))


def _refined(factor: Factor, A: Array, B: Array, lam: Array, W: Array, in_range: bool) -> Array:
    """W after two steps of refinement, each where it lowers the residual.

    An eigendecomposition is accurate relative to the largest column; the residual is so for each column, and gives
    small columns their digits back.
    """
    size = jnp.sqrt(A[jnp.arange(len(A)), jnp.arange(len(A))] + lam)[:, None]
    unit = jnp.where(size > 0, 1 / jnp.where(size > 0, size, 1), 0)

    def left(W):
        residual = B - _shifted(A, lam, None, W)
        return residual, jnp.max(jnp.abs(residual) * unit, axis=0)

    residual, error = left(W)
    for _ in range(2):
        new = W + apply_factor(factor, residual, in_range=in_range)
        new_residual, new_error = left(new)
        better = new_error < error
        W, residual, error = (
            jnp.where(better, a, b) for a, b in ((new, W), (new_residual, residual), (new_error, error))
        )
    return W


def solve(
    factor: Factor,
    A: Array,
    B: Array,
    lam: Array,
    penalty: Array | None = None,
    *,
    in_range: bool = False,
    refine: bool = True,
) -> Array:
    """W (p, t) with (A + λΩ) W = B from the factor of the same system; differentiable in A, B, λ and Ω.

    With `in_range` the columns of B are known to lie in the range of A: what they show of other directions is
    rounding, which a small λ would blow up, and is left out of the value. `refine` gives small columns of A their
    digits; a tangent B must do without, as the value is then not computed by linear operations alone.
    """
    factor = lax.stop_gradient(factor)
    W = apply_factor(factor, B, in_range=in_range)
    if penalty is None and refine:
        fixed = lax.stop_gradient((A, B, lam))
        W = lax.cond(_graded(fixed[0]), lambda: _refined(factor, *fixed, W, in_range), lambda: W)
    return implicit_solution(
        _shifted_optimality,
        lambda factor, theta, W, rhs: apply_factor(factor, rhs),
        W,
        (A, lam, penalty, B),
        factor,
    )


def solve_shifted(A: Array, B: Array, lam, *, penalty: Array | None = None, root: Root = None) -> Array:
    """Solve (A + λΩ) W = B for a positive semidefinite A.

    One λ is a Cholesky factorization; `jax.vmap` over λ with A unbatched is one eigendecomposition, in any nesting.
    Differentiable in all of A, B, λ and Ω, to any order, forward and reverse.

    Args:
        A: (p, p).
        B: (p,) or (p, t).
        lam: scalar λ ≥ 0; λ = 0 with a singular A gives the pseudo-inverse solution A†B.
        penalty: Ω (p, p); the identity if None.
        root: as in `factorize`.

    Returns:
        W, of the shape of B.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> A, B = jnp.diag(jnp.array([1.0, 3.0])), jnp.array([2.0, 4.0])
        >>> print(jax.vmap(lambda lam: solve_shifted(A, B, lam))(jnp.array([0.0, 1.0])))
        [[2.        1.3333334]
         [1.        1.       ]]
    """
    A, B = jnp.asarray(A), jnp.asarray(B)
    lam = jnp.asarray(lam, A.dtype)
    factor = factorize(A, lam, penalty=penalty, root=root)
    if B.ndim == 1:
        return solve(factor, A, B[:, None], lam, penalty)[:, 0]
    return solve(factor, A, B, lam, penalty)


def solve_small(A: Array, b: Array) -> tuple[Array, Array]:
    """A⁻¹b for a positive definite A (p, p) of few columns, and the smallest pivot of A scaled to unit diagonal.

    By elimination in plain operations, which `jax.vmap` carries out for all lanes at once: batched calls of LAPACK
    would wait for each other's threads. Not differentiable in reverse.
    """
    diagonal = jnp.diagonal(A)
    unit = jnp.where(diagonal > 0, lax.rsqrt(jnp.where(diagonal > 0, diagonal, 1)), 0)
    rows = jnp.concatenate([A * unit * unit[:, None], (b * unit)[:, None]], axis=1)
    index = jnp.arange(len(b))

    def eliminate(k, carry):
        rows, smallest = carry
        pivot = rows[k, k]
        row = rows[k] / pivot
        others = jnp.where(index == k, 0, rows[:, k])
        rows = jnp.where((index == k)[:, None], row, rows - others[:, None] * row)
        return rows, jnp.minimum(smallest, pivot)

    rows, smallest = lax.fori_loop(0, len(b), eliminate, (rows, jnp.ones((), A.dtype)))
    return rows[:, -1] * unit, smallest


def symmetric_solver(A: Array) -> tuple[Callable[[Array], Array], Array]:
    """b ↦ A⁻¹b for a symmetric matrix that need not be definite, and whether it is regular; not differentiable in A.

    Where it is not, of the solutions of least squares the shortest, in units in which the rows of A have one size.
    """
    size = jnp.sqrt(jnp.max(jnp.abs(A), axis=1))
    size = jnp.where(size > 0, size, 1)
    scaled = A / (size[:, None] * size)
    factor = factorize(scaled @ scaled, jnp.zeros((), A.dtype), root=(scaled,))

    def solve(b):
        return factor.basis @ ((factor.basis.T @ (scaled @ (b / size))) / factor.scale) / size

    return solve, jnp.all(jnp.isfinite(factor.scale))


@jax.custom_jvp
def quad_diag(factor: Factor, A: Array, Z: Array | None, lam: Array, penalty: Array | None = None) -> Array:
    """zᵢᵀ (A + λΩ)⁻¹ zᵢ for each row of Z (n, p), the identity if None: (n,); O(np) per λ after O(np²) once.

    Differentiable in A, Z, λ and Ω: h(z) = max_y 2zᵀy − yᵀ(A + λΩ)y, so dh is the derivative at the maximiser y.
    """
    del A, lam, penalty
    return (factor.basis if Z is None else Z @ factor.basis) ** 2 @ (1 / factor.scale)


@quad_diag.defjvp
def _quad_diag_jvp(primals, tangents):
    factor, A, Z, lam, penalty = primals
    _, dA, dZ, dlam, dpenalty = tangents
    if Z is None:
        Z = jnp.eye(len(A), dtype=A.dtype)
        dZ = jnp.zeros_like(Z)
    Y = solve(factor, A, Z.T, lam, penalty).T

    def bound(A, Z, lam, penalty):
        return 2 * jnp.sum(Z * Y, 1) - jnp.sum(Y * _shifted(A, lam, penalty, Y.T).T, 1)

    _, tangent = jax.jvp(bound, (A, Z, lam, penalty), (dA, dZ, dlam, dpenalty))
    return quad_diag(*primals), tangent


@jax.custom_jvp
def logdet(factor: Factor, A: Array, lam: Array, penalty: Array | None = None) -> Array:
    """log det(A + λΩ), over the directions that the factor keeps; differentiable in A, λ and Ω."""
    del A, lam, penalty
    return factor.logdet


@logdet.defjvp
def _logdet_jvp(primals, tangents):
    factor, A, lam, penalty = primals
    _, dA, dlam, dpenalty = tangents
    inverse = solve(factor, A, jnp.eye(len(A), dtype=A.dtype), lam, penalty)

    def trace(A, lam, penalty):
        return jnp.sum(_shifted(A, lam, penalty, inverse) * jnp.eye(len(A), dtype=A.dtype))

    _, tangent = jax.jvp(trace, (A, lam, penalty), (dA, dlam, dpenalty))
    return logdet(*primals), tangent


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def apply_function(function: Callable[[Array, Any], Array], decomposition: Spectrum, A: Array, B: Array, theta: Any):
    """f(A) B for a smooth function of a symmetric matrix, from its spectrum; differentiable in A, B and θ.

    Args:
        function: f(d, θ), elementwise in the eigenvalues d (p,).
        decomposition: `spectrum(A)`.
        A: (p, p), positive semidefinite. B: (p, t).
        theta: a pytree of parameters of f.

    B must lie in the range of A, or f(A)B be used in it only: directions that the spectrum does not keep are left out.

    References:
        Higham, Functions of Matrices, SIAM 2008, theorem 3.11 (Daleckii and Krein).
    """
    del A
    vectors = decomposition.vectors
    values = jnp.where(decomposition.kept, function(decomposition.values, theta), 0)
    return vectors @ (values[:, None] * cross(vectors, B))


@apply_function.defjvp
def _apply_function_jvp(function, primals, tangents):
    decomposition, _, B, theta = primals
    _, dA, dB, dtheta = tangents
    d, V = decomposition.values, decomposition.vectors
    f, df = jax.jvp(lambda th: function(d, th), (theta,), (dtheta,))
    rotated = cross(V, B)
    inner = (_divided_differences(function, d, theta) * (cross(V, dA) @ V)) @ rotated
    inner = inner + df[:, None] * rotated + f[:, None] * cross(V, dB)
    return apply_function(function, *primals), V @ inner


def _divided_differences(function, d, theta):
    """(f(a) − f(b))/(a − b) for all pairs: the mean of f′ between a and b by Gauss's rule where they are close."""
    a, b = d[:, None], d[None, :]
    close = jnp.abs(a - b) <= 1e-3 * (jnp.abs(a) + jnp.abs(b))
    f = function(d, theta)
    quotient = (f[:, None] - f[None, :]) / jnp.where(close, 1, a - b)
    slope = jnp.vectorize(jax.grad(lambda x: function(x, theta)))
    nodes = [(0.5 - 0.15**0.5, 5 / 18), (0.5, 8 / 18), (0.5 + 0.15**0.5, 5 / 18)]
    mean = sum(weight * slope(a + node * (b - a)) for node, weight in nodes)
    return jnp.where(close, mean, quotient)
