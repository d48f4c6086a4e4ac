"""Pictures of fits, fit for a slide (needs matplotlib: the extra `plot`).

Every function draws on `ax`, or on a new figure, and returns its Axes. It takes what regjax returns, or plain arrays.
The colours are those of Okabe & Ito, which colour-blind people tell apart.
"""

from regjax.plot.curves import (
    plot_bias_variance,
    plot_cross_validation,
    plot_learning_curve,
    plot_leave_one_out,
    plot_path,
)
from regjax.plot.models import plot_coefficients, plot_gp, plot_residuals

__all__ = [
    "plot_bias_variance",
    "plot_coefficients",
    "plot_cross_validation",
    "plot_gp",
    "plot_learning_curve",
    "plot_leave_one_out",
    "plot_path",
    "plot_residuals",
]
