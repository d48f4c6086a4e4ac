"""Exact leave-one-out over a grid of λ: regjax beside scikit-learn's RidgeCV and himalaya's RidgeCV, in one run.

The task: 100 λ, the exact leave-one-out error of each, for 1, 100 and 1000 targets. scikit-learn computes the same
quantity. himalaya has no exact leave-one-out; its 5-fold cross-validation over the same λ is timed instead (in kernel
form for wide data, as it recommends). Times are the best of several calls after a warm-up; compilation is apart.
Threads are pinned to the number of cores for everyone.

    python bench/ridge_loo.py          writes bench/results/ridge_loo.{md,png}
    python bench/ridge_loo.py --tiny   a small size, to see that it runs
"""

import argparse
import os
import platform
import time
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = str(os.cpu_count())

import jax
import jax.numpy as jnp
import numpy as np

import regjax

RESULTS = Path(__file__).parent / "results"


def best_of(function, budget=6.0, most=7):
    """Seconds of the fastest call, and its result; one call to warm up."""
    function()
    times, spent = [], 0.0
    while not times or (spent < budget and len(times) < most):
        start = time.perf_counter()
        result = function()
        times.append(time.perf_counter() - start)
        spent += times[-1]
    return min(times), result


def regjax_scores(X, Y, lams):
    grid = jax.jit(lambda X, Y, lams: jax.vmap(lambda lam: regjax.loo_score(X, Y, lam))(lams))
    arrays = [jnp.asarray(a) for a in (X, Y, lams)]
    start = time.perf_counter()
    compiled = grid.lower(*arrays).compile()
    compile_seconds = time.perf_counter() - start
    seconds, scores = best_of(lambda: jax.block_until_ready(compiled(*arrays)))
    return seconds, compile_seconds, np.asarray(scores)


def scikit_learn_scores(X, Y, lams):
    from sklearn.linear_model import RidgeCV

    targets = Y if Y.shape[1] > 1 else Y[:, 0]
    seconds, model = best_of(lambda: RidgeCV(alphas=lams, alpha_per_target=Y.shape[1] > 1).fit(X, targets))
    return seconds, -np.atleast_1d(model.best_score_)


def himalaya_seconds(X, Y, lams):
    from himalaya.kernel_ridge import KernelRidgeCV
    from himalaya.ridge import RidgeCV

    if X.shape[0] < X.shape[1]:  # what it recommends for wide data; without an intercept, which is less work
        return best_of(lambda: KernelRidgeCV(alphas=lams, kernel="linear", cv=5).fit(X, Y))[0]
    return best_of(lambda: RidgeCV(alphas=lams, cv=5, fit_intercept=True).fit(X, Y))[0]


def reference_score(X, y, lam):
    """The definition, by numpy: residuals over 1 − h from the hat matrix of one λ."""
    Z, t = X - X.mean(0), y - y.mean()
    hat = Z @ np.linalg.solve(Z.T @ Z + lam * np.eye(Z.shape[1]), Z.T) + 1 / len(y)
    return np.mean(((t - hat @ t) / (1 - np.diag(hat))) ** 2)


def measure(n, p, t, lams):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, p))
    Y = X @ rng.normal(size=(p, t)) / np.sqrt(p) + rng.normal(size=(n, t))
    ours, compile_seconds, scores = regjax_scores(X, Y, lams)
    theirs, best = scikit_learn_scores(X, Y, lams)
    himalaya = himalaya_seconds(X, Y, lams)
    exact = reference_score(X, Y[:, 0], lams[len(lams) // 2])
    error = abs(scores[len(lams) // 2, 0] / exact - 1)
    agreement = np.max(np.abs(scores.min(0) / best - 1))
    return {
        "shape": f"{n}×{p}",
        "targets": t,
        "regjax": ours,
        "compile": compile_seconds,
        "scikit-learn": theirs,
        "himalaya (5-fold)": himalaya,
        "ratio": min(theirs, himalaya) / ours,
        "error": error,
        "difference": agreement,
    }


def write(rows):
    lines = [
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, JAX {jax.__version__}, "
        f"{time.strftime('%Y-%m-%d')}; float64; 100 λ; seconds, best of several after warm-up.",
        "",
        "| shape | targets | regjax | compile | scikit-learn | himalaya (5-fold) | fastest peer / regjax | "
        "relative error against numpy | largest relative difference from scikit-learn |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for r in rows:
        lines.append(
            f"| {r['shape']} | {r['targets']} | {r['regjax']:.3f} | {r['compile']:.1f} | {r['scikit-learn']:.3f} | "
            f"{r['himalaya (5-fold)']:.3f} | {r['ratio']:.1f}× | {r['error']:.0e} | {r['difference']:.0e} |"
        )
    text = "\n".join(lines) + "\n"
    print(text)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "ridge_loo.md").write_text(text)
    draw(rows)


def draw(rows):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(8, 4), layout="constrained")
    places = np.arange(len(rows))
    for k, name in enumerate(["regjax", "scikit-learn", "himalaya (5-fold)"]):
        ax.bar(places + 0.27 * (k - 1), [r[name] for r in rows], 0.25, label=name)
    ax.set(yscale="log", ylabel="seconds", title="100 λ with exact leave-one-out")
    ax.set_xticks(places, [f"{r['shape']}\n{r['targets']} targets" for r in rows])
    ax.legend()
    figure.savefig(RESULTS / "ridge_loo.png", dpi=130)
    plt.close(figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiny", action="store_true", help="a small size, to see that the script runs")
    tiny = parser.parse_args().tiny
    jax.config.update("jax_enable_x64", True)
    shapes, targets = ([(40, 10), (10, 40)], [1, 3]) if tiny else ([(2000, 500), (500, 2000)], [1, 100, 1000])
    lams = np.logspace(-1, 5, 100)
    rows = [measure(n, p, t, lams) for n, p in shapes for t in targets]
    if tiny:
        assert all(r["error"] < 1e-9 and r["difference"] < 1e-9 for r in rows), rows
        print(f"ridge_loo: {len(rows)} sizes agree with scikit-learn and numpy")
    else:
        write(rows)


if __name__ == "__main__":
    main()
