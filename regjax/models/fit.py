"""Any loss with any penalty: one function that the named models call."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from regjax.core.checks import check_finite, check_strength, is_concrete
from regjax.core.implicit import implicit_solution, with_derivative_of
from regjax.core.lanes import in_any_lane
from regjax.core.products import cross
from regjax.core.solution import Solution, Status, succeeded
from regjax.losses import Cox, Gaussian, Loss, Lp, Multinomial, Quantile, Squared
from regjax.models.by_columns import fit_columns
from regjax.models.by_moments import by_moments, fit_moments
from regjax.models.general import Arguments, check_loss, fit_general, lam_max_general
from regjax.models.linear import ols, ridge, tikhonov
from regjax.models.penalized import squares, worst
from regjax.models.prepare import check_limits, check_offset, prepare, within
from regjax.models.problem import Samples, check_samples
from regjax.penalties import L1, L2, Penalty, Tikhonov, Zero, check_penalty, is_valid, limit
from regjax.solvers.any_loss import resolve_loss
from regjax.solvers.certificate import null_pull
from regjax.solvers.manifold import by_conjugate_gradients, diagonal_on_manifold, drift
from regjax.solvers.minimize import Solver, resolve


def fit(
    X: Any,
    y: Any,
    loss: Loss,
    penalty: Penalty,
    *,
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
    r"""Minimise Σᵢ vᵢ ℓ(yᵢ, oᵢ + b + xᵢw) + P(w), subject to lower ≤ w ≤ upper.

    `jax.vmap` over the strengths of a convex penalty is a warm-started path; over data sets, folds (0/1 weights) and
    targets it is a batch in which no lane waits for another. Derivatives of the solution with respect to X, y, weights
    and the strengths are those of the optimality conditions on the support.

    Args:
        X: (n, p), or a pytree of arrays with n samples in front.
        y: (n,) or (n, t).
        loss: from `regjax.losses`: `Squared()` is ½(y − η)². Every smooth loss goes with every penalty, `Quantile` with
            every convex one (without crossing: with linear costs, limits and squares alone). `Multinomial` takes
            y (n, K), `Cox` (n, 2).
        penalty: from `regjax.penalties`. A strength is a scalar, an array that broadcasts against the coefficients or a
            prefix pytree of the design, one value per block.
        weights: v (n,), non-negative; 1 if None.
        offset: o, of the shape of y; 0 if None.
        lower, upper: limits of the coefficients, lower ≤ 0 ≤ upper, broadcast like a strength; none if None.
            `Tikhonov` and `SparseVariation` take none.
        intercept: whether b, unpenalised, is fitted.
        standardize: whether the penalty applies to coefficients of columns scaled to (weighted) variance 1. The
            coefficients come back on the original scale.
        solver: a name or a function of `regjax.solvers`. By default closed forms serve `Squared` with `Zero`, `L2` and
            `Tikhonov`, `working_set` the lasso and the elastic net (on accelerators, which are slow at its sequential
            loops, `fista`, all lanes at once), and `fista` everything else. With other losses
            `newton` serves those three penalties, `proximal_newton` convex ones, `fista` losses and penalties that
            couple targets, and those that are not convex. Quantiles are for `interior_point` where that is a linear or
            quadratic program, else for `splitting`. `irls` serves p-norms with those three.
        init: coefficients to start from, like `params.coef`.
        tol: the duality gap to reach relative to half the null deviance (the optimality residual where there is no
            gap); 1e-10 in float64 and 1e-5 in float32 if None.
        max_iter: the most iterations; the solver's own limit if None.

    Returns:
        A `Solution` whose `params` is a `Linear` model.

    Example:
        >>> import jax.numpy as jnp, regjax
        >>> X, y = jnp.eye(3), jnp.array([3.0, -0.5, 1.5])
        >>> solution = regjax.fit(X, y, regjax.losses.Squared(), regjax.penalties.L1(1.0), intercept=False)
        >>> print(solution.params.coef.round(3))
        [2.  0.  0.5]
    """
    samples, intercept = with_outputs(check_samples(X, y, weights), loss, intercept)
    loss, samples = without_power_of_one(loss, samples)
    shift = check_offset(offset, samples)
    squared = is_squared(loss)
    if squared:
        samples = samples._replace(Y=samples.Y - shift)
    else:
        loss = check_loss(loss, samples)
    if squared and solver is None and lower is None and upper is None and not standardize:
        closed = _closed_form(X, samples, penalty, intercept)
        if closed is not None:
            return closed
    trailing = () if samples.single else (samples.Y.shape[1],)
    coef_shape = (samples.X.shape[1], 1 if samples.single else samples.Y.shape[1])
    matrix_penalty = check_penalty(penalty, samples.structure, trailing, samples.X.dtype)
    limits = check_limits(lower, upper, samples.structure, trailing, samples.X.dtype)
    bounded = matrix_penalty if limits is None else limit(matrix_penalty, *limits)
    start = jnp.zeros(coef_shape, samples.X.dtype)
    if init is not None:
        start = samples.structure.ravel(init, trailing, "init").astype(start.dtype).reshape(coef_shape)
        check_finite("init", start)
    dtype = samples.X.dtype
    goal = check_strength("tol", (1e-10 if dtype == jnp.float64 else 1e-5) if tol is None else tol, dtype)
    if max_iter is not None and (not isinstance(max_iter, int | np.integer) or max_iter < 1):
        raise ValueError(f"max_iter takes an integer, at least 1, or None for the solver's own limit, got {max_iter!r}")
    if squared:
        coef, b, *rest = _fit(
            samples.X, samples.Y, samples.weights, matrix_penalty, limits, start, goal,
            intercept=intercept, standardize=standardize, solver=resolve(solver, bounded), max_iter=max_iter,
        )  # fmt: skip
        return Solution(samples.model(coef, b), *rest)
    shift = jnp.broadcast_to(shift, (len(samples.Y), coef_shape[1]))
    arguments = Arguments(samples.X, samples.Y, shift, samples.weights, loss, matrix_penalty, limits)
    # conjugate gradients, which serve losses that couple samples or targets, do not see columns of small scale
    standardize = standardize or (isinstance(penalty, Zero) and loss.coupled)
    coef, b, *rest = fit_general(
        arguments, start, goal, intercept=intercept, standardize=standardize,
        solver=resolve_loss(solver, loss, bounded, coef_shape[1]), max_iter=max_iter,
    )  # fmt: skip
    return Solution(samples.model(coef, b), *rest)


def with_outputs(samples: Samples, loss: Any, intercept: bool) -> tuple[Samples, bool]:
    """The samples with as many predictors as the loss takes, and whether there is an intercept."""
    if isinstance(loss, Cox):
        if samples.Y.shape[1] != 2:
            raise ValueError(f"y of Cox takes {loss.domain}; it has shape {samples.Y.shape}")
        return samples._replace(single=True), False
    if isinstance(loss, Multinomial) and (samples.single or samples.Y.shape[1] < 2):
        raise ValueError(f"y of Multinomial takes {loss.domain}; see multinomial_regression for labels")
    return samples, intercept


def without_power_of_one(loss: Any, samples: Samples) -> tuple[Any, Samples]:
    """`Lp(1)`, absolute errors, as what they are twice of: the loss of the median, which is not smoothed.

    The power must be known: `jit` must not trace it.
    """
    if not (isinstance(loss, Lp) and is_concrete(loss.p) and np.ndim(loss.p) == 0 and float(loss.p) == 1):
        return loss, samples
    weights = jnp.ones(len(samples.Y), samples.X.dtype) if samples.weights is None else samples.weights
    return Quantile(0.5), samples._replace(weights=2 * weights)


def is_squared(loss: Any) -> bool:
    """Whether it is the loss of least squares, which has solvers of its own."""
    return isinstance(loss, Squared) or (isinstance(loss, Gaussian) and loss.link == "identity")


def _closed_form(X: Any, samples: Samples, penalty: Penalty, intercept: bool) -> Solution | None:
    """The models that need no iteration; None where there is none for this penalty."""
    y = samples.Y[:, 0] if samples.single else samples.Y
    if isinstance(penalty, Zero):
        return ols(X, y, weights=samples.weights, intercept=intercept)
    if isinstance(penalty, Tikhonov):
        return tikhonov(X, y, penalty.lam, penalty.gamma, weights=samples.weights, intercept=intercept)
    if isinstance(penalty, L2) and penalty.factors is None and jnp.ndim(penalty.lam) == 0:
        return ridge(X, y, penalty.lam, weights=samples.weights, intercept=intercept)
    return None


@partial(jax.jit, static_argnames=("intercept", "standardize", "solver", "max_iter"))
def _fit(X, Y, weights, given, limits, init, tol, *, intercept, standardize, solver, max_iter):
    solve = fit_moments if by_moments(X, solver) else partial(fit_columns, solver=solver)
    found = solve(
        X, Y, weights, given, limits, init, tol, intercept=intercept, standardize=standardize, max_iter=max_iter
    )
    outcome = found.outcome
    data, penalty, size = prepare(X, Y, weights, given, limits, intercept, standardize)  # X only for derivatives
    theta = (data.X, data.Y, data.weights, penalty)
    scaled = implicit_solution(_stationarity, _solve_on_manifold, outcome.coef, theta, None)
    value = squares(data, data.Y - data.X @ scaled).sum() / 2 + penalty.value(scaled)
    derived = (scaled / size[:, None], data.intercept_of(scaled), value)
    coef, b, objective = (with_derivative_of(*pair) for pair in zip(found[:3], derived, strict=True))
    proof = outcome.certificate if outcome.status.ndim == 0 else outcome.certificate.over_targets()
    status = worst(jnp.atleast_1d(outcome.status))
    lost = (squares(data, data.Y).sum() == 0) & jnp.any(data.Y != 0)  # squares that underflow
    lost |= lax.cond(
        in_any_lane(jnp.any(found.size == 0)),
        lambda *args: _overlooks(*args, intercept=intercept, standardize=standardize),
        lambda *args: jnp.array(False),
        *lax.stop_gradient((outcome.coef, X, Y, weights, given, limits)),  # as given: nothing is computed in vain
    )
    status = jnp.where(lost & succeeded(status), Status.ILL_CONDITIONED, status)
    valid = data.valid & is_valid(penalty) & (tol >= 0)
    status = jnp.where(valid, status, Status.INVALID).astype(jnp.int32)
    known = valid & (status != Status.NON_FINITE)
    coef, b = (jnp.where(known, a, jnp.nan) for a in (within(limits, coef), b))
    return coef, b, status, jnp.max(outcome.num_iter), proof.residual, proof.relative_gap, objective


def _overlooks(coef, X, Y, weights, given, limits, *, intercept, standardize):
    """Whether there are columns whose squares underflow, which solvers do not see, and that should have a part."""
    data, penalty, _ = prepare(X, Y, weights, given, limits, intercept, standardize)
    pull = cross(data.X, data.weights[:, None] * (data.Y - data.X @ coef))
    off = jnp.max(penalty.distance(coef, pull)) > 1e-3 * jnp.max(jnp.abs(pull))
    return off & jnp.any((data.size == 0) & ~data.empty)


def _stationarity(coef, theta):
    """The gradient along the manifold on which the penalty is smooth; across it the coefficients do not move."""
    X, Y, weights, penalty = theta
    at = lax.stop_gradient(coef)
    across = coef - penalty.tangent(at, coef)
    shift = drift(penalty, coef, cross(X, weights[:, None] * (Y - X @ coef)))
    inside = coef - across + lax.stop_gradient(across) + shift  # so that the Jacobian is symmetric
    slope = cross(X, weights[:, None] * (X @ inside - Y)) + jax.grad(penalty.value)(inside)
    return penalty.tangent(at, penalty.tangent(inside, slope)) + across - shift  # twice: see solvers/manifold.py


def _solve_on_manifold(aux, theta, coef, rhs):
    del aux

    def apply(u):
        return jax.jvp(lambda coef: _stationarity(coef, theta), (coef,), (u,))[1]

    X, _, weights, penalty = theta
    squares = jnp.broadcast_to(jnp.einsum("i,ij,ij->j", weights, X, X)[:, None], coef.shape)
    return by_conjugate_gradients(apply, rhs, diagonal_on_manifold(penalty, coef, squares))


def lam_max(
    X: Any,
    y: Any,
    penalty: Penalty | None = None,
    *,
    loss: Loss | None = None,
    factors: Any = None,
    weights: Any = None,
    offset: Any = None,
    lower: Any = None,
    upper: Any = None,
    intercept: bool = True,
    standardize: bool = False,
) -> Array:
    r"""The smallest λ at which every penalised coefficient is zero.

    It is the dual norm of the gradient at the null model, in which the intercept and the unpenalised columns are
    fitted: max |xⱼᵀVℓ′(y, η₀)|/fⱼ for the lasso; one-sided where a limit is 0.

    Args:
        X, y, weights, offset, lower, upper, intercept, standardize: as in `fit`.
        penalty: whose strength is looked for, such as `Group(1.0, groups)`; its own strength does not matter. `L1` if
            None. Infinite for `L2`.
        loss: `Squared` if None.
        factors: of `L1`, where there is no penalty.

    Returns:
        A scalar.

    Example:
        >>> import jax.numpy as jnp, regjax
        >>> X, y = jnp.array([[1.0, 0.0], [0.0, 2.0]]), jnp.array([3.0, 1.0])
        >>> print(regjax.lam_max(X, y, intercept=False))
        3.0
    """
    samples, intercept = with_outputs(check_samples(X, y, weights), loss, intercept)
    loss, samples = without_power_of_one(loss, samples)
    shift = check_offset(offset, samples)
    trailing = () if samples.single else (samples.Y.shape[1],)
    if penalty is not None and factors is not None:
        raise ValueError("factors belong to the penalty where one is given")
    unit = check_penalty(L1(1.0, factors) if penalty is None else penalty, samples.structure, trailing, samples.X.dtype)
    limits = check_limits(lower, upper, samples.structure, trailing, samples.X.dtype)
    if loss is None or is_squared(loss):
        return _lam_max(
            samples.X, samples.Y - shift, samples.weights, unit, limits, intercept=intercept, standardize=standardize
        )
    loss = check_loss(loss, samples)
    shift = jnp.broadcast_to(shift, (len(samples.Y), 1 if samples.single else samples.Y.shape[1]))
    arguments = Arguments(samples.X, samples.Y, shift, samples.weights, loss, unit, limits)
    return lam_max_general(arguments, intercept=intercept, standardize=standardize)


@partial(jax.jit, static_argnames=("intercept", "standardize"))
def _lam_max(X, Y, weights, penalty, limits, *, intercept, standardize):
    data, penalty, _ = prepare(X, Y, weights, penalty, limits, intercept, standardize)
    return penalty.dual_norm(null_pull(data.scaled_x, data.scaled_y, penalty))
