"""How the time of regjax's lasso path grows with samples, columns, λ and data sets, with fitted exponents.

One axis varies at a time; the exponent e of time ∝ sizeᵉ is the slope of a least-squares line through the logarithms.
Times are the best of several calls after a warm-up, compilation apart; float64, AR(1) columns with ρ = 0.5, λ from
λ_max to λ_max/100, no intercept. Gaps are by numpy.

    python bench/scaling.py          writes bench/results/scaling.{md,png}
    python bench/scaling.py --tiny   a small size, to see that it runs
"""

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # of regjax alone: XLA has threads of its own, and the two disturb each other

import jax
import numpy as np
from support import common, peers

import regjax

AXES = {  # what varies, and the problem it varies in
    "samples n": ("n", [250, 500, 1000, 2000, 4000, 8000], {"n": 0, "p": 200, "count": 50, "batch": 1}),
    "columns p": ("p", [125, 250, 500, 1000, 2000, 4000], {"n": 500, "p": 0, "count": 50, "batch": 1}),
    "number of λ": ("count", [10, 20, 50, 100, 200, 500], {"n": 500, "p": 500, "count": 0, "batch": 1}),
    "data sets": ("batch", [1, 4, 16, 64, 256, 1024], {"n": 100, "p": 30, "count": 50, "batch": 0}),
}


def seconds_and_gap(n, p, count, batch):
    """Time of one call for `batch` data sets, and the largest gap of their paths."""
    lanes = (common.problem(n, p, 0.5, count, seed=b) for b in range(batch))
    X, y, lams = (np.stack(arrays) for arrays in zip(*lanes, strict=True))

    def path(X, y, lams):
        return regjax.lasso_path(X, y, lams, intercept=False)

    if batch == 1:  # the plain call, which is not a batch of one
        seconds, _, solution = common.time_compiled(path, X[0], y[0], lams[0], budget=4.0)
    else:
        seconds, _, solution = common.time_compiled(jax.vmap(path), X, y, lams, budget=4.0)
    coef = np.asarray(solution.params.coef).reshape(batch, count, p)
    return seconds, common.largest_gap(X, y, lams, coef)


def exponent(sizes, seconds):
    return np.polyfit(np.log(sizes), np.log(seconds), 1)[0]


def measure(axes):
    """{axis: (sizes, seconds, gaps)}."""
    results = {}
    for axis, (key, sizes, fixed) in axes.items():
        seconds, gaps = zip(*(seconds_and_gap(**(fixed | {key: size})) for size in sizes), strict=True)
        results[axis] = np.array(sizes), np.array(seconds), np.array(gaps)
        print(f"{axis}: {', '.join(f'{s:.4f}' for s in seconds)} s", flush=True)
    return results


def write(results, axes):
    names = {"n": "n", "p": "p", "count": "λ", "batch": "data sets"}
    rows = []
    for axis, (sizes, seconds, gaps) in results.items():
        key, _, fixed = axes[axis]
        rest = ", ".join(f"{names[k]} = {v}" for k, v in fixed.items() if k != key)
        times = ", ".join(f"{size}: {s:.4f}" for size, s in zip(sizes, seconds, strict=True))
        rows.append([axis, rest, times, f"{exponent(sizes, seconds):.2f}", f"{gaps.max():.0e}"])
    common.write_table(
        "scaling",
        f"{peers.version('regjax')}; float64; best of several after warm-up, compilation apart.",
        ["axis", "the rest", "size: seconds", "exponent", "largest gap"],
        rows,
    )
    figure, panels = common.new_figure(columns=len(results), size=(15, 3.8))
    for ax, (axis, (sizes, seconds, _)) in zip(panels, results.items(), strict=True):
        slope = exponent(sizes, seconds)
        fitted = np.exp(np.mean(np.log(seconds)) + slope * (np.log(sizes) - np.mean(np.log(sizes))))
        ax.loglog(sizes, seconds, "o", sizes, fitted, "-")
        ax.set(xlabel=axis, ylabel="seconds", title=f"time ∝ size^{slope:.2f}")
        ax.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)
        ax.set_xticks(sizes[::2], [str(size) for size in sizes[::2]])
    common.save_figure(figure, "scaling")


def main():
    options = common.arguments(__doc__)
    jax.config.update("jax_enable_x64", True)
    if options.tiny:
        small = {"n": 30, "p": 10, "count": 5, "batch": 1}
        results = measure({"samples n": ("n", [20, 40], small)})
        assert all(gaps.max() <= 1e-6 for _, _, gaps in results.values()), results
        print("scaling: every path reaches a gap of 1e-6")
    else:
        write(measure(AXES), AXES)


if __name__ == "__main__":
    main()
