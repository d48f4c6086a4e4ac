"""Generalized linear models by name."""

from typing import Any

import jax.numpy as jnp

from regjax.core.checks import as_float_array
from regjax.core.solution import Solution
from regjax.losses import Binomial, Cox, Gamma, Multinomial, Poisson
from regjax.models.fit import fit
from regjax.models.labels import as_shares
from regjax.penalties import Penalty, Zero
from regjax.solvers.minimize import Solver


def logistic_regression(
    X: Any,
    y: Any,
    penalty: Penalty | None = None,
    *,
    link: str = "logit",
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
    r"""Logistic regression: minimise Σᵢ vᵢ (log(1 + e^ηᵢ) − yᵢηᵢ) + P(w), η = o + b + Xw.

    The probability of class 1 is `losses.Logistic().mean(params(X))`. Classes that a plane separates have no maximum
    likelihood: without a penalty the status is then SEPARATED.

    Args:
        X, weights, offset, lower, upper, intercept, standardize, solver, init, tol, max_iter: as in `fit`.
        y: classes 0 and 1, or fractions of successes with the numbers of trials as weights; (n,) or (n, t).
        penalty: P, from `regjax.penalties`; none if None.
        link: "logit", or "probit", "cloglog", "cauchit" for another distribution function.

    Returns:
        A `Solution` whose `params` is a `Linear` model of η.

    Example:
        >>> import jax.numpy as jnp, regjax
        >>> X, y = jnp.array([[0.0], [0.0], [1.0], [1.0]]), jnp.array([0.0, 1.0, 1.0, 0.75])
        >>> fit = regjax.logistic_regression(X, y)
        >>> print(round(float(fit.params.coef[0]), 3), bool(fit.converged))  # logit(7/8) − logit(1/2)
        1.946 True

    References:
        McCullagh & Nelder, Generalized Linear Models, Chapman & Hall 1989, chapter 4.
    """
    return fit(
        X, y, Binomial(link), _or_none(penalty), weights=weights, offset=offset, lower=lower, upper=upper,
        intercept=intercept, standardize=standardize, solver=solver, init=init, tol=tol, max_iter=max_iter,
    )  # fmt: skip


def poisson_regression(
    X: Any,
    y: Any,
    penalty: Penalty | None = None,
    *,
    link: str = "log",
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
    r"""Poisson regression: minimise Σᵢ vᵢ (e^ηᵢ − yᵢηᵢ) + P(w), η = o + b + Xw.

    The mean is `losses.Poisson().mean(params(X))`; counts over different exposures have their logarithms as offset.

    Args:
        X, weights, offset, lower, upper, intercept, standardize, solver, init, tol, max_iter: as in `fit`.
        y: counts, not negative; (n,) or (n, t).
        penalty: P, from `regjax.penalties`; none if None.
        link: "log", or "sqrt" for √μ = η.

    Returns:
        A `Solution` whose `params` is a `Linear` model of η.

    Example:
        >>> import jax.numpy as jnp, regjax
        >>> X, y = jnp.array([[0.0], [0.0], [1.0], [1.0]]), jnp.array([1.0, 3.0, 6.0, 10.0])
        >>> print(round(float(regjax.poisson_regression(X, y).params.coef[0]), 3))  # log(8) − log(2)
        1.386

    References:
        McCullagh & Nelder, Generalized Linear Models, Chapman & Hall 1989, chapter 6.
    """
    return fit(
        X, y, Poisson(link), _or_none(penalty), weights=weights, offset=offset, lower=lower, upper=upper,
        intercept=intercept, standardize=standardize, solver=solver, init=init, tol=tol, max_iter=max_iter,
    )  # fmt: skip


def gamma_regression(
    X: Any,
    y: Any,
    penalty: Penalty | None = None,
    *,
    link: str = "inverse",
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
    r"""Gamma regression: minimise Σᵢ vᵢ (yᵢ/μᵢ + log μᵢ) + P(w), 1/μ = o + b + Xw (or log μ).

    The coefficient of variation is the same for all samples.

    Args:
        X, weights, offset, lower, upper, intercept, standardize, solver, init, tol, max_iter: as in `fit`.
        y: positive; (n,) or (n, t).
        penalty: P, from `regjax.penalties`; none if None.
        link: "inverse", the canonical one, or "log".

    Returns:
        A `Solution` whose `params` is a `Linear` model of η.

    Example:
        >>> import jax.numpy as jnp, regjax
        >>> X, y = jnp.array([[0.0], [0.0], [1.0], [1.0]]), jnp.array([1.0, 3.0, 6.0, 10.0])
        >>> print(round(float(regjax.gamma_regression(X, y, link="log").params.coef[0]), 3))  # log(8) − log(2)
        1.386

    References:
        McCullagh & Nelder, Generalized Linear Models, Chapman & Hall 1989, chapter 8.
    """
    return fit(
        X, y, Gamma(link), _or_none(penalty), weights=weights, offset=offset, lower=lower, upper=upper,
        intercept=intercept, standardize=standardize, solver=solver, init=init, tol=tol, max_iter=max_iter,
    )  # fmt: skip


def multinomial_regression(
    X: Any,
    y: Any,
    penalty: Penalty | None = None,
    *,
    num_classes: int | None = None,
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
    r"""Multinomial logistic regression: minimise Σᵢ vᵢ (log Σₖ e^ηᵢₖ − η_{i,yᵢ}) + P(W), η = o + b + XW (n, K).

    All K classes have coefficients, which a penalty makes unique; without one those of minimum norm are found.

    Args:
        X, weights, lower, upper, intercept, standardize, solver, init, tol, max_iter: as in `fit`.
        y: classes 0, …, K − 1 as integers (n,), or shares (n, K).
        penalty: P, from `regjax.penalties`; none if None. `MultiTask` selects columns for all classes together.
        num_classes: K, needed under `jit` where y holds integers; one more than the largest if None.
        offset: o (n, K).

    Returns:
        A `Solution` whose `params` is a `Linear` model with `coef` (p, K).

    Example:
        >>> import jax.numpy as jnp, regjax
        >>> X, y = jnp.array([[0.0], [0.0], [1.0], [1.0], [2.0], [2.0]]), jnp.array([0, 1, 1, 2, 2, 0])
        >>> fit = regjax.multinomial_regression(X, y, regjax.penalties.L2(1.0))
        >>> print(fit.params.coef.shape, bool(fit.converged))
        (1, 3) True
    """
    return fit(
        X, as_shares(y, num_classes), Multinomial(), _or_none(penalty), weights=weights, offset=offset,
        lower=lower, upper=upper, intercept=intercept, standardize=standardize,
        solver=solver, init=init, tol=tol, max_iter=max_iter,
    )  # fmt: skip


def cox_regression(
    X: Any,
    time: Any,
    event: Any,
    penalty: Penalty | None = None,
    *,
    ties: str = "efron",
    weights: Any = None,
    offset: Any = None,
    lower: Any = None,
    upper: Any = None,
    standardize: bool = False,
    solver: str | Solver | None = None,
    init: Any = None,
    tol: float | None = None,
    max_iter: int | None = None,
) -> Solution:
    r"""Proportional hazards: minimise −Σ over events i of vᵢ(ηᵢ − log Σ_{tₖ ≥ tᵢ} vₖ e^ηₖ) + P(w), η = o + Xw.

    Args:
        X, weights, offset, lower, upper, standardize, solver, init, tol, max_iter: as in `fit`.
        time: (n,), until the event or the end of observation.
        event: (n,), 1 where the event was seen, 0 where the time is censored.
        penalty: P, from `regjax.penalties`; none if None.
        ties: "efron", as R's coxph, or "breslow", as glmnet.

    Returns:
        A `Solution` whose `params` is a `Linear` model of the log relative risk, without an intercept.

    Example:
        >>> import jax.numpy as jnp, regjax
        >>> X = jnp.array([[1.0], [0.0], [1.0], [0.0]])
        >>> fit = regjax.cox_regression(X, jnp.array([1.0, 2.0, 3.0, 4.0]), jnp.ones(4))
        >>> print(bool(fit.params.coef[0] > 0), bool(fit.converged))
        True True

    References:
        Cox, Regression models and life tables, JRSS B 34 (1972).
    """
    time = as_float_array("time", time)
    event = as_float_array("event", event).astype(time.dtype)
    for name, array in (("time", time), ("event", event)):
        if array.ndim != 1 or len(array) != len(time):
            raise ValueError(f"{name} has shape {array.shape}: it takes one number per sample, (n,)")
    y = jnp.stack([time, event], axis=-1)
    return fit(
        X, y, Cox(ties), _or_none(penalty), weights=weights, offset=offset, lower=lower, upper=upper,
        intercept=False, standardize=standardize, solver=solver, init=init, tol=tol, max_iter=max_iter,
    )  # fmt: skip


def _or_none(penalty: Penalty | None) -> Penalty:
    return Zero() if penalty is None else penalty
