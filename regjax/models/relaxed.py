"""What follows a sparse fit: its support, least squares on it, degrees of freedom."""

from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from regjax.core.checks import as_float_array, require
from regjax.core.factors import spectrum
from regjax.core.products import cross
from regjax.core.solution import Solution, Status
from regjax.models.linear import ols
from regjax.models.penalized import worst
from regjax.models.prepare import check_offset
from regjax.models.problem import Linear, center, check_design, check_samples
from regjax.models.sparse import lasso
from regjax.solvers.minimize import Solver


def support(solution: Solution) -> Any:
    """Which coefficients are not zero: booleans like `params.coef`.

    Example:
        >>> import jax.numpy as jnp, regjax
        >>> fit = regjax.lasso(jnp.eye(3), jnp.array([3.0, 0.5, 2.0]), 1.0, intercept=False)
        >>> print(regjax.support(fit))
        [ True False  True]
    """
    return jax.tree.map(lambda w: w != 0, solution.params.coef)


def debias(X: Any, y: Any, solution: Solution, *, weights: Any = None, intercept: bool = True) -> Solution:
    """Least squares on the support of a sparse fit, without its shrinkage; the other coefficients stay zero.

    Args:
        X, y, weights, intercept: the data of the fit, as in `ols`.
        solution: of `lasso` or any other sparse model.

    Returns:
        The `Solution` of `ols` on those columns.

    Example:
        >>> import jax.numpy as jnp, regjax
        >>> X, y = jnp.eye(2), jnp.array([3.0, 0.5])
        >>> fit = regjax.lasso(X, y, 1.0, intercept=False)
        >>> print(fit.params.coef, regjax.debias(X, y, fit, intercept=False).params.coef)
        [2. 0.] [3. 0.]
    """
    kept = support(solution)

    def one(y, kept):
        columns = _only(X, kept)
        fit = ols(columns, y, weights=weights, intercept=intercept)
        # the columns that were set to zero are no dependence in the data
        rank = _trace(*lax.stop_gradient((columns, 0.0, weights)), intercept)
        full = jnp.round(rank) == sum(map(jnp.sum, jax.tree.leaves(kept)))
        known = (fit.status == Status.RANK_DEFICIENT) & full
        return replace(fit, status=jnp.where(known, Status.CONVERGED, fit.status).astype(jnp.int32))

    if jnp.ndim(y) == 1:
        return one(y, kept)
    fits = jax.vmap(one, in_axes=(1, -1))(jnp.asarray(y), kept)
    coef = jax.tree.map(lambda w: jnp.moveaxis(w, 0, -1), fits.params.coef)
    return Solution(
        Linear(coef, fits.params.intercept), worst(fits.status), jnp.max(fits.num_iter), jnp.max(fits.residual),
        jnp.max(fits.gap), jnp.sum(fits.objective),
    )  # fmt: skip


def _only(X, kept):
    return jax.tree.map(lambda columns, keep: jnp.asarray(columns) * keep, X, kept)


