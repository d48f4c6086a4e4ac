"""What a fit returns: the answer and its certificate."""

import enum
import operator
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeVar

import jax.numpy as jnp
import numpy as np
from jax import Array

from regjax.core.node import register_node

T = TypeVar("T")


class Status(enum.IntEnum):
    """How a lane ended. `Status(int(solution.status)).message` is the text of one lane."""

    CONVERGED = 0
    ITERATION_LIMIT = 1
    NON_FINITE = 2
    NOT_POSITIVE_DEFINITE = 3
    RANK_DEFICIENT = 4
    ILL_CONDITIONED = 5
    INVALID = 6
    DIVERGED = 7
    FLOOR = 8
    BOUNDARY = 9
    DROPPED = 10
    JITTERED = 11
    SEPARATED = 12

    @property
    def message(self) -> str:
        """What happened, and what to do about it."""
        return _MESSAGES[self]

    @property
    def succeeded(self) -> bool:
        """Whether the returned point is the answer."""
        return self in _SUCCEEDED


_MESSAGES = {
    Status.CONVERGED: "converged",
    Status.ITERATION_LIMIT: "the iteration limit was reached: raise max_iter or tol",
    Status.NON_FINITE: "a value is not finite: look for NaN or infinity in the data, or rescale it",
    Status.NOT_POSITIVE_DEFINITE: "a matrix is not positive definite: raise the regularization (the noise of a "
    "Gaussian process), or take a kernel that is positive definite",
    Status.RANK_DEFICIENT: "the columns are linearly dependent to working precision: the solution of minimum norm is "
    "returned, others fit as well",
    Status.ILL_CONDITIONED: "the problem is too ill-conditioned for this precision: rescale the columns, raise the "
    "regularization or use float64",
    Status.INVALID: "an argument is outside of its domain (a negative lam, weight or radius, all weights zero, "
    "or y that the loss does not take)",
    Status.DIVERGED: "the step is too large, the iterates grow: take a step below max_step",
    Status.FLOOR: "stopped where the precision allows no further progress, short of tol: see residual and gap, or "
    "use float64",
    Status.BOUNDARY: "the best value lies at the end of the range that was searched, or beyond: the model there is "
    "returned",
    Status.DROPPED: "not continued: another start led there or was ahead",
    Status.JITTERED: "the covariance is singular to working precision: its diagonal was raised by `jitter`, as if the "
    "noise were larger by that much",
    Status.SEPARATED: "the loss has no minimum, the coefficients grow without limit (classes that a plane separates, "
    "counts that are all zero): add a penalty, or remove what separates",
}
_SUCCEEDED = (Status.CONVERGED, Status.RANK_DEFICIENT, Status.BOUNDARY, Status.JITTERED)


def succeeded(status: Any) -> Any:
    """Whether a traced status says that the returned point is the answer, perhaps with a remark."""
    return reduce(operator.or_, [status == one for one in _SUCCEEDED])


def relative(value: Any, reference: Any) -> Any:
    """value / reference, or the value itself where the reference is zero: how residuals and gaps are stated."""
    return value / jnp.where(reference > 0, reference, 1)


def largest(values: Array) -> Array:
    """The largest of all; NaN if one is, which `jnp.max` of several long lanes at once forgets on CPU."""
    return jnp.where(jnp.any(jnp.isnan(values)), jnp.nan, jnp.max(values))


@register_node
@dataclass(frozen=True, eq=False)
class Solution:
    """A fitted model and its certificate, a pytree: under `vmap` every field has the lanes in front.

    Attributes:
        params: the model, a callable pytree: `params(X)` predicts.
        status: int32, a `Status`.
        num_iter: int32, iterations used (0 for a closed form, or what a path has read off the solutions beside).
        residual: relative optimality residual at the returned point.
        gap: relative duality gap at the returned point; nan where there is no usable dual.
        objective: value of the objective at the returned point.
        lam: the penalty strength that a constrained form corresponds to; None elsewhere.
    """

    params: Any
    status: Any
    num_iter: Any
    residual: Any
    gap: Any
    objective: Any
    lam: Any = None

    @property
    def converged(self) -> Any:
        """True where `params` is the answer, lane by lane (a rank-deficient answer is one)."""
        return succeeded(self.status)


class FitError(RuntimeError):
    """Raised by `check` when lanes have failed."""


def check(solution: T) -> T:
    """Return `solution` if every lane has converged, else raise `FitError` naming the lanes that have not.

    Call it outside `jit`; it reads the status back to the host.

    Example:
        >>> import jax.numpy as jnp, regjax
        >>> X, y = jnp.array([[0.0], [1.0], [2.0]]), jnp.array([1.0, 3.0, 5.0])
        >>> print(regjax.check(regjax.ols(X, y)).params.coef.round(4))
        [2.]
    """
    if not hasattr(solution, "status"):
        raise TypeError(f"check takes a Solution, got {type(solution).__name__}")
    status = np.asarray(solution.status)  # pyright: ignore[reportAttributeAccessIssue]
    lines = []
    for code in np.unique(status):
        if Status(int(code)).succeeded:
            continue
        lanes = np.argwhere(status == code)
        if status.ndim == 0:
            where = "the fit"
        else:
            shown = ", ".join(
                str(tuple(map(int, lane))) if status.ndim > 1 else str(int(lane[0])) for lane in lanes[:10]
            )
            more = f" and {len(lanes) - 10} more" if len(lanes) > 10 else ""
            where = f"{len(lanes)} of {status.size} lanes ({shown}{more})"
        lines.append(f"{where}: {Status(int(code)).name}: {Status(int(code)).message}")
    if lines:
        raise FitError("; ".join(lines))
    return solution
