"""scikit-learn: its generalized linear models and logistic regression; the intercept in front of the coefficients."""

import numpy as np
import sklearn
from serve import serve
from sklearn.linear_model import GammaRegressor, LogisticRegression, PoissonRegressor


def solve(X, y, alphas, family, solver, tol):
    fits = []
    for alpha in alphas:
        common = {"solver": solver, "tol": tol, "max_iter": 1000}
        if family == "binomial":
            model = LogisticRegression(C=np.inf if alpha == 0 else 1 / (alpha * len(y)), **common)
        else:
            model = {"poisson": PoissonRegressor, "gamma": GammaRegressor}[family](alpha=alpha, **common)
        model.fit(X, y)
        fits.append(np.append(model.intercept_, model.coef_))
    return np.stack(fits)


serve(solve, f"scikit-learn {sklearn.__version__}")
