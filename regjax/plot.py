"""Pictures of fits (needs matplotlib: the extra `plot`)."""

from collections.abc import Sequence
from typing import Any

import numpy as np


def _axes(ax: Any) -> Any:
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(6, 4), layout="constrained")[1]


def plot_path(lams: Any, coefs: Any, *, names: Sequence[str] = (), chosen: float | None = None, ax: Any = None) -> Any:
    """Coefficients (L, p) against λ (L,) on a logarithmic axis; `chosen` marks one λ. Returns the Axes."""
    ax = _axes(ax)
    lams, coefs = np.asarray(lams), np.asarray(coefs)
    lines = ax.plot(lams, coefs)
    ax.set(xscale="log", xlabel="λ", ylabel="coefficient", title="Coefficients along the path")
    ax.axhline(0, color="0.7", linewidth=0.8, zorder=0)
    if chosen is not None:
        ax.axvline(chosen, color="0.3", linestyle="--", linewidth=1)
    if len(names):
        ax.legend(lines, names, fontsize="x-small", ncols=2, loc="upper right")
    return ax


def plot_leave_one_out(lams: Any, scores: Any, *, ax: Any = None) -> Any:
    """The leave-one-out error (L,) against λ (L,), its minimum marked. Returns the Axes."""
    ax = _axes(ax)
    lams, scores = np.asarray(lams), np.asarray(scores)
    best = int(np.nanargmin(scores))
    ax.plot(lams, scores)
    ax.plot(lams[best], scores[best], "o", color="C3", label=f"λ = {lams[best]:.3g}, error {scores[best]:.4g}")
    ax.set(xscale="log", xlabel="λ", ylabel="mean squared error", title="Exact leave-one-out error")
    ax.legend(fontsize="small", loc="upper left")
    return ax
