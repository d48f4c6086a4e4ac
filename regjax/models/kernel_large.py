"""Kernel ridge beyond ten thousand points: conjugate gradients on blocked products, and Nyström in one pass."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from regjax.bases.nystrom import landmark_root
from regjax.core import factors, linalg
from regjax.core.implicit import implicit_solution
from regjax.core.krylov import preconditioned_cg
from regjax.core.products import cross
from regjax.core.solution import Status, relative, succeeded
from regjax.kernels.gram import blocked_product, indefinite
from regjax.kernels.pivots import random_pivots
from regjax.models.penalized import over_targets, worst
from regjax.models.problem import silence

BLOCK = 2**21  # kernel values that are held at a time: 16 MB in float64


def _weighted(Y: Array, weights: Array | None) -> tuple[Array, Array, Array]:
    """y with 0 where the weight is, v, and whether the weights are valid."""
    v = jnp.ones(len(Y), Y.dtype) if weights is None else weights
    return jnp.where((v > 0)[:, None], silence(Y, v), 0), v, jnp.all(v >= 0) & jnp.any(v > 0)


def _judged(coef, b, status, residual, gap, objective, valid) -> tuple[Array, ...]:
    """What `kernel_ridge` returns, with the status of values that are not finite or arguments that are not valid."""
    finite = jnp.all(jnp.isfinite(coef)) & jnp.isfinite(residual) & jnp.isfinite(objective)
    status = jnp.where(succeeded(status) & ~finite, Status.NON_FINITE, status)
    coef, b = (jnp.where(valid, a, jnp.nan) for a in (coef, b))
    status = jnp.where(valid, status, Status.INVALID).astype(jnp.int32)
    return coef, b, status, *lax.stop_gradient((residual, gap)), objective


def _moments(kernel, X, Y, v, points, lower):
    """Σ v φφᵀ (m, m), Σ v φ (m,) and Σ v φyᵀ (m, t) over blocks of samples, for φ = L⁻¹(k(x, lⱼ))ⱼ."""
    n, t = Y.shape
    m = len(lower)
    rows = max(1, min(n, BLOCK // m))
    index = jnp.arange(-(-n // rows) * rows).reshape(-1, rows)
    ones = jnp.ones((rows, 1), Y.dtype)

    @jax.checkpoint  # the derivative computes a block again rather than keep them all
    def block(i):
        row = jnp.minimum(i, n - 1)
        values = kernel.matrix(jax.tree.map(lambda a: a[row], X), points)
        phi = lax.linalg.triangular_solve(lower, values, left_side=False, lower=True, transpose_a=True)
        weighted = jnp.where(i < n, v[row], 0)[:, None] * phi
        return cross(weighted, jnp.concatenate([phi, ones, Y[row]], axis=1))

    total = lax.scan(lambda total, i: (total + block(i), None), jnp.zeros((m, m + 1 + t), Y.dtype), index)[0]
    return total[:, :m], total[:, m], total[:, m + 1 :]


@partial(jax.jit, static_argnames="intercept")
def nystrom_ridge(kernel, X, Y, weights, points: Any, lam: Array, intercept: bool) -> tuple[Array, ...]:
    """Kernel ridge over the functions Σⱼ k(·, lⱼ) βⱼ: β (m, t), b (t,), status, residual, gap, objective.

    O(nm) kernel values, O(nm²) time and O(m² + block) memory; the pass over the data knows no λ.
    """
    Y, v, valid = _weighted(Y, weights)
    lower = landmark_root(kernel, points)
    mean = v @ Y / jnp.sum(v) if intercept else jnp.zeros_like(Y[0])
    Y = Y - mean
    gram, middle, moments = _moments(kernel, X, Y, v, points, lower)
    if intercept:
        gram = gram - jnp.outer(middle, middle) / jnp.sum(v)
    squares = jnp.einsum("i,it,it->t", v, Y, Y)

    def one(moments, lam):
        factor = factors.factorize(gram, lam)
        w = linalg.solve(factor, gram, moments, lam, in_range=True)
        image = gram @ w
        shrinkage = jnp.where(w == 0, 0, lam) * w
        slope = lax.stop_gradient(jnp.where(jnp.isinf(lam), 0, moments - image - shrinkage))
        gap = jnp.sum(cross(factor.basis, slope) ** 2 / factor.scale[:, None], axis=0)
        value = jnp.einsum("it,it->t", w, image + shrinkage - 2 * moments)
        return w, (value, jnp.max(jnp.abs(slope), axis=0), gap, jnp.broadcast_to(factor.status, gap.shape))

    w, (value, slope, gap, status) = over_targets(one, moments, lam)
    coef = lax.linalg.triangular_solve(lower, w, left_side=True, lower=True, transpose_a=True)
    b = mean - middle @ w / jnp.sum(v) if intercept else mean
    residual = jnp.max(relative(slope, jnp.max(jnp.abs(moments), axis=0)))
    gap = relative(jnp.sum(gap), jnp.sum(squares))
    objective = jnp.sum(squares + value) / 2
    bad = indefinite(kernel.diagonal(points), None if kernel.positive_definite else kernel.matrix(points, points))
    status = jnp.where(bad, Status.NOT_POSITIVE_DEFINITE, worst(status))
    return _judged(coef, b, status, residual, gap, objective, valid & jnp.all(lam >= 0))


def _shifted_gram(theta, U):
    """(√v K √v + λI) U."""
    kernel, X, root, lam, _ = theta
    return root[:, None] * blocked_product(kernel, X, None, root[:, None] * U) + lam * U


def _optimality(U, theta):
    return _shifted_gram(theta, U) - theta[-1]


def _solve(tol, max_iter, aux, theta, rhs):
    """Conjugate gradients with P = FFᵀ + λI, F (n, r) from randomly pivoted Cholesky."""
    factor, spectrum = aux
    lam = theta[3]

    def precondition(left):
        inner = cross(spectrum.vectors, cross(factor, left)) / (spectrum.values[:, None] + lam)
        return (left - factor @ (spectrum.vectors @ inner)) / lam

    return preconditioned_cg(lambda U: _shifted_gram(theta, U), precondition, rhs, tol=tol, max_iter=max_iter)


def _seen_indefinite(kernel, X, pivots) -> Array:
    """Whether the diagonal or the pivots show that the kernel is not positive semidefinite."""
    diagonal = kernel.diagonal(X)
    if kernel.positive_definite:
        return indefinite(diagonal, None)
    points = jax.tree.map(lambda a: a[pivots.indices], X)
    failed = jnp.all(jnp.isfinite(diagonal)) & ~jnp.all(jnp.isfinite(pivots.factor))
    return failed | indefinite(diagonal, kernel.matrix(points, points))


@partial(jax.jit, static_argnames=("intercept", "rank", "tol", "max_iter"))
def cg_ridge(kernel, X, Y, weights, lam, key, intercept, rank, tol, max_iter) -> tuple[Array, ...]:
    """Kernel ridge by preconditioned conjugate gradients: α (n, t), b (t,), status, residual, gap, objective, count.

    O(n·rank) memory; a product with K, computed block by block, in each iteration serves all targets and λ.
    """
    Y, v, valid = _weighted(Y, weights)
    valid = valid & jnp.all(lam > 0)
    t = Y.shape[1]
    root = jnp.where(v > 0, jnp.sqrt(jnp.where(v > 0, v, 1)), 0)
    mean = v @ Y / jnp.sum(v) if intercept else jnp.zeros_like(Y[0])
    targets = root[:, None] * (Y - mean)
    rhs, columns = targets, jnp.broadcast_to(lam, (t,))
    if intercept:  # A⁻¹√v too, for each λ, gives the mean
        more = t if lam.ndim else 1
        rhs = jnp.concatenate([rhs, jnp.tile(root[:, None], more)], axis=1)
        columns = jnp.concatenate([columns, jnp.broadcast_to(lam, (more,))])
    pivots = random_pivots(kernel, X, rank, key, weights)
    factor = root[:, None] * pivots.factor
    aux = lax.stop_gradient((factor, factors.spectrum(cross(factor, factor))))
    theta = (kernel, X, root, columns, rhs)
    result = _solve(tol, max_iter, aux, lax.stop_gradient(theta), lax.stop_gradient(rhs))
    solve = partial(_solve, tol, max_iter)
    again = lambda aux, theta, _, rhs: solve(aux, theta, rhs).state[0]  # noqa: E731
    U = implicit_solution(_optimality, again, result.state[0], theta, aux)
    image = _shifted_gram(theta, U)
    dual, applied, b = U[:, :t], image[:, :t], jnp.zeros_like(mean)
    if intercept:
        b = root @ dual / (root @ U[:, t:])
        dual, applied = dual - b * U[:, t:], applied - b * image[:, t:]
        targets = targets - b * root[:, None]
    left = lax.stop_gradient(targets - applied)
    fitted = applied - columns[:t] * dual
    errors = targets - fitted
    objective = (jnp.sum(errors**2) + jnp.sum(columns[:t] * dual * fitted)) / 2
    norms = jnp.sum(lax.stop_gradient(targets) ** 2, axis=0)
    residual = jnp.max(jnp.sqrt(relative(jnp.sum(left**2, axis=0), norms)))
    gap = relative(jnp.sum(left**2), jnp.sum(norms))
    # what the recursion says of the residual may be better than it is
    status = jnp.where(succeeded(result.status) & (residual > 10 * tol), Status.FLOOR, result.status)
    status = jnp.where(_seen_indefinite(kernel, X, pivots), Status.NOT_POSITIVE_DEFINITE, status)
    coef = root[:, None] * dual
    return *_judged(coef, mean + b, status, residual, gap, objective, valid), result.num_iter
