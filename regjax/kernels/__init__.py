"""Kernels k(x, z): pytrees of hyperparameters, written for one pair of points, with an algebra."""

from regjax.core.node import register_node
from regjax.kernels.gram import gram, gram_matvec, is_positive_definite
from regjax.kernels.kernel import Kernel, Product, Scaled, Sum
from regjax.kernels.maps import On, Warped, on, warp
from regjax.kernels.products import Constant, Linear, Polynomial, Sigmoid, White
from regjax.kernels.stationary import (
    RBF,
    Exponential,
    Laplace,
    Matern32,
    Matern52,
    Periodic,
    RationalQuadratic,
)

__all__ = [
    "RBF",
    "Constant",
    "Exponential",
    "Kernel",
    "Laplace",
    "Linear",
    "Matern32",
    "Matern52",
    "On",
    "Periodic",
    "Polynomial",
    "Product",
    "RationalQuadratic",
    "Scaled",
    "Sigmoid",
    "Sum",
    "Warped",
    "White",
    "gram",
    "gram_matvec",
    "is_positive_definite",
    "on",
    "register_node",
    "warp",
]
