"""Best subset selection: a fit with at most k columns."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from regjax.core.checks import is_concrete
from regjax.core.implicit import implicit_solution
from regjax.core.lanes import map_problems, sees_lanes
from regjax.core.products import cross
from regjax.core.solution import Solution, Status, relative, succeeded
from regjax.losses import Loss
from regjax.models.fit import is_squared
from regjax.models.general import Arguments, check_loss, fit_general
from regjax.models.penalized import squares, worst
from regjax.models.prepare import check_offset
from regjax.models.problem import center, check_samples, silence
from regjax.penalties import Zero
from regjax.solvers.exhaustive import MOST_COLUMNS, MOST_COLUMNS_OF_A_LOSS, exhaustive
from regjax.solvers.greedy import at_width, iht, invert, omp, swaps
from regjax.solvers.newton import newton
from regjax.solvers.supports import pose_loss, pose_squared
from regjax.solvers.task import Task

_BY_NAME = {"swaps": swaps, "omp": omp, "iht": iht, "exhaustive": exhaustive}


def best_subset(
    X: Any,
    y: Any,
    k: Any,
    *,
    loss: Loss | None = None,
    weights: Any = None,
    offset: Any = None,
    intercept: bool = True,
    solver: str = "swaps",
    max_k: int | None = None,
) -> Solution:
    r"""Best subset selection: minimise Σᵢ vᵢ ℓ(yᵢ, oᵢ + b + xᵢw) subject to ‖w‖₀ ≤ k, by default ℓ = ½(y − η)².

    To find the subset is a hard problem: `exhaustive` looks at all of them, the other solvers are heuristics that find
    it most of the time. The coefficients are those of the unpenalised fit to the columns chosen, and the certificate
    speaks of that fit. Columns are compared at length 1 about their means, so that their units do not matter. A column
    of which others explain all but 1.5e-8 of its variance (3.5e-4 in float32) is not added to them.

    `jax.vmap` over k is one search for all sizes. Derivatives are those of the fit with the columns held fixed.

    Args:
        X: (n, p), or a pytree of arrays with n samples in front.
        y: (n,) or (n, t); each target has columns of its own.
        k: the most columns, 0 ≤ k ≤ p, an integer.
        loss: from `regjax.losses`, smooth and a sum over samples; `Squared()` if None.
        weights: v (n,), non-negative; 1 if None.
        offset: o, of the shape of y; 0 if None.
        intercept: whether b is fitted, which does not count as a column.
        solver: "swaps", forward selection with exchanges of columns, up to max_k + 8 of them and back; "omp",
            orthogonal matching pursuit; "iht", hard thresholding with the fit to the columns in every step; or
            "exhaustive", for p ≤ 18, or p ≤ 12 with a loss other than the squared one.
        max_k: the largest k to prepare for, which `swaps` makes use of for smaller ones too. k if None; where k is
            traced, as under `jax.vmap`, min(n, p): give it then.

    Returns:
        A `Solution` whose `params` is a `Linear` model. `residual` is the largest slope of the loss along a column in
        the model, relative to the largest along any without columns. `gap` is 0 for "exhaustive", whose answer is
        proven by enumeration, else nan. `num_iter` counts the subsets looked at.

    Example:
        >>> import numpy as np, regjax
        >>> X = np.array([[1.0, 0, 1], [0, 1, 1], [2, 1, 0], [1, 2, 4], [3, 1, 2]])
        >>> print(np.asarray(regjax.best_subset(X, 3 * X[:, 0] - X[:, 2], 2).params.coef).round(3))
        [ 3.  0. -1.]

    References:
        Bertsimas, King & Mazumder, Best subset selection via a modern optimization lens, Ann. Statist. 44 (2016).
        Zhu et al., A polynomial algorithm for best-subset selection problem, PNAS 117 (2020).
    """
    samples = check_samples(X, y, weights)
    n, p = samples.X.shape
    k, max_k = _check_sizes(k, max_k, n, p)
    if solver not in _BY_NAME:
        raise ValueError(f"solver must be one of {', '.join(_BY_NAME)}, got {solver!r}")
    squared = loss is None or is_squared(loss)
    most = MOST_COLUMNS if squared else MOST_COLUMNS_OF_A_LOSS
    if solver == "exhaustive" and p > most:
        raise ValueError(f"exhaustive looks at all 2^p subsets of at most {most} columns, but X has {p}: use swaps")
    shift = jnp.broadcast_to(check_offset(offset, samples), samples.Y.shape).astype(samples.X.dtype)
    numerics = {"intercept": intercept, "solver": solver, "max_k": max_k}
    if squared:
        coef, b, *rest = _squared(samples.X, samples.Y - shift, samples.weights, k, **numerics)
    else:
        if not hasattr(loss, "slopes"):
            raise ValueError(f"loss must be a loss of regjax.losses, got {loss!r}")
        if loss.coupled or not loss.smooth:  # pyright: ignore[reportOptionalMemberAccess]
            raise ValueError(f"loss must be smooth and a sum over samples, which {type(loss).__name__} is not")
        coef, b, *rest = _general(
            samples.X, samples.Y, shift, samples.weights, check_loss(loss, samples), k, **numerics
        )  # fmt: skip
    return Solution(samples.model(coef, b), *rest)


def best_subset_path(
    X: Any,
    y: Any,
    max_k: int,
    *,
    loss: Loss | None = None,
    weights: Any = None,
    offset: Any = None,
    intercept: bool = True,
    solver: str = "swaps",
) -> Solution:
    """`best_subset` for k = 0, …, max_k in one search.

    Args:
        X, y, loss, weights, offset, intercept, solver: as in `best_subset`.
        max_k: the largest k.

    Returns:
        A `Solution` with the axis of k in front of every field.

    Example:
        >>> import numpy as np, regjax
        >>> path = regjax.best_subset_path(np.eye(3), np.array([1.0, 2.0, 4.0]), 3, intercept=False)
        >>> print(np.asarray(path.objective).round(3), (path.params.coef != 0).sum(1))
        [10.5  2.5  0.5  0. ] [0 1 2 3]
    """
    if not isinstance(max_k, int | np.integer) or isinstance(max_k, bool) or max_k < 0:
        raise ValueError(f"max_k takes an integer, at least 0, got {max_k!r}")

    def one(k):
        return best_subset(
            X, y, k, loss=loss, weights=weights, offset=offset, intercept=intercept, solver=solver, max_k=int(max_k)
        )

    return jax.vmap(one)(jnp.arange(max_k + 1))


def _check_sizes(k: Any, max_k: Any, n: int, p: int) -> tuple[Array, int]:
    """k as an int32 scalar, and the number of places, at least one."""
    concrete = is_concrete(k)
    kind = np.asarray(k).dtype if concrete else k.dtype
    if not jnp.issubdtype(kind, jnp.integer) or jnp.ndim(k) != 0:
        got = repr(k) if concrete else f"{kind}{jnp.shape(k)}"
        raise ValueError(f"k takes one integer between 0 and p = {p}, got {got} (use jax.vmap for a grid)")
    if concrete and not 0 <= int(k) <= p:
        raise ValueError(f"k takes an integer between 0 and p = {p}, got {int(k)}")
    if max_k is None:
        max_k = int(k) if concrete else min(n, p)
    elif not isinstance(max_k, int | np.integer) or isinstance(max_k, bool) or not 0 <= max_k <= p:
        raise ValueError(f"max_k takes an integer between 0 and p = {p}, or None, got {max_k!r}")
    elif concrete and k > max_k:
        raise ValueError(f"k must not exceed max_k = {max_k}, got {int(k)}")
    return jnp.asarray(k, jnp.int32), int(max_k)


def _selected(pose, solver: str, max_k: int, *, refit: bool):
    """The support for data and k, whatever lanes there are, and if asked the coefficients (K,) on it."""

    def over_sizes(data, variants):
        problem, (ks,) = pose(*data), variants
        places = jnp.arange(max(max_k, 1))
        found = _BY_NAME[solver](problem, jnp.clip(ks, 0, max_k), max_k=len(places))
        if not refit:
            return found, (places < found.size[:, None]).astype(problem.dtype)

        def fitted(lane):
            index, size = lane

            def on_first(width):
                coef = problem.fit(index[:width], places[:width] < size).coef
                return jnp.zeros(len(places), problem.dtype).at[:width].set(coef)

            return at_width(on_first, size, len(places))

        return found, lax.map(fitted, (found.index, found.size))

    @sees_lanes
    def over_lanes(data, k):
        return map_problems(over_sizes, data, (k,), rank=k.ndim)

    return lambda data, k: over_lanes(*lax.stop_gradient((data, k)))


@partial(jax.jit, static_argnames=("intercept", "solver", "max_k"))
def _squared(X, Y, weights, k, *, intercept, solver, max_k):
    data = center(X, Y, weights, intercept)
    v = data.weights
    size = jnp.sqrt(data.size)
    scale = jnp.where(data.empty | (size == 0), 0, 1 / jnp.where(size > 0, size, 1))
    select = _selected(pose_squared, solver, max_k, refit=True)
    columns, unit = data.scaled_x * scale, (scale > 0).astype(X.dtype)

    def one(y):
        length = jnp.sqrt(jnp.sum(v * y**2))
        target = data.root * y / jnp.where(length > 0, length, 1)
        found, w = select((columns, unit, target), k)
        used = w != 0
        theta = (jnp.where(used, data.X[:, found.index], 0), y, v)
        start = lax.stop_gradient(w * length * scale[found.index])
        w = implicit_solution(_normal_equations, _solve_on_support, start, theta, used)
        coef = jnp.zeros(X.shape[1], X.dtype).at[found.index].add(w)
        r = y - data.X @ coef  # the columns themselves would be one copy for every k
        slope = jnp.max(jnp.abs(((v * r) @ data.X) * jnp.where(coef != 0, scale, 0)))
        residual = relative(slope, jnp.max(jnp.abs((v * y) @ data.X) * scale))
        objective = squares(data, r[:, None])[0] / 2
        return coef, objective, lax.stop_gradient(residual), found.num_iter, found.status

    coef, objective, residual, num_iter, status = jax.vmap(one, in_axes=1)(data.Y)
    residual = jnp.max(residual)
    lost = jnp.any((data.size == 0) & ~data.empty)  # squares that underflow
    rough = lost | (residual > float(jnp.finfo(X.dtype).eps) ** 0.4)
    status = jnp.where(succeeded(worst(status)) & rough, Status.ILL_CONDITIONED, worst(status))
    finite = jnp.all(jnp.isfinite(data.size)) & jnp.all(jnp.isfinite(objective)) & jnp.all(jnp.isfinite(coef))
    status = jnp.where(finite, status, Status.NON_FINITE)
    b = data.intercept_of(coef.T)
    return _finished(coef.T, b, status, jnp.max(num_iter), residual, jnp.sum(objective), data.valid, k, solver, max_k)


def _finished(coef, b, status, num_iter, residual, objective, valid, k, solver, max_k):
    """The fields of a `Solution`, nan where there is none."""
    valid &= (k >= 0) & (k <= max_k)
    status = jnp.where(valid, status, Status.INVALID).astype(jnp.int32)
    known = valid & (status != Status.NON_FINITE)
    coef, b, residual, objective = (jnp.where(known, a, jnp.nan) for a in (coef, b, residual, objective))
    gap = jnp.where(known & succeeded(status) & (solver == "exhaustive"), jnp.zeros_like(residual), jnp.nan)
    return coef, b, status, num_iter, residual, gap, objective


def _normal_equations(w, theta):
    some, y, v = theta
    return (v * (some @ w - y)) @ some


def _solve_on_support(used, theta, w, rhs):
    del w
    some, _, v = theta
    size = jnp.sqrt(jnp.einsum("i,ij,ij->j", v, some, some))
    scale = jnp.where(used, 1 / jnp.where(used, size, 1), 0)
    unit = some * scale
    return scale * (invert(cross(v[:, None] * unit, unit), used) @ (scale * rhs))


@partial(jax.jit, static_argnames=("intercept", "solver", "max_k"))
def _general(X, Y, offset, weights, loss, k, *, intercept, solver, max_k):
    data = center(X, Y, weights, intercept)
    v = data.weights
    size = jnp.sqrt(data.size)
    scale = lax.stop_gradient(jnp.where(data.empty | (size == 0), 0, 1 / jnp.where(size > 0, size, 1)))
    one = jnp.asarray(float(intercept), X.dtype)
    select = _selected(lambda *arguments: pose_loss(Task(*arguments)), solver, max_k, refit=False)
    tol = jnp.asarray(1e-10 if X.dtype == jnp.float64 else 1e-5, X.dtype)

    def fit(y, o):
        y, o = y[:, None], o[:, None]
        quiet_y, quiet_o = (a if weights is None else silence(a, v) for a in (y, o))
        found, used = select((data.X * scale, loss.encode(quiet_y, v), quiet_o, v, one, loss), k)
        used = used > 0
        some = jnp.where(used, X[:, found.index] * scale[found.index], 0)
        arguments = Arguments(some, y, o, weights, loss, Zero(), None)
        init = jnp.zeros((len(used), 1), X.dtype)
        w, b, status, _, residual, _, objective = fit_general(
            arguments, init, tol, intercept=intercept, standardize=False, solver=newton, max_iter=None
        )
        # places without a column are no dependence in the data
        status = jnp.where(status == Status.RANK_DEFICIENT, Status.CONVERGED, status)
        status = jnp.where(succeeded(status), found.status, status)
        coef = jnp.zeros(X.shape[1], X.dtype).at[found.index].add(w[:, 0] * scale[found.index])
        return coef, b[0], objective, residual, found.num_iter, status

    coef, b, objective, residual, num_iter, status = jax.vmap(fit, in_axes=(1, 1))(Y, offset)
    status = jnp.where(jnp.all(jnp.isfinite(data.size)), worst(status), Status.NON_FINITE)
    return _finished(
        coef.T, b, status, jnp.max(num_iter), jnp.max(residual), jnp.sum(objective), data.valid, k, solver, max_k
    )  # fmt: skip
