import os
import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from regjax.core import linalg, products
from regjax.core.factors import factorize, jittered_cholesky, spectrum
from regjax.core.linalg import logdet, quad_diag, solve_shifted
from regjax.core.solution import Status
from tests.problems import assert_close

rng = np.random.default_rng(0)
FOLDS, N, P = 5, 40, 12
X = jnp.asarray(rng.normal(size=(FOLDS, N, P)))
Y = jnp.asarray(rng.normal(size=(FOLDS, N)))
LAMS = jnp.logspace(-2, 2, 100)


def ridge(X, y, lam):
    return solve_shifted(X.T @ X, y @ X, lam, root=(X.T,))


over_lam = jax.vmap(ridge, (None, None, 0))
fold_lam = jax.vmap(over_lam, (0, 0, None))
lam_fold = jax.vmap(jax.vmap(ridge, (0, 0, None)), (None, None, 0))


def count_calls(function, *args):
    """How often each LAPACK routine stands in the compiled program; a loop over folds holds its call once."""
    text = jax.jit(function).lower(*args).compile().as_text()
    return {name: len(re.findall(rf"lapack_[sd]{name}", text)) for name in ("syevd", "potrf")}


def test_one_lam_is_a_cholesky():
    assert count_calls(ridge, X[0], Y[0], 1.0) == {"syevd": 0, "potrf": 1}


def test_many_lam_are_one_eigendecomposition():
    assert count_calls(over_lam, X[0], Y[0], LAMS) == {"syevd": 1, "potrf": 0}


@pytest.mark.parametrize("nested", [fold_lam, lam_fold])
def test_folds_and_lams_share_eigendecompositions_in_either_order(nested):
    assert count_calls(nested, X, Y, LAMS) == {"syevd": 1, "potrf": 0}
    gradient = jax.grad(lambda *args: jnp.sum(nested(*args) ** 2), argnums=(0, 1, 2))
    assert count_calls(gradient, X, Y, LAMS) == {"syevd": 1, "potrf": 0}
    text = jax.jit(nested).lower(X, Y, LAMS).compile().as_text()
    assert f"[100,5,{P},{P}]" not in text
    assert f"[5,100,{P},{P}]" not in text


def test_every_nesting_equals_a_loop_of_cholesky_solves():
    single = jax.jit(ridge)
    loop = np.array([[single(X[k], Y[k], lam) for lam in LAMS[::20]] for k in range(FOLDS)])
    assert_close(jax.jit(fold_lam)(X, Y, LAMS[::20]), loop)
    assert_close(jax.jit(lam_fold)(X, Y, LAMS[::20]).transpose(1, 0, 2), loop)
    targets = jax.jit(jax.vmap(jax.vmap(ridge, (None, 0, None)), (None, None, 0)))(X[0], Y, LAMS[::20])
    assert_close(targets[:, 0], loop[0])


@pytest.mark.sample(4)
@pytest.mark.x64
@pytest.mark.parametrize("penalized", [False, True])
def test_derivatives_to_second_order(penalized):
    A0, B = jnp.asarray(rng.normal(size=(6, 3))), jnp.asarray(rng.normal(size=(3, 2)))
    root = jnp.asarray(rng.normal(size=(2, 3)))

    def one(A0, B, lam, root):
        penalty = root.T @ root if penalized else None
        A = A0.T @ A0
        factor = factorize(A, lam, penalty=penalty)
        return (
            solve_shifted(A, B, lam, penalty=penalty),
            quad_diag(factor, A, A0, lam, penalty),
            logdet(factor, A, lam, penalty),
        )

    check_grads(jax.jit(one), (A0, B, 0.7, root), order=2, modes=["fwd", "rev"], rtol=1e-4)
    grid = jax.jit(lambda A0, B, lams, root: jax.vmap(lambda lam: one(A0, B, lam, root))(lams))
    check_grads(grid, (A0, B, jnp.array([0.3, 0.7]), root), order=2, modes=["fwd", "rev"], rtol=1e-4)


