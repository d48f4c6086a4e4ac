"""Kernels: values, derivatives, exactness at zero distance, algebra, blocked products."""

import sys
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from regjax.kernels import (
    RBF,
    Constant,
    Exponential,
    Laplace,
    Linear,
    Matern32,
    Matern52,
    Periodic,
    Polynomial,
    RationalQuadratic,
    Sigmoid,
    White,
    gram,
    gram_matvec,
    is_positive_definite,
    on,
    register_node,
    warp,
)
from tests.problems import assert_close, tolerance

rng = np.random.default_rng(0)
X, Z = jnp.asarray(rng.normal(size=(9, 3))), jnp.asarray(rng.normal(size=(5, 3)))

KERNELS = {
    "Linear": Linear(),
    "Polynomial": Polynomial(3, 0.7),
    "RBF": RBF(0.8),
    "RBF, a scale per input": RBF(jnp.array([0.8, 1.5, 2.5])),
    "Laplace": Laplace(1.3),
    "Exponential": Exponential(0.9),
    "Matern32": Matern32(1.2),
    "Matern52": Matern52(1.2),
    "RationalQuadratic": RationalQuadratic(1.1, 0.7),
    "Periodic": Periodic(0.9, jnp.array([1.5, 2.0, 3.0])),
    "Sigmoid": Sigmoid(0.5, 0.1),
    "Constant": Constant(0.6),
    "sum": RBF(0.8) + 0.5 * Linear(),
    "product": Matern32(1.2) * Periodic(0.9, 2.0),
    "warp": warp(RBF(1.0), lambda x: 1 + x[0] ** 2),
    "on a function": on(RBF(1.0), jnp.tanh),
}
STATIONARY = {
    name: KERNELS[name] for name in ("RBF", "Matern32", "Matern52", "RationalQuadratic", "Laplace", "Exponential")
}
every = pytest.mark.parametrize("name", KERNELS)


@pytest.mark.sample(4)
@every
def test_matrix_diagonal_and_symmetry(name):
    kernel = KERNELS[name]
    pairs = jax.jit(jax.vmap(lambda x: jax.vmap(lambda z: kernel(x, z))(Z)))(X)
    assert_close(gram(kernel, X, Z), pairs, f64=1e-14, f32=1e-5)
    K = gram(kernel, X)
    assert_close(K, K.T, f64=1e-15, f32=1e-6)
    assert_close(kernel.diagonal(X), jnp.diagonal(K), f64=1e-14, f32=1e-5)
    assert_close(gram(kernel, X, X), K, f64=1e-14, f32=1e-5)


@pytest.mark.once
def test_kernels_with_the_same_fields_are_different_trees():
    """Else a compiled function that has seen one may take the other for it."""
    structures = [jax.tree.structure(make(1.0)) for make in (RBF, Laplace, Exponential, Matern32, Matern52)]
    assert all(a != b for i, a in enumerate(structures) for b in structures[:i])


@pytest.mark.once
@every
def test_positive_definite_on_a_sample(name):
    assert bool(is_positive_definite(KERNELS[name], X)) == (name != "Sigmoid")
    assert KERNELS[name].positive_definite == (name != "Sigmoid")


