"""The small parts of the core: lanes, loop, implicit derivative, solution, tree, doubled precision."""

import fractions

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import regjax
from regjax import Solution, Status
from regjax.core import doubled
from regjax.core.implicit import implicit_solution
from regjax.core.lanes import in_any_lane, map_lanes, sees_lanes
from regjax.core.loop import iterate
from regjax.core.tree import broadcast_strengths, ravel_design
from tests.problems import assert_close


def test_sees_lanes_receives_every_axis_and_keeps_unvarying_results():
    seen = []

    @sees_lanes
    def function(a, b):
        seen.append((a.shape, b.shape))
        return a * 2, a + b

    a, b = jnp.arange(3.0), jnp.arange(2.0)
    double, total = jax.vmap(jax.vmap(function, (None, 0)), (0, None), out_axes=(0, 0))(a, b)
    assert seen[-1] == ((3, 1), (1, 2))
    assert_close(total, a[:, None] + b)
    assert_close(double, jnp.broadcast_to(2 * a[:, None], (3, 2)))


def test_map_lanes_equals_vmap():
    A = jnp.asarray(np.random.default_rng(0).normal(size=(3, 4, 4)))
    A = A @ A.transpose(0, 2, 1) + jnp.eye(4)
    assert_close(jax.jit(lambda A: map_lanes(jnp.linalg.cholesky, A))(A), jax.vmap(jnp.linalg.cholesky)(A))


def newton_step(a):
    def step(x):
        x = (x + a / x) / 2
        return x, jnp.abs(x * x - a) / a

    return step


def test_loop_converges_and_freezes_finished_lanes():
    tol = 10 * jnp.finfo(jnp.result_type(float)).eps
    run = lambda a: iterate(newton_step(a), jnp.ones(()), tol=tol, max_iter=50)  # noqa: E731
    values = jnp.array([1.0, 2.0, 1e6])
    batch = jax.vmap(run)(values)
    assert_close(batch.state, jnp.sqrt(values), f64=1e-14, f32=1e-6)
    assert batch.num_iter.tolist() == [int(run(a).num_iter) for a in values]
    assert batch.num_iter[0] < batch.num_iter[2]
    assert batch.status.tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("step", "status"),
    [
        (lambda x: (x + 1, 1 / (x + 1)), Status.ITERATION_LIMIT),
        (lambda x: (x + 1, jnp.where(x > 3, jnp.nan, 1.0)), Status.NON_FINITE),
        (lambda x: (x + 1, jnp.maximum(3.0 - x, 1.0)), Status.FLOOR),
        (lambda x: (x + 1, jnp.zeros(())), Status.CONVERGED),
    ],
)
def test_loop_says_how_it_ended(step, status):
    result = iterate(step, jnp.zeros(()), tol=1e-9, max_iter=40)
    assert int(result.status) == status


def test_loop_returns_the_best_state():
    result = iterate(lambda x: (x + 1, jnp.abs(x + 1 - 5.0) + 1), jnp.zeros(()), tol=0.5, max_iter=30, patience=4)
    assert (float(result.state), float(result.error)) == (5.0, 1.0)


def log_sum_exp_root(theta):
    """The minimiser of a smooth strictly convex function, by Newton's method."""
    A, b = theta

    def objective(w, theta):
        A, b = theta
        return jax.nn.logsumexp(A @ w - b) + 0.5 * w @ w

    gradient = jax.grad(objective)
    hessian = jax.hessian(objective)
    stopped = jax.lax.stop_gradient(theta)
    w = jax.lax.fori_loop(
        0, 30, lambda _, w: w - jnp.linalg.solve(hessian(w, stopped), gradient(w, stopped)), jnp.zeros(A.shape[1])
    )
    return implicit_solution(
        gradient, lambda aux, theta, w, rhs: jnp.linalg.solve(hessian(w, theta), rhs), w, (A, b), None
    )


@pytest.mark.x64
class TestImplicit:
    rng = np.random.default_rng(3)
    theta = (jnp.asarray(rng.normal(size=(5, 3))), jnp.asarray(rng.normal(size=5)))

    def finite(self, function, theta, direction, h=1e-5):
        moved = [jax.tree.map(lambda a, d: a + s * h * d, theta, direction) for s in (1, -1)]  # noqa: B023
        return (function(moved[0]) - function(moved[1])) / (2 * h)

    def direction(self):
        return jax.tree.map(lambda a: jnp.asarray(self.rng.normal(size=a.shape)), self.theta)

    def test_jvp(self):
        d = self.direction()
        assert_close(
            jax.jvp(log_sum_exp_root, (self.theta,), (d,))[1], self.finite(log_sum_exp_root, self.theta, d), f64=1e-8
        )

    def test_grad(self):
        score = lambda theta: jnp.sum(log_sum_exp_root(theta) ** 3)  # noqa: E731
        d, g = self.direction(), jax.grad(score)(self.theta)
        assert_close(
            sum(jnp.vdot(a, b) for a, b in zip(g, d, strict=True)), self.finite(score, self.theta, d), f64=1e-7
        )

    def test_jit_vmap_grad(self):
        score = lambda theta: jnp.sum(log_sum_exp_root(theta) ** 3)  # noqa: E731
        batch = jax.tree.map(lambda a: jnp.stack([a, 0.5 * a]), self.theta)
        together = jax.jit(jax.vmap(jax.grad(score)))(batch)
        apart = jax.grad(score)(jax.tree.map(lambda a: 0.5 * a, self.theta))
        assert_close(jax.tree.map(lambda a: a[1], together), apart)

    def test_hessian(self):
        score = lambda b: jnp.sum(log_sum_exp_root((self.theta[0], b)) ** 3)  # noqa: E731
        b = self.theta[1]
        d = jnp.asarray(self.rng.normal(size=b.shape))
        assert_close(jax.hessian(score)(b) @ d, self.finite(jax.grad(score), b, d), f64=1e-7)


