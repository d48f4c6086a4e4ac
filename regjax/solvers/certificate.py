"""The certificate of a penalised least squares problem: how far a point is from optimal, whatever found it."""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from regjax.core.implicit import with_derivative_of
from regjax.core.krylov import conjugate_gradients
from regjax.core.loop import iterate
from regjax.core.products import cross, symmetric_product
from regjax.core.solution import largest, relative
from regjax.penalties import Box, Limited, NonNegative, Penalty
from regjax.penalties.elementary import rounding
from regjax.penalties.separable import Separable


class Problem(NamedTuple):
    """Minimise ½‖Y − XW‖² + P(W) over W (p, t): what every solver is given.

    Attributes:
        X: (n, p), rows multiplied by √v and columns centred where there is an intercept.
        Y: (n, t), likewise.
        null: half the null deviance, ½‖Y − XW₀‖² at the best W₀ that P does not charge.
        null_slope: max |Xᵀ(Y − XW₀)|, or max |XᵀY| where P charges nothing.
    """

    X: Array
    Y: Array
    null: Array
    null_slope: Array


class Columns(NamedTuple):
    """X (n, p) and Y (n, t), made ready for a solver."""

    X: Array
    Y: Array

    def moments(self) -> "Moments":
        """The inner products, with those of the first target."""
        y = self.Y[:, 0]
        return Moments(symmetric_product(self.X, self.X), y @ self.X, y @ y)

    def certify(self, penalty: Penalty, W: Array) -> "Certificate":
        """Measure optimality at W (p, t)."""
        return certify(pose(self.X, self.Y, penalty), penalty, W)


class Moments(NamedTuple):
    """The inner products of the columns with each other, with one target, and of the target with itself.

    Enough to solve and, in double precision, to certify: the gap is a sum of terms that are not negative here too, and
    what the rounding of the inner products hides from it is added.
    """

    gram: Array
    cross: Array
    energy: Array

    def moments(self) -> "Moments":
        """These."""
        return self

    def certify(self, penalty: Penalty, W: Array) -> "Certificate":
        """Measure optimality at W (p, 1), as `certify` does from the columns."""
        y = self.cross[:, None]

        def beyond_free(point):
            """The step over coefficients that are not charged to the best fit, and the correlations there."""
            pull = y - self.gram @ point
            eps = float(jnp.finfo(pull.dtype).eps)

            def normal(u):
                along = penalty.unpenalised(u)
                return penalty.unpenalised(self.gram @ along) + u - along

            free = penalty.unpenalised(pull)
            step = conjugate_gradients(normal, free, tol=eps, max_iter=min(2 * free.size, 1000))
            step = penalty.unpenalised(step)
            return pull, step, pull - self.gram @ step

        _, null_step, null_pull = beyond_free(jnp.zeros_like(W))
        left = jnp.maximum(self.energy - jnp.sum(null_step * (y + null_pull)), 0)
        null, null_slope = _units(left, self.energy, null_pull, y)
        pull, step, image = beyond_free(W)
        distance = largest(penalty.distance(W, pull))
        squares = self.residual_squares(W, pull)

        def misfit(scale):
            bend = 2 * (1 - scale) * jnp.sum(pull * step) + scale * jnp.sum(step * (self.gram @ step))
            return ((1 - scale) ** 2 * squares + scale * bend) / 2

        gap = least_gap(penalty, W, image, null_slope, misfit)
        # a solver on the same inner products makes them agree with W beyond what they say about the columns
        size = jnp.sqrt(jnp.diag(self.gram))[:, None]
        length, eps = jnp.sum(size * jnp.abs(W)), float(jnp.finfo(W.dtype).eps)
        gap, distance = gap + eps * length**2, distance + eps * jnp.max(size) * length
        return Certificate(gap, null, distance, null_slope)

    def residual_squares(self, W: Array, pull: Array) -> Array:
        """‖y − XW‖² at W (p, 1) with its correlations."""
        return jnp.maximum(self.energy - jnp.sum(W * (self.cross[:, None] + pull)), 0)