@pytest.mark.once
def test_the_ramp_is_no_kernel():
    x = jnp.linspace(0, 3, 10)
    assert not bool(is_positive_definite(lambda x, z: jnp.maximum(0, x - z), x))
    symmetric = lambda x, z: jnp.maximum(0, x - z) + jnp.maximum(0, z - x)  # noqa: E731
    assert not bool(is_positive_definite(symmetric, x))


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("name", "columns", "shift"),
    [(name, 1, 1e6) for name in (*STATIONARY, "Periodic")]
    + [(name, 5, 0.0) for name in ("Matern32", "Laplace")]
    + [(name, 40, shift) for name in ("RBF", "Matern52", "Exponential") for shift in (0.0, 1e6)],
)
def test_exactly_one_at_zero_distance(name, columns, shift):
    points = jnp.asarray(np.random.default_rng(1).normal(size=(6, columns)) + shift)
    points = points[jnp.array([0, 1, 2, 3, 4, 5, 2, 2])]
    kernel = {**STATIONARY, "Periodic": Periodic(0.9, 2.0)}[name]
    K = np.asarray(gram(kernel, points))
    equal = np.all(np.asarray(points)[:, None] == np.asarray(points), axis=2)
    assert np.all(K[equal] == 1)
    assert np.all(K[~equal] < 1)
    pairs = jax.jit(jax.vmap(lambda x: jax.vmap(lambda z: kernel(x, z))(points)))(points)
    # far away a float32 has no digits left for the differences, and the products of 40 columns have fewer still
    assert_close(K, pairs, f64=1e-9 if shift else 1e-14, f32=1e-4, scale=1.0)


@pytest.mark.x64
@pytest.mark.parametrize("columns", [2, 40])
@pytest.mark.parametrize("name", ["Exponential", "Matern32"])
def test_close_points_keep_their_digits(name, columns):
    """1 − k of points at distance h: h/s for the cusp, by differences; 3h²/2s² where rounding hides it is zero."""
    x = jnp.ones((1, columns))
    h = 1e-9 if name == "Exponential" else 1e-3
    z = x.at[0, 0].add(h)
    kernel = STATIONARY[name]
    gap = h / 0.9 if name == "Exponential" else 1.5 * (h / 1.2) ** 2
    assert_close(1 - gram(kernel, x, z)[0, 0], gap, f64=2e-3)


def flat_gradient(function, tree):
    return jax.tree.leaves(jax.jit(jax.grad(function))(tree))


@pytest.mark.sample(4)
@pytest.mark.x64
@every
def test_hyperparameter_derivatives(name):
    """Against central differences, with duplicates among the points: finite where x = z."""
    kernel = jax.tree.map(jnp.asarray, KERNELS[name])
    points = jnp.concatenate([X, X[:2]])
    cotangent = jnp.asarray(np.random.default_rng(2).normal(size=(len(points), len(points))))

    @jax.jit
    def total(kernel):
        return jnp.sum(cotangent * gram(kernel, points))

    leaves, treedef = jax.tree.flatten(kernel)
    for k, gradient in enumerate(flat_gradient(total, kernel)):
        for index in np.ndindex(leaves[k].shape):

            def moved(step, k=k, index=index):
                changed = [leaf.at[index].add(step) if j == k else leaf for j, leaf in enumerate(leaves)]
                return total(jax.tree.unflatten(treedef, changed))

            h = 1e-5
            finite = (8 * (moved(h) - moved(-h)) - (moved(2 * h) - moved(-2 * h))) / (12 * h)
            assert_close(gradient[index], finite, f64=1e-7, scale=float(jnp.abs(finite)) + 1)


@pytest.mark.once
@every
def test_hyperparameter_derivatives_at_a_point_alone_are_finite(name):
    kernel = jax.tree.map(jnp.asarray, KERNELS[name])
    value = jax.jit(jax.grad(lambda k: k(X[0], X[0])))(kernel)
    assert all(bool(jnp.all(jnp.isfinite(leaf))) for leaf in jax.tree.leaves(value))


