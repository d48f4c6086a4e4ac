"""What the Python workers of cross-validation do: time it at each setting, then write the coefficients of the folds.

X.npy (n, p), y.npy (n,), lams.npy (L,) for sums over samples, folds.npy (n,) ids. `validate` is what users call, and is
timed; `path` fits the training samples of one fold as it does inside, so that its accuracy can be judged from outside.
"""

import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np


def serve(validate, path, version):
    """Run `validate(X, y, alphas, folds, **setting)` and `path(X, y, alphas, n, **setting)` -> (L, p)."""
    warnings.simplefilter("ignore")
    folder = Path(sys.argv[1])
    X, y, lams, folds = (np.load(folder / f"{name}.npy") for name in ("X", "y", "lams", "folds"))
    X, alphas, folds = np.asfortranarray(X), lams / len(y), folds.astype(int)
    request = json.loads((folder / "request.json").read_text())
    seconds = []
    for k, setting in enumerate(request["settings"]):
        times = []
        while not times or (len(times) < request["most"] and sum(times) < request["budget"]):
            start = time.perf_counter()
            validate(X, y, alphas, folds, **setting)
            times.append(time.perf_counter() - start)
        seconds.append(min(times))
        if request["coef"]:
            fits = [
                path(np.asfortranarray(X[folds != f]), y[folds != f], alphas, len(y), **setting)
                for f in np.unique(folds)
            ]
            np.stack(fits).astype(np.float64).tofile(folder / f"coef_{k}.bin")
        if sum(times) > request["limit"]:
            break
    (folder / "reply.json").write_text(json.dumps({"version": version, "seconds": seconds}))
