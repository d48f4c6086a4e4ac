"""The samples of stochastic gradients, checked: all, held out, or a batch of a stream; for a linear model or any."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from regjax.core.checks import as_float_array, check_finite
from regjax.core.tree import Structure
from regjax.losses import Loss
from regjax.models.fit import with_outputs
from regjax.models.general import check_loss
from regjax.models.prepare import check_offset
from regjax.models.problem import Samples, check_samples, check_weights
from regjax.solvers.stochastic import LINEAR, LINEAR_AT_ZERO, Form, Rows, any_form

Apply = Callable[[Any, Any], Array]


class Checked(NamedTuple):
    """Rows of one float dtype, the loss with its numbers as arrays, and the samples.

    `samples.structure` is that of the coefficients: of the design, or of the parameters of `apply`.
    """

    rows: Rows
    loss: Loss
    samples: Samples

    @property
    def trailing(self) -> tuple[int, ...]:
        """What the shape of a coefficient ends with."""
        return () if self.samples.single else self.samples.Y.shape[1:]


class Model(NamedTuple):
    """A linear model, or `apply` with its parameters."""

    form: Form
    params: Any = None

    @property
    def linear(self) -> bool:
        """Whether it is linear."""
        return self.form in (LINEAR, LINEAR_AT_ZERO)

    def check(self, loss: Loss, X: Any, y: Any, weights: Any = None, offset: Any = None) -> Checked:
        """Check samples; raises `ValueError` with the argument's name."""
        if self.linear:
            samples, _ = with_outputs(check_samples(X, y, weights), loss, True)
            X = samples.X
        else:
            X, samples = _check_any(self.params, X, y, weights, loss)
            _check_apply(self.form.apply, self.params, X, samples)
        checked = check_loss(loss, samples)
        n, t = len(samples.Y), 1 if samples.single else samples.Y.shape[1]
        dtype = samples.Y.dtype
        shift = jnp.broadcast_to(jnp.asarray(check_offset(offset, samples), dtype), (n, t))
        v = jnp.ones(n, dtype) if samples.weights is None else samples.weights
        return Checked(Rows(X, samples.Y, shift, v), checked, samples)

    def check_holdout(self, loss: Loss, holdout: Any, like: Checked, shifted: bool = False) -> Rows | None:
        """Check held-out samples against those of the fit; they have an offset if those have, which are `shifted`."""
        if holdout is None:
            return None
        if not isinstance(holdout, tuple) or len(holdout) not in (2, 3, 4):
            raise ValueError("holdout takes samples (X, y), (X, y, weights) or (X, y, weights, offset)")
        if shifted and (len(holdout) < 4 or holdout[3] is None):
            raise ValueError("holdout takes (X, y, weights, offset) where the samples of the fit have an offset")
        try:
            found = self.check(loss, *holdout)
        except ValueError as error:
            raise ValueError(f"holdout: {error}") from error
        check_alike("holdout", found, like)
        return jax.tree.map(lambda a, b: a.astype(b.dtype), found.rows, like.rows)


def check_model(apply: Apply | None, init: Any, intercept: bool) -> Model:
    """The model; raises `ValueError` where `apply` has no parameters to start from."""
    if apply is None:
        return Model(LINEAR if intercept else LINEAR_AT_ZERO)
    if not callable(apply):
        raise ValueError(f"apply takes a function of (params, X), got {apply!r}")
    leaves, treedef = jax.tree.flatten(init)
    if not leaves:
        raise ValueError("init takes the parameters to start from, a pytree of arrays, where there is an apply")
    arrays = [as_float_array("init", leaf) for leaf in leaves]
    dtype = jnp.result_type(*arrays)
    for array in arrays:
        check_finite("init", array)
    return Model(any_form(apply), jax.tree.unflatten(treedef, [array.astype(dtype) for array in arrays]))


def first_params(model: Model, init: Any, data: Checked) -> Any:
    """What a run starts from: coefficients (p, t) of a linear model, or parameters."""
    if not model.linear:
        return model.params
    shape, dtype = (data.samples.structure.num_columns, data.rows.offset.shape[1]), data.rows.y.dtype
    if init is None:
        return jnp.zeros(shape, dtype)
    coef = data.samples.structure.ravel(init, data.trailing, "init").astype(dtype).reshape(shape)
    check_finite("init", coef)
    return coef


def check_alike(name: str, found: Checked, like: Checked) -> None:
    """Raise unless the samples have the columns and targets of others."""
    one, other = found.samples.structure, like.samples.structure
    if one != other:
        what = (one.shapes, other.shapes) if one.treedef == other.treedef else (one.treedef, other.treedef)
        raise ValueError(f"{name} has other columns of X than the samples of the fit: {what[0]} and {what[1]}")
    if found.trailing != like.trailing:
        raise ValueError(f"{name} has other targets than the samples of the fit: {found.trailing} and {like.trailing}")


def _check_any(params: Any, X: Any, y: Any, weights: Any, loss: Loss) -> tuple[Any, Samples]:
    """X as arrays of any dtype; the target in that of the parameters."""
    leaves = jax.tree.leaves(params)
    dtype = leaves[0].dtype
    target = as_float_array("y", y).astype(dtype)
    if target.ndim not in (1, 2) or target.size == 0:
        raise ValueError(f"y has shape {target.shape}: it takes (n,) or (n, t), n and t at least 1")
    n = len(target)
    v = None if weights is None else check_weights(weights, n, dtype)
    paths, treedef = jax.tree_util.tree_flatten_with_path(X)
    arrays = []
    for path, leaf in paths:
        name = f"X{jax.tree_util.keystr(path)}"
        array = jnp.asarray(leaf if isinstance(leaf, jax.Array) else np.asarray(leaf))
        if array.ndim == 0 or len(array) != n:
            raise ValueError(f"{name} has shape {array.shape}: it takes {n} samples in front, as y")
        if jnp.issubdtype(array.dtype, jnp.floating):
            check_finite(name, array, v, samples=True)
            array = array.astype(dtype)
        arrays.append(array)
    if not arrays:
        raise ValueError("X holds no arrays: it takes a pytree of arrays with n samples in front")
    check_finite("y", target, v, samples=True)
    structure = Structure(jax.tree.structure(params), tuple(leaf.shape for leaf in leaves))
    Y = target.reshape(n, -1)
    samples, _ = with_outputs(Samples(Y, Y, v, structure, target.ndim == 1), loss, False)
    return jax.tree.unflatten(treedef, arrays), samples


def _check_apply(apply: Apply, params: Any, X: Any, samples: Samples) -> None:
    shape = jax.eval_shape(apply, params, X).shape
    takes = [samples.Y.shape] + ([samples.Y.shape[:1]] if samples.Y.shape[1] == 1 else [])
    if shape not in takes:
        raise ValueError(f"apply returns shape {shape}: it takes predictors of the shape of y, {takes[-1]}")
