"""The exact path of the lasso and the elastic net, from knot to knot, for Gram matrices that are small.

As λ falls from ∞, the minimiser of ½‖y − Xw‖² + λ Σⱼ fⱼ|wⱼ| + ½ Σⱼ l2ⱼwⱼ² is piecewise linear in λ. Between two knots
the active set A and the signs s are constant: with G = XᵀX + diag(l2), c = Xᵀy and B the coordinates not in A,

    w_A = G_AA⁻¹ (c_A − λ f_A∘s_A),    w_B = 0,    |c_B − G_BA w_A| ≤ λ f_B.

The next knot is the largest λ at which a correlation in B reaches its bound (its coordinate enters A) or a coefficient
in A reaches 0 (it leaves); either is one symmetric sweep of a p×p tableau.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from regjax.core.loop import iterate

_KNOTS_PER_COLUMN = 4  # capacity; 1 to 2 are usual, and a path with more is left to other solvers


class _Tableau(NamedTuple):
    """The problem with the active coordinates A swept in.

    Attributes:
        matrix: (p, p), symmetric: −G_AA⁻¹ in AA, G_AA⁻¹G_AB in AB, the Schur complement of G_AA in BB.
        diagonal: (p,), that of the matrix: negative in A, not negative in B.
        intercept, slope: α and δ (p,), the columns c and f∘s swept along: α − λδ is the coefficient in A and the
            correlation with the residual in B.
        sign: (p,) of the coefficients in A; 0 in B and for unpenalised coordinates.
    """

    matrix: Array
    diagonal: Array
    intercept: Array
    slope: Array
    sign: Array


class _Pivot(NamedTuple):
    """What a sweep of coordinate `index` reads from the tableau."""

    index: Array
    row: Array
    value: Array
    intercept: Array
    slope: Array
    sign: Array


class _Path(NamedTuple):
    """The knots (capacity,) so far, the coefficients (capacity, p) there, their number, and the last λ."""

    knots: Array
    coefs: Array
    count: Array
    lam: Array


def _read_pivot(tableau: _Tableau, index: Array, lam: Array | float) -> _Pivot:
    """Prepare the sweep of a coordinate at λ; one that enters A takes the sign of its correlation."""
    matrix, diagonal, intercept, slope, sign = tableau
    value, a, d = diagonal[index], intercept[index], slope[index]
    return _Pivot(index, matrix[index], value, a, d, jnp.where(value < 0, sign[index], jnp.sign(a - lam * d)))


def _sweep(tableau: _Tableau, pivot: _Pivot, factors: Array) -> _Tableau:
    """Move a coordinate k from B to A or back: T_ij ← T_ij − T_ik T_kj/d, T_kj ← T_kj/|d|, T_kk ← −1/d with d = T_kk.

    The force f_k s_k is part of the column f∘s while k is in A: it is added before the sweep that takes k in, and
    subtracted after the one that takes k out.
    """
    matrix, diagonal, intercept, slope, sign = tableau
    k, row, value, intercept_k, slope_k, sign_k = pivot
    here = jnp.arange(len(row)) == k
    leaves = value < 0
    force = factors[k] * sign_k
    slope_k = slope_k + jnp.where(leaves, 0, force)
    inverse, size = 1 / value, jnp.abs(1 / value)
    scaled = row * inverse
    edge = jnp.where(here, -inverse, row * size)
    matrix = matrix - row[:, None] * scaled
    matrix = lax.dynamic_update_index_in_dim(matrix, edge, k, 0)
    matrix = lax.dynamic_update_index_in_dim(matrix, edge, k, 1)
    rest = diagonal - row * scaled
    rest = jnp.where(diagonal < 0, rest, jnp.maximum(rest, 0))  # rounding must not make a spanned column look active
    return _Tableau(
        matrix,
        jnp.where(here, -inverse, rest),
        jnp.where(here, intercept_k * size, intercept - scaled * intercept_k),
        jnp.where(here, slope_k * size - jnp.where(leaves, force, 0), slope - scaled * slope_k),
        jnp.where(here, jnp.where(leaves, 0, sign_k), sign),
    )


def _events(tableau: _Tableau, factors: Array, floor: Array) -> Array:
    """The λ (p,) at which each coordinate would enter or leave next as λ falls; −inf for never.

    Only what moves towards its bound counts, so a coordinate that has just entered or left needs no special case. A
    column in the span of the active ones (its pivot is below the floor) never enters: its correlation falls like λ.
    """
    _, diagonal, intercept, slope, sign = tableau
    drift = 64 * jnp.finfo(slope.dtype).eps * factors  # a bound approached more slowly than this is not reached
    rise, fall = factors + slope, factors - slope
    upper = jnp.where(rise > drift, intercept / rise, -jnp.inf)
    lower = jnp.where(fall > drift, -intercept / fall, -jnp.inf)
    enters = jnp.where(diagonal > floor, jnp.maximum(upper, lower), -jnp.inf)
    leaves = jnp.where(sign * slope < 0, intercept / slope, -jnp.inf)
    return jnp.where(diagonal < 0, leaves, enters)


def _next_knot(tableau: _Tableau, path: _Path, factors: Array, floor: Array, end: Array) -> tuple[_Path, _Pivot]:
    """Follow the current segment to its knot, or to the end of the path, and record it.

    Ties are events at the last λ, up to rounding: events are clipped to it, and argmax then takes the lowest index, the
    rule that does not cycle.
    """
    events = jnp.minimum(_events(tableau, factors, floor), path.lam)
    k = jnp.argmax(events)
    event = jnp.max(events)
    lam = jnp.maximum(event, end)
    zero = (tableau.diagonal >= 0) | ((jnp.arange(len(events)) == k) & (event >= end))
    coef = jnp.where(zero, 0, tableau.intercept - lam * tableau.slope)
    knots = lax.dynamic_update_index_in_dim(path.knots, lam, path.count, 0)
    coefs = lax.dynamic_update_index_in_dim(path.coefs, coef, path.count, 0)
    return _Path(knots, coefs, path.count + 1, lam), _read_pivot(tableau, k, lam)


def _sweep_unpenalised(tableau: _Tableau, factors: Array, floor: Array) -> _Tableau:
    """Take in the coordinates of factor 0, largest pivot first; those in the span of the others stay at 0."""

    def surplus(tableau):
        return jnp.where((factors == 0) & (tableau.diagonal > floor), tableau.diagonal / floor, 0)

    def body(tableau):
        return _sweep(tableau, _read_pivot(tableau, jnp.argmax(surplus(tableau)), 0.0), factors)

    return lax.while_loop(lambda tableau: jnp.any(surplus(tableau) > 0), body, tableau)


def _interpolate(path: _Path, lams: Array) -> Array:
    """The coefficients (L, p) at the requested λ; above the first knot they are constant."""
    right = jnp.minimum(jnp.sum(path.knots > lams[:, None], axis=1), path.count - 1)
    left = jnp.maximum(right - 1, 0)
    upper, lower = path.knots[left], path.knots[right]
    share = jnp.clip((upper - lams) / jnp.where(upper > lower, upper - lower, 1), 0, 1)
    start = path.coefs[left]
    return start + jnp.where(upper > lower, share, 0)[:, None] * (path.coefs[right] - start)


def _trace(G: Array, c: Array, factors: Array, end: Array) -> _Path:
    """The knots from λ = ∞ down to `end`."""
    p, dtype = len(c), G.dtype
    capacity = _KNOTS_PER_COLUMN * p + 16
    diagonal = jnp.diagonal(G)
    floor = jnp.finfo(dtype).eps ** 0.8 * diagonal
    tableau = _Tableau(G, diagonal, c, jnp.zeros_like(c), jnp.zeros_like(c))
    tableau = _sweep_unpenalised(tableau, factors, floor)
    floor = jnp.where((factors > 0) & (factors < jnp.inf), floor, jnp.inf)
    path = _Path(
        jnp.full(capacity, -jnp.inf, dtype),
        jnp.zeros((capacity, p), dtype),
        jnp.zeros((), jnp.int32),
        jnp.array(jnp.inf, dtype),
    )

    # The pivot is carried over from the last step, so that XLA can update the tableau in place, without a copy.
    def advance(carry):
        tableau, path, pivot = carry
        tableau = _sweep(tableau, pivot, factors)
        path, pivot = _next_knot(tableau, path, factors, floor, end)
        return (tableau, path, pivot), path.lam - end

    path, pivot = _next_knot(tableau, path, factors, floor, end)
    start, to_go = (tableau, path, pivot), path.lam - end
    return iterate(advance, start, tol=0, max_iter=capacity - 1, error=to_go, last=True).state[1]


class HomotopyPath(NamedTuple):
    """A path at the requested λ.

    Attributes:
        coef: (L, p), with exact zeros off the support.
        num_knots: int32, knots recorded, the end of the path included.
        sound: bool, whether the path reached its end and is optimal for G and c at every requested λ, to √eps · max|c|.
            If not, `coef` is to be thrown away. What rounding took from G and c, only a certificate from X sees.
    """

    coef: Array
    num_knots: Array
    sound: Array


def homotopy_path(G: Array, c: Array, lams: Array, factors: Array, l2: Array | float = 0.0) -> HomotopyPath:
    """Minimise ½‖y − Xw‖² + λ Σⱼ fⱼ|wⱼ| + ½ Σⱼ l2ⱼwⱼ² over w for each λ, exactly up to rounding.

    The cost is O(p²) per knot, of which there are about min(n, p), whatever the number of λ. Not sound are: a path of
    more than 4p + 16 knots, which is given up; nan; columns so nearly dependent that rounding decides. Columns that are
    zero or dependent are no trouble: one in the span of the active ones stays out.

    Not differentiable. Many problems are solved fastest one after the other, each to its own last knot.

    Args:
        G: XᵀX, (p, p), exactly symmetric.
        c: Xᵀy, (p,).
        lams: (L,), non-negative, in any order; the path is followed to the smallest.
        factors: (p,); 0 is unpenalised, inf is excluded.
        l2: scalar or (p,), constant along the path.

    Example:
        >>> import jax.numpy as jnp
        >>> G, c = jnp.array([[2.0, 1.0], [1.0, 2.0]]), jnp.array([4.0, 3.0])
        >>> print(homotopy_path(G, c, jnp.array([4.0, 2.0, 0.5]), jnp.ones(2)).coef)
        [[0.  0. ]
         [1.  0. ]
         [1.5 0.5]]

    References:
        Osborne, Presnell and Turlach, A new approach to variable selection in least squares problems, IMA J. Numer.
        Anal. 2000. Efron, Hastie, Johnstone and Tibshirani, Least angle regression, Ann. Statist. 2004.
    """
    gram = G + jnp.diag(jnp.where(factors < jnp.inf, l2, jnp.zeros_like(c)))
    end = jnp.min(lams)
    path = _trace(gram, c, factors, end)
    coef = _interpolate(path, lams)
    correlation = c - coef @ gram
    bound = lams[:, None] * factors
    tol = jnp.finfo(G.dtype).eps ** 0.5 * jnp.max(jnp.abs(c))
    feasible = jnp.max(jnp.abs(correlation) - bound) <= tol  # False for nan
    slack = jnp.where(coef == 0, 0, bound * jnp.abs(coef) - coef * correlation)
    tight = jnp.all(jnp.sum(slack, axis=1) <= tol * jnp.sum(jnp.abs(coef), axis=1))
    return HomotopyPath(coef, path.count, feasible & tight & (path.lam <= end))
