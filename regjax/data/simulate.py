"""Seeded simulators."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array


class Simulated(NamedTuple):
    """A simulated regression: `X` (n, p), `y` (n,) or (n, t), and the truth `coef` (p,) or (p, t) and `intercept`."""

    X: Array
    y: Array
    coef: Array
    intercept: Array


def make_regression(
    key: Array,
    num_samples: int,
    num_columns: int,
    *,
    num_targets: int | None = None,
    num_nonzero: int | None = None,
    correlation: float = 0.0,
    noise: float = 1.0,
    outliers: float = 0.0,
    intercept: float = 0.0,
    dtype=None,
) -> Simulated:
    r"""Simulate y = b + Xw + ε.

    The columns of X are Gaussian of variance 1 with corr(xᵢ, xⱼ) = ρ^|i−j|; the nonzero entries of w, spread evenly,
    are standard Gaussian.

    Args:
        key: a JAX key; the same key gives the same data.
        num_samples: n.
        num_columns: p.
        num_targets: t; y is (n,) if None.
        num_nonzero: how many coefficients of each target are not zero; all if None.
        correlation: ρ in [0, 1).
        noise: standard deviation of ε.
        outliers: the share of samples whose noise is 20 times as large.
        intercept: b.
        dtype: of the data; JAX's default float if None.

    Example:
        >>> import jax
        >>> data = make_regression(jax.random.key(0), 50, 8, num_nonzero=2)
        >>> print(data.X.shape, int((data.coef != 0).sum()))
        (50, 8) 2
    """
    n, p, t = num_samples, num_columns, 1 if num_targets is None else num_targets
    if min(n, p, t) < 1:
        raise ValueError(f"make_regression takes at least one sample, column and target: got {n}, {p} and {t}")
    if noise < 0:
        raise ValueError(f"noise is a standard deviation and must not be negative, got {noise}")
    if not 0 <= correlation < 1:
        raise ValueError(f"correlation must be in [0, 1), got {correlation}")
    if not 0 <= outliers <= 1:
        raise ValueError(f"outliers is a share and must be in [0, 1], got {outliers}")
    if num_nonzero is not None and not 0 <= num_nonzero <= p:
        raise ValueError(f"num_nonzero must be from 0 to num_columns = {p}, got {num_nonzero}")
    keys = jax.random.split(key, 4)
    white = jax.random.normal(keys[0], (p, n), dtype or float)
    fresh = (1 - correlation**2) ** 0.5

    def next_column(previous, innovation):
        column = correlation * previous + fresh * innovation
        return column, column

    _, rest = jax.lax.scan(next_column, white[0], white[1:])
    X = jnp.concatenate([white[:1], rest]).T
    coef = jax.random.normal(keys[1], (p, t), X.dtype)
    if num_nonzero is not None:
        chosen = jnp.zeros(p, bool).at[jnp.linspace(0, p - 1, num_nonzero).round().astype(int)].set(True)
        coef = jnp.where(chosen[:, None], coef, 0)
    scale = noise * jnp.where(jax.random.uniform(keys[2], (n, 1)) < outliers, 20.0, 1.0).astype(X.dtype)
    y = intercept + X @ coef + scale * jax.random.normal(keys[3], (n, t), X.dtype)
    b = jnp.full(t, intercept, X.dtype)
    if num_targets is None:
        return Simulated(X, y[:, 0], coef[:, 0], b[0])
    return Simulated(X, y, coef, b)
