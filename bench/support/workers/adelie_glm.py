"""adelie: grpnet with a binomial or Poisson family."""

import os

import adelie as ad
from serve import serve

COMMON = {"early_exit": False, "progress_bar": False, "max_iters": 10_000_000, "n_threads": os.cpu_count()}


def solve(X, y, alphas, family, tol, irls_tol):
    glm = {"logistic": ad.glm.binomial, "poisson": ad.glm.poisson}[family](y)
    return ad.grpnet(
        X, glm, lmda_path=alphas, tol=tol, irls_tol=irls_tol, intercept=False, ddev_tol=0, adev_tol=1.0, **COMMON
    ).betas


serve(solve, f"adelie {ad.__version__}")
