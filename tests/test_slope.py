"""`Slope` with factors and limits of each coefficient, judged by all orders of a few coefficients."""

import itertools
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from regjax.penalties import LimitedSlope, Slope
from tests.problems import assert_close, tolerance

QUICKLY = {"xla_backend_optimization_level": 0}
STEP = 0.5


@cache
def ordered_partitions(p):
    """All ways to give p coefficients levels 0, 1, … from the top, with ties."""
    return [a for a in itertools.product(range(p), repeat=p) if set(a) == set(range(max(a) + 1))]


def worth(u, lams):
    return np.sum(lams * -np.sort(-u, axis=-1), axis=-1)


def brute_prox(x, lams, factors, lower, upper):
    """The best of the points that have, for some order with ties, the best common f|w| in each tie."""
    listed = (factors > 0) & np.isfinite(factors)
    limit = np.where(x > 0, upper, -lower)
    found = np.where(factors == 0, np.clip(x, lower, upper), 0.0)
    if not listed.any():
        return found
    a, f, caps = np.abs(x)[listed], factors[listed], (limit * np.where(listed, factors, 1))[listed]
    candidates = []
    for places in map(np.array, ordered_partitions(len(a))):
        u, rank = np.zeros(len(a)), 0
        for k in range(places.max() + 1):
            tied = places == k
            charge = STEP * lams[rank : rank + tied.sum()].sum()
            u[tied] = np.clip(((a / f)[tied].sum() - charge) / (1 / f[tied] ** 2).sum(), 0, caps[tied].min())
            rank += tied.sum()
        candidates.append(u)
    u = np.array(candidates)
    objective = np.sum((u / f - a) ** 2, axis=1) / 2 + STEP * worth(u, lams[: len(a)])
    found[listed] = np.sign(x)[listed] * u[np.argmin(objective)] / f
    return found


def brute_conjugate(z, lams, factors, lower, upper):
    """The largest ⟨w, z⟩ − P(w) over sizes that are 0 or the limit of some coefficient; inf where a set has no end."""
    limit = np.where(z > 0, upper, -lower)
    loose = (factors == 0) & (z != 0)
    listed = (factors > 0) & np.isfinite(factors)
    push, caps = np.abs(z[listed]) / factors[listed], limit[listed] * factors[listed]
    endless = -np.sort(-push[np.isinf(caps)])
    if np.any(np.cumsum(endless) > np.cumsum(lams[: len(endless)]) * (1 + tolerance(1e-12, 1e-5))):
        return np.inf
    ends = np.unique(np.append(0, caps[np.isfinite(caps)]))
    points = (
        np.stack(np.meshgrid(*len(caps) * [ends]), axis=-1).reshape(-1, len(caps)) if len(caps) else np.zeros((1, 0))
    )
    points = points[np.all(points <= caps, axis=1)]
    best = np.max(points @ push - worth(points, lams[: len(caps)]))
    return best + np.abs(z[loose]) @ limit[loose]


def cases(p, count=60):
    """Round numbers, so that sizes, limits and strengths are often equal or 0."""
    rng = np.random.default_rng(p)
    x, z = rng.integers(-8, 9, size=(2, count, p)) / 2
    lams = -np.sort(-rng.integers(0, 5, size=(count, p)) / 2)
    lams = np.where(rng.uniform(size=(count, 1)) < 0.3, np.minimum(lams, np.linspace(2, -1, p).clip(0)), lams)
    factors = rng.choice([0.5, 1.0, 1.0, 2.0, 3.0, 0.0, np.inf], size=(count, p))
    lower, upper = rng.choice([0.0, 0.5, 1.0, 1.5, 2.5, np.inf], size=(2, count, p))
    unpenalised = (factors == 0) | (np.isfinite(factors) & np.all(lams == 0, axis=1, keepdims=True))
    z = np.where(unpenalised & np.isinf(lower) & np.isinf(upper), 0, z)  # what the caller keeps at 0
    return [a.astype(jnp.result_type(float)) for a in (x, z, lams, factors, -lower, upper)]


@pytest.mark.parametrize("p", [1, 4])
def test_prox_and_conjugate_equal_brute_force(p):
    x, z, *penalties = cases(p)

    @partial(jax.jit, compiler_options=QUICKLY)
    @jax.vmap
    def methods(x, z, lams, factors, lower, upper):
        P = LimitedSlope(Slope(lams, factors), lower, upper)
        scale = P.dual_scale(z)
        w = P.prox(x, STEP)
        return w, scale, jax.vmap(P.conjugate)(jnp.stack([z, scale * z])), P.value(w), P.slack(w, scale * z)

    prox, scales, conjugates, value, slack = (np.asarray(a, float) for a in methods(x, z, *penalties))
    exact = [np.asarray(a, float) for a in (x, z, *penalties)]
    expected = np.array([brute_prox(x, *rest) for x, _, *rest in zip(*exact, strict=True)])
    assert_close(prox, expected, f64=1e-12, f32=1e-6)
    x, z, lams, factors, lower, upper = exact
    ends = np.array([brute_conjugate(*rest) for rest in zip(z, lams, factors, lower, upper, strict=True)])
    assert np.isinf(ends).any()
    np.testing.assert_array_equal(np.isinf(conjugates[:, 0]), np.isinf(ends))
    np.testing.assert_array_equal(scales < 1, np.isinf(ends))
    z = scales[:, None] * z
    ends = np.array([brute_conjugate(*rest) for rest in zip(z, lams, factors, lower, upper, strict=True)])
    assert (ends > 0).any()
    assert_close(conjugates[:, 1], ends, f64=1e-13, f32=1e-5)
    inner = np.sum(expected * z, axis=1)
    assert_close(slack, value + ends - inner, f64=1e-13, f32=1e-5, scale=10)


@pytest.mark.x64
def test_prox_is_differentiable_in_factors_and_limits():
    """Among them coefficients at a limit, and others that are held at the same f|w|."""
    x, lams = jnp.array([3.03, -3.1, 2.0, 0.73, 5.0, 0.05]), jnp.array([2.0, 0.4, 0.35, 0.3, 0.2, 0.1])
    factors, upper = jnp.array([1.0, 1.1, 0.5, 0.8, 2.0, 1.0]), jnp.array([1.8, 2.0, jnp.inf, 1.0, 0.35, 1.0])
    args = x, lams, factors, jnp.full(6, -5.0), upper

    @partial(jax.jit, compiler_options=QUICKLY)
    def both(h):
        def prox(x, lams, factors, lower, upper):
            return LimitedSlope(Slope(lams, factors), lower, upper).prox(x, 1.0)

        along = [jnp.where(jnp.isinf(a), 0, jnp.cos(3.0 * k + jnp.arange(6.0))) for k, a in enumerate(args)]
        pulled = jax.vjp(prox, *args)[1]
        moved = [prox(*(a + sign * h * d for a, d in zip(args, along, strict=True))) for sign in (1, -1)]
        forward = jax.jvp(prox, args, tuple(along))[1]
        backward = jax.vmap(lambda one: sum(jnp.vdot(a, b) for a, b in zip(pulled(one), along, strict=True)))
        return prox(*args), forward, backward(jnp.eye(6)), (moved[0] - moved[1]) / (2 * h)

    w, forward, backward, finite = both(1e-6)
    assert w[0] == upper[0]
    assert -w[1] < 5
    assert_close(-factors[1] * w[1], factors[0] * w[0], f64=1e-15)
    assert_close(forward, finite, f64=1e-8)
    assert_close(backward, finite, f64=1e-8)
