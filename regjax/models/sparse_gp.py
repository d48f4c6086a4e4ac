"""Gaussian processes of many samples through few inducing points: the collapsed variational bound."""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.scipy.special import ndtri

from regjax.core import gaussian, linalg
from regjax.core.bfgs import minimize_box
from regjax.core.checks import require
from regjax.core.factors import Factor
from regjax.core.lanes import lane_by_lane
from regjax.core.node import register_node
from regjax.core.products import cross
from regjax.core.solution import Solution, Status, succeeded
from regjax.kernels.gram import BLOCK, blocked_product, check_points, indefinite, over_blocks
from regjax.kernels.kernel import Kernel
from regjax.models.gp_parameters import layout_of, log_prior, priors_of, search_of
from regjax.models.gp_problem import check_process, count_targets, mean_at


@register_node
@dataclass(frozen=True, eq=False)
class SparseProcess:
    """A Gaussian process given data through m inducing points, a callable pytree: `process(Z)` is the mean at Z.

    Attributes:
        kernel: k.
        inducing: the inducing points, m of them.
        noise: σ², a scalar or (n,).
        prior_mean: an array or a callable pytree.
        coef: of k(·, uⱼ) in the posterior mean, (m,) or (m, t).
        bound: the lower bound of the log marginal likelihood, a scalar or (t,).
        jitter: what was added to the diagonal of the Gram matrix of the inducing points.
        status: int32, a `Status`.
        inner: B = I + AAᵀ, with A = LK_mnσ⁻¹ the whitened Gram matrix.
        outer_factor, inner_factor: of the Gram matrix of the inducing points, and of B.
    """

    kernel: Kernel
    inducing: Any
    noise: Array
    prior_mean: Any
    coef: Array
    bound: Array
    jitter: Array
    status: Array
    inner: Array
    outer_factor: Factor
    inner_factor: Factor

    def __call__(self, Z: Any) -> Array:
        """The posterior mean at Z, (q,) or (q, t)."""
        return self.mean(Z)

    def mean(self, Z: Any) -> Array:
        """The posterior mean at q points, (q,) or (q, t), by blocks."""
        _, Z = check_points(self.inducing, Z)
        return mean_at(self.prior_mean, Z) + blocked_product(self.kernel, Z, self.inducing, self.coef)

    def variance(self, Z: Any, noise: bool = False) -> Array:
        """The posterior variance of the function at q points (q,), by blocks; of a new target with `noise=True`."""
        _, Z = check_points(self.inducing, Z)
        latent = _variance(self, Z)
        if not noise:
            return latent
        if self.noise.ndim:
            raise ValueError("noise=True needs one noise variance: this process has one for each training sample")
        return latent + self.noise

    def interval(self, Z: Any, level: float = 0.95, noise: bool = False) -> tuple[Array, Array]:
        """Ends of the central interval of this level for the function; with `noise=True` for new targets."""
        mean = self.mean(Z)
        require(lambda level: (level >= 0) & (level < 1), level, message=f"level must be in [0, 1), got {level}")
        half = ndtri(0.5 + jnp.asarray(level, mean.dtype) / 2) * jnp.sqrt(self.variance(Z, noise))
        half = half[:, None] if half.ndim < mean.ndim else half
        return mean - half, mean + half


def sparse_gp(
    kernel: Any, X: Any, y: Any, noise: Any, inducing: Any, *, mean: Any = None, weights: Any = None
) -> SparseProcess:
    r"""Gaussian process regression through inducing points, in O(nm²) time and O(m² + block) memory.

    With Q = K_nm K_mm⁻¹ K_mn the log marginal likelihood of `gp` is at least

        log N(y; m, Q + σ²I) − ½ Σᵢ (k(xᵢ, xᵢ) − qᵢᵢ)/σᵢ²,

    and equal to it where the inducing points are the samples. The posterior is that of the best Gaussian distribution
    of the function at the inducing points. `bound` is differentiable with respect to hyperparameters, noise, mean and
    inducing points; `sparse_gp_fit` maximises it over all of them.

    Args:
        kernel, X, y, mean: as in `gp`. Noise belongs in `noise`, not in a `White` kernel.
        noise: σ² > 0, a scalar or one per sample (n,).
        inducing: m points like X.
        weights: v (n,), as in `gp`: the noise of a sample is σ²/vᵢ.

    Returns:
        A `SparseProcess`: `mean(Z)`, `variance(Z)`, `interval(Z)`, `bound`.

    Example:
        >>> import jax.numpy as jnp, regjax
        >>> x = jnp.linspace(0, 6, 200)
        >>> few = regjax.sparse_gp(regjax.kernels.RBF(1.0), x, jnp.sin(x), 0.01, jnp.linspace(0, 6, 12))
        >>> print(bool(jnp.abs(few(x) - jnp.sin(x)).max() < 0.02))
        True

    References:
        Titsias, Variational learning of inducing variables in sparse Gaussian processes, AISTATS 2009.
    """
    samples, noise, mean = check_process(kernel, X, y, noise, mean, weights)
    require(lambda a: jnp.all(a > 0), noise, message=f"noise must be positive for a sparse process, got {noise}")
    _, inducing = check_points(samples.X, inducing, "inducing")
    parts = _collapse(samples.kernel, samples.X, samples.Y, noise, mean, samples.weights, inducing)
    return SparseProcess(
        kernel=samples.kernel,
        inducing=inducing,
        noise=noise,
        prior_mean=mean,
        coef=samples.per_target(parts.coef),
        bound=samples.per_target(parts.bound),
        jitter=parts.jitter,
        status=parts.status,
        inner=parts.inner,
        outer_factor=parts.outer_factor,
        inner_factor=parts.inner_factor,
    )