class Certificate(NamedTuple):
    """How good a point is: a relative duality gap and a relative optimality residual, each as a fraction.

    Attributes:
        gap: the duality gap; nan where there is no usable dual.
        null: half the null deviance.
        distance: the largest distance of Xᵀ(Y − XW) to ∂P(W).
        null_slope: the largest slope at the null model, or at 0 where nothing is charged.
    """

    gap: Array
    null: Array
    distance: Array
    null_slope: Array

    @property
    def relative_gap(self) -> Array:
        """The gap over half the null deviance; the gap itself where that is 0."""
        return relative(self.gap, self.null)

    @property
    def residual(self) -> Array:
        """The distance over the slope of the null model; the distance itself where that is 0."""
        return relative(self.distance, self.null_slope)

    @property
    def error(self) -> Array:
        """What `tol` is compared with: the relative gap, or the residual where there is no gap."""
        return jnp.where(jnp.isnan(self.gap), self.residual, self.relative_gap)

    def over_targets(self) -> "Certificate":
        """One certificate of problems that were solved apart, from theirs along the first axis."""
        return Certificate(self.gap.sum(), self.null.sum(), self.distance.max(), self.null_slope.max())


def pose(X: Array, Y: Array, penalty: Penalty) -> Problem:
    """The problem with its null model."""
    left, pull = orthogonal_to(X, Y, penalty.unpenalised)
    return Problem(X, Y, *_units(jnp.sum(left**2), jnp.sum(Y**2), pull, cross(X, Y)))


def _units(left: Array, energy: Array, pull: Array, first: Array) -> tuple[Array, Array]:
    """What gaps and slopes are measured in: those of the null model, from its squares and correlations.

    Free columns that interpolate leave rounding, which is no unit: then it is 0. Where all are free, rounding is what
    is left of the correlations: then the unit is what they were before.
    """
    nothing = left <= rounding(left) ** 2 * energy
    slope, before = (jnp.max(jnp.abs(a)) for a in (pull, first))
    slope = jnp.where(slope <= rounding(slope) * before, before, slope)
    return jnp.where(nothing, 0, left / 2), jnp.where(nothing, 0, slope)


def orthogonal_to(X: Array, residuals: Array, free: Callable[[Array], Array]) -> tuple[Array, Array]:
    """What is left of the residuals beyond X times the directions that `free` projects onto, and Xᵀ times that.

    A dual point must be orthogonal to what the penalty does not charge. Conjugate gradients on the least squares
    problem take no step, and cost one product with X, where there is nothing.
    """

    def step(state):
        left, pull, direction = state
        energy = jnp.sum(free(pull) ** 2)
        image = X @ direction
        length = energy / jnp.where(energy > 0, jnp.sum(image**2), 1)
        left = left - jnp.where(energy > 0, length, 0) * image
        pull = cross(X, left)
        along = free(pull)
        new = jnp.sum(along**2)
        return (left, pull, along + new / jnp.where(energy > 0, energy, 1) * direction), jnp.sqrt(new)

    pull = cross(X, residuals)
    along = free(pull)
    start = (residuals, pull, along)
    tol = float(jnp.finfo(X.dtype).eps) * jnp.sqrt(jnp.sum(pull**2))
    result = iterate(step, start, tol=tol, max_iter=1000, patience=50, error=jnp.sqrt(jnp.sum(along**2)))
    return result.state[0], result.state[1]


def null_pull(X: Array, Y: Array, penalty: Penalty) -> Array:
    """Xᵀ(Y − XW₀) at the null model; differentiable, through the normal equations of the free columns."""
    fixed = lax.stop_gradient(penalty)
    _, pull = orthogonal_to(*lax.stop_gradient((X, Y)), fixed.unpenalised)

    def normal(u):
        along = penalty.unpenalised(u)
        return penalty.unpenalised(cross(X, X @ along)) + u - along

    def solve(matvec, rhs):
        eps = float(jnp.finfo(rhs.dtype).eps)
        return conjugate_gradients(matvec, rhs, tol=eps**0.9, max_iter=min(4 * rhs.size, 1000))

    null = lax.custom_linear_solve(normal, penalty.unpenalised(cross(X, Y)), solve, symmetric=True)
    return with_derivative_of(pull, cross(X, Y - X @ penalty.unpenalised(null)))


