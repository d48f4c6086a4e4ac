"""Any penalty within limits of its coefficients."""

from dataclasses import replace
from typing import Any

from regjax.penalties.balls import Ball, LimitedBall
from regjax.penalties.blocks import Blocks
from regjax.penalties.check import check_rules
from regjax.penalties.elementwise import Limited
from regjax.penalties.limited_blocks import LimitedBlocks
from regjax.penalties.limited_slope import LimitedSlope
from regjax.penalties.limited_variation import LimitedVariation
from regjax.penalties.ordered import TotalVariation
from regjax.penalties.slope import Slope
from regjax.penalties.sums import PlusL2

_KINDS = {Blocks: LimitedBlocks, Ball: LimitedBall, Slope: LimitedSlope, TotalVariation: LimitedVariation}


def limit(penalty: Any, lower: Any, upper: Any) -> Any:
    """The penalty on the box lower ≤ w ≤ upper, 0 being in it; raises `ValueError` where its prox is not known there.

    Args:
        penalty: a sum over single coefficients (`Limited`), norms of groups (`LimitedBlocks`), a ball (`LimitedBall`),
            `Slope` (`LimitedSlope`), `TotalVariation` (`LimitedVariation`), or one of these and a ridge (`PlusL2`).
        lower, upper: scalars, (p,), or arrays that broadcast against w.
    """
    if isinstance(penalty, PlusL2):
        return replace(penalty, penalty=limit(penalty.penalty, lower, upper))
    if penalty.separable:
        return Limited(penalty, lower, upper)
    for kind, limited in _KINDS.items():
        if isinstance(penalty, kind):
            within = limited(penalty, lower, upper)
            check_rules(within)
            return within
    raise ValueError(
        "lower and upper take a penalty of single coefficients or of groups, a ball, Slope or TotalVariation, not "
        f"{type(penalty).__name__}"
    )
