"""Hyperparameters of Gaussian processes by gradient, from many starts of which few are followed to the end."""

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from regjax.core import gaussian
from regjax.core.bfgs import Rivals, minimize_box
from regjax.core.lanes import lane_by_lane
from regjax.core.node import register_node
from regjax.core.solution import Solution, Status, succeeded
from regjax.models.gp import gp
from regjax.models.gp_parameters import Layout, Search, layout_of, log_prior, priors_of, search_of
from regjax.models.gp_problem import check_process, count_targets, leave_one_out, log_likelihood, prior

FEWEST = 128  # samples that starts are screened on, at the least
DECISIVE = 20.0  # a difference of log likelihoods that leaves no doubt; within it, starts are followed to their ends
MARGIN = 10.0  # times the jitter that a covariance needs at a start is added throughout the search from there
TWINS = 0.05  # a difference within which two ends of screening are taken to be one


class Starts(NamedTuple):
    """What became of every start; the first is at the given values.

    Attributes:
        hyperparameters: a dictionary of "kernel", "noise" and "mean" where the start ended, starts in front.
        objective: there, on all data; inf for a start that was dropped while screening.
        residual: relative gradient there.
        status: int32, a `Status`; DROPPED for starts that were not continued.
        num_iter: evaluations on all data. num_screening: evaluations while screening.
    """

    hyperparameters: Any
    objective: Array
    residual: Array
    status: Array
    num_iter: Array
    num_screening: Array


@register_node
@dataclass(frozen=True, eq=False)
class ProcessSolution(Solution):
    """A `Solution` with all of its starts."""

    starts: Any = None


def gp_fit(
    kernel: Any,
    X: Any,
    y: Any,
    noise: Any,
    *,
    mean: Any = None,
    weights: Any = None,
    restarts: int = 10,
    race: bool = True,
    key: Array | None = None,
    fixed: Any = None,
    bounds: Any = None,
    priors: Any = None,
    objective: str = "likelihood",
    max_iter: int = 200,
    tol: float | None = None,
) -> ProcessSolution:
    r"""Gaussian process regression with hyperparameters chosen by gradient.

    Maximises the log marginal likelihood log N(y; m, K + σ²I), or Σᵢ log p(yᵢ | all others), plus log priors, over
    every hyperparameter of the kernel, the noise and the mean: positive ones in logarithms, by BFGS within bounds.

    A start is dropped where it comes into the bowl of a maximum that another has found, or where it makes no headway
    20 nats below one. From 256 samples on, starts are screened on a quarter of them: where that leaves one maximum and
    nothing within 20 nats of it, only its start is continued on all samples; else all starts are. `jax.vmap` over data
    sets runs them one after the other on CPU, so that none waits for another.

    Where the covariance at a start is singular to working precision, as of duplicates without noise, the search from
    there adds ten times the jitter that `gp` would take at the start to the diagonal of every covariance, and the
    status of the start says JITTERED; its `residual` is that of the search, its `objective` that of `gp` where the
    search ended. A step to where the covariance is singular is too long, and shortened.

    Args:
        kernel, X, y, weights: as in `gp`. The kernel's hyperparameters are the first start.
        noise: σ², a scalar, fitted too; one per sample (n,) is known and held.
        mean: a number or one per target, fitted; a function of points, whose leaves are fitted; zero if None.
        restarts: how many starts, the given values among them; the others are drawn around them, or within `bounds`.
        race: whether starts are screened and dropped. False follows each to its end on all data, for several times
            the evaluations.
        key: of the starts' random numbers; `jax.random.key(0)` if None.
        fixed: which to hold: a dictionary with keys among "kernel", "noise", "mean". A value is True, or like its part
            with True or False for each hyperparameter: `{"kernel": True * RBF(False)}`.
        bounds: likewise, with pairs (low, high), which may be infinite: `{"noise": (1e-3, 1.0)}`. By default within a
            factor 1e5 of the given value.
        priors: likewise, with functions of a hyperparameter that return its log density.
        objective: "likelihood" or "leave_one_out".
        max_iter: the most evaluations for one start. tol: for the residual, the largest entry of the gradient (in
            logarithms for positive hyperparameters) per sample.

    Returns:
        A `Solution`: `params` the `GaussianProcess` of the best start, `objective` minus what was maximised, `num_iter`
        all evaluations, and `starts`, what became of each. The status is BOUNDARY where a bound holds, and
        NOT_POSITIVE_DEFINITE where the covariance of every start needs more jitter than `gp` allows.

    Example:
        >>> import jax, jax.numpy as jnp, regjax
        >>> x = jnp.linspace(0, 6, 40)
        >>> y = jnp.sin(x) + 0.1 * jax.random.normal(jax.random.key(0), (40,))
        >>> fit = regjax.gp_fit(1.0 * regjax.kernels.RBF(1.0), x, y, 0.1)
        >>> print(bool(jnp.abs(jnp.sqrt(fit.params.noise) - 0.1) < 0.03), bool(fit.converged))
        True True

    References:
        Rasmussen & Williams, Gaussian Processes for Machine Learning, MIT Press 2006, section 5.4.
    """
    if objective not in OBJECTIVES:
        raise ValueError(f"objective must be one of {sorted(OBJECTIVES)}, got {objective!r}")
    if restarts < 1:
        raise ValueError(f"restarts must be at least 1, got {restarts}")
    samples, noise, prior_mean = check_process(kernel, X, y, noise, mean, weights)
    dtype = samples.Y.dtype
    tree = jax.tree.map(lambda a: jnp.asarray(a, dtype), {"kernel": samples.kernel, "noise": noise, "mean": prior_mean})
    if mean is None:
        fixed = {**(fixed or {}), "mean": True}
    layout = layout_of(tree, fixed)
    tol = float(jnp.finfo(dtype).eps) ** 0.4 if tol is None else tol
    result = _fit(
        layout, objective, race, int(max_iter), restarts, tree, samples.X, samples.Y, samples.weights,
        search_of(layout, tree, bounds, samples.Y, samples.weights), priors_of(priors, tree), jnp.asarray(tol, dtype),
        jax.random.key(0) if key is None else key,
    )  # fmt: skip
    chosen, starts, best = result
    valid = jnp.all(jnp.isfinite(layout.pack(tree)))  # what is searched in logarithms is positive
    chosen_mean = None if mean is None else chosen["mean"]
    process = gp(chosen["kernel"], samples.X, samples.per_target(samples.Y), chosen["noise"], mean=chosen_mean,
                 weights=samples.weights)  # fmt: skip
    status = jnp.take(starts.status, best)
    status = jnp.where(succeeded(status) & ~succeeded(process.status), process.status, status)
    return ProcessSolution(
        params=process,
        status=jnp.where(valid, status, Status.INVALID).astype(jnp.int32),
        num_iter=jnp.sum(starts.num_iter + starts.num_screening, dtype=jnp.int32),
        residual=jnp.take(starts.residual, best),
        gap=jnp.full((), jnp.nan, dtype),
        objective=jnp.take(starts.objective, best),
        starts=starts,
    )


