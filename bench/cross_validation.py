"""Cross-validation: regjax beside cv.glmnet, adelie's cv_grpnet, scikit-learn's LassoCV and himalaya's RidgeCV.

The task: 10 folds × 100 λ from λ_max to λ_max/100 (logistic: to λ_max/20) and the path on all samples, with an
intercept, float64. λ is per sample, as the peers have it (in ridge scikit-learn and himalaya hold it in the sum, and
glmnet divides it by the deviation of y in the fold: each is judged by its own λ). Every method is given its fastest
setting whose largest relative duality gap over all folds and λ is at most 1e-4, computed by numpy from the coefficients
of the folds. The dual point is made of the residuals; for the logistic loss, of which regjax proves what it reads off
other solutions by other dual points, everyone has the best one that is known, of a solution to 1e-9. Times are the best
of several calls after a warm-up; compilation is apart. XLA and the peers may use all cores (regjax is tried on one
device, which uses them all, and on a device for each); OpenBLAS under XLA's
factorizations has one thread, since two stall where a core is busy. adelie draws folds of its own. scikit-learn fits
ridge anew for every λ and fold, which takes minutes and is left to --tiny; its ℓ1 logistic solvers charge the intercept
or were not tried, and are left out.

Beside it the price of folds: the time of cross-validation over that of the path alone.

    python bench/cross_validation.py                        writes bench/results/cross_validation.md
    python bench/cross_validation.py --only regjax glmnet   only those methods
    python bench/cross_validation.py --tiny                 a small size beside the scikit-learn at hand, with checks
"""

import os
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np
from support import common, peers

from regjax.losses import Logistic, Squared
from regjax.penalties import L1, L2

SHAPES = [(500, 2000), (1000, 5000), (5000, 500)]
CORRELATION = 0.5
TARGET, EXACT = 1e-4, 1e-9
CORES = int(peers.CORES)
SCRIPTS = {
    "glmnet": "glmnet_cv.R",
    "adelie": "adelie_cv.py",
    "scikit-learn": "sklearn_cv.py",
    "himalaya": "himalaya_cv.py",
}


def lasso_gap(X, y, lams, coef, known=None):
    """The largest relative duality gap of one fold's training samples, coef (L, p)."""
    return common.gap(X - X.mean(0), y - y.mean(), lams, coef)


def ridge_gap(X, y, lams, coef, known=None):
    """That of ridge is ‖∇‖²/2λ."""
    X, y = X - X.mean(0), y - y.mean()
    slopes = (y - coef @ X.T) @ X - lams[:, None] * coef
    return float(np.max(np.sum(slopes**2, 1) / lams) / (y @ y))


def logistic_gap(X, y, lams, coef, known):
    """That of the ℓ1-penalised logistic loss, to the better of its own and the `known` dual values (L,)."""
    eta = at_best_intercept(X, y, coef)
    primal = np.sum(np.logaddexp(0, eta) - y * eta, 1) + lams * np.sum(np.abs(coef), 1)
    best = np.maximum(logistic_dual(X, y, lams, coef), known)
    return float(np.max(primal - best) / (len(y) * entropy(y.mean())))


def logistic_dual(X, y, lams, coef):
    """The dual values (L,) at the residuals, which the best intercept makes dual points when scaled."""
    residuals = y - 1 / (1 + np.exp(-at_best_intercept(X, y, coef)))
    scale = np.minimum(1, lams / np.max(np.abs(residuals @ X), 1))
    return np.sum(entropy(np.clip(y - scale[:, None] * residuals, 0, 1)), 1)


def at_best_intercept(X, y, coef):
    """Predictors (L, n)."""
    eta = coef @ X.T
    for _ in range(50):
        mean = 1 / (1 + np.exp(-eta))
        eta += np.sum(y - mean, 1, keepdims=True) / np.sum(mean * (1 - mean), 1, keepdims=True)
    return eta


def entropy(u):
    """−u log u − (1 − u) log(1 − u)."""
    return -sum(np.where(a > 0, a * np.log(np.where(a > 0, a, 1)), 0) for a in (u, 1 - u))


class Case(NamedTuple):
    """A model: its parts, its gap on one fold, and the settings of the peers, from loose to tight."""

    loss: Any
    penalty: Any
    gap: Callable[..., float]
    settings: dict[str, list[dict]]


def tried(tolerances, **fixed):
    """A setting for each tolerance."""
    return [{"tol": t, **fixed} for t in tolerances]


