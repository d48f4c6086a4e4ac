"""The pictures of a report."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from regjax.command.contest import Entry, error_name, linear
from regjax.command.models import CLASSES, Problem
from regjax.losses import Huber, Squared
from regjax.plot import plot_coefficients, plot_cross_validation, plot_path, plot_residuals
from regjax.plot.style import BLACK, BLUE, ORANGE, axes_or_new, finish

MOST_CURVES = 4


def draw(problem: Problem, entries: list[Entry], names: Sequence[str], target: str) -> list[tuple[str, Any]]:
    """Captions and Axes, in the order of a report."""
    first = entries[0]
    pictures = [
        ("Errors on held-out samples, ± one standard error. All models saw the same folds.", _board(problem, entries))
    ]
    if problem.kind == CLASSES:
        caption = (
            f"How often '{target}' is 1, by the probability that {first.name} gives to samples that it has not seen."
        )
        pictures.append((caption, _calibration(first.predictions, np.asarray(problem.y))))
    else:
        ax = plot_residuals(first.predictions, problem.y)
        pictures.append((f"What {first.name} leaves of '{target}', on samples that it has not seen.", ax))
    straight = [entry for entry in entries if linear(entry.trial) and entry.name != "mean"]
    if straight:
        best = straight[0]
        ax = plot_coefficients(best.trial.solution, names=names)
        squared = isinstance(best.trial.loss, (Squared, Huber))
        units = f", in standard deviations of '{target}'" if squared else ", on the scale of the linear predictor"
        caption = f"{best.name}, the best linear model: the effect of one standard deviation of each column{units}."
        pictures.append((caption, ax))
    paths = [entry for entry in straight if entry.trial.lams is not None]
    for entry in sorted(paths, key=lambda entry: "lasso" not in entry.name)[:1]:
        ax = plot_path(entry.trial.cv, entry.trial.lams, names=names)
        pictures.append((f"The coefficients of {entry.name} as λ grows.", ax))
    for entry in [entry for entry in entries if entry.trial.lams is not None][:MOST_CURVES]:
        ax = plot_cross_validation(_in_units(problem, entry), entry.trial.lams)
        ax.set_title(f"Cross-validation of {entry.name}", fontsize=14, loc="left")
        pictures.append((f"{error_name(problem).capitalize()} of {entry.name}; chosen: {entry.chosen}.", ax))
    return pictures


def _in_units(problem: Problem, entry: Entry) -> Any:
    """The cross-validation with its errors in units of the target."""
    cv = entry.trial.cv
    unit = float(problem.y.std()) ** 2 if isinstance(entry.trial.loss, (Squared, Huber)) else 1.0
    return replace(cv, scores=unit * cv.scores, mean=unit * cv.mean, standard_error=unit * cv.standard_error)


def _board(problem: Problem, entries: list[Entry]) -> Any:
    ax = axes_or_new(None, height=1.4 + 0.36 * len(entries))
    places = np.arange(len(entries))[::-1]
    errors, spreads = [e.error for e in entries], [e.standard_error for e in entries]
    ax.errorbar(errors, places, xerr=spreads, fmt="o", color=BLUE, markersize=8, capsize=4, linewidth=2)
    ax.plot(errors[0], places[0], "o", color=ORANGE, markersize=9, zorder=3)
    ax.axvline(errors[0], color="0.6", linestyle=":", linewidth=1.5, zorder=0)
    ax.set_yticks(places, [entry.name for entry in entries])
    ax.set_xlabel(error_name(problem), fontsize=13)
    finish(ax, ylabel="", title="Leaderboard", grid="x")
    return ax


def _calibration(predictions: np.ndarray, y: np.ndarray) -> Any:
    ax = axes_or_new(None)
    groups = np.array_split(np.argsort(predictions), max(2, min(10, len(y) // 15)))
    said, seen = ([np.mean(a[g]) for g in groups] for a in (predictions, y))
    spread = [np.sqrt(max(s * (1 - s), 0) / len(g)) for s, g in zip(seen, groups, strict=True)]
    ax.plot([0, 1], [0, 1], color="0.6", linewidth=1)
    ax.errorbar(said, seen, yerr=spread, fmt="o-", color=BLUE, ecolor=BLACK, markersize=7, capsize=3, linewidth=2)
    ax.set_xlabel("predicted probability", fontsize=13)
    finish(ax, ylabel="observed share", title="Calibration")
    return ax
