"""Regularization paths: a fit at every λ, each certified, at little more than the price of the last."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from regjax.core.checks import as_float_array, check_finite, check_lengths, check_strength, require
from regjax.core.solution import Solution
from regjax.core.tree import ravel_design
from regjax.losses import Loss, Squared
from regjax.models.fit import fit, lam_max, with_outputs
from regjax.models.prepare import check_limits, check_offset, prepare
from regjax.models.problem import check_samples
from regjax.penalties import L1, ElasticNet, Penalty, check_penalty, strength_axes
from regjax.solvers.minimize import Solver
from regjax.solvers.newton import is_quadratic
from regjax.solvers.proximal import largest_curvature


def path(
    X: Any,
    y: Any,
    loss: Loss,
    penalties: Penalty,
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
    r"""`fit` at every λ: the same arguments, with a λ axis in front of the penalty's strengths.

    Each λ starts from the solution before it, and each has its own certificate. For a convex penalty it is `jax.vmap`
    of `fit` over the strengths, which finds the warm starts by itself (on accelerators all λ are solved at once). A
    lasso path is nearly linear from one λ to the next: of many columns, those λ whose point between two solutions is
    within `tol` are not solved (their `num_iter` is 0). So it is with other losses under ℓ1-type penalties on CPU:
    there the `gap` is to the dual point on the line between those of the two solutions, and `residual` still tells how
    far the point itself is from stationary; both fall with `tol`.

    With a penalty that is not convex, `MCP` or `SCAD`, where a fit starts decides which stationary point it finds. The
    first λ starts from `init`, or from 0, and each of the others from the solution before it, in the order of the
    strengths: falling ones follow one path of stationary points from the null model on. Fits with a loss that is not
    convex, and `jax.vmap` of `fit` with such a penalty, start every λ alone.

    Args:
        X, y, loss, weights, offset, lower, upper, intercept, standardize, solver, init, tol, max_iter: as in `fit`.
        penalties: such as `L1(lams)` or `ElasticNet(l1s, 0.5)`: strengths with an axis are mapped, factors are shared.

    Returns:
        A `Solution` with the λ axis in front of every field.

    Example:
        >>> import jax.numpy as jnp, regjax
        >>> X, y = jnp.eye(2), jnp.array([3.0, 1.0])
        >>> fits = regjax.path(
        ...     X, y, regjax.losses.Squared(), regjax.penalties.L1(jnp.array([2.0, 0.5])), intercept=False)
        >>> print(fits.params.coef)
        [[1.  0. ]
         [2.5 0.5]]
    """
    count = check_grid(penalties)

    def one(penalty, start=init):
        return fit(
            X, y, loss, penalty, weights=weights, offset=offset, lower=lower, upper=upper, intercept=intercept,
            standardize=standardize, solver=solver, init=start, tol=tol, max_iter=max_iter,
        )  # fmt: skip

    if penalties.convex:
        return jax.vmap(one, in_axes=(strength_axes(penalties),))(penalties)

    flat, varies, structure = _flatten(penalties)

    def nth(k):
        return structure.unflatten(jnp.asarray(a)[k] if apart else a for a, apart in zip(flat, varies, strict=True))

    # Not by `vmap`, whose lanes must not depend on each other. In a loop `fit` sees no numbers: they are checked here.
    samples, _ = with_outputs(check_samples(X, y, weights), loss, intercept)
    check_offset(offset, samples)
    coefficients = samples.structure, () if samples.single else samples.Y.shape[1:], samples.X.dtype
    check_penalty(nth(0), *coefficients)
    check_limits(lower, upper, *coefficients)
    if tol is not None:
        check_strength("tol", tol, samples.X.dtype)
    return _follow(lambda k, start: one(nth(k), start), count, init)


def check_grid(penalties: Any) -> int:
    """How many penalties a grid has; raises `ValueError` where it is none."""
    if not hasattr(penalties, "prox") or isinstance(penalties, type):
        raise ValueError(f"penalties must be a penalty of regjax.penalties, such as L1(lams), got {penalties!r}")
    flat, varies, _ = _flatten(penalties)
    grids = [leaf for leaf, apart in zip(flat, varies, strict=True) if apart]
    for strengths in grids:
        message = f"the strengths of penalties must be non-negative and not NaN, got {strengths}"
        require(lambda a: jnp.all(jnp.asarray(a) >= 0), strengths, message=message)
    return check_lengths("penalties", grids)


def _flatten(penalties: Any) -> tuple[list[Any], list[bool], Any]:
    """The leaves of a grid, whether each varies along it, and their tree."""
    flat, structure = jax.tree.flatten(penalties, lambda leaf: leaf is None)
    axes = jax.tree.leaves(strength_axes(penalties), lambda leaf: leaf is None)
    return flat, [axis == 0 for axis in axes], structure


def _follow(fit_from: Callable[[Any, Any], Solution], count: int, init: Any) -> Solution:
    """`fit_from(k, start)` for k = 0, 1, …, each from the coefficients before it, the first from `init`."""

    def step(start, k):
        solution = fit_from(k, start)
        good = jax.tree.reduce(jnp.logical_and, jax.tree.map(lambda a: jnp.all(jnp.isfinite(a)), solution.params.coef))
        return jax.tree.map(lambda a: jnp.where(good, a, 0), solution.params.coef), solution

    like = jax.eval_shape(lambda: fit_from(0, init)).params.coef  # raises what `fit` raises
    given = jax.tree.map(jnp.zeros_like, like) if init is None else init
    start = jax.tree.map(lambda a, like: jnp.asarray(a, like.dtype), given, like)
    jax.tree.map(lambda a: check_finite("init", a), start)
    return lax.scan(step, start, jnp.arange(count))[1]


def lam_grid(
    X: Any,
    y: Any,
    penalty: Penalty | None = None,
    *,
    num: int = 100,
    ratio: float | None = None,
    loss: Loss | None = None,
    factors: Any = None,
    weights: Any = None,
    offset: Any = None,
    lower: Any = None,
    upper: Any = None,
    intercept: bool = True,
    standardize: bool = False,
) -> Array:
    """A geometric grid of λ from `lam_max` down to `ratio` times it.

    For a quadratic penalty, whose `lam_max` is infinite, from σ₁² of the (weighted, centred) design: beyond it ridge
    regression shrinks every direction by more than a half.

    Args:
        X, y, penalty, loss, factors, weights, offset, lower, upper, intercept, standardize: as in `lam_max`.
        num: how many.
        ratio: the last over the first; 1e-4 where n > p and 1e-2 otherwise if None.

    Returns:
        (num,), falling.

    Example:
        >>> import jax.numpy as jnp, regjax
        >>> print(regjax.lam_grid(jnp.eye(2), jnp.array([4.0, 1.0]), num=3, ratio=0.25, intercept=False))
        [4. 2. 1.]
    """
    if not isinstance(num, int | np.integer) or num < 1:
        raise ValueError(f"num must be at least 1, an integer, got {num!r}")
    matrix, _ = ravel_design(X)
    n, p = matrix.shape
    ratio = (1e-4 if n > p else 1e-2) if ratio is None else ratio
    require(
        lambda r: jnp.ndim(r) == 0 and (r > 0) & (r <= 1),
        ratio,
        message=f"ratio must be a number in (0, 1], got {ratio}",
    )
    top = lam_max(
        X, y, penalty, loss=loss, factors=factors, weights=weights, offset=offset, lower=lower, upper=upper,
        intercept=intercept, standardize=standardize,
    )  # fmt: skip
    if penalty is not None and is_quadratic(penalty):
        samples = check_samples(X, y, weights)
        data, *_ = prepare(samples.X, samples.Y, samples.weights, penalty, None, intercept, standardize)
        top = largest_curvature(data.scaled_x)
    return top * ratio ** (jnp.arange(num, dtype=top.dtype) / max(num - 1, 1))


def lasso_path(
    X: Any,
    y: Any,
    lams: Any = None,
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
    """`lasso` at every one of `lams` (L,), in any order; the `lam_grid` of the data if None.

    Returns:
        A `Solution` with the λ axis in front of every field; `lam` holds the grid.

    Example:
        >>> import regjax
        >>> data = regjax.data.diabetes()
        >>> fits = regjax.lasso_path(data.X, data.y, standardize=True)
        >>> print(fits.params.coef.shape, bool(fits.converged.all()))
        (100, 10) True
    """
    if lams is None:
        lams = lam_grid(
            X, y, factors=factors, weights=weights, offset=offset, lower=lower, upper=upper, intercept=intercept,
            standardize=standardize,
        )  # fmt: skip
    lams = _check_grid("lams", lams)
    fits = path(
        X, y, Squared(), L1(lams, factors), weights=weights, offset=offset, lower=lower, upper=upper,
        intercept=intercept, standardize=standardize, solver=solver, init=init, tol=tol, max_iter=max_iter,
    )  # fmt: skip
    return replace(fits, lam=lams)


def elastic_net_path(
    X: Any,
    y: Any,
    l1s: Any,
    l2s: Any,
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
    """`elastic_net` at every pair of `l1s` (L,) and `l2s`, (L,) or one for all.

    Returns:
        A `Solution` with the λ axis in front of every field; `lam` holds `l1s`.

    Example:
        >>> import jax.numpy as jnp, regjax
        >>> X, y = jnp.eye(2), jnp.array([3.0, 1.0])
        >>> print(regjax.elastic_net_path(X, y, jnp.array([2.0, 0.5]), 1.0, intercept=False).params.coef)
        [[0.5  0.  ]
         [1.25 0.25]]
    """
    l1s = _check_grid("l1s", l1s)
    l2s = as_float_array("l2s", l2s)
    if l2s.shape not in ((), l1s.shape):
        raise ValueError(f"l2s has shape {l2s.shape}: it takes a scalar or one value for each of l1s, {l1s.shape}")
    require(lambda a: jnp.all(a >= 0), l2s, message=f"l2s must be non-negative and not NaN, got {l2s}")
    fits = path(
        X, y, Squared(), ElasticNet(l1s, l2s, factors), weights=weights, offset=offset, lower=lower, upper=upper,
        intercept=intercept, standardize=standardize, solver=solver, init=init, tol=tol, max_iter=max_iter,
    )  # fmt: skip
    return replace(fits, lam=l1s)


def _check_grid(name: str, lams: Any) -> Array:
    array = as_float_array(name, lams)
    if array.ndim != 1 or len(array) == 0:
        raise ValueError(f"{name} has shape {array.shape}: it takes a grid (L,) of at least one value")
    require(lambda a: jnp.all(a >= 0), array, message=f"{name} must be non-negative and not NaN, got {array}")
    return array
