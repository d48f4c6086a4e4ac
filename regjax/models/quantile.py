"""Quantile regression."""

from typing import Any

import jax.numpy as jnp

from regjax.core.checks import as_float_array
from regjax.core.solution import Solution
from regjax.losses import Quantile
from regjax.models.fit import fit
from regjax.penalties import Penalty, Zero


def quantile_regression(
    X: Any,
    y: Any,
    tau: Any,
    penalty: Penalty | None = None,
    *,
    non_crossing: bool = False,
    weights: Any = None,
    offset: Any = None,
    lower: Any = None,
    upper: Any = None,
    intercept: bool = True,
    tol: float | None = None,
    max_iter: int | None = None,
) -> Solution:
    r"""Quantile regression: minimise Σᵢ vᵢ ρ_τ(yᵢ − oᵢ − b − xᵢw) + P(w), ρ_τ(r) = max(τr, (τ − 1)r).

    A linear program, solved exactly by an interior point method; under penalties that are none, such as `Group`, the
    measure is the duality gap. The minimiser need not be unique, the objective is.
    With several τ the objective is the sum over them, with coefficients of their own for each.

    Args:
        X, y, weights, offset, lower, upper, intercept, tol, max_iter: as in `fit`; y is (n,) with several τ.
        tau: τ, between 0 and 1: a scalar, or (t,) for t quantiles at once.
        penalty: P, any convex one of `regjax.penalties`; none if None.
        non_crossing: whether a larger τ must not predict less at any sample of positive weight, and so nowhere in the
            convex hull of these samples. Beyond it, lines that are not parallel do cross. P is then one of linear
            costs, limits and squares, such as `L1`, `TotalVariation`, `Box` and `L2`.

    Returns:
        A `Solution`, its coefficients (p, t) with several τ. Its derivatives are those of the samples that are fitted
        exactly and of the coefficients at a kink or a limit; nan where the solution is not unique or more are fitted
        exactly than it takes.

    Example:
        >>> import jax.numpy as jnp, regjax
        >>> X, y = jnp.array([[0.0], [0.0], [0.0], [1.0], [1.0], [1.0]]), jnp.array([1.0, 2.0, 9.0, 3.0, 5.0, 6.0])
        >>> print(round(float(regjax.quantile_regression(X, y, 0.5).params.coef[0]), 3))  # 5 − 2
        3.0

    References:
        Koenker & Bassett, Regression quantiles, Econometrica 46 (1978).
        Bondell, Reich & Wang, Noncrossing quantile regression curve estimation, Biometrika 97 (2010).
    """
    levels = as_float_array("tau", tau)
    if levels.ndim > 1 or levels.size == 0:
        raise ValueError(f"tau has shape {levels.shape}: it takes a scalar or (t,)")
    if non_crossing and levels.ndim == 0:
        raise ValueError("non_crossing takes several tau, got one")
    if levels.ndim == 1:
        target = as_float_array("y", y)
        if target.ndim != 1:
            raise ValueError(f"y has shape {target.shape}: with several tau it takes (n,)")
        y = jnp.broadcast_to(target[:, None], (len(target), len(levels)))
    return fit(
        X, y, Quantile(levels, non_crossing), Zero() if penalty is None else penalty, weights=weights, offset=offset,
        lower=lower, upper=upper, intercept=intercept, tol=tol, max_iter=max_iter,
    )  # fmt: skip
