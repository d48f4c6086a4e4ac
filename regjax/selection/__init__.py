"""Choosing the penalty: the functions are at the top (`regjax.cross_validate`), the kinds of folds are here."""

from regjax.selection.splits import (
    Splits,
    blocked_folds,
    grouped_folds,
    k_folds,
    random_splits,
    stratified_folds,
    time_folds,
)

__all__ = [
    "Splits",
    "blocked_folds",
    "grouped_folds",
    "k_folds",
    "random_splits",
    "stratified_folds",
    "time_folds",
]
