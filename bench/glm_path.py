"""ℓ1-penalised logistic and Poisson paths: regjax beside glmnet, adelie, skglm and celer.

The task: minimise Σ ℓ(y, xw) + λ‖w‖₁ without an intercept, float64, for 100 λ from λ_max to λ_max/50; columns are AR(1)
with correlation 0.5. Every method is given its fastest setting whose largest relative duality gap over the path,
computed by numpy from the coefficients alone, is at most 1e-6. Times are the best of several calls after a warm-up;
compilation is apart; all may use all cores. celer has no Poisson loss.

    python bench/glm_path.py                         writes bench/results/glm_path.md
    python bench/glm_path.py --only regjax glmnet    only those methods
    python bench/glm_path.py --tiny                  a small size with checks, regjax alone
"""

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # of regjax alone: XLA has threads of its own, and the two disturb each other

import jax
import numpy as np
from support import common, peers

import regjax

SHAPES = [(500, 2000), (5000, 500)]
TARGET = 1e-6
LOSSES = {"logistic": regjax.losses.Logistic(), "poisson": regjax.losses.Poisson()}
SETTINGS = {
    "glmnet": [{"tol": t} for t in peers.ladder(9, 14)],
    "adelie": [{"tol": t, "irls_tol": t} for t in peers.ladder(8, 13)],
    "celer": [{"tol": t, "prune": 1} for t in peers.ladder(4, 9)],
    "skglm": [{"tol": t} for t in peers.ladder(3, 7)],
}
SCRIPTS = {name: "glmnet_path.R" if name == "glmnet" else f"{name}_glm.py" for name in SETTINGS}


def problem(n, p, family, count=100):
    """X (n, p), y (n,) of the family, and λ from λ_max down."""
    X, signal, _ = common.problem(n, p, 0.5)
    rng = np.random.default_rng(1)
    eta = (signal - signal.mean()) / signal.std()
    if family == "logistic":
        y = (rng.uniform(size=n) < 1 / (1 + np.exp(-2 * eta))).astype(float)
        slope = y - 0.5
    else:
        y = rng.poisson(np.exp(np.clip(eta, -4, 2))).astype(float)
        slope = y - 1
    return X, y, np.max(np.abs(slope @ X)) * np.geomspace(1, 0.02, count)


def gap_of(family):
    """The largest relative duality gap of a batch, X (B, n, p), … with coef (B, L, p), for one family.

    The dual point is s times the negative slope r of the loss, with ‖Xᵀθ‖∞ ≤ λ; the gap is the sum of
    ℓ + ℓ* + θη over samples and λ‖w‖₁ − ⟨w, Xᵀθ⟩, relative to the loss of w = 0 above its infimum.
    """

    def entropy(a):
        return np.where(a > 0, a * np.log(np.where(a > 0, a, 1)), 0)

    def one(X, y, lams, coef):
        worst = 0.0
        for lam, w in zip(lams, coef, strict=True):
            eta = X @ w
            if family == "logistic":
                mean, value = 1 / (1 + np.exp(-eta)), np.logaddexp(0, eta) - y * eta
            else:
                mean, value = np.exp(eta), np.exp(eta) - y * eta
            r = y - mean
            pull = r @ X
            s = min(1.0, lam / np.max(np.abs(pull)))
            at = y - s * r  # the mean that the dual point stands for
            conjugate = entropy(at) + entropy(1 - at) if family == "logistic" else entropy(at) - at
            total = np.sum(value + conjugate + s * r * eta) + lam * np.sum(np.abs(w)) - s * pull @ w
            worst = max(worst, total)
        null = len(y) * np.log(2) if family == "logistic" else np.sum(1 - entropy(y) + y)
        return worst / null if np.isfinite(worst) else np.inf

    return lambda X, y, lams, coef: max(one(*lane) for lane in zip(X, y, lams, coef, strict=True))


def regjax_run(family, X, y, lams):
    """The fastest of a few tolerances that reaches the target, and seconds to compile."""
    best, compiled = None, np.nan
    for tol in (1e-3, 1e-4, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10):

        def path(X, y, lams, tol=tol):
            return regjax.path(X, y, LOSSES[family], regjax.penalties.L1(lams), intercept=False, tol=tol)

        seconds, compile_seconds, fits = common.time_compiled(path, X, y, lams)
        coef = np.asarray(fits.params.coef)[None]
        run = peers.Run(seconds, gap_of(family)(X[None], y[None], lams[None], coef), coef, {"tol": tol})
        if run.gap <= TARGET and (best is None or run.seconds < best.seconds):
            best, compiled = run, compile_seconds
    return best, compiled


def peer_run(name, family, X, y, lams):
    if name == "celer" and family != "logistic":
        return None
    tried = [{"family": family, **setting} for setting in SETTINGS[name]]
    found = peers.measure(
        name, X[None], y[None], lams[None], [TARGET], tried=tried, script=SCRIPTS[name], gap=gap_of(family)
    )
    return found.get(TARGET)


def run_tiny():
    for family in LOSSES:
        X, y, lams = problem(60, 20, family, count=5)
        run, _ = regjax_run(family, X, y, lams)
        assert run is not None, f"{family}: a gap of {TARGET:.0e} is not reached"
    print("glm_path: regjax reaches a gap of 1e-6 for both losses")


def run_all(only, losses, shapes):
    rivals = peers.installed([name for name in only if name != "regjax"])
    rows = []
    for family in losses:
        for n, p in shapes:
            X, y, lams = problem(n, p, family)
            ours, compile_seconds = regjax_run(family, X, y, lams)
            runs = {"regjax": ours}
            for name in rivals:
                try:
                    runs[name] = peer_run(name, family, X, y, lams)
                except RuntimeError as error:
                    print(error, flush=True)
                    runs[name] = None
            for name, run in runs.items():
                said = "not reached" if run is None else f"{run.seconds:.3f} s at gap {run.gap:.0e} {run.setting}"
                print(f"{family} {n}×{p}, {name}: {said}", flush=True)
            cells = ["–" if run is None else f"{run.seconds:.2f} ({run.gap:.0e})" for run in runs.values()]
            others = [run.seconds for name, run in runs.items() if name != "regjax" and run is not None]
            ratio = f"{min(others) / ours.seconds:.2f}×" if ours is not None and others else "–"
            rows.append([family, f"{n}×{p}", *cells, f"{compile_seconds:.1f}", ratio])
    common.write_table(
        "glm_path",
        f"float64; 100 λ to λ_max/50; seconds (largest relative duality gap over the path, at most {TARGET:.0e}), best "
        f"of several after warm-up, {peers.CORES} threads for everyone; "
        f"{', '.join(peers.version(name) for name in runs)}.",
        ["loss", "shape", *runs, "compile", "fastest peer / regjax"],
        rows,
    )


def main():
    everyone, shapes = ["regjax", *SETTINGS], [f"{n}x{p}" for n, p in SHAPES]
    options = common.arguments(
        __doc__,
        ("--only", {"nargs": "+", "choices": everyone, "default": everyone, "help": "methods to run"}),
        ("--losses", {"nargs": "+", "choices": list(LOSSES), "default": list(LOSSES), "help": "losses to fit"}),
        ("--shapes", {"nargs": "+", "choices": shapes, "default": shapes, "help": "sizes of the data"}),
    )
    jax.config.update("jax_enable_x64", True)
    if options.tiny:
        run_tiny()
    else:
        run_all(options.only, options.losses, [tuple(map(int, shape.split("x"))) for shape in options.shapes])


if __name__ == "__main__":
    main()
