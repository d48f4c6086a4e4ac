"""skglm: Lasso.path; its tolerance is the distance of the gradient to the subdifferential, here relative to λ_max."""

import numpy as np
import skglm
from serve import serve


def solve(X, y, alphas, tol):
    largest = np.max(np.abs(y @ X)) / len(y)
    return skglm.Lasso(tol=tol * largest, fit_intercept=False, max_iter=1000).path(X, y, alphas)[1].T


serve(solve, f"skglm {skglm.__version__}")
