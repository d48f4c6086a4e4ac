"""Gaussian process regression: kernel ridge with its uncertainty and its likelihood."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.special import ndtri

from regjax.core import gaussian
from regjax.core.checks import require
from regjax.core.factors import Factor, jittered_cholesky
from regjax.core.implicit import with_derivative_of
from regjax.core.linalg import quad_diag
from regjax.core.node import register_node
from regjax.core.solution import Status, succeeded
from regjax.kernels.gram import BLOCK, blocked_product, check_points, indefinite, over_blocks
from regjax.kernels.kernel import Kernel
from regjax.models.gp_problem import (
    LeaveOneOut,
    Prior,
    check_process,
    leave_one_out,
    log_likelihood,
    mean_at,
    prior,
)


@register_node
@dataclass(frozen=True, eq=False)
class GaussianProcess:
    """A Gaussian process given data, a callable pytree: `process(Z)` is the posterior mean at Z.

    Differentiable with respect to all that went into it: hyperparameters, noise, mean, points and targets.

    Attributes:
        kernel: k.
        points: xᵢ, n of them.
        targets: y (n,) or (n, t).
        noise: the variances σ² of y about the function: a scalar or (n,).
        prior_mean: m, an array or a callable pytree.
        weights: v (n,) or None.
        coef: α = (K + σ²V⁻¹)⁻¹(y − m) (n,) or (n, t), the coefficients of k(·, xᵢ) in the posterior mean.
        log_marginal_likelihood: log p(y), a scalar or (t,).
        jitter: what was added to the diagonal of K + σ²I so that it could be factored; 0 in good cases.
        status: int32, a `Status`.
        factor: of the covariance of the targets.
    """

    kernel: Kernel
    points: Any
    targets: Array
    noise: Array
    prior_mean: Any
    weights: Array | None
    coef: Array
    log_marginal_likelihood: Array
    jitter: Array
    status: Array
    factor: Factor

    def __call__(self, Z: Any) -> Array:
        """The posterior mean at Z, (m,) or (m, t)."""
        return self.mean(Z)

    def mean(self, Z: Any) -> Array:
        """The posterior mean at m points, (m,) or (m, t), by blocks of points."""
        return _mean(self, self._at(Z))

    def variance(self, Z: Any, noise: bool = False) -> Array:
        """The posterior variance of the function at m points (m,), by blocks; of a new target with `noise=True`."""
        latent = _variance(self, self._at(Z))
        if not noise:
            return latent
        if self.noise.ndim:
            raise ValueError("noise=True needs one noise variance: this process has one for each training sample")
        return latent + self.noise

    def covariance(self, Z: Any) -> Array:
        """The posterior covariance of the function at m points (m, m)."""
        return _covariance(self, self._at(Z))

    def interval(self, Z: Any, level: float = 0.95, noise: bool = False) -> tuple[Array, Array]:
        """Ends of the central interval of this level for the function; with `noise=True` for new targets."""
        mean = self.mean(Z)
        require(lambda level: (level >= 0) & (level < 1), level, message=f"level must be in [0, 1), got {level}")
        half = ndtri(0.5 + jnp.asarray(level, mean.dtype) / 2) * jnp.sqrt(self.variance(Z, noise))
        half = half[:, None] if half.ndim < mean.ndim else half
        return mean - half, mean + half

    def sample(self, key: Array, Z: Any, num: int = 1) -> Array:
        """Functions drawn from the posterior at m points: (num, m) or (num, m, t).

        Where the covariance is singular to working precision its diagonal is raised, by as little as makes it regular.
        """
        mean = self.mean(Z)
        before = jnp.mean(self.kernel.diagonal(self._at(Z)))  # of which the rounding of the covariance is a part
        covariance = self.covariance(Z)
        largest = float(jnp.finfo(mean.dtype).eps) ** 0.25
        root, _, _ = jittered_cholesky(covariance, largest=largest, unit=jnp.where(before > 0, before, 1))
        root = jnp.where(jnp.all(covariance == 0), 0, root)
        draws = jax.random.normal(key, (num, *mean.shape), mean.dtype)
        return mean + jnp.einsum("ij,sj...->si...", root, draws)

    def loo(self) -> LeaveOneOut:
        """Mean, variance and log density of each target as predicted from all others, without refits."""
        return _loo(self)

    def _at(self, Z: Any) -> Any:
        if jnp.ndim(self.status):
            raise ValueError("this is a batch of processes: call it as jax.vmap(lambda process: process(Z))(processes)")
        return check_points(self.points, Z)[1]

    def _prior(self) -> Prior:
        """Not held but computed again: only derivatives need it."""
        Y = self.targets.reshape(len(self.targets), -1)
        full = prior(self.kernel, self.points, Y, self.noise, self.prior_mean, self.weights)
        return full._replace(shift=full.shift + self.jitter)


def gp(kernel: Any, X: Any, y: Any, noise: Any, *, mean: Any = None, weights: Any = None) -> GaussianProcess:
    r"""Gaussian process regression with known hyperparameters.

    For y = f(x) + ε with f ~ GP(m, k) and ε ~ N(0, σ²): the posterior of f, which has mean m(z) + k(z, X)α and
    covariance k(z, z') − k(z, X)(K + σ²I)⁻¹k(X, z'), where α = (K + σ²I)⁻¹(y − m(X)); and the marginal likelihood
    log N(y; m(X), K + σ²I). The mean is `kernel_ridge` at λ = σ². `gp_fit` chooses the hyperparameters.

    K + σ²I is factored by Cholesky. Where it is singular to working precision its diagonal is raised by a `jitter`
    that grows tenfold, up to eps^¼ times its mean (1e-4 in float64, 2e-2 in float32), and the status says JITTERED;
    beyond that it says NOT_POSITIVE_DEFINITE, and the answer is nan.

    Args:
        kernel: of `regjax.kernels`, or a function of two points. Where it is not known to be positive semidefinite its
            Gram matrix is looked at, and the status says NOT_POSITIVE_DEFINITE.
        X: n points: (n, p), (n,) or a pytree of arrays with n in front.
        y: (n,), or (n, t): t processes with one kernel.
        noise: σ² ≥ 0, a variance: a scalar, or one per sample (n,).
        mean: m: a number, one per target (t,), or a function of points (m of them to (m,) or (m, t)) such as the params
            of a linear model, a callable pytree. 0 if None.
        weights: v (n,): precisions, ε has variance σ²/vᵢ. A sample of weight zero has no influence
            (and the derivative in its weight is given as 0, as in `kernel_ridge`).

    Returns:
        A `GaussianProcess`: `mean(Z)`, `variance(Z)`, `covariance(Z)`, `interval(Z)`, `sample(key, Z)`, `loo()`,
        `log_marginal_likelihood`.

    Example:
        >>> import jax.numpy as jnp, regjax
        >>> x = jnp.linspace(0, 6, 20)
        >>> process = regjax.gp(regjax.kernels.RBF(1.0), x, jnp.sin(x), 0.01)
        >>> low, high = process.interval(jnp.array([3.0]))
        >>> print(process(jnp.array([3.0])).round(2), (high - low).round(1), process.log_marginal_likelihood.round(1))
        [0.14] [0.2] 7.6

    References:
        Rasmussen & Williams, Gaussian Processes for Machine Learning, MIT Press 2006, chapters 2 and 5.
    """
    samples, noise, mean = check_process(kernel, X, y, noise, mean, weights)
    fitted = _condition(samples.kernel, samples.X, samples.Y, noise, mean, samples.weights)
    coef, likelihood, jitter, status, factor = fitted
    return GaussianProcess(
        kernel=samples.kernel,
        points=samples.X,
        targets=samples.per_target(samples.Y),
        noise=noise,
        prior_mean=mean,
        weights=samples.weights,
        coef=samples.per_target(coef),
        log_marginal_likelihood=samples.per_target(likelihood),
        jitter=jitter,
        status=status,
        factor=factor,
    )


@jax.jit
def _condition(kernel, X, Y, noise, mean, weights):
    data = prior(kernel, X, Y, noise, mean, weights)
    factor, jitter = gaussian.factor_covariance(data.A)
    data = data._replace(shift=data.shift + jitter)
    coef = gaussian.solve(factor, data.A, data.R)
    likelihood = log_likelihood(data, factor, coef)
    if data.root is not None:
        coef = data.root[:, None] * coef
    status = factor.status
    bad = indefinite(kernel.diagonal(X), None if kernel.positive_definite else kernel.matrix(X))
    status = jnp.where(bad, Status.NOT_POSITIVE_DEFINITE, status)
    finite = jnp.all(jnp.isfinite(coef)) & jnp.all(jnp.isfinite(likelihood))
    status = jnp.where(succeeded(status) & ~finite, Status.NON_FINITE, status)
    valid = jnp.all(noise >= 0)
    if weights is not None:
        valid &= jnp.all(weights >= 0) & jnp.any(weights > 0)
    coef, likelihood = (jnp.where(valid, a, jnp.nan) for a in (coef, likelihood))
    return coef, likelihood, jitter, jnp.where(valid, status, Status.INVALID).astype(jnp.int32), factor


@jax.jit
def _mean(process: GaussianProcess, Z: Any) -> Array:
    shift = mean_at(process.prior_mean, Z)
    return shift + blocked_product(process.kernel, Z, process.points, process.coef)


def _correlations(process: GaussianProcess, root: Array | None, Z: Any) -> Array:
    """k(z, xᵢ)√vᵢ (m, n)."""
    K = process.kernel.matrix(Z, process.points)
    return K if root is None else K * root


@jax.jit
def _variance(process: GaussianProcess, Z: Any) -> Array:
    ready = process._prior()
    A = ready.A
    rows = max(1, BLOCK // len(A))

    @jax.checkpoint
    def block(Z):
        return quad_diag(process.factor, A, _correlations(process, ready.root, Z), jnp.zeros((), A.dtype))

    explained = over_blocks(block, Z, min(rows, len(jax.tree.leaves(Z)[0])))
    return jnp.maximum(process.kernel.diagonal(Z) - explained, 0)


@jax.jit
def _covariance(process: GaussianProcess, Z: Any) -> Array:
    ready = process._prior()
    K = _correlations(process, ready.root, Z)
    white = K @ process.factor.basis
    explained = with_derivative_of(white @ white.T, K @ gaussian.solve(process.factor, ready.A, K.T))
    covariance = process.kernel.matrix(Z) - explained
    return jnp.where(jnp.eye(len(K), dtype=bool), jnp.maximum(covariance, 0), covariance)  # variances, as `variance`


@jax.jit
def _loo(process: GaussianProcess) -> LeaveOneOut:
    Y = process.targets.reshape(len(process.targets), -1)
    alpha = process.coef.reshape(Y.shape)
    if process.weights is not None:
        alpha = alpha / jnp.sqrt(jnp.where(process.weights > 0, process.weights, 1))[:, None]
    result = leave_one_out(process._prior(), process.factor, alpha, Y)
    if process.targets.ndim == 1:
        return result._replace(mean=result.mean[:, 0], log_density=result.log_density[:, 0])
    return result
