"""Any penalty within limits of its coefficients."""

from dataclasses import replace
from typing import Any

from regjax.penalties.balls import Ball, LimitedBall
from regjax.penalties.blocks import Blocks
from regjax.penalties.elementwise import Limited
from regjax.penalties.limited_blocks import LimitedBlocks
from regjax.penalties.sums import PlusL2


def limit(penalty: Any, lower: Any, upper: Any) -> Any:
    """The penalty on the box lower ≤ w ≤ upper, 0 being in it; raises `ValueError` where its prox is not known there.

    Args:
        penalty: a sum over single coefficients (`Limited`), norms of groups (`LimitedBlocks`), a ball (`LimitedBall`),
            or one of these and a ridge (`PlusL2`).
        lower, upper: scalars, (p,), or arrays that broadcast against w.
    """
    if isinstance(penalty, PlusL2):
        return replace(penalty, penalty=limit(penalty.penalty, lower, upper))
    if penalty.separable:
        return Limited(penalty, lower, upper)
    for kind, limited in ((Blocks, LimitedBlocks), (Ball, LimitedBall)):
        if isinstance(penalty, kind):
            return limited(penalty, lower, upper)
    raise ValueError(
        "lower and upper take a penalty of single coefficients or of groups, or a ball, such as L1, Group or L1Ball, "
        f"not {type(penalty).__name__}"
    )
