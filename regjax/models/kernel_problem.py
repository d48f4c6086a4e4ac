"""A kernel problem made ready: checked, weighted, its mean profiled out; and the function that comes out of it."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from regjax.core import factors, linalg
from regjax.core.factors import Factor
from regjax.core.node import register_node
from regjax.core.solution import Solution, Status
from regjax.kernels.gram import blocked_product, check_kernel, check_points, indefinite
from regjax.kernels.kernel import Kernel
from regjax.models.penalized import Gram, seen_part
from regjax.models.problem import check_samples


@register_node
@dataclass(frozen=True, eq=False)
class KernelExpansion:
    """The function f(z) = b + Σᵢ k(z, xᵢ) αᵢ, a callable pytree.

    Attributes:
        kernel: k.
        points: xᵢ, n of them.
        coef: α (n,) or (n, t).
        intercept: b, a scalar or (t,); zero without an unpenalised mean.
    """

    kernel: Kernel
    points: Any
    coef: Array
    intercept: Array

    def __call__(self, Z: Any) -> Array:
        """f at m points: (m,) or (m, t), by blocks of points."""
        try:
            points, Z = check_points(self.points, Z)
        except ValueError as error:
            hint = "a batch of models is called with jax.vmap(lambda model, Z: model(Z), (0, None))(params, Z)"
            raise ValueError(f"{error} ({hint})") from error
        return self.intercept + blocked_product(self.kernel, Z, points, self.coef)


class KernelSamples(NamedTuple):
    """Checked arguments of a kernel model.

    Attributes:
        kernel: with arrays for hyperparameters.
        X: a pytree of n points; those of weight zero are copies of another. given: the points as they were given.
        Y: (n, t). weights: (n,) or None. single: whether y was (n,).
    """

    kernel: Kernel
    X: Any
    given: Any
    Y: Array
    weights: Array | None
    single: bool

    def per_target(self, values: Array) -> Array:
        """(..., t) as (...,) where y was (n,)."""
        return values[..., 0] if self.single else values


def check_kernel_samples(kernel: Any, X: Any, y: Any, weights: Any = None) -> KernelSamples:
    """Check the arguments of a kernel model; raises `ValueError` with the argument's name."""
    samples = check_samples(X, y, weights)
    kernel = check_kernel(kernel, samples.X.dtype)
    points, _ = check_points(X)
    given = points = jax.tree.map(lambda a: a.astype(samples.X.dtype), points)
    if samples.weights is not None:
        # samples of weight zero may hold anything: in their place is a point where the kernel is known to be defined
        present = samples.weights > 0
        rows = jnp.where(present, jnp.arange(len(present)), jnp.argmax(present))
        points = jax.tree.map(lambda a: a[rows], points)
    return KernelSamples(kernel, points, given, samples.Y, samples.weights, samples.single)


def where_defined(function, X: Any, instead: Any) -> Array:
    """`function` (n, t) of the points X, nan where a point is not finite, with derivatives that are finite there."""
    finite = [jnp.all(jnp.isfinite(a.reshape(len(a), -1)), axis=1) for a in jax.tree.leaves(X)]
    defined = jnp.all(jnp.array(finite), axis=0)

    def replaced(a, b):
        return jnp.where(defined.reshape(-1, *(1,) * (a.ndim - 1)), a, b)

    return jnp.where(defined[:, None], function(jax.tree.map(replaced, X, instead)), jnp.nan)


class Centred(NamedTuple):
    """A kernel problem with weights in and the mean profiled out: (G + λI) c = ỹ, α = √v c.

    Attributes:
        K: the Gram matrix of the points (n, n).
        gram: G = H√v K √vH, with H the projection off the direction of the mean. That direction and samples of weight
            zero, in which ỹ is zero, are lifted off zero by the average of the diagonal.
        Y: ỹ = H√v y (n, t).
        raw: y (n, t), 0 where the weight is.
        weights: v (n,). root: √v. unit: √(v/Σv), zero without a mean. total: Σv.
        status: whether the weights are valid and the kernel positive semidefinite.
    """

    K: Array
    gram: Gram
    Y: Array
    raw: Array
    weights: Array
    root: Array
    unit: Array
    total: Array
    status: Array

    def mean_of(self, coef: Array) -> Array:
        """b (t,) for α (n, t)."""
        flat = jnp.any(self.unit > 0)
        return jnp.where(flat, self.weights @ (self.raw - self.K @ coef) / self.total, 0)


def center(kernel: Kernel, X: Any, Y: Array, weights: Array | None, intercept: bool) -> Centred:
    """Weight and centre, so that samples of weight zero have no influence, whatever they hold."""
    return center_gram(kernel.matrix(X), kernel.positive_definite, Y, weights, intercept)


def center_gram(K: Array, definite: bool, Y: Array, weights: Array | None, intercept: bool) -> Centred:
    """`center` from the Gram matrix; `definite` says whether it is known to be positive semidefinite."""
    n = len(Y)
    v = jnp.ones(n, Y.dtype) if weights is None else weights
    if weights is not None:
        Y = jnp.where((v > 0)[:, None], Y, 0)
    positive = v > 0
    root = jnp.where(positive, jnp.sqrt(jnp.where(positive, v, 1)), 0)
    total = jnp.sum(v)
    unit = root / jnp.sqrt(total) if intercept else jnp.zeros_like(root)
    matrix = K if weights is None else root[:, None] * K * root
    targets = root[:, None] * Y
    if intercept:
        row = unit @ matrix
        matrix = matrix - jnp.outer(unit, row) - jnp.outer(row, unit) + (row @ unit) * jnp.outer(unit, unit)
        targets = targets - jnp.outer(unit, unit @ targets)
    average = lax.stop_gradient(jnp.trace(matrix) / jnp.maximum(jnp.sum(positive), 1))
    if intercept:
        matrix = matrix + average * jnp.outer(unit, unit)
    if weights is not None:
        matrix = matrix + average * jnp.diag(jnp.where(positive, 0.0, 1.0).astype(Y.dtype))
    bad = indefinite(jnp.diagonal(K), None if definite else K)
    status = jnp.where(bad, Status.NOT_POSITIVE_DEFINITE, Status.CONVERGED)
    status = jnp.where(jnp.all(v >= 0) & jnp.any(v > 0), status, Status.INVALID).astype(jnp.int32)
    return Centred(K, Gram(matrix, None, average, True), targets, Y, v, root, unit, total, status)


class Fit(NamedTuple):
    """c (n, t) at one λ, the part of it that the function sees, and the factor they came from."""

    dual: Array
    seen: Array
    factor: Factor


def fit_one(data: Centred, Y: Array, lam: Array) -> Fit:
    """Solve (G + λI) c = ỹ for targets (n, t) that share the scalar λ."""
    factor = factors.factorize(data.gram.matrix, lam)
    dual = linalg.solve(factor, data.gram.matrix, Y, lam)
    return Fit(dual, seen_part(factor, dual), factor)


def expansion(samples: KernelSamples, coef: Array, b: Array, status, residual, gap, objective) -> Solution:
    """The `Solution` of coefficients (n, t) in the shapes of the arguments."""
    params = KernelExpansion(samples.kernel, samples.X, samples.per_target(coef), samples.per_target(b))
    return Solution(params, status, jnp.zeros((), jnp.int32), residual, gap, objective)