@pytest.mark.parametrize("columns", [3, 40])
def test_hyperparameter_derivatives_far_from_the_origin(columns):
    points = jnp.asarray(
        np.random.default_rng(1).integers(-9, 9, size=(6, columns)) / 8
    )  # exact where they are moved to
    shift = tolerance(1e6, 1e3)
    kernel = RBF(jnp.asarray(float(columns) ** 0.5))
    total = lambda scale, a: gram(RBF(scale), points + a).sum()  # noqa: E731
    exact = jax.grad(total)(kernel.scale, 0.0)
    assert_close(jax.grad(total)(kernel.scale, shift), exact, f64=1e-8, f32=2e-3)
    assert_close(jax.jacfwd(total)(kernel.scale, shift), exact, f64=1e-8, f32=2e-3)


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("name", "columns"), [(name, 3) for name in (*STATIONARY, "Periodic")] + [("RBF", 40), ("Exponential", 40)]
)
def test_input_derivatives_where_points_are_equal(name, columns):
    kernel = {**STATIONARY, "Periodic": Periodic(0.9, 2.0)}[name]
    x = jnp.asarray(np.random.default_rng(1).normal(size=(2, columns)))
    assert_close(jax.jit(jax.grad(kernel))(x[0], x[0]), jnp.zeros(columns), scale=1, f64=1e-14, f32=1e-6)
    trace = jax.grad(lambda a: jnp.trace(gram(kernel, a, x)))(x)
    assert_close(trace, jnp.zeros((2, columns)), scale=1, f64=1e-13, f32=1e-4)


@pytest.mark.once
@pytest.mark.parametrize(
    ("kernel", "curvature"),
    [
        (RBF(0.8), 1 / 0.8**2),
        (Matern32(1.2), 3 / 1.2**2),
        (Matern52(1.2), 5 / 3 / 1.2**2),
        (RationalQuadratic(1.1, 0.7), 1 / 1.1**2),
        (Periodic(0.9, 2.0), (2 * np.pi / 2.0) ** 2 / 0.9**2),
    ],
)
def test_second_derivative_where_points_are_equal(kernel, curvature):
    """∂²k/∂x∂z at x = z: the covariance of the derivatives of the functions."""
    x = X[0]
    assert_close(jax.jit(jax.jacfwd(jax.grad(kernel, 0), 1))(x, x), curvature * jnp.eye(3), f64=1e-12, f32=1e-4)
    mixed = jax.jit(jax.jacfwd(jax.jacrev(lambda a, b: kernel.matrix(a[None], b[None])[0, 0], 0), 1))(x, x)
    assert_close(mixed, curvature * jnp.eye(3), f64=1e-12, f32=1e-4)


@pytest.mark.sample(4)
@pytest.mark.x64
@pytest.mark.parametrize(
    ("name", "columns"),
    [(name, 3) for name in (*STATIONARY, "Periodic", "Sigmoid")] + [("RBF", 40), ("Exponential", 40)],
)
def test_input_derivatives_of_the_matrix(name, columns):
    kernel = KERNELS[name] if name != "Periodic" else Periodic(0.9, 2.0)
    local = np.random.default_rng(3)
    points, others, direction = (jnp.asarray(local.normal(size=(4, columns)) / columns**0.5) for _ in range(3))
    _, forward = jax.jvp(lambda a: gram(kernel, a, others), (points,), (direction,))
    h = 1e-5
    finite = (gram(kernel, points + h * direction, others) - gram(kernel, points - h * direction, others)) / (2 * h)
    assert_close(forward, finite, f64=1e-7, floor=1e-2)


@pytest.mark.once
@pytest.mark.parametrize("make", [RBF, Laplace, Exponential, Matern32, Matern52, RationalQuadratic])
def test_a_scale_per_input_is_scaled_inputs(make):
    scale = jnp.array([0.5, 1.0, 3.0])
    assert_close(gram(make(scale), X, Z), gram(make(1.0), X / scale, Z / scale), f64=1e-14, f32=1e-6)


@pytest.mark.once
def test_periodic_repeats_and_is_a_product_over_inputs():
    kernel = Periodic(jnp.array([0.7, 0.9, 1.1]), jnp.array([1.0, 2.0, 3.0]))
    assert_close(gram(kernel, X + jnp.array([3.0, -4.0, 9.0]), Z), gram(kernel, X, Z), f64=1e-12, f32=1e-4)
    apart = 1.0
    for j, (s, t) in enumerate(zip([0.7, 0.9, 1.1], [1.0, 2.0, 3.0], strict=True)):
        difference = np.asarray(X)[:, None, j] - np.asarray(Z)[:, j]
        apart = apart * np.exp(-2 * np.sin(np.pi * difference / t) ** 2 / s**2)
    assert_close(gram(kernel, X, Z), apart, f64=1e-13, f32=1e-5)