CASES = {
    "lasso": Case(Squared(), L1, lasso_gap, {
        "glmnet": [s for kind in ("naive", "covariance")
                   for s in tried(peers.ladder(9, 13), model="lasso", type=kind)],
        "adelie": tried(peers.ladder(8, 13), model="lasso"),
        "scikit-learn": [s for kind in (False, True)
                         for s in tried((0.499e-4, 0.499e-5), model="lasso", precompute=kind)],
    }),
    "ridge": Case(Squared(), L2, ridge_gap, {
        "glmnet": [s for kind in ("covariance", "naive")
                   for s in tried(peers.ladder(7, 13, per_decade=0.5), model="ridge", type=kind)],
        "himalaya": [{"model": "ridge"}],
        "scikit-learn": [{"model": "ridge"}],
    }),
    "ℓ1 logistic": Case(Logistic(), L1, logistic_gap, {
        "glmnet": tried(peers.ladder(4, 10), model="logistic", type="naive"),
        "adelie": tried(peers.ladder(2, 8), model="logistic"),
    }),
}  # fmt: skip
PEERS = list(SCRIPTS)


def settings_for(name, case, shape):
    """What a peer is worth trying with: a p×p covariance is no help to wide data."""
    n, p = shape
    settings = case.settings.get(name, [])
    settings = [s for s in settings if p <= n or s.get("type") != "covariance"]
    settings = [s for s in settings if p <= 2 * n or s.get("precompute") is not True]
    return [s for s in settings if p <= 100 or (name, s["model"]) != ("scikit-learn", "ridge")]


def known_duals(X, y, lams, folds, coef):
    """Dual values (K, L), where the coefficients (K, L, p) of the folds are exact."""
    trains = [folds != fold for fold in np.unique(folds)]
    return [logistic_dual(X[t], y[t], lams * t.mean(), coef[k]) for k, t in enumerate(trains)]


def gap_of_folds(case, X, y, lams, folds, coef, known, name="regjax"):
    """The largest relative duality gap over folds and λ, coef (K, L, p) of the training samples."""
    worst = 0.0
    for k, fold in enumerate(np.unique(folds)):
        train = folds != fold
        own = lams * train.mean()
        if case.penalty is L2 and name == "glmnet":
            own = own * y.std() / y[train].std()
        if case.penalty is L2 and name in ("scikit-learn", "himalaya"):
            own = lams
        worst = max(worst, case.gap(X[train], y[train], own, coef[k], known and known[k]))
    return worst


def regjax_run(what, X, y, lams, folds, counts):
    """A Run on as many CPU devices as is fastest, seconds to compile, seconds of the path alone, known dual values."""
    case = CASES[what]

    def read(folder, reply):
        return reply, np.fromfile(folder / "coef_0.bin").reshape(len(np.unique(folds)), len(lams), X.shape[1])

    def on(count, tol=TARGET):
        request = {"model": what, "devices": count, "tol": tol}
        arrays = {"X": X, "y": y, "lams": lams, "folds": folds}
        return peers.exchange("regjax", "regjax_cv.py", arrays, request, read, sys.executable)

    found = {count: on(count) for count in counts}
    reply, coef = min(found.values(), key=lambda pair: pair[0]["seconds"])
    setting = {f"seconds on {count} device(s)": round(reply["seconds"], 3) for count, (reply, _) in found.items()}
    known = known_duals(X, y, lams, folds, on(1, EXACT)[1]) if case.gap is logistic_gap else None
    run = peers.Run(reply["seconds"], gap_of_folds(case, X, y, lams, folds, coef, known), coef, setting)
    return run, reply["compile"], min(reply["path"] for reply, _ in found.values()), known


def peer_run(name, case, X, y, lams, folds, known, command=None):
    """The fastest Run of a peer that reaches the target, or None."""
    arrays = {"X": X, "y": y, "lams": lams, "folds": folds}

    def call(settings, budget, most, coef):
        def read(folder, reply):
            runs = []
            for k, seconds in enumerate(reply["seconds"]):
                shape = (len(np.unique(folds)), len(lams), X.shape[1])
                fits = np.fromfile(folder / f"coef_{k}.bin").reshape(shape) if coef else None
                gap = gap_of_folds(case, X, y, lams, folds, fits, known, name) if coef else np.nan
                runs.append(peers.Run(seconds, gap, fits, settings[k]))
            return runs

        request = {"settings": settings, "budget": budget, "most": most, "limit": 120.0, "coef": coef}
        return peers.exchange(name, SCRIPTS[name], arrays, request, read, command)

    first = call(settings_for(name, case, X.shape), 0.0, 1, True)
    reached = sorted((r for r in first if r.gap <= TARGET), key=lambda r: r.seconds)[:2]
    if not reached:
        return None
    again = call([r.setting for r in reached], 8.0, 5, False)
    best = min(range(len(again)), key=lambda i: again[i].seconds)
    return reached[best]._replace(seconds=min(again[best].seconds, reached[best].seconds))


