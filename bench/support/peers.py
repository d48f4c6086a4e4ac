"""The peers of the benches, each in an environment of its own under bench/.peers, run as subprocesses.

    python bench/support/peers.py            makes every environment, and says what could not be installed and why
    python bench/support/peers.py celer ...  only those named

A peer is a worker script: it reads X.npy, y.npy, lams.npy and request.json from a folder, times the path at every
setting and writes coef_<k>.bin and reply.json back. The accuracy reached is judged here, by numpy, never by the peer.
Every peer may use all cores: the thread counts of OpenMP, BLAS and Numba are pinned to their number.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import numpy as np

sys.path.append(str(Path(__file__).parents[1]))

from support.common import largest_gap

ENVIRONMENTS = Path(__file__).resolve().parents[1] / ".peers"
WORKERS = Path(__file__).parent / "workers"
CORES = str(os.cpu_count())
THREADS = {name: CORES for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")}

PACKAGES = {
    "scikit-learn": ["scikit-learn>=1.5"],
    "celer": ["celer==0.7.4"],
    "skglm": ["skglm==0.5"],
    "adelie": ["adelie==1.1.52", "numpy<2"],
    "gpjax": ["gpjax>=1.0"],
    "gpytorch": ["gpytorch", "torch"],
    "abess": ["abess==0.4.11"],
    "glum": ["glum>=3.1"],
    "himalaya": ["himalaya>=0.4", "packaging"],
    "statsmodels": ["statsmodels>=0.14"],
}
DEBIAN = {"glmnet": ["r-base-core", "r-cran-glmnet", "r-cran-jsonlite"]}


def ladder(loosest, tightest, per_decade=1):
    """Tolerances 10^−loosest … 10^−tightest."""
    return [float(10.0**-k) for k in np.arange(loosest, tightest + 1e-9, 1 / per_decade)]


# Settings to try, from loose to tight: the fastest that reaches the gap asked for is what counts. glmnet and adelie
# stop on squared steps, so that a decade of theirs is half a decade of the gap; scikit-learn stops on the gap itself.
SETTINGS = {
    "glmnet": [{"tol": t, "type": kind} for t in ladder(10, 15) for kind in ("naive", "covariance")],
    "adelie": [{"tol": t, "covariance": kind} for t in ladder(10, 15) for kind in (False, True)],
    "celer": [{"tol": t, "prune": 1} for t in ladder(4, 10)],
    "skglm": [{"tol": t} for t in ladder(4.5, 8, per_decade=2)],
    "scikit-learn": [{"tol": 0.499 * t, "precompute": kind} for t in (1e-4, 1e-6) for kind in (False, True)],
}
SCRIPTS = {"scikit-learn": "sklearn_path.py", "glmnet": "glmnet_path.R"}
NAMES = list(SETTINGS)
VERSIONS = {}  # of the peers that ran, as they named themselves


class Run(NamedTuple):
    """One way to solve a batch of paths: the fastest call, the largest gap, coefficients (B, L, p), and the setting."""

    seconds: float
    gap: float
    coef: np.ndarray
    setting: dict


def settings(name, n, p):
    """What to try on (n, p) data; a p×p covariance is no help to wide data."""
    wide = [{"type": "covariance"}, {"covariance": True}] if p > n else []
    return [s for s in SETTINGS[name] if not any(s.items() >= forbidden.items() for forbidden in wide)]


def version(name):
    """The name and version of regjax, or of a peer as it told when it last ran."""
    if name == "regjax":
        return f"regjax {metadata.version('regjax')} (JAX {metadata.version('jax')})"
    return VERSIONS.get(name, name)


def interpreter(name):
    """The command that runs the worker of a peer, or None where the peer is not installed."""
    if name in DEBIAN:
        rscript = shutil.which("Rscript")
        test = [rscript, "-e", "library(glmnet); library(jsonlite)"]
        return rscript if rscript and subprocess.run(test, capture_output=True).returncode == 0 else None
    python = ENVIRONMENTS / name / "bin" / "python"
    return str(python) if (ENVIRONMENTS / name / "ready").exists() else None


def installed(names=NAMES):
    """The peers that can run here; a line for each that cannot."""
    for name in names:
        if interpreter(name) is None:
            print(f"{name}: skipped, not installed (python bench/support/peers.py {name})")
    return [name for name in names if interpreter(name) is not None]


def install(name):
    """Make one environment; the last line of what went wrong, or None."""
    if interpreter(name) is not None:
        return None
    if name in DEBIAN:
        if shutil.which("apt-get") is None or os.geteuid() != 0:
            return f"needs apt-get and root, or R with the packages {', '.join(DEBIAN[name])} installed by hand"
        commands = [["apt-get", "update"], ["apt-get", "install", "-y", "--no-install-recommends", *DEBIAN[name]]]
    else:
        venv.create(ENVIRONMENTS / name, clear=True, with_pip=True)
        python = str(ENVIRONMENTS / name / "bin" / "python")
        commands = [[python, "-m", "pip", "install", "--quiet", *PACKAGES[name]]]
    for command in commands:
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=1800)
        except subprocess.TimeoutExpired:
            return f"{' '.join(command[:2])} took longer than half an hour"
        if done.returncode != 0:
            return (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()[-1]
    if name in PACKAGES:
        (ENVIRONMENTS / name / "ready").touch()
    return None if interpreter(name) else "installed, but does not load"


def exchange(name, script, arrays, request, read, command=None):
    """Run a worker of one peer on arrays, and return its reply with what `read(folder, reply)` makes of its files."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for key, value in arrays.items():
            np.save(folder / f"{key}.npy", np.ascontiguousarray(value, dtype=np.float64))
        (folder / "request.json").write_text(json.dumps(request))
        call = [command or interpreter(name), str(WORKERS / script), temporary]
        done = subprocess.run(call, env=os.environ | THREADS, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{name} failed: {done.stderr.strip()[-2000:]}")
        reply = json.loads((folder / "reply.json").read_text())
        VERSIONS[name] = reply["version"]
        return read(folder, reply)


def run(name, X, y, lams, settings, budget, most, limit=1e9, command=None, *, script=None, gap=largest_gap):
    """Run the worker of one peer on X (B, n, p), y (B, n), lams (B, L): a Run for every setting it came to.

    Each setting is called up to `most` times or until `budget` seconds are spent; the first one to take more than
    `limit` seconds is the last.
    """

    def read(folder, reply):
        runs = []
        for k, seconds in enumerate(reply["seconds"]):
            coef = np.fromfile(folder / f"coef_{k}.bin").reshape(len(X), lams.shape[1], -1)
            runs.append(Run(seconds, gap(X, y, lams, coef), coef, settings[k]))
        return runs

    request = {"settings": settings, "budget": budget, "most": most, "limit": limit}
    script = script or SCRIPTS.get(name, f"{name}_path.py")
    return exchange(name, script, {"X": X, "y": y, "lams": lams}, request, read, command)


def measure(name, X, y, lams, targets, command=None, *, tried=None, script=None, gap=largest_gap):
    """The fastest way of one peer to bring the largest gap to each target: {target: Run}.

    Every setting runs once; the two fastest that reach a target are timed again, best of several. A target that no
    setting reaches is absent.
    """
    tried = settings(name, *X.shape[1:]) if tried is None else tried
    how = {"command": command, "script": script, "gap": gap}
    first = run(name, X, y, lams, tried, budget=0.0, most=1, limit=120.0, **how)
    finalists = []
    for target in targets:
        reached = sorted((r for r in first if r.gap <= target), key=lambda r: r.seconds)
        finalists += [r.setting for r in reached[:2] if r.setting not in finalists]
    again = run(name, X, y, lams, finalists, budget=6.0, most=7, **how) if finalists else []
    best = {}
    for target in targets:
        reached = [r for r in again if r.gap <= target]
        if reached:
            best[target] = min(reached, key=lambda r: r.seconds)
    return best


if __name__ == "__main__":
    for peer in sys.argv[1:] or [*NAMES, "abess", "glum", "himalaya", "statsmodels"]:
        problem = install(peer)
        print(f"{peer}: {'ready' if problem is None else 'skipped, ' + problem}", flush=True)