@pytest.mark.x64
def test_derivatives_at_equal_eigenvalues():
    """Where the derivative of an eigendecomposition is nan."""
    fit = lambda lam: solve_shifted(jnp.eye(3), jnp.arange(3.0), lam)  # noqa: E731
    gradient = jax.vmap(jax.jacfwd(fit))(jnp.array([0.0, 1.0]))
    assert_close(gradient, -jnp.outer(jnp.array([1.0, 0.25]), jnp.arange(3.0)))


def test_singular_matrix_gives_the_pseudo_inverse():
    root = jnp.asarray(rng.normal(size=(5, 2)))
    A, b = root @ root.T, jnp.asarray(rng.normal(size=5))
    expected = np.linalg.pinv(np.asarray(A), rcond=1e-5) @ b
    assert_close(solve_shifted(A, b, 0.0), expected, f64=1e-8)
    assert_close(jax.vmap(lambda lam: solve_shifted(A, b, lam))(jnp.array([0.0, 1.0]))[0], expected, f64=1e-8)
    assert int(factorize(A, jnp.zeros(())).status) == Status.RANK_DEFICIENT


def test_infinite_lam_gives_zero():
    A, b = jnp.eye(2), jnp.ones(2)
    assert_close(solve_shifted(A, b, jnp.inf), jnp.zeros(2))
    assert_close(jax.vmap(lambda lam: solve_shifted(A, b, lam))(jnp.array([1.0, jnp.inf]))[1], jnp.zeros(2))


def test_pencil_equals_dense_solves():
    A = X[0].T @ X[0]
    root = jnp.diff(jnp.eye(P), n=2, axis=0)
    penalty, b = root.T @ root, Y[0] @ X[0]
    lams = jnp.logspace(-3, 5, 9)
    grid = jax.vmap(lambda lam: solve_shifted(A, b, lam, penalty=penalty))(lams)
    assert_close(grid, np.stack([np.linalg.solve(A + lam * penalty, b) for lam in lams]), f32=1e-2)


def test_quad_diag_and_logdet_equal_dense_formulas():
    A, Z, lam = X[0].T @ X[0], X[0], jnp.array(0.5)
    shifted = np.asarray(A) + 0.5 * np.eye(P)
    factor = factorize(A, lam)
    assert_close(quad_diag(factor, A, Z, lam), np.einsum("ij,jk,ik->i", Z, np.linalg.inv(shifted), Z))
    assert_close(quad_diag(factor, A, None, lam), np.diag(np.linalg.inv(shifted)))
    assert_close(logdet(factor, A, lam), np.linalg.slogdet(shifted)[1])


def test_spectrum_of_an_ill_conditioned_matrix_comes_from_its_root():
    left, _ = np.linalg.qr(rng.normal(size=(9, 4)))
    right, _ = np.linalg.qr(rng.normal(size=(4, 4)))
    singular = np.array([1.0, 1e-2, 1e-3, 2e-4])
    root = jnp.asarray(right @ np.diag(singular) @ left.T)
    found = jnp.sort(spectrum(root @ root.T, (root,)).values)[::-1]
    np.testing.assert_allclose(np.asarray(found) / singular**2, 1, rtol=1e-9 if jax.config.jax_enable_x64 else 1e-2)


def test_jittered_cholesky_reports_its_jitter():
    lower, jitter, status = jittered_cholesky(jnp.eye(3))
    assert (float(jitter), int(status)) == (0.0, Status.CONVERGED)
    assert_close(lower, jnp.eye(3))
    singular = jnp.ones((3, 3))
    lower, jitter, status = jax.jit(jittered_cholesky)(singular)
    assert 0 < float(jitter) < 1e-4
    assert int(status) == Status.CONVERGED
    assert_close(lower @ lower.T, singular, f64=1e-4)
    lower, _, status = jittered_cholesky(-jnp.eye(3))
    assert int(status) == Status.NOT_POSITIVE_DEFINITE
    assert bool(jnp.all(jnp.isnan(jnp.diagonal(lower))))
    batch = jax.vmap(jittered_cholesky)(jnp.stack([jnp.eye(3), singular, -jnp.eye(3), jnp.full((3, 3), jnp.nan)]))
    assert [int(s) for s in batch[2]] == [0, 0, Status.NOT_POSITIVE_DEFINITE, Status.NON_FINITE]


