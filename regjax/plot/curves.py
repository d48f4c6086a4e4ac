"""Curves over λ and over the number of samples."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from regjax.plot.given import as_shape, coefficients_of, strengths_of
from regjax.plot.style import (
    BLACK,
    BLUE,
    COLOURS,
    GREEN,
    ORANGE,
    SKY,
    STYLES,
    axes_or_new,
    finish,
    label_lam,
    legend,
    log_if_wide,
    mark,
    short,
)

LABELLED = 12  # lines of a path that get their name


def plot_path(
    path: Any, lams: Any = None, *, names: Sequence[str] = (), chosen: float | None = None, ax: Any = None
) -> Any:
    """Coefficients against λ.

    Args:
        path: a `Solution` with a λ axis, a `CrossValidation`, or the coefficients (L, p).
        lams: λ (L,); those of `path` if None.
        names: of the p coefficients, written beside their lines.
        chosen: a λ to mark; of a `CrossValidation` its best and one-standard-error choices are marked.
        ax: where to draw.
    """
    ax = axes_or_new(ax)
    given = strengths_of(path, lams)
    coefs, names = coefficients_of(path, names, lead=len(given))
    order = np.argsort(given)
    lams, coefs = given[order], coefs[order]
    ax.axhline(0, color="0.6", linewidth=0.8, zorder=0)
    for j, line in enumerate(coefs.T):
        ax.plot(lams, line, color=COLOURS[j % 7], linestyle=STYLES[j // 7 % 3], linewidth=1.8)
    label_lam(ax, lams)
    finish(ax, ylabel="coefficient", title="Coefficients along the path")
    if chosen is not None:
        mark(ax, f"λ = {short(chosen)}", float(chosen))
    elif hasattr(path, "best"):
        best, one_se = float(given[path.best]), float(given[path.one_se])
        mark(ax, f"best: λ = {short(best)}", best)
        mark(ax, f"one standard error: λ = {short(one_se)}", one_se, second=True)
    if len(names):
        _name_lines(ax, lams, coefs, names)
    if ax.get_legend_handles_labels()[1]:
        legend(ax)
    return ax


def _name_lines(ax: Any, lams: np.ndarray, coefs: np.ndarray, names: Sequence[str]) -> None:
    """Write names to the left of where the lines start, moved apart where they would overlap."""
    largest = np.argsort(-np.abs(coefs[0]))[:LABELLED]
    order = largest[np.argsort(coefs[0][largest])]
    low, high = ax.get_ylim()
    gap = 0.06 * (high - low)
    places = coefs[0][order].astype(float)
    for _ in range(200):  # push overlapping neighbours apart
        overlap = gap - np.diff(places)
        if np.all(overlap <= 1e-9 * gap):
            break
        push = np.maximum(overlap, 0) / 2
        places[:-1] -= push
        places[1:] += push
    logarithmic = ax.get_xscale() == "log"
    x = np.log(lams) if logarithmic else lams
    room = 0.02 * np.ptp(x)
    back = np.exp if logarithmic else float
    width = 0.022 * max(len(str(names[j])) for j in order) + 0.06
    ax.set_xlim(left=back(x[0] - width * np.ptp(x)))
    ax.set_ylim(min(low, places[0] - gap), max(high, places[-1] + gap))
    for j, place in zip(order, places, strict=True):
        ax.annotate(
            str(names[j]), (lams[0], coefs[0][j]), (back(x[0] - 2 * room), place), ha="right", va="center", fontsize=11,
            color=COLOURS[j % 7], arrowprops={"arrowstyle": "-", "color": COLOURS[j % 7], "linewidth": 0.7},
        )  # fmt: skip


def plot_cross_validation(cv: Any, lams: Any = None, *, ax: Any = None) -> Any:
    """The error of cross-validation against λ, with a band of one standard error and both choices marked.

    Args:
        cv: a `CrossValidation`, or scores (L, K) of L values of λ on K folds.
        lams: λ (L,); those of `cv` if None.
        ax: where to draw.
    """
    ax = axes_or_new(ax)
    lams = strengths_of(cv, lams)
    if hasattr(cv, "scores"):
        mean, error = np.asarray(cv.mean), np.asarray(cv.standard_error)
    else:
        scores = as_shape("cv", cv, (len(lams), None))
        mean, error = scores.mean(1), scores.std(1) / np.sqrt(max(scores.shape[1] - 1, 1))
    order = np.argsort(lams)
    x, y, e = lams[order], mean[order], error[order]
    ax.fill_between(x, y - e, y + e, color=SKY, alpha=0.35, linewidth=0, label="± 1 standard error")
    ax.plot(x, y, color=BLUE, linewidth=2.2, label="mean over folds")
    label_lam(ax, lams)
    finish(ax, ylabel="error on the left-out fold", title="Cross-validation")
    log_if_wide(ax, y - e)
    if hasattr(cv, "best"):
        best, one_se = int(cv.best), int(cv.one_se)
    else:
        best = int(np.nanargmin(mean))
        within = mean <= mean[best] + error[best]
        one_se = int(np.argmax(np.where(within, lams, -np.inf)))
    mark(ax, f"best: λ = {short(lams[best])}, error {mean[best]:.4g}", lams[best])
    mark(ax, f"one standard error: λ = {short(lams[one_se])}", lams[one_se], second=True)
    legend(ax)
    return ax


def plot_leave_one_out(scores: Any, lams: Any, *, ax: Any = None) -> Any:
    """The leave-one-out error (L,) against λ (L,), as of `loo_score`; its minimum is marked."""
    ax = axes_or_new(ax)
    lams = strengths_of(None, lams)
    scores = as_shape("scores", scores, (len(lams),))
    order, best = np.argsort(lams), int(np.nanargmin(scores))
    ax.plot(lams[order], scores[order], color=BLUE, linewidth=2.2)
    label = f"λ = {short(lams[best])}, error {scores[best]:.4g}"
    ax.plot(lams[best], scores[best], "o", color=ORANGE, markersize=9, label=label)
    label_lam(ax, lams)
    finish(ax, ylabel="mean squared error", title="Exact leave-one-out error")
    log_if_wide(ax, scores)
    legend(ax)
    return ax


def plot_bias_variance(squared_bias: Any, variance: Any, lams: Any, *, noise: float = 0.0, ax: Any = None) -> Any:
    """The expected squared error and its parts (L,) against λ; `noise` is the variance of y, which no fit avoids."""
    ax = axes_or_new(ax)
    lams = strengths_of(None, lams)
    order = np.argsort(lams)
    x = lams[order]
    bias, spread = (as_shape(n, a, x.shape)[order] for n, a in (("squared_bias", squared_bias), ("variance", variance)))
    total = bias + spread + float(noise)
    best = int(np.nanargmin(total))
    ax.plot(x, total, color=BLACK, linewidth=2.6, label="expected error")
    ax.plot(x, bias, color=ORANGE, linestyle="--", linewidth=2.2, label="squared bias")
    ax.plot(x, spread, color=BLUE, linestyle="-.", linewidth=2.2, label="variance")
    if noise:
        ax.axhline(float(noise), color="0.5", linestyle=":", linewidth=2, label="noise")
    ax.plot(x[best], total[best], "o", color=GREEN, markersize=9, label=f"least at λ = {short(x[best])}")
    label_lam(ax, lams)
    finish(ax, ylabel="squared error", title="Bias and variance")
    legend(ax)
    return ax


def plot_learning_curve(sizes: Any, training: Any, validation: Any, *, ax: Any = None) -> Any:
    """Errors on training and on new data against the number of samples.

    Args:
        sizes: (S,).
        training, validation: (S,), or (S, R) for R repeats: then the mean with a band of one standard deviation.
        ax: where to draw.
    """
    ax = axes_or_new(ax)
    sizes = np.asarray(sizes, float)
    drawn = []
    for name, errors, colour, style in (("validation", validation, BLUE, "o-"), ("training", training, ORANGE, "s--")):
        errors = np.asarray(errors, float)
        if errors.shape[:1] != sizes.shape or errors.ndim > 2:
            raise ValueError(f"{name} has shape {errors.shape}: it takes ({len(sizes)},) or ({len(sizes)}, repeats)")
        table = errors.reshape(len(sizes), -1)
        mean, spread = table.mean(1), table.std(1)
        if table.shape[1] > 1:
            ax.fill_between(sizes, mean - spread, mean + spread, color=colour, alpha=0.2, linewidth=0)
        ax.plot(sizes, mean, style, color=colour, linewidth=2.2, markersize=6, label=f"{name} error")
        drawn.append(mean)
    if np.all(sizes > 0) and sizes.max() > 20 * sizes.min():
        ax.set_xscale("log")
    ax.set_xlabel("number of samples", fontsize=13)
    finish(ax, ylabel="error", title="Learning curve")
    log_if_wide(ax, np.concatenate(drawn))
    legend(ax)
    return ax