class _Collapsed(NamedTuple):
    coef: Array
    bound: Array
    jitter: Array
    status: Array
    inner: Array
    outer_factor: Factor
    inner_factor: Factor


@jax.jit
def _collapse(
    kernel: Kernel, X: Any, Y: Array, noise: Array, mean: Any, weights: Array | None, inducing: Any
) -> _Collapsed:
    n, dtype = len(Y), Y.dtype
    v = jnp.ones(n, dtype) if weights is None else weights
    present = v > 0
    shift = mean_at(mean, X)
    R = Y - (shift[:, None] if jnp.ndim(shift) == 1 and callable(mean) else shift)
    variances = jnp.where(present, noise / jnp.where(present, v, 1), 1)
    K = kernel.matrix(inducing)
    m = len(K)
    eye = jnp.eye(m, dtype=dtype)
    outer, jitter = gaussian.factor_covariance(K)
    W = gaussian.whitener(outer, K + jitter * eye)

    @jax.checkpoint  # the derivative computes a block again rather than keep them all
    def add(total, rows):
        points = jax.tree.map(lambda a: a[rows[0]], X)
        root = jnp.where(rows[1] & present[rows[0]], lax.rsqrt(variances[rows[0]]), 0)
        A = W @ (kernel.matrix(inducing, points) * root)
        r = root[:, None] * R[rows[0]]
        own = kernel.diagonal(points) * root**2
        inner, image, squares, spread = total
        return (inner + A @ A.T, image + A @ r, squares + jnp.sum(r**2, axis=0), spread + jnp.sum(own)), None

    size = max(1, min(n, BLOCK // m))
    index = jnp.arange(-(-n // size) * size).reshape(-1, size)
    blocks = (jnp.minimum(index, n - 1), index < n)
    zero = (
        jnp.zeros((m, m), dtype),
        jnp.zeros((m, R.shape[1]), dtype),
        jnp.zeros(R.shape[1], dtype),
        jnp.zeros((), dtype),
    )
    (inner, image, squares, spread), _ = lax.scan(add, zero, blocks)
    missed = spread - jnp.trace(inner)
    inner = inner + eye
    factor, _ = gaussian.factor_covariance(inner, largest=0.0)
    beta = gaussian.solve(factor, inner, image)
    volume = linalg.logdet(factor, inner, jnp.zeros((), dtype)) + jnp.sum(jnp.log(variances))
    volume = volume + jnp.sum(present) * math.log(2 * math.pi)
    bound = -(volume + squares - jnp.sum(image * beta, axis=0) + missed) / 2
    coef = cross(W, beta)
    status = jnp.where(
        succeeded(outer.status), jnp.where(succeeded(factor.status), outer.status, factor.status), outer.status
    )
    bad = indefinite(jnp.diagonal(K), None if kernel.positive_definite else K)
    status = jnp.where(bad, Status.NOT_POSITIVE_DEFINITE, status)
    finite = jnp.all(jnp.isfinite(coef)) & jnp.all(jnp.isfinite(bound))
    status = jnp.where(succeeded(status) & ~finite, Status.NON_FINITE, status)
    valid = jnp.all(noise > 0) & jnp.all(v >= 0) & jnp.any(present)
    coef, bound = (jnp.where(valid, a, jnp.nan) for a in (coef, bound))
    status = jnp.where(valid, status, Status.INVALID).astype(jnp.int32)
    return _Collapsed(coef, bound, jitter, status, inner, outer, factor)


@jax.jit
def _variance(process: SparseProcess, Z: Any) -> Array:
    K = process.kernel.matrix(process.inducing)
    W = gaussian.whitener(process.outer_factor, K + process.jitter * jnp.eye(len(K), dtype=K.dtype))

    @jax.checkpoint
    def block(Z):
        A = process.kernel.matrix(Z, process.inducing) @ W.T
        known = linalg.quad_diag(process.inner_factor, process.inner, A, jnp.zeros((), K.dtype))
        return process.kernel.diagonal(Z) - jnp.sum(A**2, axis=1) + known

    return jnp.maximum(over_blocks(block, Z, min(max(1, BLOCK // len(K)), len(jax.tree.leaves(Z)[0]))), 0)


def sparse_gp_fit(
    kernel: Any,
    X: Any,
    y: Any,
    noise: Any,
    inducing: Any,
    *,
    mean: Any = None,
    weights: Any = None,
    fixed: Any = None,
    bounds: Any = None,
    priors: Any = None,
    max_iter: int = 200,
    tol: float | None = None,
) -> Solution:
    r"""`sparse_gp` with hyperparameters and inducing points chosen by gradient, from the values given.

    Maximises the bound of `sparse_gp` (the sum over targets, plus log priors) by the optimiser of `gp_fit`: BFGS
    within bounds, one evaluation for every step.

    Args:
        kernel, X, y, noise, inducing, mean, weights: as in `sparse_gp`; where the search starts.
        fixed, bounds, priors: as in `gp_fit`, with the key "inducing" besides: `fixed={"inducing": True}`.
        max_iter, tol: as in `gp_fit`.

    Returns:
        A `Solution` whose `params` is the `SparseProcess`; `objective` is minus what was maximised.

    Example:
        >>> import jax, jax.numpy as jnp, regjax
        >>> x = jnp.linspace(0, 6, 200)
        >>> y = jnp.sin(x) + 0.1 * jax.random.normal(jax.random.key(0), (200,))
        >>> fit = regjax.sparse_gp_fit(1.0 * regjax.kernels.RBF(1.0), x, y, 0.1, jnp.linspace(0, 6, 8), max_iter=100)
        >>> print(bool(jnp.abs(jnp.sqrt(fit.params.noise) - 0.1) < 0.03))
        True

    References:
        Titsias, Variational learning of inducing variables in sparse Gaussian processes, AISTATS 2009.
    """
    samples, noise, prior_mean = check_process(kernel, X, y, noise, mean, weights)
    dtype = samples.Y.dtype
    _, inducing = check_points(samples.X, inducing, "inducing")
    tree = {"kernel": samples.kernel, "noise": noise, "mean": prior_mean, "inducing": inducing}
    tree = jax.tree.map(lambda a: jnp.asarray(a, dtype), tree)
    if mean is None:
        fixed = {**(fixed or {}), "mean": True}
    layout = layout_of(tree, fixed)
    search = search_of(layout, tree, bounds, samples.Y, samples.weights)
    tol = float(jnp.finfo(dtype).eps) ** 0.4 if tol is None else tol
    priors = priors_of(priors, tree)
    data = (samples.X, samples.Y, samples.weights)
    chosen, found = _fit(layout, int(max_iter), tree, *data, search, priors, jnp.asarray(tol, dtype))
    process = sparse_gp(
        chosen["kernel"],
        samples.X,
        samples.per_target(samples.Y),
        chosen["noise"],
        chosen["inducing"],
        mean=None if mean is None else chosen["mean"],
        weights=samples.weights,
    )
    status = jnp.where(succeeded(found.status) & ~succeeded(process.status), process.status, found.status)
    nan = jnp.full((), jnp.nan, dtype)
    # of the process that is returned: in float32 its bound, a difference of large terms, hangs on how it is compiled
    objective = -jnp.sum(process.bound) - log_prior(priors, chosen)
    return Solution(process, status.astype(jnp.int32), found.num_eval, found.residual, nan, objective)


@partial(jax.jit, static_argnames=("layout", "max_iter"))
def _fit(layout, max_iter, tree, X, Y, weights, search, priors, tol):
    def one(tree, X, Y, weights, lower, upper, priors, tol):
        def value(theta):
            parts = layout.unpack(theta, tree)
            collapsed = _collapse(parts["kernel"], X, Y, parts["noise"], parts["mean"], weights, parts["inducing"])
            return -jnp.sum(collapsed.bound) - log_prior(priors, parts)

        start = jnp.clip(layout.pack(tree), lower, upper)
        scale = count_targets(Y, weights)
        return minimize_box(jax.value_and_grad(value), start, lower, upper, scale=scale, tol=tol, max_iter=max_iter)

    found = lane_by_lane(one)(tree, X, Y, weights, search.lower, search.upper, priors, tol)
    return layout.unpack(found.point, tree), found
