"""Nadaraya–Watson: local averages with a kernel as weights, their exact leave-one-out error, and the bandwidth."""

import math
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from regjax.core.linalg import solve_shifted
from regjax.core.node import register_node
from regjax.core.products import cross
from regjax.core.solution import Solution, Status
from regjax.core.tree import ravel_design
from regjax.kernels.gram import check_points, over_blocks
from regjax.kernels.kernel import Kernel, centred
from regjax.models.kernel_problem import KernelSamples, check_kernel_samples, where_defined
from regjax.solvers.smooth import lbfgs

BLOCK = 2**22  # kernel values that are held at a time


@register_node
@dataclass(frozen=True, eq=False)
class NadarayaWatson:
    """The function f(z) = Σᵢ k(z, xᵢ) vᵢ yᵢ/Σᵢ k(z, xᵢ) vᵢ, a callable pytree.

    Attributes:
        kernel: k.
        points: xᵢ, n of them.
        values: yᵢ (n,) or (n, t).
        log_weights: log vᵢ (n,).
        local_linear: whether a line is fitted about z instead of a constant.
    """

    kernel: Kernel
    points: Any
    values: Array
    log_weights: Array
    local_linear: bool = field(default=False, metadata={"static": True})

    def __call__(self, Z: Any) -> Array:
        """f at m points: (m,) or (m, t), by blocks of points."""
        points, Z = check_points(self.points, Z)
        averages = _averages(self.kernel, points, _columns(self.values), self.log_weights, Z, None, self.local_linear)
        return averages.reshape(len(averages), *self.values.shape[1:])


def _columns(values: Array) -> Array:
    return values.reshape(len(values), -1)


def nadaraya_watson(kernel: Any, X: Any, y: Any, *, weights: Any = None, local_linear: bool = False) -> NadarayaWatson:
    r"""Nadaraya–Watson regression: at z, the average of y with weights k(z, xᵢ).

    f(z) = argmin_a Σᵢ k(z, xᵢ) vᵢ (yᵢ − a)², or with `local_linear` the a of argmin_{a,b} Σᵢ k(z, xᵢ) vᵢ (yᵢ − a −
    bᵀ(xᵢ − z))², of minimum norm b where the points in reach do not determine it. The weights are normalised as
    logarithms: far from the data, where k(z, xᵢ) is zero in floating point, f is what the ratios say, such as the
    value of the nearest sample under `RBF`.

    Args:
        kernel: of `regjax.kernels`, or a function of two points: non-negative. An amplitude makes no difference. Of a
            function the logarithm is not known: where all its values are zero the answer is nan.
        X: n points: (n, p), (n,) or a pytree of arrays with n in front.
        y: (n,) or (n, t).
        weights: v (n,), non-negative; 1 if None.
        local_linear: whether lines are fitted, which removes the bias at the boundary.

    Returns:
        A `NadarayaWatson`: called with points it predicts.

    Example:
        >>> import jax.numpy as jnp, regjax
        >>> model = regjax.nadaraya_watson(regjax.kernels.RBF(0.1), jnp.array([0.0, 1.0]), jnp.array([2.0, 4.0]))
        >>> print(model(jnp.array([0.5, 100.0])))
        [3. 4.]

    References:
        Nadaraya, Theory Probab. Appl. 9 (1964). Watson, Sankhyā A 26 (1964). Fan & Gijbels, Local Polynomial Modelling
        and Its Applications, Chapman & Hall 1996.
    """
    kernel, X, Y, logs, single = _prepared(check_kernel_samples(kernel, X, y, weights))
    return NadarayaWatson(kernel, X, Y[:, 0] if single else Y, logs, local_linear)


class LeaveOneOut(NamedTuple):
    """Leave-one-out residuals, of the shape of y, and their mean square Σ v e²/Σ v, a scalar or (t,)."""

    residuals: Array
    score: Array