@pytest.mark.x64
def test_function_of_a_matrix_and_its_derivative():
    """exp(θA)B against its series, and at equal eigenvalues."""
    A = jnp.asarray(rng.normal(size=(4, 4)))
    A = A @ A.T / 10
    B = jnp.asarray(rng.normal(size=(4, 2)))
    exponential = lambda d, theta: jnp.exp(theta * d)  # noqa: E731

    def apply(A, B, theta):
        return linalg.apply_function(exponential, spectrum(A), A, B, theta)

    assert_close(apply(A, B, 0.5), jax.scipy.linalg.expm(0.5 * A) @ B)
    check_grads(jax.jit(lambda R, B, theta: apply(R @ R.T, B, theta)), (A, B, 0.5), order=1, rtol=1e-5)
    one = lambda E: jax.scipy.linalg.expm(jnp.eye(3) + E) @ jnp.ones((3, 1))  # noqa: E731
    E = jnp.asarray(rng.normal(size=(3, 3)))
    _, expected = jax.jvp(one, (jnp.zeros((3, 3)),), (E + E.T,))
    _, found = jax.jvp(lambda A: apply(A, jnp.ones((3, 1)), 1.0), (jnp.eye(3),), (E + E.T,))
    assert_close(found, expected)


_BUSY_POOL = """
import jax, jax.numpy as jnp, numpy as np
from jax import lax
from jax.sharding import Mesh, PartitionSpec as P
from regjax.core.products import cross

jax.config.update("jax_num_cpu_devices", 2)
jax.config.update("jax_enable_x64", True)
rng = np.random.default_rng(0)
A, B = rng.normal(size=(500, 2000)), rng.normal(size=(8, 500, 60))

def product(B):  # after steps whose halves wait in the pool's queue of 1024 tasks for a thread that is free
    work = lax.fori_loop(0, 600, lambda i, w: w / 2 + 1, jnp.full(70000, B[0, 0]))
    B = B + jnp.where(work.max() > 3, work.max(), 0)
    return jnp.concatenate([cross(A, B), cross(B, A).T, cross(A, A * B[0, 0])[:, :60]])

mesh = Mesh(np.array(jax.devices()), ("device",))
products = jax.shard_map(lambda B: lax.map(product, B), mesh=mesh, in_specs=P("device"), out_specs=P("device"))
one, other, gram = jnp.split(jax.jit(products)(B), 3, axis=1)
expected = np.einsum("ni,lnt->lit", A, B)
square = B[:, :1, :1] * (A.T @ A)[:, :60]
print(max(np.max(np.abs(one - expected)), np.max(np.abs(other - expected)), np.max(np.abs(gram - square))))
"""


@pytest.mark.once
def test_products_are_right_while_every_thread_of_the_pool_is_busy():
    """Two devices on two threads, where XLA's contraction of first axes mixes up blocks of the matrix."""
    environment = os.environ | {"NPROC": "2", "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-c", _BUSY_POOL]
    out = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=120).stdout
    assert float(out) < 1e-10


@pytest.mark.parametrize("n", [40, 67])
def test_gram_matrices_of_many_samples_are_sums_over_blocks_of_them(n, monkeypatch):
    A = jnp.asarray(np.random.default_rng(1).normal(size=(n, 5)))
    monkeypatch.setattr(products, "_BLOCK", 8 * A.shape[1])
    gram = jax.jit(products.symmetric_product)
    assert "while" in gram.lower(A, A).as_text()
    assert_close(gram(A, A), np.asarray(A).T @ np.asarray(A), f64=1e-14, f32=1e-6)
    assert_close(jax.vmap(gram)(A[None], A[None])[0], gram(A, A), f64=1e-14, f32=1e-6)
