"""The lasso and the elastic net of more samples than columns, by the inner products of the columns alone."""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from regjax.core.lanes import computes_on_cpu
from regjax.models.sums import weighted_sums
from regjax.penalties import Limited
from regjax.solvers.column_set import WHOLE
from regjax.solvers.engine import working_set
from regjax.solvers.minimize import automatic, minimize_moments
from regjax.solvers.run import Outcome


class Found(NamedTuple):
    """Coefficients (p, t), the intercept (t,) and the objective on the scale of the data; what the solver returned.

    `size` has the squares of the columns (p,).
    """

    coef: Array
    intercept: Array
    objective: Array
    outcome: Outcome
    size: Array


def by_moments(X: Array, solver: Any) -> bool:
    """Whether to: in double precision, in which inner products hold, and where the engine works on all columns."""
    small = X.shape[1] <= min(len(X), WHOLE) and X.dtype == jnp.float64
    return small and (solver is working_set or (solver is automatic and computes_on_cpu()))


def fit_moments(X, Y, weights, penalty, limits, init, tol, *, intercept, standardize, max_iter) -> Found:
    """The solution, without derivatives. One pass over X serves all penalties, and all weights that are folds."""
    v = jnp.ones(len(X), X.dtype) if weights is None else weights
    sums = weighted_sums(X, Y, v, intercept)
    size = jnp.ones_like(sums.spread)
    if standardize:
        size = jnp.where(sums.spread > 0, jnp.sqrt(sums.spread / sums.total), 1)
    column = size[:, None]
    if limits is not None:
        penalty = Limited(penalty, *(limit * column for limit in limits))
    gram, moments = sums.gram / (column * size), sums.moments / column
    outcome = minimize_moments(gram, moments, sums.energy, penalty, init * column, tol=tol, max_iter=max_iter)
    scaled = outcome.coef
    pull = moments - gram @ scaled
    squares = jnp.maximum(sums.energy - jnp.sum(scaled * (moments + pull), axis=0), 0)
    coef = scaled / column
    objective = jnp.sum(squares) / 2 + penalty.value(scaled)
    return Found(coef, sums.mean_y - sums.mean_x @ coef, objective, outcome, jnp.diag(gram))
