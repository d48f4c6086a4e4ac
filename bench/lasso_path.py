"""The lasso path: regjax beside glmnet, adelie, celer, skglm and scikit-learn, in one run at one measured accuracy.

The task: minimise ½‖y − Xw‖² + λ‖w‖₁ without an intercept, float64, for 100 λ from λ_max to λ_max/100; columns are
AR(1) with correlation ρ. Every method is given its fastest setting whose largest relative duality gap over the path,
computed by numpy from the coefficients alone, is at most 1e-6 (and 1e-4). Times are the best of several calls after a
warm-up; compilation is apart; all may use all cores (regjax by XLA's threads, its LAPACK calls run on one). The peers
run in environments of their own (support/peers.py).

    python bench/lasso_path.py                        writes bench/results/lasso_path.{md,png}
    python bench/lasso_path.py --only regjax celer    only those methods
    python bench/lasso_path.py --tiny                 a small size beside the scikit-learn at hand, with checks
"""

import os
import sys

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # of regjax alone: XLA has threads of its own, and the two disturb each other

import jax
import numpy as np
from support import common, peers

import regjax

SHAPES = [(5000, 500), (500, 2000), (1000, 5000)]
CORRELATIONS = [0.5, 0.9]
TARGETS = [1e-6, 1e-4]


def regjax_path(X, y, lams):
    """Each target is the tolerance: {target: Run}, and seconds to compile."""
    found, compile_seconds = {}, np.nan
    for target in TARGETS:

        def path(X, y, lams, target=target):
            return regjax.lasso_path(X, y, lams, intercept=False, tol=target)

        seconds, compile_seconds, solution = common.time_compiled(path, X, y, lams)
        coef = np.asarray(solution.params.coef)
        run = peers.Run(seconds, common.gap(X, y, lams, coef), coef[None], {"tol": target})
        if run.gap <= target:
            found[target] = run
    return found, compile_seconds


def measure(n, p, correlation, methods, count=100, command=None):
    """Everything about one configuration: the runs {method: {target: Run}}, seconds to compile, and the problem."""
    X, y, lams = common.problem(n, p, correlation, count)
    runs, compile_seconds = {}, np.nan
    for name in methods:
        if name == "regjax":
            runs[name], compile_seconds = regjax_path(X, y, lams)
        else:
            runs[name] = peers.measure(name, X[None], y[None], lams[None], TARGETS, command)
        found = [f"{run.seconds:.3f} s at gap {run.gap:.0e} {run.setting or ''}" for run in runs[name].values()]
        print(f"{n}×{p}, ρ = {correlation}, {name}: {'; '.join(found) or 'no setting reaches a target'}", flush=True)
    return runs, compile_seconds, (X, y, lams)


def cells(runs, compile_seconds, methods, target):
    """One row of the table from its method on: seconds (gap) of each, and the fastest peer over regjax."""
    at = {name: runs[name][target] for name in methods if target in runs[name]}
    row = [f"{at[name].seconds:.3f} ({at[name].gap:.0e})" if name in at else "not reached" for name in methods]
    rivals = [run.seconds for name, run in at.items() if name != "regjax"]
    ratio = f"{min(rivals) / at['regjax'].seconds:.2f}×" if "regjax" in at and rivals else "–"
    return [*row, f"{compile_seconds:.1f}", ratio]


def draw(configurations, methods):
    figure, axes = common.new_figure(columns=len(TARGETS), size=(14, 4.5))
    places, width = np.arange(len(configurations)), 0.85 / len(methods)
    for ax, target in zip(axes, TARGETS, strict=True):
        for k, name in enumerate(methods):
            heights = [runs[name][target].seconds if target in runs[name] else np.nan for _, runs, _ in configurations]
            ax.bar(places + width * (k - (len(methods) - 1) / 2), heights, width, label=name)
        ax.set(yscale="log", ylabel="seconds", xlim=(-0.5, len(places) - 0.5))
        ax.set_title(f"100 λ, relative duality gap ≤ {target:.0e}")
        ax.set_xticks(places, [f"{n}×{p}\nρ = {correlation}" for (n, p, correlation), _, _ in configurations])
    axes[0].legend()
    common.save_figure(figure, "lasso_path")


def run_tiny():
    for n, p in [(60, 120)]:
        runs, _, (X, y, _) = measure(n, p, 0.5, ["regjax", "scikit-learn"], count=20, command=sys.executable)
        assert all(TARGETS[0] in found for found in runs.values()), f"{n}×{p}: a gap of {TARGETS[0]:.0e} is not reached"
        ours, theirs = (runs[name][TARGETS[0]] for name in ("regjax", "scikit-learn"))
        apart = np.linalg.norm((ours.coef[0] - theirs.coef[0]) @ X.T, axis=1) / np.linalg.norm(y)
        assert np.all(apart <= 2 * TARGETS[0] ** 0.5), apart  # what two gaps of 1e-6 allow the fits to differ
    print("lasso_path: regjax and scikit-learn reach a gap of 1e-6 and agree")


def run_all(only, shapes):
    methods = [name for name in only if name == "regjax"] + peers.installed([n for n in only if n != "regjax"])
    configurations, rows = [], []
    for n, p in shapes:
        for correlation in CORRELATIONS:
            runs, compile_seconds, _ = measure(n, p, correlation, methods)
            configurations.append(((n, p, correlation), runs, compile_seconds))
            rows += [
                [f"{n}×{p}", f"{correlation}", f"{target:.0e}", *cells(runs, compile_seconds, methods, target)]
                for target in TARGETS
            ]
    common.write_table(
        "lasso_path",
        f"float64; 100 λ to λ_max/100; seconds (largest relative duality gap over the path), best of several after "
        f"warm-up, {peers.CORES} cores for everyone; {', '.join(peers.version(name) for name in methods)}.",
        ["shape", "ρ", "gap ≤", *methods, "compile", "fastest peer / regjax"],
        rows,
    )
    draw(configurations, methods)


def main():
    everyone, shapes = ["regjax", *peers.NAMES], [f"{n}x{p}" for n, p in SHAPES]
    options = common.arguments(
        __doc__,
        ("--only", {"nargs": "+", "choices": everyone, "default": everyone, "help": "methods to run"}),
        ("--shapes", {"nargs": "+", "choices": shapes, "default": shapes, "help": "sizes of the data"}),
    )
    jax.config.update("jax_enable_x64", True)
    if options.tiny:
        run_tiny()
    else:
        run_all(options.only, [tuple(map(int, shape.split("x"))) for shape in options.shapes])


if __name__ == "__main__":
    main()
