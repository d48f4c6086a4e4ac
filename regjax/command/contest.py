"""The contest: every model on the same folds, and the leaderboard."""

import difflib
import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from regjax.command.models import CANDIDATES, CLASSES, COUNTS, NUMBERS, Candidate, Problem, Trial
from regjax.command.table import BadTable
from regjax.losses import Huber, Squared
from regjax.plot.style import short
from regjax.selection.choice import summary
from regjax.selection.splits import k_folds, stratified_folds


class Entry(NamedTuple):
    """A row of the leaderboard.

    Attributes:
        name: of the model. trial: what it did.
        error, standard_error: on held-out samples, in units of the target. errors: of each fold (K,).
        behind, behind_error: the mean difference to the first over the shared folds, and its standard error.
        chosen: the hyperparameters in words.
        nonzero: how many coefficients are not zero; None where there are none.
        gap: the relative duality gap of the fit; nan where there is no usable dual.
        failed: how many of the fits did not converge. fits: how many there were.
        seconds: compilation and all fits.
        predictions: of each sample by the model that has not seen it (n,).
    """

    name: str
    trial: Trial
    error: float
    standard_error: float
    errors: np.ndarray
    behind: float
    behind_error: float
    chosen: str
    nonzero: int | None
    gap: float
    failed: int
    fits: int
    seconds: float
    predictions: np.ndarray


def pose(X: np.ndarray, y: np.ndarray, folds: int) -> Problem:
    """The problem of a table: the kind of its target and its folds, the same at every call."""
    if not 2 <= folds <= len(y):
        raise BadTable(f"--folds {folds} takes from 2 to the number of rows, {len(y)}")
    if set(np.unique(y)) == {0.0, 1.0}:
        if min(np.sum(y == 0), np.sum(y == 1)) < 2:
            raise BadTable("the target is 0 or 1, but one of them occurs only once: there is nothing to validate with")
        return Problem(jnp.asarray(X), jnp.asarray(y), CLASSES, stratified_folds(y, folds))
    whole = bool(np.all(y == np.round(y)) and np.all(y >= 0))
    kind = COUNTS if whole and np.any(y == 0) else NUMBERS  # whole numbers that start above zero are rarely counts
    return Problem(jnp.asarray(X), jnp.asarray(y), kind, k_folds(len(y), folds))


def choose_models(names: str, problem: Problem) -> tuple[dict[str, Candidate], list[str]]:
    """The candidates of a list like "lasso,ridge" or "all", and what was left out, in sentences."""
    suitable = {name: model for name, model in CANDIDATES.items() if problem.kind in model.kinds}
    if names == "all":
        rows = len(problem.y)
        slow = [name for name, model in suitable.items() if rows > model.most_rows]
        notes = [f"{', '.join(slow)}: left out, as {rows} rows take long; name them with --models to run them"]
        return {name: model for name, model in suitable.items() if name not in slow}, notes if slow else []
    chosen = {"mean": CANDIDATES["mean"]}
    for name in filter(None, (part.strip() for part in names.split(","))):
        if name not in CANDIDATES:
            near = difflib.get_close_matches(name, CANDIDATES, n=1)
            hint = f"did you mean '{near[0]}'? " if near else ""
            raise BadTable(f"there is no model '{name}': {hint}the models are {', '.join(CANDIDATES)}")
        if name not in suitable:
            counts = "counts (whole numbers from 0 up, with a 0 among them)"
            takes = {CLASSES: "0 and 1", COUNTS: counts, NUMBERS: "numbers"}
            wants, has = takes[CANDIDATES[name].kinds[0]], takes[problem.kind]
            raise BadTable(f"the model '{name}' is for targets that are {wants}, this one is {has}")
        chosen[name] = CANDIDATES[name]
    if len(chosen) == 1 and "mean" not in names:
        raise BadTable("--models takes names of models with commas between them, or 'all'")
    return chosen, []


def run(problem: Problem, models: dict[str, Candidate], report: Callable[[str], None]) -> list[Entry]:
    """Every model in turn, the best first; `report` is told of each as it is done."""
    entries = []
    for i, (name, model) in enumerate(models.items()):
        start = time.perf_counter()
        trial = jax.block_until_ready(model.run(problem))
        entries.append(_entry(problem, name, trial, time.perf_counter() - start))
        done = entries[-1]
        report(
            f"[{i + 1}/{len(models)}] {name:15} {with_error(done.error, done.standard_error)}  ({done.seconds:.1f} s)"
        )
    entries.sort(key=lambda entry: (math.isnan(entry.error), entry.error))
    first = entries[0]
    return [_behind(entry, first, jnp.sum(problem.folds.test, axis=1)) for entry in entries]


