"""Generalized linear models: one with many samples, and many with few, beside glum, statsmodels and scikit-learn.

The tasks, float64, with an intercept: (a) minimise Σ ℓ(y, b + xw) + (λ/2)‖w‖² for Poisson and gamma losses, log link,
100,000 samples of 100 columns, AR(1) with correlation 0.5, for λ = 0 and λ = n/100; (b) 2,000 logistic regressions
without a penalty, 500 samples of 10 columns each: one call of `jit(shard_map(vmap(...)))`, in which every core is a
device with its share of the data sets, beside a loop over the data sets in a process that may use all cores. Every
method is given its fastest setting that brings the largest entry of the gradient, computed by numpy from intercept and
coefficients alone, to 1e-6 of the largest at the null model. Times are the best of several calls after a warm-up;
compilation is apart; all may use all cores. Peers run in environments of their own (python bench/support/peers.py).

    python bench/glm.py                       writes bench/results/glm.md and bench/results/glm_many.md
    python bench/glm.py --only regjax glum    only those methods
    python bench/glm.py --task many           only one of the tasks, large or many
    python bench/glm.py --tiny                small sizes with checks, beside scikit-learn in this environment
"""

import os
import subprocess
import sys

os.environ["OPENBLAS_NUM_THREADS"] = str(os.cpu_count())

import jax
import numpy as np
from support import common, peers

import regjax

TARGET = 1e-6
LOSSES = {
    "poisson": regjax.losses.Poisson(),
    "gamma": regjax.losses.Gamma("log"),
    "binomial": regjax.losses.Logistic(),
}
SETTINGS = {
    "glum": [{"solver": s, "tol": t} for s in ("irls-ls", "lbfgs") for t in (1e-3, 1e-4, 1e-5, 1e-6, 1e-7)],
    "statsmodels": [{"solver": "newton", "tol": t} for t in (1e-3, 1e-6, 1e-9)],
    "scikit-learn": [{"solver": s, "tol": t} for s in ("newton-cholesky", "lbfgs") for t in (1e-4, 1e-6, 1e-8)],
}
SCRIPTS = {name: f"{'sklearn' if name == 'scikit-learn' else name}_fit.py" for name in SETTINGS}


