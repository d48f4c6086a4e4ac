"""½ Σ v (y − Xw)² + (λ/2) wᵀΩw in closed form: coefficients, leverages and certificate from one factorization."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from regjax.core import factors, linalg
from regjax.core.factors import Factor, Root
from regjax.core.implicit import with_derivative_of
from regjax.core.node import register_node
from regjax.core.products import cross
from regjax.core.solution import Solution, Status, relative, succeeded
from regjax.models.problem import Centred, Samples


@register_node
@dataclass(frozen=True, eq=False)
class Gram:
    """The matrix to factor: XᵀVX (p, p) for p ≤ n or under a penalty Ω, else √v XXᵀ √v (n, n).

    Attributes:
        matrix: with the direction of the intercept lifted off zero in the dual form, where it would be singular.
        root: blocks that side by side are R with matrix = RRᵀ; None under a penalty.
        lift: by how much; 0 in the primal form.
        dual: which form.
    """

    matrix: Array
    root: Root
    lift: Array
    dual: bool = field(metadata={"static": True})


def gram(data: Centred, penalty: Array | None, *, dual: bool | None = None) -> Gram:
    """The cheaper form, or the dual one if `dual`; a penalty Ω has only the primal form."""
    n, p = data.X.shape
    if penalty is not None or not (p > n if dual is None else dual):
        root = None if penalty is not None else (data.scaled_x.T,)
        return Gram(cross(data.X * data.weights[:, None], data.X), root, jnp.zeros((), data.X.dtype), False)
    scaled = data.scaled_x
    lift = lax.stop_gradient(jnp.einsum("ij,ij->", scaled, scaled) / n)
    matrix = scaled @ scaled.T + lift * jnp.outer(data.unit, data.unit)
    return Gram(matrix, (scaled, jnp.sqrt(lift) * data.unit[:, None]), lift, True)


class Fit(NamedTuple):
    """Coefficients at one λ: `coef` (p, t), `dual` (n, t) in the dual form, and the factor they came from."""

    coef: Array
    dual: Array | None
    factor: Factor


def fit_one(data: Centred, Y: Array, matrix: Gram, lam: Array, penalty: Array | None) -> Fit:
    """Solve for targets Y (n, t) that share the scalar λ."""
    factor = factors.factorize(matrix.matrix, lam, penalty=penalty, root=matrix.root)
    if not matrix.dual:
        moments = cross(data.X, data.weights[:, None] * Y)
        coef = linalg.solve(factor, matrix.matrix, moments, lam, penalty, in_range=penalty is None)
        return Fit(coef if penalty is not None else without_zero_columns(data, coef, 0), None, factor)
    dual = linalg.solve(factor, matrix.matrix, data.root[:, None] * Y, lam)
    coef = cross(data.scaled_x, seen_part(factor, dual))
    return Fit(
        _with_weightless_rows(coef, data.weights, data.X, Y, data.root, lam, matrix.matrix, factor), dual, factor
    )


def seen_part(factor: Factor, dual: Array) -> Array:
    """The dual solution without directions in which the matrix is zero to working precision: no fit sees them."""
    seen = factor.basis @ jnp.where(factor.kept[:, None], cross(factor.basis, dual), 0)
    seen = lax.stop_gradient(jnp.where(jnp.all(factor.kept), dual, seen))
    return with_derivative_of(seen, dual)


def dual_left_out(matrix: Gram, factor: Factor, unit: Array, lam: Array) -> tuple[Array, Array]:
    """(1 − hᵢᵢ)/λ (n,) of the dual form, and the scale by which residuals over λ are basis (basisᵀy / scale).

    The common factor 1/λ leaves leave-one-out residuals what they are for λ → 0 and λ → ∞ too. nan marks a sample
    without which the problem cannot be solved to working precision.
    """
    eps = jnp.finfo(matrix.matrix.dtype).eps
    inverse = linalg.quad_diag(factor, matrix.matrix, None, lam)
    left = inverse - unit**2 / (matrix.lift + lam)
    # at λ = 0 directions that the fit cannot reach outweigh all others; at λ = ∞ all weigh the same
    lost = jnp.isinf(factor.scale) & (lam == 0)
    tiny = jnp.sqrt(eps) * jnp.min(factor.scale)
    scale = jnp.where(jnp.isinf(lam), 1, jnp.where(lost, tiny, factor.scale))
    left = left + factor.basis**2 @ jnp.where(lost, 1 / tiny, 0)
    left = jnp.where(left > 100 * eps * inverse, left, jnp.nan)
    return scale, jnp.where(jnp.isinf(lam), 1 - unit**2, left)


def without_zero_columns(data: Centred, coef: Array, otherwise: Any) -> Array:
    """`coef` with its value, not its derivative, replaced where a column of X is zero."""
    return with_derivative_of(jnp.where(data.empty[:, None], otherwise, coef), coef)


@jax.custom_jvp
def _with_weightless_rows(coef, weights, X, Y, root, lam, matrix, factor):
    """`coef`, with its derivative with respect to weights that are zero, which √v in the dual form hides.

    dw = (XᵀVX + λI)⁻¹ xᵢᵀ rᵢ dvᵢ, the inverse by way of the dual matrix. At λ = 0 a derivative does not exist (a new
    sample is interpolated at once, however small its weight), and none is added.
    """
    del weights, X, Y, root, lam, matrix, factor
    return coef


@_with_weightless_rows.defjvp
def _with_weightless_rows_jvp(primals, tangents):
    coef, weights, X, Y, root, lam, matrix, factor = primals
    dcoef, dweights, *_ = tangents
    pull = jnp.where((weights > 0)[:, None], 0, Y - X @ coef) * dweights[:, None]
    gradient = cross(X, pull)
    scaled = root[:, None] * X
    rest = gradient - cross(scaled, linalg.solve(factor, matrix, scaled @ gradient, lam, refine=False))
    scale = jnp.where(lam > 0, 1 / jnp.where(lam > 0, lam, 1), 0)
    return _with_weightless_rows(*primals), dcoef + scale * rest


def over_targets(fun, Y: Array, lam: Array):
    """`fun(Y, lam)` for a scalar λ; with one λ per target, over targets, the results with the target axis last."""
    if lam.ndim == 0:
        return fun(Y, lam)
    results = jax.vmap(lambda y, lam: fun(y[:, None], lam))(Y.T, lam)  # leaves (t, ..., 1)
    return jax.tree.map(lambda r: jnp.moveaxis(r[..., 0], 0, -1), results)


class Certificate(NamedTuple):
    """Pieces of the certificate, one number per target.

    Attributes:
        slope: maxⱼ |∇ⱼ|/‖xⱼ‖ at the returned point, which the scales of the columns leave alone.
        null_slope: the same at w = 0.
        gap: primal minus dual objective.
        null: the objective at w = 0.
        objective: at the returned point.
        status: a `Status`.
    """

    slope: Array
    null_slope: Array
    gap: Array
    null: Array
    objective: Array
    status: Array


def certificate(data: Centred, Y: Array, gradient: Array, gap: Array, objective: Array, status: Array) -> Certificate:
    """The certificate of a point with this gradient (p, t)."""
    size = jnp.sqrt(data.size)[:, None]
    unit = jnp.where(size > 0, 1 / jnp.where(size > 0, size, 1), 0)
    null_gradient = cross(data.X, data.weights[:, None] * Y)
    slope, null_slope = (jnp.max(jnp.abs(g) * unit, axis=0) for g in (gradient, null_gradient))
    null = squares(data, Y) / 2
    return Certificate(slope, null_slope, gap, null, objective, jnp.broadcast_to(status, null.shape))


def squares(data: Centred, columns: Array) -> Array:
    """Σᵢ vᵢ aᵢⱼ² for each column of (n, t)."""
    return jnp.einsum("i,ij,ij->j", data.weights, columns, columns)


def certify(data: Centred, Y: Array, matrix: Gram, fit: Fit, lam: Array, penalty: Array | None) -> Certificate:
    """Measure the optimality of `fit` at the point it returns."""
    residuals = Y - data.X @ fit.coef
    penalized = fit.coef if penalty is None else penalty @ fit.coef
    shrinkage = jnp.where(penalized == 0, 0, lam) * penalized  # also at λ = ∞
    pull = cross(data.X, data.weights[:, None] * residuals)
    gradient = jnp.where(jnp.isinf(lam), 0, pull - shrinkage)
    objective = (squares(data, residuals) + jnp.einsum("ij,ij->j", fit.coef, shrinkage)) / 2
    lost = (data.size == 0) & ~data.empty  # squares that underflow
    status = jnp.where(jnp.any(lost), Status.ILL_CONDITIONED, fit.factor.status)
    if matrix.dual:  # the duality gap of ridge is ‖∇‖²/2λ; at λ = 0 what is left is to be explained
        left = cross(fit.factor.basis, data.root[:, None] * residuals)
        explained = jnp.sum(jnp.where(jnp.isinf(fit.factor.scale)[:, None], 0, left**2), axis=0)
        gap = jnp.where(lam > 0, jnp.sum(gradient**2, axis=0) / jnp.where(lam > 0, lam, 1), explained) / 2
        status = jnp.where((lam == 0) & (status == Status.CONVERGED), Status.RANK_DEFICIENT, status)
    else:  # ½ ∇ᵀ(XᵀVX + λΩ)⁻¹∇, the distance of a quadratic to its minimum
        gap = jnp.sum(cross(fit.factor.basis, gradient) ** 2 / fit.factor.scale[:, None], axis=0) / 2
    return certificate(data, Y, gradient, gap, objective, status)


def worst(statuses: Array) -> Array:
    """The status of a fit with several targets: any failure before any remark."""
    failed = ~succeeded(statuses)
    return jnp.where(jnp.any(failed), jnp.max(jnp.where(failed, statuses, 0)), jnp.max(statuses)).astype(jnp.int32)


def summarize(
    samples: Samples,
    data: Centred,
    coef: Array,
    intercept: Array,
    lam: Array,
    certificate: Certificate,
    *,
    certified: bool = True,
) -> Solution:
    """The `Solution` of coefficients (p, t) with their certificate.

    A negative `lam` makes the lane INVALID; a large residual makes it ILL_CONDITIONED, unless the point is not meant to
    be a minimum (`certified=False`).
    """
    certificate = jax.tree.map(lax.stop_gradient, certificate)._replace(objective=certificate.objective)
    residual = jnp.max(relative(certificate.slope, certificate.null_slope))
    tolerance = float(jnp.finfo(coef.dtype).eps) ** 0.4
    status = worst(certificate.status)
    if certified:
        status = jnp.where(succeeded(status) & (residual > tolerance), Status.ILL_CONDITIONED, status)
    finite = jnp.all(jnp.isfinite(coef)) & jnp.isfinite(residual) & jnp.all(jnp.isfinite(certificate.objective))
    status = jnp.where(succeeded(status) & ~finite, Status.NON_FINITE, status)
    valid = data.valid & jnp.all(lam >= 0)
    coef, intercept = (jnp.where(valid, a, jnp.nan) for a in (coef, intercept))
    return Solution(
        params=samples.model(coef, intercept),
        status=jnp.where(valid, status, Status.INVALID).astype(jnp.int32),
        num_iter=jnp.zeros((), jnp.int32),
        residual=residual,
        gap=relative(jnp.sum(certificate.gap), jnp.sum(certificate.null)),
        objective=jnp.sum(certificate.objective),
    )
