"""celer: celer_path for the logistic loss, labels ±1 and a sum over samples."""

import celer
from serve import serve


def solve(X, y, alphas, family, tol, prune):
    assert family == "logistic"
    return celer.celer_path(
        X, 2 * y - 1, "logreg", alphas=len(y) * alphas, tol=tol, prune=prune, max_iter=200, use_PN=True
    )[1].T


serve(solve, f"celer {celer.__version__}")
