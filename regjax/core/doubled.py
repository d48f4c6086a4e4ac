"""Arithmetic in twice the working precision, from pairs of working-precision numbers.

A pair (high, low) stands for high + low with |low| at most half a unit in the last place of high. Matrix products
are cut into slices short enough for the ordinary matrix product to make no rounding error, so that they run at its
speed on every device.

References:
    Ozaki, Ogita, Oishi & Rump, Error-free transformations of matrix multiplication, Numerical Algorithms 59 (2012).
    Dekker, A floating-point technique for extending the available precision, Numerische Mathematik 18 (1971).
"""

import math
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array, lax


class Pair(NamedTuple):
    """The unevaluated sum high + low of two arrays of one shape."""

    high: Array
    low: Array


def pair(x: Array) -> Pair:
    """x itself, as a pair."""
    return Pair(x, jnp.zeros_like(x))


def two_sum(a: Array, b: Array) -> Pair:
    """a + b without error: the rounded sum and its rounding error."""
    total = a + b
    part = total - a
    return Pair(total, (a - (total - part)) + (b - part))


def add(a: Pair, b: Pair) -> Pair:
    """a + b, with a relative error of the square of the machine epsilon."""
    high, low = two_sum(a.high, b.high)
    return Pair(*two_sum(high, low + (a.low + b.low)))


def negate(a: Pair) -> Pair:
    """−a."""
    return Pair(-a.high, -a.low)


def _slices(x: Pair, axis: int, bits: int, count: int) -> list[Array]:
    """Cut x into `count` arrays of `bits` bits each, on a grid common to all entries along `axis`."""
    top = jnp.max(jnp.abs(x.high), axis=axis, keepdims=True)
    _, exponent = jnp.frexp(top)
    unit = jnp.ldexp(jnp.ones_like(top), exponent - bits)
    pieces = []
    for _ in range(count):
        piece = jnp.round(x.high / unit) * unit
        pieces.append(piece)
        x = Pair(*two_sum(x.high - piece, x.low))
        unit = unit * 2.0**-bits
    return pieces


def matmul(a: Pair, b: Pair) -> Pair:
    """a @ b for pairs of shapes (m, k) and (k, n), to about 1.6 times the digits of the working precision."""
    digits = jnp.finfo(a.high.dtype).nmant + 1
    length = a.high.shape[1]
    bits = (digits - math.ceil(math.log2(max(length, 2)))) // 2
    if bits < 2:
        raise ValueError(f"doubled.matmul: a contraction over {length} terms is too long for {a.high.dtype}")
    count = math.ceil(1.6 * digits / bits)
    left, right = _slices(a, 1, bits, count), _slices(b, 0, bits, count)
    total = pair(jnp.zeros((a.high.shape[0], b.high.shape[1]), a.high.dtype))
    for order in range(count):  # from the largest products to the smallest
        for i in range(order + 1):
            product = jnp.matmul(left[i], right[order - i], precision=lax.Precision.HIGHEST)
            total = add(total, pair(product))
    return total
