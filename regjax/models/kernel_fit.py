"""Any loss in the space of a kernel: by the representer theorem, a linear model on a root of the Gram matrix."""

from typing import Any

import jax
import jax.numpy as jnp

from regjax.core.checks import check_strength, require
from regjax.core.factors import jittered_cholesky
from regjax.core.solution import Solution, Status, succeeded
from regjax.kernels.gram import indefinite
from regjax.losses import Loss
from regjax.models.fit import fit
from regjax.models.kernel_problem import KernelExpansion, check_kernel_samples
from regjax.penalties import L2


def kernel_fit(
    kernel: Any,
    X: Any,
    y: Any,
    loss: Loss,
    lam: Any,
    *,
    weights: Any = None,
    offset: Any = None,
    intercept: bool = False,
    tol: float | None = None,
    max_iter: int | None = None,
) -> Solution:
    r"""Minimise Σᵢ vᵢ ℓ(yᵢ, oᵢ + b + f(xᵢ)) + (λ/2)‖f‖² over the functions f of a kernel.

    The minimiser is f(z) = Σᵢ k(z, xᵢ) αᵢ. With K = LLᵀ and α = L⁻ᵀw the problem is that of `fit` on the design L with
    the penalty `L2(lam)`, whose certificate and derivatives are those of the answer. `kernel_ridge` is the closed form
    for `Squared`.

    Args:
        kernel: of `regjax.kernels`, or a function of two points.
        X: n points: (n, p), (n,) or a pytree of arrays with n in front.
        y: as the loss takes it.
        loss: from `regjax.losses`.
        lam: λ > 0, a scalar.
        weights: v (n,), non-negative; 1 if None. As in `kernel_ridge` the derivative in a weight of zero is given as 0.
        offset: o, of the shape of y; 0 if None.
        intercept: whether b, unpenalised, is fitted.
        tol, max_iter: as in `fit`.

    Returns:
        A `Solution` whose `params` is a `KernelExpansion`: `loss.mean(params(Z))` predicts. The status is JITTERED
        where K is singular to working precision, as with duplicates: its diagonal was raised to have a root.

    Example:
        >>> import jax.numpy as jnp, regjax
        >>> x = jnp.linspace(-3, 3, 40)
        >>> y = (jnp.abs(x) < 1).astype(float)  # no line separates these classes
        >>> model = regjax.kernel_fit(regjax.kernels.RBF(1.0), x, y, regjax.losses.Logistic(), 0.1).params
        >>> print(bool(jnp.all((model(x) > 0) == (y == 1))))
        True

    References:
        Schölkopf, Herbrich & Smola, A generalized representer theorem, COLT 2001.
    """
    samples = check_kernel_samples(kernel, X, y, weights)
    lam = check_strength("lam", lam, samples.Y.dtype)
    require(lambda a: a > 0, lam, message=f"lam must be positive, got {lam}: at 0 all functions that interpolate fit")
    lower, status = _root(samples.kernel, samples.X, samples.weights)
    weights = samples.weights if samples.weights is None else jnp.where(samples.weights == 0, 0, samples.weights)
    solution = fit(
        lower, samples.per_target(samples.Y), loss, L2(lam), weights=weights, offset=offset,
        intercept=intercept, tol=tol, max_iter=max_iter,
    )  # fmt: skip
    coef = jax.scipy.linalg.solve_triangular(lower, solution.params.coef, lower=True, trans=1)
    coef = jnp.where(succeeded(status), coef, jnp.nan)
    params = KernelExpansion(samples.kernel, samples.X, coef, solution.params.intercept)
    remark = (status == Status.JITTERED) & (solution.status == Status.CONVERGED)
    found = jnp.where(succeeded(status) & ~remark, solution.status, status)
    found = jnp.where(lam > 0, found, Status.INVALID).astype(jnp.int32)
    return Solution(params, found, solution.num_iter, solution.residual, solution.gap, solution.objective)


@jax.jit
def _root(kernel, X, weights):
    K = kernel.matrix(X)
    apart = K
    if weights is not None:  # samples of weight zero, which are copies of another, would make it singular
        present = weights > 0
        own = jnp.mean(jnp.diagonal(K)) * jnp.eye(len(K), dtype=K.dtype)
        apart = jnp.where(present[:, None] & present, K, own)
    lower, jitter, status = jittered_cholesky(apart)
    status = jnp.where((status == Status.CONVERGED) & (jitter > 0), Status.JITTERED, status)
    bad = indefinite(jnp.diagonal(K), None if kernel.positive_definite else K)
    status = jnp.where(bad, Status.NOT_POSITIVE_DEFINITE, status)
    return jnp.where(succeeded(status), lower, jnp.eye(len(K), dtype=K.dtype)), status  # so that `fit` has a design