def certify(problem: Problem, penalty: Penalty, W: Array) -> Certificate:
    """Measure optimality at W.

    With r = Y − XW and the dual point θ = s·r, s as large as the domain of P* allows, the gap is
    ½‖r − θ‖² + P(W) + P*(Xᵀθ) − ⟨W, Xᵀθ⟩: a sum of terms that are not negative, which holds in float32 where the
    difference of two objectives does not. Where a limit without a strength leaves no multiple of r in that domain, θ is
    a multiple of a point near r, see `within_open_limits`.
    """
    X, Y, null, null_slope = problem
    residuals = Y - X @ W
    pull = cross(X, residuals)
    distance = largest(penalty.distance(W, pull))
    if not penalty.convex:
        return Certificate(jnp.full_like(distance, jnp.nan), null, distance, null_slope)
    dual, image = orthogonal_to(X, residuals, penalty.unpenalised)
    if isinstance(penalty, Box | NonNegative | Limited):
        dual, image = lax.cond(
            penalty.dual_scale(image) == 0,
            lambda: within_open_limits(problem, penalty, W, dual, image),
            lambda: (dual, image),
        )
    gap = least_gap(penalty, W, image, null_slope, lambda scale: jnp.sum((residuals - scale * dual) ** 2) / 2)
    return Certificate(gap, null, distance, null_slope)


def least_gap(penalty: Penalty, W: Array, image: Array, unit: Array, misfit: Callable[[Array], Array]) -> Array:
    """misfit(s) + P(W) + P*(sz) − ⟨W, sz⟩ for z = Xᵀθ and the largest s in the domain of P*; nan if that is 0.

    Limits put no end to that domain, but P* counts what a slope is beyond its strength times the way to the limit: with
    limits far away rounding is much. So the s is tried as well at which no coefficient between its limits is pulled
    beyond its strength, and what pulls one without a strength by the rounding of `unit`, the largest slope at the null
    model, counts as 0.
    """
    if isinstance(penalty, Box | NonNegative | Limited):
        idle = penalty.terms(W).unpenalised & (jnp.abs(image) <= rounding(image) * unit)
        image = jnp.where(idle, 0, image)
    scale = penalty.dual_scale(image)
    gap = misfit(scale) + penalty.slack(W, scale * image)
    if isinstance(penalty, Box | NonNegative | Limited):
        shorter = jnp.minimum(scale, penalty.inner_scale(W, image))
        gap = jnp.minimum(gap, misfit(shorter) + penalty.slack(W, shorter * image))
    return jnp.where(scale > 0, gap, jnp.nan)


def within_open_limits(
    problem: Problem, penalty: Separable, W: Array, dual: Array, image: Array
) -> tuple[Array, Array]:
    """A dual point near the given one, and Xᵀ times it, that does not pull an unpenalised coefficient without an end.

    For w ≥ 0 that is Xᵀθ ≤ 0. At the solution Xᵀθ is 0 on the support; so θ is made orthogonal to the columns of the
    support, and to those that it still pulls, until it pulls none: a point that is orthogonal to all of them is left in
    the end. What is below the rounding of the gradients of this problem counts as 0.
    """
    X, _, _, unit = problem
    terms = penalty.terms(W)
    up, down = (terms.unpenalised & ~terms.free & jnp.isinf(end) for end in (terms.upper, terms.lower))
    slip = rounding(X) * unit

    def pulled(image):
        return (up & (image > slip)) | (down & (image < -slip))

    def more(state):
        held, dual, image, _ = state
        held |= pulled(image)
        dual, image = orthogonal_to(X, dual, lambda u: jnp.where(held | terms.free, u, 0))
        return held, dual, image, jnp.any(pulled(image) & ~held)

    none = jnp.zeros(W.shape, bool)
    _, dual, image, _ = lax.while_loop(lambda state: state[-1], more, (none, dual, image, jnp.array(True)))
    image = jnp.where(up & (image <= slip), jnp.minimum(image, 0), image)
    return dual, jnp.where(down & (image >= -slip), jnp.maximum(image, 0), image)
