"""Stochastic gradients: textbook identities, known solutions, streams, networks, transformations and bad inputs."""

import subprocess
import sys
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import regjax
from regjax import Status
from regjax.losses import Cox, Gamma, Logistic, Multinomial, Poisson, Quantile, Squared
from regjax.penalties import L1, L2, ElasticNet, Group, NonNegative, Zero
from regjax.solvers.stochastic import shuffle
from tests.problems import assert_close, tolerance


def standard(n, p, seed=0, *, sparse=None, noise=1.0):
    """Columns of mean 0 and variance 1, a target about 0.5, and weights."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) + 0.5 * rng.normal(size=(n, 1))
    X = (X - X.mean(0)) / X.std(0)
    coef = rng.normal(size=p)
    if sparse is not None:
        coef = np.where(np.arange(p) < sparse, np.sign(coef) * (1 + np.abs(coef)), 0)
    y = 0.5 + X @ coef + noise * rng.normal(size=n)
    return jnp.asarray(X), jnp.asarray(y), jnp.asarray(rng.uniform(0.5, 2, size=n))


X, y, V = standard(60, 4)


def relative_error(found, expected):
    return float(np.linalg.norm(np.asarray(found) - expected) / np.linalg.norm(expected))


# known solutions


def test_an_offset_counts_in_held_out_samples():
    shift = -3 * X[:, 0]
    numerics = {"step": 1e-3, "batch_size": 8, "num_epochs": 40, "patience": 40}
    plain = regjax.sgd(X, y, Squared(), L2(0.1), holdout=(X, y), **numerics)
    shifted = regjax.sgd(
        X, y + shift, Squared(), L2(0.1), offset=shift, holdout=(X, y + shift, None, shift), **numerics
    )
    assert_close(shifted.history.held_out, plain.history.held_out)
    assert_close(shifted.params.coef, plain.params.coef)


@pytest.mark.parametrize("bad", [jnp.nan, 2.0])
def test_held_out_targets_out_of_range_inside_jit_are_invalid(bad):
    binary = (y > 0.5).astype(X.dtype)

    def fit(held_out):
        return regjax.sgd(X, binary, Logistic(), L2(1.0), num_epochs=3, holdout=(X, held_out))

    assert jax.jit(fit)(binary).status != Status.INVALID
    assert jax.jit(fit)(binary.at[0].set(bad)).status == Status.INVALID


def test_optimizers_that_search_along_lines():
    found = regjax.sgd(X, y, Squared(), L2(2.0), optimizer=optax.lbfgs(), batch_size=len(X), num_epochs=30)
    assert_close(found.params.coef, regjax.ridge(X, y, 2.0).params.coef, f64=1e-6)
    assert found.converged


@pytest.mark.sample(4)
@pytest.mark.parametrize("average", [False, True])
def test_ridge_is_reached_to_a_thousandth(average):
    X, y, v = standard(500, 20)
    offset = jnp.sin(jnp.arange(500.0))
    solution = regjax.check(regjax.sgd(X, y, Squared(), L2(2.0), weights=v, offset=offset, average=average))
    closed = regjax.ridge(X, y - offset, 2.0, weights=v).params
    assert relative_error(solution.params.coef, closed.coef) < 1e-3
    assert abs(float(solution.params.intercept - closed.intercept)) < 1e-3 * float(jnp.linalg.norm(closed.coef))
    assert solution.history.objective.shape == (100,)
    assert_close(solution.history.objective[-1], solution.objective, f64=1e-12, f32=1e-5)
    assert np.all(np.isnan(solution.history.held_out))


@pytest.mark.once
def test_the_support_of_the_lasso_is_found():
    for seed in range(3):
        X, y, _ = standard(400, 30, seed, sparse=5)
        lam = 0.1 * float(np.max(np.abs(np.asarray(X).T @ np.asarray(y - y.mean()))))
        exact = regjax.lasso(X, y, lam)
        found = regjax.check(regjax.sgd(X, y, Squared(), L1(lam), key=jax.random.key(seed)))
        assert np.array_equal(regjax.support(found), regjax.support(exact))
        assert relative_error(found.params.coef, exact.params.coef) < 2e-3


@pytest.mark.sample(6)
@pytest.mark.parametrize(
    ("loss", "target", "penalty"),
    [
        pytest.param(Logistic(), lambda y: (y > 0.5) * 1.0, L2(3.0), marks=pytest.mark.slow),
        (Poisson(), lambda y: jnp.round(jnp.exp(0.3 * y)), L2(1.0)),
        pytest.param(Poisson(), lambda y: jnp.round(jnp.exp(0.3 * y)), ElasticNet(4.0, 1.0), marks=pytest.mark.slow),
        pytest.param(
            Multinomial(),
            lambda y: jax.nn.one_hot(jnp.digitize(y, jnp.array([-1.0, 1.5])), 3),
            L2(2.0),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            Squared(),
            lambda y: jnp.stack([y, jnp.sin(y)], axis=1),
            Group(5.0, (0, 0, 1, 1)),
            marks=pytest.mark.slow,
        ),
        pytest.param(Gamma("log"), lambda y: jnp.exp(0.3 * y), Zero(), marks=pytest.mark.slow),
        pytest.param(Squared(), lambda y: y, NonNegative(), marks=pytest.mark.slow),
    ],
    ids=lambda a: type(a).__name__ if not callable(a) or hasattr(a, "prox") else "",
)
@pytest.mark.once
def test_other_losses_and_penalties_reach_what_fit_finds(loss, target, penalty):
    X, y, v = standard(200, 4, 3)
    found = regjax.check(regjax.sgd(X, target(y), loss, penalty, weights=v, batch_size=20, num_epochs=200))
    exact = regjax.fit(X, target(y), loss, penalty, weights=v)
    assert (
        float(exact.objective) <= float(found.objective) <= float(exact.objective) + 1e-4 * abs(float(exact.objective))
    )
    assert relative_error(found.params.coef, exact.params.coef) < 1e-2


@pytest.mark.once
def test_losses_with_kinks_are_fitted_and_not_certified():
    found = regjax.sgd(X, y, Quantile(0.3), Zero(), step=lambda k: 0.02 / (1 + k / 20), num_epochs=400)
    exact = regjax.fit(X, y, Quantile(0.3), Zero())
    assert_close(found.objective, exact.objective, f64=2e-3, f32=3e-3)
    assert int(found.status) == Status.ITERATION_LIMIT
    assert np.isnan(found.gap)


# as in a textbook


@pytest.mark.once
@pytest.mark.parametrize("form", ["step", "optimizer"])
def test_one_batch_of_all_is_gradient_descent(form):
    eta = 3e-3
    numerics = {"step": eta} if form == "step" else {"optimizer": optax.sgd(eta)}
    init = jnp.array([1.0, 0.0, -1.0, 0.5])
    found = regjax.sgd(X, y, Squared(), Zero(), weights=V, init=init, batch_size=100, num_epochs=17, **numerics)
    exact = regjax.gradient_descent(X, y, eta, 17, init, weights=V)
    assert_close(found.params, exact.params, f64=1e-12, f32=1e-5)
    assert_close(found.objective, exact.objective, f64=1e-12, f32=1e-5)
    assert int(found.num_iter) == 17
    assert int(found.status) == Status.ITERATION_LIMIT


@pytest.mark.sample(4)
@pytest.mark.parametrize("average", [False, True])
def test_steps_are_those_of_the_definition(average):
    """In NumPy: batches of unequal size, scaled by Σv/Σv_batch, a penalty that is not, steps by weight, the tail."""
    n, batch_size, epochs, eta, lam = 23, 5, 3, 4e-3, 3.0
    A, b, v = (np.asarray(a, float)[:n] for a in (X, y, V))
    key = jax.random.key(7)
    w, iterates = np.zeros(4), []
    for number in range(epochs):
        order, real = shuffle(jax.random.fold_in(key, number), jnp.asarray(v), batch_size)
        assert np.array_equal(np.sort(np.asarray(order)[np.asarray(real)]), np.arange(n))
        assert set(np.asarray(real).sum(1).tolist()) == {4, 5}
        for rows, kept in zip(np.asarray(order), np.asarray(real), strict=True):
            rows = rows[kept]
            slope = v.sum() / v[rows].sum() * A[rows].T @ (v[rows] * (A[rows] @ w - b[rows]))
            own = eta * v[rows].sum() / (v.sum() / len(order))
            w = (w - own * slope) / (1 + own * lam)
            iterates.append(w)
    expected = np.mean(iterates[len(iterates) // 2 :], axis=0) if average else w
    found = regjax.sgd(
        A, b, Squared(), L2(lam), weights=v, intercept=False, step=eta, batch_size=batch_size, num_epochs=epochs,
        key=key, average=average,
    )  # fmt: skip
    assert_close(found.params.coef, expected, f64=1e-12, f32=1e-5)
    assert float(found.params.intercept) == 0.0
    assert int(found.num_iter) == 15


@pytest.mark.slow
def test_every_optimizer_has_the_lasso_as_its_fixed_point():
    lam = 12.0
    exact = regjax.lasso(X, y, lam).params
    for optimizer in (optax.adam(optax.exponential_decay(0.2, 80, 0.5)), optax.sgd(2e-3, momentum=0.9, nesterov=True)):
        found = regjax.check(regjax.sgd(X, y, Squared(), L1(lam), optimizer=optimizer, batch_size=60, num_epochs=1000))
        assert_close(found.params, exact, f64=1e-5, f32=1e-3)
        assert np.array_equal(found.params.coef == 0, exact.coef == 0)


# samples and weights


@pytest.mark.slow
def test_rows_of_weight_zero_are_as_if_they_were_not_there():
    rows = np.sort(np.random.default_rng(0).permutation(60)[:41])
    v = jnp.zeros(60).at[rows].set(V[rows])
    junk = X.at[jnp.flatnonzero(v == 0)].set(jnp.nan)
    whole = regjax.sgd(junk, y, Squared(), L2(2.0), weights=v, batch_size=8, num_epochs=4)
    part = regjax.sgd(X[rows], y[rows], Squared(), L2(2.0), weights=V[rows], batch_size=8, num_epochs=4)
    assert_close(whole, part, f64=1e-10, f32=1e-4)


@pytest.mark.once
def test_one_sample_is_its_own_mean():
    alone = regjax.sgd(X[:1], y[:1], Squared(), L2(0.5), num_epochs=2)
    assert bool(alone.converged)
    assert_close(alone.params.intercept, y[0])
    assert not np.any(alone.params.coef)


@pytest.mark.slow
@pytest.mark.x64
def test_float32_stays_float32():
    single = regjax.sgd(X.astype("f4"), y.astype("f4"), Squared(), L1(2.0), weights=V.astype("f4"), num_epochs=200)
    leaves = [leaf for leaf in jax.tree.leaves(single) if jnp.issubdtype(leaf.dtype, jnp.floating)]
    assert all(leaf.dtype == jnp.float32 for leaf in leaves)
    assert_close(single.params, regjax.lasso(X, y, 2.0, weights=V).params, f64=5e-3)


# transforms


@pytest.mark.slow
@pytest.mark.once
def test_vmap_over_keys_steps_strengths_and_weights_equals_loop():
    keys = jax.random.split(jax.random.key(3), 3)
    steps, lams = jnp.array([1e-3, 2e-3, 4e-3]), jnp.array([0.5, 5.0, 20.0])
    folds = jnp.stack([V.at[k::3].set(0.0) for k in range(3)])

    def one(key, step, lam, v):
        solution = regjax.sgd(X, y, Squared(), L2(lam), weights=v, step=step, key=key, batch_size=16, num_epochs=5)
        return solution.params, solution.gap, solution.history.objective

    lanes = jax.jit(jax.vmap(one))(keys, steps, lams, folds)
    for k in range(3):
        alone = one(keys[k], steps[k], lams[k], folds[k])
        assert_close(jax.tree.map(lambda leaf, k=k: leaf[k], lanes), alone, f64=1e-10, f32=1e-3)
    apart = jax.vmap(lambda key: one(key, 2e-3, 1.0, V)[0].coef)(keys)
    assert not np.allclose(apart[0], apart[1], rtol=1e-6)


@pytest.mark.once
def test_learning_rates_of_an_optimizer_are_an_axis():
    def one(eta):
        return regjax.sgd(X, y, Squared(), L2(1.0), optimizer=optax.adam(eta), num_epochs=3).params.coef

    etas = jnp.array([1e-2, 1e-1])
    assert_close(jax.jit(jax.vmap(one))(etas), jnp.stack([one(eta) for eta in etas]))


@pytest.mark.once
def test_nothing_is_compiled_for_another_strength_step_or_key():
    adam = optax.adam(1e-2)

    def both(lam, step, seed):
        key = jax.random.key(seed)
        regjax.sgd(X, y, Squared(), L1(lam), step=step, key=key, num_epochs=3)
        regjax.sgd(X, y, Squared(), L2(lam), optimizer=adam, key=key, num_epochs=3)

    both(1.0, 1e-3, 0)
    compiled = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, duration, **kwargs: compiled.append(event) if event.endswith("compile_duration") else None
    )
    try:
        both(2.5, 3e-3, 5)
    finally:
        jax.monitoring.clear_event_listeners()
    assert not compiled


def test_a_run_that_diverges_is_a_status_of_its_lane():
    def one(step):
        return regjax.sgd(X, y, Squared(), L2(1.0), step=step, batch_size=16, num_epochs=60)

    lanes = jax.vmap(one)(jnp.array([3e-3, 1e4]))
    assert int(lanes.status[1]) == Status.NON_FINITE
    assert int(lanes.status[0]) in (Status.CONVERGED, Status.ITERATION_LIMIT)
    assert np.all(np.isnan(lanes.params.coef[1]))
    assert np.all(np.isfinite(lanes.params.coef[0]))


@pytest.mark.once
def test_bad_numbers_inside_jit_are_a_status():
    statuses = jax.jit(lambda y, lam, eta: regjax.sgd(X, y, Poisson(), L2(lam), step=eta, num_epochs=2).status)
    counts = jnp.arange(60.0)
    assert int(statuses(-counts, 1.0, 1e-4)) == Status.INVALID
    assert int(statuses(counts, -1.0, 1e-4)) == Status.INVALID
    assert int(statuses(counts, 1.0, -1e-4)) == Status.INVALID


# held-out samples and progress


@pytest.mark.once
def test_held_out_samples_end_the_run_and_choose_the_answer():
    wide, t, _ = standard(40, 30, 7, sparse=1, noise=6.0)
    train = jnp.arange(40) < 25
    numerics = {"weights": train * 1.0, "batch_size": 5, "num_epochs": 60}
    found = regjax.sgd(wide, t, Squared(), Zero(), holdout=(wide, t, 1.0 - train), patience=4, **numerics)
    scores = np.asarray(found.history.held_out)
    ran = int(np.sum(~np.isnan(scores)))
    assert 4 < ran < 60
    assert ran == np.nanargmin(scores) + 1 + 4
    assert int(found.num_iter) == 5 * ran
    assert np.all(np.isnan(found.history.objective[ran:]))
    assert_close(np.mean((t[25:] - found.params(wide[25:])) ** 2) / 2, np.nanmin(scores), f64=1e-10, f32=1e-4)
    free = regjax.sgd(wide, t, Squared(), Zero(), holdout=(wide[25:], t[25:]), patience=60, **numerics)
    assert_close(free.history.held_out[:ran], scores[:ran], f64=1e-10, f32=1e-4)
    assert not np.any(np.isnan(free.history.held_out))


@pytest.mark.once
def test_progress_is_told_outside_of_jit_only(capsys):
    numerics = {"num_epochs": 7, "holdout": (X, y), "patience": 2}
    aloud = regjax.sgd(X, y, Squared(), L2(1.0), progress=True, **numerics)
    told = capsys.readouterr()
    assert "epoch 7/7" in told.err
    assert "objective" in told.err
    assert told.out == ""
    assert_close(aloud, regjax.sgd(X, y, Squared(), L2(1.0), **numerics), f64=1e-10)
    jax.eval_shape(lambda: regjax.sgd(X, y, Squared(), L2(1.0), progress=True, **numerics).status)
    lanes = jax.vmap(lambda lam: regjax.sgd(X, y, Squared(), L2(lam), progress=True, **numerics).status)
    jax.eval_shape(lanes, jnp.ones(2))
    assert capsys.readouterr().err == ""


# any model


@pytest.mark.once
def test_a_linear_apply_is_the_linear_model():
    lam = 6.0
    exact = regjax.lasso(X, y, lam, weights=V)
    found = regjax.sgd(
        {"columns": X}, y, Squared(), L1({"w": lam, "b": 0.0}), weights=V, step=4e-3, batch_size=60, num_epochs=600,
        apply=lambda params, X: params["b"] + X["columns"] @ params["w"], init={"w": np.zeros(4), "b": 0},
        tol=tolerance(1e-8, 1e-5),
    )  # fmt: skip
    assert int(found.status) == Status.CONVERGED
    assert_close(found.params["w"], exact.params.coef, f64=1e-7, f32=1e-4)
    assert_close(found.params["b"], exact.params.intercept, f64=1e-7, f32=1e-4)
    assert_close(found.objective, exact.objective, f64=1e-10, f32=1e-5)


def network(params, X):
    return jnp.tanh(X @ params["first"] + params["shift"]) @ params["second"]


@pytest.mark.once
def test_a_network_of_two_layers_with_penalised_leaves():
    rng = np.random.default_rng(0)
    init = {
        "first": jnp.asarray(rng.normal(size=(4, 16)) / 2),
        "shift": jnp.asarray(rng.normal(size=16)),
        "second": jnp.asarray(rng.normal(size=16) / 4),
    }
    A, _, v = standard(300, 4, 2)
    target = jnp.sin(2 * A[:, 0]) + A[:, 1] ** 2
    fold = jnp.where(jnp.arange(300) < 200, v, 0)
    optimizer = optax.adam(optax.cosine_decay_schedule(2e-2, 1400))
    strengths = {"first": 4.0, "shift": 0.0, "second": 0.0}
    found = regjax.sgd(
        A, target, Squared(), L1(strengths), weights=fold, step=1e-3, optimizer=optimizer, num_epochs=200,
        apply=network, init=init,
    )  # fmt: skip
    unseen = np.mean((target[200:] - network(found.params, A[200:])) ** 2)
    line = regjax.ols(A, target, weights=fold).params
    assert unseen < 0.1 * np.mean((target[200:] - line(A[200:])) ** 2)
    irrelevant = np.asarray(found.params["first"][2:])
    assert np.mean(irrelevant == 0) > 0.5
    assert np.all(found.params["second"] != 0)
    assert np.isnan(found.gap)
    assert float(found.residual) < 0.05
    assert float(found.history.objective[-1]) < 0.3 * float(found.history.objective[0])


# streams


def batches_of(n, p, size, seen, dtype="f8"):
    """Batches that are made when they are asked for; `seen` is given a weak reference to each."""
    coef = np.linspace(-1, 1, p)
    for start in range(0, n, size):
        rng = np.random.default_rng(start)
        X = rng.normal(size=(min(size, n - start), p)).astype(dtype)
        y = (0.5 + X @ coef + 0.5 * rng.normal(size=len(X))).astype(dtype)
        seen.append(weakref.ref(X))
        assert sum(ref() is not None for ref in seen[-20:]) <= 4
        yield X, y


@pytest.mark.once
def test_a_stream_from_an_iterator_is_fitted_in_one_pass():
    n, p, seen = 50_000, 20, []
    solution = regjax.sgd(batches_of(n, p, 500, seen), None, Squared(), L2(1.0), total=n)
    gram, moments = np.eye(p + 1), np.zeros(p + 1)
    gram[0, 0] = 0.0
    for A, b in batches_of(n, p, 500, []):
        Z = np.column_stack([np.ones(len(A)), A])
        gram, moments = gram + Z.T @ Z, moments + Z.T @ b
    exact = np.linalg.solve(gram, moments)
    assert relative_error(solution.params.coef, exact[1:]) < 1e-2
    assert_close(solution.params.intercept, exact[0], f64=2e-2, f32=2e-2)
    assert int(solution.num_iter) == 100
    assert int(solution.status) == Status.ITERATION_LIMIT  # nothing is left to certify it with
    assert np.isnan(solution.residual)
    assert len(seen) == 100


_MILLION = """
import resource, numpy as np, regjax
from tests.solvers.test_stochastic import batches_of
n, p = 1_000_000, 100
memory = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
fit = lambda n: regjax.sgd(
    batches_of(n, p, 1000, [], "f4"), None, regjax.losses.Squared(), regjax.penalties.L2(1.0), total=n
)
fit(20_000)
before = memory()
solution = fit(n)
error = np.linalg.norm(solution.params.coef - np.linspace(-1, 1, p)) / np.linalg.norm(np.linspace(-1, 1, p))
print(error, before, memory())
"""


@pytest.mark.slow
@pytest.mark.once
def test_a_million_rows_in_constant_memory():
    """400 MB of data, after a stream of 8 MB, add next to nothing to the largest memory of the process."""
    out = subprocess.run([sys.executable, "-c", _MILLION], capture_output=True, text=True, check=True).stdout
    error, before, after = map(float, out.split())
    assert error < 5e-3
    assert after - before < 50


@pytest.mark.once
def test_the_step_suits_every_batch_of_a_stream_that_can_be_read_again():
    """Columns that are thirty times as large after the first batch, whose step would lead away."""
    rng = np.random.default_rng(0)
    size = np.where(np.arange(60) < 20, 1.0, 30.0)[:, None]
    X = size * rng.normal(size=(60, 2))
    y = X @ np.array([1.0, -2.0]) + 0.1 * rng.normal(size=60)
    batches = [(X[i : i + 20], y[i : i + 20]) for i in (0, 20, 40)]
    found = regjax.sgd(batches, None, Squared(), L2(1.0), num_epochs=40)
    assert relative_error(found.params.coef, regjax.ridge(X, y, 1.0).params.coef) < 1e-2


@pytest.mark.once
def test_a_stream_that_can_be_read_again_is_certified():
    batches = [(X[i : i + 17], y[i : i + 17], V[i : i + 17]) for i in range(0, 60, 17)]
    batches.insert(2, (X[:3] * jnp.nan, y[:3], jnp.zeros(3)))
    found = regjax.check(regjax.sgd(batches, None, Squared(), L1(20.0), num_epochs=50, tol=1e-2))
    exact = regjax.lasso(X, y, 20.0, weights=V)
    assert relative_error(found.params.coef, exact.params.coef) < 1e-2
    assert np.array_equal(found.params.coef == 0, exact.params.coef == 0)
    assert_close(found.objective, exact.objective, f64=1e-4, f32=1e-4)
    assert int(found.num_iter) == 200
    assert found.history.objective.shape == (50,)


@pytest.mark.once
def test_streams_stop_on_held_out_samples_and_take_any_model(capsys):
    batches = [({"a": X[i::3]}, y[i::3]) for i in range(3)]

    def line(params, X):
        return X["a"] @ params

    numerics = {"apply": line, "init": jnp.zeros(4), "num_epochs": 40, "holdout": ({"a": X}, -y), "patience": 3}
    found = regjax.sgd(batches, None, Squared(), L2(1.0), optimizer=optax.sgd(1e-3), **numerics)
    scores = np.asarray(found.history.held_out)
    assert np.sum(~np.isnan(scores)) == np.nanargmin(scores) + 4
    assert found.history.objective.shape == (40,)
    diverged = regjax.sgd(
        batches * 30, None, Squared(), L2(1.0), step=1e6, apply=line, init=jnp.zeros(4), progress=True
    )
    assert "step 90/90" in capsys.readouterr().err
    assert int(diverged.status) == Status.NON_FINITE


# bad inputs

SQUARED = Squared()
once = {"apply": network, "init": {"first": jnp.ones((4, 2)), "shift": jnp.ones(2), "second": jnp.ones(2)}}


@pytest.mark.once
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: regjax.sgd(X, y, Cox(), Zero()), "loss must be a sum over samples, which Cox is not"),
        (lambda: regjax.sgd(X, y, Poisson(), Zero()), "y of Poisson takes"),
        (lambda: regjax.sgd(X, y, Quantile(0.5), Zero()), "step must be given for Quantile"),
        (lambda: regjax.sgd(X, y, SQUARED, 3.0), "penalty must be a penalty of regjax.penalties"),
        (lambda: regjax.sgd(X, y, SQUARED, L1(-1.0)), "lam must be non-negative"),
        (lambda: regjax.sgd(X, y, SQUARED, Zero(), step=0.0), "step must be positive and finite, got 0"),
        (lambda: regjax.sgd(X, y, SQUARED, Zero(), step=jnp.ones(2)), r"step has shape \(2,\)"),
        (lambda: regjax.sgd(X, y, SQUARED, Zero(), batch_size=0), "batch_size takes an integer, at least 1, got 0"),
        (lambda: regjax.sgd(X, y, SQUARED, Zero(), num_epochs=1.5), "num_epochs takes an integer, at least 1, got 1.5"),
        (lambda: regjax.sgd(X, y, SQUARED, Zero(), patience=0), "patience takes an integer"),
        (lambda: regjax.sgd(X, y, SQUARED, Zero(), average="polyak"), "average takes True or False, got 'polyak'"),
        (lambda: regjax.sgd(X, y, SQUARED, Zero(), key=3), "key takes a key, such as jax.random.key"),
        (lambda: regjax.sgd(X, y, SQUARED, Zero(), tol=-1.0), "tol must be non-negative"),
        (lambda: regjax.sgd(X, y, SQUARED, Zero(), total=3.0), "total is Σv of a stream"),
        (lambda: regjax.sgd(X, y, SQUARED, Zero(), optimizer="adam"), "optimizer takes an optax.GradientTransf"),
        (
            lambda: regjax.sgd(X, y, SQUARED, Zero(), optimizer=optax.sgd(1.0), step=lambda k: 1.0),
            "step is a scalar where there is an optimizer",
        ),
        (lambda: regjax.sgd(X, y, SQUARED, Zero(), offset=jnp.ones(4)), r"offset has shape \(4,\)"),
        (lambda: regjax.sgd(X, y, SQUARED, Zero(), init=jnp.ones(2)), r"init has a leaf of shape \(2,\)"),
        (lambda: regjax.sgd(X, y, SQUARED, Zero(), holdout=X), r"holdout takes samples \(X, y\)"),
        (lambda: regjax.sgd(X, y, SQUARED, Zero(), offset=y, holdout=(X, y)), "holdout takes .* offset"),
        (
            lambda: regjax.sgd(X, y, SQUARED, L1(1.0), optimizer=optax.lbfgs()),
            "optimizer takes more than gradients and values",
        ),
        (lambda: regjax.sgd(X, y, SQUARED, Zero(), holdout=(X, y[:3])), "holdout: y has 3 samples, but X has 60"),
        (lambda: regjax.sgd(X, y, SQUARED, Zero(), holdout=(X[:, :2], y)), "holdout has other columns of X"),
        (lambda: regjax.sgd(X, y, SQUARED, Zero(), holdout=(X, X[:, :2])), "holdout has other targets"),
        # any model
        (lambda: regjax.sgd(X, y, SQUARED, Zero(), apply=3, init=jnp.ones(4)), "apply takes a function"),
        (lambda: regjax.sgd(X, y, SQUARED, Zero(), apply=network), "init takes the parameters to start from"),
        (lambda: regjax.sgd(X, y, SQUARED, Zero(), **once), "step or optimizer must be given where there is an apply"),
        (
            lambda: regjax.sgd(X, y, SQUARED, L1(1.0), **once, optimizer=optax.sgd(1.0)),
            "step must be given beside the optimizer: that of the proximal map of L1",
        ),
        (
            lambda: regjax.sgd(X, y[:, None] * jnp.ones(2), SQUARED, Zero(), **once, step=1.0),
            r"apply returns .*\(60,\)",
        ),
        (lambda: regjax.sgd(X[:3], y, SQUARED, Zero(), **once, step=1.0), r"X has shape \(3, 4\): it takes 60 samples"),
        (lambda: regjax.sgd(X, y, SQUARED, L1({"a": 1.0}), **once, step=1.0), "lam takes a scalar"),
        # streams
        (lambda: regjax.sgd(X, None, SQUARED, Zero()), "X takes an iterable of batches where y is None"),
        (lambda: regjax.sgd(3, None, SQUARED, Zero()), "X takes an iterable of batches where y is None, got int"),
        (lambda: regjax.sgd([], None, SQUARED, Zero()), "X is a stream without samples"),
        (lambda: regjax.sgd(iter([]), None, SQUARED, Zero(), total=1), "X is a stream without samples"),
        (lambda: regjax.sgd([X], None, SQUARED, Zero()), r"X takes batches \(X, y\) or \(X, y, weights\)"),
        (lambda: regjax.sgd(iter([(X, y)]), None, SQUARED, Zero()), "can be read only once: it takes num_epochs=1 and"),
        (lambda: regjax.sgd([(X, y), (X[:, :2], y)], None, SQUARED, Zero()), "a batch of X has other columns"),
        (lambda: regjax.sgd([(X, y), (X * jnp.nan, y)], None, SQUARED, Zero()), "X contains NaN"),
        (lambda: regjax.sgd([(X, y)], None, SQUARED, Zero(), total=0.0), "total must be positive, got 0"),
        (lambda: regjax.sgd([(X, y)], None, SQUARED, Zero(), weights=V), "weights is for data in memory"),
    ],
)
def test_bad_arguments_raise_and_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
