"""Penalties P(w): dataclass pytrees whose strengths are leaves, so that `vmap`, `grad` and `jit` go through them.

Objectives are sums over samples: the lasso is ½‖y − Xw‖² + λ‖w‖₁ with `L1(lam)`. `Penalty` says what a penalty can do.
"""

from regjax.penalties.balls import L1Ball, L2Ball, LimitedBall
from regjax.penalties.blocks import Group, MultiTask, SparseGroup
from regjax.penalties.check import check_penalty, is_valid, scale_strengths, strength_axes
from regjax.penalties.elementwise import L1, L2, Box, ElasticNet, Limited, NonNegative, Zero
from regjax.penalties.limited_blocks import LimitedBlocks
from regjax.penalties.limited_slope import LimitedSlope
from regjax.penalties.limited_variation import LimitedVariation
from regjax.penalties.limits import limit
from regjax.penalties.nonconvex import MCP, SCAD
from regjax.penalties.ordered import TotalVariation
from regjax.penalties.protocol import Penalty
from regjax.penalties.quadratic import Tikhonov
from regjax.penalties.ravel import ravel_penalty
from regjax.penalties.slope import Slope
from regjax.penalties.sparse_variation import SparseVariation
from regjax.penalties.sums import PlusL2

__all__ = [
    "L1",
    "L2",
    "MCP",
    "SCAD",
    "Box",
    "ElasticNet",
    "Group",
    "L1Ball",
    "L2Ball",
    "Limited",
    "LimitedBall",
    "LimitedBlocks",
    "LimitedSlope",
    "LimitedVariation",
    "MultiTask",
    "NonNegative",
    "Penalty",
    "PlusL2",
    "Slope",
    "SparseGroup",
    "SparseVariation",
    "Tikhonov",
    "TotalVariation",
    "Zero",
    "check_penalty",
    "is_valid",
    "limit",
    "ravel_penalty",
    "scale_strengths",
    "strength_axes",
]
