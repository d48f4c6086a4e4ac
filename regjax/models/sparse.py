"""Sparse regression: the lasso, the elastic net and their family."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from regjax.core.checks import check_finite, require
from regjax.core.solution import Solution
from regjax.losses import Squared
from regjax.models.fit import fit
from regjax.models.linear import ols, ridge
from regjax.models.prepare import check_offset
from regjax.models.problem import check_samples
from regjax.penalties import L1, ElasticNet, Group, MultiTask, NonNegative, SparseGroup, check_penalty
from regjax.solvers.minimize import Solver


def lasso(
    X: Any,
    y: Any,
    lam: Any,
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
    r"""The lasso: minimise ½ Σᵢ vᵢ (yᵢ − oᵢ − b − xᵢw)² + λ Σⱼ fⱼ|wⱼ|.

    Args:
        X, y, weights, offset, lower, upper, intercept, standardize, solver, init, tol, max_iter: as in `fit`.
        lam: λ ≥ 0: a scalar, an array that broadcasts against the coefficients, or a prefix pytree of the design.
        factors: f, one per coefficient: 0 leaves it unpenalised, inf excludes it; 1 if None.

    Returns:
        A `Solution` whose `params` is a `Linear` model.

    Example:
        >>> import jax.numpy as jnp, regjax
        >>> X, y = jnp.array([[1.0], [2.0], [3.0]]), jnp.array([2.0, 4.0, 6.0])
        >>> print(regjax.lasso(X, y, 2.0).params.coef)  # (⟨x, y⟩ − λ)/‖x‖² of the centred data
        [1.]

    References:
        Tibshirani, Regression shrinkage and selection via the lasso, JRSS B 58 (1996).
    """
    return fit(
        X, y, Squared(), L1(lam, factors), weights=weights, offset=offset, lower=lower, upper=upper,
        intercept=intercept, standardize=standardize, solver=solver, init=init, tol=tol, max_iter=max_iter,
    )  # fmt: skip


def elastic_net(
    X: Any,
    y: Any,
    l1: Any,
    l2: Any,
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
    r"""The elastic net: minimise ½ Σᵢ vᵢ (yᵢ − oᵢ − b − xᵢw)² + Σⱼ fⱼ (l1|wⱼ| + (l2/2)wⱼ²).

    l2 = 0 is `lasso`, l1 = 0 is `ridge`; a text's λ₂‖w‖² is l2 = 2λ₂.

    Args:
        X, y, weights, offset, lower, upper, intercept, standardize, solver, init, tol, max_iter: as in `fit`.
        l1, l2: strengths ≥ 0, each like `lam` of `lasso`.
        factors: f, one per coefficient, for both parts.

    Example:
        >>> import jax.numpy as jnp, regjax
        >>> X, y = jnp.eye(2), jnp.array([3.0, 0.5])
        >>> print(regjax.elastic_net(X, y, 1.0, 1.0, intercept=False).params.coef)  # S(y, l1)/(1 + l2)
        [1. 0.]

    References:
        Zou & Hastie, Regularization and variable selection via the elastic net, JRSS B 67 (2005).
    """
    return fit(
        X, y, Squared(), ElasticNet(l1, l2, factors), weights=weights, offset=offset, lower=lower, upper=upper,
        intercept=intercept, standardize=standardize, solver=solver, init=init, tol=tol, max_iter=max_iter,
    )  # fmt: skip


def group_lasso(
    X: Any,
    y: Any,
    lam: Any,
    groups: Any,
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
    r"""The group lasso: minimise ½ Σᵢ vᵢ (yᵢ − oᵢ − b − xᵢw)² + λ Σ_g f_g ‖w_g‖₂, f_g = √|g| by default.

    Args:
        X, y, weights, offset, lower, upper, intercept, standardize, solver, init, tol, max_iter: as in `fit`.
        lam: λ ≥ 0, a scalar.
        groups: the number of each column's group, p integers from 0.
        factors: f, one per group.

    Example:
        >>> import jax.numpy as jnp, regjax
        >>> X, y = jnp.eye(3), jnp.array([3.0, 4.0, 1.0])
        >>> fit = regjax.group_lasso(X, y, 2.5, [0, 0, 1], factors=jnp.ones(2), intercept=False)
        >>> print(fit.params.coef)
        [1.5 2.  0. ]

    References:
        Yuan & Lin, Model selection and estimation in regression with grouped variables, JRSS B 68 (2006).
    """
    return fit(
        X, y, Squared(), Group(lam, groups, factors), weights=weights, offset=offset, lower=lower, upper=upper,
        intercept=intercept, standardize=standardize, solver=solver, init=init, tol=tol, max_iter=max_iter,
    )  # fmt: skip


def sparse_group_lasso(
    X: Any,
    y: Any,
    l1: Any,
    l2: Any,
    groups: Any,
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
    r"""The sparse group lasso: minimise ½ Σᵢ vᵢ (yᵢ − oᵢ − b − xᵢw)² + l1‖w‖₁ + l2 Σ_g f_g ‖w_g‖₂.

    Args:
        X, y, weights, offset, lower, upper, intercept, standardize, solver, init, tol, max_iter: as in `fit`.
        l1, l2: strengths ≥ 0, scalars.
        groups, factors: as in `group_lasso`.

    Example:
        >>> import jax.numpy as jnp, regjax
        >>> X, y = jnp.eye(3), jnp.array([4.0, 5.0, 1.5])
        >>> fit = regjax.sparse_group_lasso(X, y, 1.0, 2.5, [0, 0, 1], factors=jnp.ones(2), intercept=False)
        >>> print(fit.params.coef.round(4))
        [1.5 2.  0. ]

    References:
        Simon et al., A sparse-group lasso, J. Comp. Graph. Stat. 22 (2013).
    """
    return fit(
        X, y, Squared(), SparseGroup(l1, l2, groups, factors), weights=weights, offset=offset, lower=lower, upper=upper,
        intercept=intercept, standardize=standardize, solver=solver, init=init, tol=tol, max_iter=max_iter,
    )  # fmt: skip


def multitask_lasso(
    X: Any,
    Y: Any,
    lam: Any,
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
    r"""The multi-task lasso: minimise ½ Σᵢ vᵢ ‖yᵢ − oᵢ − b − xᵢW‖² + λ Σⱼ fⱼ ‖Wⱼ‖₂ over the rows of W (p, t).

    A column of X is in the model for all targets or for none.

    Args:
        X, weights, offset, lower, upper, intercept, standardize, solver, init, tol, max_iter: as in `fit`.
        Y: (n, t).
        lam: λ ≥ 0, a scalar or one per row (p, 1).
        factors: f, one per row.

    Example:
        >>> import jax.numpy as jnp, regjax
        >>> Y = jnp.array([[3.0, 4.0], [0.5, 0.5]])
        >>> print(regjax.multitask_lasso(jnp.eye(2), Y, 2.5, intercept=False).params.coef)
        [[1.5 2. ]
         [0.  0. ]]

    References:
        Obozinski, Taskar & Jordan, Joint covariate selection and joint subspace selection, Stat. Comput. 20 (2010).
    """
    return fit(
        X, Y, Squared(), MultiTask(lam, factors), weights=weights, offset=offset, lower=lower, upper=upper,
        intercept=intercept, standardize=standardize, solver=solver, init=init, tol=tol, max_iter=max_iter,
    )  # fmt: skip


def nonnegative_least_squares(
    X: Any,
    y: Any,
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
    r"""Least squares with w ≥ 0: minimise ½ Σᵢ vᵢ (yᵢ − oᵢ − b − xᵢw)².

    There is no penalty to scale a dual point into: unless the residuals are one up to rounding, `gap` is nan and the
    certificate is the optimality `residual`.

    Args:
        X, y, weights, offset, intercept, standardize, solver, init, tol, max_iter: as in `fit`.
        factors: one per coefficient; inf excludes it, other values say nothing, as there is no penalty.
        lower, upper: other limits, lower ≤ 0 ≤ upper, such as `lower=-inf` for coefficients of any sign; `lower` is 0
            if None.

    Example:
        >>> import jax.numpy as jnp, regjax
        >>> fit = regjax.nonnegative_least_squares(jnp.eye(2), jnp.array([3.0, -1.0]), intercept=False)
        >>> print(fit.params.coef)
        [3. 0.]

    References:
        Lawson & Hanson, Solving Least Squares Problems, Prentice-Hall 1974, chapter 23.
    """
    penalty = NonNegative()
    if lower is not None or upper is not None or factors is not None:
        penalty, lower = L1(0.0, factors), 0.0 if lower is None else lower
    return fit(
        X, y, Squared(), penalty, weights=weights, offset=offset, lower=lower, upper=upper, intercept=intercept,
        standardize=standardize, solver=solver, init=init, tol=tol, max_iter=max_iter,
    )  # fmt: skip


def adaptive_lasso(
    X: Any,
    y: Any,
    lam: Any,
    *,
    pilot: Any = None,
    power: float = 1.0,
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
    r"""The adaptive lasso: the lasso with factors fⱼ/|w̃ⱼ|^γ of a pilot estimate w̃.

    Args:
        X, y, lam, weights, offset, lower, upper, intercept, standardize, solver, init, tol, max_iter: as in `lasso`.
        pilot: w̃, like `params.coef`; if None the `ols` estimate for p < n, else the `ridge` estimate at λ = n. A
            coefficient that is 0 in the pilot is excluded.
        power: γ > 0.
        factors: f, as in `lasso`; 1 if None.

    Example:
        >>> import jax.numpy as jnp, regjax
        >>> y = jnp.array([4.0, 1.0])
        >>> print(regjax.adaptive_lasso(jnp.eye(2), y, 1.0, pilot=y, intercept=False).params.coef)
        [3.75 0.  ]

    References:
        Zou, The adaptive lasso and its oracle properties, JASA 101 (2006).
    """
    require(lambda g: g > 0, power, message=f"power must be positive, got {power}")
    samples = check_samples(X, y, weights)
    n, p = samples.X.shape
    if pilot is None:
        target = samples.Y - check_offset(offset, samples)
        first = ols if p < n else partial(ridge, lam=float(n))
        pilot = first(X, target[:, 0] if samples.single else target, weights=weights, intercept=intercept).params.coef
    trailing = () if samples.single else samples.Y.shape[1:]
    check_finite("pilot", samples.structure.ravel(pilot, trailing, "pilot"))
    given = check_penalty(L1(1.0, factors), samples.structure, trailing, samples.X.dtype).factors
    factors = jax.tree.map(lambda w: jnp.where(w == 0, jnp.inf, 1 / jnp.abs(jnp.where(w == 0, 1, w)) ** power), pilot)
    if given is not None:
        adapted = samples.structure.ravel(factors, trailing, "pilot").reshape(p, -1)
        both = jnp.where(given == 0, 0, given * jnp.where(given == 0, 1, adapted))
        factors = samples.structure.unravel(both[:, 0] if samples.single else both)
    return lasso(
        X, y, lam, factors=factors, weights=weights, offset=offset, lower=lower, upper=upper, intercept=intercept,
        standardize=standardize, solver=solver, init=init, tol=tol, max_iter=max_iter,
    )  # fmt: skip