def relaxed_lasso(
    X: Any,
    y: Any,
    lam: Any,
    mix: Any = 0.0,
    *,
    factors: Any = None,
    weights: Any = None,
    offset: Any = None,
    lower: Any = None,
    upper: Any = None,
    intercept: bool = True,
    standardize: bool = False,
    solver: str | Solver | None = None,
    init: Any = None,
    tol: float | None = None,
    max_iter: int | None = None,
) -> Solution:
    r"""The relaxed lasso φ·w_lasso + (1 − φ)·w_debiased: the lasso's support with less of its shrinkage.

    Args:
        X, y, lam, factors, weights, offset, lower, upper, intercept, standardize, solver, init, tol, max_iter: as in
            `lasso`. The limits hold for least squares on the support too.
        mix: φ in [0, 1]; 1 is the lasso, 0 least squares on its support.

    Returns:
        A `Solution` whose `params` is the blend; residual, gap and objective are those of the lasso fit, and the status
        is the worse of the two.

    Example:
        >>> import jax.numpy as jnp, regjax
        >>> fit = regjax.relaxed_lasso(jnp.eye(2), jnp.array([3.0, 0.5]), 1.0, 0.5, intercept=False)
        >>> print(fit.params.coef)
        [2.5 0. ]

    References:
        Hastie, Tibshirani & Tibshirani, Best subset, forward stepwise or lasso?, Statistical Science 35 (2020).
    """
    mix = as_float_array("mix", mix)
    if mix.ndim:
        raise ValueError(f"mix has shape {mix.shape}: it takes a scalar in [0, 1] (use jax.vmap for a grid)")
    require(lambda m: jnp.all((m >= 0) & (m <= 1)), mix, message=f"mix must be in [0, 1], got {mix}")
    sparse = lasso(
        X, y, lam, factors=factors, weights=weights, offset=offset, lower=lower, upper=upper, intercept=intercept,
        standardize=standardize, solver=solver, init=init, tol=tol, max_iter=max_iter,
    )  # fmt: skip
    if lower is None and upper is None:
        samples = check_samples(X, y, weights)
        target = samples.Y - check_offset(offset, samples)
        full = debias(X, samples.per_target(target), sparse, weights=weights, intercept=intercept)
    else:
        on = jax.tree.map(lambda kept: jnp.where(kept, 0.0, jnp.inf), support(sparse))
        full = lasso(
            X, y, 0.0, factors=on, weights=weights, offset=offset, lower=lower, upper=upper, intercept=intercept,
            solver=solver, tol=tol, max_iter=max_iter,
        )  # fmt: skip
    params = jax.tree.map(lambda a, b: (mix * a + (1 - mix) * b).astype(a.dtype), sparse.params, full.params)
    status = worst(jnp.stack([sparse.status, full.status]))
    return Solution(params, status, sparse.num_iter, sparse.residual, sparse.gap, sparse.objective)


def degrees_of_freedom(
    X: Any, solution: Solution, l2: Any = 0.0, *, weights: Any = None, intercept: bool = True
) -> Array:
    r"""Effective degrees of freedom of a lasso or elastic net fit to one target, without the intercept.

    tr X_A(X_AᵀVX_A + l2 I)⁻¹X_AᵀV over the support A: for the lasso the rank of the active columns.

    Args:
        X, weights, intercept: the data of the fit.
        solution: of `lasso` or `elastic_net` with y (n,).
        l2: the ridge part of the elastic net, a scalar.

    Example:
        >>> import jax.numpy as jnp, regjax
        >>> X, y = jnp.eye(2), jnp.array([3.0, 0.5])
        >>> print(regjax.degrees_of_freedom(X, regjax.lasso(X, y, 1.0, intercept=False), intercept=False))
        1.0

    References:
        Zou, Hastie & Tibshirani, On the degrees of freedom of the lasso, Annals of Statistics 35 (2007).
    """
    return _trace(_only(X, support(solution)), l2, weights, intercept)


def _trace(X: Any, l2: Any, weights: Any, intercept: bool) -> Array:
    """tr X(XᵀVX + l2 I)⁻¹XᵀV of centred columns; the rank where l2 = 0."""
    return _trace_of(*check_design(X, weights), l2, intercept=intercept)


@partial(jax.jit, static_argnames="intercept")
def _trace_of(matrix, weights, l2, *, intercept):
    data = center(matrix, jnp.zeros((len(matrix), 1), matrix.dtype), weights, intercept)
    scaled = data.scaled_x
    n, p = scaled.shape
    found = spectrum(cross(scaled, scaled), (scaled.T,)) if p <= n else spectrum(scaled @ scaled.T, (scaled,))
    kept = found.kept & (found.values > 0)
    return jnp.sum(jnp.where(kept, found.values / jnp.where(kept, found.values + l2, 1), 0))
