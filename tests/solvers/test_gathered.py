"""The working set takes the columns of highest rank, each once, with their inner products."""

import jax.numpy as jnp
import numpy as np
import pytest

from regjax.solvers.gathered import Gathered
from tests.problems import assert_close


@pytest.mark.parametrize("counts", [(3,), (20, 5), (70, 16, 40)])
def test_the_best_columns_enter_once(counts):
    rng = np.random.default_rng(0)
    rows = jnp.asarray(rng.normal(size=(200, 9)))
    rank = jnp.asarray(rng.uniform(1, 2, size=200)).at[::7].set(0).at[5].set(jnp.inf)
    held = Gathered.nothing(150, 9, 200, rows.dtype)
    for count in counts:
        held = held.with_best(lambda index: rows[index], rank, count)
    live = int(held.live)
    assert live == sum(counts)
    index = np.asarray(held.index[:live])
    assert len(set(index)) == live
    assert set(index) == set(np.argsort(-np.asarray(rank))[:live])
    assert set(np.flatnonzero(held.inside)) == set(index)
    assert_close(held.columns[:live], rows[index], f64=1e-15, f32=1e-7)
    assert_close(held.gram[:live, :live], rows[index] @ rows[index].T, f64=1e-13, f32=1e-5)


def test_ranks_of_zero_and_what_has_no_room_stay_out():
    rows = jnp.ones((100, 4))
    rank = jnp.where(jnp.arange(100) < 30, 1.0, 0.0)
    assert int(Gathered.nothing(50, 4, 100, rows.dtype).with_best(lambda index: rows[index], rank, 64).live) == 30
    assert int(Gathered.nothing(20, 4, 100, rows.dtype).with_best(lambda index: rows[index], rank, 64).live) == 20
