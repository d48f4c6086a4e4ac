"""One model: its posterior, its residuals, its coefficients."""

from collections.abc import Sequence
from statistics import NormalDist
from typing import Any

import jax
import numpy as np

from regjax.plot.given import as_shape, coefficients_of
from regjax.plot.style import BLACK, BLUE, ORANGE, SKY, axes_or_new, finish, legend


def plot_gp(
    process: Any,
    Z: Any = None,
    *,
    level: float = 0.95,
    noise: bool = False,
    samples: int = 0,
    key: Any = None,
    ax: Any = None,
) -> Any:
    """The posterior of a model of one input: mean, band, functions drawn from it, and the data.

    Args:
        process: a `GaussianProcess`, `SparseProcess` or `BayesLinear`, or a `Solution` with one.
        Z: where, (m,); over the data and a tenth beyond if None.
        level: of the band.
        noise: whether the band is that of a new target rather than of the function.
        samples: how many functions to draw, of a `GaussianProcess`. key: of the draw; `jax.random.key(0)` if None.
        ax: where to draw.
    """
    ax = axes_or_new(ax)
    process = getattr(process, "params", process)
    points = getattr(process, "points", getattr(process, "inducing", None))
    flat = None if points is None else np.concatenate([np.asarray(p).ravel() for p in jax.tree.leaves(points)])
    if points is not None and (not hasattr(points, "shape") or len(flat) != len(points)):  # pyright: ignore
        raise ValueError("process has more than one input: plot_gp draws functions of one")
    if Z is None:
        if flat is None:
            raise ValueError("Z is needed: this model does not hold its data")
        beyond = 0.1 * np.ptp(flat)
        Z = np.linspace(flat.min() - beyond, flat.max() + beyond, 400)
    x = np.asarray(Z, float).ravel()
    inputs = x[:, None] if points is None or np.ndim(points) == 2 else x
    mean = np.asarray(process.mean(inputs))
    half = NormalDist().inv_cdf(0.5 + level / 2) * np.sqrt(np.asarray(process.variance(inputs, noise)))
    what = "of a new target" if noise else "of the function"
    label = f"{100 * level:.3g}% interval {what}"
    ax.fill_between(x, mean - half, mean + half, color=SKY, alpha=0.35, linewidth=0, label=label)
    if samples:
        draws = np.asarray(process.sample(jax.random.key(0) if key is None else key, inputs, samples))
        for i, draw in enumerate(draws):
            ax.plot(x, draw, color=ORANGE, linewidth=1, alpha=0.8, label="samples" if i == 0 else None)
    ax.plot(x, mean, color=BLUE, linewidth=2.4, label="mean")
    if hasattr(process, "targets"):
        size = 6 if len(flat) < 60 else 3  # pyright: ignore[reportArgumentType]
        ax.plot(flat, np.asarray(process.targets), "o", color=BLACK, markersize=size, label="data", zorder=3)
    elif flat is not None:
        top = np.full(len(flat), 0.98)
        ax.plot(flat, top, "v", color=BLACK, transform=ax.get_xaxis_transform(), label="inducing points")
    ax.set_xlabel("x", fontsize=13)
    finish(ax, ylabel="y", title="Posterior")
    legend(ax)
    return ax


def plot_residuals(predictions: Any, y: Any, *, ax: Any = None) -> Any:
    """Residuals against predictions (n,), with their running mean: a bend in it is what the model has missed."""
    ax = axes_or_new(ax)
    y = np.asarray(y, float)
    x = as_shape("predictions", predictions, y.shape)
    residuals = y - x
    variation = np.sum((y - y.mean()) ** 2)
    root = np.sqrt(np.mean(residuals**2))
    title = f"Residuals: root mean square {root:.4g}"
    if variation > 0:
        title += f", R² = {1 - np.sum(residuals**2) / variation:.3f}"
    ax.axhline(0, color="0.4", linewidth=1)
    ax.plot(x, residuals, "o", color=BLUE, alpha=0.45, markersize=5, markeredgewidth=0)
    groups = np.array_split(np.argsort(x), max(2, min(12, len(x) // 15)))
    if len(x) >= 30:
        centres, means = ([np.mean(a[g]) for g in groups] for a in (x, residuals))
        ax.plot(centres, means, "o-", color=ORANGE, linewidth=2.2, markersize=5, label="running mean")
        legend(ax)
    ax.set_xlabel("prediction", fontsize=13)
    finish(ax, ylabel="residual", title=title)
    return ax


def plot_coefficients(
    model: Any, *, names: Sequence[str] = (), errors: Any = None, most: int = 20, ax: Any = None
) -> Any:
    """Coefficients as bars, the largest at the top.

    Args:
        model: a linear model, a `Solution` with one, or coefficients (p,).
        names: of the coefficients.
        errors: standard errors, like the model or its coefficients: bars of ± 2 of them.
        most: how many to draw.
        ax: where to draw.
    """
    coefs, names = coefficients_of(model, names)
    spread = None if errors is None else 2 * coefficients_of(errors, ())[0]
    shown = np.argsort(-np.abs(coefs))[:most]
    shown = shown[coefs[shown] != 0] if np.any(coefs != 0) else shown
    ax = axes_or_new(ax, height=max(2.5, 1.2 + 0.33 * len(shown)))
    places = np.arange(len(shown))[::-1]
    colours = [BLUE if coefs[j] >= 0 else ORANGE for j in shown]
    bars = None if spread is None else spread[shown]
    ax.barh(places, coefs[shown], xerr=bars, color=colours, height=0.7, error_kw={"capsize": 3, "ecolor": "0.25"})
    ax.axvline(0, color="0.4", linewidth=1)
    ax.set_yticks(places, [names[j] if len(names) else f"w[{j}]" for j in shown])
    ax.set_xlabel("coefficient" if errors is None else "coefficient ± 2 standard errors", fontsize=13)
    nonzero = int(np.sum(coefs != 0))
    more = f", the largest {len(shown)} shown" if len(shown) < nonzero else ""
    finish(ax, ylabel="", title=f"Coefficients: {nonzero} of {len(coefs)} not zero{more}", grid="x")
    return ax
