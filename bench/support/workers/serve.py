"""What every Python worker does: read the problems, time the path at each setting, write coefficients and times.

X.npy (B, n, p), y.npy (B, n) and lams.npy (B, L) hold B data sets; a call solves them one after another. Every peer
here minimises ‖y − Xw‖²/2n + α‖w‖₁, so that α = λ/n.
"""

import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np


def serve(solve, version):
    """Time `solve(X, y, alphas, **setting)`, which returns coefficients (L, p), for every setting of the request."""
    warnings.simplefilter("ignore")  # of convergence: what was reached is judged outside
    folder = Path(sys.argv[1])
    X, y, lams = (np.load(folder / f"{name}.npy") for name in ("X", "y", "lams"))
    request = json.loads((folder / "request.json").read_text())
    problems = [(np.asfortranarray(X[b]), y[b], lams[b] / X.shape[1]) for b in range(len(X))]
    del X

    seconds = []
    for k, setting in enumerate(request["settings"]):
        solve(*problems[0][:2], problems[0][2][:5], **setting)  # compiles and warms up
        times = []
        while not times or (len(times) < request["most"] and sum(times) < request["budget"]):
            start = time.perf_counter()
            paths = [solve(*problem, **setting) for problem in problems]
            times.append(time.perf_counter() - start)
        dense = [path.toarray() if hasattr(path, "toarray") else path for path in paths]
        np.stack(dense).astype(np.float64).tofile(folder / f"coef_{k}.bin")
        seconds.append(min(times))
        if sum(times) > request["limit"]:  # settings go from loose to tight: the next would take longer still
            break
    (folder / "reply.json").write_text(json.dumps({"version": version, "seconds": seconds}))
