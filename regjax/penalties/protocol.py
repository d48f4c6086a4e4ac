"""What a penalty is."""

from typing import Protocol

from jax import Array
from jax.typing import ArrayLike


class Penalty(Protocol):
    r"""A penalty P(w) of coefficients w, (p,) or (p, t) with one column per target.

    With t targets every penalty but `MultiTask` is the sum of the same penalty of each column.

    Three rules hold for all of them. A factor of 0 leaves its coefficients *unpenalised*: `free` names them, and
    `conjugate`, `slack`, `dual_scale` and `dual_norm` ignore their z, which the caller keeps at 0 by fitting them. A
    factor of inf *excludes* coefficients: they are 0, and P is finite there. NaN in w or in a strength gives NaN.

    Results have the dtype of w. What is "up to rounding" allows a few dozen units in the last place.
    """

    @property
    def convex(self) -> bool:
        """Whether P is convex: only then do `slack`, `conjugate` and `dual_scale` exist (else they raise TypeError)."""
        ...

    @property
    def separable(self) -> bool:
        """Whether P is a sum over single coefficients, which coordinate descent and `Limited` need."""
        ...

    def value(self, w: Array) -> Array:
        """P(w), a scalar; inf outside of a constraint, up to rounding.

        `jax.grad` of it is finite everywhere, also at kinks, and is the gradient where P is smooth.
        """
        ...

    def prox(self, w: Array, step: ArrayLike) -> Array:
        """argmin over u of ‖u − w‖²/(2 step) + P(u), the global minimiser where P is not convex.

        Differentiable in w, the step and the strengths wherever the prox is. The step is a positive scalar; for a
        separable P also an array that broadcasts against w.
        """
        ...

    def slack(self, w: Array, z: Array) -> Array:
        """P(w) + P*(z) − ⟨w, z⟩ ≥ 0, a scalar: 0 exactly where z ∈ ∂P(w).

        A sum of non-negative terms, so that it is accurate where the three parts cancel. inf where z is outside of the
        domain of P* or w outside of that of P, beyond rounding.
        """
        ...

    def conjugate(self, z: Array) -> Array:
        """P*(z) = sup over w of ⟨w, z⟩ − P(w), a scalar; inf outside of its domain, beyond rounding."""
        ...

    def dual_scale(self, z: Array) -> Array:
        """The largest s in [0, 1] with s·z in the domain of P*, up to rounding."""
        ...

    def distance(self, w: Array, z: Array) -> Array:
        """The distance of z to ∂P(w), per coefficient or per group: 0 where −∇loss = z makes w stationary.

        Where that has no simple form (`Slope`, `TotalVariation`, balls) it is |w − prox(w + z, 1)|, which vanishes
        at the same pairs.
        """
        ...

    def dual_norm(self, z: Array) -> Array:
        """The smallest strength for which z ∈ ∂P(0): λ_max is that of −∇loss at the null model.

        In units of `lam` (`l1` for `ElasticNet`), which is ignored; factors count. For `Slope`, `SparseGroup` and
        `SparseVariation` the smallest multiple of the given penalty. inf for quadratic penalties, unless z is 0.
        """
        ...

    def tangent(self, w: Array, u: Array) -> Array:
        """The orthogonal projection of u onto the directions in which P is smooth at w.

        P is smooth along its active manifold at w (the support of an ℓ1 penalty, the runs of equal coefficients of
        total variation); this projects onto the tangent space, in which `jax.grad` of `value` is the gradient.
        """
        ...

    def free(self, w: Array) -> Array:
        """A boolean array like w: the coefficients that P does not depend on."""
        ...

    def unpenalised(self, u: Array) -> Array:
        """The projection of u onto the directions that P does not charge; X times them is orthogonal to dual points."""
        ...
