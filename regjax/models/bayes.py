"""Bayesian linear regression: ridge with its uncertainty."""

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.scipy.special import ndtri

from regjax.core import factors, linalg
from regjax.core.checks import as_float_array, check_finite, require
from regjax.core.factors import Factor
from regjax.core.implicit import implicit_solution
from regjax.core.loop import iterate
from regjax.core.node import register_node
from regjax.core.products import cross
from regjax.core.solution import Solution, Status, succeeded
from regjax.core.tree import ravel_design
from regjax.models.penalized import Gram, certify, fit_one, gram, summarize, worst
from regjax.models.problem import Centred, Samples, center, check_samples


@register_node
@dataclass(frozen=True, eq=False)
class BayesLinear:
    """The posterior of y = b + Xw + ε with Gaussian w and ε, a callable pytree.

    Attributes:
        coef: the posterior mean of w, like a row of the design; with t targets each leaf has a last axis t.
        intercept: b; zero without one.
        covariance: posterior covariance of w (p, p), columns in the order of the ravelled design; (t, p, p) where the
            targets have variances of their own.
        log_evidence: log p(y), the restricted likelihood with a flat intercept; a scalar or (t,).
        noise: the variances of ε: a scalar, (n,), or (t,) from `bayes_linear_fit`.
        prior: the variance or covariance of w.
        center, precision: of the design (p,) and its total weight, for the uncertainty of b.
    """

    coef: Any
    intercept: Array
    covariance: Array
    log_evidence: Array
    noise: Array
    prior: Array
    center: Array
    precision: Array

    def __call__(self, Z: Any) -> Array:
        """The predictive mean at Z, (m,) or (m, t)."""
        return self.mean(Z)

    def mean(self, Z: Any) -> Array:
        """The predictive mean at Z, (m,) or (m, t)."""
        matrix, structure = ravel_design(Z)
        return self.intercept + matrix @ structure.ravel(self.coef, jnp.shape(self.intercept))

    def variance(self, Z: Any, noise: bool = False) -> Array:
        """The predictive variance of b + zw at each row of Z (m,), plus that of ε with `noise=True`.

        With variances per target it is (m, t).
        """
        matrix, structure = ravel_design(Z)
        structure.ravel(self.coef, jnp.shape(self.intercept))
        centred = matrix - self.center
        latent = jnp.einsum("ij,...jk,ik->i...", centred, self.covariance, centred)
        flat = jnp.where(self.precision > 0, 1 / jnp.where(self.precision > 0, self.precision, 1), 0)
        latent = jnp.maximum(latent, 0) + flat
        if not noise:
            return latent
        if self.noise.shape != self.covariance.shape[:-2]:
            raise ValueError("noise=True needs one noise variance: this model has one for each training sample")
        return latent + self.noise

    def interval(self, Z: Any, level: float = 0.95, noise: bool = False) -> tuple[Array, Array]:
        """Ends of the central interval of this level for the function; with `noise=True` for new targets."""
        mean = self.mean(Z)
        require(lambda level: (level >= 0) & (level < 1), level, message=f"level must be in [0, 1), got {level}")
        half = ndtri(0.5 + level / 2) * jnp.sqrt(self.variance(Z, noise))
        half = half[:, None] if half.ndim < mean.ndim else half
        return mean - half, mean + half


