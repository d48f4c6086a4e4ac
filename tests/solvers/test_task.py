"""The line search that every Newton method shares."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from regjax.losses import Poisson
from regjax.penalties import Box, Zero
from regjax.solvers.task import Task, advance, place
from tests.problems import assert_close


@pytest.mark.once
@pytest.mark.parametrize(
    ("penalty", "sign"),
    [(Zero(), 1.0), (Box(-1.0, 0.5), -1.0), (Zero(), jnp.nan)],
    ids=["uphill", "over a limit", "nowhere"],
)
def test_a_direction_that_does_not_lead_down_is_not_taken(penalty, sign):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 2)) + 1, rng.poisson(40.0, size=(20, 1)).astype(float)
    task = jax.tree.map(jnp.asarray, Task(X, y, np.zeros((20, 1)), np.ones(20), np.ones(()), Poisson()))
    point = jnp.array([[1.0], [0.5], [0.5]])
    here = place(task, point)
    slope = task.pull(task.slopes(here.eta))

    @jax.jit
    def go(direction):
        return advance(task, penalty, here, direction, -jnp.sum(slope**2))

    stays = go(sign * slope)
    assert_close((stays.point, stays.eta, stays.loss), (point, here.eta, here.loss), f64=0.0, f32=0.0)
    if isinstance(penalty, Zero):  # else the test would say nothing
        assert float(go(-slope).loss) < float(here.loss)
