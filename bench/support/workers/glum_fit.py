"""glum: its own IRLS or L-BFGS, stopped on the gradient; the intercept in front of the coefficients."""

import glum
import numpy as np
from serve import serve

LINKS = {"poisson": "log", "gamma": "log", "binomial": "logit"}


def solve(X, y, alphas, family, solver, tol):
    fits = []
    for alpha in alphas:
        model = glum.GeneralizedLinearRegressor(
            family=family, link=LINKS[family], alpha=alpha, l1_ratio=0, solver=solver, gradient_tol=tol,
            max_iter=1000, check_input=False,
        )  # fmt: skip
        model.fit(X, y)
        fits.append(np.append(model.intercept_, model.coef_))
    return np.stack(fits)


serve(solve, f"glum {glum.__version__}")