def bayes_linear(X: Any, y: Any, noise: Any, prior: Any, *, weights: Any = None, intercept: bool = False) -> Solution:
    r"""The posterior of Bayesian linear regression.

    For y = Xw + ε with w ~ N(0, P) and ε ~ N(0, σ²): mean and covariance of w | y, predictive mean and variance, and
    the evidence log N(y; 0, XPXᵀ + σ²I), from one factorization of the smaller of the primal and the dual matrix. The
    mean minimises ½‖y − Xw‖² + (σ²/2) wᵀP⁻¹w: `ridge` at λ = noise/prior. `jax.vmap` over scalar variances shares one
    eigendecomposition.

    Args:
        X: (n, p), or a pytree of arrays with n samples in front.
        y: (n,) or (n, t).
        noise: the variance σ² of ε > 0, a scalar or one per sample (n,).
        prior: the variance of w > 0: a scalar, one per coefficient (p,), or a covariance matrix (p, p).
        weights: v (n,): precisions, ε has variance σ²/vᵢ.
        intercept: whether b with a flat prior is in the model; the evidence is then the restricted likelihood.

    Returns:
        A `Solution` whose `params` is a `BayesLinear`: `coef` the posterior mean, `covariance`, `log_evidence`,
        `mean(Z)`, `variance(Z, noise=False)`, `interval(Z)`.

    Example:
        >>> import numpy as np, regjax
        >>> posterior = regjax.bayes_linear(np.array([[1.0], [2.0]]), np.array([1.0, 2.0]), 1.0, 1.0).params
        >>> print(np.asarray(posterior.coef).round(3), np.asarray(posterior.covariance).round(3))
        [0.833] [[0.167]]

    References:
        Rasmussen & Williams, Gaussian Processes for Machine Learning, MIT Press 2006, section 2.1.
    """
    samples = check_samples(X, y, weights)
    n, p = samples.X.shape
    noise = _check_variance("noise", noise, samples.X.dtype, [(), (n,)])
    prior = _check_variance("prior", prior, samples.X.dtype, [(), (p,), (p, p)])
    return _posterior(samples, noise, prior, intercept)


def _check_variance(name: str, value: Any, dtype: Any, shapes: list[tuple[int, ...]]) -> Array:
    array = as_float_array(name, value).astype(dtype)
    if array.shape not in shapes:
        raise ValueError(f"{name} has shape {array.shape}: it takes {' or '.join(map(str, shapes))}")
    check_finite(name, array.reshape(-1))
    if array.ndim < 2:
        require(lambda a: jnp.all(a > 0), array, message=f"{name} is a variance and must be positive, got {array}")
    else:
        require(lambda a: jnp.allclose(a, a.T, rtol=1e-4), array, message=f"{name} must be a symmetric matrix")
        require(lambda a: jnp.all(jnp.diagonal(a) > 0), array, message=f"{name} must have a positive diagonal")
    return array


class _Whitened(NamedTuple):
    """The model in coordinates z with w = root z and z ~ N(0, τ²I), and noise σ²/vᵢ: ridge at λ = σ²/τ²."""

    data: Centred
    root: Array
    sigma2: Array
    tau2: Array
    proper: Array


def _whiten(X, Y, weights, noise, prior, intercept) -> _Whitened:
    one = jnp.ones((), X.dtype)
    v = jnp.ones(len(X), X.dtype) if weights is None else weights
    if noise.ndim:  # heteroscedastic: the precisions are weights
        v, noise = v / noise, one
    data = center(X, Y, v, intercept)
    if prior.ndim == 0:
        return _Whitened(data, jnp.eye(X.shape[1], dtype=X.dtype), noise, prior, jnp.array(True))
    if prior.ndim == 1:
        return _Whitened(
            data._replace(X=data.X * jnp.sqrt(prior)), jnp.diag(jnp.sqrt(prior)), noise, one, jnp.array(True)
        )
    root, _, status = factors.jittered_cholesky(prior)
    return _Whitened(data._replace(X=data.X @ root), root, noise, one, status == Status.CONVERGED)


def _posterior(samples: Samples, noise: Array, prior: Array, intercept: bool) -> Solution:
    coef, covariance, evidence, data, lam, proof = _bayes(
        samples.X, samples.Y, samples.weights, noise, prior, intercept
    )
    solution = summarize(samples, data, coef, data.intercept_of(coef), lam, proof)
    sigma2 = noise if noise.ndim == 0 else jnp.ones_like(data.total)
    params = BayesLinear(
        coef=solution.params.coef,
        intercept=solution.params.intercept,
        covariance=covariance,
        log_evidence=samples.per_target(evidence),
        noise=noise,
        prior=prior,
        center=data.mean_x,
        precision=data.total / sigma2 if intercept else jnp.zeros_like(data.total),
    )
    return replace(solution, params=params)