def _likelihood(data, factor, Y):
    return jnp.sum(log_likelihood(data, factor, gaussian.solve(factor, data.A, data.R)))


def _left_out(data, factor, Y):
    density = leave_one_out(data, factor, gaussian.solve(factor, data.A, data.R), Y).log_density
    return jnp.sum(density if data.root is None else jnp.where((data.root > 0)[:, None], density, 0))


OBJECTIVES = {"likelihood": _likelihood, "leave_one_out": _left_out}


@partial(jax.jit, static_argnames=("layout", "objective", "race", "max_iter", "restarts"))
def _fit(layout: Layout, objective, race, max_iter, restarts, tree, X, Y, weights, search: Search, priors, tol, key):
    place, order = jax.random.split(key)
    theta = layout.pack(tree)
    share = jax.random.uniform(place, (restarts - 1, len(theta)), theta.dtype)
    others = search.low_start + share * (search.high_start - search.low_start)
    starts = jnp.clip(jnp.concatenate([theta[None], others]), search.lower, search.upper)
    subset = _screened(order, len(Y), weights)

    def one(tree, X, Y, weights, starts, lower, upper, subset, priors, tol):
        def made(theta, rows, jitter=0.0):
            """Hyperparameters, and the prior of the samples that rows pick."""
            pick = partial(_picked, rows=rows)
            parts = layout.unpack(theta, tree)
            noise = pick(parts["noise"]) if parts["noise"].ndim else parts["noise"]
            data = (jax.tree.map(pick, X), pick(Y), noise, parts["mean"], None if weights is None else pick(weights))
            ready = prior(parts["kernel"], *data)
            return parts, ready._replace(shift=ready.shift + jitter)

        def on(rows):
            targets = _picked(Y, rows)

            def value(theta, jitter=0.0, largest=None):
                parts, ready = made(theta, rows, jitter)
                factor, _ = gaussian.factor_covariance(ready.A, largest=largest)
                return -OBJECTIVES[objective](ready, factor, targets) - log_prior(priors, parts)

            def jitter_at(theta):
                return gaussian.factor_covariance(made(theta, rows)[1].A)[1]

            size = count_targets(targets, None if weights is None else _picked(weights, rows))
            return jax.value_and_grad(partial(value, largest=0.0)), value, jitter_at, size

        def explained(end):
            """The status of a start; where it had no value because of its covariance, that says so."""
            lost = end.status == Status.NON_FINITE
            why = lax.cond(
                lost, lambda: gaussian.factor_covariance(made(end.point, None)[1].A)[0].status, lambda: end.status
            )
            return jnp.where(why == Status.NOT_POSITIVE_DEFINITE, why, end.status)

        ends, screening = _from_starts(on, starts, lower, upper, subset, tol, max_iter, race)
        return ends._replace(status=lax.map(explained, ends)), screening

    found, screening = lane_by_lane(one)(tree, X, Y, weights, starts, search.lower, search.upper, subset, priors, tol)
    value = jnp.where(jnp.isnan(found.value), jnp.inf, found.value)
    best = jnp.argmin(value)
    ends = jax.vmap(lambda theta: layout.unpack(theta, tree))(found.point)
    summary = Starts(ends, value, found.residual, found.status, found.num_eval, screening)
    return jax.tree.map(lambda a: a[best], ends), summary, best


