"""Bases of functions x ↦ φ(x), each with the matrix Ω of its penalty: of one variable, and of a kernel.

A basis never holds the constant, which the model's unpenalised intercept supplies. A fit is then `tikhonov` on
`basis.design(x)` with `penalty=basis.penalty()`, or `ridge` where the penalty is the identity.
"""

from regjax.bases.nystrom import Nystrom, landmarks
from regjax.bases.random_features import RandomFeatures
from regjax.bases.univariate import (
    Basis,
    BSpline,
    Fourier,
    LinearSpline,
    NaturalSpline,
    Polynomial,
    natural_spline_curvature,
    natural_spline_design,
    natural_spline_penalty,
)

__all__ = [
    "BSpline",
    "Basis",
    "Fourier",
    "LinearSpline",
    "NaturalSpline",
    "Nystrom",
    "Polynomial",
    "RandomFeatures",
    "landmarks",
    "natural_spline_curvature",
    "natural_spline_design",
    "natural_spline_penalty",
]
