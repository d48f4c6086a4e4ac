"""Matrices by their columns, and arrays of one column as vectors."""

import jax.numpy as jnp
import numpy as np

from regjax.core.thin import thin
from regjax.core.turned import Turned
from regjax.penalties import ElasticNet
from tests.problems import assert_close


def test_a_turned_matrix_is_the_matrix_it_stands_for():
    rng = np.random.default_rng(0)
    A, W, S = (jnp.asarray(rng.normal(size=shape)) for shape in ((7, 5), (5, 3), (7, 3)))
    mean, scale = jnp.asarray(rng.normal(size=5)), jnp.asarray(rng.uniform(0.5, 2, 5))
    dense, turned = (A - mean) * scale, Turned(A.T, mean, scale)
    assert turned.shape == dense.shape
    assert turned.dtype == dense.dtype
    assert_close(turned @ W, dense @ W, f64=1e-13, f32=1e-5)
    assert_close(turned.cross(S), dense.T @ S, f64=1e-13, f32=1e-5)
    assert_close(turned.cross_of_sizes(S**2), jnp.abs(dense).T @ S**2, f64=1e-13, f32=1e-5)
    assert_close(turned.columns(jnp.array([3, 0])), dense.T[jnp.array([3, 0])], f64=1e-13, f32=1e-5)
    assert_close(Turned.of(A) @ W, A @ W, f64=1e-13, f32=1e-5)


def test_only_arrays_of_one_column_become_vectors():
    column, strength = jnp.arange(3.0)[:, None], jnp.ones((3, 1))
    w, penalty = thin(column, ElasticNet(strength, 2.0))
    assert w.shape == penalty.l1.shape == (3,)
    assert penalty.l2 == 2.0
    both = jnp.ones((3, 2))
    assert thin(both, strength) == (both, strength)
    assert_close(ElasticNet(strength, 2.0).value(column), ElasticNet(1.0, 2.0).value(column[:, 0]), f64=1e-14, f32=1e-6)