def nadaraya_watson_loo(kernel: Any, X: Any, y: Any, *, weights: Any = None, local_linear: bool = False) -> LeaveOneOut:
    r"""Exact leave-one-out residuals of `nadaraya_watson`: yᵢ minus the average of the others about xᵢ.

    Differentiable with respect to the hyperparameters of the kernel; the n×n matrix is never held. A sample of weight
    zero has its ordinary residual, and no part in the score.

    Args:
        kernel, X, y, weights, local_linear: as in `nadaraya_watson`.

    Returns:
        A `LeaveOneOut` of residuals and score.

    Example:
        >>> import jax, jax.numpy as jnp, regjax
        >>> x = jnp.linspace(0, 6, 50)
        >>> y = jnp.sin(x) + 0.3 * jax.random.normal(jax.random.key(0), (50,))
        >>> score = lambda s: regjax.nadaraya_watson_loo(regjax.kernels.RBF(s), x, y).score
        >>> print(jax.vmap(score)(jnp.array([0.03, 0.3, 3.0])).argmin())
        1
    """
    samples = check_kernel_samples(kernel, X, y, weights)
    kernel, X, Y, logs, single = _prepared(samples)
    averages = partial(_averages, kernel, X, Y, logs, own=jnp.arange(len(Y)), local_linear=local_linear)
    residuals = samples.Y - where_defined(averages, samples.given, X)
    score = _mean_square(residuals, logs)
    return LeaveOneOut(residuals[:, 0], score[0]) if single else LeaveOneOut(residuals, score)


def nadaraya_watson_fit(
    kernel: Any,
    X: Any,
    y: Any,
    *,
    weights: Any = None,
    local_linear: bool = False,
    num: int = 21,
    tol: float | None = None,
    max_iter: int = 50,
) -> Solution:
    r"""`nadaraya_watson` with the scales of the kernel chosen by the exact leave-one-out error.

    First all scales together, over a grid of factors from 1/30 to 30 times what they are; then each, one per input too,
    by L-BFGS on the logarithm of the error.

    Args:
        kernel: with at least one hyperparameter of the name `scale`.
        X, y, weights, local_linear: as in `nadaraya_watson`. With t targets their mean error counts.
        num: factors to try; 1 tries the scales as they are.
        tol: the largest derivative of log error in log scale at which to stop; by dtype if None.
        max_iter: of L-BFGS.

    Returns:
        A `Solution`: `params` is the `NadarayaWatson`, whose `kernel` has the scales that were chosen, `objective` the
        leave-one-out error, `residual` the derivative. The status is BOUNDARY where the best scale is at the end of the
        grid or beyond, as for data without any signal.

    Example:
        >>> import jax, jax.numpy as jnp, regjax
        >>> x = jnp.linspace(0, 6, 50)
        >>> y = jnp.sin(x) + 0.3 * jax.random.normal(jax.random.key(0), (50,))
        >>> fit = regjax.nadaraya_watson_fit(regjax.kernels.RBF(1.0), x, y)
        >>> print(bool(0.1 < fit.params.kernel.scale < 1), bool(fit.converged))
        True True

    References:
        Härdle & Marron, Optimal bandwidth selection in nonparametric regression function estimation, Ann. Statist. 13
        (1985).
    """
    kernel, X, Y, logs, single = _prepared(check_kernel_samples(kernel, X, y, weights))
    paths = jax.tree_util.tree_flatten_with_path(kernel)[0]
    named = tuple(getattr(path[-1], "name", None) == "scale" for path, _ in paths)
    if not any(named):
        raise ValueError(f"kernel has no hyperparameter of the name scale to choose, got {type(kernel).__name__}")
    if num < 1:
        raise ValueError(f"num must be at least 1, got {num}")
    tol = float(jnp.finfo(Y.dtype).eps) ** 0.4 if tol is None else tol
    kernel, *certificate = _choose(kernel, X, Y, logs, named, local_linear, num, tol, max_iter)
    status, num_iter, residual, objective = certificate
    model = NadarayaWatson(kernel, X, Y[:, 0] if single else Y, logs, local_linear)
    return Solution(model, status, num_iter, residual, jnp.full_like(residual, jnp.nan), objective)


