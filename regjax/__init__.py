"""Regularized regression in JAX: every fit a pure function, everything that varies an axis, every answer certified.

Functions are here (`regjax.ridge`); the vocabulary is in its modules (`regjax.bases.BSpline`, `regjax.data.diabetes`).
"""

from regjax import bases, data, kernels, losses, penalties, plot, selection, solvers
from regjax.core.solution import FitError, Solution, Status, check
from regjax.files import load, save
from regjax.models.ball import ridge_ball
from regjax.models.bayes import BayesLinear, bayes_linear, bayes_linear_fit
from regjax.models.descent import gradient_descent, max_step
from regjax.models.fit import fit, lam_max
from regjax.models.glm import (
    cox_regression,
    gamma_regression,
    logistic_regression,
    multinomial_regression,
    poisson_regression,
)
from regjax.models.gp import GaussianProcess, gp
from regjax.models.gp_fit import gp_fit
from regjax.models.inference import Inference, inference
from regjax.models.kernel_fit import kernel_fit
from regjax.models.kernel_problem import KernelExpansion
from regjax.models.kernel_ridge import kernel_gradient_descent, kernel_ridge
from regjax.models.kernel_scores import kernel_gcv, kernel_log_likelihood, kernel_loo_residuals
from regjax.models.labels import decode_scores, encode_labels
from regjax.models.lasso_ball import lasso_ball
from regjax.models.likelihood import LikelihoodInference
from regjax.models.linear import condition_number, ols, ridge, tikhonov
from regjax.models.multi_kernel import MultiKernelExpansion, multi_kernel_ridge, multi_kernel_ridge_fit
from regjax.models.nadaraya_watson import (
    NadarayaWatson,
    nadaraya_watson,
    nadaraya_watson_fit,
    nadaraya_watson_loo,
)
from regjax.models.problem import Linear
from regjax.models.quantile import quantile_regression
from regjax.models.relaxed import debias, degrees_of_freedom, relaxed_lasso, support
from regjax.models.robust import (
    RobustLinear,
    huber_regression,
    lp_regression,
    robust_regression,
)
from regjax.models.sparse import (
    adaptive_lasso,
    elastic_net,
    group_lasso,
    lasso,
    multitask_lasso,
    nonnegative_least_squares,
    sparse_group_lasso,
)
from regjax.models.sparse_gp import SparseProcess, sparse_gp, sparse_gp_fit
from regjax.models.spline import SmoothingSpline, smoothing_spline
from regjax.models.stochastic import sgd
from regjax.models.stochastic_problem import StochasticSolution
from regjax.models.subset import best_subset, best_subset_path
from regjax.selection.approximate_loo import LeaveOneOut, leave_one_out
from regjax.selection.bias_variance import BiasVariance, bias_variance
from regjax.selection.criteria import InformationCriteria, information_criteria
from regjax.selection.cross_validate import CrossValidation, cross_validate
from regjax.selection.curves import LearningCurve, ValidationCurve, learning_curve, validation_curve
from regjax.selection.holdout import holdout
from regjax.selection.leave_one_out import gcv, loo_predictions, loo_residuals, loo_score
from regjax.selection.path import elastic_net_path, lam_grid, lasso_path, path
from regjax.selection.stability import StabilitySelection, stability_selection
from regjax.selection.tune import tune

__version__ = "0.1.0"

__all__ = [
    "BayesLinear",
    "BiasVariance",
    "CrossValidation",
    "FitError",
    "GaussianProcess",
    "Inference",
    "InformationCriteria",
    "KernelExpansion",
    "LearningCurve",
    "LeaveOneOut",
    "LikelihoodInference",
    "Linear",
    "MultiKernelExpansion",
    "NadarayaWatson",
    "RobustLinear",
    "SmoothingSpline",
    "Solution",
    "SparseProcess",
    "StabilitySelection",
    "Status",
    "StochasticSolution",
    "ValidationCurve",
    "adaptive_lasso",
    "bases",
    "bayes_linear",
    "bayes_linear_fit",
    "best_subset",
    "best_subset_path",
    "bias_variance",
    "check",
    "condition_number",
    "cox_regression",
    "cross_validate",
    "data",
    "debias",
    "decode_scores",
    "degrees_of_freedom",
    "elastic_net",
    "elastic_net_path",
    "encode_labels",
    "fit",
    "gamma_regression",
    "gcv",
    "gp",
    "gp_fit",
    "gradient_descent",
    "group_lasso",
    "holdout",
    "huber_regression",
    "inference",
    "information_criteria",
    "kernel_fit",
    "kernel_gcv",
    "kernel_gradient_descent",
    "kernel_log_likelihood",
    "kernel_loo_residuals",
    "kernel_ridge",
    "kernels",
    "lam_grid",
    "lam_max",
    "lasso",
    "lasso_ball",
    "lasso_path",
    "learning_curve",
    "leave_one_out",
    "load",
    "logistic_regression",
    "loo_predictions",
    "loo_residuals",
    "loo_score",
    "losses",
    "lp_regression",
    "max_step",
    "multi_kernel_ridge",
    "multi_kernel_ridge_fit",
    "multinomial_regression",
    "multitask_lasso",
    "nadaraya_watson",
    "nadaraya_watson_fit",
    "nadaraya_watson_loo",
    "nonnegative_least_squares",
    "ols",
    "path",
    "penalties",
    "plot",
    "poisson_regression",
    "quantile_regression",
    "relaxed_lasso",
    "ridge",
    "ridge_ball",
    "robust_regression",
    "save",
    "selection",
    "sgd",
    "smoothing_spline",
    "solvers",
    "sparse_gp",
    "sparse_gp_fit",
    "sparse_group_lasso",
    "stability_selection",
    "support",
    "tikhonov",
    "tune",
    "validation_curve",
]