def _screened(key: Array, n: int, weights: Array | None) -> Array | None:
    """A quarter of the samples, at random, those of weight zero last; None where that would be too few."""
    few = max(n // 4, FEWEST)
    if few > n // 2:
        return None
    rows = jax.random.permutation(key, n)
    if weights is not None:
        rows = rows[jnp.argsort(weights[rows] <= 0, stable=True)]
    return rows[:few]


def _picked(a: Array, rows: Array | None) -> Array:
    return a if rows is None else a[rows]


def _from_starts(
    on: Any, starts: Array, lower: Array, upper: Array, subset: Any, tol: Array, max_iter: int, race: bool
):
    """Minimise from every start: a `Minimum` with starts in front, and the evaluations of screening."""

    def follow_all(rows, tol, active, starts):
        """Minimise from each start, the ends of the earlier ones being rivals to the next."""
        searched, value_at, jitter_at, size = on(rows)

        def follow(rivals, lane):
            index, active, start = lane
            # held during the search, so that its objective is continuous; with a margin for the points nearby
            jitter = MARGIN * lax.cond(active, jitter_at, lambda start: jnp.zeros((), start.dtype), start)
            end = minimize_box(
                lambda theta: searched(theta, jitter), start, lower, upper, scale=size, tol=tol, max_iter=max_iter,
                rivals=rivals if race else None, active=active,
            )  # fmt: skip
            # what counts in the end is the likelihood of `gp`, which raises the covariance by no more than it must
            value = lax.cond((jitter > 0) & jnp.isfinite(end.value), value_at, lambda _: end.value, end.point)
            raised = (jitter > 0) & (end.status == Status.CONVERGED)
            end = end._replace(value=value, status=jnp.where(raised, Status.JITTERED, end.status).astype(jnp.int32))
            return rivals.joined(index, end), end

        lanes = (jnp.arange(len(starts)), active, starts)
        return lax.scan(follow, Rivals.none(starts, DECISIVE), lanes)[1]

    everyone = jnp.ones(len(starts), bool)
    screening = jnp.zeros(len(starts), jnp.int32)
    if not race or subset is None:
        return follow_all(None, tol, everyone, starts), screening
    screened = follow_all(subset, jnp.maximum(tol, 1e-4), everyone, starts)
    value = jnp.where((screened.status == Status.DROPPED) | jnp.isnan(screened.value), jnp.inf, screened.value)
    best = jnp.argmin(value)
    behind = value - value[best]
    decided = jnp.isfinite(value[best]) & ~jnp.any((behind > TWINS) & (behind < DECISIVE))
    active = jnp.where(decided, jnp.arange(len(starts)) == best, everyone)
    ends = follow_all(None, tol, active, jnp.where(decided, screened.point, starts))
    return ends, screened.num_eval
