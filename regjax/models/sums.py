"""Weighted sums of products of columns: all that least squares needs to know of n samples, shared between folds."""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from regjax.core.lanes import map_lanes, map_problems, sees_lanes
from regjax.core.lstsq import subtract_mean
from regjax.core.products import cross, symmetric_product

_BLOCK = 256  # rows of one product
_CANCELS = 1e-4  # a difference below this part of its terms has lost too many digits


class Sums(NamedTuple):
    """Sums over samples with weights v, about the means where there is an intercept.

    Attributes:
        gram: Σ v xxᵀ (p, p). moments: Σ v xyᵀ (p, t). energy: Σ v y² (t,).
        mean_x, mean_y: (p,), (t,), what was subtracted; zero without an intercept.
        spread: Σ v (x − x̄)² (p,), also without an intercept.
        total: Σ v.
    """

    gram: Array
    moments: Array
    energy: Array
    mean_x: Array
    mean_y: Array
    spread: Array
    total: Array


def weighted_sums(X: Array, Y: Array, weights: Array, intercept: bool) -> Sums:
    """The sums of X (n, p) and Y (n, t) with weights (n,); not differentiable.

    Under `jax.vmap` over weights, as for folds, X is multiplied by itself once: a fold's sums are those of all samples
    minus those of the samples that it leaves out. Where that would cancel, or they are the more, it adds its own up.
    """

    @sees_lanes
    def over_lanes(X, Y, weights):
        return map_problems(
            lambda data, v: _sums(data[0], data[1], v, intercept), (X, Y), weights, rank=weights.ndim - 1
        )

    return over_lanes(*lax.stop_gradient((X, Y, weights)))


def _sums(X: Array, Y: Array, weights: Array, intercept: bool) -> Sums:
    """Sums (F, ...) with each of the weights (F, n)."""
    if len(weights) == 1:
        return Sums(*(a[None] for a in _own_sums(X, Y, weights[0], intercept)))
    p = X.shape[1]
    most = jnp.max(weights, axis=0)
    used, all_of_it = (most > 0)[:, None], jnp.sum(most)
    Z = jnp.where(used, jnp.concatenate([X, Y], axis=1), 0)
    if intercept:
        Z, center, constant = subtract_mean(Z, most, all_of_it)
        Z = jnp.where(used & ~constant, Z, 0)
        about_mean = Z
    else:
        center, about_mean = jnp.zeros_like(Z[0]), subtract_mean(Z, most, all_of_it)[0]
    whole = symmetric_product(Z * most[:, None], Z)
    total = jnp.sum(weights, axis=1)
    mean, squares = (weights @ a / jnp.where(total > 0, total, 1)[:, None] for a in (Z, Z**2))
    middle, around = (weights @ a[:, :p] for a in (about_mean, about_mean**2))
    variance = around - middle**2 / jnp.where(total > 0, total, 1)[:, None]

    def one(v, total, mean, squares, variance):
        safe = jnp.all(total * squares >= _CANCELS * jnp.diag(whole))
        if intercept:
            safe &= jnp.all((squares - mean**2 >= _CANCELS * squares) | (jnp.diag(whole) == 0))
        left_out = v - most
        by_difference = safe & (jnp.sum(left_out != 0) <= jnp.sum(v > 0))
        shift = jnp.where(by_difference | (not intercept), 0, mean)
        products = _add_rows(Z, jnp.where(by_difference, left_out, v), shift, jnp.where(by_difference, whole, 0))
        rest = mean - shift if intercept else jnp.zeros_like(mean)
        products = products - total * jnp.outer(rest, rest)
        eps = float(jnp.finfo(v.dtype).eps)
        constant = jnp.diag(products) <= total * (8 * eps * mean) ** 2  # within the fold
        products = jnp.where(constant[:, None] | constant[None, :], 0, products)
        spread = jnp.diag(products)[:p] if intercept else jnp.maximum(variance, 0)
        middle = center + mean if intercept else jnp.zeros_like(mean)
        return Sums(
            products[:p, :p], products[:p, p:], jnp.diag(products)[p:], middle[:p], middle[p:], spread, total
        )  # fmt: skip

    return map_lanes(one, weights, total, mean, squares, variance)


def _own_sums(X: Array, Y: Array, weights: Array, intercept: bool) -> Sums:
    """The sums with one set of weights, in as few passes over X as there can be."""
    total, used = jnp.sum(weights), weights > 0
    root = jnp.sqrt(jnp.where(used, weights, 0))
    X, Y = (jnp.where(used[:, None], a, 0) for a in (X, Y))
    mean_x, mean_y = (weights @ a / total for a in (X, Y))
    centred = X - mean_x
    spread = jnp.einsum("i,ij,ij->j", weights, centred, centred)
    if not intercept:
        mean_x, mean_y = jnp.zeros_like(mean_x), jnp.zeros_like(mean_y)
    A, B = root[:, None] * (X - mean_x), root[:, None] * (Y - mean_y)
    gram, moments, energy = symmetric_product(A, A), cross(A, B), jnp.einsum("ij,ij->j", B, B)
    if not intercept:
        return Sums(gram, moments, energy, mean_x, mean_y, spread, total)
    rest_x, rest_y = (root @ a / total for a in (A, B))  # the rounding of the means
    gram, moments = gram - total * jnp.outer(rest_x, rest_x), moments - total * jnp.outer(rest_x, rest_y)
    spread, energy, mean_x, mean_y = jnp.diag(gram), energy - total * rest_y**2, mean_x + rest_x, mean_y + rest_y
    eps = float(jnp.finfo(X.dtype).eps)
    varies_x, varies_y = (  # so does a nan
        ~(squares <= total * (8 * eps * mean) ** 2) for squares, mean in ((spread, mean_x), (energy, mean_y))
    )
    return Sums(
        jnp.where(varies_x[:, None] & varies_x, gram, 0), jnp.where(varies_x[:, None] & varies_y, moments, 0),
        jnp.where(varies_y, energy, 0), mean_x, mean_y, jnp.where(varies_x, spread, 0), total,
    )  # fmt: skip


def _add_rows(Z: Array, weights: Array, shift: Array, start: Array) -> Array:
    """start + Σᵢ vᵢ (zᵢ − shift)(zᵢ − shift)ᵀ over the samples whose weight is not 0."""
    order = jnp.concatenate([jnp.argsort(weights == 0), jnp.zeros(_BLOCK, int)])
    count = jnp.sum(weights != 0)

    def add(i, products):
        rows = lax.dynamic_slice_in_dim(order, i * _BLOCK, _BLOCK)
        v = jnp.where(i * _BLOCK + jnp.arange(_BLOCK) < count, weights[rows], 0)
        block = Z[rows] - shift
        return products + cross(v[:, None] * block, block)

    return lax.fori_loop(0, (count + _BLOCK - 1) // _BLOCK, add, start)
