"""What every model inherits from the table: vmap, grad, dtype, compilation, weights, pytrees, export."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.problems import CASES, MODELS, ONE, RELATIVES, SHAPES, assert_close, problem, tolerance

cases = pytest.mark.parametrize(("name", "shape"), CASES)
quick = pytest.mark.parametrize(
    ("name", "shape"), [pytest.param(*case, marks=pytest.mark.slow) if case[0] in RELATIVES else case for case in CASES]
)
# what does not depend on the form of the solution is asked once of each model
once_each = pytest.mark.parametrize(
    ("name", "shape"), [pytest.param(*case, marks=pytest.mark.slow) if case[0] in RELATIVES else case for case in ONE]
)
LAMS = jnp.array([0.3, 1.0, 2.5])
NO_COEFFICIENTS = (
    "loo_residuals", "loo_score", "gcv", "bayes_linear_fit", "smoothing_spline", "kernel_loo_residuals", "kernel_gcv",
    "nadaraya_watson_loo",
)  # fmt: skip


def stack(results):
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *results)


@pytest.mark.sample(36)
@quick
def test_vmap_over_lam_equals_loop(name, shape):
    fit = MODELS[name].fit
    X, y, v = problem(*SHAPES[shape])
    batched = jax.vmap(lambda lam: fit(X, y, lam, v))(LAMS)
    assert_close(batched, stack([fit(X, y, lam, v) for lam in LAMS]))


@pytest.mark.sample(36)
@pytest.mark.once
@quick
def test_vmap_over_data_sets_equals_loop(name, shape):
    fit = MODELS[name].fit
    sets = [problem(*SHAPES[shape], seed=seed) for seed in range(3)]
    batched = jax.jit(jax.vmap(lambda d, lam: fit(d.X, d.y, lam, d.weights)))(stack(sets), LAMS)
    assert_close(batched, stack([fit(d.X, d.y, lam, d.weights) for d, lam in zip(sets, LAMS, strict=True)]))


@pytest.mark.sample(36)
@pytest.mark.x64
@cases
def test_gradient_equals_finite_differences(name, shape):
    """Forward along a random direction against central differences, and reverse against forward."""
    fit = MODELS[name].fit
    X, y, v = problem(*SHAPES[shape])
    args = (X, y, jnp.array(0.8), v)
    rng = np.random.default_rng(1)
    direction = tuple(jnp.asarray(rng.normal(size=a.shape)) for a in args)
    fit = jax.jit(fit)
    _, forward = jax.jvp(fit, args, direction)
    h = 1e-5

    def moved(step):
        return fit(*(a + step * d for a, d in zip(args, direction, strict=True)))

    # the five-point rule: its error is of fourth order
    finite = jax.tree.map(
        lambda a, b, c, d: (8 * (b - c) - (a - d)) / (12 * h), moved(2 * h), moved(h), moved(-h), moved(-2 * h)
    )
    assert_close(forward, finite, f64=2e-6, floor=1e-3)  # the rounding of a difference is some 1e-9
    value, pullback = jax.vjp(fit, *args)
    cotangent = jax.tree.map(lambda a: jnp.asarray(rng.normal(size=a.shape)), value)
    one = sum(jnp.vdot(a, b) for a, b in zip(pullback(cotangent), direction, strict=True))
    two = sum(jnp.vdot(a, b) for a, b in zip(jax.tree.leaves(cotangent), jax.tree.leaves(forward), strict=True))
    assert_close(one, two, f64=1e-9, scale=float(jnp.abs(two)) + 1)


@pytest.mark.sample(24)
@pytest.mark.x64
@once_each
def test_float32_in_float32_out_and_near_float64(name, shape):
    data = problem(*SHAPES[shape])
    single = MODELS[name].fit(*(a.astype(jnp.float32) for a in data[:2]), 0.8, data.weights.astype(jnp.float32))
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(single))
    assert_close(single, MODELS[name].fit(*data[:2], 0.8, data.weights), f64=5e-3, floor=1e-6)


@pytest.mark.sample(12)
@pytest.mark.once
@once_each
def test_second_call_does_not_compile(name, shape):
    fit = MODELS[name].fit
    X, y, v = problem(*SHAPES[shape])
    fit(X, y, 0.7, v)
    compiled = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, duration, **kwargs: compiled.append(event) if event.endswith("compile_duration") else None
    )
    try:
        fit(X, y, 1.9, v)
    finally:
        jax.monitoring.clear_event_listeners()
    assert not compiled


@pytest.mark.sample(24)
@once_each
def test_zero_weight_rows_have_no_influence(name, shape):
    fit = MODELS[name].fit
    X, y, v = problem(*SHAPES[shape])
    kept = fit(X, y, 0.8, v)
    junk = jnp.array([jnp.nan, 1e6])
    padded = fit(
        jnp.concatenate([X, jnp.broadcast_to(junk[:, None], (2, X.shape[1]))]),
        jnp.concatenate([y, junk]),
        0.8,
        jnp.concatenate([v, jnp.zeros(2)]),
    )
    for whole, part in zip(jax.tree.leaves(padded), jax.tree.leaves(kept), strict=True):
        # in float32 an interpolating fit has an objective that is zero to rounding
        floor = tolerance(1e-12, 1e-6)
        assert_close(whole[: len(part)] if whole.shape != part.shape else whole, part, floor=floor)


@pytest.mark.sample(12)
@pytest.mark.once
@once_each
def test_weights_equal_repeated_rows(name, shape):
    """For coefficients only: n counts samples, not weights."""
    if name in NO_COEFFICIENTS:
        pytest.skip("not a coefficient")
    fit = MODELS[name].fit
    X, y, _ = problem(*SHAPES[shape])
    weighted = fit(X, y, 0.8, jnp.ones(len(y)).at[2].set(3.0))
    rows = jnp.array([*range(len(y)), 2, 2])
    repeated = fit(X[rows], y[rows], 0.8, jnp.ones(len(rows)))
    assert_close(jax.tree.leaves(weighted)[0], jax.tree.leaves(repeated)[0], f32=5e-3)


@pytest.mark.sample(12)
@pytest.mark.once
@once_each
def test_pytree_design_equals_matrix(name, shape):
    model = MODELS[name]
    if not model.takes_pytree:
        pytest.skip("takes one column")
    X, y, v = problem(*SHAPES[shape])
    design = {"first": X[:, 0], "rest": (X[:, 1:3], X[:, 3:].reshape(len(X), 1, -1))}
    tree, matrix = model.fit(design, y, 0.8, v), model.fit(X, y, 0.8, v)
    flat = [jnp.ravel(leaf) for leaf in jax.tree.leaves(tree)]
    assert_close(jnp.concatenate(flat), jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(matrix)]))


@pytest.mark.sample(4)
@pytest.mark.once
@once_each
def test_exports_for_accelerators(name, shape):
    X, y, v = problem(*SHAPES[shape])
    fit = jax.jit(lambda X, y, v: jax.vmap(lambda lam: MODELS[name].fit(X, y, lam, v))(LAMS))
    exported = jax.export.export(fit, platforms=("cuda", "tpu"))(X, y, v)
    assert exported.platforms == ("cuda", "tpu")


@pytest.mark.sample(12)
@pytest.mark.once
@once_each
def test_nan_inside_jit_is_not_silent(name, shape):
    """Inside jit nothing raises: the answer is nan, never a number."""
    X, y, v = problem(*SHAPES[shape])
    result = jax.jit(MODELS[name].fit)(X.at[1, 0].set(jnp.nan), y, 0.8, v)
    assert bool(jnp.any(jnp.isnan(jax.tree.leaves(result)[0])))


@pytest.mark.sample(12)
@pytest.mark.parametrize("name", ["ols", "ridge", "tikhonov", "ridge_ball", "gradient_descent", "bayes_linear"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.once
def test_many_targets_equal_one_by_one(name, shape):
    X, Y, v = problem(*SHAPES[shape], targets=3)
    coef, intercept, *_ = jax.tree.leaves(MODELS[name].fit(X, Y, 0.8, v))
    for k in range(3):
        one = jax.tree.leaves(MODELS[name].fit(X, Y[:, k], 0.8, v))
        assert_close((coef[:, k], intercept[k]), (one[0], one[1]))


@pytest.mark.sample(12)
@pytest.mark.parametrize("name", ["ridge", "tikhonov", "ridge_ball", "loo_residuals", "loo_score", "gcv"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.once
def test_one_lam_per_target(name, shape):
    X, Y, v = problem(*SHAPES[shape], targets=3)
    together = jax.tree.leaves(MODELS[name].fit(X, Y, LAMS, v))[0]
    apart = [jax.tree.leaves(MODELS[name].fit(X, Y[:, k], LAMS[k], v))[0] for k in range(3)]
    assert_close(together, jnp.stack(apart, axis=-1))


def test_tolerance_helper_knows_the_dtype():
    assert tolerance(1.0, 2.0) == (1.0 if jax.config.jax_enable_x64 else 2.0)
