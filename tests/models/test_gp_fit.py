"""Hyperparameters by gradient: optimality, starts and their statuses, bounds, priors, batches."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import regjax
from regjax import Status, kernels
from regjax.core.bfgs import minimize_box
from regjax.models.gp_fit import _screened
from tests.problems import assert_close, tolerance

rng = np.random.default_rng(0)
X = jnp.asarray(rng.uniform(size=(30, 2)))
y = jnp.sin(6 * X[:, 0]) + X[:, 1] ** 2 + 0.2 * jnp.asarray(rng.normal(size=30))
KERNEL = 1.0 * kernels.RBF(jnp.ones(2))
_COMPILED = jax.jit(lambda X, y, noise: regjax.gp_fit(KERNEL, X, y, noise, restarts=4))


def FIT(X, y, noise=0.1):
    return _COMPILED(X, y, noise)


def test_rosenbrock_within_and_without_bounds():
    function = jax.value_and_grad(lambda x: jnp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2))
    start, tol = jnp.full(3, -1.2), tolerance(1e-8, 1e-4)
    free = minimize_box(function, start, -jnp.inf * start**2, jnp.inf * start**2, scale=1.0, tol=tol, max_iter=200)
    assert_close(free.point, jnp.ones(3), f32=1e-3)
    assert int(free.status) == Status.CONVERGED
    held = minimize_box(function, start, 0 * start - 2, 0 * start + 0.5, scale=1.0, tol=tol, max_iter=200)
    assert int(held.status) == Status.BOUNDARY
    assert float(held.point[0]) == 0.5
    assert float(held.residual) <= tol
    assert int(held.num_eval) < 80


def test_the_gradient_vanishes_and_the_best_start_is_returned():
    fit = FIT(X, y)
    assert bool(fit.converged)
    assert float(fit.residual) <= tolerance(1e-6, 5e-3)
    assert_close(fit.objective, -fit.params.log_marginal_likelihood, f32=1e-3)
    assert_close(fit.objective, jnp.min(fit.starts.objective))
    assert int(fit.num_iter) == int(jnp.sum(fit.starts.num_iter + fit.starts.num_screening))
    assert fit.starts.status.shape == (4,)
    assert set(fit.starts.status.tolist()) <= {Status.CONVERGED, Status.BOUNDARY, Status.DROPPED, Status.FLOOR}
    assert fit.starts.hyperparameters["kernel"].kernel.scale.shape == (4, 2)
    assert_close(fit.params(X), regjax.gp(fit.params.kernel, X, y, fit.params.noise)(X))

    def value(logs):
        kernel = jnp.exp(logs[0]) * kernels.RBF(jnp.exp(logs[1:3]))
        return regjax.gp(kernel, X, y, jnp.exp(logs[3])).log_marginal_likelihood

    kernel = fit.params.kernel
    logs = jnp.log(jnp.concatenate([kernel.factor[None], kernel.kernel.scale, fit.params.noise[None]]))
    assert float(jnp.max(jnp.abs(jax.grad(value)(logs)))) <= 30 * tolerance(1e-6, 5e-3)


@pytest.mark.filterwarnings("ignore")  # of a parameter close to its bound
def test_no_worse_than_scikit_learn():
    process = pytest.importorskip("sklearn.gaussian_process")
    parts = process.kernels
    kernel = parts.ConstantKernel(1.0) * parts.RBF(np.ones(2)) + parts.WhiteKernel(0.1)
    model = process.GaussianProcessRegressor(kernel, n_restarts_optimizer=3, random_state=0)
    model.fit(np.asarray(X, float), np.asarray(y, float))
    assert float(-FIT(X, y).objective) >= model.log_marginal_likelihood_value_ - tolerance(1e-5, 2e-2)


def test_what_is_fixed_stays_and_bounds_hold():
    fit = regjax.gp_fit(KERNEL, X, y, 0.1, restarts=2, fixed={"kernel": True * kernels.RBF(False), "noise": True})
    assert float(fit.params.kernel.factor) == 1.0
    assert_close(fit.params.noise, 0.1, f32=1e-7)
    assert not np.allclose(fit.params.kernel.kernel.scale, 1.0)
    fit = regjax.gp_fit(KERNEL, X, y, 0.1, restarts=2, bounds={"kernel": (0.1, 10.0) * kernels.RBF((0.5, 0.6))})
    assert bool(jnp.all((fit.params.kernel.kernel.scale >= 0.4999) & (fit.params.kernel.kernel.scale <= 0.6001)))
    assert int(fit.status) == Status.BOUNDARY


def test_priors_enter_the_objective():
    prior = {"noise": lambda v: -500 * (jnp.log(v) - jnp.log(0.5)) ** 2}
    fit = regjax.gp_fit(KERNEL, X, y, 0.1, restarts=1, priors=prior)
    assert_close(fit.params.noise, 0.5, f64=0.05, f32=0.05)
    penalty = 500 * (jnp.log(fit.params.noise) - jnp.log(0.5)) ** 2
    assert_close(fit.objective, penalty - fit.params.log_marginal_likelihood, f64=1e-8)


def test_mean_and_many_targets_are_fitted():
    Y = jnp.stack([y + 50, y**2 + 40], axis=1)
    fit = regjax.gp_fit(KERNEL, X, Y, 0.1, restarts=2, mean=jnp.zeros(2))
    assert bool(fit.converged)
    assert_close(fit.params.prior_mean, jnp.array([50.0, 40.0]), f64=0.1, f32=0.1)
    assert fit.params.log_marginal_likelihood.shape == (2,)


def test_leave_one_out_objective():
    fit = regjax.gp_fit(KERNEL, X, y, 0.1, restarts=2, objective="leave_one_out")
    assert_close(fit.objective, -jnp.sum(fit.params.loo().log_density), f32=1e-3)
    assert float(fit.residual) <= tolerance(1e-6, 5e-3)
    assert float(fit.objective) <= float(-jnp.sum(FIT(X, y).params.loo().log_density)) + 1e-3


def test_without_a_race_every_start_is_followed():
    fit = regjax.gp_fit(KERNEL, X, y, 0.1, restarts=3, race=False)
    assert int(jnp.sum(fit.starts.num_screening)) == 0
    assert Status.DROPPED not in fit.starts.status.tolist()
    assert float(fit.objective) <= float(FIT(X, y).objective) + tolerance(1e-6, 1e-2)


@pytest.mark.slow
@pytest.mark.once
def test_a_race_loses_nothing_where_the_signal_is_weak():
    """Many maxima within a few nats, and saddles between them at which starts seem to have ended."""
    source = np.random.default_rng(1000)
    points = jnp.asarray(source.uniform(size=(12, 50, 4)))
    signal = 0.3 * (jnp.sin(6 * points[..., 0]) + 2 * points[..., 1] ** 2)
    targets = signal + jnp.asarray(source.normal(size=(12, 50)))

    def reached(race):
        def fit(X, y):
            found = regjax.gp_fit(1.0 * kernels.RBF(jnp.ones(4)), X, y, 0.1, race=race)
            return found.objective, found.num_iter

        return jax.jit(jax.vmap(fit))(points, targets)

    (raced, cost), (followed, dearer) = reached(True), reached(False)
    assert float(jnp.max(raced - followed)) <= 1e-3
    assert int(jnp.sum(cost)) < int(jnp.sum(dearer))


@pytest.mark.slow
@pytest.mark.once
def test_screening_on_a_part_of_the_data():
    data = jnp.asarray(rng.uniform(size=(300, 1)))
    targets = jnp.sin(12 * data[:, 0]) + 0.3 * jnp.asarray(rng.normal(size=300))
    variances = jnp.where(data[:, 0] > 0.5, 0.2, 0.05)  # known, and picked along with the samples
    fit = regjax.gp_fit(1.0 * kernels.Matern52(0.3), data, targets, variances, restarts=4)
    assert bool(fit.converged) or not jax.config.jax_enable_x64
    assert int(jnp.sum(fit.starts.status == Status.DROPPED)) >= 1
    assert fit.params.noise.shape == (300,)


@pytest.mark.once
def test_a_batch_of_data_sets_equals_a_loop():
    sets = jnp.stack([y, jnp.cos(5 * X[:, 1]) + 0.1 * y, y[::-1]])
    lanes = jax.jit(jax.vmap(lambda y: FIT(X, y)))(sets)
    for k in range(3):
        alone = FIT(X, sets[k])
        assert_close(lanes.objective[k], alone.objective, f64=1e-8)
        assert int(lanes.status[k]) == int(alone.status)
    assert lanes.starts.status.shape == (3, 4)


@pytest.mark.once
def test_fits_compile_once_and_export():
    FIT(X, y)
    other = jax.block_until_ready(2 * y)  # which compiles a product
    compiled = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, duration, **kwargs: compiled.append(event) if event.endswith("compile_duration") else None
    )
    try:
        FIT(X, other)
    finally:
        jax.monitoring.clear_event_listeners()
    assert not compiled
    exported = jax.export.export(_COMPILED, platforms=("cuda", "tpu"))(X, y, 0.1)
    assert exported.platforms == ("cuda", "tpu")


def test_a_start_outside_of_the_domain_is_invalid_inside_jit():
    with pytest.raises(ValueError, match="positive value"):
        regjax.gp_fit(KERNEL, X, y, 0.0)
    assert int(FIT(X, y, 0.0).status) == Status.INVALID


def test_failures_have_their_status():
    spoiled = FIT(X, y.at[0].set(jnp.nan))
    assert not bool(spoiled.converged)
    assert set(spoiled.starts.status.tolist()) <= {Status.NON_FINITE, Status.DROPPED}
    with pytest.raises(regjax.FitError):
        regjax.check(spoiled)
    constant = FIT(X, jnp.full(30, 2.0))
    assert constant.params(X).shape == (30,)
    assert bool(jnp.all(jnp.isfinite(constant.params(X))))


def test_a_start_with_a_singular_covariance_is_not_lost():
    fit = jax.jit(lambda X, y: regjax.gp_fit(1.0 * kernels.RBF(jnp.full(2, 4.0)), X, y, 1e-17, restarts=1))(X, y)
    assert int(fit.starts.status[0]) == int(fit.status)
    assert int(fit.status) in (Status.JITTERED, Status.BOUNDARY)
    assert float(fit.objective) < 30  # from some 1e14
    assert_close(fit.objective, -fit.params.log_marginal_likelihood, f64=1e-8, f32=1e-3)
    assert float(fit.residual) <= tolerance(1e-6, 5e-3)
    # duplicates without noise: the likelihood grows until rounding ends it
    rows = jnp.concatenate([jnp.arange(25), jnp.arange(5)])
    twice = regjax.gp_fit(KERNEL, X[rows], y[rows], 0.0, restarts=1, fixed={"noise": True})
    assert int(twice.status) in (Status.JITTERED, Status.FLOOR, Status.ITERATION_LIMIT)
    assert float(-twice.objective) > float(regjax.gp(KERNEL, X[rows], y[rows], 0.0).log_marginal_likelihood)
    assert_close(twice.objective, -twice.params.log_marginal_likelihood, f64=1e-6, f32=1e-2)
    assert_close(twice.params(X[:5]), y[:5], f64=1e-6, f32=2e-2)


def test_what_jitter_does_not_mend_is_not_positive_definite():
    fit = regjax.gp_fit(kernels.Sigmoid(1.0, -3.0), X, y, 1e-9, restarts=1, fixed={"noise": True})
    assert int(fit.starts.status[0]) == int(fit.status) == Status.NOT_POSITIVE_DEFINITE


@pytest.mark.x64
def test_samples_of_weight_zero_are_gone_and_float32_stays():
    """Whatever is in them: one program for all three."""
    fit = jax.jit(lambda X, y, v: regjax.gp_fit(KERNEL, X, y, 0.1, weights=v, restarts=2))
    weights = jnp.ones(30).at[jnp.array([3, 8])].set(0.0)
    single = [a.astype(jnp.float32) for a in (X, y, weights)]
    clean = fit(*single)
    for junk in (jnp.nan, 1e6):
        spoiled = fit(single[0].at[3].set(junk), single[1].at[8].set(junk), single[2])
        assert_close(spoiled.objective, clean.objective, f64=1e-4)
        assert_close(spoiled.params(single[0]), clean.params(single[0]), f64=1e-2)
        assert_close(spoiled.starts.objective, clean.starts.objective, f64=1e-4)
        assert spoiled.starts.num_iter.tolist() == clean.starts.num_iter.tolist()
    assert all(leaf.dtype in (jnp.float32, jnp.int32, bool) for leaf in jax.tree.leaves(clean))


@pytest.mark.once
def test_samples_of_weight_zero_do_not_count():
    """Neither in the residual, which is per sample, nor among those that starts are screened on."""
    far = 1e6 * jnp.arange(6.0)
    fit = regjax.gp_fit(
        kernels.RBF(1.0),
        far,
        jnp.zeros(6),
        1.0,
        weights=jnp.arange(6) < 4,
        restarts=1,
        max_iter=1,
        fixed={"kernel": True},
    )
    assert_close(fit.residual, 0.25)  # the derivative of ½ log(1 + s) in log s at s = 1
    rows = _screened(jax.random.key(0), 400, (jnp.arange(400) % 3 == 0).astype(float))
    assert len(rows) == 128
    assert bool(jnp.all(rows % 3 == 0))


@pytest.mark.once
def test_bounds_may_have_one_side():
    bounds = {"kernel": (0.5, jnp.inf) * kernels.RBF((0.1, jnp.inf)), "noise": (1e-3, jnp.inf), "mean": (-jnp.inf, 0.0)}
    fit = regjax.gp_fit(KERNEL, X, y, 0.1, mean=-0.1, restarts=4, race=False, max_iter=2, bounds=bounds)
    assert bool(jnp.all(jnp.isfinite(fit.starts.objective)))
    starts = fit.starts.hyperparameters
    assert bool(jnp.all((starts["noise"] >= 0.999e-3) & (starts["mean"] <= 0)))