@partial(jax.jit, static_argnames="intercept")
def _bayes(X, Y, weights, noise, prior, intercept):
    white = _whiten(X, Y, weights, noise, prior, intercept)
    lam = white.sigma2 / white.tau2
    matrix = gram(white.data, None)
    fit = fit_one(white.data, white.data.Y, matrix, lam, None)
    proof = certify(white.data, white.data.Y, matrix, fit, lam, None)
    proof = proof._replace(status=jnp.where(white.proper, proof.status, Status.NOT_POSITIVE_DEFINITE))
    evidence = _log_evidence(white, matrix, fit.factor, 2 * proof.objective, lam)
    variances = prior if prior.ndim < 2 else jnp.diagonal(prior)
    valid = white.data.valid & jnp.all(noise > 0) & jnp.all(variances > 0)
    evidence, lam = jnp.where(valid, evidence, jnp.nan), jnp.where(valid, lam, -1)
    covariance = white.root @ _whitened_covariance(white, matrix, fit.factor, lam) @ white.root.T
    data = center(X, Y, white.data.weights, intercept)
    return white.root @ fit.coef, covariance, evidence, data, lam, proof


def _whitened_covariance(white: _Whitened, matrix: Gram, factor: Factor, lam: Array) -> Array:
    """τ²λ(X̃ᵀVX̃ + λI)⁻¹ (p, p), in the dual form as τ²(I − X̃ᵀ(K + λI)⁻¹X̃)."""
    scaled = white.data.scaled_x
    eye = jnp.eye(scaled.shape[1], dtype=scaled.dtype)
    if matrix.dual:
        return white.tau2 * (eye - cross(scaled, linalg.solve(factor, matrix.matrix, scaled, lam)))
    return white.sigma2 * linalg.solve(factor, matrix.matrix, eye, lam)


def _log_evidence(white: _Whitened, matrix: Gram, factor: Factor, penalized_squares: Array, lam: Array) -> Array:
    """log ∫∫ p(y | w, b) p(w) dw db for each target."""
    data = white.data
    positive = data.weights > 0
    flat = jnp.any(data.unit > 0)
    count = jnp.sum(positive) - flat
    logdet = linalg.logdet(factor, matrix.matrix, lam)
    if matrix.dual:  # the lifted direction of the intercept, and rows without weight, are not in the model
        logdet = logdet - jnp.where(flat, jnp.log(matrix.lift + lam), 0) - jnp.sum(~positive) * jnp.log(lam)
        logdet = logdet + count * jnp.log(white.tau2)
    else:
        logdet = logdet - data.X.shape[1] * jnp.log(lam) + count * jnp.log(white.sigma2)
    logdet = logdet - jnp.sum(jnp.where(positive, jnp.log(jnp.where(positive, data.weights, 1)), 0))
    logdet = logdet + jnp.where(flat, jnp.log(data.total), 0)
    return -(penalized_squares / white.sigma2 + logdet + count * math.log(2 * math.pi)) / 2


def bayes_linear_fit(X: Any, y: Any, *, weights: Any = None, intercept: bool = False) -> Solution:
    r"""Bayesian linear regression with both variances chosen by the evidence.

    Maximises log N(y; 0, τ²XXᵀ + σ²I) over σ² and τ², for each target. Given λ = σ²/τ² the best σ² is in closed form,
    and in the eigenbasis of XXᵀ the evidence of any λ costs O(min(n, p)): a search over a grid of λ and a bisection
    on the derivative share one eigendecomposition. No iteration refits the model. Where the evidence grows without
    end, λ is at an end of its range: λ → ∞ is a prior of variance zero (no signal), λ → 0 no noise; the status is
    BOUNDARY.

    Args:
        X, y, weights: as in `bayes_linear`.
        intercept: whether b with a flat prior is in the model.

    Returns:
        A `Solution` as of `bayes_linear`, with `params.noise` and `params.prior` as chosen, scalars or (t,), and `lam`
        their ratio. Derivatives go through the choice by the implicit function theorem.

    Example:
        >>> import jax, jax.numpy as jnp, regjax
        >>> data = regjax.data.make_regression(jax.random.key(0), 200, 5, noise=0.5)
        >>> fit = regjax.bayes_linear_fit(data.X, data.y)
        >>> print(bool(jnp.abs(fit.params.noise - 0.25) < 0.05))
        True

    References:
        MacKay, Bayesian interpolation, Neural Computation 4 (1992).
    """
    samples = check_samples(X, y, weights)
    lam, sigma2, count, status = _choose(samples.X, samples.Y, samples.weights, intercept)

    def one(y, sigma2, lam):
        target = samples._replace(Y=y[:, None], single=True)
        return _posterior(target, sigma2, sigma2 / lam, intercept)

    fits = jax.vmap(one)(samples.Y.T, sigma2, lam)
    if samples.single:
        params = jax.tree.map(lambda a: a[0], fits.params)
    else:
        coef = jax.tree.map(lambda a: jnp.moveaxis(a, 0, -1), fits.params.coef)
        params = replace(fits.params, coef=coef, center=fits.params.center[0])
    return Solution(
        params=params,
        status=worst(jnp.where(succeeded(fits.status), status, fits.status)),
        num_iter=jnp.max(count),
        residual=jnp.max(fits.residual),
        gap=jnp.max(fits.gap),
        objective=jnp.sum(fits.objective),
        lam=samples.per_target(lam),
    )


