"""Predictions of a saved model for a raw table."""

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from regjax.command.models import expand
from regjax.command.table import BadTable, encode, read_table
from regjax.files import load
from regjax.losses import Binomial

LEVEL = 1.959964  # of the normal distribution, for 95%


def load_model(path: str | Path) -> dict[str, Any]:
    """What `regjax fit` saved."""
    if not Path(path).is_file():
        raise BadTable(f"{path}: there is no such file")
    try:
        model = load(path)
    except ValueError as error:
        raise BadTable(str(error)) from error
    if not (isinstance(model, dict) and "encoding" in model):
        raise BadTable(f"{path} holds no model of `regjax fit`: it was saved by other means")
    return model


def predict(model: dict[str, Any], table_path: str | Path) -> dict[str, np.ndarray]:
    """Columns of predictions: the target, and the ends of its 95% interval where the model has a variance."""
    X = jnp.asarray(encode(read_table(table_path), model["encoding"]))
    design = X if model["splines"] is None else expand(X, model["splines"])
    params, centre, unit, target = model["solution"].params, model["centre"], model["unit"], model["target"]
    mean = centre + unit * np.asarray(model["loss"].mean(params(design)))
    columns = {f"P({target} = 1)" if isinstance(model["loss"], Binomial) else target: mean}
    if hasattr(params, "variance"):
        half = LEVEL * unit * np.sqrt(np.asarray(params.variance(design, noise=True)))
        columns |= {f"{target} (2.5%)": mean - half, f"{target} (97.5%)": mean + half}
    return columns
