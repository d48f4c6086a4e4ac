"""Kernel ridge with several kernels, each with a strength of its own, and the choice of the strengths."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from regjax.core.checks import as_float_array, require
from regjax.core.node import register_node
from regjax.core.solution import Solution, Status, succeeded
from regjax.kernels.gram import blocked_product, check_kernel, check_points
from regjax.kernels.kernel import Kernel
from regjax.models.kernel_problem import KernelSamples, center_gram, check_kernel_samples
from regjax.models.kernel_ridge import ridge_in
from regjax.models.kernel_scores import loo_in
from regjax.models.penalized import worst
from regjax.solvers.smooth import lbfgs


@register_node
@dataclass(frozen=True, eq=False)
class MultiKernelExpansion:
    """The function f(z) = b + Σₖ fₖ(z), fₖ(z) = Σᵢ kₖ(z, xᵢ) αᵢ/λₖ, a callable pytree.

    Attributes:
        kernels: k₁, …, kₘ.
        points: xᵢ, n of them.
        coef: α (n,) or (n, t).
        intercept: b, a scalar or (t,).
        lams: λ (m,), or (m, t) with strengths per target.
    """

    kernels: tuple[Kernel, ...]
    points: Any
    coef: Array
    intercept: Array
    lams: Array

    def __call__(self, Z: Any) -> Array:
        """f at q points: (q,) or (q, t)."""
        return self.intercept + jnp.sum(self.components(Z), axis=0)

    def components(self, Z: Any) -> Array:
        """f₁, …, fₘ at q points, which with b add up to f: (m, q) or (m, q, t)."""
        points, Z = check_points(self.points, Z)
        parts = zip(self.kernels, self.lams, strict=True)
        return jnp.stack([blocked_product(kernel, Z, points, self.coef / lam) for kernel, lam in parts])


def multi_kernel_ridge(
    kernels: Sequence[Any], X: Any, y: Any, lams: Any, *, weights: Any = None, intercept: bool = False
) -> Solution:
    r"""Kernel ridge regression with several kernels: banded ridge, where the kernels are linear on blocks of columns.

    Minimises ½ Σᵢ vᵢ (yᵢ − b − Σₖ fₖ(xᵢ))² + ½ Σₖ λₖ‖fₖ‖² over functions fₖ of the kernels: α = (K + V⁻¹)⁻¹(y − b) with
    K = Σₖ Kₖ/λₖ. Strengths per target are a factorization for each target.

    Args:
        kernels: m kernels; `on(kernel, columns)` looks at some columns or a leaf of X only.
        X, y, weights, intercept: as in `kernel_ridge`.
        lams: λ > 0 (m,), or (m, t) with strengths per target; infinity leaves a kernel out.

    Returns:
        A `Solution` whose `params` is a `MultiKernelExpansion`: `params(Z)` predicts, `components` are the fₖ.

    Example:
        >>> import jax.numpy as jnp, regjax
        >>> from regjax.kernels import Linear, on
        >>> X, y = jnp.eye(2), jnp.array([2.0, 4.0])
        >>> fit = regjax.multi_kernel_ridge([on(Linear(), 0), on(Linear(), 1)], X, y, jnp.array([1.0, 3.0]))
        >>> print(fit.params(X).round(4))
        [1. 1.]

    References:
        Dupré la Tour, Eickenberg, Nunez-Elizalde & Gallant, Feature-space selection with banded ridge regression,
        NeuroImage 264 (2022).
    """
    kernels, samples = _checked(kernels, X, y, weights)
    lams = as_float_array("lams", lams).astype(samples.Y.dtype)
    m, t = len(kernels), samples.Y.shape[1]
    if lams.shape not in ((m,), (m, t)):
        raise ValueError(f"lams has shape {lams.shape}: it takes one per kernel, ({m},), or per target too, ({m}, {t})")
    require(lambda a: jnp.all(a > 0), lams, message=f"lams must be positive and not NaN, got {lams}")
    return _fit(kernels, samples, lams, intercept)


def _checked(kernels: Any, X: Any, y: Any, weights: Any) -> tuple[tuple[Kernel, ...], KernelSamples]:
    if isinstance(kernels, Kernel) or not isinstance(kernels, Sequence) or not kernels:
        raise ValueError(f"kernels takes a sequence of at least one kernel, got {type(kernels).__name__}")
    samples = check_kernel_samples(kernels[0], X, y, weights)
    return tuple(check_kernel(kernel, samples.Y.dtype) for kernel in kernels), samples


def _fit(kernels, samples: KernelSamples, lams: Array, intercept: bool) -> Solution:
    coef, b, *rest = _ridge(kernels, samples.X, samples.Y, samples.weights, lams, intercept)
    params = MultiKernelExpansion(kernels, samples.X, samples.per_target(coef), samples.per_target(b), lams)
    if lams.ndim == 2:
        params = replace(params, lams=samples.per_target(lams))
    status, residual, gap, objective = rest
    return Solution(params, status, jnp.zeros((), jnp.int32), residual, gap, objective)


def _stack(kernels, X) -> tuple[Array, bool]:
    """The Gram matrices (m, n, n), and whether all are known to be positive semidefinite."""
    return jnp.stack([kernel.matrix(X) for kernel in kernels]), all(k.positive_definite for k in kernels)


@partial(jax.jit, static_argnames="intercept")
def _ridge(kernels, X, Y, weights, lams, intercept):
    stack, definite = _stack(kernels, X)

    def one(Y, lams):
        data = center_gram(jnp.einsum("k,kij->ij", 1 / lams, stack), definite, Y, weights, intercept)
        return ridge_in(data, jnp.where(jnp.all(lams > 0), 1.0, jnp.nan).astype(Y.dtype))

    if lams.ndim == 1:
        return one(Y, lams)
    # one target after the other: a Gram matrix for each at a time would be t times the memory
    coef, b, status, residual, gap, objective = lax.map(lambda lane: one(lane[0][:, None], lane[1]), (Y.T, lams.T))
    return coef[..., 0].T, b[:, 0], worst(status), jnp.max(residual), jnp.max(gap), jnp.sum(objective)


class _Choice(NamedTuple):
    """log λ (m, t) that were chosen, their leave-one-out error (t,), the iterations used, and a status."""

    log_lams: Array
    score: Array
    num_iter: Array
    status: Array


def multi_kernel_ridge_fit(
    kernels: Sequence[Any],
    X: Any,
    y: Any,
    *,
    method: str = "leave_one_out",
    num_candidates: int = 50,
    num_scales: int = 20,
    key: Array | None = None,
    weights: Any = None,
    intercept: bool = False,
    tol: float | None = None,
    max_iter: int = 50,
) -> Solution:
    r"""`multi_kernel_ridge` with the strengths chosen for each target by the exact leave-one-out error.

    The search draws mixtures γ of the kernels (each alone, all in equal parts, and random ones) and tries Σₖ γₖKₖ, the
    Kₖ scaled to one trace, at a grid of overall strengths: one eigendecomposition per mixture serves all strengths and
    targets. `method="gradient"` goes on from the best mixture by L-BFGS on the logarithm of the leave-one-out error as
    a function of log λ, a target at a time.

    Args:
        kernels, X, y, weights, intercept: as in `multi_kernel_ridge`.
        method: "leave_one_out" or "gradient".
        num_candidates: random mixtures to try, beside the m + 1 that always are.
        num_scales: overall strengths to try with each.
        key: of the random mixtures; `jax.random.key(0)` if None.
        tol: of "gradient": the largest entry of the gradient at which to stop; by dtype if None.
        max_iter: of "gradient".

    Returns:
        A `Solution` like that of `multi_kernel_ridge`; `lam` are the strengths, (m,) or (m, t). Infinity says that a
        target is best without a kernel. The status is BOUNDARY where "leave_one_out" chose the first or the last of the
        overall strengths for a target: one without signal, or without noise.

    Example:
        >>> import jax, jax.numpy as jnp, regjax
        >>> from regjax.kernels import RBF, on
        >>> X = jax.random.normal(jax.random.key(0), (60, 2))
        >>> kernels = [on(RBF(1.0), 0), on(RBF(1.0), 1)]
        >>> fit = regjax.multi_kernel_ridge_fit(kernels, X, jnp.sin(2 * X[:, 1]))
        >>> print(fit.lam.argmin())
        1

    References:
        Dupré la Tour et al., NeuroImage 264 (2022), section 2.5.
    """
    if method not in ("leave_one_out", "gradient"):
        raise ValueError(f"method must be 'leave_one_out' or 'gradient', got {method!r}")
    if num_candidates < 0 or num_scales < 1:
        raise ValueError(f"num_candidates and num_scales must be positive, got {num_candidates} and {num_scales}")
    kernels, samples = _checked(kernels, X, y, weights)
    key = jax.random.key(0) if key is None else key
    mixtures = _mixtures(key, len(kernels), num_candidates, samples.Y.dtype)
    arrays = (kernels, samples.X, samples.Y, samples.weights)
    choice = _search(*arrays, mixtures, intercept, num_scales)
    if method == "gradient":
        tol = float(jnp.finfo(samples.Y.dtype).eps) ** 0.4 if tol is None else tol
        choice = _descend(*arrays, choice, intercept, tol, max_iter)
    fit = _fit(kernels, samples, jnp.exp(choice.log_lams), intercept)
    status = jnp.where(succeeded(fit.status) & (choice.status != Status.CONVERGED), choice.status, fit.status)
    return replace(fit, status=status.astype(jnp.int32), num_iter=choice.num_iter, lam=fit.params.lams)


def _mixtures(key: Array, m: int, count: int, dtype: Any) -> Array:
    """Points of the simplex (m + 1 + count, m): its corners, its centre, random ones near the faces and inside."""
    concentration = jnp.where(jnp.arange(count) % 2 == 0, 0.2, 1.0)[:, None] * jnp.ones(m)
    logs = jax.random.loggamma(key, concentration.astype(dtype), dtype=dtype)
    return jnp.concatenate([jnp.eye(m, dtype=dtype), jnp.full((1, m), 1 / m, dtype), jax.nn.softmax(logs, axis=1)])


def _mean_square(errors: Array, weights: Array | None) -> Array:
    """Σ v e²/Σ v (t,)."""
    v = jnp.ones(len(errors), errors.dtype) if weights is None else weights
    return v @ jnp.where((v > 0)[:, None], errors, 0) ** 2 / jnp.sum(v)


@partial(jax.jit, static_argnames=("intercept", "num_scales"))
def _search(kernels, X, Y, weights, mixtures, intercept, num_scales):
    stack, definite = _stack(kernels, X)
    present = jnp.ones_like(Y[:, 0]) if weights is None else (weights > 0).astype(Y.dtype)
    count = jnp.maximum(jnp.sum(present), 1)
    trace = jnp.einsum("kii,i->k", stack, present) / count
    trace = jnp.where(trace > 0, trace, 1)
    scales = jnp.geomspace(1e-4, 10.0 * count, num_scales, dtype=Y.dtype)

    def one(mixture):  # (scales, t)
        data = center_gram(jnp.einsum("k,kij->ij", mixture / trace, stack), definite, Y, weights, intercept)
        scores = jax.vmap(lambda scale: _mean_square(loo_in(data, scale), weights))(scales)
        return jnp.where(jnp.isnan(scores), jnp.inf, scores)

    scores = lax.map(one, mixtures).reshape(-1, Y.shape[1])
    best = jnp.argmin(scores, axis=0)
    place = best % num_scales
    mixture, scale = mixtures[best // num_scales], scales[place]
    log_lams = jnp.log(trace)[:, None] + jnp.log(scale) - jnp.log(mixture).T
    score = jnp.min(scores, axis=0)
    at_end = jnp.any((place == 0) | (place == num_scales - 1))
    status = jnp.where(at_end & (num_scales > 1), Status.BOUNDARY, Status.CONVERGED)
    status = jnp.where(jnp.all(jnp.isfinite(score)), status, Status.NON_FINITE)
    return _Choice(log_lams, score, jnp.zeros((), jnp.int32), status)


@partial(jax.jit, static_argnames=("intercept", "tol", "max_iter"))
def _descend(kernels, X, Y, weights, choice, intercept, tol, max_iter):
    stack, definite = _stack(kernels, X)

    def descend(lane):
        y, start = lane
        smallest = jnp.min(start)
        start = jnp.minimum(start, smallest + 7.0)  # a kernel that is left out would have no gradient

        def score(logs):
            K = jnp.einsum("k,kij->ij", jnp.exp(-logs), stack)
            data = center_gram(K, definite, y[:, None], weights, intercept)
            error = _mean_square(loo_in(data, jnp.ones((), y.dtype)), weights)[0]
            return jnp.log(jnp.maximum(error, jnp.finfo(y.dtype).tiny))  # of a target that is zero, no more can be had

        result = lbfgs(score, start, tol=tol, max_iter=max_iter)
        return result.state[0], score(result.state[0]), result.num_iter, result.status

    logs, values, counts, statuses = lax.map(descend, (Y.T, choice.log_lams.T))
    return _Choice(logs.T, jnp.exp(values), jnp.max(counts), worst(statuses))
