"""Robust regression and p-norms."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.scipy.stats import norm

from regjax.core.checks import as_float_array, is_concrete, require
from regjax.core.linalg import solve_shifted
from regjax.core.loop import iterate
from regjax.core.node import register_node
from regjax.core.products import cross
from regjax.core.solution import Solution
from regjax.losses import Bisquare, Hampel, Huber, Lp, Squared
from regjax.models.fit import fit
from regjax.models.problem import Linear, center, check_samples, silence
from regjax.penalties import Penalty, Zero

# what psi is called, its loss, and its tuning in units of the scale: the first two are 95% efficient for normal errors
_PSI: dict[str, tuple[Any, tuple[float, ...]]] = {
    "huber": (Huber, (1.345,)),
    "bisquare": (Bisquare, (4.685,)),
    "hampel": (Hampel, (2.0, 4.0, 8.0)),
}
_SCALES = ("mad", "proposal2")
_CUT = 1.345  # of the squares in proposal 2


def huber_regression(
    X: Any,
    y: Any,
    delta: Any,
    penalty: Penalty | None = None,
    *,
    weights: Any = None,
    offset: Any = None,
    intercept: bool = True,
    init: Any = None,
    tol: float | None = None,
    max_iter: int | None = None,
) -> Solution:
    r"""Regression with Huber's loss: Σᵢ vᵢ ℓ_δ(rᵢ) + P(w), ℓ_δ(r) = ½r² for |r| ≤ δ and δ|r| − ½δ² beyond.

    Args:
        X, y, weights, offset, intercept, init, tol, max_iter: as in `fit`.
        delta: δ > 0, in the units of y; see `robust_regression` for one that follows the spread of the residuals.
        penalty: P, from `regjax.penalties`; none if None.

    Example:
        >>> import jax.numpy as jnp, regjax
        >>> X, y = jnp.arange(5.0)[:, None], jnp.array([0.0, 1.0, 2.0, 3.0, 40.0])
        >>> print(round(float(regjax.huber_regression(X, y, 0.1).params.coef[0]), 2))
        1.05

    References:
        Huber, Robust estimation of a location parameter, Ann. Math. Stat. 35 (1964).
    """
    return fit(
        X, y, Huber(delta), Zero() if penalty is None else penalty, weights=weights, offset=offset,
        intercept=intercept, init=init, tol=tol, max_iter=max_iter,
    )  # fmt: skip


def lp_regression(
    X: Any,
    y: Any,
    p: Any,
    penalty: Penalty | None = None,
    *,
    weights: Any = None,
    offset: Any = None,
    intercept: bool = True,
    solver: str | None = None,
    init: Any = None,
    tol: float | None = None,
    max_iter: int | None = None,
) -> Solution:
    r"""Regression in the p-norm: minimise (1/p) Σᵢ vᵢ |yᵢ − oᵢ − b − xᵢw|^p + P(w), 1 ≤ p ≤ 2.

    p = 2 is least squares; p = 1 is a linear program, solved as `quantile_regression` at ½; between them least squares
    with the weights |rᵢ|^(p−2) of the residuals before, from weights of 1 and guarded at zero residuals, is iterated.

    Args:
        X, y, weights, offset, intercept, init, tol, max_iter: as in `fit`.
        p: the power. 1 and 2 must be Python numbers, as they choose the method.
        solver: None; "irls" for weighted least squares at p = 1 too, where it is slow, and `gap` says how far it came;
            or another solver of `fit`.
        penalty: P, from `regjax.penalties`; none if None.

    Example:
        >>> import jax.numpy as jnp, regjax
        >>> X, y = jnp.arange(5.0)[:, None], jnp.array([0.0, 1.0, 2.0, 3.0, 40.0])
        >>> print(round(float(regjax.lp_regression(X, y, 1).params.coef[0]), 3))
        1.0

    References:
        Osborne, Finite Algorithms in Optimization and Data Analysis, Wiley 1985, chapter 5.
    """
    power = as_float_array("p", p)
    require(lambda p: jnp.all((p >= 1) & (p <= 2)), power, message=f"p must be from 1 to 2, got {p}")
    known = is_concrete(p) and power.ndim == 0  # not of `power`, which `jit` traces
    loss = Squared() if known and float(p) == 2 and solver is None else Lp(float(p) if known else power)
    return fit(
        X, y, loss, Zero() if penalty is None else penalty, weights=weights, offset=offset,
        intercept=intercept, solver=solver, init=init, tol=tol, max_iter=max_iter,
    )  # fmt: skip


@register_node
@dataclass(frozen=True, eq=False)
class RobustLinear(Linear):
    """A linear model with the scale of its residuals.

    Attributes:
        coef, intercept: as in `Linear`.
        scale: s, that of √v r.
    """

    scale: Array


def robust_regression(
    X: Any,
    y: Any,
    *,
    psi: str = "huber",
    tuning: Any = None,
    scale: str = "mad",
    weights: Any = None,
    intercept: bool = True,
    tol: float | None = None,
    max_iter: int = 500,
) -> Solution:
    r"""M-estimation with the scale estimated along: Σᵢ xᵢ√vᵢ s ψ(√vᵢ rᵢ/s) = 0 and an equation for s.

    Weighted least squares from the ordinary fit, with weights ψ(u)/u and the scale of the last residuals, as MASS::rlm
    does. Then s is held, and the fit is that of `losses.Huber(k·s)`, `losses.Bisquare(c·s)` or `losses.Hampel`, with
    its certificate and derivatives at a constant scale. All but "huber" may have several solutions: this is the one
    near least squares.

    Args:
        X, y, intercept, tol: as in `fit`, with y (n,).
        psi: "huber"; "bisquare" or "hampel", which ignore far outliers.
        tuning: k, c, or (a, b, c), in units of the scale; 1.345, 4.685 and (2, 4, 8) if None.
        scale: "mad", s = median|√v r|/0.6745; or "proposal2", Huber's s² = Σᵢ min(vᵢrᵢ², k²s²)/((n − p)γ) with
            k = 1.345 and γ the mean of min(z², k²) for normal z, p counting the intercept.
        weights: v, inverse variances up to a factor.
        max_iter: the most weighted least squares fits.

    Returns:
        A `Solution` whose `params` is a `RobustLinear` model.

    Example:
        >>> import jax.numpy as jnp, regjax
        >>> X, y = jnp.arange(6.0)[:, None], jnp.array([0.1, 0.9, 2.1, 2.9, 4.1, 50.0])
        >>> print(round(float(regjax.robust_regression(X, y, psi="bisquare").params.coef[0]), 2))
        1.0

    References:
        Venables & Ripley, Modern Applied Statistics with S, Springer 2002, section 6.5.
    """
    if psi not in _PSI:
        raise ValueError(f"psi must be one of {', '.join(_PSI)}, got {psi!r}")
    if scale not in _SCALES:
        raise ValueError(f"scale must be one of {', '.join(_SCALES)}, got {scale!r}")
    samples = check_samples(X, y, weights)
    if not samples.single:
        raise ValueError(f"y has shape {samples.Y.shape}: robust_regression takes one target, (n,)")
    loss, usual = _PSI[psi]
    tuning = jnp.atleast_1d(as_float_array("tuning", usual if tuning is None else tuning).astype(samples.X.dtype))
    if tuning.shape != (len(usual),):
        raise ValueError(f"tuning has shape {tuning.shape}: {psi!r} takes {len(usual)} of them, such as {usual}")
    require(
        lambda a: jnp.all(jnp.diff(a, prepend=0) > 0), tuning, message=f"tuning must be positive and rise, got {tuning}"
    )
    data = center(samples.X, samples.Y, samples.weights, intercept)
    v, root = data.weights, data.root[:, None]
    ones = jnp.full_like(root, float(intercept))
    design = root * jnp.concatenate([ones, data.X], axis=1)
    target = root * silence(samples.Y, v)
    keep = slice(None) if intercept else slice(1, None)
    start, spread, num_iter = _find_scale(
        *lax.stop_gradient((design[:, keep], target, v, loss(*tuning))), scale, max_iter
    )
    found = fit(design[:, keep], target[:, 0], loss(*(tuning * spread)), Zero(), intercept=False, init=start, tol=tol)
    coef = found.params.coef if intercept else jnp.concatenate([jnp.zeros(1, design.dtype), found.params.coef])
    model = samples.model(coef[1:, None], coef[:1] - data.mean_x @ coef[1:])
    return Solution(
        RobustLinear(model.coef, model.intercept, spread), found.status, num_iter + found.num_iter, found.residual,
        found.gap, found.objective,
    )  # fmt: skip


@partial(jax.jit, static_argnames=("kind", "max_iter"))
def _find_scale(Z, y, v, loss, kind, max_iter):
    """Coefficients (p,) and the scale that solve both equations, and the fits that it took."""
    count = jnp.sum(v > 0)
    left_out = 2 * norm.sf(_CUT)
    mean_square = 1 - left_out + _CUT**2 * left_out - 2 * _CUT * norm.pdf(_CUT)

    def median(r):
        """The median of |r| over samples of positive weight, as a standard deviation."""
        ordered = jnp.sort(jnp.where(v > 0, jnp.abs(r), jnp.inf))
        return (ordered[(count - 1) // 2] + ordered[count // 2]) / 2 / 0.6745

    def spread(r, scale):
        if kind == "mad":
            return median(r)
        squares = jnp.minimum(r**2, (_CUT * scale) ** 2)
        return jnp.sqrt(jnp.sum(squares) / (jnp.maximum(count - Z.shape[1], 1) * mean_square))

    def solve(h, r):
        size = jnp.sqrt(jnp.einsum("ij,ij->j", Z, Z))
        unit = 1 / jnp.where(size > 0, size, 1)
        scaled = Z * unit
        rhs = (h * r) @ scaled
        zero = jnp.zeros((), Z.dtype)
        return unit * solve_shifted(cross(h[:, None] * scaled, scaled), rhs, zero), jnp.max(jnp.abs(rhs))

    def working(r, scale):
        return loss.weight(0.0, r / jnp.where(scale > 0, scale, 1))

    def step(state):
        beta, scale = state
        r = y[:, 0] - Z @ beta
        beta = beta + solve(working(r, scale), r)[0]
        r = y[:, 0] - Z @ beta
        new = spread(r, scale)
        slope = solve(working(r, new), r)[1] / jnp.where(size > 0, size, 1)
        change = jnp.abs(new - scale) / jnp.where(new > 0, new, 1)
        return (beta, new), jnp.where(new > 0, jnp.maximum(slope, change), 0)

    size = jnp.linalg.norm(y)
    start = solve(jnp.ones_like(v), y[:, 0])[0]
    eps = float(jnp.finfo(Z.dtype).eps)
    state = (start, median(y[:, 0] - Z @ start))
    result = iterate(step, state, tol=eps, max_iter=max_iter, patience=20)
    beta, scale = result.state
    return beta, jnp.where(scale > 0, scale, eps * jnp.where(size > 0, jnp.max(jnp.abs(y)), 1)), result.num_iter