def solution(status):
    status = jnp.asarray(status)
    return Solution(None, status, status, status, status, status)


def test_check_names_the_lanes_that_failed():
    good = solution([0, Status.RANK_DEFICIENT])
    assert regjax.check(good) is good
    assert good.converged.tolist() == [True, True]
    with pytest.raises(regjax.FitError, match=r"2 of 3 lanes \(0, 2\): NON_FINITE.*NaN"):
        regjax.check(solution([2, 0, 2]))
    with pytest.raises(regjax.FitError, match=r"the fit: ITERATION_LIMIT.*max_iter"):
        regjax.check(solution(1))
    with pytest.raises(regjax.FitError, match=r"\(1, 0\)"):
        regjax.check(solution([[0, 0], [5, 0]]))
    assert all(status.message for status in Status)


def test_design_round_trip():
    design = {"a": jnp.arange(3.0), "b": (jnp.ones((3, 2), int), jnp.zeros((3, 2, 2)))}
    matrix, structure = ravel_design(design)
    assert matrix.shape == (3, 7)
    coef = structure.unravel(jnp.arange(7.0))
    assert jax.tree.map(jnp.shape, coef) == {"a": (), "b": ((2,), (2, 2))}
    assert_close(structure.ravel(coef, ()), jnp.arange(7.0))
    assert structure.unravel(jnp.ones((7, 4)))["b"][1].shape == (2, 2, 4)


def test_strengths_broadcast_by_block():
    _, structure = ravel_design({"age": jnp.ones(3), "genes": jnp.ones((3, 2))})
    assert_close(broadcast_strengths("lam", {"age": 0.0, "genes": 3.0}, structure), jnp.array([0.0, 3.0, 3.0]))
    assert_close(broadcast_strengths("lam", {"age": 0.0, "genes": jnp.array([1.0, 2.0])}, structure), jnp.arange(3.0))
    assert_close(broadcast_strengths("lam", 2.0, structure), jnp.full(3, 2.0))
    with pytest.raises(ValueError, match="lam takes a scalar"):
        broadcast_strengths("lam", {"age": 0.0}, structure)


def exact(x):
    return fractions.Fraction(float(x))


def test_two_sum_is_exact():
    rng = np.random.default_rng(4)
    a, b = rng.normal(size=100), rng.normal(size=100) * 1e-9
    a, b = np.asarray(jnp.asarray(a)), np.asarray(jnp.asarray(b))
    high, low = jax.jit(doubled.two_sum)(a, b)
    for x, y, h, l in zip(a, b, np.asarray(high), np.asarray(low), strict=True):
        assert exact(x) + exact(y) == exact(h) + exact(l)


def test_doubled_product_against_rational_arithmetic():
    rng = np.random.default_rng(5)
    a = np.asarray(jnp.asarray(rng.normal(size=(3, 50)) * 10.0 ** rng.integers(-4, 4, size=(1, 50))))
    b = np.asarray(jnp.asarray(rng.normal(size=(50, 2))))
    product = jax.jit(doubled.matmul)(doubled.pair(jnp.asarray(a)), doubled.pair(jnp.asarray(b)))
    eps = float(jnp.finfo(a.dtype).eps)
    for i in range(3):
        for j in range(2):
            terms = [exact(x) * exact(y) for x, y in zip(a[i], b[:, j], strict=True)]
            found = exact(product.high[i, j]) + exact(product.low[i, j])
            assert abs(float(found - sum(terms))) <= eps**1.5 * float(sum(map(abs, terms)))


def test_trees_of_different_classes_differ():
    """`jit` may otherwise run the program that it compiled for the one with the other."""
    kinds = [regjax.kernels.RBF(1.0), regjax.kernels.Exponential(1.0), regjax.kernels.Matern52(1.0)]
    structures = [jax.tree.structure(2.0 * kind) for kind in kinds]
    assert len({str(s) for s in structures}) == 3
    assert all((a == b) == (i == j) for i, a in enumerate(structures) for j, b in enumerate(structures))


def test_a_flag_of_any_lane_lets_a_branch_be_skipped():
    """`lax.cond` on a flag of its own in every lane would compute both branches for all of them."""

    def costly_where_needed(x):
        return lax.cond(in_any_lane(x > 2), lambda: jnp.sin(x), lambda: x)

    batched = jax.vmap(jax.vmap(costly_where_needed))
    assert " cond[" in str(jax.make_jaxpr(batched)(jnp.ones((2, 3))))
    assert_close(batched(jnp.array([[0.0, 1.0], [2.0, 0.5]])), jnp.array([[0.0, 1.0], [2.0, 0.5]]))
    assert_close(batched(jnp.array([[0.0, 3.0]])), jnp.sin(jnp.array([[0.0, 3.0]])))