def _entry(problem: Problem, name: str, trial: Trial, seconds: float) -> Entry:
    unit = _scale(problem, trial)[1] ** 2 if isinstance(trial.loss, (Squared, Huber)) else 1.0
    cv, i = trial.cv, trial.index
    coef = getattr(trial.solution.params, "coef", None) if linear(trial) else None
    converged = np.concatenate([np.ravel(cv.fits.converged), np.ravel(cv.path.converged)])
    chosen = ", ".join(f"{key} {short(value)}" for key, value in trial.setting.items())
    return Entry(
        name, trial, unit * float(cv.mean[i]), unit * float(cv.standard_error[i]), unit * np.asarray(cv.scores[i]),
        0.0, 0.0, chosen, None if coef is None else int(np.sum(np.asarray(coef) != 0)), float(trial.solution.gap),
        int(np.sum(~converged)), converged.size, seconds, _held_out(problem, trial),
    )  # fmt: skip


def linear(trial: Trial) -> bool:
    """Whether the model has one coefficient for each column of the table."""
    params = trial.solution.params
    return (
        trial.splines is None
        and hasattr(params, "coef")
        and hasattr(params, "intercept")
        and not hasattr(params, "kernel")
    )


def _scale(problem: Problem, trial: Trial) -> tuple[float, float]:
    """Centre and unit of what the model predicts."""
    if isinstance(trial.loss, (Squared, Huber)):
        return float(problem.y.mean()), float(problem.y.std())
    return 0.0, 1.0


def _held_out(problem: Problem, trial: Trial) -> np.ndarray:
    centre, unit = _scale(problem, trial)
    design = problem.X if trial.design is None else trial.design
    params = jax.tree.map(lambda leaf: leaf[:, trial.index], trial.cv.fits.params)
    eta = jax.jit(jax.vmap(lambda model: model(design)))(params)
    means = jnp.sum(jnp.where(problem.folds.test, trial.loss.mean(eta), 0), axis=0)
    return centre + unit * np.asarray(means)


def _behind(entry: Entry, first: Entry, sizes: Any) -> Entry:
    """The entry with its distance to the first, over folds of these sizes."""
    mean, spread = summary(jnp.asarray(entry.errors - first.errors)[:, None], sizes)
    return entry._replace(behind=float(mean[0]), behind_error=float(spread[0]))


def error_name(problem: Problem) -> str:
    """What the errors are."""
    return "deviance per sample" if problem.kind == CLASSES else "mean squared error"


def with_error(value: float, error: float) -> str:
    """`2992 ± 224`: both to three digits of the standard error, without exponents where that is readable."""
    digits = 2 - math.floor(math.log10(error)) if 0 < error < math.inf else 2
    if not -4 < digits < 8:
        return f"{value:.4g} ± {error:.2g}"
    return f"{value:.{max(digits, 0)}f} ± {error:.{max(digits, 0)}f}"


def leaderboard(entries: list[Entry]) -> list[dict[str, str]]:
    """The board as text, a dictionary for each row."""
    return [
        {
            "model": entry.name,
            "error": with_error(entry.error, entry.standard_error),
            "behind the best": "" if i == 0 else with_error(entry.behind, entry.behind_error),
            "chosen": entry.chosen or "–",
            "nonzero": "–" if entry.nonzero is None else str(entry.nonzero),
            "gap": "–" if np.isnan(entry.gap) else f"{entry.gap:.0e}",
            "seconds": f"{entry.seconds:.1f}"
            + (f" ({entry.failed} of {entry.fits} fits failed)" if entry.failed else ""),
        }
        for i, entry in enumerate(entries)
    ]


def saved_model(problem: Problem, entry: Entry, encoding: list[dict[str, Any]], target: str) -> dict[str, Any]:
    """All that predictions from a raw table need, for `regjax.save`."""
    centre, unit = _scale(problem, entry.trial)
    trial = entry.trial
    return {
        "about": "a model of `regjax fit`", "name": entry.name, "target": target, "encoding": encoding,
        "splines": trial.splines, "loss": trial.loss, "centre": centre, "unit": unit, "solution": trial.solution,
    }  # fmt: skip
