"""Cross-validation against cv.glmnet, separate fits and exact leave-one-out."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import regjax
from regjax import losses, selection
from regjax.losses import Squared
from regjax.penalties import L1, L2, ElasticNet, L1Ball
from regjax.selection import Splits
from regjax.selection.choice import choose
from regjax.selection.scores import partial_deviance, resolve_score
from tests.models.test_sparse_reference import columns, design
from tests.problems import assert_close, reference

GLMNET = reference("glmnet/cvglmnet_reference.json")
FAMILIES = {"gaussian": losses.Squared(), "binomial": losses.Logistic(), "poisson": losses.Poisson()}
FOUR = np.arange(40) % 4 != np.arange(4)[:, None]  # who trains in each of four folds


def small(n=40, p=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    return X, X @ np.where(np.arange(p) % 2, 1.0, 0.0) + 0.5 * rng.normal(size=n)


@pytest.mark.once
def test_the_more_likely_class_is_that_of_the_mean():
    """P(1) = 0.6 in both folds: of cloglog that is η < 0."""
    y = np.array([1.0, 1.0, 1.0, 0.0, 0.0] * 4)
    X = np.tile([[0.0], [1.0]], (10, 1))
    halves = np.arange(20) // 10

    def share(loss, y=y):
        strong = L2(np.array([1e9]))
        return float(regjax.cross_validate(X, y, loss, strong, folds=halves, score="class").mean[0])

    assert np.isclose(share(losses.Binomial("cloglog")), 0.4)
    assert np.isclose(share(losses.Squared()), 0.4)
    assert np.isclose(share(losses.Logistic(), np.stack([y, 1 - y], axis=1)), 0.4)
    assert np.isnan(share(losses.Squared(), 3 * y))
    with pytest.raises(ValueError, match="score 'class' takes Binomial, Multinomial or Squared, got Poisson"):
        share(losses.Poisson())


@pytest.mark.x64
def test_derivatives_do_not_see_what_rows_of_weight_zero_hold():
    X, y = small(24, 3)
    v = np.where(np.arange(24) == 2, 0.0, 1.0)

    def total(lams, X):
        cv = regjax.cross_validate(X, y, Squared(), L2(lams), folds=np.arange(24) % 3, weights=v)
        return cv.mean.sum()

    holes = X.copy()
    holes[2] = np.nan
    lams = jnp.array([5.0, 1.0])
    assert_close(jax.grad(total)(lams, holes), jax.grad(total)(lams, X), f64=1e-12)


@pytest.mark.once
def test_folds_do_not_copy_the_design():
    X, y = np.ones((2000, 40)), np.ones(2000)
    splits = selection.splits.from_ids(np.arange(2000) % 20)

    def validate(X, y):
        return regjax.cross_validate(X, y, losses.Poisson(), L2(jnp.array([1.0, 2.0])), folds=splits).mean

    memory = jax.jit(validate).lower(X, y).compile().memory_analysis().temp_size_in_bytes
    assert memory < 8 * X.nbytes


@pytest.mark.sample(16)
@pytest.mark.x64
@pytest.mark.parametrize("name", GLMNET)
def test_equals_glmnet(name):
    case = GLMNET[name]
    args, data = case["args"], columns(case["args"]["data"])
    lams = np.array(case["lambda"])
    y, fold = data[args["y"]], data[args["foldid"]].astype(int)
    v = data[args["weights"]] if "weights" in args else np.ones(len(y))
    cv = regjax.cross_validate(
        design(data), y, FAMILIES[args["family"]], L1(v.sum() * lams), folds=fold - fold.min(), weights=v,
        score=case["measure"], standardize=True, per_sample=True,
    )  # fmt: skip
    np.testing.assert_allclose(cv.mean, case["cvm"], rtol=1e-7)
    np.testing.assert_allclose(cv.standard_error, case["cvsd"], rtol=1e-7)
    assert np.isclose(lams[cv.best], case["lambda.min"], rtol=1e-9)
    assert np.isclose(lams[cv.one_se], case["lambda.1se"], rtol=1e-9)
    assert bool(cv.converged)
    assert cv.fits.gap.shape == (len(np.unique(fold)), len(lams))


@pytest.mark.sample(4)
@pytest.mark.once
@pytest.mark.parametrize("penalty", [lambda lams: ElasticNet(lams, 0.5), L2], ids=["elastic_net", "l2"])
def test_equals_separate_fits(penalty):
    X, y = small()
    lams = jnp.array([0.5, 2.0, 8.0])
    ids = np.arange(40) % 4
    cv = regjax.cross_validate(X, y, Squared(), penalty(lams), folds=ids)
    single = jax.jit(lambda X, y: regjax.path(X, y, Squared(), penalty(lams)))
    for k in range(4):
        train = ids != k
        alone = single(X[train], y[train])
        assert_close(cv.fits.params.coef[k], alone.params.coef)
        eta = np.asarray(alone.params.intercept)[:, None] + np.asarray(alone.params.coef) @ X[~train].T
        assert_close(cv.scores[:, k], np.mean((y[~train] - eta) ** 2, axis=1))
    assert_close(cv.path.params.coef, single(X, y).params.coef)
    assert_close(cv.params.coef, cv.path.params.coef[int(cv.best)])


def test_n_folds_are_exact_leave_one_out():
    X, y = small(20, 3)
    lams = jnp.array([0.1, 1.0])
    cv = regjax.cross_validate(X, y, Squared(), L2(lams), folds=20)
    exact = jax.vmap(lambda lam: regjax.loo_score(X, y, lam))(lams)
    assert_close(cv.mean, exact)


@pytest.mark.once
def test_weights_count_in_fit_and_score():
    X, y = small()
    ids = np.arange(40) % 4
    v = np.where(np.arange(40) < 30, 1.0, 0.0)
    bad = np.where(v > 0, y, np.nan)
    cv = regjax.cross_validate(X, bad, Squared(), L2(jnp.array([1.0])), folds=ids, weights=v)
    less = regjax.cross_validate(X[:30], y[:30], Squared(), L2(jnp.array([1.0])), folds=ids[:30])
    assert_close(cv.mean, less.mean)
    assert_close(cv.standard_error, less.standard_error)


@pytest.mark.once
def test_a_model_of_your_own():
    X, y = small()
    lams = jnp.array([0.5, 2.0])

    def model(X, y, lam, v):
        return regjax.kernel_ridge(regjax.kernels.Linear(), X, y, lam, weights=v, intercept=True)

    cv = regjax.cross_validate(X, y, Squared(), lams, folds=4, model=model)
    same = regjax.cross_validate(X, y, Squared(), L2(lams), folds=4)
    assert_close(cv.scores, same.scores)


@pytest.mark.slow
@pytest.mark.once
def test_nested_is_vmap_over_weights():
    X, y = small()
    inner = selection.k_folds(40, 3)
    outer = selection.blocked_folds(40, 2)

    def chosen(v):
        return regjax.cross_validate(X, y, Squared(), L2(jnp.array([0.1, 5.0])), folds=inner, weights=v).mean

    both = jax.vmap(chosen)(outer.train.astype(float))
    assert_close(both[1], chosen(outer.train[1].astype(float)))


@pytest.mark.once
def test_repeats_and_choices():
    X, y = small()
    cv = regjax.cross_validate(X, y, Squared(), L1Ball(jnp.array([0.1, 1.0, 10.0])), folds=4, repeats=2)
    assert cv.scores.shape == (3, 8)
    assert int(cv.one_se) <= int(cv.best)  # a small radius is the more regularised
    assert_close(cv.mean, np.mean(np.asarray(cv.scores), axis=1))


@pytest.mark.once
@pytest.mark.parametrize("simpler", ["larger", "smaller"])
def test_the_simpler_of_equals_is_the_smaller_radius_and_the_strength_that_is_asked_for(simpler):
    grid, equal, none = jnp.array([1.0, 3.0, 2.0]), jnp.ones(3), jnp.zeros(3)
    assert int(choose(equal, none, L1Ball(grid), True, simpler)[0]) == 0
    assert int(choose(equal, none, L1(grid), True, simpler)[0]) == (1 if simpler == "larger" else 0)
    assert int(choose(equal, none, {"bandwidth": grid}, False, simpler)[1]) == (1 if simpler == "larger" else 0)
    axes = {"bandwidth": equal, "steps": grid}
    assert int(choose(equal, none, axes, False, {"bandwidth": "larger", "steps": simpler})[0]) == (
        1 if simpler == "larger" else 0
    )


@pytest.mark.once
def test_a_score_of_your_own():
    X, y = small()

    def absolute(y, eta, weights):
        return jnp.sum(weights * jnp.abs(y - eta)) / jnp.sum(weights)

    v = np.where(np.arange(40) % 9, 1.0, 0.0)
    X[::9], y[::9] = np.nan, np.inf
    own, named = (
        regjax.cross_validate(X, y, Squared(), L2(jnp.array([1.0])), folds=4, score=score, weights=v)
        for score in (absolute, "mae")
    )
    assert_close(own.scores, named.scores)


class Frame:
    """What a data frame is to numpy."""

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.values, dtype)


@pytest.mark.once
@pytest.mark.parametrize("kind", [np.ndarray.tolist, Frame], ids=["lists", "frames"])
def test_lists_and_data_frames_are_arrays(kind):
    X, y = small()
    arguments = X, y, np.linspace(1, 2, 40), np.linspace(-1, 1, 40)
    for run in (regjax.cross_validate, regjax.holdout):
        given, arrays = (
            run(X, y, Squared(), L2(jnp.array([1.0, 3.0])), weights=v, offset=shift)
            for X, y, v, shift in (map(kind, arguments), arguments)
        )
        assert_close(given.mean, arrays.mean)
        assert_close(given.standard_error, arrays.standard_error)


@pytest.mark.once
def test_scores_of_classes_and_times():
    v = jnp.array([1.0, 2.0, 1.0])
    wrong = resolve_score("class", losses.Logistic())
    y, eta = jnp.array([[1.0], [0.0], [0.25]]), jnp.array([[-1.0], [-2.0], [3.0]])
    assert_close(wrong(losses.Logistic(), y, eta, v), (1 + 0 + 0.75) / 4)
    shares, scores = jnp.eye(3), jnp.array([[2.0, 1.0, 0.0], [0.0, 1.0, 2.0], [0.0, 0.0, 1.0]])
    assert_close(wrong(losses.Multinomial(), shares, scores, v), 2 / 4)
    assert np.isnan(wrong(losses.Logistic(), y, eta.at[1].set(jnp.nan), v))
    assert np.isnan(wrong(losses.Multinomial(), shares, scores.at[0, 1].set(jnp.nan), v))
    times, eta = jnp.array([[1.0, 1.0], [2.0, 1.0], [3.0, 1.0]]), jnp.array([[0.5], [-0.5], [0.0]])
    train, test = jnp.array([0.0, 1.0, 1.0]), jnp.array([1.0, 0.0, 0.0])
    first = np.log(np.sum(np.exp(eta))) - 0.5  # the first to fail adds a term, and is in no other risk set
    assert_close(partial_deviance(losses.Cox(), times, eta, train, test), 2 * first)


@pytest.mark.once
def test_the_deviance_of_large_counts_in_float32():
    rng = np.random.default_rng(0)
    deviance, v = resolve_score(None, losses.Poisson()), jnp.ones(2000, jnp.float32)
    for _ in range(5):
        eta = np.float32(np.log(1e5) + 0.3 * rng.normal(size=(2000, 1)))
        mean = np.exp(np.float64(eta))
        y = np.float32(rng.poisson(mean))
        score = deviance(losses.Poisson(), jnp.asarray(y), jnp.asarray(eta), v)
        assert np.isclose(score, np.mean(2 * (y * np.log(y / mean) - (y - mean))), rtol=0.03)


@pytest.mark.once
def test_splits():
    groups = np.repeat(np.arange(7), [9, 1, 4, 2, 5, 3, 6])
    grouped = selection.grouped_folds(groups, 3)
    fold = np.argmax(np.asarray(grouped.test), axis=0)
    assert all(len(set(fold[groups == g])) == 1 for g in range(7))
    assert np.asarray(grouped.test).sum(1).tolist() == [11, 10, 9]
    forward = selection.time_folds(20, 4, gap=1)
    for train, test in zip(np.asarray(forward.train), np.asarray(forward.test), strict=True):
        assert np.max(np.flatnonzero(train)) == np.min(np.flatnonzero(test)) - 2
    labels = np.repeat([0, 1], [30, 10])
    strata = np.asarray(selection.stratified_folds(labels, 5).test)
    assert np.all(strata[:, labels == 1].sum(1) == 2)
    assert np.all(strata.sum(0) == 1)
    random = selection.random_splits(20, 3, fraction=0.25)
    assert np.all(np.asarray(random.test).sum(1) == 5)
    assert np.all(random.train != random.test)


@pytest.mark.once
@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: selection.k_folds(10, 2.5), "a whole number from 2 to the number of samples, 10, got 2.5"),
        (lambda: selection.blocked_folds(10, 2.5), "a whole number from 2"),
        (lambda: selection.time_folds(10, 2.5), "a whole number from 2"),
        (lambda: selection.grouped_folds(np.arange(10), 2.5), "a whole number from 2 to the number of groups, 10"),
        (lambda: selection.stratified_folds(np.eye(2)[np.arange(10) % 2], 2), r"labels has shape \(10, 2\)"),
    ],
)
def test_bad_splits(make, words):
    with pytest.raises(ValueError, match=words):
        make()


@pytest.mark.once
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (dict(folds=1), "number of folds"),
        (dict(folds=41), "number of folds"),
        (dict(folds=np.zeros(40, int)), "at least two folds"),
        (dict(folds=np.arange(39) % 3), "n = 40"),
        (dict(folds=np.where(np.arange(40) % 2, 2, 0)), "no sample with the id 1"),
        (dict(folds=np.ones(40)), "must be integers"),
        (dict(score="auc?"), "score must be"),
        (dict(simpler="bigger"), "simpler must be"),
        (dict(simpler={"lam": "larger"}), "simpler must be"),
        (dict(penalties={"k": jnp.ones(2)}, simpler={"j": "larger"}, model=lambda *a: None), "simpler takes a prefix"),
        (dict(folds=np.arange(40) % 3, repeats=2), "key and repeats"),
        (dict(folds=Splits(FOUR, ~FOUR, repeats=3)), "repeats=3, which does not divide its 4 splits"),
        (dict(folds=Splits(FOUR, 0.5 * ~FOUR)), "test of dtype float"),
        (dict(model=lambda *a: None, per_sample=True), "per_sample"),
        (dict(model=lambda *a: None, lower=0.0), "lower goes with penalties"),
        (dict(model=lambda *a: None, standardize=True), "standardize goes with penalties"),
        (dict(model=lambda *a: None, tol=1e-3), "tol goes with penalties"),
        (dict(lower=1.0), "lower"),
        (dict(penalties=L1(jnp.ones(0))), r"penalties takes arrays with an axis \(L,\)"),
        (dict(penalties=jnp.ones(2)), "penalties must be a penalty"),
        (dict(penalties=[1.0, 2.0], model=lambda *a: None), r"axis \(L,\) in front"),
    ],
)
def test_bad_arguments(arguments, words):
    X, y = small()
    with pytest.raises(ValueError, match=words):
        regjax.cross_validate(X, y, Squared(), **{"penalties": L1(jnp.array([1.0]))} | arguments)


_TWO_DEVICES = """
import jax, numpy as np, regjax

