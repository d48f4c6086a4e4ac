"""adelie: cv_grpnet, which draws folds of its own and makes the same grid of λ."""

import os

import adelie as ad
import numpy as np
from cv import serve

COMMON = {"early_exit": False, "progress_bar": False, "max_iters": 10_000_000, "n_threads": os.cpu_count()}


def loss(y, model):
    return ad.glm.binomial(y) if model == "logistic" else ad.glm.gaussian(y)


def numerics(tol, model):
    return {"tol": tol, "irls_tol": tol} if model == "logistic" else {"tol": tol}


def validate(X, y, alphas, folds, tol, model):
    ad.cv_grpnet(
        X, loss(y, model), min_ratio=alphas[-1] / alphas[0], lmda_path_size=len(alphas), seed=0,
        n_folds=len(np.unique(folds)), **numerics(tol, model), **COMMON,
    )  # fmt: skip


def path(X, y, alphas, samples, tol, model):
    del samples
    fits = ad.grpnet(X, loss(y, model), lmda_path=alphas, ddev_tol=0, **numerics(tol, model), **COMMON)
    return fits.betas.toarray()


serve(validate, path, f"adelie {ad.__version__}")