def problem(n, p, what="lasso"):
    """X, y, λ as in the sum objective on all samples, and the ids of ten folds."""
    X, y, _ = common.problem(n, p, CORRELATION)
    count, smallest = 100, 0.01
    if what == "ℓ1 logistic":
        y, count, smallest = (y > np.median(y)).astype(float), 100, 0.05
    lams = np.max(np.abs((y - y.mean()) @ X)) * np.geomspace(1, smallest, count)
    return X, y, lams, np.random.default_rng(1).permutation(n) % 10


def run_tiny():
    folds = np.arange(60) % 5
    for what in ("lasso", "ridge"):
        case = CASES[what]
        X, y, lams, _ = problem(60, 12, what)
        ours, *_ = regjax_run(what, X, y, lams, folds, [CORES])
        theirs = peer_run("scikit-learn", case, X, y, lams, folds, None, command=sys.executable)
        assert ours.gap <= TARGET, (what, ours.gap)
        assert theirs is not None, f"{what}: scikit-learn does not reach the gap"
        if what == "lasso":  # ridge has its λ in the sum there
            apart = np.linalg.norm((ours.coef - theirs.coef) @ X.T, axis=2) / np.linalg.norm(y)
            assert np.all(apart <= 2 * TARGET**0.5), apart.max()
    X, y, lams, _ = problem(60, 12, "ℓ1 logistic")
    ours, *_ = regjax_run("ℓ1 logistic", X, y, lams, folds, [CORES])
    assert ours.gap <= TARGET, ours.gap
    print("cross_validation: regjax and scikit-learn reach a gap of 1e-4 in every fold, and agree")


def run_all(only, models, shapes):
    rivals = peers.installed([name for name in only if name != "regjax"])
    rows = []
    for n, p in shapes:
        for what in models:
            case = CASES[what]
            X, y, lams, folds = problem(n, p, what)
            ours, compile_seconds, path_seconds, known = regjax_run(what, X, y, lams, folds, [1, CORES])
            runs = {}
            for name in ["regjax", *rivals]:
                if name != "regjax" and not settings_for(name, case, X.shape):
                    continue
                run = runs[name] = ours if name == "regjax" else peer_run(name, case, X, y, lams, folds, known)
                said = "not reached" if run is None else f"{run.seconds:.3f} s at gap {run.gap:.0e} {run.setting}"
                print(f"{n}×{p}, {what}, {name}: {said}", flush=True)
            cells = [_cell(runs, name) for name in ["regjax", *rivals]]
            others = [run.seconds for name, run in runs.items() if name != "regjax" and run is not None]
            ratio = f"{min(others) / ours.seconds:.1f}×" if others else "–"
            price = f"{path_seconds:.3f} ({ours.seconds / path_seconds:.1f}×)"
            rows.append([f"{n}×{p}", what, *cells, ratio, price, f"{compile_seconds:.1f}"])
    common.write_table(
        "cross_validation",
        f"float64, 10 folds, ρ = {CORRELATION}; seconds (largest relative duality gap over folds and λ, at most "
        f"{TARGET:.0e}), best of several after warm-up, {peers.CORES} threads for everyone, OpenBLAS under XLA one; "
        f"{', '.join(peers.version(name) for name in ['regjax', *rivals])}.",
        ["shape", "model", "regjax", *rivals, "fastest peer / regjax", "one path (folds / path)", "compile"],
        rows,
    )


def _cell(runs, name):
    if name not in runs:
        return "–"
    return "not reached" if runs[name] is None else f"{runs[name].seconds:.2f} ({runs[name].gap:.0e})"


def main():
    everyone, shapes = ["regjax", *PEERS], [f"{n}x{p}" for n, p in SHAPES]
    options = common.arguments(
        __doc__,
        ("--only", {"nargs": "+", "choices": everyone, "default": everyone, "help": "methods to run"}),
        ("--models", {"nargs": "+", "choices": list(CASES), "default": list(CASES), "help": "models to fit"}),
        ("--shapes", {"nargs": "+", "choices": shapes, "default": shapes, "help": "sizes of the data"}),
    )
    if options.tiny:
        run_tiny()
    else:
        run_all(options.only, options.models, [tuple(map(int, shape.split("x"))) for shape in options.shapes])


if __name__ == "__main__":
    main()
