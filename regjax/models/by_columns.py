"""Least squares with any penalty from the columns themselves, made ready where they are solved."""

import jax.numpy as jnp
from jax import lax

from regjax.core.lanes import hides_lanes, sees_lanes
from regjax.models.by_moments import Found
from regjax.models.prepare import prepare
from regjax.solvers.minimize import minimize


def fit_columns(X, Y, weights, penalty, limits, init, tol, *, intercept, standardize, solver, max_iter) -> Found:
    """The solution, without derivatives.

    On CPU data sets and folds are centred, weighted and solved one after the other, so that there is one copy of X at a
    time and not one for each.
    """

    def one(X, weights, Y, penalty, limits, init, tol):
        data, penalty, size = prepare(X, Y, weights, penalty, limits, intercept, standardize)
        A, B = data.scaled_x, data.scaled_y
        outcome = minimize(A, B, penalty, init * size[:, None], solver=solver, tol=tol, max_iter=max_iter)
        scaled = outcome.coef
        objective = jnp.sum((B - A @ scaled) ** 2) / 2 + penalty.value(scaled)
        return Found(scaled / size[:, None], data.intercept_of(scaled), objective, outcome, data.size)

    @sees_lanes
    def over_lanes(*arguments):
        *_, tol = arguments
        return hides_lanes(one, arguments, tol.ndim, owners=2)

    return over_lanes(*lax.stop_gradient((X, weights, Y, penalty, limits, init, tol)))
