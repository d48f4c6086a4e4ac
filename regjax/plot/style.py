"""How pictures look: colours, labels, marks."""

from typing import Any

import numpy as np

BLUE, ORANGE, GREEN, PINK, GOLD, SKY, BLACK = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000",
)  # fmt: skip
COLOURS = (BLUE, ORANGE, GREEN, PINK, GOLD, SKY, BLACK)
STYLES = ("-", "--", ":")  # after the colours are used up


def axes_or_new(ax: Any, height: float = 4.5) -> Any:
    """`ax`, or those of a new figure."""
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("pictures need matplotlib: pip install regjax[plot]") from error
    return plt.subplots(figsize=(7, height), layout="constrained")[1]


def finish(ax: Any, ylabel: str, title: str, grid: str = "both") -> None:
    """Label and clean the axes."""
    ax.set_ylabel(ylabel, fontsize=13)
    ax.set_title(title, fontsize=14, loc="left")
    ax.tick_params(labelsize=11)
    ax.grid(True, axis=grid, color="0.9", linewidth=0.8)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)


def legend(ax: Any) -> None:
    """The legend, where it hides the least."""
    ax.legend(fontsize=11, loc="best", framealpha=0.9, edgecolor="none")


def label_lam(ax: Any, lams: np.ndarray, symbol: str = "λ") -> None:
    """The horizontal axis as one of λ, or what the symbol says, logarithmic unless 0 is on it."""
    if np.all(lams > 0):
        ax.set_xscale("log")
    ax.set_xlabel("penalty strength λ" if symbol == "λ" else symbol, fontsize=13)


def log_if_wide(ax: Any, values: np.ndarray) -> None:
    """A logarithmic vertical axis where the values need one."""
    if np.all(values > 0) and values.max() > 30 * values.min():
        ax.set_yscale("log")


def short(value: float) -> str:
    """Three digits, without an exponent where that is readable."""
    return f"{float(f'{value:.3g}'):g}"


def mark(ax: Any, label: str, lam: float, second: bool = False) -> None:
    """A vertical line at a choice of λ."""
    ax.axvline(lam, color=ORANGE if second else "0.2", linestyle=":" if second else "--", linewidth=2, label=label)
