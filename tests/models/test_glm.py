"""Any loss with any penalty: optimality, identities, hard cases, and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import linprog

import regjax
from regjax import Status, losses
from regjax.penalties import (
    L1,
    L2,
    MCP,
    Box,
    ElasticNet,
    Group,
    L1Ball,
    L2Ball,
    MultiTask,
    NonNegative,
    Slope,
    Tikhonov,
    TotalVariation,
    Zero,
)
from tests.models.test_combinations import LOSSES
from tests.models.test_combinations import X as ROWS_OF_X
from tests.problems import assert_close, tolerance

rng = np.random.default_rng(3)
N, P = 40, 4
X = rng.normal(size=(N, P)) + 0.5
ETA = 0.2 + X @ np.array([0.8, -0.6, 0.0, 0.3])
TARGETS = {
    "real": ETA + rng.standard_t(3, size=N),
    "class": (rng.random(N) < 1 / (1 + np.exp(-ETA))).astype(float),
    "count": rng.poisson(np.exp(0.5 * ETA)).astype(float),
    "positive": np.exp(0.3 * ETA) * rng.gamma(5, 0.2, size=N),
}
V = rng.uniform(0.5, 2, size=N)

# every loss meets a penalty, and every kind of penalty a loss
PAIRS = {
    "logistic lasso": (losses.Logistic(), L1(1.5), "class"),
    "probit group": (losses.Binomial("probit"), Group(1.0, [0, 0, 1, 1]), "class"),
    "cloglog elastic net": (losses.Binomial("cloglog"), ElasticNet(1.0, 0.5), "class"),
    "cauchit ridge": (losses.Binomial("cauchit"), L2(1.0), "class"),
    "poisson total variation": (losses.Poisson(), TotalVariation(1.0), "count"),
    "poisson tikhonov": (losses.Poisson(), Tikhonov(1.0, np.diff(np.eye(P), axis=0)), "count"),
    "gamma log slope": (losses.Gamma("log"), Slope(np.array([2.0, 1.5, 1.0, 0.5])), "positive"),
    "gamma inverse ridge": (losses.Gamma(), L2(1.0), "positive"),
    "inverse gaussian ridge": (losses.InverseGaussian("log"), L2(0.5), "positive"),
    "negative binomial lasso": (losses.NegativeBinomial(0.5), L1(1.0), "count"),
    "tweedie in the positive quadrant": (losses.Tweedie(1.5), NonNegative(), "positive"),
    "gaussian log ridge": (losses.Gaussian("log"), L2(1.0), "positive"),
    "huber in a ball": (losses.Huber(0.7), L1Ball(0.8), "real"),
    "log cosh lasso": (losses.LogCosh(), L1(2.0), "real"),
    "bisquare": (losses.Bisquare(4.0), Zero(), "real"),
    "three halves": (losses.Lp(1.5), L2(0.5), "real"),
    "logistic with mcp": (losses.Logistic(), MCP(1.0, 20.0), "class"),
}
F32 = ("logistic lasso", "poisson tikhonov", "gamma inverse ridge", "huber in a ball")


@pytest.mark.sample(36)
@pytest.mark.parametrize("name", PAIRS)
def test_optimality_recomputed(name):
    """A fixed point of the proximal gradient step, with the slopes summed by numpy."""
    if name not in F32 and not jax.config.jax_enable_x64:
        pytest.skip("asked in float64")
    loss, penalty, kind = PAIRS[name]
    y = TARGETS[kind]
    fit = regjax.fit(X, y, loss, penalty, weights=V)
    assert bool(fit.converged), Status(int(fit.status)).name
    w = np.asarray(fit.params.coef, float)
    eta = float(fit.params.intercept) + X @ w
    slopes = V * np.asarray(loss.gradient(jnp.asarray(y), jnp.asarray(eta)), float)
    scale = np.abs(slopes).sum()
    assert abs(slopes.sum()) <= tolerance(1e-9, 1e-3) * scale
    moved = np.asarray(penalty.prox(jnp.asarray(w - X.T @ slopes), 1.0), float)
    assert np.abs(moved - w).max() <= tolerance(1e-8, 2e-3) * scale
    value = np.sum(V * np.asarray(loss.value(jnp.asarray(y), jnp.asarray(eta)), float)) + float(
        penalty.value(jnp.asarray(w))
    )
    assert_close(fit.objective, value, f64=1e-12, f32=1e-5)


def both(fit):
    return fit.params.coef, fit.params.intercept


@pytest.mark.x64
def test_weights_equal_repeated_rows_and_offsets_shift():
    y = TARGETS["count"]
    rows = np.array([*range(N), 2, 2])
    weighted = regjax.poisson_regression(X, y, weights=np.where(np.arange(N) == 2, 3.0, 1.0))
    assert_close(both(weighted), both(regjax.poisson_regression(X[rows], y[rows])))
    shift = np.array([0.3, -0.2, 0.1, 0.4])
    moved = regjax.poisson_regression(X, y, weights=V, offset=0.7 + X @ shift)
    plain = regjax.poisson_regression(X, y, weights=V, offset=np.zeros(N))
    assert_close((moved.params.coef + shift, moved.params.intercept + 0.7), both(plain))


@pytest.mark.slow
@pytest.mark.x64
def test_solvers_agree():
    y = TARGETS["class"]
    one, two = (regjax.logistic_regression(X, y, L1(1.5), solver=s) for s in ("proximal_newton", "fista"))
    assert_close(both(one), both(two), f64=1e-9)
    one, two = (regjax.logistic_regression(X, y, L2(1.5), solver=s) for s in ("newton", "proximal_newton"))
    assert_close(both(one), both(two), f64=1e-9)
    assert_close(one.gap, 0.0, f64=1e-12, scale=1.0)


@pytest.mark.slow
@pytest.mark.x64
def test_lam_max_is_where_the_first_coefficient_enters():
    y = TARGETS["class"]
    top = regjax.lam_max(X, y, loss=losses.Logistic(), weights=V)
    fits = regjax.path(X, y, losses.Logistic(), L1(top * jnp.array([1.0001, 0.99])), weights=V)
    assert bool(jnp.all(fits.params.coef[0] == 0))
    assert int(jnp.sum(fits.params.coef[1] != 0)) == 1


@pytest.mark.slow
@pytest.mark.x64
def test_targets_apart_and_together():
    Y = np.column_stack([TARGETS["class"], 1 - TARGETS["class"], (X[:, 0] > 0.5) * 0.6 + 0.2])
    apart = regjax.fit(X, Y, losses.Logistic(), L1(1.5))
    for k in range(3):
        one = regjax.fit(X, Y[:, k], losses.Logistic(), L1(1.5))
        assert_close((apart.params.coef[:, k], apart.params.intercept[k]), both(one))
    together = regjax.fit(X, Y, losses.Logistic(), MultiTask(2.0))
    assert bool(together.converged)
    assert float(together.gap) < 1e-10


@pytest.mark.slow
@pytest.mark.x64
def test_two_classes_are_logistic():
    """The symmetric coefficients are half of those of logistic regression, each with half the penalty."""
    y = TARGETS["class"]
    two = regjax.multinomial_regression(X, y.astype(int), L2(2.0))
    one = regjax.logistic_regression(X, y, L2(1.0))
    assert bool(two.converged)
    assert_close(two.params.coef[:, 1] - two.params.coef[:, 0], one.params.coef, f64=1e-9)


def test_separated_lanes_are_named_and_the_others_finish():
    good = TARGETS["class"]
    ys = jnp.asarray(np.stack([good, (X[:, 0] > 0.5).astype(float), np.zeros(N)]))
    fits = jax.vmap(lambda y: regjax.logistic_regression(X, y))(ys)
    assert [Status(int(s)).name for s in fits.status] == ["CONVERGED", "SEPARATED", "SEPARATED"]
    alone = regjax.logistic_regression(X, good)
    assert_close(fits.params.coef[0], alone.params.coef)
    with pytest.raises(regjax.FitError, match="no minimum"):
        regjax.check(fits)


@pytest.mark.once
def test_hard_cases():
    counts = TARGETS["count"]
    assert Status(int(regjax.poisson_regression(X, 0 * counts).status)).name == "SEPARATED"
    far = regjax.poisson_regression(1e4 * X, counts)
    assert_close(1e4 * far.params.coef, regjax.poisson_regression(X, counts).params.coef, f64=1e-8)
    # η = 0 is outside of the domain of 1/μ
    rows = np.abs(X) + 0.1
    start = regjax.gamma_regression(rows, 1 / (rows @ np.ones(P)), intercept=False)
    assert bool(start.converged)
    assert_close(start.params.coef, np.ones(P), f64=1e-8)


@pytest.mark.once
def test_hard_lanes_do_not_disturb_the_others():
    """All counts zero, columns of 1e4, and a count below zero, beside a good lane."""
    counts = TARGETS["count"]
    designs = jnp.asarray(np.stack([X, X, 1e4 * X, X]))
    ys = jnp.asarray(np.stack([counts, 0 * counts, counts, np.where(np.arange(N) == 3, -1.0, counts)]))
    fits = jax.jit(jax.vmap(regjax.poisson_regression))(designs, ys)
    assert [Status(int(s)).name for s in fits.status] == ["CONVERGED", "SEPARATED", "CONVERGED", "INVALID"]
    assert_close(1e4 * fits.params.coef[2], fits.params.coef[0], f64=1e-8)
    slopes = np.exp(np.asarray(fits.params.intercept[0] + X @ fits.params.coef[0])) - counts
    assert np.abs(np.column_stack([np.ones(N), X]).T @ slopes).max() < 1e-9 * np.abs(slopes).sum()


@pytest.mark.slow
@pytest.mark.once
def test_lanes_that_start_where_the_loss_is_infinite():
    """η = 0 is outside of the domain of 1/μ."""
    rows = np.abs(X) + 0.1
    truth = np.stack([np.ones(P), np.array([0.5, 2.0, 1.0, 0.1])])
    fits = jax.vmap(lambda y: regjax.gamma_regression(rows, y, intercept=False))(jnp.asarray(1 / (truth @ rows.T)))
    assert bool(fits.converged.all())
    assert_close(fits.params.coef, truth, f64=1e-8)


@pytest.mark.once
def test_y_outside_of_the_domain():
    bad = TARGETS["class"] + 1
    with pytest.raises(ValueError, match="y of Binomial takes values from 0 to 1"):
        regjax.logistic_regression(X, bad)
    with pytest.raises(ValueError, match="y of Gamma takes positive values"):
        regjax.gamma_regression(X, -TARGETS["positive"])
    inside = jax.jit(lambda y: regjax.logistic_regression(X, y))(jnp.asarray(bad))
    assert Status(int(inside.status)).name == "INVALID"
    assert bool(jnp.all(jnp.isnan(inside.params.coef)))
    # a sample of weight 0 may hold anything
    v = np.where(np.arange(N) == 0, 0.0, 1.0)
    y = TARGETS["class"]
    kept = regjax.logistic_regression(X, np.where(v > 0, y, 9.0), L2(1.0), weights=v)
    assert_close(both(kept), both(regjax.logistic_regression(X, y, L2(1.0), weights=v)))


@pytest.mark.once
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: regjax.quantile_regression(X, ETA, [0.2, 0.5], Group(1.0, [0, 0, 1, 1]), non_crossing=True),
            "quantiles that must not cross, take linear costs",
        ),
        (lambda: regjax.quantile_regression(X, ETA, 1.5), "tau of Quantile must be between 0 and 1"),
        (lambda: regjax.fit(X, ETA, losses.Huber(1.0), L1(1.0), solver="newton"), "newton takes Zero, L2 and Tikhonov"),
        (lambda: regjax.fit(X, ETA, losses.Huber(1.0), L1(1.0), solver="magic"), "solver must be one of newton"),
        (lambda: regjax.fit(X, ETA, "squared", L1(1.0)), "loss must be a loss of regjax.losses"),
        (lambda: regjax.huber_regression(X, ETA, -1.0), "delta of Huber must be between"),
        (lambda: regjax.lp_regression(X, ETA, 3), "p must be from 1 to 2"),
        (
            lambda: regjax.cross_validate(X, ETA, losses.Lp(1.0), L1(np.ones(2))),
            r"p = 1, are twice Quantile\(0.5\): see lp_regression",
        ),
        (lambda: regjax.lp_regression(X, ETA, 1, L1(1.0), solver="irls"), "irls takes Zero, L2 and Tikhonov, not L1"),
        (lambda: regjax.fit(X, ETA, losses.Huber(1.0), L2(1.0), solver="irls"), "irls takes Lp and Quantile"),
        (lambda: regjax.robust_regression(X, ETA, psi="fair"), "psi must be one of huber, bisquare, hampel"),
        (lambda: regjax.robust_regression(X, ETA, scale="sd"), "scale must be one of mad, proposal2"),
        (lambda: regjax.robust_regression(X, ETA, psi="hampel", tuning=2.0), "'hampel' takes 3 of them"),
        (lambda: regjax.robust_regression(X, ETA, tuning=-2.0), "tuning must be positive and rise"),
        (lambda: regjax.fit(X, ETA, losses.Hampel(2.0, 4.0, 3.0), L2(1.0)), "c of Hampel must be between 4 and inf"),
        (lambda: regjax.fit(X, ETA, losses.Multinomial(), L2(1.0)), "y of Multinomial takes one row"),
        (lambda: regjax.fit(X, ETA, losses.Cox(), L2(1.0)), "y of Cox takes two columns"),
        (lambda: regjax.cox_regression(X, ETA, np.ones(5)), r"event has shape \(5,\): it takes one number per sample"),
        (lambda: regjax.cox_regression(X, ETA[:, None], np.ones(N)), r"time has shape \(40, 1\)"),
        (lambda: regjax.cox_regression(X, ETA[:-1], np.ones(N - 1)), "y has 39 samples, but X has 40"),
        (lambda: regjax.cox_regression(X, ETA, np.full(N, 2.0)), "y of Cox takes .* 1 for an event or 0"),
        (lambda: regjax.multinomial_regression(X, TARGETS["real"]), "y takes classes 0, …, .* as whole numbers"),
        (lambda: regjax.poisson_regression(X, -TARGETS["count"] - 1), "y of Poisson takes"),
        (lambda: regjax.logistic_regression(X, TARGETS["class"], link="log"), "link of Binomial must be one of"),
    ],
)
def test_refusals_say_why(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.slow
@pytest.mark.x64
def test_absolute_errors_are_a_linear_program():
    y = TARGETS["real"]
    fit = regjax.fit(X, y, losses.Lp(1.0), L1(2.0))
    cost = np.concatenate([[0, 0], 2.0 * np.ones(2 * P), np.ones(2 * N)])
    ones = np.ones((N, 1))
    rows = np.hstack([ones, -ones, X, -X, np.eye(N), -np.eye(N)])
    assert_close(fit.objective, linprog(cost, A_eq=rows, b_eq=y, method="highs").fun, f64=1e-9)
    assert_close(regjax.lp_regression(X, y, 1, L1(2.0)).objective, fit.objective, f64=1e-9)
    assert_close(both(regjax.lp_regression(X, y, 2)), both(regjax.ols(X, y)))


@pytest.mark.sample(8)
@pytest.mark.x64
@pytest.mark.parametrize("penalty", [Zero(), pytest.param(L2(2.0), marks=pytest.mark.slow)])
def test_reweighted_least_squares(penalty):
    """From least squares at p = 2 to the linear program at p = 1, with the true objective and its gap."""
    y = TARGETS["real"]

    def fit(p, solver="irls"):
        return regjax.lp_regression(X, y, p, penalty, weights=V, solver=solver)

    assert_close(both(fit(2)), both(regjax.fit(X, y, losses.Squared(), penalty, weights=V)), f64=1e-12)
    assert_close(both(fit(1.5)), both(fit(1.5, "newton")), f64=1e-10)
    program, sums = fit(1, None), fit(1)
    assert bool(sums.converged)
    assert_close(sums.objective, program.objective, f64=1e-9)
    assert float(program.objective) <= float(sums.objective) * (1 + 1e-14)
    short = regjax.lp_regression(X, y, 1, penalty, weights=V, solver="irls", max_iter=10)
    assert Status(int(short.status)).name == "ITERATION_LIMIT"
    null = np.sum(V * np.abs(y - np.median(y)))  # not quite the weighted median, which is below
    assert 0 < float(short.objective - program.objective) <= float(short.gap) * null
    near = fit(1.05)
    assert bool(near.converged)
    r = y - np.asarray(near.params(X))
    value = np.sum(V * np.abs(r) ** 1.05) / 1.05 + float(penalty.value(near.params.coef))
    assert_close(near.objective, value, f64=1e-12)


@pytest.mark.sample(4)
@pytest.mark.x64
@pytest.mark.parametrize("which", ["multinomial", "cox"])
def test_derivatives_of_solutions(which):
    """Central differences along random directions in X and λ, for a coupled loss and one that couples samples."""
    time, event = jnp.asarray(rng.exponential(size=N)), jnp.asarray((rng.random(N) < 0.7).astype(float))
    shares = jnp.asarray(rng.dirichlet(np.ones(3), size=N))
    fit = jax.jit({
        "cox": lambda X, lam: regjax.cox_regression(X, time, event, L1(lam)).params.coef,
        "multinomial": lambda X, lam: regjax.multinomial_regression(X, shares, L2(lam)).params.coef,
    }[which])  # fmt: skip
    args = (jnp.asarray(X), jnp.array(1.5))
    direction = (jnp.asarray(rng.normal(size=X.shape)), jnp.array(0.3))
    _, forward = jax.jvp(fit, args, direction)
    h = 1e-5
    up, down = (fit(*(a + s * h * d for a, d in zip(args, direction, strict=True))) for s in (1, -1))
    assert_close(forward, (up - down) / (2 * h), f64=1e-6)


@pytest.mark.slow
@pytest.mark.sample(16)
@pytest.mark.x64
@pytest.mark.parametrize("loss", [losses.Huber(0.8), losses.Squared()])
@pytest.mark.parametrize("make", [L2Ball, L1Ball, lambda r: Box(-r / 2, r)])
def test_derivatives_on_a_boundary(make, loss):
    """In y along a sphere, which is curved, and in the radius or the limits, with which the boundary moves."""

    @jax.jit
    def fit(y, radius):
        return both(regjax.fit(X, y, loss, make(radius), tol=1e-13))

    args = (jnp.asarray(TARGETS["real"]), jnp.array(0.3))
    direction = (jnp.asarray(rng.normal(size=N)), jnp.array(0.7))
    h = 1e-5
    up, down = (fit(*(a + s * h * d for a, d in zip(args, direction, strict=True))) for s in (1, -1))
    expected = jax.tree.map(lambda a, b: (a - b) / (2 * h), up, down)
    assert_close(jax.jvp(fit, args, direction)[1], expected, f64=1e-5)


@pytest.mark.x64
def test_sandwich_and_pytrees():
    y = TARGETS["class"]
    fit = regjax.logistic_regression(X, y, weights=V)
    result = regjax.inference(X, y, fit, losses.Logistic(), weights=V)
    Z = np.column_stack([np.ones(N), X])
    mu = 1 / (1 + np.exp(-np.asarray(fit.params(X))))
    bread = np.linalg.inv(Z.T @ (V * mu * (1 - mu) * Z.T).T)
    meat = Z.T @ ((V * (mu - y))[:, None] ** 2 * Z)
    assert_close(result.covariance, bread, f64=1e-9)
    assert_close(result.sandwich, bread @ meat @ bread, f64=1e-9)
    tree = {"a": X[:, 0], "b": X[:, 1:]}
    other = regjax.logistic_regression(tree, y, weights=V)
    assert_close(other.params.coef["b"], fit.params.coef[1:])
    errors = regjax.inference(tree, y, other, losses.Logistic(), weights=V).standard_errors
    assert_close(errors.coef["b"], result.standard_errors.coef[1:])


def stated(coef, intercept):
    """A model that is given: what inference says of a point does not ask how it was found."""
    return regjax.Solution(regjax.Linear(jnp.asarray(coef), jnp.asarray(intercept)), 0, 0, 0.0, 0.0, 0.0)


def along(slopes, at, size):
    """The derivative of a function of `at` by central differences, one column for each of its numbers."""
    moves = 1e-5 * np.eye(at.size).reshape(at.size, *at.shape)
    return np.stack([(slopes(at + d) - slopes(at - d)).ravel() / 2e-5 for d in moves], axis=1) * size


@pytest.mark.x64
@pytest.mark.parametrize("name", ["multinomial", "cox", "cox efron"])
def test_inference_of_coupled_losses(name):
    """The information, and the influence of a weight on the slopes, from differences of slopes that numpy sums."""
    case, intercept = LOSSES[name], name == "multinomial"
    X, y = ROWS_OF_X, case.y
    v = np.where(np.arange(len(X)) % 7 == 3, 0.0, np.linspace(0.5, 2, len(X)))
    w = np.cos(np.arange(12.0)).reshape(4, 3) / 2 if intercept else np.array([[0.5], [-0.4], [0.1], [0.3]])
    constant = np.array([0.3, -0.2, 0.1])
    fit = stated(w, constant) if intercept else stated(w[:, 0], 0.0)
    result = regjax.inference(X, y, fit, case.loss, weights=v)
    Z = np.column_stack([np.ones(len(X)), X]) if intercept else X
    theta = np.concatenate([constant[None], w]) if intercept else w

    def slopes(theta, v):
        return Z.T @ case.slopes(y, Z @ theta, v[:, None])

    information = along(lambda theta: slopes(theta, v), theta, 1.0)
    covariance = np.linalg.pinv(information, rcond=1e-6)
    influence = covariance @ along(lambda v: slopes(theta, v), v, v)
    assert_close(np.reshape(result.covariance, covariance.shape), covariance, f64=1e-6)
    assert_close(np.reshape(result.sandwich, covariance.shape), influence @ influence.T, f64=1e-6)
    errors = np.sqrt(np.diag(covariance)).reshape(theta.shape)
    assert_close(np.reshape(result.standard_errors.coef, w.shape), errors[int(intercept) :], f64=1e-6)
    free = w.size if not intercept else theta.size - theta.shape[0]
    assert_close(result.aic, 2 * free - 2 * float(result.log_likelihood))
    if intercept:
        labels = regjax.inference(X, np.argmax(y, axis=1), fit, case.loss, weights=v)
        assert_close(labels.covariance, result.covariance)
        assert_close(result.standard_errors.intercept, errors[0], f64=1e-6)


@pytest.mark.x64
def test_inference_of_two_classes_is_logistic():
    y, trials = np.round(3 * TARGETS["class"] + 0.4) / 4, np.where(np.arange(N) % 5 == 0, 0.0, 4.0)
    w, b = np.array([0.8, -0.6, 0.1, 0.3]), 0.2
    one = regjax.inference(X, y, stated(w, b), losses.Logistic(), weights=trials)
    shares, signs = np.column_stack([1 - y, y]), np.array([-0.5, 0.5])
    two = regjax.inference(X, shares, stated(w[:, None] * signs, b * signs), losses.Multinomial(), weights=trials)
    for field in ("deviance", "null_deviance", "pearson", "log_likelihood", "aic", "degrees_of_freedom"):
        assert_close(getattr(two, field), getattr(one, field), f64=1e-8)
    contrast = np.array([-1.0, 1.0])
    assert_close(np.einsum("ikjl,k,l->ij", two.covariance, contrast, contrast), one.covariance, f64=1e-8)
    assert_close(np.einsum("ikjl,k,l->ij", two.sandwich, contrast, contrast), one.sandwich, f64=1e-8)


@pytest.mark.sample(6)
@pytest.mark.parametrize("rows", ["alike", "in turns"])
@pytest.mark.parametrize("name", ["poisson", "poisson ridge", "gamma"])
def test_many_samples(name, rows):
    """The Hessians of a part of the samples lead there too, also where the others are of another kind."""
    loss, penalty = {
        "poisson": (losses.Poisson(), Zero()),
        "poisson ridge": (losses.Poisson(), L2(100.0)),
        "gamma": (losses.Gamma("log"), Zero()),
    }[name]
    rng = np.random.default_rng(0)
    n, p = 101_000, 10
    many = rng.normal(size=(n, p))
    if rows == "in turns":
        many[::10, 0] = 0.0
        many[::10, 1] *= 5
    mean = np.exp(0.5 + many @ rng.uniform(-0.3, 0.3, size=p))
    target = rng.poisson(mean) if "poisson" in name else mean * rng.gamma(2.0, 0.5, size=n)
    fit = regjax.fit(many, target, loss, penalty)
    assert bool(fit.converged)
    assert int(fit.num_iter) <= 14
    coef = np.asarray(fit.params.coef, float)
    mu = np.exp(float(fit.params.intercept) + many @ coef)
    slope = many.T @ (mu - target if "poisson" in name else 1 - target / mu)
    slope += 100.0 * coef if "ridge" in name else 0
    null = np.max(np.abs(many.T @ (target - target.mean())))
    assert np.max(np.abs(slope)) <= tolerance(1e-9, 1e-3) * null


@pytest.mark.slow
@pytest.mark.once
def test_limits_hold_on_the_way_to_the_last_digits():
    """Newton's steps along the support may lead over a limit: the general solver comes back, and agrees."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 30)) * 10 ** rng.uniform(-1, 1, 30)
    y = (rng.uniform(size=80) < 1 / (1 + np.exp(-X[:, :5] @ rng.normal(size=5) / 3))).astype(float)
    lam = 0.03 * regjax.lam_max(X, y, loss=losses.Logistic())
    one, two = (
        regjax.logistic_regression(X, y, L1(lam), lower=-0.1, upper=0.2, solver=s) for s in ("proximal_newton", "fista")
    )
    assert bool(one.converged) & bool(two.converged)
    assert bool(jnp.any((one.params.coef == -0.1) | (one.params.coef == 0.2)))
    assert_close(one.params.coef, two.params.coef, f64=1e-7)