@partial(jax.jit, static_argnames="intercept")
def _choose(X, Y, weights, intercept):
    """λ, σ² (t,), the steps taken and the statuses."""
    data = center(X, Y, weights, intercept)
    theta = (data.scaled_x, data.scaled_y)
    count = (jnp.sum(data.weights > 0) - jnp.any(data.unit > 0)).astype(X.dtype)
    log_lam, steps, status = _maximize_evidence(*lax.stop_gradient((*theta, count)))
    at_optimum = implicit_solution(_evidence_slope, _divide_by_curvature, log_lam, (*theta, count), None)
    log_lam = jnp.where(status == Status.CONVERGED, at_optimum, log_lam)
    lam = jnp.exp(log_lam)
    # a target of zeros has no noise either: the smallest variance stands for none
    sigma2 = jnp.maximum(_penalized_squares(*theta, lam) / count, jnp.sqrt(jnp.finfo(X.dtype).tiny))
    return lam, sigma2, steps, status


def _gram_of(scaled_x: Array) -> tuple[Array, factors.Root, bool]:
    n, p = scaled_x.shape
    return (cross(scaled_x, scaled_x), (scaled_x.T,), False) if p <= n else (scaled_x @ scaled_x.T, (scaled_x,), True)


def _penalized_squares(scaled_x, scaled_y, lam):
    """min_w ‖y − Xw‖² + λ‖w‖² (t,) for one λ per target, differentiable."""
    A, root, dual = _gram_of(scaled_x)

    def one(y, lam):
        factor = factors.factorize(A, lam, root=root)
        if dual:
            return lam * jnp.sum(y * linalg.solve(factor, A, y[:, None], lam)[:, 0])
        coef = linalg.solve(factor, A, cross(scaled_x, y[:, None]), lam)[:, 0]
        left = y - scaled_x @ coef
        return jnp.sum(left**2) + lam * jnp.sum(coef**2)

    return jax.vmap(one)(scaled_y.T, lam)


def _evidence_slope(log_lam, theta):
    """The derivative of the log evidence, σ² at its best, with respect to log λ: one number per target."""
    scaled_x, scaled_y, count = theta
    A, root, dual = _gram_of(scaled_x)
    rank = A.shape[0]

    def one(y, log_lam):
        lam = jnp.exp(log_lam)
        factor = factors.factorize(A, lam, root=root)
        if dual:
            weight = linalg.solve(factor, A, y[:, None], lam)[:, 0]
            length = cross(scaled_x, weight[:, None])
            squares = lam * jnp.sum(y * weight)
        else:
            length = linalg.solve(factor, A, cross(scaled_x, y[:, None]), lam)
            left = y - scaled_x @ length[:, 0]
            squares = jnp.sum(left**2) + lam * jnp.sum(length**2)
        explained = rank - lam * jnp.sum(linalg.quad_diag(factor, A, None, lam))  # Σ d/(d + λ)
        return (explained - count * lam * jnp.sum(length**2) / squares) / 2

    return jax.vmap(one)(scaled_y.T, log_lam)


