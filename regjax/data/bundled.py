"""Data sets that ship with the package."""

import csv
import datetime
from importlib.resources import files
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array


class Dataset(NamedTuple):
    """A table for regression.

    Attributes:
        X: (n, p). y: (n,).
        names: of the columns of X. target: the name of y.
        about: what the data is, where it comes from, and under what terms it is shipped.
    """

    X: Array
    y: Array
    names: tuple[str, ...]
    target: str
    about: str


def _load(name: str, target: str, about: str) -> Dataset:
    text = files("regjax.data").joinpath("files", f"{name}.csv").read_text(encoding="utf-8")
    header, *rows = csv.reader(text.splitlines())
    table = np.array([[_number(cell) for cell in row] for row in rows])
    column = header.index(target)
    names = tuple(h for h in header if h != target)
    return Dataset(jnp.asarray(np.delete(table, column, axis=1)), jnp.asarray(table[:, column]), names, target, about)


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:  # a date, as a year and its part that has passed
        day = datetime.date.fromisoformat(cell)
        start, end = datetime.date(day.year, 1, 1), datetime.date(day.year + 1, 1, 1)
        return day.year + (day - start) / (end - start)


def diabetes() -> Dataset:
    """Disease progression one year after baseline in 442 patients, by 10 measurements (unscaled).

    Example:
        >>> print(diabetes().X.shape, diabetes().names[2])
        (442, 10) bmi
    """
    about = (
        "Efron, Hastie, Johnstone & Tibshirani, Least angle regression, Annals of Statistics 32 (2004). As shipped "
        "with scikit-learn (BSD 3-clause); no separate terms are stated."
    )
    return _load("diabetes", "target", about)


def longley() -> Dataset:
    """US employment 1947 to 1962 by six economic series, famously collinear (16 × 6)."""
    return _load("longley", "employed", "Longley, JASA 62 (1967); also NIST StRD. Public domain.")


def stackloss() -> Dataset:
    """Loss of ammonia in 21 days of a plant, by air flow, water temperature and acid concentration; with outliers."""
    return _load("stackloss", "stack_loss", "Brownlee, Statistical Theory and Methodology (1965). Public domain.")


def engel() -> Dataset:
    """Food expenditure of 235 Belgian households by income: its spread grows with income."""
    return _load("engel", "food_expenditure", "Engel (1857), as in Koenker & Bassett (1982). Public domain.")


def nile() -> Dataset:
    """Annual flow of the Nile at Aswan, 1871 to 1970, by year."""
    return _load("nile", "flow", "Cobb, Biometrika 65 (1978). Public domain.")


def co2() -> Dataset:
    """Weekly atmospheric CO₂ at Mauna Loa, 1958 to 2001, by date as a decimal year (2225 weeks)."""
    return _load("co2", "co2", "Keeling & Whorf, Scripps Institution of Oceanography, by CDIAC. Public domain.")
