"""adelie: cv_grpnet, which draws folds of its own and makes the same grid of λ."""

import os

import adelie as ad
import numpy as np
from cv import serve

COMMON = {"early_exit": False, "progress_bar": False, "max_iters": 10_000_000, "n_threads": os.cpu_count()}


def validate(X, y, alphas, folds, tol):
    ad.cv_grpnet(
        X, ad.glm.gaussian(y), min_ratio=alphas[-1] / alphas[0], lmda_path_size=len(alphas), seed=0, tol=tol,
        n_folds=len(np.unique(folds)), **COMMON,
    )  # fmt: skip


def path(X, y, alphas, tol):
    return ad.grpnet(X, ad.glm.gaussian(y), lmda_path=alphas, ddev_tol=0, tol=tol, **COMMON).betas.toarray()


serve(validate, path, f"adelie {ad.__version__}")
