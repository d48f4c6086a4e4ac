"""Models in files: arrays as npz, the tree around them as JSON. No pickle: a file holds data, never code."""

import json
import math
import warnings
import zipfile
from dataclasses import fields, is_dataclass
from os import PathLike
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from regjax.core.factors import Factor
from regjax.core.node import NODES, node_name
from regjax.data import Dataset, Simulated
from regjax.models import gp_problem, nadaraya_watson
from regjax.models.gp_fit import Starts
from regjax.solvers.stochastic import History

FORMAT = 1
_TREE = "tree.json"  # the array that holds the description, in UTF-8
_TUPLES = {  # the named tuples that results hold
    "core.Factor": Factor,
    "data.Dataset": Dataset,
    "data.Simulated": Simulated,
    "gp.LeaveOneOut": gp_problem.LeaveOneOut,
    "gp.Starts": Starts,
    "nadaraya_watson.LeaveOneOut": nadaraya_watson.LeaveOneOut,
    "stochastic.History": History,
}


def save(path: str | PathLike[str], model: Any) -> None:
    """Write a model, a `Solution` or any tree of them to a file that `load` reads back equal.

    What a file takes: all classes of regjax and those that you registered with `register_node`; dictionaries, lists and
    tuples of them; arrays, random keys, numbers, strings and None. Arrays keep their dtype. Functions are code and are
    refused: save the numbers, and build the kernel or mean that uses a function anew.

    Args:
        path: of the file, by custom ending in `.npz`. `numpy.load` reads its arrays, under names like `.params.coef`.
        model: what to write; from one device or many.

    Example:
        >>> import os, tempfile, regjax
        >>> data = regjax.data.diabetes()
        >>> path = os.path.join(tempfile.mkdtemp(), "ridge.npz")
        >>> regjax.save(path, regjax.ridge(data.X, data.y, 1.0))
        >>> print(regjax.load(path).params.coef.shape)
        (10,)
    """
    arrays: dict[str, np.ndarray] = {}
    tree = {"format": FORMAT, "tree": _describe(model, "", arrays)}
    arrays[_TREE] = np.frombuffer(json.dumps(tree).encode(), np.uint8)
    with open(path, "wb") as file:
        np.savez(file, **arrays)  # pyright: ignore[reportArgumentType]


def load(path: str | PathLike[str]) -> Any:
    """Read what `save` wrote. Arrays come back as they were: dtype, numpy or JAX.

    float64 comes back as float32, with a warning, where `jax_enable_x64` is off. A class of your own must have been
    registered, that is, its module imported; nothing in a file is ever run.
    """
    try:
        with open(path, "rb") as file, zipfile.ZipFile(file), np.load(file, allow_pickle=False) as npz:
            arrays = {name: npz[name] for name in npz.files}
    except (zipfile.BadZipFile, ValueError) as error:
        raise ValueError(f"{path} is not a file that regjax.save wrote: {error}") from error
    if _TREE not in arrays:
        raise ValueError(f"{path} is not a file that regjax.save wrote: it has no {_TREE}")
    tree = json.loads(arrays[_TREE].tobytes().decode())
    if tree["format"] > FORMAT:
        raise ValueError(f"{path} has format {tree['format']}: this version of regjax reads up to {FORMAT}, update it")
    wide = [name for name, array in arrays.items() if array.dtype.itemsize == 8 and array.dtype.kind == "f"]
    if wide and not jax.config.jax_enable_x64:  # pyright: ignore[reportAttributeAccessIssue]
        warnings.warn(
            f"{path} holds float64 ({wide[0]}), loaded as float32: jax.config.update('jax_enable_x64', True) keeps it",
            stacklevel=2,
        )
    return _build(tree["tree"], arrays)


def _describe(value: Any, where: str, arrays: dict[str, np.ndarray]) -> Any:
    """`value` as JSON, its arrays put into `arrays` by where they are."""
    cls = type(value)
    if isinstance(value, Tracer):
        raise ValueError(f"{where or 'the model'} is traced by jit, vmap or grad: call save outside of them")
    if value is None or cls in (bool, int, str):
        return value
    if cls is float:
        return value if math.isfinite(value) else {"float": str(value)}
    if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
        data = _describe(jax.random.key_data(value), where, arrays)
        return {"key": str(jax.random.key_impl(value)), "data": data}
    if isinstance(value, (jax.Array, np.ndarray, np.generic)):
        array = np.asarray(value)
        if array.dtype.kind not in "biufc":
            raise ValueError(f"{where or 'the model'} has dtype {array.dtype}: a file takes numbers")
        name = where or "value"
        arrays[name] = array
        if isinstance(value, jax.Array):
            return {"array": name}
        return {"array": name, "numpy": True} | ({"scalar": True} if isinstance(value, np.generic) else {})
    if cls in (list, tuple):
        return {cls.__name__: [_describe(item, f"{where}[{i}]", arrays) for i, item in enumerate(value)]}
    if cls is dict:
        pairs = [
            [_describe(key, f"{where}.key[{i}]", arrays), _describe(item, f"{where}[{key!r}]", arrays)]
            for i, (key, item) in enumerate(value.items())
        ]
        return {"dict": pairs}
    if NODES.get(node_name(cls)) is cls:
        name, names = node_name(cls), [field.name for field in fields(value)]
    elif cls in _TUPLES.values():
        name, names = next(name for name, known in _TUPLES.items() if known is cls), value._fields
    else:
        raise ValueError(_refusal(value, where or "the model"))
    return {"class": name, "fields": {f: _describe(getattr(value, f), f"{where}.{f}", arrays) for f in names}}


def _refusal(value: Any, where: str) -> str:
    if callable(value) and not is_dataclass(value):
        return f"{where} is a function ({value!r}): a file holds data, never code. Save the parts without it"
    return (
        f"{where} is of class {type(value).__module__}.{type(value).__qualname__}, which a file does not take: it "
        "takes classes of regjax or registered with register_node, dict, list, tuple, arrays, numbers, strings and None"
    )


def _build(tree: Any, arrays: dict[str, np.ndarray]) -> Any:
    """The inverse of `_describe`."""
    if not isinstance(tree, dict):
        return tree
    if "float" in tree:
        return float(tree["float"])
    if "key" in tree:
        return jax.random.wrap_key_data(_build(tree["data"], arrays), impl=tree["key"])
    if "array" in tree:
        array = arrays[tree["array"]]
        if "scalar" in tree:
            return array[()]
        return array if "numpy" in tree else jnp.asarray(array)
    if "list" in tree:
        return [_build(item, arrays) for item in tree["list"]]
    if "tuple" in tree:
        return tuple(_build(item, arrays) for item in tree["tuple"])
    if "dict" in tree:
        return {_build(key, arrays): _build(item, arrays) for key, item in tree["dict"]}
    name = tree["class"]
    cls = NODES.get(name, _TUPLES.get(name))
    if cls is None:
        raise ValueError(
            f"the file has a model of class {name}, which is not known here: import the module that has it"
        )
    try:
        return cls(**{field: _build(value, arrays) for field, value in tree["fields"].items()})
    except TypeError as error:
        raise ValueError(f"the file has {name} with other fields than it has here: {error}") from error
