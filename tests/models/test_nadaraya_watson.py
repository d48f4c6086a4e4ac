"""Nadaraya–Watson against its formula by numpy, refits, and far from the data."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import regjax
from regjax import Status
from regjax.kernels import RBF, Exponential, Laplace, Linear, Matern32, Matern52, Periodic, RationalQuadratic, gram, on
from tests.problems import assert_close, tolerance

rng = np.random.default_rng(0)
N = 12
X = jnp.asarray(rng.normal(size=(N, 2)))
Y = jnp.asarray(rng.normal(size=(N, 2)))
V = jnp.asarray(rng.uniform(0.5, 2, size=N))
Z = jnp.asarray(rng.normal(size=(5, 2)))
both = pytest.mark.parametrize("local_linear", [False, True])
LOGS = [
    RBF(0.7),
    Laplace(0.7),
    Exponential(0.7),
    Matern32(0.7),
    Matern52(0.7),
    RationalQuadratic(0.7, 2.0),
    Periodic(0.9, 2.0),
    2.0 * RBF(0.5) + Laplace(1.0) * Matern52(2.0),
    on(RBF(0.5), 0),
    lambda x, z: jnp.exp(-jnp.sum((x - z) ** 2)),
]


def average(kernel, X, Y, v, Z, local_linear):
    """The definition, by numpy: weighted least squares about every query."""
    K, X, Y, v, Z = (np.asarray(a, float) for a in (gram(kernel, Z, X), X, Y, v, Z))
    values = []
    for k, z in zip(K, Z, strict=True):
        design = np.column_stack([np.ones(len(X)), *([X - z] if local_linear else [])])
        root = np.sqrt(k * v)[:, None]
        values.append(np.linalg.lstsq(root * design, root * Y, rcond=None)[0][0])
    return np.array(values)


@both
def test_equals_the_definition(local_linear):
    model = regjax.nadaraya_watson(RBF(0.8), X, Y, weights=V, local_linear=local_linear)
    expected = average(RBF(0.8), X, Y, V, Z, local_linear)
    assert_close(model(Z), expected, f64=1e-7, f32=5e-3)
    single = regjax.nadaraya_watson(RBF(0.8), X, Y[:, 0], weights=V, local_linear=local_linear)
    assert_close(single(Z), expected[:, 0], f64=1e-7, f32=5e-3)
    assert single(Z).shape == (5,)


@both
def test_leave_one_out_is_n_refits(local_linear):
    loo = regjax.nadaraya_watson_loo(RBF(0.8), X, Y, weights=V, local_linear=local_linear)
    for i in range(N):
        rest = np.arange(N) != i
        alone = average(RBF(0.8), X[rest], Y[rest], V[rest], X[i : i + 1], local_linear)
        assert_close(loo.residuals[i], Y[i] - alone[0], f64=1e-7, f32=1e-2, floor=0.1)
    assert_close(loo.score, V @ loo.residuals**2 / V.sum(), f32=1e-4)


@pytest.mark.sample(6)
@pytest.mark.once
@pytest.mark.parametrize("kernel", LOGS)
def test_logarithms_of_kernels(kernel):
    from regjax.kernels.gram import check_kernel

    kernel = check_kernel(kernel, X.dtype)
    K = gram(kernel, Z, X)
    assert_close(jnp.exp(kernel.log_matrix(Z, X)), K, f64=1e-13, f32=1e-5)
    twice = jnp.concatenate([X, X])
    by_log, by_value = (
        jax.jit(jax.grad(lambda k, f=f: jnp.sum(f(k))))(kernel)
        for f in (lambda k: jnp.exp(k.log_matrix(X, twice)), lambda k: k.matrix(X, twice))
    )
    assert_close(by_log, by_value, f64=1e-10, f32=1e-4, floor=1e-3)


@pytest.mark.parametrize(("kernel", "local_linear"), [*((kernel, False) for kernel in LOGS[:6]), (LOGS[0], True)])
def test_far_queries_have_the_value_of_the_nearest_sample(kernel, local_linear):
    points = jnp.array([[0.0, 0.0], [3.0, 0.0], [50.0, 0.0]])
    y = jnp.array([1.0, 2.0, 3.0])
    model = regjax.nadaraya_watson(kernel, points, y, local_linear=local_linear)
    far = model(jnp.array([[1e4, 0.0], [-1e4, 0.0]]))
    assert bool(jnp.all(jnp.isfinite(far)))
    if isinstance(kernel, RationalQuadratic):
        assert bool(jnp.all((far >= 1) & (far <= 3))) or local_linear  # the tail is no exponential
    elif not local_linear:
        assert_close(far, jnp.array([3.0, 1.0]), f64=0.1, f32=0.1)


@pytest.mark.once
def test_blocks(monkeypatch):
    import sys

    whole = regjax.nadaraya_watson(RBF(0.8), X, Y[:, 0], weights=V)(jnp.tile(Z, (3, 1)))
    monkeypatch.setattr(sys.modules["regjax.models.nadaraya_watson"], "BLOCK", 40)
    blocks = regjax.nadaraya_watson(RBF(0.8), X, jnp.tile(Y[:, :1], 7), weights=V)(jnp.tile(Z, (3, 1)))
    assert_close(blocks[:, 3], whole, f32=1e-5)


@pytest.mark.x64
@both
def test_gradient_in_the_bandwidth(local_linear):
    points = jnp.concatenate([X, X[:2]])
    y = jnp.concatenate([Y[:, 0], Y[:2, 1]])

    @jax.jit
    def score(scale):
        return regjax.nadaraya_watson_loo(Matern52(scale), points, y, local_linear=local_linear).score

    at, h = jnp.array([0.8, 1.3]), 1e-6
    gradient = jax.jit(jax.grad(score))(at)
    for k in range(2):
        step = h * jnp.eye(2)[k]
        assert_close(gradient[k], (score(at + step) - score(at - step)) / (2 * h), f64=1e-5, floor=1e-2)


@pytest.mark.once
def test_zero_weights_have_no_influence():
    junk = jnp.array([[jnp.nan, 1.0], [1e6, jnp.nan]])
    points, values = jnp.concatenate([X, junk]), jnp.concatenate([Y, junk])
    weights = jnp.concatenate([V, jnp.zeros(2)])
    padded = regjax.nadaraya_watson(RBF(0.8), points, values, weights=weights)
    assert_close(padded(Z), regjax.nadaraya_watson(RBF(0.8), X, Y, weights=V)(Z), f32=1e-5)
    score = regjax.nadaraya_watson_loo(RBF(0.8), points, values, weights=weights).score
    assert_close(score, regjax.nadaraya_watson_loo(RBF(0.8), X, Y, weights=V).score, f32=1e-4)


def test_fit_finds_the_scale_and_drops_an_input():
    local = np.random.default_rng(1)
    x = local.uniform(-2, 2, size=(60, 2))
    y = np.sin(3 * x[:, 0]) + 0.1 * local.normal(size=60)
    fit = regjax.nadaraya_watson_fit(3.0 * RBF(jnp.ones(2)), x, y, num=9, tol=tolerance(1e-4, 1e-2))
    scale = fit.params.kernel.kernel.scale
    assert bool(fit.converged)
    assert float(scale[0]) < 0.4 < float(scale[1])
    assert_close(fit.objective, regjax.nadaraya_watson_loo(fit.params.kernel, x, y).score, f32=1e-4)
    grid = jax.vmap(lambda s: regjax.nadaraya_watson_loo(RBF(s), x, y).score)(jnp.geomspace(0.03, 30, 9))
    assert float(fit.objective) <= float(grid.min())


@pytest.mark.x64
def test_a_fit_of_float32_stays_float32():
    single = (A.astype(jnp.float32) for A in (X, Y))
    fit = regjax.nadaraya_watson_fit(RBF(1.0), *single, num=2, max_iter=2)
    assert all(leaf.dtype in (jnp.float32, jnp.int32) for leaf in jax.tree.leaves(fit))


@pytest.mark.once
def test_fit_without_a_signal_says_so():
    local = np.random.default_rng(2)
    fit = regjax.nadaraya_watson_fit(RBF(1.0), local.uniform(size=30), local.normal(size=30), num=7, max_iter=5)
    assert int(fit.status) in (Status.BOUNDARY, Status.CONVERGED)
    assert bool(jnp.isfinite(fit.objective))


@pytest.mark.once
def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="no hyperparameter of the name scale"):
        regjax.nadaraya_watson_fit(Linear(), X, Y)
    with pytest.raises(ValueError, match=r"kernel\.scale must be positive"):
        regjax.nadaraya_watson(RBF(-1.0), X, Y)
    with pytest.raises(ValueError, match=r"Z has points of shape \(1,\)"):
        regjax.nadaraya_watson(RBF(1.0), X, Y)(Z[:, :1])
    assert bool(jnp.all(jnp.isnan(regjax.nadaraya_watson(lambda x, z: -1.0 + 0 * x[0], X, Y)(Z))))
