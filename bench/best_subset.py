"""Best subsets of 0 to 50 columns: regjax beside abess, in one run, loss by loss.

The task: minimise ½‖y − b − Xw‖² with at most k columns, for every k at once, float64. Columns are AR(1) with
correlation ρ; 50 of them make up the target, with signal-to-noise 4. Losses are computed by numpy from the columns
chosen alone. Both are heuristics: the table says at how many k each finds the lower loss. abess runs with its default
settings on one thread and on all, and returns one model per call: its path is timed as one call, its losses come from
calls for every size (support/workers/abess_path.py). Times are the best of several calls after a warm-up; compiling is
apart. The peer runs in an environment of its own (python bench/support/peers.py abess).

    python bench/best_subset.py          writes bench/results/best_subset.{md,png}
    python bench/best_subset.py --tiny   a small size beside exhaustive search
"""

import os

os.environ["OPENBLAS_NUM_THREADS"] = str(os.cpu_count())

import jax
import numpy as np
from support import common, peers

import regjax

SHAPES = [(1000, 2000), (500, 500)]
CORRELATIONS = [0.5, 0.9]
SOLVERS = ["swaps", "omp"]


def regjax_path(X, y, largest, solver):
    """Seconds, seconds to compile, and coefficients (largest + 1, p)."""

    def path(X, y):
        return regjax.best_subset_path(X, y, largest, solver=solver)

    seconds, compile_seconds, solution = common.time_compiled(path, X, y)
    regjax.check(solution)
    return seconds, compile_seconds, np.asarray(solution.params.coef)


def abess_path(X, y, largest):
    """Seconds on one thread and on all, and coefficients (largest + 1, p)."""
    sizes = np.arange(largest + 1.0)[None]
    settings = [{"threads": 1, "each": False}, {"threads": int(peers.CORES), "each": False}]
    alone, together = peers.run("abess", X[None], y[None], sizes, settings, budget=6.0, most=7)
    each = peers.run("abess", X[None], y[None], sizes, [{"threads": 1, "each": True}], budget=0.0, most=1)
    return alone.seconds, together.seconds, each[0].coef[0]


def losses(X, y, coef):
    """½‖y − b − Xw‖² at the best w on the support of every row of coef (K, p)."""
    Z, t = X - X.mean(0), y - y.mean()
    columns = [Z[:, row != 0] for row in coef]
    return np.array([np.sum((t - some @ np.linalg.lstsq(some, t)[0]) ** 2) / 2 for some in columns])


def compare(ours, theirs):
    """At how many sizes the one is lower, equal (to 1e-9), higher."""
    apart = (ours - theirs) / theirs
    return np.sum(apart < -1e-9), np.sum(np.abs(apart) <= 1e-9), np.sum(apart > 1e-9)


def measure(n, p, correlation, largest=50):
    X, y, _ = common.problem(n, p, correlation)
    found, rows = {}, []
    with_peer = bool(peers.installed(["abess"]))
    if with_peer:
        alone, together, coef = abess_path(X, y, largest)
        found["abess"] = losses(X, y, coef)
    for solver in SOLVERS:
        seconds, compile_seconds, coef = regjax_path(X, y, largest, solver)
        found[solver] = losses(X, y, coef)
        row = [f"{n}×{p}", f"{correlation}", solver, f"{seconds:.3f}", f"{compile_seconds:.1f}"]
        if with_peer:
            lower, equal, higher = compare(found[solver], found["abess"])
            row += [f"{alone:.3f}", f"{together:.3f}", f"{min(alone, together) / seconds:.2f}×"]
            row += [f"{lower} / {equal} / {higher}", f"{np.min(found[solver] / found['abess']) - 1:+.1%}"]
        else:
            row += ["–"] * 5
        print(" ".join(row), flush=True)
        rows.append(row)
    return rows, found


def draw(configurations):
    figure, axes = common.new_figure(columns=len(configurations), size=(4 * len(configurations), 3.5))
    for ax, (title, found) in zip(axes, configurations, strict=True):
        least = np.min(np.stack(list(found.values())), axis=0)
        for name, values in found.items():
            ax.plot(values / least - 1, label=name, marker=".")
        ax.set(title=title, xlabel="k", ylabel="loss above the least found")
    axes[0].legend()
    common.save_figure(figure, "best_subset")


def run_tiny():
    X, y, _ = common.problem(60, 12, 0.5)
    _, _, coef = regjax_path(X, y, 6, "swaps")
    _, _, best = regjax_path(X, y, 6, "exhaustive")
    lower, equal, higher = compare(losses(X, y, coef), losses(X, y, best))
    assert lower == 0, "a heuristic beats exhaustive search"
    assert higher <= 1, f"{equal} of 7 sizes at the least loss"
    print(f"best_subset: the loss of exhaustive search at {equal} of 7 sizes")


def run_all():
    configurations, rows = [], []
    for n, p in SHAPES:
        for correlation in CORRELATIONS:
            more, found = measure(n, p, correlation)
            rows += more
            configurations.append((f"{n}×{p}, ρ = {correlation}", found))
    common.write_table(
        "best_subset",
        f"float64; k = 0, …, 50; seconds, best of several after warm-up; {peers.version('regjax')}, "
        f"{peers.version('abess')} with 1 and with {peers.CORES} threads.",
        ["shape", "ρ", "solver", "regjax", "compile", "abess, 1 thread", "all threads", "abess / regjax",
         "k with a lower / equal / higher loss", "largest gain"],
        rows,
    )  # fmt: skip
    draw(configurations)


def main():
    options = common.arguments(__doc__)
    jax.config.update("jax_enable_x64", True)
    if options.tiny:
        run_tiny()
    else:
        run_all()


if __name__ == "__main__":
    main()
