"""Everything that regjax makes is saved and comes back equal: tree, static fields, dtypes, values, predictions."""

from dataclasses import dataclass, fields

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import regjax
from regjax import bases, kernels, losses, penalties
from regjax.core.node import NODES, register_node
from regjax.models.stochastic_problem import StochasticSolution
from regjax.selection.cross_validate import CrossValidation
from regjax.solvers.stochastic import History
from tests.problems import problem
from tests.test_bases import BASES
from tests.test_kernels import KERNELS
from tests.test_losses import LOSSES
from tests.test_penalties import TABLE

X, y, v = problem(12, 3)
KERNEL = 2.0 * kernels.RBF(jnp.array([1.0, 2.0, 3.0])) + kernels.on(kernels.Matern32(1.5), (0, 2)) * kernels.Constant(
    0.3
)
UNSAVED = ("kernels.Pairwise", "kernels.Warped", "models.Gram")  # functions, and what no result holds

MODELS = {
    "ols": lambda: regjax.ols(X, y),
    "ridge of a tree": lambda: regjax.ridge({"a": X[:, 0], "b": (X[:, 1], [X[:, 2:]])}, y, 0.5, weights=v),
    "ridge along a grid": lambda: jax.vmap(lambda lam: regjax.ridge(X, y, lam))(jnp.array([0.1, 1.0])),
    "ridge of two targets": lambda: regjax.ridge(X, jnp.stack([y, -y], 1), jnp.array([0.1, 1.0])),
    "ridge_ball": lambda: regjax.ridge_ball(X, y, 0.5),
    "robust_regression": lambda: regjax.robust_regression(X, y),
    "inference": lambda: regjax.inference(X, y, regjax.ols(X, y)),
    "likelihood inference": lambda: regjax.inference(X, y > 0, regjax.logistic_regression(X, y > 0), losses.Logistic()),
    "bayes_linear": lambda: regjax.bayes_linear(X, y, 0.5, 2.0),
    "smoothing_spline": lambda: regjax.smoothing_spline(X[:, 0], y, 0.1),
    "kernel_ridge": lambda: regjax.kernel_ridge(KERNEL, X, y, 0.1, intercept=True),
    "multi_kernel_ridge": lambda: regjax.multi_kernel_ridge((KERNEL, kernels.Linear()), X, y, jnp.array([0.1, 2.0])),
    "nadaraya_watson": lambda: regjax.nadaraya_watson(kernels.RBF(1.0), X, y, local_linear=True),
    "nadaraya_watson_loo": lambda: regjax.nadaraya_watson_loo(kernels.RBF(1.0), X, y),
    "gp": lambda: regjax.gp(KERNEL, X, y, 0.1, mean=0.2, weights=v),
    "gp leave-one-out": lambda: regjax.gp(KERNEL, X, y, 0.1).loo(),
    "gp_fit": lambda: regjax.gp_fit(kernels.RBF(1.0), X, y, 0.1, restarts=2, key=jax.random.key(0), max_iter=3),
    "sparse_gp": lambda: regjax.sparse_gp(kernels.RBF(1.0), X, y, 0.1, X[:4]),
}
PARTS = {
    "kernels": [KERNEL, *(kernel for name, kernel in KERNELS.items() if name not in ("warp", "on a function"))],
    "more kernels": {"white": kernels.White(0.1), "text": kernels.on(kernels.RBF(1.0), ("age", "genes"))},
    "losses": tuple(loss for loss, _, _ in LOSSES.values()),
    "more losses": [losses.Multinomial(), losses.Cox("efron")],
    "penalties": {name: row.make(0.7) for name, row in TABLE.items()},
    "bases": [*BASES.values(), bases.RandomFeatures(kernels.RBF(1.0), 4, jax.random.key(1))],
    "Nystrom": bases.Nystrom(kernels.RBF(1.0), X[:3]),
    "data": regjax.data.longley(),
    "simulated": regjax.data.make_regression(jax.random.key(0), 5, 3),
    "stochastic": StochasticSolution(*map(jnp.float32, range(6)), history=History(jnp.arange(3.0), jnp.ones(3))),
    "splits": regjax.selection.splits.k_folds(6, 3),
    "cross-validation": CrossValidation(*map(jnp.float32, range(5)), None, None, penalties.L1(jnp.arange(3.0))),
    "selection": [
        cls(*map(jnp.float32, range(len(fields(cls)))))
        for cls in (
            regjax.BiasVariance,
            regjax.InformationCriteria,
            regjax.LearningCurve,
            regjax.LeaveOneOut,
            regjax.StabilitySelection,
            regjax.ValidationCurve,
        )
    ],
    "scalars": [1, 2.5, float("inf"), float("nan"), True, None, "λ", (), {}, {(1, "a"): -0.0, (2, "b"): 1}],
    "scalars of numpy": {np.int64(3): np.float32(2.5), np.int64(4): np.bool_(True)},
    "arrays": {"f4": np.float32([1.5]), "i": jnp.array([1, 2]), "b": np.array(True), "empty": np.zeros((0, 3))},
    "one array": jnp.arange(3.0),
}


