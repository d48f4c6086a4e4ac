"""A thousand small lasso paths: regjax in one call beside a loop over the peers that are fastest at this size.

The task: 1,000 data sets of 200×50, a path of 50 λ from each one's λ_max to λ_max/100, no intercept, float64. regjax is
one `jit(shard_map(vmap(lasso_path)))`, in which every core is a device with its share of the data sets; a peer is
called once per data set, in one process that may use all cores, at its fastest setting that brings the relative duality
gap of every path, by numpy, to 1e-6.

    python bench/lasso_many.py          writes bench/results/lasso_many.md
    python bench/lasso_many.py --tiny   a small size beside the scikit-learn at hand, with checks
"""

import os
import sys

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # of regjax alone: XLA has threads of its own, and the two disturb each other

import jax
import numpy as np
from support import common, peers

import regjax

TARGET = 1e-6
PEERS = ["glmnet", "adelie", "celer", "scikit-learn"]


def problems(count, n, p, length):
    """X (B, n, p), y (B, n) and lams (B, L)."""
    return [
        np.stack(arrays)
        for arrays in zip(*(common.problem(n, p, 0.5, length, seed=b) for b in range(count)), strict=True)
    ]


def regjax_paths(X, y, lams):
    paths = jax.vmap(lambda X, y, lams: regjax.lasso_path(X, y, lams, intercept=False))
    seconds, compile_seconds, solution = common.time_compiled(*common.on_every_core(paths, X, y, lams))
    coef = np.asarray(solution.params.coef)
    return peers.Run(seconds, common.largest_gap(X, y, lams, coef), coef, {}), compile_seconds


def run_tiny():
    X, y, lams = problems(8, 40, 10, 10)
    ours, _ = regjax_paths(X, y, lams)
    theirs = peers.measure("scikit-learn", X, y, lams, [TARGET], command=sys.executable)[TARGET]
    assert ours.gap <= TARGET, ours.gap
    fits, scales = np.einsum("bnp,blp->bln", X, ours.coef - theirs.coef), np.linalg.norm(y, axis=1)
    assert np.all(np.linalg.norm(fits, axis=2) <= 2 * TARGET**0.5 * scales[:, None])  # what two gaps of 1e-6 allow
    print(f"lasso_many: {len(X)} paths of regjax and scikit-learn reach a gap of 1e-6 and agree")


def run_all(only):
    X, y, lams = problems(1000, 200, 50, 50)
    runs, compile_seconds = {}, np.nan
    if "regjax" in only:
        runs["regjax"], compile_seconds = regjax_paths(X, y, lams)
    for name in peers.installed([name for name in only if name != "regjax"]):
        best = peers.measure(name, X, y, lams, [TARGET])
        if best:
            runs[name] = best[TARGET]
        else:
            print(f"{name}: no setting reaches a gap of {TARGET:.0e}")
    ours = runs["regjax"].seconds if "regjax" in runs else np.nan
    rows = [
        [
            peers.version(name),
            f"{run.seconds:.3f}",
            f"{1e3 * run.seconds / len(X):.3f}",
            f"{run.gap:.0e}",
            "1" if name == "regjax" else f"{run.seconds / ours:.2f}×",
            ", ".join(f"{key} {value:.3g}" if key == "tol" else f"{key} {value}" for key, value in run.setting.items()),
        ]
        for name, run in runs.items()
    ]
    common.write_table(
        "lasso_many",
        f"float64; {len(X)} data sets of {X.shape[1]}×{X.shape[2]}, {lams.shape[1]} λ each; best of several after "
        f"warm-up; {peers.CORES} cores for everyone; compilation of regjax {compile_seconds:.1f} s, apart.",
        ["method", "seconds", "ms per data set", "largest gap", "time / regjax", "setting"],
        rows,
    )


def main():
    everyone = ["regjax", *PEERS]
    options = common.arguments(
        __doc__, ("--only", {"nargs": "+", "choices": everyone, "default": everyone, "help": "methods to run"})
    )
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_num_cpu_devices", int(peers.CORES))
    if options.tiny:
        run_tiny()
    else:
        run_all(options.only)


if __name__ == "__main__":
    main()