@pytest.mark.once
def test_lanes_of_a_path_leave_each_other_alone():
    """Each λ starts from the one before, and with its Hessian: but not from one that failed, or excludes everything."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 20)), (rng.uniform(size=60) < 0.5).astype(float)
    top = regjax.lam_max(X, y, loss=losses.Logistic())
    lams = top * jnp.array([0.6, jnp.nan, 0.4, -0.3, 0.3, jnp.inf, 0.2, 0.0, 0.1, 0.1])
    follow = jax.jit(lambda lams: regjax.path(X, y, losses.Logistic(), L1(lams)))
    fits = follow(lams)
    good = np.asarray(lams) >= 0
    assert np.asarray(fits.status == Status.INVALID).tolist() == (~good).tolist()
    assert bool(jnp.all(fits.converged[good]))
    alone = [follow(jnp.full_like(lams, lam)).params.coef[0] for lam in lams[good]]
    assert_close(fits.params.coef[good], jnp.stack(alone), f64=1e-8)


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.x64
def test_supports_beyond_the_samples_and_starts_far_away():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(20, 560)), (rng.uniform(size=20) < 0.5).astype(float)
    fit = regjax.logistic_regression(X, y, ElasticNet(1e-7, 1.0), init=jnp.full(560, 1e4))
    assert bool(fit.converged)
    assert int(jnp.sum(fit.params.coef != 0)) > 512
    w = np.asarray(fit.params.coef)
    slope = X.T @ (1 / (1 + np.exp(-X @ w - float(fit.params.intercept))) - y) + w + 1e-7 * np.sign(w)
    assert np.max(np.abs(slope[w != 0])) < 1e-9 * np.max(np.abs(X.T @ (y - y.mean())))


@pytest.mark.once
@pytest.mark.parametrize(
    "loss", [losses.Huber(0.5), losses.LogCosh(), losses.Bisquare(4.685)], ids=lambda a: type(a).__name__
)
def test_the_units_of_columns_do_not_matter(loss):
    """The slope of the intercept does not grow with the columns, those of coefficients do."""
    r = np.random.default_rng(0)
    X = r.normal(size=(60, 4))
    y = X.sum(axis=1) + r.normal(size=60)
    scales = jnp.array([1.0, 1e-2, 1e-4, 1e4])
    fits = jax.vmap(lambda s: regjax.fit(s * X, y, loss, Zero()))(scales)
    assert bool(fits.converged.all())
    assert_close(fits.params.coef * scales[:, None], jnp.broadcast_to(fits.params.coef[0], (4, 4)), f64=1e-9, f32=1e-3)


@pytest.mark.once
def test_a_null_model_that_does_not_settle_says_nothing_of_a_loss_that_is_not_convex():
    r = np.random.default_rng(0)
    X = r.normal(size=(60, 4))
    y = X.sum(axis=1) + np.random.default_rng(1).normal(size=60)
    fit = regjax.fit(X, y, losses.Bisquare(2.0), Zero())
    assert fit.status == Status.CONVERGED


@pytest.mark.x64
def test_derivatives_of_free_classes_sum_to_zero_as_the_coefficients_do():
    rng = np.random.default_rng(5)
    Z, classes, v, d = rng.normal(size=(30, 2)), rng.integers(0, 3, 30), rng.uniform(0.5, 2, 30), rng.normal(size=30)

    def coef(v):
        return regjax.multinomial_regression(Z, classes, num_classes=3, weights=v).params.coef

    _, slope = jax.jvp(coef, (jnp.asarray(v),), (jnp.asarray(d),))
    h = 1e-5
    np.testing.assert_allclose(slope, (coef(v + h * d) - coef(v - h * d)) / (2 * h), atol=1e-6)
    np.testing.assert_allclose(slope.sum(axis=-1), 0, atol=1e-12)


@pytest.mark.parametrize("penalty", [L1(0.0), Group(0.0, (0, 0, 1, 1)), ElasticNet(0.0, 0.0)])
def test_a_penalty_of_strength_zero_is_none(penalty):
    for loss in (losses.Binomial("cloglog"), losses.Binomial("logit")):
        data = X, TARGETS["class"], loss
        found, free = regjax.fit(*data, penalty), regjax.fit(*data, Zero())
        assert found.status == Status.CONVERGED
        assert found.residual < tolerance(1e-9, 1e-4)
        assert_close(found.params.coef, free.params.coef, f64=1e-8)


@pytest.mark.parametrize("spread", [0.5, 1.5, 3.0])
def test_inverse_gaussian_of_targets_that_spread_far(spread):
    y = np.exp(1 + spread * np.random.default_rng(6).normal(size=N))
    loss = losses.InverseGaussian("log")
    mean = np.average(y)  # the null model: Σ (μ − y)/μ² = 0
    assert_close(regjax.lam_max(X, y, loss=loss), np.max(np.abs((X - X.mean(0)).T @ y)) / mean**2, f64=1e-9)
    found = regjax.fit(X, y, loss, L2(0.1))
    assert found.residual <= tolerance(1e-10, 1e-3)
    mu = np.exp(found.params(X).astype(float))
    slopes = np.append(X.T @ ((mu - y) / mu**2) + 0.1 * found.params.coef, np.sum((mu - y) / mu**2))
    assert np.max(np.abs(slopes)) < tolerance(1e-7, 1e-3) * np.max(np.abs(X).T @ (y / mu**2))