def assert_equal(loaded, saved):
    assert jax.tree.structure(loaded) == jax.tree.structure(saved)
    for a, b in zip(jax.tree.leaves(loaded), jax.tree.leaves(saved), strict=True):
        assert type(a) is type(b)
        if isinstance(b, jax.Array) and jnp.issubdtype(b.dtype, jax.dtypes.prng_key):
            a, b = jax.random.key_data(a), jax.random.key_data(b)
        if hasattr(b, "dtype"):
            assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


def classes_in(value):
    """The names of the registered classes in a tree."""
    names = {name for name, cls in NODES.items() if type(value) is cls}
    children = jax.tree.leaves(value, is_leaf=lambda node: node is not value)
    return names.union(*(classes_in(child) for child in children if child is not value))


@pytest.mark.sample(6)
@pytest.mark.once
@pytest.mark.parametrize("name", MODELS)
def test_models_come_back_equal(name, tmp_path):
    model = MODELS[name]()
    regjax.save(tmp_path / "model.npz", model)
    assert_equal(regjax.load(tmp_path / "model.npz"), model)


@pytest.mark.once
@pytest.mark.parametrize("name", PARTS)
def test_parts_come_back_equal(name, tmp_path):
    regjax.save(tmp_path / "parts.npz", PARTS[name])
    assert_equal(regjax.load(tmp_path / "parts.npz"), PARTS[name])


@pytest.mark.slow
@pytest.mark.once
def test_no_class_is_forgotten():
    seen = set().union(*(classes_in(make()) for make in MODELS.values()), *map(classes_in, PARTS.values()))
    own = {name for name, cls in NODES.items() if cls.__module__.startswith("regjax.")}
    assert own - seen == set(UNSAVED)


def test_a_loaded_model_predicts_the_same(tmp_path):
    process = regjax.gp(KERNEL, X, y, 0.1)
    regjax.save(tmp_path / "gp.npz", {"process": process, "columns": ["a", "b", "c"]})
    loaded = regjax.load(tmp_path / "gp.npz")["process"]
    np.testing.assert_array_equal(loaded(X + 1), process(X + 1))
    np.testing.assert_array_equal(loaded.variance(X + 1), process.variance(X + 1))


@pytest.mark.once
def test_other_tools_read_the_arrays_by_name(tmp_path):
    fit = regjax.ridge(X, y, 1.0)
    regjax.save(tmp_path / "ridge.npz", {"model": fit})
    with np.load(tmp_path / "ridge.npz", allow_pickle=False) as file:
        np.testing.assert_array_equal(file["['model'].params.coef"], fit.params.coef)


@pytest.mark.once
def test_functions_and_strangers_are_refused(tmp_path):
    path = tmp_path / "model.npz"
    with pytest.raises(ValueError, match=r"\.kernel\.function is a function .* holds data, never code"):
        regjax.save(path, regjax.gp(kernels.on(kernels.RBF(1.0), jnp.tanh), X, y, 0.1))
    with pytest.raises(ValueError, match=r"\['a'\]\[1\] is of class builtins.set, which a file does not take"):
        regjax.save(path, {"a": [1, {2}]})
    with pytest.raises(ValueError, match="has dtype <U1: a file takes numbers"):
        regjax.save(path, np.array(["a"]))
    with pytest.raises(ValueError, match="is traced by jit"):
        jax.jit(lambda x: regjax.save(path, [x]))(1.0)
    assert not path.exists()


@pytest.mark.once
def test_classes_of_users_come_back_where_they_are_known(tmp_path):
    @register_node
    @dataclass(frozen=True, eq=False)
    class Brownian(kernels.Kernel):
        variance: float

    name = next(name for name, cls in NODES.items() if cls is Brownian)
    regjax.save(tmp_path / "kernel.npz", Brownian(2.0))
    assert regjax.load(tmp_path / "kernel.npz").variance == 2.0
    del NODES[name]
    with pytest.raises(ValueError, match=r"a model of class .*Brownian, which is not known here"):
        regjax.load(tmp_path / "kernel.npz")
    with pytest.raises(ValueError, match="Brownian, which a file does not take"):
        regjax.save(tmp_path / "kernel.npz", Brownian(2.0))


@pytest.mark.once
def test_other_files_are_refused(tmp_path):
    path = tmp_path / "other.npz"
    for write in (
        lambda: path.write_text("price,rooms\n1,2\n"),
        lambda: path.write_bytes(b""),
        lambda: path.write_bytes(b"PK\x03\x04 not a zip"),
        lambda: np.savez(path, x=np.ones(3)),
        lambda: np.savez(path, x=np.array([{}], dtype=object)),
    ):
        write()
        with pytest.raises(ValueError, match=r"is not a file that regjax\.save wrote"):
            regjax.load(path)
    with pytest.raises(FileNotFoundError):
        regjax.load(tmp_path / "missing.npz")


@pytest.mark.x64
def test_float64_without_x64_is_said(tmp_path):
    regjax.save(tmp_path / "wide.npz", penalties.L1(jnp.array(0.1)))
    with jax.enable_x64(False), pytest.warns(UserWarning, match="holds float64"):
        assert regjax.load(tmp_path / "wide.npz").lam.dtype == jnp.float32
    regjax.save(tmp_path / "single.npz", penalties.L1(jnp.float32(0.1)))
    assert regjax.load(tmp_path / "single.npz").lam.dtype == jnp.float32
