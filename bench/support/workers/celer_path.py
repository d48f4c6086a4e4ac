"""celer: celer_path; its tolerance is a duality gap relative to ‖y‖²/2n."""

import celer
from serve import serve


def solve(X, y, alphas, tol, prune):
    return celer.celer_path(X, y, "lasso", alphas=alphas, tol=tol, prune=prune, max_iter=200)[1].T


serve(solve, f"celer {celer.__version__}")
