"""The engine behind the lasso where its pieces meet: more coefficients than the working set holds."""

import jax.numpy as jnp
import numpy as np
import pytest

import regjax
from regjax.solvers.column_set import WHOLE
from tests.problems import assert_close


@pytest.mark.x64
def test_more_coefficients_than_the_working_set_holds():
    """An elastic net's support can exceed n, and all bounds of the engine: then all columns are swept."""
    rng = np.random.default_rng(0)
    n, p = 40, WHOLE + 76
    X, y = jnp.asarray(rng.normal(size=(n, p))), jnp.asarray(rng.normal(size=n))
    l1, l2 = 1e-3 * float(regjax.lam_max(X, y)), 50.0
    fit = regjax.elastic_net(X, y, l1, l2)
    assert bool(fit.converged)
    w = np.asarray(fit.params.coef)
    assert (w != 0).sum() > WHOLE // 2
    slope = np.asarray((X - X.mean(0)).T @ (y - fit.params(X))) - l2 * w
    # on the support the slope is l1·sign, off it no more than l1
    assert_close(slope[w != 0], l1 * np.sign(w[w != 0]), f64=1e-7)
    assert np.abs(slope).max() <= l1 * (1 + 1e-7)
