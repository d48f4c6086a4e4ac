"""What the benches of sparse regression share: problems, the duality gap by numpy, timing, tables and plots."""

import argparse
import os
import platform
import time
from pathlib import Path

import numpy as np

RESULTS = Path(__file__).resolve().parents[1] / "results"


def arguments(doc, *more):
    """Parse --tiny and what a bench adds: pairs of a name and the keywords of `add_argument`."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiny", action="store_true", help="a small size with checks, to see that the script runs")
    for name, keywords in more:
        parser.add_argument(name, **keywords)
    return parser.parse_args()


def problem(n, p, correlation, count=100, smallest=0.01, seed=0):
    """X (n, p) with AR(1) columns, y (n,) from a sparse truth with signal-to-noise 4, and λ from λ_max down."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    for j in range(1, p):
        X[:, j] = correlation * X[:, j - 1] + np.sqrt(1 - correlation**2) * X[:, j]
    truth = np.zeros(p)
    support = rng.choice(p, min(50, max(p // 10, 1)), replace=False)
    truth[support] = rng.normal(size=len(support))
    signal = X @ truth
    y = signal + np.std(signal) / 2 * rng.normal(size=n)  # variances 4 : 1
    return X, y, np.max(np.abs(y @ X)) * np.geomspace(1, smallest, count)


def gap(X, y, lams, coef):
    """The largest relative duality gap of the lasso over a path, coef (L, p), relative to ½‖y‖².

    The dual point is the residual r times the best feasible s: gap = ½‖r − θ‖² + λ‖w‖₁ − ⟨w, Xᵀθ⟩ with θ = s r and
    ‖Xᵀθ‖∞ ≤ λ; no difference of large numbers. A path that is not finite has an infinite gap.
    """
    residuals = y - coef @ X.T
    slopes = residuals @ X
    with np.errstate(all="ignore"):
        best = residuals @ y / np.sum(residuals**2, 1)
        scale = np.clip(best, 0, lams / np.max(np.abs(slopes), 1))[:, None]
        terms = np.sum((residuals - scale * residuals) ** 2, 1) / 2
        terms += lams * np.sum(np.abs(coef), 1) - np.sum(coef * scale * slopes, 1)
    worst = np.max(terms) / (y @ y / 2)
    return float(worst) if np.isfinite(worst) else np.inf


def largest_gap(X, y, lams, coef):
    """The largest gap over a batch: X (B, n, p), y (B, n), lams (B, L), coef (B, L, p)."""
    return max(gap(*lane) for lane in zip(X, y, lams, coef, strict=True))


def best_of(function, budget=6.0, most=7):
    """Seconds of the fastest call, and its result; one call to warm up."""
    function()
    times = []
    while not times or (sum(times) < budget and len(times) < most):
        start = time.perf_counter()
        result = function()
        times.append(time.perf_counter() - start)
    return min(times), result


def time_compiled(function, *arrays, budget=6.0, most=7):
    """Seconds of the fastest call of a JAX function, seconds to compile it, and its result."""
    import jax

    arrays = [jax.numpy.asarray(a) for a in arrays]
    start = time.perf_counter()
    compiled = jax.jit(function).lower(*arrays).compile()
    compile_seconds = time.perf_counter() - start
    seconds, result = best_of(lambda: jax.block_until_ready(compiled(*arrays)), budget, most)
    return seconds, compile_seconds, result


def on_every_core(function, *arrays):
    """A JAX function of arrays with one leading axis, in which every device has its share of that axis; and the arrays.

    They are where they are used: to copy them from one device to the others at every call takes as long as the fits.
    The cores of a CPU are devices where `jax_num_cpu_devices` says so.
    """
    import jax

    mesh, sets = jax.sharding.Mesh(jax.devices(), "sets"), jax.P("sets")
    arrays = [jax.device_put(a, jax.NamedSharding(mesh, sets)) for a in arrays]
    return jax.shard_map(function, mesh=mesh, in_specs=sets, out_specs=sets, check_vma=False), *arrays


def write_table(name, about, header, rows):
    """Print a Markdown table and write it to results/<name>.md under a line on the machine and the task."""
    lines = [
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"{time.strftime('%Y-%m-%d')}; {about}",
        "",
        f"| {' | '.join(header)} |",
        "|" + "---|" * len(header),
        *(f"| {' | '.join(row)} |" for row in rows),
    ]
    text = "\n".join(lines) + "\n"
    print(text)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.md").write_text(text)


def new_figure(columns=1, size=(8, 4)):
    """A matplotlib figure without a display, and its axes."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt.subplots(1, columns, figsize=size, layout="constrained")


def save_figure(figure, name):
    """Write results/<name>.png."""
    RESULTS.mkdir(exist_ok=True)
    figure.savefig(RESULTS / f"{name}.png", dpi=130)
