"""Curves over λ and over the number of samples."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from regjax.plot.given import as_shape, coefficients_of, strengths_of, symbol_of
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
        path: a `Solution` with a λ axis, a `CrossValidation` or `LeaveOneOut`, or the coefficients (L, p).
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
    symbol = symbol_of(path)
    label_lam(ax, lams, symbol)
    finish(ax, ylabel="coefficient", title="Coefficients along the path")
    if chosen is not None:
        mark(ax, f"{symbol} = {short(chosen)}", float(chosen))
    elif hasattr(path, "best"):
        best, one_se = float(given[path.best]), float(given[path.one_se])
        mark(ax, f"best: {symbol} = {short(best)}", best)
        mark(ax, f"one standard error: {symbol} = {short(one_se)}", one_se, second=True)
    if len(names):
        _name_lines(ax, lams, coefs, names)
    if ax.get_legend_handles_labels()[1]:
        legend(ax)
    return ax


def _name_lines(ax: Any, lams: np.ndarray, coefs: np.ndarray, names: Sequence[str]) -> None:
    """Write names beside the end where the lines are farther apart, moved apart where they would overlap."""
    left = np.abs(coefs[0]).sum() >= np.abs(coefs[-1]).sum()
    end, outward = (0, -1) if left else (-1, 1)
    ends = coefs[end].astype(float)
    largest = np.argsort(-np.abs(ends))[:LABELLED]
    order = largest[np.argsort(ends[largest])]
    low, high = ax.get_ylim()
    gap = 0.06 * (high - low)
    places = ends[order]
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
    ax.set_xlim(**{"left" if left else "right": back(x[end] + outward * width * np.ptp(x))})
    ax.set_ylim(min(low, places[0] - gap), max(high, places[-1] + gap))
    for j, place in zip(order, places, strict=True):
        ax.annotate(
            str(names[j]), (lams[end], ends[j]), (back(x[end] + outward * 2 * room), place),
            ha="right" if left else "left", va="center", fontsize=11, color=COLOURS[j % 7],
            arrowprops={"arrowstyle": "-", "color": COLOURS[j % 7], "linewidth": 0.7},
        )  # fmt: skip


def plot_cross_validation(cv: Any, lams: Any = None, *, ax: Any = None) -> Any:
    """The error of cross-validation against λ, with a band of one standard error and both choices marked.

    Args:
        cv: a `CrossValidation`, or scores (L, K) of L values of λ on K folds.
        lams: λ (L,); those of `cv` if None.
        ax: where to draw.
    """
    ax = axes_or_new(ax)
    values, symbol = strengths_of(cv, lams), symbol_of(cv)
    if hasattr(cv, "scores"):
        mean, error, best, one_se = cv.mean, cv.standard_error, int(cv.best), int(cv.one_se)
    else:
        scores = as_shape("cv", cv, (len(values), None))
        mean, error = scores.mean(1), scores.std(1) / np.sqrt(max(scores.shape[1] - 1, 1))
        best = int(np.nanargmin(mean))
        one_se = int(np.argmax(np.where(mean <= mean[best] + error[best], values, -np.inf)))
    _draw_errors(ax, values, mean, error, "mean over folds", symbol)
    finish(ax, ylabel="error on the left-out fold", title="Cross-validation")
    _mark_choices(ax, values, mean, best, one_se, symbol)
    return ax


def _draw_errors(ax: Any, values: np.ndarray, mean: Any, error: Any, label: str, symbol: str) -> None:
    """The mean error along a grid in a band of one standard error."""
    order = np.argsort(values)
    x, y, e = values[order], np.asarray(mean)[order], np.asarray(error)[order]
    ax.fill_between(x, y - e, y + e, color=SKY, alpha=0.35, linewidth=0, label="± 1 standard error")
    ax.plot(x, y, color=BLUE, linewidth=2.2, label=label)
    label_lam(ax, values, symbol)
    log_if_wide(ax, y - e)


def _mark_choices(ax: Any, values: np.ndarray, mean: Any, best: int, one_se: int, symbol: str) -> None:
    mark(ax, f"best: {symbol} = {short(values[best])}, error {mean[best]:.4g}", values[best])
    mark(ax, f"one standard error: {symbol} = {short(values[one_se])}", values[one_se], second=True)
    legend(ax)


def plot_leave_one_out(scores: Any, lams: Any = None, *, ax: Any = None) -> Any:
    """The leave-one-out error against λ.

    Args:
        scores: a `LeaveOneOut`, drawn with a band of one standard error and both choices marked; or the errors (L,), as
            of `loo_score`, whose minimum is marked.
        lams: λ (L,); those of a `LeaveOneOut` if None.
        ax: where to draw.
    """
    ax = axes_or_new(ax)
    values, symbol = strengths_of(scores, lams), symbol_of(scores)
    if hasattr(scores, "scores"):
        _draw_errors(ax, values, scores.mean, scores.standard_error, "mean over samples", symbol)
        finish(ax, ylabel="error on the left-out sample", title="Leave-one-out error")
        _mark_choices(ax, values, scores.mean, int(scores.best), int(scores.one_se), symbol)
        return ax
    scores = as_shape("scores", scores, (len(values),))
    order, best = np.argsort(values), int(np.nanargmin(scores))
    ax.plot(values[order], scores[order], color=BLUE, linewidth=2.2)
    label = f"λ = {short(values[best])}, error {scores[best]:.4g}"
    ax.plot(values[best], scores[best], "o", color=ORANGE, markersize=9, label=label)
    label_lam(ax, values)
    finish(ax, ylabel="mean squared error", title="Leave-one-out error")
    log_if_wide(ax, scores)
    legend(ax)
    return ax


def plot_bias_variance(
    squared_bias: Any, variance: Any = None, lams: Any = None, *, noise: float = 0.0, ax: Any = None
) -> Any:
    """The expected squared error and its parts against λ.

    Args:
        squared_bias: a `BiasVariance`, which has all the rest; or the squared bias (L,).
        variance: (L,).
        lams: λ (L,); those of a `BiasVariance` if None.
        noise: the variance of y, which no fit avoids.
        ax: where to draw.
    """
    ax = axes_or_new(ax)
    lams, symbol = strengths_of(squared_bias, lams), symbol_of(squared_bias)
    if hasattr(squared_bias, "bias_squared"):
        squared_bias, variance, noise = squared_bias.bias_squared, squared_bias.variance, squared_bias.noise
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
    ax.plot(x[best], total[best], "o", color=GREEN, markersize=9, label=f"least at {symbol} = {short(x[best])}")
    label_lam(ax, lams, symbol)
    finish(ax, ylabel="squared error", title="Bias and variance")
    legend(ax)
    return ax


def plot_learning_curve(curve: Any, training: Any = None, validation: Any = None, *, ax: Any = None) -> Any:
    """Errors on training and on new data against the number of samples, or along λ.

    Args:
        curve: a `LearningCurve`, or a `ValidationCurve`, which is drawn along λ: both with bands of one standard error,
            the error of the null model and the verdict. Or the numbers of samples (S,).
        training, validation: (S,), or (S, R) for R repeats: then the mean with a band of one standard deviation.
        ax: where to draw.
    """
    ax = axes_or_new(ax)
    if hasattr(curve, "verdict"):
        along_grid = hasattr(curve, "penalties")
        x = strengths_of(curve, None) if along_grid else np.asarray(curve.sizes, float)
        lines = {
            "validation": (np.asarray(curve.validation), np.asarray(curve.validation_se)),
            "training": (np.asarray(curve.training), np.asarray(curve.training_se)),
        }
        title = f"{'Validation' if along_grid else 'Learning'} curve: {curve.verdict}"
    else:
        along_grid, x, title = False, np.asarray(curve, float), "Learning curve"
        lines = {name: _of_repeats(name, a, x) for name, a in (("validation", validation), ("training", training))}
    order = np.argsort(x)
    for (name, (mean, spread)), colour, style in zip(lines.items(), (BLUE, ORANGE), ("o-", "s--"), strict=True):
        low, high = (mean - spread)[order], (mean + spread)[order]
        ax.fill_between(x[order], low, high, color=colour, alpha=0.2, linewidth=0)
        ax.plot(x[order], mean[order], style, color=colour, linewidth=2.2, markersize=6, label=f"{name} error")
    if hasattr(curve, "null"):
        null = np.broadcast_to(curve.null, x.shape)
        ax.plot(x[order], null[order], ":", color="0.4", linewidth=2, label="error of the null model")
    if along_grid:
        label_lam(ax, x, symbol_of(curve))
    else:
        if np.all(x > 0) and x.max() > 20 * x.min():
            ax.set_xscale("log")
        ax.set_xlabel("number of samples", fontsize=13)
    finish(ax, ylabel="error", title=title)
    log_if_wide(ax, np.concatenate([mean for mean, _ in lines.values()]))
    legend(ax)
    return ax


def _of_repeats(name: str, errors: Any, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mean over repeats and their standard deviation."""
    errors = np.asarray(errors, float)
    if errors.shape[:1] != sizes.shape or errors.ndim > 2:
        raise ValueError(f"{name} has shape {errors.shape}: it takes ({len(sizes)},) or ({len(sizes)}, repeats)")
    table = errors.reshape(len(sizes), -1)
    return table.mean(1), table.std(1)
