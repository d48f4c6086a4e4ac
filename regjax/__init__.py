"""Regularized regression in JAX: every fit a pure function, everything that varies an axis, every answer certified.

Functions are here (`regjax.ridge`); the vocabulary is in its modules (`regjax.bases.BSpline`, `regjax.data.diabetes`).
"""

from regjax import bases, data
from regjax.core.solution import FitError, Solution, Status, check
from regjax.models.ball import ridge_ball
from regjax.models.bayes import BayesLinear, bayes_linear, bayes_linear_fit
from regjax.models.descent import gradient_descent, max_step
from regjax.models.inference import Inference, inference
from regjax.models.labels import decode_scores, encode_labels
from regjax.models.linear import condition_number, ols, ridge, tikhonov
from regjax.models.problem import Linear
from regjax.models.spline import SmoothingSpline, smoothing_spline
from regjax.selection.leave_one_out import gcv, loo_predictions, loo_residuals, loo_score

__version__ = "0.1.0"

__all__ = [
    "BayesLinear",
    "FitError",
    "Inference",
    "Linear",
    "SmoothingSpline",
    "Solution",
    "Status",
    "bases",
    "bayes_linear",
    "bayes_linear_fit",
    "check",
    "condition_number",
    "data",
    "decode_scores",
    "encode_labels",
    "gcv",
    "gradient_descent",
    "inference",
    "loo_predictions",
    "loo_residuals",
    "loo_score",
    "max_step",
    "ols",
    "ridge",
    "ridge_ball",
    "smoothing_spline",
    "tikhonov",
]
