"""regjax: `cross_validate` with the folds shared between CPU devices; its compilation and the path alone beside it."""

import json
import os
import sys
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before anything loads it

import jax
import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[2]))

from cross_validation import CASES
from support import common

import regjax

folder = Path(sys.argv[1])
request = json.loads((folder / "request.json").read_text())
jax.config.update("jax_enable_x64", True)
jax.config.update("jax_num_cpu_devices", request["devices"])
if request["devices"] > 1:  # no device needs threads beside its own
    os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_cpu_multi_thread_eigen=false"
X, y, lams, folds = (np.load(folder / f"{name}.npy") for name in ("X", "y", "lams", "folds"))
splits = regjax.selection.splits.from_ids(folds.astype(int))
case, tol = CASES[request["model"]], request["tol"]


def validate(X, y, lams):
    return regjax.cross_validate(
        X, y, case.loss, case.penalty(lams), folds=splits, per_sample=True, tol=tol, devices=jax.devices()
    )  # fmt: skip


def path(X, y, lams):
    return regjax.path(X, y, case.loss, case.penalty(lams), tol=tol)


seconds, compile_seconds, cv = common.time_compiled(validate, X, y, lams)
alone, _, _ = common.time_compiled(path, X, y, lams)
np.asarray(cv.fits.params.coef, np.float64).tofile(folder / "coef_0.bin")
reply = {"version": f"regjax {regjax.__version__}", "seconds": seconds, "compile": compile_seconds, "path": alone}
(folder / "reply.json").write_text(json.dumps(reply))
