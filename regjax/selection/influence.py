"""What one sample weighs in a penalised fit: leverages, and with them degrees of freedom and the fit without it."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from regjax.core.linalg import solve_shifted
from regjax.models.general import Arguments, pose_task
from regjax.models.prepare import check_limits, check_offset
from regjax.models.problem import Linear, Samples
from regjax.penalties import L2Ball, Penalty, check_penalty, strength_axes
from regjax.selection.cross_validate import Settings, Study
from regjax.solvers.manifold import by_conjugate_gradients
from regjax.solvers.task import Task

DENSE = 1000  # unknowns up to which the Hessian is formed
ENTRIES = 2**24  # numbers in the arrays that are held at once


class Influence(NamedTuple):
    """The quadratic model of Σ vℓ + P at its minimum, seen sample by sample; with t predictors each.

    Attributes:
        eta: η (n, t).
        slope: vᵢ ∂ℓ/∂η (n, t).
        bend: vᵢ ∂²ℓ/∂η∂η (n, t, t).
        spread: zᵢ(ZᵀDZ + P″)⁻¹zᵢᵀ (n, t, t), with the intercept in Z and within the directions in which P is smooth.
    """

    eta: Array
    slope: Array
    bend: Array
    spread: Array

    @property
    def degrees_of_freedom(self) -> Array:
        """Σᵢ tr(spread · bend): the trace of the smoother, for ℓ1 penalties the rank of the active columns."""
        return jnp.einsum("ist,its->", self.spread, self.bend)

    def left_out(self) -> Array:
        """η of each sample after one Newton step without it (n, t): η + h vℓ′/(1 − h vℓ″).

        nan marks a sample that the fit cannot do without.
        """
        share = jnp.einsum("ist,itu->isu", self.spread, self.bend)
        pull = jnp.einsum("ist,it->is", self.spread, self.slope)
        t = self.eta.shape[1]
        if t == 1:
            left = 1 - share[:, 0]
            tiny = 10 * float(jnp.finfo(left.dtype).eps) ** 0.6
            return self.eta + pull / jnp.where(left < tiny, jnp.nan, left)
        return self.eta + jnp.linalg.solve(jnp.eye(t, dtype=share.dtype) - share, pull[..., None])[..., 0]


def influence(task: Task, penalty: Penalty, point: Array) -> Influence:
    """The influence of every sample at a solution, a point (p + 1, t) of the task."""
    eta = task.predictor(point)
    w = point[1:]
    n, t = eta.shape

    def bent_by(u):
        """The Hessian of the loss in η times u; not `press`, which may be a bound of it (`Huber`)."""
        return jax.jvp(task.slopes, (eta,), (u,))[1]

    def inside(u):
        return jnp.concatenate([task.one * u[:1], penalty.tangent(w, u[1:])])

    def apply(u):
        along = inside(u)
        image = task.pull(bent_by(task.image(along)))
        curved = jax.jvp(jax.grad(penalty.value), (w,), (along[1:],))[1]
        return inside(image.at[1:].add(curved)) + u - along

    def row(i, k):
        """zᵢ for the k-th predictor, along the directions that are free."""
        x = jnp.concatenate([task.one[None], task.X[i]])
        return inside(x[:, None] * (jnp.arange(t) == k))

    rows = jax.vmap(jax.vmap(row, (None, 0)), (0, None))(jnp.arange(n), jnp.arange(t))  # (n, t, p + 1, t)
    size = point.size
    if size <= DENSE:
        basis = jnp.eye(size, dtype=point.dtype).reshape(size, *point.shape)
        matrix = jax.vmap(apply)(basis).reshape(size, size)
        matrix = (matrix + matrix.T) / 2
        diagonal = jnp.diagonal(matrix)
        scale = 1 / jnp.sqrt(jnp.where(diagonal > 0, diagonal, 1))
        right = scale[:, None] * rows.reshape(n * t, size).T
        zero = jnp.zeros((), point.dtype)
        solved = (scale[:, None] * solve_shifted(matrix * scale[:, None] * scale, right, zero)).T
    else:
        solved = jax.vmap(lambda rhs: by_conjugate_gradients(apply, rhs, None))(rows.reshape(n * t, *point.shape))
    spread = jnp.einsum("isq,itq->ist", rows.reshape(n, t, size), solved.reshape(n, t, size))
    bend = jax.vmap(lambda k: bent_by(jnp.broadcast_to(k, eta.shape)), out_axes=-1)(jnp.eye(t, dtype=eta.dtype))
    return Influence(eta, task.slopes(eta), bend, spread)


def refuse_curved(penalties: Any) -> None:
    """Raise for a constraint whose boundary bends: its curvature is in no term of the quadratic model."""
    if isinstance(getattr(penalties, "penalty", penalties), L2Ball):
        raise ValueError("penalties takes the penalised form, L2, in place of L2Ball, whose boundary is curved")


def influence_of(samples: Samples, study: Study, settings: Settings, penalty: Any, model: Linear) -> Influence:
    """The influence of every sample on a model that was fitted with this penalty."""
    X = samples.X
    num_targets = jnp.size(model.intercept)
    trailing = () if samples.single else (num_targets,)
    penalty = check_penalty(penalty, samples.structure, trailing, X.dtype)
    limits = check_limits(study.lower, study.upper, samples.structure, trailing, X.dtype)
    offset = jnp.broadcast_to(jnp.asarray(check_offset(study.offset, samples), X.dtype), (len(X), num_targets))
    arguments = Arguments(X, samples.Y, offset, samples.weights, study.loss, penalty, limits)
    task, penalty, data, size = pose_task(arguments, settings.intercept, settings.standardize)
    coef = samples.structure.ravel(model.coef, trailing).reshape(-1, num_targets) * size[:, None]
    first = jnp.reshape(model.intercept, (1, num_targets)) + data.mean_x @ coef
    return influence(task, penalty, jnp.concatenate([first, coef]))


def along_path(
    function: Callable[[Influence], Any], samples: Samples, study: Study, settings: Settings, params: Linear
) -> Any:
    """`function` of the influence at every penalty of a grid, given the models (L,) that were fitted with them."""
    leaves, treedef = jax.tree.flatten(study.penalties, is_leaf=lambda leaf: leaf is None)
    axes = jax.tree.leaves(strength_axes(study.penalties), is_leaf=lambda leaf: leaf is None)
    varying = {i: jnp.asarray(leaf) for i, (leaf, axis) in enumerate(zip(leaves, axes, strict=True)) if axis == 0}

    def one(values):
        varying, model = values
        penalty = jax.tree.unflatten(treedef, [varying.get(i, leaf) for i, leaf in enumerate(leaves)])
        return function(influence_of(samples, study, settings, penalty, model))

    count = len(params.intercept)
    num_targets = params.intercept[0].size
    unknowns = (samples.X.shape[1] + 1) * num_targets
    together = ENTRIES // (unknowns * (unknowns + len(samples.X) * num_targets))
    return lax.map(one, (varying, params), batch_size=max(min(together, count), 1))