@pytest.mark.once
def test_limits():
    assert_close(gram(RationalQuadratic(0.8, 1e8), X), gram(RBF(0.8), X), f64=1e-6, f32=1e-4)
    assert_close(gram(Laplace(0.8), X[:, 0]), gram(Exponential(0.8), X[:, 0]), f64=1e-14, f32=1e-6)
    assert_close(gram(RBF(1e6), X), jnp.ones((9, 9)), f64=1e-10, f32=1e-6)


@pytest.mark.once
def test_algebra():
    a, b = RBF(0.8), Linear()
    K, L = gram(a, X, Z), gram(b, X, Z)
    for kernel, expected in [
        (a + b, K + L),
        (a * b, K * L),
        (3 * a, 3 * K),
        (a * 3, 3 * K),
        (2 * a + a * b, 2 * K + K * L),
    ]:
        assert_close(gram(kernel, X, Z), expected, f64=1e-14, f32=1e-6)
    with pytest.raises(TypeError, match="a kernel adds to a kernel, got int"):
        a + 1


@register_node
@dataclass(frozen=True)
class Rotation:
    """A callable pytree with a parameter."""

    matrix: Any

    def __call__(self, x):
        return self.matrix @ x


@pytest.mark.once
def test_maps_of_the_inputs():
    f = lambda x: x[0] + 2  # noqa: E731
    assert_close(gram(warp(RBF(1.0), f), X, Z), f(X.T)[:, None] * gram(RBF(1.0), X, Z) * f(Z.T), f32=1e-5)
    tanh = gram(RBF(1.0), jnp.tanh(X), jnp.tanh(Z))
    assert_close(gram(on(RBF(1.0), jnp.tanh), X, Z), tanh, f32=1e-5)
    assert_close(gram(on(RBF(1.0), 1), X, Z), gram(RBF(1.0), X[:, 1], Z[:, 1]), f32=1e-6)
    columns = np.array([0, 2])
    for selection in ((0, 2), [0, 2], columns):
        assert_close(gram(on(RBF(1.0), selection), X, Z), gram(RBF(1.0), X[:, columns], Z[:, columns]), f32=1e-6)
    tree, other = ({"a": A[:, 0], "b": A[:, 1:]} for A in (X, Z))
    assert_close(gram(on(RBF(1.0), "b"), tree, other), gram(RBF(1.0), X[:, 1:], Z[:, 1:]), f32=1e-6)
    assert_close(gram(on(RBF(1.0), ("a", "b")), tree, other), gram(RBF(1.0), X, Z), f32=1e-6)
    sum_of_leaves = on(RBF(1.0), "a") + on(Linear(), "b")
    expected = gram(RBF(1.0), X[:, 0], Z[:, 0]) + gram(Linear(), X[:, 1:], Z[:, 1:])
    assert_close(gram(sum_of_leaves, tree, other), expected, f32=1e-5)


@pytest.mark.once
def test_a_map_with_parameters_has_their_gradient():
    rotation = Rotation(jnp.asarray(rng.normal(size=(2, 3))))
    assert_close(
        gram(on(RBF(1.0), rotation), X, Z), gram(RBF(1.0), X @ rotation.matrix.T, Z @ rotation.matrix.T), f32=1e-5
    )
    by_kernel = jax.grad(lambda k: gram(k, X, Z).sum())(on(RBF(jnp.array(1.0)), rotation)).function.matrix
    by_hand = jax.grad(lambda M: gram(RBF(1.0), X @ M.T, Z @ M.T).sum())(rotation.matrix)
    assert_close(by_kernel, by_hand, f32=1e-4)


