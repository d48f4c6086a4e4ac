"""adelie: grpnet on the columns, or gaussian_cov on XᵀX/n where the setting says so (forming it is timed)."""

import os

import adelie as ad
from serve import serve

COMMON = {"early_exit": False, "progress_bar": False, "max_iters": 10_000_000, "n_threads": os.cpu_count()}


def solve(X, y, alphas, tol, covariance):
    if covariance:
        state = ad.solver.gaussian_cov(X.T @ X / len(y), y @ X / len(y), lmda_path=alphas, tol=tol, **COMMON)
    else:
        state = ad.grpnet(X, ad.glm.gaussian(y), lmda_path=alphas, tol=tol, intercept=False, **COMMON)
    return state.betas


serve(solve, f"adelie {ad.__version__}")