def problem(n, p, family, seed=0):
    """X (n, p) with AR(1) columns, and y (n,) of the family."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    for j in range(1, p):
        X[:, j] = 0.5 * X[:, j - 1] + np.sqrt(0.75) * X[:, j]
    eta = 0.5 + X @ rng.normal(size=p) / np.sqrt(2 * p)
    draw = {
        "poisson": lambda: rng.poisson(np.exp(eta)),
        "gamma": lambda: rng.gamma(2.0, np.exp(eta) / 2),
        "binomial": lambda: rng.uniform(size=n) < 1 / (1 + np.exp(-eta)),
    }
    return X, draw[family]().astype(float)


def slopes(family, y, eta):
    """∂ℓ/∂η."""
    if family == "gamma":
        return 1 - y * np.exp(-eta)
    return (np.exp(eta) if family == "poisson" else 1 / (1 + np.exp(-eta))) - y


def gradient_of(family):
    """The largest |gradient| of a batch over that of its null model: X (B, n, p), … with coef (B, L, 1 + p)."""

    def one(X, y, lams, coef):
        worst = 0.0
        mean = np.mean(y)
        null = np.log(mean / (1 - mean)) if family == "binomial" else np.log(mean)
        scale = np.max(np.abs(slopes(family, y, np.full_like(y, null)) @ X))
        for lam, (b, *w) in zip(lams, coef, strict=True):
            slope = slopes(family, y, b + X @ w)
            worst = max(worst, np.max(np.abs(slope @ X + lam * np.array(w))), abs(np.sum(slope)))
        return worst / scale if np.all(np.isfinite(coef)) else np.inf

    return lambda X, y, lams, coef: max(one(*lane) for lane in zip(X, y, lams, coef, strict=True))


def regjax_run(family, X, y, lam, tolerances=(1e-4, 1e-6, 1e-8)):
    """The fastest of a few tolerances that reaches the target on X (B, n, p), y (B, n), and seconds to compile."""
    best, compiled = None, np.nan
    penalty = regjax.penalties.L2(lam) if lam else regjax.penalties.Zero()
    for tol in tolerances:

        def fit(X, y, tol=tol):
            return regjax.fit(X, y, LOSSES[family], penalty, tol=tol)

        alone = len(X) == 1
        call, *data = (fit, X[0], y[0]) if alone else common.on_every_core(jax.vmap(fit), X, y)
        seconds, compile_seconds, fits = common.time_compiled(call, *data)
        w, b = (np.asarray(a) for a in (fits.params.coef, fits.params.intercept))
        coef = np.concatenate([b[..., None], w], axis=-1).reshape(len(X), 1, -1)
        run = peers.Run(seconds, gradient_of(family)(X, y, np.full((len(X), 1), lam), coef), coef, {"tol": tol})
        if run.gap <= TARGET and (best is None or run.seconds < best.seconds):
            best, compiled = run, compile_seconds
    return best, compiled


def peer_run(name, family, X, y, lam):
    tried = [{"family": family, **setting} for setting in SETTINGS[name]]
    lams = np.full((len(X), 1), lam)
    found = peers.measure(name, X, y, lams, [TARGET], tried=tried, script=SCRIPTS[name], gap=gradient_of(family))
    return found.get(TARGET)


def compare(names, family, X, y, lam, title):
    """The fastest run of each method, seconds to compile ours, and how much faster it is than the fastest peer."""
    runs, compiled = {}, np.nan
    for name in names:
        try:
            if name == "regjax":
                runs[name], compiled = regjax_run(family, X, y, lam)
            else:
                runs[name] = peer_run(name, family, X, y, lam)
        except RuntimeError as error:
            print(error, flush=True)
            runs[name] = None
        run = runs[name]
        said = "not reached" if run is None else f"{run.seconds:.3f} s at gradient {run.gap:.0e} {run.setting}"
        print(f"{title}, {name}: {said}", flush=True)
    cells = ["–" if run is None else f"{run.seconds:.3f} ({run.gap:.0e})" for run in runs.values()]
    others = [run.seconds for name, run in runs.items() if name != "regjax" and run is not None]
    ours = runs.get("regjax")
    ratio = f"{min(others) / ours.seconds:.2f}×" if ours is not None and others else "–"
    return [*cells, f"{compiled:.1f}", ratio]


def write(name, names, first, rows, what):
    common.write_table(
        name,
        f"float64; {what}; seconds (largest entry of the gradient relative to the null model, at most {TARGET:.0e}), "
        f"best of several after warm-up, {peers.CORES} threads for everyone; "
        f"{', '.join(peers.version(name) for name in names)}.",
        [*first, *names, "compile", "fastest peer / regjax"],
        rows,
    )


def run_large(names, n=100_000, p=100):
    rows = []
    for family in ("poisson", "gamma"):
        X, y = (a[None] for a in problem(n, p, family))
        for lam in (0.0, n / 100):
            rows.append([family, f"{lam:g}", *compare(names, family, X, y, lam, f"{family}, λ = {lam:g}")])
    write("glm", names, ["loss", "λ"], rows, f"{n}×{p}, log link")


def run_many(names, count=2000, n=500, p=10):
    X, y = (np.stack(a) for a in zip(*(problem(n, p, "binomial", seed) for seed in range(count)), strict=True))
    rows = [[f"{count} of {n}×{p}", *compare(names, "binomial", X, y, 0.0, f"{count} logistic regressions")]]
    write("glm_many", names, ["data sets"], rows, "logistic regression, regjax in one call, peers in a loop")


TASKS = {"large": run_large, "many": run_many}


def run_tiny():
    from sklearn.linear_model import GammaRegressor, PoissonRegressor

    for family, model in (("poisson", PoissonRegressor), ("gamma", GammaRegressor)):
        X, y = problem(2000, 10, family)
        for lam in (0.0, 20.0):
            run, _ = regjax_run(family, X[None], y[None], lam, tolerances=(1e-8,))
            assert run is not None, f"{family}, λ = {lam}: a gradient of {TARGET:.0e} is not reached"
            peer = model(alpha=lam / len(y), solver="newton-cholesky", tol=1e-8).fit(X, y)
            assert np.allclose(run.coef[0, 0, 1:], peer.coef_, atol=1e-6), f"{family}, λ = {lam}: not scikit-learn's"
    X, y = (np.stack(a) for a in zip(*(problem(200, 4, "binomial", seed) for seed in range(5)), strict=True))
    run, _ = regjax_run("binomial", X, y, 0.0, tolerances=(1e-8,))
    assert run is not None, f"logistic: a gradient of {TARGET:.0e} is not reached"
    print("glm: regjax reaches a gradient of 1e-6 and the coefficients of scikit-learn")


def main():
    everyone = ["regjax", *SETTINGS]
    options = common.arguments(
        __doc__,
        ("--only", {"nargs": "+", "choices": everyone, "default": everyone, "help": "methods to run"}),
        ("--task", {"choices": list(TASKS), "help": "only this task"}),
    )
    jax.config.update("jax_enable_x64", True)
    if options.tiny:
        run_tiny()
        return
    if options.task is None:  # each in a process of its own, since the number of devices cannot change within one
        for task in TASKS:
            subprocess.run([sys.executable, __file__, "--task", task, "--only", *options.only], check=True)
        return
    jax.config.update("jax_num_cpu_devices", int(peers.CORES) if options.task == "many" else 1)
    rivals = peers.installed([name for name in options.only if name != "regjax"])
    TASKS[options.task]([name for name in options.only if name == "regjax" or name in rivals])


if __name__ == "__main__":
    main()
