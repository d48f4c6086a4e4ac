"""scikit-learn: LassoCV and RidgeCV on the given folds, two jobs."""

import os

import sklearn
from cv import serve
from sklearn.linear_model import LassoCV, Ridge, RidgeCV, lasso_path
from sklearn.model_selection import PredefinedSplit

COMMON = {"max_iter": 1_000_000}


def validate(X, y, alphas, folds, model, **setting):
    if model == "ridge":  # its α is that of the sum
        RidgeCV(alphas=alphas * len(y), cv=PredefinedSplit(folds)).fit(X, y)
        return
    LassoCV(alphas=alphas, cv=PredefinedSplit(folds), n_jobs=os.cpu_count(), **setting, **COMMON).fit(X, y)


def path(X, y, alphas, samples, model, **setting):
    if model == "ridge":
        return [Ridge(alpha=alpha * samples).fit(X, y).coef_ for alpha in alphas]
    X, y = X - X.mean(0), y - y.mean()
    return lasso_path(X, y, alphas=alphas, **setting, **COMMON)[1].T


serve(validate, path, f"scikit-learn {sklearn.__version__}")
