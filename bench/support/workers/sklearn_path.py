"""scikit-learn: lasso_path; its tolerance is a duality gap relative to ‖y‖²."""

import sklearn
from serve import serve
from sklearn.linear_model import lasso_path


def solve(X, y, alphas, tol, precompute):
    return lasso_path(X, y, alphas=alphas, tol=tol, precompute=precompute, max_iter=1_000_000)[1].T


serve(solve, f"scikit-learn {sklearn.__version__}")
