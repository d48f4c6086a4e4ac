"""Exact leave-one-out of kernel ridge over 100 λ: regjax beside one eigendecomposition, scikit-learn and himalaya.

The task: n = 3000 points in 20 dimensions, an RBF kernel, 100 λ, the exact leave-one-out error of each. The yardstick
is what it cannot do without: the Gram matrix by scipy and one `scipy.linalg.eigh`. scikit-learn has no leave-one-out
for kernels: its `KernelRidge` in a 5-fold grid search is timed over 5 of the λ, since it factors anew for each.
himalaya's `KernelRidgeCV` runs 5-fold cross-validation over all of them. Both run once; the yardstick and regjax in
turns, the best of three calls after a warm-up; compilation is apart. Threads are those of OPENBLAS_NUM_THREADS for
everyone, the number of cores if it is not set.

    python bench/kernel_ridge.py          writes bench/results/kernel_ridge.md
    python bench/kernel_ridge.py --tiny   a small size, to see that it runs
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", str(os.cpu_count()))

import time

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from scipy.spatial.distance import cdist
from support.common import arguments, write_table

import regjax

SCALE = 5.0


def problem(n, d):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    return X, np.sin(X[:, 0]) * X[:, 1] + 0.3 * rng.normal(size=n)


def gram(X):
    return np.exp(-cdist(X, X, "sqeuclidean") / (2 * SCALE**2))


def yardstick(X):
    return scipy.linalg.eigh(gram(X))


def scores(X, y, lams):
    """The leave-one-out error of each λ."""

    def one(lam):
        return jnp.mean(regjax.kernel_loo_residuals(regjax.kernels.RBF(SCALE), X, y, lam) ** 2)

    return jax.vmap(one)(lams)


def seconds_of(function):
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result


def in_turns(first, second, rounds):
    """Seconds of the fastest call of each, called in turns after a warm-up, and the result of the second."""
    first(), second()
    times = []
    for _ in range(rounds):
        (a, _), (b, result) = seconds_of(first), seconds_of(second)
        times.append((a, b))
    return *np.min(times, axis=0), result


def scikit_learn_seconds(X, y, lams):
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.model_selection import GridSearchCV

    model = KernelRidge(kernel="rbf", gamma=1 / (2 * SCALE**2))
    return seconds_of(lambda: GridSearchCV(model, {"alpha": lams}, cv=5).fit(X, y))[0]


def himalaya_seconds(X, y, lams):
    from himalaya.kernel_ridge import KernelRidgeCV

    # all λ at once would be a matrix of n² numbers for each
    batch = {"n_alphas_batch": 5}
    gamma = {"gamma": 1 / (2 * SCALE**2)}
    model = KernelRidgeCV(alphas=lams, kernel="rbf", kernel_params=gamma, cv=5, solver_params=batch)
    return seconds_of(lambda: model.fit(X, y))[0]


def reference(X, y, lam):
    """The definition by numpy: G⁻¹y over the diagonal of G⁻¹."""
    inverse = np.linalg.inv(gram(X) + lam * np.eye(len(X)))
    return np.mean((inverse @ y / np.diag(inverse)) ** 2)


def main():
    tiny = arguments(__doc__).tiny
    jax.config.update("jax_enable_x64", True)
    n, d, rounds = (60, 4, 1) if tiny else (3000, 20, 3)
    X, y = problem(n, d)
    lams = np.logspace(-3, 2, 100)
    arrays = [jnp.asarray(a) for a in (X, y, lams)]
    compile_seconds, compiled = seconds_of(lambda: jax.jit(scores).lower(*arrays).compile())
    base, ours, found = in_turns(lambda: yardstick(X), lambda: jax.block_until_ready(compiled(*arrays)), rounds)
    error = max(abs(float(found[k]) / reference(X, y, lams[k]) - 1) for k in (0, 50, 99))
    some = lams[::20]
    sklearn, himalaya = scikit_learn_seconds(X, y, some), himalaya_seconds(X, y, lams)
    if tiny:
        assert error < 1e-8, error
        print(f"kernel_ridge: 100 leave-one-out errors agree with numpy to {error:.0e}")
        return
    rows = [
        ["Gram matrix and scipy.linalg.eigh", "", f"{base:.2f}", "", ""],
        ["regjax, exact leave-one-out", "100", f"{ours:.2f}", f"{ours / base:.2f}", f"{error:.0e}"],
        ["himalaya KernelRidgeCV, 5-fold", "100", f"{himalaya:.2f}", f"{himalaya / base:.2f}", ""],
        ["scikit-learn KernelRidge, 5-fold grid search", str(len(some)), f"{sklearn:.2f}", f"{sklearn / base:.2f}", ""],
    ]
    about = f"JAX {jax.__version__}; n = {n}, d = {d}, float64; compiled in {compile_seconds:.1f} s"
    header = ["what", "λ", "seconds", "times the yardstick", "relative error against numpy"]
    write_table("kernel_ridge", about, header, rows)


if __name__ == "__main__":
    main()
