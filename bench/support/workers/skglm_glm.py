"""skglm: its prox-Newton solver, each λ from the solution before it; the tolerance is relative to the largest slope."""

import numpy as np
import skglm
from serve import serve
from skglm.datafits import Logistic, Poisson
from skglm.penalties import L1
from skglm.solvers import ProxNewton
from skglm.utils.jit_compilation import compiled_clone

DATAFITS = {"logistic": compiled_clone(Logistic()), "poisson": compiled_clone(Poisson())}
PENALTY = compiled_clone(L1(1.0))


def solve(X, y, alphas, family, tol):
    target = 2 * y - 1 if family == "logistic" else y
    solver = ProxNewton(tol=tol * alphas[0], fit_intercept=False, max_iter=100)
    w, fits = np.zeros(X.shape[1]), []
    for alpha in alphas:
        PENALTY.alpha = alpha
        w = solver.solve(X, target, DATAFITS[family], PENALTY, w_init=w.copy(), Xw_init=X @ w)[0]
        fits.append(w)
    return np.stack(fits)


serve(solve, f"skglm {skglm.__version__}")
