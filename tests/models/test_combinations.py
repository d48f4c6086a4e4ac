"""Every loss with every convex penalty and every solver that takes them, judged by numpy alone.

Each case is one program that is run three times: with weights, with repeated rows in place of a weight, and with an
offset that the intercept takes back. Slopes of losses and distances to subdifferentials are written out here again.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np
import pytest
from scipy.special import ndtr

import regjax
from regjax import Status, losses
from regjax.penalties import (
    L1,
    L2,
    Box,
    ElasticNet,
    Group,
    L1Ball,
    L2Ball,
    Limited,
    MultiTask,
    NonNegative,
    PlusL2,
    Slope,
    SparseGroup,
    Tikhonov,
    TotalVariation,
    Zero,
)

rng = np.random.default_rng(5)
N, P = 30, 4
X = rng.normal(size=(N, P)) + 0.3
X = np.concatenate([X, X[2:3], X[2:3]])  # the last two rows repeat one
ETA = 0.3 + X @ np.array([0.7, -0.5, 0.0, 0.3])


def repeated(y):
    return np.concatenate([y[:N], y[2:3], y[2:3]])


REAL = repeated(ETA + rng.standard_t(3, size=N + 2))
CLASS = repeated((rng.random(N + 2) < 1 / (1 + np.exp(-ETA))).astype(float))
COUNT = repeated(rng.poisson(np.exp(0.5 * ETA)).astype(float))
POSITIVE = repeated(np.exp(0.3 * ETA) * rng.gamma(5, 0.2, size=N + 2))
LABELS = repeated(np.eye(3)[rng.integers(0, 3, size=N + 2)])
TIMES = repeated(np.column_stack([np.ceil(rng.exponential(4, size=N + 2)), rng.random(N + 2) < 0.7]).astype(float))
BASE = np.concatenate([rng.uniform(0.5, 2, size=N), np.zeros(2)])
THRICE, ROWS = (np.where(np.arange(N + 2) == 2, a, BASE) for a in (3.0, 1.0))
ROWS[N:] = 1


def score(mean, slope, power):
    """μ′(μ − y)/μ^q of a family whose variance is μ^q."""
    return lambda y, eta, v: v * slope(eta) * (mean(eta) - y) / mean(eta) ** power


def binary(mean, density):
    return lambda y, eta, v: v * density(eta) * (mean(eta) - y) / (mean(eta) * (1 - mean(eta)))


def of_residual(psi):
    return lambda y, eta, v: -v * psi(y - eta)


def hampel(r, a=0.8, b=1.6, c=3.2):
    size = np.abs(r)
    return np.sign(r) * np.where(size <= a, size, np.where(size <= b, a, a * np.clip((c - size) / (c - b), 0, None)))


def softmax(y, eta, v):
    e = np.exp(eta - eta.max(axis=1, keepdims=True))
    return v * (e / e.sum(axis=1, keepdims=True) - y)


def cox(efron):
    def slopes(y, eta, v):
        time, event = y.T
        v, e = v[:, 0], v[:, 0] * np.exp(eta[:, 0])
        total = np.zeros(len(e))
        for t in np.unique(time[(event > 0) & (v > 0)]):
            risk, dead = (time >= t).astype(float), ((time == t) & (event > 0) & (v > 0)).astype(float)
            total -= dead * v
            d = int(dead.sum())
            for k in range(d):
                share = k / d if efron else 0.0
                left = risk - share * dead
                total += (dead @ v) / d * left * e / (left @ e)
        return total[:, None]

    return slopes


class LossCase(NamedTuple):
    loss: object
    y: np.ndarray
    slopes: Callable


def expit(eta):
    return 1 / (1 + np.exp(-eta))


LOSSES = {
    "squared": LossCase(losses.Squared(), REAL, of_residual(lambda r: r)),
    "gaussian log": LossCase(losses.Gaussian("log"), POSITIVE, score(np.exp, np.exp, 0)),
    "logit": LossCase(losses.Logistic(), CLASS, lambda y, eta, v: v * (expit(eta) - y)),
    "probit": LossCase(
        losses.Binomial("probit"), CLASS, binary(ndtr, lambda e: np.exp(-(e**2) / 2) / np.sqrt(2 * np.pi))
    ),
    "cloglog": LossCase(
        losses.Binomial("cloglog"), CLASS, binary(lambda e: 1 - np.exp(-np.exp(e)), lambda e: np.exp(e - np.exp(e)))
    ),
    "cauchit": LossCase(
        losses.Binomial("cauchit"),
        CLASS,
        binary(lambda e: 0.5 + np.arctan(e) / np.pi, lambda e: 1 / np.pi / (1 + e**2)),
    ),
    "poisson": LossCase(losses.Poisson(), COUNT, score(np.exp, np.exp, 1)),
    "poisson sqrt": LossCase(losses.Poisson("sqrt"), COUNT, score(lambda e: e**2, lambda e: 2 * e, 1)),
    "gamma": LossCase(losses.Gamma(), POSITIVE, score(lambda e: 1 / e, lambda e: -1 / e**2, 2)),
    "gamma log": LossCase(losses.Gamma("log"), POSITIVE, score(np.exp, np.exp, 2)),
    "inverse gaussian": LossCase(
        losses.InverseGaussian(), POSITIVE, score(lambda e: e**-0.5, lambda e: -0.5 * e**-1.5, 3)
    ),
    "inverse gaussian log": LossCase(losses.InverseGaussian("log"), POSITIVE, score(np.exp, np.exp, 3)),
    "tweedie": LossCase(losses.Tweedie(1.4), COUNT, score(np.exp, np.exp, 1.4)),
    "negative binomial": LossCase(
        losses.NegativeBinomial(0.6), COUNT, lambda y, eta, v: v * (np.exp(eta) - y) / (1 + 0.6 * np.exp(eta))
    ),
    "huber": LossCase(losses.Huber(0.8), REAL, of_residual(lambda r: np.clip(r, -0.8, 0.8))),
    "log cosh": LossCase(losses.LogCosh(), REAL, of_residual(np.tanh)),
    "bisquare": LossCase(
        losses.Bisquare(3.5), REAL, of_residual(lambda r: r * np.clip(1 - (r / 3.5) ** 2, 0, None) ** 2)
    ),
    "hampel": LossCase(losses.Hampel(0.8, 1.6, 3.2), REAL, of_residual(hampel)),
    "lp": LossCase(losses.Lp(1.5), REAL, of_residual(lambda r: np.sign(r) * np.sqrt(np.abs(r)))),
    "multinomial": LossCase(losses.Multinomial(), LABELS, softmax),
    "cox": LossCase(losses.Cox(), TIMES, cox(False)),
    "cox efron": LossCase(losses.Cox("efron"), TIMES, cox(True)),
    "quantile": LossCase(losses.Quantile(0.3), REAL, None),
}


def soft(z, lam):
    return np.sign(z) * np.maximum(np.abs(z) - lam, 0)


def terms(l1=0.0, l2=0.0, lower=-np.inf, upper=np.inf):
    """The distance of z to the subdifferential of l1|w| + l2 w²/2 on [lower, upper]."""

    def distance(w, z):
        rest = z - l2 * w
        rest = np.where(w == 0, soft(rest, l1), rest - l1 * np.sign(w))
        rest = np.where(w <= lower + 1e-12, np.maximum(rest, 0), rest)
        return np.abs(np.where(w >= upper - 1e-12, np.minimum(rest, 0), rest))

    return distance


def blocks(l1, l2, ridge=0.0):
    """Of l1‖w‖₁ + l2 Σ √2 ‖w_g‖ + ridge ‖w‖²/2 with the groups {0, 1} and {2, 3}, column by column."""

    def distance(w, z):
        z = z - ridge * w
        found = []
        for g in (slice(0, 2), slice(2, 4)):
            for k in range(w.shape[1]):
                a, b = w[g, k], z[g, k]
                size, kappa = np.linalg.norm(a), l2 * np.sqrt(2)
                if size == 0:
                    found.append(max(np.linalg.norm(soft(b, l1)) - kappa, 0))
                else:
                    found.extend(terms(l1)(a, b - kappa * a / size))
        return np.array(found)

    return distance


def rows(lam):
    def distance(w, z):
        size = np.linalg.norm(w, axis=1, keepdims=True)
        inside = np.maximum(np.linalg.norm(z, axis=1, keepdims=True) - lam, 0)
        return np.where(size == 0, inside, np.abs(z - lam * w / np.where(size == 0, 1, size)))

    return distance


def variation(lam):
    """z = Dᵀu with |u| ≤ λ, and u = λ sign(Dw) at jumps."""

    def distance(w, z):
        u, jumps = -np.cumsum(z, axis=0), np.diff(w, axis=0)
        return np.concatenate([terms(lam)(jumps, u[:-1]).ravel(), np.abs(u[-1])])

    return distance


SLOPE = np.array([1.6, 1.2, 0.8, 0.4])


def slope(w, z):
    """|z| in descending order sums to no more than λ does, and ⟨w, z⟩ is the penalty."""
    sizes = np.cumsum(-np.sort(-np.abs(z), axis=0), axis=0)
    value = np.sum(-np.sort(-np.abs(w), axis=0) * SLOPE[:, None], axis=0)
    apart = np.abs(value - np.sum(w * z, axis=0)) / np.maximum(np.abs(w).sum(axis=0), 1)
    return np.concatenate([np.maximum(sizes - np.cumsum(SLOPE)[:, None], 0).ravel(), apart])


def ball(radius, order):
    """Inside z = 0; on the sphere ⟨w, z⟩ is as large as it can be."""

    def distance(w, z):
        size = np.linalg.norm(w, ord=order, axis=0)
        assert size.max() <= radius * (1 + 1e-9)
        reach = np.linalg.norm(z, ord={1: np.inf, 2: 2}[order], axis=0)
        return np.where(size < radius * (1 - 1e-9), np.abs(z).max(axis=0), reach - np.sum(w * z, axis=0) / radius)

    return distance


GAMMA = np.array([[1.0, -1.0, 0.0, 0.5], [0.0, 1.0, 1.0, 0.0], [0.3, 0.0, 0.0, 1.0]])
PENALTIES = {
    "zero": (Zero(), terms()),
    "l1": (L1(1.2), terms(1.2)),
    "l2": (L2(1.5), terms(0.0, 1.5)),
    "elastic net": (ElasticNet(0.8, 0.7), terms(0.8, 0.7)),
    "limited": (Limited(L1(0.5), -0.1, 0.25), terms(0.5, 0.0, -0.1, 0.25)),
    "box": (Box(-0.15, 0.2), terms(0.0, 0.0, -0.15, 0.2)),
    "non-negative": (NonNegative(), terms(lower=0.0)),
    "tikhonov": (Tikhonov(1.3, GAMMA), lambda w, z: np.abs(z - 1.3 * GAMMA.T @ GAMMA @ w)),
    "group": (Group(0.8, [0, 0, 1, 1]), blocks(0.0, 0.8)),
    "sparse group": (SparseGroup(0.5, 0.4, [0, 0, 1, 1]), blocks(0.5, 0.4)),
    "multitask": (MultiTask(1.1), rows(1.1)),
    "slope": (Slope(SLOPE), slope),
    "total variation": (TotalVariation(0.7), variation(0.7)),
    "l1 ball": (L1Ball(0.4), ball(0.4, 1)),
    "l2 ball": (L2Ball(0.3), ball(0.3, 2)),
    "plus l2": (PlusL2(Group(0.8, [0, 0, 1, 1]), 0.6), blocks(0.0, 0.8, 0.6)),
}
QUADRATIC = ("zero", "l2", "tikhonov")
SEPARABLE = ("zero", "l1", "l2", "elastic net", "limited", "box", "non-negative")
COUPLED = ("multinomial", "cox", "cox efron")
LEAST_SQUARES = ("ista", "fista", "coordinate_descent", "admm", "working_set")
GENERAL = ("newton", "proximal_newton", "fista", "interior_point", "splitting", "irls")


def takes(loss, penalty, solver):
    """Whether the mathematics allows it."""
    if loss == "squared":
        if solver == "coordinate_descent":
            return penalty in (*SEPARABLE, "group", "sparse group", "multitask", "plus l2")
        if solver == "working_set":
            return penalty in ("l1", "elastic net", "limited")
        return True
    if loss == "quantile":
        if solver == "interior_point":
            return penalty in (*SEPARABLE, "tikhonov", "total variation")
        return solver == "splitting" or (solver == "irls" and penalty in QUADRATIC)
    if solver == "irls":
        return loss == "lp" and penalty in QUADRATIC
    if solver == "newton":
        return penalty in QUADRATIC
    return solver == "fista" or (solver == "proximal_newton" and loss not in COUPLED)


# by default one of the solvers below is chosen, or a closed form
SOLVERS = {name: (None, *LEAST_SQUARES) if name == "squared" else GENERAL for name in LOSSES}
# on every change: each solver of general losses, with as many losses and penalties; all by `make test-all`
SEEN = {
    ("squared", "box", "coordinate_descent"),
    ("squared", "plus l2", "admm"),
    ("gaussian log", "l2", "newton"),
    ("gamma", "elastic net", "proximal_newton"),
    ("huber", "l1 ball", "fista"),
    ("multinomial", "multitask", "fista"),
    ("lp", "tikhonov", "irls"),
    ("quantile", "total variation", "interior_point"),
    ("quantile", "group", "splitting"),
}
CASES = [
    pytest.param(
        loss,
        penalty,
        solver,
        id=f"{loss}-{penalty}-{solver or 'default'}",
        marks=() if (loss, penalty, solver) in SEEN else pytest.mark.slow,
    )
    for loss in LOSSES
    for penalty in PENALTIES
    for solver in SOLVERS[loss]
    if takes(loss, penalty, solver)
]


def check(y, slopes, distance, fit, v, offset):
    """The largest distance of −∇ to the subdifferential, and the slope of the intercept, over the sum of slopes."""
    w = np.asarray(fit.params.coef, float).reshape(P, -1)
    w = np.where(np.abs(w) <= 1e-10, 0, w)
    eta = offset + np.asarray(fit.params.intercept, float) + X @ w
    slopes = slopes(y if y.ndim == 2 else y[:, None], eta, v[:, None])
    scale = np.abs(slopes).sum()
    assert np.abs(slopes.sum(axis=0)).max() <= 1e-8 * scale
    assert distance(w, -X.T @ slopes).max() <= 1e-7 * scale


def check_quantile(penalty, fit, v, offset):
    """No direction leads down: the objective is convex."""

    def objective(b, w):
        r = REAL - offset - b - X @ w
        return np.sum(v * np.maximum(0.3 * r, -0.7 * r)) + float(penalty.value(w))

    b, w = float(fit.params.intercept), np.asarray(fit.params.coef, float)
    best = objective(b, w)
    np.testing.assert_allclose(float(fit.objective), best, rtol=1e-12)
    directions = np.random.default_rng(0).normal(size=(300, P + 1)) * np.repeat([1.0, 1e-2, 1e-4], 100)[:, None]
    directions[:100] *= np.random.default_rng(1).random((100, P + 1)) < 0.4
    nearby = np.asarray(jax.vmap(lambda w: penalty.prox(w, 1e-9))(w + directions[:, 1:]))
    lowest = min(objective(b + d[0], v) for d, v in zip(directions, nearby, strict=True))
    assert lowest >= best * (1 - 1e-9)


@pytest.mark.once
def test_the_cases_of_every_change_are_cases():
    assert {case.values for case in CASES if not case.marks} == SEEN
    assert {solver for _, _, solver in SEEN} >= set(GENERAL)


@pytest.mark.x64
@pytest.mark.parametrize(("loss", "penalty", "solver"), CASES)
def test_optimal_by_numpy(loss, penalty, solver):
    case, (penalty, distance) = LOSSES[loss], PENALTIES[penalty]
    alone = loss.startswith("cox")
    shape = (N + 2, 3) if loss == "multinomial" else (N + 2,)
    shift = np.full(shape, 0.0 if alone else 0.2)

    near = 1e-10 if loss == "quantile" else 1e-13  # objectives are compared, which the gap bounds

    def fit(v, offset, tol=near, enough=(Status.CONVERGED, Status.FLOOR)):
        """As near as rounding allows: a gap of 1e-10 is one of slopes of 1e-5, which numpy sees."""
        found = regjax.fit(X, case.y, case.loss, penalty, weights=v, offset=offset, solver=solver, tol=tol)
        assert found.status in enough, f"{Status(int(found.status)).name}, {float(found.residual)}, {float(found.gap)}"
        return found

    fit(THRICE, 0 * shift, tol=1e-10, enough=(Status.CONVERGED,))
    weighted, shifted = fit(THRICE, 0 * shift), fit(THRICE, shift)
    for found, offset in ((weighted, 0.0), (shifted, shift.ravel()[0])):
        if loss == "quantile":
            check_quantile(penalty, found, THRICE, offset)
        else:
            check(case.y, case.slopes, distance, found, THRICE, offset)
    np.testing.assert_allclose(float(shifted.objective), float(weighted.objective), rtol=1e-8)
    if not case.loss.convex:  # other stationary points may be as near
        return
    unique = loss not in ("quantile", "multinomial")  # classes may share what is not penalised
    if loss != "cox efron":  # which counts ties
        rows = fit(ROWS, 0 * shift)
        np.testing.assert_allclose(float(rows.objective), float(weighted.objective), rtol=1e-8)
        if unique:
            np.testing.assert_allclose(rows.params.coef, weighted.params.coef, atol=1e-6)
    if unique:
        np.testing.assert_allclose(shifted.params.coef, weighted.params.coef, atol=1e-6)
        np.testing.assert_allclose(shifted.params.intercept + shift[0], weighted.params.intercept, atol=1e-6)


@pytest.mark.once
@pytest.mark.parametrize("loss", LOSSES)
def test_the_rest_is_refused(loss):
    for name, (penalty, _) in PENALTIES.items():
        for solver in SOLVERS[loss]:
            if not takes(loss, name, solver):
                with pytest.raises(ValueError, match=r" takes? "):
                    regjax.fit(X, LOSSES[loss].y, LOSSES[loss].loss, penalty, solver=solver)