jax.config.update("jax_num_cpu_devices", 2)
jax.config.update("jax_enable_x64", True)
data = regjax.data.diabetes()
penalties = regjax.penalties.L1(np.geomspace(400.0, 4.0, 5))
alone, shared = (
    regjax.cross_validate(data.X, data.y, regjax.losses.Squared(), penalties, folds=4, devices=devices)
    for devices in (None, jax.devices())
)
assert shared.fits.status.shape == (4, 5) and bool(shared.converged)
assert shared.mean.devices() == {jax.devices()[0]}
print(max(np.max(np.abs(a - b)) for a, b in zip(jax.tree.leaves(alone.fits), jax.tree.leaves(shared.fits))))
print(np.max(np.abs(alone.scores / shared.scores - 1)))
"""


@pytest.mark.once
def test_folds_are_shared_between_devices():
    """Five lanes on two devices: the same fits and scores as on one."""
    environment = os.environ | {"JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-c", _TWO_DEVICES]
    out = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=240).stdout
    assert all(float(line) < 1e-9 for line in out.split())


@pytest.mark.once
@pytest.mark.parametrize("devices", [[], "cpu", ["cpu"], 2])
def test_devices_are_devices(devices):
    data = regjax.data.diabetes()
    with pytest.raises(ValueError, match="devices must be a sequence"):
        regjax.cross_validate(data.X, data.y, Squared(), L1(jnp.ones(2)), folds=3, devices=devices)


@pytest.mark.x64
def test_the_error_has_derivatives():
    X, y = small()

    def error(lams):
        return jnp.sum(regjax.cross_validate(X, y, Squared(), L2(lams), folds=3).mean)

    lams, step = jnp.array([1.0, 0.1]), 1e-4
    finite = [(error(lams.at[i].add(step)) - error(lams.at[i].add(-step))) / (2 * step) for i in range(2)]
    assert_close(jax.grad(error)(lams), jnp.stack(finite), f64=1e-6)
