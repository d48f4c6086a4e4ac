"""statsmodels: GLM by its IRLS, Logit by Newton's method; the intercept in front of the coefficients.

Its ridge is by BFGS, and takes no tolerance.
"""

import numpy as np
import statsmodels
import statsmodels.api as sm
from serve import serve

FAMILIES = {"poisson": sm.families.Poisson, "gamma": lambda: sm.families.Gamma(sm.families.links.Log())}


def solve(X, y, alphas, family, solver, tol):
    fits = []
    for alpha in alphas:
        design = np.column_stack([np.ones(len(y)), X])
        if family == "binomial":
            model = sm.Logit(y, design).fit(method=solver, tol=tol, maxiter=100, disp=False, skip_hessian=True)
        elif alpha == 0:
            model = sm.GLM(y, design, family=FAMILIES[family]()).fit(tol=tol, tol_criterion="params", maxiter=100)
        else:
            strengths = np.append(0, np.full(X.shape[1], alpha))
            model = sm.GLM(y, design, family=FAMILIES[family]()).fit_regularized(alpha=strengths, L1_wt=0)
        fits.append(model.params)
    return np.stack(fits)


serve(solve, f"statsmodels {statsmodels.__version__}")