def _prepared(samples: KernelSamples):
    """The kernel, points, Y (n, t), log v (n,), and whether y was (n,)."""
    Y = samples.Y
    if samples.weights is None:
        return samples.kernel, samples.X, Y, jnp.zeros(len(Y), Y.dtype), samples.single
    present = samples.weights > 0
    logs = jnp.where(present, jnp.log(jnp.where(present, samples.weights, 1)), -jnp.inf)
    logs = jnp.where(samples.weights >= 0, logs, jnp.nan)
    return samples.kernel, samples.X, jnp.where(present[:, None], Y, 0), logs, samples.single


@partial(jax.jit, static_argnames="local_linear")
def _averages(kernel, X, Y, log_weights, Z, own, local_linear):
    """f at the points Z (m, t), without sample own[i] at point i unless it is None."""
    n = len(Y)
    flat = ravel_design(X)[0]

    @jax.checkpoint  # the derivative computes a block again rather than keep them all
    def block(queries):
        points, own = queries
        logs = kernel.log_matrix(points, X) + log_weights
        if own is not None:
            logs = jnp.where(own[:, None] == jnp.arange(n), -jnp.inf, logs)
        shares = jax.nn.softmax(logs, axis=1)
        if not local_linear:
            return shares @ Y
        places, samples = centred(ravel_design(points)[0], flat)
        return jax.vmap(line, (0, 0, None))(shares, places, samples)

    def line(shares, z, flat):
        middle_x, middle_y = shares @ flat, shares @ Y
        apart = flat - middle_x
        weighted = shares[:, None] * apart
        slopes = solve_shifted(cross(weighted, apart), cross(weighted, Y - middle_y), 0.0)
        return middle_y + (z - middle_x) @ slopes

    m = len(jax.tree.leaves(Z)[0])
    width = n * (1 + (flat.shape[1] if local_linear else 0))
    return over_blocks(block, (Z, own), max(1, min(m, BLOCK // width)))


def _mean_square(residuals, log_weights):
    present = log_weights > -jnp.inf
    v = jnp.where(present, jnp.exp(log_weights), 0)
    return v @ jnp.where(present[:, None], residuals, 0) ** 2 / jnp.sum(v)


@partial(jax.jit, static_argnames=("named", "local_linear", "num", "tol", "max_iter"))
def _choose(kernel, X, Y, logs, named, local_linear, num, tol, max_iter):
    leaves, treedef = jax.tree.flatten(kernel)
    start = jnp.concatenate([jnp.log(leaf).ravel() for leaf, is_scale in zip(leaves, named, strict=True) if is_scale])
    start = start.astype(Y.dtype)
    own = jnp.arange(len(Y))

    def rebuild(scales):
        new, place = [], 0
        for leaf, is_scale in zip(leaves, named, strict=True):
            if is_scale:
                leaf, place = jnp.exp(scales[place : place + leaf.size]).reshape(leaf.shape), place + leaf.size
            new.append(leaf)
        return jax.tree.unflatten(treedef, new)

    def score(scales):
        residuals = Y - _averages(rebuild(scales), X, Y, logs, X, own, local_linear)
        return jnp.log(jnp.mean(_mean_square(residuals, logs)))

    end = math.log(30.0) if num > 1 else 0.0
    factors = jnp.linspace(-end, end, num, dtype=Y.dtype)
    scores = jax.lax.map(lambda factor: score(start + factor), factors)
    best = jnp.argmin(jnp.where(jnp.isnan(scores), jnp.inf, scores))
    result = lbfgs(score, start + factors[best], tol=tol, max_iter=max_iter)
    kernel, objective = rebuild(result.state[0]), jnp.exp(score(result.state[0]))
    finite = jnp.isfinite(objective)
    moved = jnp.max(jnp.abs(result.state[0] - start))  # L-BFGS may come back from an end of the grid
    at_end = ((best == 0) | (best == num - 1)) & (moved >= 0.99 * math.log(30.0)) & finite
    status = jnp.where(at_end, Status.BOUNDARY, result.status)
    status = jnp.where(finite, status, Status.NON_FINITE).astype(jnp.int32)
    return kernel, status, result.num_iter, result.error, objective