@pytest.mark.sample(4)
@pytest.mark.once
@every
def test_pytree_points_equal_the_ravelled_matrix(name):
    if name in ("warp", "on a function"):
        pytest.skip("the function looks at the point")
    kernel = KERNELS[name]
    tree, other = ({"a": A[:, 0], "b": A[:, 1:]} for A in (X, Z))
    if name == "RBF, a scale per input":
        kernel = RBF({"a": 0.8, "b": jnp.array([1.5, 2.5])})
    if name == "Periodic":
        kernel = Periodic(0.9, {"a": 1.5, "b": jnp.array([2.0, 3.0])})
    assert_close(gram(kernel, tree, other), gram(KERNELS[name], X, Z), f64=1e-14, f32=1e-6)


@pytest.mark.once
def test_white_noise_goes_by_index():
    twice = jnp.concatenate([X[:2], X[:1]])
    kernel = RBF(1.0) + White(0.3)
    assert_close(gram(kernel, twice), gram(RBF(1.0), twice) + 0.3 * jnp.eye(3), f32=1e-6)
    assert_close(gram(kernel, twice, twice), gram(RBF(1.0), twice), f32=1e-6)
    assert_close(kernel.diagonal(twice), jnp.full(3, 1.3), f32=1e-6)
    assert_close(gram_matvec(kernel, twice, None, jnp.eye(3)), gram(kernel, twice), f32=1e-6)
    assert_close(gram_matvec(2 * kernel * kernel, twice, None, jnp.eye(3)), gram(2 * kernel * kernel, twice), f32=1e-6)


@pytest.mark.once
@pytest.mark.parametrize(("block", "targets"), [(1, 3), (17, 4), (10_000, 6)])
def test_blocked_products(block, targets, monkeypatch):
    """The number of targets is one that no other test has: what is compiled knows its block."""
    monkeypatch.setattr(sys.modules["regjax.kernels.gram"], "BLOCK", block)
    V = jnp.asarray(np.random.default_rng(1).normal(size=(5, targets)))
    kernel = RBF(jnp.array(0.9)) + Laplace(jnp.array(1.1))
    assert_close(gram_matvec(kernel, X, Z, V), gram(kernel, X, Z) @ V, f32=1e-5)
    W = jnp.asarray(np.random.default_rng(2).normal(size=(9, targets)))
    blocked = jax.grad(lambda k, A, B, V: jnp.sum(W * gram_matvec(k, A, B, V)), (0, 1, 2, 3))(kernel, X, Z, V)
    whole = jax.grad(lambda k, A, B, V: jnp.sum(W * (gram(k, A, B) @ V)), (0, 1, 2, 3))(kernel, X, Z, V)
    assert_close(blocked, whole, f32=1e-4)


@pytest.mark.once
def test_blocked_product_with_a_vector():
    assert_close(gram_matvec(RBF(0.9), X, Z, jnp.arange(5.0)), gram(RBF(0.9), X, Z) @ jnp.arange(5.0), f32=1e-5)


@pytest.mark.once
def test_vmap_over_hyperparameters():
    scales = jnp.array([0.5, 1.0, 2.0])
    grid = jax.vmap(lambda s: gram(2.0 * Matern52(s), X, Z))(scales)
    assert_close(grid, jnp.stack([gram(2.0 * Matern52(s), X, Z) for s in scales]), f32=1e-6)
    stacked = jax.vmap(lambda k: gram(k, X, Z))(RBF(scales) + Constant(scales))
    assert_close(stacked[1], gram(RBF(1.0), X, Z) + 1, f32=1e-6)


@pytest.mark.x64
@every
def test_float32_stays_float32(name):
    single = gram(KERNELS[name], X.astype(jnp.float32), Z.astype(jnp.float32))
    assert single.dtype == jnp.float32
    assert_close(single, gram(KERNELS[name], X, Z), f64=1e-5)


