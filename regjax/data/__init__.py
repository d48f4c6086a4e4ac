"""Small public data sets that ship with the package, and simulators."""

from regjax.data.bundled import Dataset, co2, diabetes, engel, longley, nile, stackloss
from regjax.data.simulate import Simulated, make_regression

__all__ = [
    "Dataset",
    "Simulated",
    "co2",
    "diabetes",
    "engel",
    "longley",
    "make_regression",
    "nile",
    "stackloss",
]
