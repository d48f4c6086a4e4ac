"""Learning and validation curves against separate fits, and their verdicts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import regjax
from regjax import losses
from regjax.losses import Squared
from regjax.penalties import L2
from regjax.selection import curves, k_folds
from regjax.selection.curves import verdict
from tests.problems import assert_close, problem
from tests.selection.test_holdout import ridge


def errors(X, y, v, train, test, lam):
    """Of ridge and of the mean, by numpy."""
    b, w = ridge(X[train], y[train], v[train], lam)
    null = v[train] @ y[train] / v[train].sum()
    return [
        np.average((y[part] - fitted[part]) ** 2, weights=v[part])
        for part, fitted in ((train, b + X @ w), (test, b + X @ w), (test, np.full(len(y), null)))
    ]


@pytest.mark.once
def test_validation_curve_of_repeated_folds():
    X, y, v = (np.array(a) for a in problem(20, 3))
    lams = np.array([0.5, 30.0])
    curve = regjax.validation_curve(X, y, Squared(), L2(jnp.asarray(lams)), folds=2, repeats=2, weights=v)
    tests = np.asarray(k_folds(20, 2, repeats=2).test)
    size = np.array([v[test].sum() for test in tests]).reshape(2, 2)
    expected = np.array([[errors(X, y, v, ~test, test, lam) for test in tests] for lam in lams])
    expected = expected.reshape(2, 2, 2, 3)  # λ, round, fold, error
    rounds = np.einsum("lrke,rk->lre", expected, size) / size.sum(1)[:, None]
    means = rounds.mean(1)
    assert_close(curve.training, means[:, 0])
    assert_close(curve.validation, means[:, 1])
    assert_close(curve.null, means[0, 2])
    spread = np.einsum("lrke,rk->lre", (expected - rounds[:, :, None]) ** 2, size) / size.sum(1)[:, None]
    assert_close(curve.training_se, np.sqrt(spread.mean(1)[:, 0]))
    assert_close(curve.validation_se, np.sqrt(spread.mean(1)[:, 1]))
    assert curve.verdict == curve.verdicts[int(curve.best)]


@pytest.mark.once
def test_learning_curve_ends_at_the_fit_on_all_training_samples():
    X, y, v = (np.array(a) for a in problem(24, 3))
    v[5], y[5] = 0, np.nan
    ids = np.where(np.arange(24) % 2, -1, 0)
    rounds = np.stack([ids, ids])  # of one fold each: they have no standard error
    curve = regjax.learning_curve(X, y, Squared(), L2(3.0), sizes=[4, 11], folds=rounds, weights=v, per_sample=True)
    train = (ids == -1) & (v > 0)
    last = errors(X, y, v, train, ids == 0, 3.0 * v[train].sum() / v.sum())
    assert_close((curve.training[1], curve.validation[1], curve.null[1]), last)
    assert np.isnan(curve.validation_se).all()
    assert curve.training.shape == (2,)
    assert bool(curve.converged)


@pytest.mark.once
def test_sizes_are_nested_and_of_their_size():
    present = jnp.asarray(np.arange(12) % 4 != 1)
    found = np.asarray(curves._first_samples(jax.random.key(0), present, jnp.array([2, 5, 9])))
    assert found.sum(1).tolist() == [2, 5, 9]
    assert np.all(found[0] <= found[1])
    assert np.array_equal(found[2], present)


@pytest.mark.once
def test_verdicts():
    assert verdict(0.1, 0.2, 1.0) == "balanced"
    assert verdict(0.0, 0.3, 1.0) == "overfit"
    assert verdict(0.8, 0.9, 1.0) == "underfit"
    assert verdict(0.8, 1.2, 1.0) == "overfit"
    assert verdict(np.nan, 1.2, 1.0) == "unknown"


@pytest.mark.once
def test_null_model_of_classes_and_bad_arguments():
    X, y, _ = (np.array(a) for a in problem(20, 2))
    labels = (y > 0).astype(float)

    def line(X, y, lam, v):
        return regjax.ridge(X, y, lam, weights=v)

    curve = regjax.learning_curve(X, labels, losses.Logistic(), 1.0, model=line, sizes=[16], folds=5)
    splits = k_folds(20, 5)
    share = np.array([labels[train].mean() for train in np.asarray(splits.train)])
    wrong = [
        -2 * np.mean(labels[test] * np.log(p) + (1 - labels[test]) * np.log1p(-p))
        for p, test in zip(share, np.asarray(splits.test), strict=True)
    ]
    assert_close(curve.null[0], np.mean(wrong))
    for arguments, words in [
        (dict(sizes=[0, 3]), "sizes must be from 1 to the smallest training set, 16"),
        (dict(sizes=[17]), "sizes must be"),
        (dict(sizes=[0.5]), "sizes takes integers"),
        (dict(sizes=[]), "sizes takes integers"),
        (dict(model=lambda *a: None, per_sample=True), "per_sample"),
    ]:
        with pytest.raises(ValueError, match=words):
            regjax.learning_curve(X, y, Squared(), L2(1.0), **({"folds": 5} | arguments))
