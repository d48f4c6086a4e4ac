"""Hyperparameters by gradient descent, through the derivative of the fit."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.flatten_util import ravel_pytree

from regjax.core.checks import as_float_array, check_strength, require
from regjax.core.kinks import descend
from regjax.core.solution import Solution


def tune(
    objective: Callable[[Any], Array],
    hyperparameters: Any,
    *,
    positive: Any = True,
    tol: Any = None,
    max_iter: int = 100,
) -> Solution:
    r"""Minimise a validation loss over hyperparameters by BFGS, with derivatives through the fits.

    Every fit of this library has its derivative by the implicit function theorem, so that the error on held-out
    samples, `loo_score`, `gcv` or a likelihood can be minimised over hundreds of hyperparameters at once, where a
    grid takes two. One evaluation with its gradient is one step. It finds a minimum near the start; of a lasso's
    strengths start below `lam_max`, beyond which the objective is flat.

    Args:
        objective: `objective(hyperparameters) -> scalar`, differentiable.
        hyperparameters: where to start, a pytree of numbers and arrays.
        positive: which are positive, and searched by their logarithm: True, False, or a prefix pytree of these.
        tol: of the residual; 1e-5 in float64 and 1e-4 in float32 if None.
        max_iter: the most evaluations.

    Returns:
        A `Solution` whose `params` are the hyperparameters, not a model. `residual` is the largest entry of the
        gradient, with respect to the logarithm where positive, over the size of the objective at the start; at a kink,
        where a coefficient enters, that of the shortest vector between the gradients of its two sides.

    Example:
        >>> import jax.numpy as jnp, regjax
        >>> data = regjax.data.diabetes()
        >>> X = (data.X - data.X.mean(0)) / data.X.std(0)
        >>> found = regjax.tune(lambda lam: regjax.loo_score(X, data.y, lam), 100.0)
        >>> print(bool(found.converged), bool(found.objective < regjax.loo_score(X, data.y, 100.0)))
        True True

    References:
        Bertrand et al., Implicit differentiation for fast hyperparameter selection in non-smooth convex learning, JMLR
        23 (2022).
    """
    if not callable(objective):
        raise ValueError(f"objective must be a function of the hyperparameters, got {objective!r}")
    if max_iter < 1:
        raise ValueError(f"max_iter must be at least 1, got {max_iter}")
    start = jax.tree_util.tree_map_with_path(
        lambda path, leaf: as_float_array(f"hyperparameters{jax.tree_util.keystr(path)}", leaf), hyperparameters
    )
    if not jax.tree.leaves(start):
        raise ValueError("hyperparameters holds no numbers: there is nothing to tune")
    try:
        logs = jax.tree.map(lambda flag, part: jax.tree.map(lambda _: bool(flag), part), positive, start)
    except ValueError as error:
        raise ValueError(f"positive takes True, False or a prefix pytree of the hyperparameters: {error}") from error
    for flag, leaf in zip(jax.tree.leaves(logs), jax.tree.leaves(start), strict=True):
        if flag:
            require(lambda a: jnp.all(a > 0), leaf, message=f"hyperparameters must be positive, got {leaf}")
        require(lambda a: jnp.all(jnp.isfinite(a)), leaf, message=f"hyperparameters must be finite, got {leaf}")
    flat, unravel = ravel_pytree(jax.tree.map(lambda flag, leaf: jnp.log(leaf) if flag else leaf, logs, start))
    goal = check_strength("tol", (1e-5 if flat.dtype == jnp.float64 else 1e-4) if tol is None else tol, flat.dtype)

    def values(point):
        return jax.tree.map(lambda flag, leaf: jnp.exp(leaf) if flag else leaf, logs, unravel(point))

    shape = jax.eval_shape(lambda point: objective(values(point)), flat)
    if jnp.shape(shape) != ():
        raise ValueError(f"objective must return a scalar, got the shape {jnp.shape(shape)}")
    size = jnp.abs(objective(values(flat))).astype(flat.dtype)
    size = jnp.where((size > 0) & jnp.isfinite(size), size, 1)
    evaluate = jax.value_and_grad(lambda point: objective(values(point)).astype(flat.dtype) / size)
    found = descend(evaluate, flat, tol=goal, max_iter=max_iter)
    nothing = jnp.full_like(found.value, jnp.nan)
    return Solution(values(found.point), found.status, found.num_eval, found.residual, nothing, size * found.value)
