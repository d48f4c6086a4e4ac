"""Kernel ridge on 100,000 points: 1,000 landmarks, 20 λ, 10 targets in one call, in memory that does not grow with n.

Shown: seconds and peak memory against n, the slope of a line through log time and log n, and how far the predictions
are from the exact solution where that can still be computed (4,000 points); those of conjugate gradients too. Every
size runs in a process of its own, for its peak memory.

    python bench/kernel_large.py          writes bench/results/kernel_large.{md,png}
    python bench/kernel_large.py --tiny   a small size, to see that it runs
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", str(os.cpu_count()))

import json
import resource
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
from support.common import arguments, new_figure, save_figure, write_table

import regjax

NOISE = 0.3


def problem(n, d, targets, seed=1):
    """X (n, d), the same smooth functions of it for every seed (n, t), and these with noise."""
    rng = np.random.default_rng(0)
    directions, phases = rng.normal(size=(d, targets)) / np.sqrt(d), rng.uniform(0, 6, size=targets)
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    truth = np.sin(2 * X @ directions + phases)
    return jnp.asarray(X), jnp.asarray(truth), jnp.asarray(truth + NOISE * rng.normal(size=truth.shape))


def kernel(d):
    return regjax.kernels.Matern52(2 * d**0.5)


def fit(X, Y, lams, landmarks):
    """Coefficients (L, m, t) of all λ, from one pass."""

    def one(lam):
        solution = regjax.kernel_ridge(
            kernel(X.shape[1]), X, Y, lam, solver="nystrom", landmarks=landmarks, intercept=True
        )
        return solution.params.coef, solution.params.intercept, solution.status

    return jax.vmap(one)(lams)


def measure(n, d, m, targets, num_lams):
    """Seconds of the landmarks and of the fit, the second call, and the peak memory of this process in GiB."""
    X, _, Y = problem(n, d, targets)
    lams = jnp.logspace(-2, 3, num_lams)
    run = jax.jit(fit)
    for _ in range(2):
        start = time.perf_counter()
        chosen = jax.block_until_ready(regjax.bases.landmarks(kernel(d), X, m, jax.random.key(0)))
        middle = time.perf_counter()
        result = jax.block_until_ready(run(X, Y, lams, chosen))
        seconds = time.perf_counter() - middle
    assert bool(jnp.all(jnp.isfinite(result[0]))), "a fit is not finite"
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {"n": n, "landmarks": middle - start, "fit": seconds, "peak": peak}


def in_a_process(*size):
    command = [sys.executable, __file__, "--size", json.dumps(size)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-2000:])
    return json.loads(done.stdout.strip().splitlines()[-1])


def accuracy(n, d, m, targets):
    """Root mean squares on new points: error of Nyström, of the exact solution, and between the two; and for cg."""
    X, _, Y = problem(n, d, targets)
    Z, truth, _ = problem(1000, d, targets, seed=2)
    chosen = regjax.bases.landmarks(kernel(d), X, m, jax.random.key(0))
    exact = regjax.kernel_ridge(kernel(d), X, Y, 1.0, intercept=True).params(Z)
    few = regjax.kernel_ridge(kernel(d), X, Y, 1.0, solver="nystrom", landmarks=chosen, intercept=True).params(Z)
    by_cg = regjax.kernel_ridge(kernel(d), X, Y, 1.0, solver="cg", landmarks=min(m, 300), intercept=True)
    size = lambda a: float(jnp.sqrt(jnp.mean(a**2)))  # noqa: E731
    return {
        "exact": size(exact - truth),
        "nystrom": size(few - truth),
        "difference": size(few - exact),
        "cg": size(by_cg.params(Z) - exact),
        "iterations": int(by_cg.num_iter),
    }


def main():
    options = arguments(__doc__, ("--size", {"help": "of one measurement, for the processes that this one starts"}))
    jax.config.update("jax_enable_x64", True)
    if options.size:
        print(json.dumps(measure(*json.loads(options.size))))
        return
    d, m, targets, num_lams = (3, 15, 2, 3) if options.tiny else (10, 1000, 10, 20)
    sizes = [200, 400] if options.tiny else [12_500, 25_000, 50_000, 100_000]
    runs = [in_a_process(n, d, m, targets, num_lams) for n in sizes]
    slope = np.polyfit(np.log([r["n"] for r in runs]), np.log([r["fit"] for r in runs]), 1)[0]
    small = accuracy(*((100, d, m, targets) if options.tiny else (4000, d, m, targets)))
    assert small["cg"] < 1e-6, small
    if options.tiny:
        print(f"kernel_large: {len(runs)} sizes run; conjugate gradients agree with the exact solution")
        return
    rows = [[f"{r['n']:,}", f"{r['landmarks']:.1f}", f"{r['fit']:.1f}", f"{r['peak']:.2f}"] for r in runs]
    about = (
        f"JAX {jax.__version__}; d = {d}, {m} landmarks, {num_lams} λ, {targets} targets, float64; time grows like "
        f"n^{slope:.2f}. On 4,000 points, root mean square on new points: exact {small['exact']:.4f}, Nyström "
        f"{small['nystrom']:.4f}, between the two {small['difference']:.4f} (noise of the data {NOISE}); conjugate "
        f"gradients reach the exact predictions to {small['cg']:.0e} in {small['iterations']} iterations"
    )
    write_table("kernel_large", about, ["n", "landmarks, s", "fit, s", "peak memory of the process, GiB"], rows)
    figure, ax = new_figure(size=(5, 4))
    ax.loglog([r["n"] for r in runs], [r["fit"] for r in runs], "o-", label=f"n^{slope:.2f}")
    ax.set(xlabel="n", ylabel="seconds", title=f"Nyström, {m} landmarks, {num_lams} λ, {targets} targets")
    ax.legend()
    save_figure(figure, "kernel_large")


if __name__ == "__main__":
    main()