@pytest.mark.x64
def test_parameters_of_a_function_do_not_raise_the_precision():
    kernel = jax.tree_util.Partial(lambda a, x, z: a * jnp.vdot(x, z), 2.0)
    assert gram(kernel, X.astype(jnp.float32)).dtype == jnp.float32
    assert gram_matvec(kernel, X.astype(jnp.float32), None, jnp.ones(9, jnp.float32)).dtype == jnp.float32


@pytest.mark.once
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gram(RBF(-1.0), X), r"kernel\.scale must be positive, got -1"),
        (lambda: gram(RBF(0.0), X), r"kernel\.scale must be positive"),
        (lambda: gram(RBF(jnp.nan), X), r"kernel\.scale must be finite"),
        (lambda: gram(RBF("a"), X), r"kernel\.scale has dtype"),
        (lambda: gram(RBF(jnp.ones(2)), X), r"scale takes a scalar.*got \(2,\)"),
        (lambda: gram(2.0 * RBF(1.0) + White(-1.0), X), r"kernel\.second\.noise must be non-negative"),
        (lambda: gram(-2.0 * RBF(1.0), X), r"kernel\.factor must be non-negative"),
        (lambda: gram(RationalQuadratic(1.0, 0.0), X), r"kernel\.alpha must be positive"),
        (lambda: gram(Periodic(1.0, -1.0), X), r"kernel\.period must be positive"),
        (lambda: gram(Polynomial(1.5), X), "degree must be a whole number"),
        (lambda: gram(Polynomial(2, -1.0), X), r"kernel\.bias must be non-negative"),
        (lambda: gram(3, X), "kernel must be one of regjax.kernels or a function of two points, got int"),
        (lambda: gram(lambda x, z: jnp.exp(-((x - z) ** 2)), X), r"a kernel of two points is a scalar, got .* \(3,\)"),
        (lambda: gram(warp(RBF(1.0), lambda x: x), X), r"the function of warp is a scalar .* \(3,\)"),
        (lambda: gram(RBF(1.0), X, Z[:, :2]), r"Z has points of shape \(2,\), but X has points of shape \(3,\)"),
        (lambda: gram(RBF(1.0), X, {"a": Z}), "Z has the tree structure"),
        (lambda: gram(RBF(1.0), X[:0]), "X has 0 points"),
        (lambda: gram(RBF(1.0), 1.0), "X is a scalar"),
        (lambda: gram_matvec(RBF(1.0), X, Z, jnp.ones(4)), r"V has shape \(4,\): it takes \(5,\)"),
    ],
)
def test_bad_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.x64
def test_against_scikit_learn():
    theirs = pytest.importorskip("sklearn.gaussian_process.kernels")
    pairwise = pytest.importorskip("sklearn.metrics.pairwise")
    A, B = np.asarray(X), np.asarray(Z)
    for ours, values in [
        (RBF(0.8), theirs.RBF(0.8)(A, B)),
        (RBF(jnp.array([0.8, 1.5, 2.5])), theirs.RBF([0.8, 1.5, 2.5])(A, B)),
        (Exponential(0.9), theirs.Matern(0.9, nu=0.5)(A, B)),
        (Matern32(1.2), theirs.Matern(1.2, nu=1.5)(A, B)),
        (Matern52(1.2), theirs.Matern(1.2, nu=2.5)(A, B)),
        (RationalQuadratic(1.1, 0.7), theirs.RationalQuadratic(1.1, 0.7)(A, B)),
        (Laplace(1.3), pairwise.laplacian_kernel(A, B, 1 / 1.3)),
        (Polynomial(3, 0.7), pairwise.polynomial_kernel(A, B, 3, 1.0, 0.7)),
        (Sigmoid(0.5, 0.1), pairwise.sigmoid_kernel(A, B, 0.5, 0.1)),
    ]:
        assert_close(gram(ours, X, Z), values, f64=1e-13)
    one_column = theirs.ExpSineSquared(0.9, 2.0)(A[:, :1], B[:, :1])
    assert_close(gram(Periodic(0.9, 2.0), X[:, :1], Z[:, :1]), one_column, f64=1e-13)
