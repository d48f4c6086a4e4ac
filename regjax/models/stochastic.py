"""Stochastic gradients for any loss, penalty and model."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from regjax.core.checks import as_float_array, check_strength, is_concrete, require
from regjax.losses import Cox, Loss
from regjax.models.stochastic_data import check_model, first_params
from regjax.models.stochastic_problem import ANY_MODEL, LINEAR_MODEL, Given, StochasticSolution, solve
from regjax.models.stream import fit_stream
from regjax.penalties import Penalty, check_penalty
from regjax.solvers.newton import is_quadratic
from regjax.solvers.progress import Progress
from regjax.solvers.stochastic import Rule


def sgd(
    X: Any,
    y: Any,
    loss: Loss,
    penalty: Penalty,
    *,
    step: Any = None,
    optimizer: optax.GradientTransformation | None = None,
    batch_size: int = 32,
    num_epochs: int | None = None,
    key: Array | None = None,
    average: bool = False,
    weights: Any = None,
    offset: Any = None,
    intercept: bool = True,
    apply: Callable[[Any, Any], Array] | None = None,
    init: Any = None,
    holdout: tuple[Any, ...] | None = None,
    patience: int = 5,
    total: float | None = None,
    progress: bool = False,
    tol: float | None = None,
) -> StochasticSolution:
    r"""Minimise Σᵢ vᵢ ℓ(yᵢ, oᵢ + f(θ, xᵢ)) + P(θ) by stochastic gradients; f is b + xw unless `apply` is given.

    Every step takes a batch, whose gradient g is scaled by Σv/Σv_batch, and goes to prox_{ηP}(θ − ηg), where η is the
    step times the weight of the batch over that of an average one. Epochs are random orders of the samples, drawn from
    `key`. Data in memory are fitted in one compiled loop, which `jax.vmap` maps over keys, strengths, steps, weights
    and data sets; a stream is read batch by batch. Standardise the columns first: one step serves them all.

    As in a textbook:

        sgd(X, y, Squared(), Zero(), step=eta, batch_size=n)                     # gradient descent
        sgd(X, y, Squared(), Zero(), optimizer=optax.sgd(eta), batch_size=n)     # the same
        sgd(X, y, Squared(), Zero(), step=eta, batch_size=1)                     # stochastic gradients, least squares
        sgd(X, y, Squared(), Zero(), step=eta, batch_size=1, average=True)       # averaged
        sgd(X, y, Logistic(), L2(lam), optimizer=optax.adam(1e-2))               # Adam

    A change of the strengths, a number as `step`, or the key compiles nothing anew. A schedule and an optimizer are
    functions and are told apart by identity: make them once and pass the same, or write `jax.jit(lambda eta: sgd(...,
    optimizer=optax.adam(eta)))`, which `jax.vmap` takes too. `optax.inject_hyperparams` serves optimizers whose
    numbers change on the way.

    Args:
        X: (n, p), or a pytree of arrays with n samples in front, which `apply` takes as it is. With `y=None` a
            stream: an iterable of batches (X, y) or (X, y, weights).
        y: (n,) or (n, t); None for a stream.
        loss: from `regjax.losses`, a sum over samples (not `Cox`).
        penalty: from `regjax.penalties`. With `apply` it is one of all parameters, ravelled; strengths and factors as
            prefix pytrees of the parameters select leaves, as `L1({"first": 0.1, "second": 0.0})`.
        step: η, in units of the sum: a scalar, or an optax schedule (a function of the count of steps). A scalar
            stays what it is. By default, for linear models, (1 − k/K)²/𝓛 in step k of K, with 𝓛 the expected
            smoothness of batches; of a stream that is read only once, as its first batch tells. With an optimizer and
            a penalty that is not quadratic: the step of the gradient mapping that the optimizer is given in place of
            a gradient, 1/𝓛 by default.
        optimizer: an optax transformation, its learning rate included; proximal steps if None. One that searches
            along lines, as `optax.lbfgs`, is for quadratic penalties, and for `batch_size` n.
        batch_size: samples per step; all of them if there are fewer.
        num_epochs: passes over the samples; 100 if None, and 1 for a stream.
        key: of `jax.random`; `jax.random.key(0)` if None.
        average: whether the mean of the second half of the iterates is returned, not the last one.
        weights: v (n,), non-negative; 1 if None. Rows of weight zero are not drawn.
        offset: o, of the shape of y; 0 if None.
        intercept: whether b, unpenalised, is fitted (without `apply`).
        apply: (params, X) to predictors of the shape of y; a linear model if None.
        init: parameters to start from: like `params.coef` (0 if None), or with `apply` any pytree of arrays.
        holdout: samples (X, y), (X, y, weights) or (X, y, weights, offset) on which every epoch is measured. The best
            parameters are returned, and the run ends when there have been no better ones for `patience` epochs.
        patience: see `holdout`.
        total: Σv of a stream. If None it is counted, in a pass of its own over a stream that can be read again.
        progress: whether a line on stderr tells how far a run is. Silent inside `jit` and `vmap`.
        tol: the relative gap (the residual where there is no gap) up to which the status is CONVERGED; 1e-3 if None.

    Returns:
        A `StochasticSolution`. For linear models `params` is a `Linear` model with the certificate of `fit`; with
        `apply` it is a pytree like `init`, and `residual` is the distance to stationarity relative to the gradient at
        `init`. Under penalties that are not quadratic the returned point is a proximal step on all samples from the
        last one. A stream has a residual where it can be read again, relative to the gradient at the start.
        NON_FINITE is the status of a run that diverged.

    Example:
        >>> import jax, jax.numpy as jnp, regjax
        >>> X = jax.random.normal(jax.random.key(1), (200, 3))
        >>> y = 1.0 + X @ jnp.array([2.0, 0.0, -1.0])
        >>> solution = regjax.sgd(X, y, regjax.losses.Squared(), regjax.penalties.Zero())
        >>> print(solution.params.coef.round(2) + 0.0, solution.params.intercept.round(2))
        [ 2.  0. -1.] 1.0

    References:
        Robbins & Monro, A stochastic approximation method, Annals of Mathematical Statistics 22 (1951).
        Polyak & Juditsky, Acceleration of stochastic approximation by averaging, SIAM J. Control Optim. 30 (1992).
        Duchi & Singer, Efficient online and batch learning using forward backward splitting, JMLR 10 (2009).
    """
    if isinstance(loss, Cox):
        raise ValueError("loss must be a sum over samples, which Cox is not: use fit")
    model = check_model(apply, init, intercept)
    rule = _check_rule(model.form, step, optimizer, batch_size, num_epochs, average, patience, y is None)
    if step is None:
        _check_default(model.linear, loss, penalty, optimizer)
    step = None if step is None or callable(step) else check_step(step)
    tol = 1e-3 if tol is None else tol
    if y is None:
        for name, value in (("weights", weights), ("offset", offset)):
            if value is not None:
                raise ValueError(f"{name} is for data in memory: the batches of a stream are (X, y) or (X, y, weights)")
        return fit_stream(
            X, loss, penalty, model, rule,
            step=step, init=init, holdout=holdout, total=total, progress=progress, tol=tol,
        )  # fmt: skip
    if total is not None:
        raise ValueError("total is Σv of a stream: data in memory have theirs in weights")
    data = model.check(loss, X, y, weights, offset)
    samples, dtype = data.samples, data.rows.y.dtype
    given = Given(
        data.rows,
        model.check_holdout(loss, holdout, data, offset is not None),
        first_params(model, init, data),
        data.loss,
        check_penalty(penalty, samples.structure, data.trailing if model.linear else (), dtype),
        None if step is None else step.astype(dtype),
        check_strength("tol", tol, dtype),
    )
    kind, key = LINEAR_MODEL if model.linear else ANY_MODEL, check_key(key)
    if progress and is_concrete(given, key, jnp.zeros(())):  # zeros are traced inside jit
        bar = Progress(rule.num_epochs)
        params, *rest = solve(kind, rule, given, key, lambda done, entry: bar.tell(done, float(entry.objective)))
        bar.close()
    else:
        params, *rest = solve(kind, rule, given, key)
    *rest, history = rest
    return StochasticSolution(samples.model(*params) if model.linear else params, *rest, history=history)


def _check_rule(form, step, optimizer, batch_size, num_epochs, average, patience, stream) -> Rule:
    if optimizer is not None and not (hasattr(optimizer, "init") and hasattr(optimizer, "update")):
        raise ValueError(
            f"optimizer takes an optax.GradientTransformation, such as optax.adam(1e-3), got {optimizer!r}"
        )
    if optimizer is not None and callable(step):
        raise ValueError("step is a scalar where there is an optimizer: a schedule goes into the optimizer")
    if num_epochs is None:
        num_epochs = 1 if stream else 100
    for name, value in (("batch_size", batch_size), ("num_epochs", num_epochs), ("patience", patience)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
            raise ValueError(f"{name} takes an integer, at least 1, got {value!r}")
    if not isinstance(average, bool):
        raise ValueError(f"average takes True or False, got {average!r}")
    schedule = step if callable(step) else "falling" if step is None else "constant"
    return Rule(form, optimizer, schedule, int(batch_size), int(num_epochs), average, int(patience))


def _check_default(linear: bool, loss: Loss, penalty: Penalty, optimizer: Any) -> None:
    """Raise where there is neither a step nor a default for it."""
    if optimizer is None and not linear:
        raise ValueError("step or optimizer must be given where there is an apply, such as optimizer=optax.adam(1e-3)")
    if optimizer is None and not loss.smooth:
        raise ValueError(f"step must be given for {type(loss).__name__}, which has no curvature to tell it")
    if optimizer is not None and not is_quadratic(penalty) and not (linear and loss.smooth):
        raise ValueError(
            f"step must be given beside the optimizer: that of the proximal map of {type(penalty).__name__}"
        )


def check_step(step: Any) -> Array:
    """A positive scalar."""
    eta = as_float_array("step", step)
    if eta.ndim:
        raise ValueError(f"step has shape {eta.shape}: it takes a scalar or a schedule (use jax.vmap for a grid)")
    require(lambda a: (a > 0) & jnp.isfinite(a), eta, message=f"step must be positive and finite, got {eta}")
    return eta


def check_key(key: Any) -> Array:
    """A key of `jax.random`."""
    if key is None:
        return jax.random.key(0)
    if not isinstance(key, jax.Array) or not (
        jnp.issubdtype(key.dtype, jax.dtypes.prng_key) or key.dtype == jnp.uint32
    ):
        raise ValueError(f"key takes a key, such as jax.random.key(0), got {key!r}")
    return key