def _divide_by_curvature(aux, theta, log_lam, rhs):
    del aux
    _, slope = jax.jvp(lambda z: _evidence_slope(z, theta), (log_lam,), (jnp.ones_like(log_lam),))
    return jnp.where(slope == 0, 0, rhs / jnp.where(slope == 0, 1, slope))


def _maximize_evidence(scaled_x, scaled_y, count):
    A, root, dual = _gram_of(scaled_x)
    spectrum = factors.spectrum(A, root)
    d = jnp.where(spectrum.kept, jnp.maximum(spectrum.values, 0), 0)[:, None]
    if dual:
        energy = cross(spectrum.vectors, scaled_y) ** 2
    else:
        energy = jnp.where(d > 0, cross(spectrum.vectors, cross(scaled_x, scaled_y)) ** 2 / jnp.where(d > 0, d, 1), 0)
    energy = jnp.where(d > 0, energy, 0)
    whole = jnp.sum(scaled_y**2, axis=0)
    rest = whole - jnp.sum(energy, axis=0)
    rest = jnp.where(rest > 10 * len(scaled_y) * jnp.finfo(d.dtype).eps * whole, rest, 0)
    rank = jnp.sum(d > 0)

    def shares(log_lam):
        """λ/(d + λ), and the penalized squares rest + Σ energy λ/(d + λ)."""
        share = jnp.exp(log_lam) / (d + jnp.exp(log_lam))
        return share, rest + jnp.sum(energy * share, axis=0)

    def value(log_lam):
        share, squares = shares(log_lam)
        return (jnp.sum(jnp.where(d > 0, jnp.log(share), 0), axis=0) - count * jnp.log(squares)) / 2

    def slope(log_lam):  # written so that nothing cancels where λ is small and the fit can interpolate
        share, squares = shares(log_lam)
        shrunk = jnp.sum(jnp.where(d > 0, share, 0), axis=0)
        return (rank - count - shrunk + count * (rest + jnp.sum(energy * share**2, axis=0)) / squares) / 2

    top = jnp.log(jnp.max(d))
    reach = -0.8 * jnp.log(jnp.finfo(d.dtype).eps)
    grid = jnp.linspace(top - reach, top + reach, 129)[:, None] + jnp.zeros_like(rest)
    values, slopes = jax.vmap(value)(grid), jax.vmap(slope)(grid)
    # the evidence may have several maxima: each lies where the slope changes its sign, or at an end
    edge = jnp.full_like(values[:1], -jnp.inf)
    peak = jnp.where((slopes[:-1] > 0) & (slopes[1:] <= 0), jnp.maximum(values[:-1], values[1:]), -jnp.inf)
    low_end = jnp.where(slopes[:1] <= 0, values[:1], edge)
    high_end = jnp.where(slopes[-1:] > 0, values[-1:], edge)
    best = jnp.argmax(jnp.concatenate([low_end, peak, high_end]), axis=0)
    inside = (best > 0) & (best < len(grid)) & (whole > 0)
    left = jnp.clip(best - 1, 0, len(grid) - 2)
    bracket = tuple(jnp.take_along_axis(grid, (left + k)[None], axis=0)[0] for k in (0, 1))

    def step(bracket):
        low, high = bracket
        half = (low + high) / 2
        up = slope(half) > 0
        low, high = jnp.where(up, half, low), jnp.where(up, high, half)
        return (low, high), jnp.max(jnp.where(inside, high - low, 0))

    tol = 4 * jnp.finfo(d.dtype).eps * jnp.maximum(jnp.abs(top), 1)
    result = iterate(step, bracket, tol=tol, max_iter=80, patience=3)
    low, high = result.state
    end = jnp.where((best == 0) & (whole > 0), grid[0], grid[-1])  # a target of zeros has no signal
    status = jnp.where(inside, Status.CONVERGED, Status.BOUNDARY)
    return jnp.where(inside, (low + high) / 2, end), result.num_iter, status.astype(jnp.int32)
