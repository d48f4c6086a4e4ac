"""Standard errors and the like of a least squares fit."""

from dataclasses import dataclass
from functools import partial
from typing import Any, overload

import jax
import jax.numpy as jnp
from jax import Array

from regjax.core import doubled
from regjax.core.lstsq import LARGEST_DOUBLED, lstsq
from regjax.core.node import register_node
from regjax.core.solution import Solution
from regjax.losses import Loss, Multinomial
from regjax.models.coupled_likelihood import coupled_inference
from regjax.models.fit import with_outputs
from regjax.models.labels import as_shares
from regjax.models.likelihood import LikelihoodInference, likelihood_inference
from regjax.models.penalized import squares
from regjax.models.prepare import check_offset
from regjax.models.problem import Linear, center, check_samples, silence


@register_node
@dataclass(frozen=True, eq=False)
class Inference:
    """What classical theory says of a least squares fit, under independent errors of variance σ²/vᵢ.

    Attributes:
        covariance: of (b, w), the intercept first (of w alone without one): (q, q), or (t, q, q) with t targets.
        standard_errors: a `Linear` like the fit, of the square roots of its diagonal.
        t: a `Linear` of estimates over standard errors.
        residual_sd: σ̂ = √(Σ v r²/df), a scalar or (t,).
        r_squared: 1 − Σ v r²/Σ v (y − ȳ)², about zero instead of ȳ without an intercept; a scalar or (t,).
        degrees_of_freedom: samples of positive weight minus the rank.
    """

    covariance: Array
    standard_errors: Linear
    t: Linear
    residual_sd: Array
    r_squared: Array
    degrees_of_freedom: Array


@overload
def inference(
    X: Any, y: Any, solution: Solution, loss: None = None, *,
    weights: Any = None, offset: Any = None, intercept: bool = True,
) -> Inference: ...  # fmt: skip


@overload
def inference(
    X: Any, y: Any, solution: Solution, loss: Loss, *,
    weights: Any = None, offset: Any = None, intercept: bool = True,
) -> LikelihoodInference: ...  # fmt: skip


def inference(
    X: Any,
    y: Any,
    solution: Solution,
    loss: Loss | None = None,
    *,
    weights: Any = None,
    offset: Any = None,
    intercept: bool = True,
) -> Inference | LikelihoodInference:
    r"""What classical theory says of an unpenalised fit: standard errors and the like.

    Of an `ols` fit the covariance is σ̂²(ZᵀVZ)⁻¹ with Z = [1 X], from the same decomposition as `ols`; where the rank is
    deficient its pseudo-inverse is meant. Weights are precisions: they scale the variances, and n counts those that are
    positive. Of a generalized linear model it is φ̂(ZᵀHZ)⁻¹ with the expected curvatures H, of `Cox` and `Multinomial`
    with the Hessian of the loss.

    Args:
        X, y, weights, offset, intercept: as they were given to `ols`, or to `fit` with the penalty `Zero`; of
            `multinomial_regression` its y, of `cox_regression` times and events as the two columns of y.
        solution: what that returned.
        loss: the family of the generalized linear model; None for `ols`.

    Returns:
        An `Inference`, or with a loss a `LikelihoodInference`.

    Example:
        >>> import jax.numpy as jnp, regjax
        >>> X, y = jnp.array([[0.0], [1.0], [2.0], [3.0]]), jnp.array([0.1, 0.9, 2.1, 2.9])
        >>> result = regjax.inference(X, y, regjax.ols(X, y))
        >>> print(result.standard_errors.coef.round(4), int(result.degrees_of_freedom))
        [0.0566] 2

    References:
        McCullagh & Nelder, Generalized Linear Models, Chapman & Hall 1989, chapter 2. Lin & Wei, The robust inference
        for the Cox proportional hazards model, JASA 84 (1989).
    """
    if not isinstance(solution, Solution) or not isinstance(solution.params, Linear):
        raise ValueError(f"solution takes what ols and fit return, got {type(solution).__name__}")
    if isinstance(loss, Multinomial):
        y = as_shares(y, jnp.size(solution.params.intercept))
    samples, intercept = with_outputs(check_samples(X, y, weights), loss, intercept)
    if loss is not None:
        infer = coupled_inference if getattr(loss, "coupled", False) else likelihood_inference
        return infer(samples, solution.params, loss, check_offset(offset, samples), intercept)
    samples = samples._replace(Y=samples.Y - check_offset(offset, samples))
    trailing = () if samples.single else (samples.Y.shape[1],)
    dtype = samples.X.dtype
    coef = samples.structure.ravel(solution.params.coef, trailing, "solution.params.coef")
    coef = coef.reshape(-1, samples.Y.shape[1]).astype(dtype)
    constant = jnp.reshape(solution.params.intercept, (1, -1)).astype(dtype)
    spread, sd, r_squared, freedom = _infer(samples.X, samples.Y, samples.weights, coef, constant, intercept)
    errors = sd * jnp.sqrt(jnp.diagonal(spread))[:, None]
    ratio = jnp.concatenate([constant, coef]) / errors  # ±∞ for an exact fit, nan where nothing can be said
    keep = spread if intercept else spread[1:, 1:]
    covariance = samples.per_target(jnp.moveaxis(sd[:, None, None] ** 2 * keep, 0, -1))
    return Inference(
        covariance if samples.single else jnp.moveaxis(covariance, -1, 0),
        samples.model(errors[1:], errors[0]),
        samples.model(ratio[1:], jnp.where(intercept, ratio[0], 0)),
        samples.per_target(sd),
        samples.per_target(r_squared),
        freedom,
    )


@partial(jax.jit, static_argnames="intercept")
def _infer(X, Y, weights, coef, constant, intercept):
    data = center(X, Y, weights, intercept)
    X, Y = silence(X, data.weights), silence(Y, data.weights)
    found = lstsq(X, Y, data.weights, intercept=intercept)
    design = jnp.concatenate([jnp.ones_like(Y[:, :1]), X], axis=1)
    theta = jnp.concatenate([constant, coef])
    if X.size <= LARGEST_DOUBLED:
        fitted = doubled.matmul(doubled.pair(design), doubled.pair(theta))
        residuals = doubled.add(doubled.pair(Y), doubled.negate(fitted)).high
    else:
        residuals = Y - design @ theta
    freedom = jnp.sum(data.weights > 0) - found.rank - int(intercept)
    left, total = squares(data, residuals), squares(data, data.Y)
    sd = jnp.sqrt(jnp.where((freedom > 0) & data.valid, left / jnp.maximum(freedom, 1), jnp.nan))
    r_squared = 1 - jnp.where(total > 0, left / jnp.where(total > 0, total, 1), jnp.nan)
    # [1 X] = [1 X̃] T: the covariance of (b, w) from those of the mean and of w, which are independent
    rows = jnp.concatenate([-(data.mean_x @ found.basis)[None], found.basis])
    spread = rows @ rows.T
    return spread.at[0, 0].add(1 / data.total if intercept else 0), sd, r_squared, freedom
