import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.interpolate import BSpline as ScipyBSpline
from scipy.interpolate import CubicSpline

import regjax
from regjax import bases, kernels
from regjax.kernels.pivots import random_pivots
from tests.problems import assert_close, reference

KNOTS = np.array([0.0, 0.2, 0.5, 0.7, 1.0])
BASES = {
    "Polynomial": bases.Polynomial(4),
    "LinearSpline": bases.LinearSpline(np.linspace(0, 0.9, 10)),
    "BSpline": bases.BSpline(KNOTS),
    "BSpline of degree 1": bases.BSpline(np.linspace(0, 1, 9), 1, 1),
    "BSpline with differences": bases.BSpline(KNOTS, 3, 2, "difference"),
    "NaturalSpline": bases.NaturalSpline(KNOTS),
    "Fourier": bases.Fourier(3, 1.0),
}


@pytest.mark.sample(8)
@pytest.mark.once
@pytest.mark.parametrize("name", BASES)
def test_every_basis_is_a_pytree_with_a_design_and_a_penalty(name):
    basis = BASES[name]
    x = jnp.linspace(0, 1, 40)
    design, omega = basis.design(x), basis.penalty()
    assert design.shape == (40, len(omega))
    assert_close(omega, omega.T)
    assert np.linalg.eigvalsh(np.asarray(omega, float)).min() > -1e-4 * np.abs(omega).max()
    rebuilt = jax.tree.unflatten(*reversed(jax.tree.flatten(basis)))
    assert_close(rebuilt.design(x), design)
    assert_close(jax.jit(lambda basis, x: basis.design(x))(basis, x), design, f32=1e-5)
    with_constant = np.column_stack([np.ones(40), design])
    assert np.linalg.matrix_rank(with_constant, tol=1e-5) == 1 + design.shape[1]  # no constant in the span
    fit = regjax.tikhonov(design, jnp.sin(6 * x), 1e-6, penalty=omega)
    assert bool(fit.converged)
    assert float(jnp.abs(fit.params(design) - jnp.sin(6 * x)).max()) < 0.2


@pytest.mark.sample(6)
@pytest.mark.once
@pytest.mark.parametrize(("degree", "order"), [(1, 1), (2, 1), (3, 1), (3, 2), (3, 3), (5, 2)])
def test_bspline_equals_scipy(degree, order):
    basis = bases.BSpline(KNOTS, degree, order)
    t = np.concatenate([np.repeat(KNOTS[0], degree), KNOTS, np.repeat(KNOTS[-1], degree)])
    size = len(t) - degree - 1
    x = np.concatenate([np.linspace(0, 1, 23), [-0.1, 1.2]])  # beyond the boundary too
    expected = np.stack([ScipyBSpline(t, row, degree)(x) for row in np.eye(size)], axis=1)
    assert_close(basis.design(x), expected[:, 1:], f32=1e-4)
    nodes, weights = np.polynomial.legendre.leggauss(8)
    omega = np.zeros((size, size))
    for a, b in itertools.pairwise(KNOTS):
        points = (a + b) / 2 + (b - a) / 2 * nodes
        values = np.stack([ScipyBSpline(t, row, degree)(points, order) for row in np.eye(size)])
        omega += (b - a) / 2 * (values * weights) @ values.T
    assert_close(basis.penalty(), omega[1:, 1:], f64=1e-12, f32=1e-4)


def test_bspline_and_natural_spline_equal_r():
    case = reference("misc_reference.json")["splines"]
    x = np.array(case["x"])
    knots = np.array([x.min(), *case["bs_knots"], x.max()])
    assert_close(bases.BSpline(knots).design(x), np.array(case["bs_deg3"])[:, 1:], f64=1e-14, f32=1e-5)
    ours = np.column_stack([np.ones(len(x)), bases.NaturalSpline(knots).design(x)])
    theirs = np.array(case["ns"])
    assert_close(ours @ np.linalg.pinv(ours), theirs @ np.linalg.pinv(theirs), f64=1e-12, f32=1e-4)


