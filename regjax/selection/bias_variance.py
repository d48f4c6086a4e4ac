"""Where the error of a model comes from: its bias, its variance, and the noise of the samples."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from regjax.core.checks import as_float_array, check_finite, check_lengths, require
from regjax.core.node import register_node
from regjax.core.solution import succeeded
from regjax.core.tree import ravel_design
from regjax.models.problem import check_weights
from regjax.selection.cross_validate import Model


@register_node
@dataclass(frozen=True, eq=False)
class BiasVariance:
    """The expected squared error of predictions of new samples, in parts, along a grid of L hyperparameters.

    Each part is a mean over the points at which it is asked.

    Attributes:
        bias_squared: (L,), (E f̂(x) − f(x))².
        variance: (L,), Var f̂(x).
        noise: σ², a scalar: what no model can predict.
        mse: (L,), their sum.
        standard_error: (L,), of `mse`, from the simulation; 0 where the expectation is exact.
        hyperparameters: the grid.
        status: (R, L), of the fits of each replicate.
    """

    bias_squared: Array
    variance: Array
    noise: Array
    mse: Array
    standard_error: Array
    hyperparameters: Any
    status: Array

    @property
    def best(self) -> Array:
        """The index of the least `mse`."""
        return jnp.nanargmin(self.mse).astype(jnp.int32)

    @property
    def converged(self) -> Array:
        """Whether every fit is the answer to its problem."""
        return jnp.all(succeeded(self.status))


def bias_variance(
    model: Model,
    truth: Callable[[Any], Any],
    key: Any,
    X: Any,
    hyperparameters: Any,
    *,
    noise: Any = 1.0,
    at: Any = None,
    num_replicates: int = 100,
    weights: Any = None,
) -> BiasVariance:
    r"""E(y_new − f̂(x))² = (E f̂(x) − f(x))² + Var f̂(x) + σ², by simulation of y = f(X) + ε, for each hyperparameter.

    X is held fixed, ε is Gaussian of variance σ² (σ²/vᵢ with weights). Replicates × hyperparameters are lanes of one
    compiled call. Of R replicates with mean f̄ and sample variance s², the parts are estimated without bias as
    (f̄ − f)² − s²/R and s², which may make the first a little negative.

    With `key=None` the expectation is exact instead of simulated, for models whose predictions are linear in y
    (`ridge`, `kernel_ridge`, `smoothing_spline`): E f̂ is the fit to f(X), and Var f̂ = σ² Σⱼ (∂f̂/∂yⱼ)²/vⱼ. For other
    models that is the answer to first order in σ.

    Args:
        model: `(X, y, hyperparameters, weights) -> Solution`, as in `cross_validate`.
        truth: f, a function of a design that returns the true means (n,).
        key: of the noise; None for the exact expectation of a linear model.
        X: the design at which samples are drawn.
        hyperparameters: a pytree with the axis (L,) in front of every leaf.
        noise: the variance σ² ≥ 0.
        at: the design at which errors are asked; X if None.
        num_replicates: R, at least 2.
        weights: v (n,), precisions of the samples; 1 if None.

    Returns:
        A `BiasVariance`.

    Example:
        >>> import jax, jax.numpy as jnp, regjax
        >>> X = jax.random.normal(jax.random.key(0), (30, 5))
        >>> result = regjax.bias_variance(
        ...     lambda X, y, lam, v: regjax.ridge(X, y, lam, weights=v), lambda X: X @ jnp.ones(5), jax.random.key(1),
        ...     X, jnp.array([0.1, 10.0, 1e3]))
        >>> print(result.bias_squared.argmax(), result.variance.argmax())
        2 0

    References:
        Hastie, Tibshirani & Friedman, The Elements of Statistical Learning, Springer 2009, section 7.3.
    """
    if not callable(model) or not callable(truth):
        raise ValueError(
            "model and truth must be functions, (X, y, hyperparameters, weights) -> Solution and X -> (n,)"
        )
    if num_replicates < 2:
        raise ValueError(f"num_replicates must be at least 2, got {num_replicates}")
    check_lengths("hyperparameters", jax.tree.leaves(hyperparameters))
    matrix, _ = ravel_design(X)
    check_finite("X", matrix)
    mean = as_float_array("truth", truth(X))
    goal = mean if at is None else as_float_array("truth", truth(at))
    if mean.shape != (len(matrix),) or goal.ndim != 1:
        raise ValueError(f"truth must return one mean per sample, ({len(matrix)},), got the shape {mean.shape}")
    noise = as_float_array("noise", noise).astype(mean.dtype)
    if noise.ndim:
        raise ValueError(f"noise has shape {noise.shape}: it takes a variance, a scalar")
    require(lambda a: a >= 0, noise, message=f"noise must be non-negative and not NaN, got {noise}")
    v = None if weights is None else check_weights(weights, len(matrix), mean.dtype)
    places = X if at is None else at
    run = _exact if key is None else partial(_simulate, key, num_replicates=num_replicates)
    return run(X, places, mean, goal, noise, v, hyperparameters, model=model)


def _spread(v: Array | None, mean: Array) -> Array:
    """The variance of each sample in units of σ² (n,); a sample of weight zero counts for nothing, so it has none."""
    return jnp.ones_like(mean) if v is None else jnp.where(v > 0, 1 / jnp.where(v > 0, v, 1), 0)


@partial(jax.jit, static_argnames=("model", "num_replicates"))
def _simulate(key, X, at, mean, goal, noise, v, hyperparameters, *, model, num_replicates) -> BiasVariance:
    draws = jax.random.normal(key, (num_replicates, len(mean)), mean.dtype)
    targets = mean + jnp.sqrt(noise * _spread(v, mean)) * draws

    def one(y, values):
        fit = model(X, y, values, v)
        return fit.params(at), fit.status

    grid = jax.vmap(jax.vmap(one, (None, 0)), (0, None))
    found, status = grid(targets, hyperparameters)  # (R, L, m)
    center = jnp.mean(found, axis=0)
    variance = jnp.sum((found - center) ** 2, axis=0) / (num_replicates - 1)
    bias = jnp.mean((center - goal) ** 2 - variance / num_replicates, axis=1)
    each = jnp.mean((found - goal) ** 2, axis=2)
    error = jnp.std(each, axis=0, ddof=1) / jnp.sqrt(num_replicates)
    variance = jnp.mean(variance, axis=1)
    return BiasVariance(bias, variance, noise, bias + variance + noise, error, hyperparameters, status)


@partial(jax.jit, static_argnames="model")
def _exact(X, at, mean, goal, noise, v, hyperparameters, *, model) -> BiasVariance:
    spread = _spread(v, mean)

    def one(values):
        def predict(y):
            return model(X, y, values, v).params(at)

        moves = jax.vmap(lambda direction: jax.jvp(predict, (mean,), (direction,))[1])(jnp.diag(jnp.sqrt(spread)))
        bias = jnp.mean((predict(mean) - goal) ** 2)
        return bias, noise * jnp.mean(jnp.sum(moves**2, axis=0)), model(X, mean, values, v).status

    bias, variance, status = jax.vmap(one)(hyperparameters)
    exact = jnp.zeros_like(bias)
    return BiasVariance(bias, variance, noise, bias + variance + noise, exact, hyperparameters, status[None])
