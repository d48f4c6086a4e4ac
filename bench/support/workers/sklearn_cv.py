"""scikit-learn: LassoCV on the given folds, two jobs."""

import os

import sklearn
from cv import serve
from sklearn.linear_model import LassoCV, lasso_path
from sklearn.model_selection import PredefinedSplit

COMMON = {"max_iter": 1_000_000}


def validate(X, y, alphas, folds, tol, precompute):
    model = LassoCV(
        alphas=alphas, cv=PredefinedSplit(folds), n_jobs=os.cpu_count(), tol=tol, precompute=precompute, **COMMON
    )
    model.fit(X, y)


def path(X, y, alphas, tol, precompute):
    X, y = X - X.mean(0), y - y.mean()
    return lasso_path(X, y, alphas=alphas, tol=tol, precompute=precompute, **COMMON)[1].T


serve(validate, path, f"scikit-learn {sklearn.__version__}")