def test_natural_spline_is_the_interpolating_one_and_its_roughness_is_exact():
    values = np.random.default_rng(0).normal(size=len(KNOTS))
    spline = CubicSpline(KNOTS, values, bc_type="natural")
    basis, w = bases.NaturalSpline(KNOTS), values[1:] - values[0]
    x = np.linspace(0, 1, 31)
    assert_close(values[0] + basis.design(x) @ w, spline(x), f32=1e-4)
    curvature = spline(KNOTS, 2)
    roughness = np.sum(np.diff(KNOTS) * (curvature[:-1] ** 2 + curvature[:-1] * curvature[1:] + curvature[1:] ** 2)) / 3
    assert_close(w @ basis.penalty() @ w, roughness, f32=1e-4)
    beyond = values[0] + basis.design(np.array([-1.0, 2.0])) @ w
    assert_close(beyond, np.array([values[0] - spline(0, 1), values[-1] + spline(1, 1)]), f32=1e-4)


def test_fourier_penalty_is_exact():
    basis = bases.Fourier(2, 3.0)
    x = jnp.arange(64) * 3.0 / 64
    bend = jax.vmap(jax.jacfwd(jax.jacfwd(lambda x: basis.design(x[None])[0])))(x)
    assert_close(basis.penalty(), 3.0 / 64 * bend.T @ bend, f32=1e-4, f64=1e-12)


def test_polynomial_in_several_inputs():
    x = jnp.array([[2.0, 3.0]])
    assert bases.Polynomial(2, 2).design(x).tolist() == [[2.0, 3.0, 4.0, 6.0, 9.0]]
    assert bases.Polynomial(2, 2).penalty().shape == (5, 5)


def test_polynomial_regression_recovers_a_polynomial():
    x = jnp.linspace(-1, 1, 20)
    basis = bases.Polynomial(3)
    fit = regjax.ols(basis.design(x), 1 + 2 * x - x**3)
    assert_close(fit.params.coef, jnp.array([2.0, 0.0, -1.0]), f32=1e-5)
    assert_close(fit.params.intercept, 1.0, f32=1e-5)


