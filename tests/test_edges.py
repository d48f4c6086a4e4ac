"""Ends of the range: λ = 0, no signal, weights and penalties outside of their domain inside jit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import regjax
from regjax import Status
from regjax.losses import Lp, Multinomial
from regjax.penalties import NonNegative, Zero
from tests.problems import assert_close, problem

X, y, V = problem(12, 3)


@pytest.mark.x64
def test_smoothing_spline_has_a_derivative_at_zero():
    x = X[:, 0]

    @jax.jit
    def fitted(lam):
        return regjax.smoothing_spline(x, y, lam).params(x)

    assert_close(fitted(0.0), y, f64=1e-13)
    assert_close(jax.jacfwd(fitted)(0.0), (fitted(1e-10) - fitted(0.0)) / 1e-10, f64=1e-3)


@pytest.mark.once
@pytest.mark.parametrize("value", [0.0, 3.0])
def test_a_target_without_signal_is_at_the_boundary(value):
    fit = regjax.bayes_linear_fit(X, jnp.full(12, value), intercept=True)
    assert Status(int(fit.status)) == Status.BOUNDARY
    assert_close(fit.params.coef, jnp.zeros(3), scale=1.0)
    assert_close(fit.params.intercept, value, scale=1.0, f32=1e-6)


@pytest.mark.once
def test_inference_of_negative_weights_is_nan_inside_jit():
    errors = jax.jit(lambda v: regjax.inference(X, y, regjax.ols(X, y), weights=v).standard_errors.coef)
    assert np.all(np.isnan(errors(V.at[0].set(-1.0))))


@pytest.mark.once
def test_an_indefinite_penalty_without_a_minimum_is_flagged():
    omega = jnp.diag(jnp.array([1.0, 1.0, -5.0]))
    assert not bool(regjax.tikhonov(X, y, 100.0, penalty=omega).converged)
    assert not bool(
        jnp.any(jax.vmap(lambda lam: regjax.tikhonov(X, y, lam, penalty=omega))(jnp.array([50.0, 100.0])).converged)
    )


@pytest.mark.once
def test_intercept_none_is_no_intercept():
    assert_close(regjax.ols(X, y, intercept=None).params, regjax.ols(X, y, intercept=False).params)  # pyright: ignore


FAR = jnp.array([0.0, 1.0, 2.0, 3.0, 1e9])


def test_a_far_point_leaves_the_distances_of_the_others_alone():
    kernel, target = regjax.kernels.RBF(0.5), jnp.arange(5.0)
    assert_close(regjax.kernels.gram(kernel, FAR)[0, 1], np.exp(-2.0), f32=1e-6)
    K = np.exp(-2 * (np.asarray(FAR, float)[:, None] - np.asarray(FAR, float)) ** 2)
    expected = (K @ np.linalg.solve(K + 0.01 * np.eye(5), np.arange(5.0)))[:4]
    assert_close(regjax.kernel_ridge(kernel, FAR, target, 0.01).params(FAR[:4]), expected, f32=1e-5)
    assert_close(regjax.gp(kernel, FAR, target, 0.01)(FAR[:4]), expected, f32=1e-5)


def test_points_far_from_the_origin_keep_their_digits():
    x = 1e6 + jnp.arange(60.0)
    turn = regjax.kernels.gram(regjax.kernels.Periodic(1.0, 7.0), x[:4])[0, 3]
    assert_close(turn, np.exp(-2 * np.sin(3 * np.pi / 7) ** 2), f32=1e-5)
    line = regjax.nadaraya_watson(regjax.kernels.RBF(2.0), x, jnp.arange(60.0), local_linear=True)
    assert_close(line(1e6 + jnp.array([0.0, 30.5, 59.0])), jnp.array([0.0, 30.5, 59.0]), f32=1e-5, f64=1e-7)


@pytest.mark.sample(4)
@pytest.mark.parametrize(("kernel", "noise"), [(regjax.kernels.RBF(1.0), 1e-4), (regjax.kernels.Matern32(1.0), 0.0)])
def test_samples_of_a_process_that_knows_almost_everything_are_its_mean(kernel, noise):
    x = jnp.linspace(0, 6, 40)
    process = regjax.gp(kernel, x, jnp.sin(x), noise)
    draws = process.sample(jax.random.key(0), x, 5)
    assert_close(draws, jnp.broadcast_to(jnp.sin(x), draws.shape), f64=0.05, f32=0.3)
    nothing = regjax.gp(regjax.kernels.Linear(), x, jnp.sin(x), 0.1).sample(jax.random.key(0), jnp.zeros(2))
    assert not np.any(nothing)


@pytest.mark.once
def test_left_out_predictions_of_a_weightless_sample_do_not_spoil_derivatives():
    x, v = jnp.linspace(0, 6, 12), jnp.ones(12).at[3].set(0.0)

    def density(scale, x, y, v):
        found = regjax.gp(regjax.kernels.RBF(scale), x, y, 0.1, weights=v).loo().log_density
        return jnp.sum(jnp.where(v > 0, found, 0))

    slope = jax.grad(density)
    alone = slope(1.0, jnp.delete(x, 3), jnp.delete(jnp.sin(x), 3), jnp.ones(11))
    assert_close(slope(1.0, x, jnp.sin(x), v), alone, f32=1e-3)


@pytest.mark.once
def test_a_negative_amplitude_is_flagged_inside_jit():
    x = jnp.linspace(0, 6, 10)
    for fit in (regjax.kernel_ridge, regjax.gp):
        status = jax.jit(lambda a, fit=fit: fit(a * regjax.kernels.RBF(1.0), x, jnp.sin(x), 0.1).status)(-1e-3)
        assert Status(int(status)) == Status.NOT_POSITIVE_DEFINITE


def test_no_noise_is_so_large_that_it_is_likely():
    x = jnp.linspace(0, 6, 10)
    likelihood = lambda v: regjax.kernel_log_likelihood(  # noqa: E731
        regjax.kernels.RBF(1.0), x, jnp.sin(x), jnp.inf, weights=v
    )
    assert likelihood(None) == -jnp.inf
    assert likelihood(jnp.ones(10).at[2].set(0.0)) == -jnp.inf


@pytest.mark.once
def test_risks_far_below_others_count_in_a_cox_regression():
    """The last sample is alone in its risk set, whatever its risk is: it adds nothing."""
    rng = np.random.default_rng(0)
    x, time, event = rng.normal(size=(20, 1)), np.arange(1.0, 21), np.ones(20)
    offset = np.zeros(20)
    offset[0], offset[-1] = 20, -1000 if jax.config.jax_enable_x64 else -150
    penalty = regjax.penalties.L1(0.5)
    heard = np.ones(20)
    whole = regjax.cox_regression(x, time, event, penalty, offset=offset, weights=heard)
    part = regjax.cox_regression(x, time, event, penalty, offset=offset, weights=np.where(np.arange(20) < 19, 1.0, 0))
    assert bool(whole.converged)
    assert_close(whole.params.coef, part.params.coef, f64=1e-6, f32=1e-3)
    assert_close(whole.objective, part.objective, f32=1e-5)
    offset[-1] *= 100  # beyond what there are units for: not in silence
    assert not bool(regjax.cox_regression(x, time, event, penalty, offset=offset, weights=heard).converged)


@pytest.mark.x64
def test_the_unit_of_y_is_an_intercept_of_log_links():
    target = np.exp(np.asarray(X[:, 0]) / 3) * np.random.default_rng(1).gamma(5, 0.2, 12)
    loss = regjax.losses.InverseGaussian("log")
    one = regjax.fit(X, target, loss, regjax.penalties.L2(1.0))
    small = regjax.fit(X, 1e-5 * target, loss, regjax.penalties.L2(1e5))  # the deviance is in units of 1/y
    assert bool(one.converged & small.converged)
    assert_close(small.params.coef, one.params.coef, f64=1e-6)
    assert_close(small.params.intercept, one.params.intercept + np.log(1e-5), f64=1e-6)


@pytest.mark.x64
def test_single_precision_comes_out_as_it_went_in():
    x, target = np.asarray(X, np.float32), np.asarray(y, np.float32)
    fits = (
        regjax.lp_regression(x, target, 1),
        regjax.quantile_regression(x, target, 0.5, weights=np.ones(12)),
        regjax.multinomial_regression(x, np.arange(12) % 3, regjax.penalties.L2(1.0)),
    )
    for fit in fits:
        assert fit.params.coef.dtype == jnp.float32
        assert bool(fit.converged)


@pytest.mark.slow
@pytest.mark.once
def test_robust_regression_of_nothing_is_nothing():
    for psi in ("huber", "bisquare"):
        fit = regjax.robust_regression(X, jnp.zeros(12), psi=psi)
        assert bool(fit.converged)
        assert not np.any(fit.params.coef)


@pytest.mark.slow
def test_limits_are_kept_to_the_last_bit():
    design = np.random.default_rng(1).normal(size=(25, 6))
    fit = regjax.nonnegative_least_squares(design, design @ np.arange(6.0))
    assert np.all(np.asarray(fit.params.coef) >= 0)
    assert np.isfinite(fit.objective)
    assert_close(fit.params.coef, np.arange(6.0), f32=1e-4)


@pytest.mark.once
def test_tested_samples_without_weight_are_refused():
    with pytest.raises(ValueError, match="weights are zero for all samples that are tested"):
        regjax.holdout(X, y, regjax.losses.Squared(), regjax.penalties.L2(jnp.ones(2)), test=np.arange(12) < 2,
                       weights=(np.arange(12) >= 2).astype(float))  # fmt: skip


@pytest.mark.sample(4)
@pytest.mark.once
@pytest.mark.parametrize(
    ("penalty", "bad"),
    [
        (lambda a: regjax.penalties.Slope(jnp.array([1.0, a, 0.0])), 2.0),
        (lambda a: regjax.penalties.limit(regjax.penalties.L1(0.1), a, 1.0), 0.5),
        (lambda a: regjax.penalties.limit(regjax.penalties.L1(0.1), -1.0, a), -0.5),
        (lambda a: regjax.penalties.MCP(0.1, a), 0.0),
        (lambda a: regjax.penalties.SCAD(0.1, a), 2.0),
    ],
    ids=["slope", "lower", "upper", "mcp", "scad"],
)
def test_penalties_outside_of_their_domain_raise_and_are_flagged_inside_jit(penalty, bad):
    with pytest.raises(ValueError, match=r"lams|lower|upper|gamma"):
        regjax.fit(X, y, regjax.losses.Squared(), penalty(bad))
    status = jax.jit(lambda a: regjax.fit(X, y, regjax.losses.Squared(), penalty(a)).status)
    assert Status(int(status(jnp.asarray(bad)))) == Status.INVALID


@pytest.mark.once
def test_an_infinite_total_variation_is_a_constant():
    fit = regjax.fit(X, y, regjax.losses.Squared(), regjax.penalties.TotalVariation(jnp.inf))
    one = regjax.ols(X.sum(1)[:, None], y)
    assert bool(fit.converged)
    assert_close(fit.params.coef, jnp.broadcast_to(one.params.coef, 3), f64=1e-6, f32=1e-3)
    assert_close(fit.objective, one.objective, f32=1e-5)


def _one_sided(x, z):
    return jnp.maximum(0, 1 + x - z)


@pytest.mark.sample(4)
@pytest.mark.once
@pytest.mark.parametrize(
    "fit",
    [
        lambda x, y: regjax.kernel_fit(_one_sided, x, y, regjax.losses.Huber(1.0), 0.1),
        lambda x, y: regjax.kernel_ridge(_one_sided, x, y, 0.1),
        lambda x, y: regjax.kernel_ridge(_one_sided, x, y, 0.1, solver="nystrom", landmarks=x[::3]),
        lambda x, y: regjax.kernel_ridge(_one_sided, x, y, 0.1, solver="cg", landmarks=4),
        lambda x, y: regjax.gp(_one_sided, x, y, 0.1),
        lambda x, y: regjax.sparse_gp(_one_sided, x, y, 0.1, x[::3]),
    ],
    ids=["kernel_fit", "kernel_ridge", "nystrom", "cg", "gp", "sparse_gp"],
)
def test_a_kernel_that_is_not_symmetric_is_flagged(fit):
    x = jnp.linspace(0, 6, 12)
    assert Status(int(fit(x, jnp.sin(x)).status)) == Status.NOT_POSITIVE_DEFINITE


@pytest.mark.once
def test_kernel_fit_takes_a_positive_strength():
    x = jnp.linspace(0, 6, 12)
    fit = lambda lam: regjax.kernel_fit(  # noqa: E731
        regjax.kernels.RBF(1.0), x, jnp.sin(x), regjax.losses.Huber(1.0), lam
    )
    with pytest.raises(ValueError, match="lam must be positive, got 0"):
        fit(0.0)
    assert Status(int(jax.jit(fit)(0.0).status)) == Status.INVALID


@pytest.mark.once
def test_a_singular_covariance_has_no_likelihood():
    likelihood = lambda lam: regjax.kernel_log_likelihood(  # noqa: E731
        regjax.kernels.RBF(1.0), jnp.zeros(2), jnp.array([0.0, 1.0]), lam
    )
    with pytest.raises(ValueError, match="lam must be positive in a likelihood, got 0"):
        likelihood(0.0)
    assert np.isnan(jax.jit(likelihood)(0.0))


@pytest.mark.once
def test_strengths_at_the_end_of_the_search_are_said_to_be():
    x = jnp.linspace(0, 6, 20)
    kernels = [regjax.kernels.RBF(1.0), regjax.kernels.RBF(3.0)]
    noise = jax.random.normal(jax.random.key(1), (20,))
    found = {
        name: Status(int(regjax.multi_kernel_ridge_fit(kernels, x, y, num_candidates=4).status))
        for name, y in {"signal": jnp.sin(x) + 0.3 * noise, "exact": jnp.sin(x)}.items()
    }
    assert found == {"signal": Status.CONVERGED, "exact": Status.BOUNDARY}


@pytest.mark.once
def test_a_weightless_sample_that_is_not_a_number_leaves_derivatives_finite():
    x, v = jnp.linspace(0, 6, 12).at[3].set(jnp.nan), jnp.ones(12).at[3].set(0.0)
    target = jnp.sin(jnp.linspace(0, 6, 12))

    def error(scale, x, y, v):
        left = regjax.kernel_loo_residuals(regjax.kernels.RBF(scale), x, y, 0.1, weights=v)
        return jnp.sum(jnp.where(v > 0, left, 0) ** 2)

    alone = jax.grad(error)(1.0, jnp.delete(x, 3), jnp.delete(target, 3), jnp.ones(11))
    assert_close(jax.grad(error)(1.0, x, target, v), alone, f32=1e-3)


@pytest.mark.sample(8)
@pytest.mark.once
@pytest.mark.parametrize(
    "penalty",
    [
        regjax.penalties.Group(0.0, [0, 0, 1]),
        regjax.penalties.MCP(0.0),
        regjax.penalties.SCAD(0.0),
        regjax.penalties.L1(0.0),
        regjax.penalties.Slope(jnp.zeros(3)),
    ],
    ids=lambda penalty: type(penalty).__name__,
)
def test_a_penalty_that_charges_nothing_is_least_squares(penalty):
    """Its null model is the answer: what slope is left there is rounding, and no unit for that of the answer."""
    fit = regjax.fit(X, y, regjax.losses.Squared(), penalty)
    assert bool(fit.converged)
    assert fit.residual <= (1e-8 if jax.config.jax_enable_x64 else 1e-4)
    assert_close(fit.params, regjax.ols(X, y).params, f64=1e-6, f32=1e-3)


@pytest.mark.x64
def test_squares_of_the_target_that_underflow_are_flagged():
    """Where ‖y‖² is 0 for the machine, nothing would tell a wrong answer from a right one."""
    X, y, _ = problem(20, 4)
    fit = regjax.lasso(X * 1e-200, y * 1e-200, 1e-320)
    assert int(fit.status) == Status.ILL_CONDITIONED
    assert bool(regjax.lasso(X, 0 * y + 3, 1e-3).converged)


@pytest.mark.slow
@pytest.mark.sample(4)
@pytest.mark.once
@pytest.mark.parametrize("how", [{"lower": 0.0}, {"penalty": NonNegative()}], ids=["limits", "penalty"])
def test_separation_within_one_sided_limits_is_named(how):
    X, _, _ = problem(40, 2, seed=3)
    X = X - X.mean(0)
    noisy = (X[:, 0] + X[:, 1] + 3 * jnp.sin(7.0 * jnp.arange(40)) > 0).astype(X.dtype)
    y = jnp.stack([(X[:, 0] > 0).astype(X.dtype), noisy])
    fits = jax.jit(jax.vmap(lambda y: regjax.logistic_regression(X, y, **how)))(y)
    assert fits.status.tolist() == [Status.SEPARATED, Status.CONVERGED]


@pytest.mark.once
def test_the_curvature_of_classes_is_the_diagonal_of_their_hessian():
    eta = jnp.array([0.3, -1.0, 0.5])
    hessian = jax.hessian(lambda eta: Multinomial().value(jnp.array([1.0, 0.0, 0.0]), eta)[0])(eta)
    assert_close(Multinomial().curvature(jnp.array([1.0, 0.0, 0.0]), eta), jnp.diag(hessian), f64=1e-12)


@pytest.mark.once
def test_numbers_of_a_loss_outside_of_their_range_are_invalid_inside_jit():
    X, y, _ = problem(12, 2)

    @jax.jit
    @jax.vmap
    def status(a):
        return regjax.huber_regression(X, y, a).status, regjax.fit(X, y, Lp(1.5 + a / 4), Zero()).status

    huber, power = status(jnp.array([1.0, -3.0]))
    assert huber.tolist() == [Status.CONVERGED, Status.INVALID]
    assert power.tolist() == [Status.CONVERGED, Status.INVALID]


@pytest.mark.once
def test_targets_that_are_no_numbers_are_named():
    X, _, _ = problem(12, 2)
    for call in (lambda y: regjax.lp_regression(X, y, 1), lambda y: regjax.multinomial_regression(X, y)):
        with pytest.raises(ValueError, match="y has dtype"):
            call(np.array(["a"] * 12))
    with pytest.raises(ValueError, match="y contains NaN"):
        regjax.multinomial_regression(X, np.full(12, np.nan))
    with pytest.raises(ValueError, match="p must be from 1 to 2"):
        regjax.lp_regression(X, np.arange(12.0), np.array([1.5, 3.0]))


def two_clusters(columns):
    local = np.random.default_rng(0)
    return np.concatenate([local.normal(size=(4, columns)) + side for side in (1000, -1000)]).astype(np.float32)


def test_distant_clusters_of_many_columns_keep_their_distances():
    """In products of 40 columns the distances within a cluster would be rounding, and the slope in the scale too."""
    A = two_clusters(40)
    B = np.asarray(A, float)
    squares = np.sum((B[:, None] - B) ** 2, axis=-1)
    scales = np.array([6.0, 7.0])
    exact = np.exp(-squares / (2 * scales[:, None, None] ** 2))

    @jax.jit
    @jax.vmap
    def value_and_slope(scale):
        return jax.jvp(lambda s: regjax.kernels.gram(regjax.kernels.RBF(s), A), (scale,), (jnp.ones_like(scale),))

    found = value_and_slope(jnp.asarray(scales, jnp.float32))
    assert_close(found, (exact, exact * squares / scales[:, None, None] ** 3), f64=1e-4, f32=1e-4)


@pytest.mark.parametrize("per_input", [False, True])
def test_the_slope_in_the_scale_between_close_points_is_their_distance(per_input):
    step = 1e-12 if jax.config.jax_enable_x64 else 1e-2
    x = jnp.array([0.0, 1.0, 2.0, 3.0, 100.0, 100.0 + step])[:, None]
    gap = float(x[5, 0] - x[4, 0])
    scale = jnp.ones(1) if per_input else 1.0
    slope = jax.grad(lambda s: regjax.kernels.gram(regjax.kernels.Exponential(s), x)[4, 5])(scale)
    assert_close(slope, np.full(np.shape(scale), gap * np.exp(-gap)), f64=1e-6, f32=1e-4, floor=0)


@pytest.mark.parametrize("local_linear", [False, True])
def test_a_weightless_sample_has_its_ordinary_residual(local_linear):
    x, target = jnp.array([0.0, 1.0, 2.0, 3.0]), jnp.array([1.0, 2.0, 4.0, 10.0])
    for last in (3.0, jnp.nan):
        weights = jnp.array([1.0, 1.0, 1.0, 0.0])
        kernel, given = regjax.kernels.RBF(1.0), x.at[3].set(last)
        found = regjax.nadaraya_watson_loo(kernel, given, target, weights=weights, local_linear=local_linear)
        alone = regjax.nadaraya_watson(kernel, x[:3], target[:3], local_linear=local_linear)
        others = regjax.nadaraya_watson_loo(kernel, x[:3], target[:3], local_linear=local_linear)
        assert_close(found.residuals[:3], others.residuals, f32=1e-4)
        assert_close(found.score, others.score, f32=1e-4)
        assert_close(found.residuals[3:], 10 - alone(jnp.array([last])), f32=1e-4)


@pytest.mark.once
def test_columns_are_selected_by_any_integer_within_range():
    from regjax.kernels import RBF, Polynomial, gram, on

    for bad in (3, -4, (0, 7)):
        with pytest.raises(ValueError, match="but the points have 3 columns: it takes 0 to 2"):
            gram(on(RBF(1.0), bad), X)
    with pytest.raises(ValueError, match="on selects 'b', but the points have \\['a'\\]"):
        gram(on(RBF(1.0), "b"), {"a": X})
    with pytest.raises(ValueError, match="on takes a function, a column"):
        on(RBF(1.0), 1.5)  # pyright: ignore
    assert_close(gram(on(RBF(1.0), np.int64(1)), X), gram(RBF(1.0), X[:, 1]))  # pyright: ignore
    assert_close(gram(on(RBF(1.0), np.array([0, -1])), X), gram(RBF(1.0), X[:, [0, 2]]))  # pyright: ignore
    assert_close(gram(Polynomial(np.int64(2)), X), gram(Polynomial(2), X))  # pyright: ignore


@pytest.mark.once
@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        (lambda a: a * regjax.kernels.RBF(1.0), "factor"),
        (lambda a: regjax.kernels.Constant(a), "value"),
        (lambda a: regjax.kernels.White(a), "noise"),
        (lambda a: regjax.kernels.Polynomial(2, a), "bias"),
        (lambda a: regjax.kernels.Sigmoid(a), "alpha"),
        (lambda a: regjax.kernels.RationalQuadratic(1.0, a), "alpha"),
    ],
)
def test_hyperparameters_that_are_one_number_do_not_broadcast(kernel, name):
    for call in (regjax.kernels.gram, jax.jit(regjax.kernels.gram)):
        with pytest.raises(ValueError, match=rf"{name} of a kernel has shape \(12,\): it takes a scalar"):
            call(kernel(jnp.arange(1.0, 13)), X)


def test_far_averages_of_a_warped_kernel():
    from regjax.kernels import RBF, Linear, warp

    x, target = jnp.array([0.0, 1.0]), jnp.array([2.0, 4.0])
    far = regjax.nadaraya_watson(warp(RBF(0.1), lambda x: -1.0), x, target)(jnp.array([0.5, 100.0]))
    assert_close(far, jnp.array([3.0, 4.0]), f32=1e-6)
    squares = warp(Linear(), lambda x: x)  # (xz)², also where f(x) f(z) is negative
    assert_close(squares.log_matrix(x + 1, -x - 2), jnp.log(jnp.outer(x + 1, x + 2) ** 2), f32=1e-6)


@pytest.mark.once
def test_conjugate_gradients_see_a_negative_diagonal():
    fit = regjax.kernel_ridge(regjax.kernels.Sigmoid(2.0, -1.0), 0.1 * X, y, 50.0, solver="cg", landmarks=1)
    assert Status(int(fit.status)) == Status.NOT_POSITIVE_DEFINITE


@pytest.mark.once
def test_duplicates_without_noise_are_said_to_be_singular():
    twice, target = jnp.concatenate([X, X]), jnp.concatenate([y, y])
    fit = regjax.kernel_fit(regjax.kernels.RBF(1.0), twice, target, regjax.losses.Squared(), 0.1)
    assert Status(int(fit.status)) == Status.JITTERED


@pytest.mark.once
def test_a_search_from_the_given_scales_alone_has_no_boundary():
    x = jnp.linspace(0, 6, 30)
    target = jnp.sin(x) + 0.3 * jax.random.normal(jax.random.key(0), (30,))
    fit = regjax.nadaraya_watson_fit(regjax.kernels.RBF(1.0), x, target, num=1)
    assert Status(int(fit.status)) == Status.CONVERGED
    with pytest.raises(ValueError, match="num must be at least 1"):
        regjax.nadaraya_watson_fit(regjax.kernels.RBF(1.0), x, target, num=0)


@pytest.mark.once
def test_points_of_another_name_are_named():
    kernel = regjax.kernels.RBF(1.0)
    with pytest.raises(ValueError, match=r"inducing has points of shape \(2,\)"):
        regjax.sparse_gp(kernel, X, y, 0.1, X[:3, :2])
    with pytest.raises(ValueError, match=r"landmarks has points of shape \(2,\)"):
        regjax.kernel_ridge(kernel, X, y, 0.1, solver="nystrom", landmarks=X[:3, :2])
    for solver in ("nystrom", "cg"):
        fits = (regjax.kernel_ridge(kernel, X, y, 0.1, solver=solver, landmarks=num) for num in (3, np.int64(3)))
        assert_close(*(fit.objective for fit in fits))


@pytest.mark.once
def test_random_features_of_a_product_of_multiples():
    from regjax.kernels import RBF, Laplace

    plain, scaled = RBF(1.0) * Laplace(1.0), 2.0 * RBF(1.0) * (3.0 * Laplace(1.0))
    design = lambda kernel: regjax.bases.RandomFeatures(kernel, 4, jax.random.key(0)).design(X)  # noqa: E731
    assert_close(design(scaled), 6**0.5 * design(plain), f32=1e-5)


@pytest.mark.x64
def test_scales_of_columns_are_nothing_to_an_unpenalised_multinomial_fit():
    rng = np.random.default_rng(0)
    X, scales = rng.normal(size=(60, 3)), np.array([1e-6, 1.0, 1e6])
    y = np.argmax(X @ rng.normal(size=(3, 3)) + rng.gumbel(size=(60, 3)), axis=1)
    plain, scaled = (regjax.multinomial_regression(A, y) for A in (X, X * scales))
    assert bool(plain.converged)
    assert bool(scaled.converged)
    assert_close(np.asarray(scaled.params.coef) * scales[:, None], plain.params.coef, f64=1e-8)
