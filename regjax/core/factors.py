"""Factorizations of shifted positive semidefinite matrices: factor once, use for many λ.

`factorize` looks at all lanes of the surrounding `vmap`s and takes a Cholesky factorization where a matrix meets one λ,
and one eigendecomposition where it meets several. Where squaring the condition number would lose the answer, an SVD of
a root of the matrix takes over.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from regjax.core.implicit import with_derivative_of
from regjax.core.lanes import lane_by_lane, map_lanes, sees_lanes, split_axes
from regjax.core.products import cross
from regjax.core.solution import Status
from regjax.core.triangular import triangular_inverse


class Rows(NamedTuple):
    """R = [√hᵢ (xᵢ − m)]ᵢ, a root of Σᵢ hᵢ (xᵢ − m)(xᵢ − m)ᵀ that is formed only where it is needed.

    Attributes:
        X: (n, p). weights: h (n,). mean: m (p,).
    """

    X: Array
    weights: Array
    mean: Array


Root = tuple[Array, ...] | Rows | None


class Factor(NamedTuple):
    """(A + λΩ)⁻¹ = T diag(1/s) Tᵀ; s = ∞ in directions where A + λΩ is zero to working precision.

    Attributes:
        basis: T (p, p); the same array for all λ of one matrix.
        kept: (p,), False in the directions where A alone is zero to working precision.
        scale: s (p,).
        logdet: log det(A + λΩ) where s is finite.
        status: int32, see `Status`.
    """

    basis: Array
    kept: Array
    scale: Array
    logdet: Array
    status: Array


class Spectrum(NamedTuple):
    """A = V diag(d) Vᵀ.

    Attributes:
        values: d (p,), 0 where it is zero to working precision.
        vectors: V (p, p).
        kept: (p,), where d is not zero to working precision.
        doubt: the largest d that was set to zero though it stands above rounding; 0 if there is none.
    """

    values: Array
    vectors: Array
    kept: Array
    doubt: Array


def _benign(dtype) -> float:
    """Smallest ratio of the extreme eigenvalues at which squaring the condition number does no harm."""
    return float(jnp.finfo(dtype).eps) ** 0.4


def _svd_spectrum(A: Array, root: Root) -> Spectrum:
    """The spectrum of A = root rootᵀ without squaring the condition number; of A itself where no root is known."""
    if root is None:
        values, vectors = jnp.linalg.eigh(A)
        return _truncated(values, vectors)
    eps = jnp.finfo(A.dtype).eps
    whole = _whole(root)
    vectors, singular, _ = jnp.linalg.svd(whole, full_matrices=False)
    kept = ~(singular <= max(whole.shape) * eps * singular[0])
    values = singular**2
    largest = jnp.max(jnp.where(kept, 0, values))
    doubt = jnp.where(largest > (4 * eps * singular[0]) ** 2, largest, 0)
    return Spectrum(jnp.where(kept, values, 0), vectors, kept, doubt)


def _whole(root: tuple[Array, ...] | Rows) -> Array:
    """R (p, k)."""
    if isinstance(root, Rows):
        return ((root.X - root.mean) * jnp.sqrt(root.weights)[:, None]).T
    return jnp.concatenate(root, axis=1)


def _truncated(values: Array, vectors: Array) -> Spectrum:
    """The spectrum with 0 for eigenvalues that working precision cannot tell from it."""
    kept = ~(values <= len(values) * jnp.finfo(values.dtype).eps * values[-1])  # a nan is kept
    return Spectrum(jnp.where(kept, values, 0), vectors, kept, jnp.zeros_like(values[-1]))


def _spectrum(A: Array, root: Root, smallest_shift: Array) -> Spectrum:
    """Eigenvalues and vectors of one matrix, by `eigh` where that is accurate enough at the smallest shift."""
    vectors, values = lax.linalg.eigh(A, symmetrize_input=False)
    low, high = values[0] + smallest_shift, values[-1]
    return lax.cond(
        (low > 0) & (low >= _benign(A.dtype) * high),
        lambda: Spectrum(values, vectors, jnp.isfinite(values), jnp.zeros_like(high)),
        lambda: _truncated(values, vectors) if root is None else _svd_spectrum(A, root),
    )


def _unresolved(A: Array, spectrum: Spectrum, lam: Array) -> Array:
    """Whether a direction was dropped that a column far smaller than the others may have needed at this λ."""
    eps = jnp.finfo(A.dtype).eps
    diagonal = jnp.arange(len(A))
    column = A[diagonal, diagonal]  # unlike jnp.diagonal, not a sum over the matrix again in every lane
    lost = (column > 0) & (column < (1e4 * eps) ** 2 * spectrum.values.max()) & (column > 1e-6 * lam)
    return jnp.any(lost) & ~jnp.all(spectrum.kept)


def _factor_spectrum(A: Array, spectrum: Spectrum, lams: Array) -> tuple[Array, Array, Array]:
    """Scale, log determinant and status for each of `lams` (L,)."""

    def one(lam):
        scale = spectrum.values + lam
        scale = jnp.where(scale == 0, jnp.inf, scale)
        scale = jnp.where(_unresolved(A, spectrum, lam), jnp.nan, scale)
        logdet = jnp.sum(jnp.log(jnp.where(jnp.isinf(scale), 1, scale)))
        deficient = (lam == 0) & ~jnp.all(spectrum.kept)
        status = jnp.where(deficient, Status.RANK_DEFICIENT, Status.CONVERGED)
        doubtful = jnp.isnan(logdet) | (spectrum.doubt > lam)
        status = jnp.where(doubtful, Status.ILL_CONDITIONED, status)
        finite = jnp.all(jnp.isfinite(spectrum.values))
        return scale, logdet, jnp.where(finite, status, Status.NON_FINITE).astype(jnp.int32)

    return jax.vmap(one)(lams)


def _factor_identity(A: Array, root: Root, lams: Array) -> Factor:
    """Factor A + λI for one matrix and its `lams` (L,)."""
    if len(lams) == 1:
        return _cholesky_or(A + lams[0] * jnp.eye(len(A), dtype=A.dtype), lambda: _from_svd(A, root, lams))
    spectrum = _spectrum(A, root, jnp.min(lams))
    return Factor(spectrum.vectors, spectrum.kept, *_factor_spectrum(A, spectrum, lams))


def _from_svd(A, root, lams):
    spectrum = _svd_spectrum(A, root)
    return Factor(spectrum.vectors, spectrum.kept, *_factor_spectrum(A, spectrum, lams))


def _cholesky_or(M: Array, otherwise) -> Factor:
    """Cholesky factor of M, or `otherwise()` where M is singular to working precision.

    The test is on the pivots relative to the diagonal, which a rescaling of the columns leaves alone.
    """
    lower = jnp.linalg.cholesky(M)
    pivots = jnp.diagonal(lower)
    sound = jnp.all(pivots**2 >= _benign(M.dtype) * jnp.diagonal(M)) & jnp.isfinite(pivots[-1])

    def from_cholesky():
        basis = triangular_inverse(lower).T
        status = jnp.full((1,), Status.CONVERGED, jnp.int32)
        scale, kept = jnp.ones((1, len(M)), M.dtype), jnp.ones(len(M), bool)
        return Factor(basis, kept, scale, 2 * jnp.sum(jnp.log(pivots))[None], status)

    return lax.cond(sound, from_cholesky, otherwise)


def _factor_pencil(A: Array, penalty: Array, lams: Array) -> Factor:
    """Factor A + λΩ for one pair of matrices and its `lams` (L,)."""
    if len(lams) == 1:
        return _cholesky_or(A + lams[0] * penalty, lambda: _diagonalize_pencil(A, penalty, lams))
    return _diagonalize_pencil(A, penalty, lams)


def _diagonalize_pencil(A, penalty, lams):
    """One congruence T makes A and Ω diagonal: TᵀAT = 1 − cm and TᵀΩT = m, with T(A + cΩ)Tᵀ = I.

    c is the geometric middle of the grid, so that rounding grows with the half of its width only, kept within reach
    of the λ at which the two matrices have one size, so that neither drowns the other.
    """
    eps = jnp.finfo(A.dtype).eps
    p = len(A)
    usable = (lams > 0) & jnp.isfinite(lams)
    middle = jnp.exp(jnp.sum(jnp.where(usable, jnp.log(jnp.where(usable, lams, 1)), 0)) / jnp.maximum(usable.sum(), 1))
    trace = jnp.trace(penalty)
    balance = jnp.where((trace > 0) & (jnp.trace(A) > 0), jnp.trace(A) / jnp.where(trace > 0, trace, 1), 1)
    middle = jnp.clip(jnp.where(jnp.any(usable), middle, balance), 1e-5 * balance, 1e5 * balance)
    joint = A + middle * penalty
    # unit diagonal: what follows does not depend on the scales of the columns
    size = jnp.sqrt(jnp.diagonal(joint))
    shrink = jnp.where(size > 0, 1 / jnp.where(size > 0, size, 1), 0)
    values, vectors = jnp.linalg.eigh(joint * shrink[:, None] * shrink)
    kept = values > p * eps * values[-1]
    whiten = shrink[:, None] * vectors * jnp.where(kept, 1 / jnp.sqrt(jnp.where(kept, values, 1)), 0)
    share, rotation = jnp.linalg.eigh(cross(whiten, penalty @ whiten))
    share = share * middle  # the part of the penalty in each direction's joint unit
    indefinite = (values[0] < -10 * p * eps * values[-1]) | (share[0] < -jnp.sqrt(eps))
    share = jnp.clip(share, 0, 1)
    share = jnp.where(share < p * eps, 0, share)
    basis = whiten @ rotation

    def one(lam):
        scale = 1 + (lam / middle - 1) * share
        scale = jnp.where(share == 0, 1, scale)  # also where λ = ∞
        scale = jnp.where(scale < 10 * p * eps, jnp.inf, scale)
        dropped = ~jnp.all(kept) | jnp.any(jnp.isinf(scale) & jnp.isfinite(lam))
        status = jnp.where(dropped, Status.RANK_DEFICIENT, Status.CONVERGED)
        status = jnp.where(indefinite, Status.NOT_POSITIVE_DEFINITE, status).astype(jnp.int32)
        logdet = jnp.sum(jnp.where(kept, jnp.log(jnp.where(kept, values, 1)), 0)) - 2 * jnp.sum(
            jnp.where(size > 0, jnp.log(shrink), 0)
        )
        return scale, logdet + jnp.sum(jnp.where(jnp.isinf(scale), 0, jnp.log(scale))), status

    return Factor(basis, jnp.ones(p, bool), *jax.vmap(one)(lams))


@sees_lanes
def _factorize(A, penalty, root, lam):
    rank = lam.ndim
    matrices = jax.tree.leaves((A, penalty, root))
    own, shared = split_axes([m.shape[:rank] for m in matrices])
    lanes = jnp.broadcast_shapes(lam.shape, *(m.shape[:rank] for m in matrices))
    own_shape = tuple(lanes[i] for i in own)
    lam_shape = tuple(lam.shape[i] for i in shared)

    def gather(matrix):  # (lanes, a, b) -> (matrices, a, b)
        core = matrix.shape[rank:]
        return jnp.broadcast_to(matrix.reshape(*(matrix.shape[i] for i in own), *core), own_shape + core).reshape(
            -1, *core
        )

    lams = jnp.broadcast_to(lam.transpose(*own, *shared), own_shape + lam_shape)
    lams = lams.reshape(len(gather(A)), -1)

    def one(A, lams, penalty, root):
        return _factor_identity(A, root, lams) if penalty is None else _factor_pencil(A, penalty, lams)

    factor = map_lanes(one, gather(A), lams, *jax.tree.map(gather, (penalty, root)))

    def scatter(result, varies):  # (matrices, L, ...) -> (lanes, ...)
        core = result.shape[2:]
        result = result.reshape(own_shape + (lam_shape if varies else (1,) * len(shared)) + core)
        order = sorted(range(rank), key=lambda axis: (own + shared)[axis])
        return result.transpose(*order, *range(rank, result.ndim))

    return Factor(
        scatter(factor.basis[:, None], False),
        scatter(factor.kept[:, None], False),
        scatter(factor.scale, True),
        scatter(factor.logdet, True),
        scatter(factor.status, True),
    )


def factorize(A: Array, lam: Array, *, penalty: Array | None = None, root: Root = None) -> Factor:
    """Factor A + λΩ for a positive semidefinite A: a Cholesky for one λ, one eigendecomposition for many.

    Under `jax.vmap` over λ the basis is not batched: one eigendecomposition per matrix, in any nesting with folds,
    targets and data sets. A singular A + λI gives the pseudo-inverse, that is the limit λ → 0⁺; a singular A + λΩ
    gives the limit too.

    Args:
        A: (p, p), positive semidefinite.
        lam: scalar, λ ≥ 0.
        penalty: Ω (p, p), positive semidefinite; the identity if None.
        root: blocks (p, k) that side by side are a matrix R with A = RRᵀ, or the `Rows` of one, if known:
            ill-conditioned cases are then solved without squaring.

    Returns:
        The `Factor`, not differentiable: `solve`, `quad_diag` and `logdet` are.
    """
    return _factorize(*lax.stop_gradient((A, penalty, root, lam)))


@sees_lanes
def _spectrum_lanes(A, root):
    rank = A.ndim - 2
    lanes = A.shape[:rank]
    flat = jax.tree.map(lambda m: m.reshape(-1, *m.shape[rank:]), (A, root))
    result = map_lanes(lambda A, root: _spectrum(A, root, jnp.zeros((), A.dtype)), *flat)
    return jax.tree.map(lambda r: r.reshape(*lanes, *r.shape[1:]), result)


def spectrum(A: Array, root: Root = None) -> Spectrum:
    """Eigendecomposition of a positive semidefinite A (p, p); `root` as in `factorize`.

    Not differentiable; directions that working precision cannot tell from zero have value 0 and are not kept.
    """
    return _spectrum_lanes(*lax.stop_gradient((A, root)))


def jittered_cholesky(A: Array, *, largest: float = 1e-4, unit: Any = None) -> tuple[Array, Array, Array]:
    """Cholesky factor of A + jitter·I with the smallest jitter that makes it exist.

    The jitter starts at 0, then grows tenfold from p·eps units up to `largest` units.

    Args:
        A: (p, p), symmetric. Differentiable (as A + a constant jitter).
        largest: the largest jitter to try.
        unit: the mean of the diagonal if None; for a difference of matrices, the size of what was subtracted from.

    Returns:
        The lower factor (nan if there is none), the jitter added, and a status: CONVERGED, NOT_POSITIVE_DEFINITE, or
        NON_FINITE where A has a value that is not finite.

    Example:
        >>> import jax.numpy as jnp
        >>> lower, jitter, status = jittered_cholesky(jnp.ones((2, 2)))
        >>> print(bool(jitter > 0), Status(int(status)).name)
        True CONVERGED
    """
    unit = jnp.mean(jnp.diagonal(A)) if unit is None else unit
    size = jnp.asarray(unit, A.dtype)
    value, jitter, status = _jittered_lanes(*lax.stop_gradient((A, jnp.asarray(largest, A.dtype), size)))
    proxy = jnp.linalg.cholesky(A + jitter * jnp.eye(len(A), dtype=A.dtype))  # computed where it is differentiated
    return with_derivative_of(value, proxy), jitter, status


def grow_jitter(A: Array, largest: Array | None, unit: Array) -> tuple[Array, Array, Array]:
    """`jittered_cholesky` of one lane, with no jitter if `largest` is None: call it where lanes are mapped."""
    p = len(A)
    eps = jnp.finfo(A.dtype).eps
    diagonal = jnp.diagonal(A)

    def attempt(jitter):
        # LAPACK takes columns: of the transpose they are the rows, as which A is at hand
        lower = jnp.linalg.cholesky((A + jitter * jnp.eye(p, dtype=A.dtype)).T, symmetrize_input=False)
        pivots = jnp.diagonal(lower)  # a pivot of the size of its rounding is zero, though its root may exist
        return lower, jitter, ~jnp.all(pivots**2 > 4 * p**0.5 * eps * diagonal)

    found = attempt(jnp.zeros((), A.dtype))
    if largest is not None:
        limit = largest * unit

        def more(carry):
            _, jitter, failed = carry
            # compiled in two places, the same product may be rounded in two ways: without a margin this might never end
            return failed & (jitter < 0.99 * limit)

        def grow(carry):
            jitter = carry[1]
            return attempt(jnp.minimum(jnp.where(jitter > 0, 10 * jitter, p * eps * unit), limit))

        found = lax.while_loop(more, grow, found)
    lower, jitter, failed = found
    status = jnp.where(failed, Status.NOT_POSITIVE_DEFINITE, Status.CONVERGED)
    status = jnp.where(jnp.all(jnp.isfinite(A)), status, Status.NON_FINITE).astype(jnp.int32)
    return jnp.where(failed, jnp.nan, lower), jitter, status


_jittered_lanes = lane_by_lane(grow_jitter)