@pytest.mark.once
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bases.BSpline(np.array([0.0, 0.0, 1.0])).design(np.ones(2)), "strictly increasing"),
        (lambda: bases.NaturalSpline(np.array([0.0])).design(np.ones(2)), "at least 2"),
        (lambda: bases.Polynomial(0).design(np.ones(2)), "degree must be at least 1"),
        (lambda: bases.Polynomial(2).design(np.ones((2, 3))), "num_inputs"),
        (lambda: bases.Fourier(2, -1.0).design(np.ones(2)), "period must be positive"),
        (lambda: bases.Fourier(0).design(np.ones(2)), "num must be at least 1"),
        (lambda: bases.BSpline(KNOTS, 3, 4).penalty(), "order must be from 1"),
        (lambda: bases.BSpline(KNOTS, 3, 2, "fancy").penalty(), "'fancy'"),
        (lambda: bases.LinearSpline(KNOTS).design(np.ones((2, 2))), "x has shape"),
    ],
)
def test_bad_arguments(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# bases of a kernel

POINTS = jnp.asarray(np.random.default_rng(0).normal(size=(40, 3)))
SPECTRAL = {
    "RBF": kernels.RBF(1.5),
    "a scale per input": kernels.RBF(jnp.array([1.0, 2.0, 3.0])),
    "Laplace": kernels.Laplace(3.0),
    "Exponential": kernels.Exponential(2.0),
    "Matern32": kernels.Matern32(1.5),
    "Matern52": kernels.Matern52(1.5),
    "RationalQuadratic": kernels.RationalQuadratic(1.5, 0.7),
    "sum": 0.5 * kernels.RBF(1.0) + 2.0 * kernels.Matern52(2.0),
    "product": kernels.RBF(2.0) * kernels.Laplace(4.0),
    "on": kernels.on(kernels.RBF(1.0), (0, 2)),
}


@pytest.mark.sample(6)
@pytest.mark.once
@pytest.mark.parametrize("name", SPECTRAL)
def test_random_features_have_the_kernel_as_their_mean(name):
    basis = bases.RandomFeatures(SPECTRAL[name], 10_000, jax.random.key(1))
    phi = basis.design(POINTS)
    assert phi.shape == (40, 10_000)
    K = kernels.gram(SPECTRAL[name], POINTS)
    assert float(jnp.abs(phi @ phi.T - K).max()) < 0.07 * float(K.max())
    assert_close(jnp.sum(phi**2, axis=1), jnp.diagonal(K), f32=1e-4)


@pytest.mark.once
def test_nystrom_is_exact_at_its_landmarks_and_ridge_on_it_is_kernel_ridge():
    kernel = kernels.Matern52(1.5)
    design = jax.jit(lambda basis, Z: basis.design(Z))
    few = bases.Nystrom(kernel, POINTS[:15])
    phi = design(few, POINTS)
    assert_close((phi @ phi.T)[:15], kernels.gram(kernel, POINTS[:15], POINTS), f64=1e-10, f32=1e-4)
    assert np.linalg.eigvalsh(np.asarray(kernels.gram(kernel, POINTS) - phi @ phi.T, float)).min() > -1e-5
    everything = bases.Nystrom(kernel, POINTS)
    y = jnp.sin(POINTS[:, 0])
    by_basis = jax.jit(regjax.ridge)(design(everything, POINTS), y, 0.1)
    by_kernel = jax.jit(partial(regjax.kernel_ridge, intercept=True))(kernel, POINTS, y, 0.1)
    Z = POINTS[:7] + 0.1
    assert_close(by_basis.params(design(everything, Z)), by_kernel.params(Z), f64=1e-7, f32=1e-3)
    duplicated = design(bases.Nystrom(kernel, jnp.concatenate([POINTS[:5], POINTS[:5]])), POINTS)
    single = design(bases.Nystrom(kernel, POINTS[:5]), POINTS)
    assert_close(duplicated @ duplicated.T, single @ single.T, f64=1e-5, f32=2e-2)
    scale = jax.jit(jax.grad(lambda s: bases.Nystrom(kernels.RBF(s), POINTS[:5]).design(POINTS).sum()))(1.0)
    assert bool(jnp.isfinite(scale))


def test_landmarks_by_randomly_pivoted_cholesky():
    """Better than evenly drawn points: two clusters of which one is small and far."""
    local = np.random.default_rng(2)
    X = jnp.asarray(np.concatenate([0.1 * local.normal(size=(480, 2)), 50 + 5 * local.normal(size=(20, 2))]))
    kernel = kernels.RBF(2.0)
    chosen = bases.landmarks(kernel, X, 20, jax.random.key(0), sample=500)
    assert float(jnp.mean(chosen[:, 0] > 20)) > 0.5

    def lost(points):
        phi = bases.Nystrom(kernel, points).design(X)
        return float(len(X) - jnp.sum(phi**2))

    assert lost(chosen) < 0.5 * lost(X[:: len(X) // 20][:20])
    pivots = random_pivots(kernels.Matern32(1.0), POINTS, 40, jax.random.key(0))
    assert sorted(np.asarray(pivots.indices)) == list(range(40))
    assert_close(pivots.factor @ pivots.factor.T, kernels.gram(kernels.Matern32(1.0), POINTS), f64=1e-9, f32=1e-4)
    rank_three = random_pivots(kernels.Linear(), POINTS, 10, jax.random.key(0))
    assert_close(rank_three.factor @ rank_three.factor.T, POINTS @ POINTS.T, f64=1e-8, f32=1e-3)


def test_landmarks_have_a_weight():
    kernel, weights = kernels.RBF(0.3), jnp.where(jnp.arange(40) % 4 == 0, 1.0, 0.0)
    present = {tuple(point) for point in np.asarray(POINTS[weights > 0]).tolist()}
    for sample in (None, 12):
        chosen = bases.landmarks(kernel, POINTS, 10, jax.random.key(0), sample=sample, weights=weights)
        assert {tuple(point) for point in np.asarray(chosen).tolist()} == present


@pytest.mark.once
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: bases.RandomFeatures(kernels.Linear(), 10, jax.random.key(0)).design(POINTS),
            "part Linear with no rand",
        ),
        (lambda: bases.RandomFeatures(kernels.RBF(1.0), 9, jax.random.key(0)).design(POINTS), "num must be even"),
        (lambda: bases.Nystrom(kernels.RBF(1.0), POINTS[:3]).design(POINTS[:, :2]), "Z has points of shape"),
        (lambda: bases.landmarks(kernels.RBF(1.0), POINTS, 41, jax.random.key(0)), "num must be from 1 to the 40"),
    ],
)
def test_bad_arguments_of_bases_of_a_kernel(call, message):
    with pytest.raises(ValueError, match=message):
        call()
