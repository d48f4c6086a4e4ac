"""Which samples train and which test: a fold is a pair of 0/1 weight vectors."""

from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from regjax.core.checks import is_concrete
from regjax.core.node import register_node


@register_node
@dataclass(frozen=True, eq=False)
class Splits:
    """K splits of n samples.

    Attributes:
        train, test: (K, n), True where a sample is used to fit and to score.
        repeats: into how many rounds the K splits divide, each of which tests every sample once.
    """

    train: Array
    test: Array
    repeats: int = field(default=1, metadata={"static": True})


def from_ids(ids: Any) -> Splits:
    """Splits from fold ids: (n,), or (R, n) for R rounds. Ids count from 0; -1 marks a sample that is never tested.

    Example:
        >>> import jax.numpy as jnp
        >>> from regjax.selection.splits import from_ids
        >>> print(from_ids(jnp.array([0, 1, 1, 0])).test.astype(int))
        [[1 0 0 1]
         [0 1 1 0]]
    """
    if not is_concrete(ids):
        raise ValueError("folds that are ids must be known outside of jit, as their number is a shape: use Splits")
    array = np.asarray(ids)
    if array.ndim not in (1, 2) or array.dtype.kind not in "iu" or array.size == 0:
        raise ValueError(f"folds must be integers (n,) or (R, n), got dtype {array.dtype} of shape {array.shape}")
    num = int(array.max()) + 1
    rounds = np.atleast_2d(array)
    if array.min() < -1 or num < 1 or (num == 1 and np.all(array == 0)):
        raise ValueError(
            f"folds takes ids that count from 0 with at least two folds (or -1 for samples that are never tested), "
            f"got values from {array.min()} to {array.max()}"
        )
    for k in range(num):
        if not np.all(np.any(rounds == k, axis=1)):
            raise ValueError(f"folds has no sample with the id {k}: ids count from 0 to {num - 1} without gaps")
    test = (rounds[:, None, :] == np.arange(num)[:, None]).reshape(-1, rounds.shape[1])
    return Splits(jnp.asarray(~test), jnp.asarray(test), len(rounds))


def k_folds(num_samples: int, num: int = 10, *, key: Any = None, repeats: int = 1) -> Splits:
    """Random folds of equal size, `repeats` times over; the same ones at every call unless a `key` is given.

    Example:
        >>> from regjax.selection.splits import k_folds
        >>> folds = k_folds(6, 3)
        >>> print(folds.test.sum(0), folds.test.sum(1))
        [1 1 1 1 1 1] [2 2 2]
    """
    _check_number(num, num_samples)
    if repeats < 1:
        raise ValueError(f"repeats must be at least 1, got {repeats}")
    keys = jax.random.split(_key(key), repeats)
    ids = jax.vmap(lambda k: jax.random.permutation(k, jnp.arange(num_samples) % num))(keys)
    test = (ids[:, None, :] == jnp.arange(num)[:, None]).reshape(-1, num_samples)
    return Splits(~test, test, repeats)


def stratified_folds(labels: Any, num: int = 10, *, key: Any = None) -> Splits:
    """Random folds in which every label has its share, up to one sample."""
    labels = np.asarray(labels)
    if labels.ndim != 1:
        raise ValueError(f"labels has shape {labels.shape}: it takes one for each sample, (n,)")
    _check_number(num, len(labels))
    order = np.asarray(jax.random.permutation(_key(key), len(labels)))
    order = order[np.argsort(labels[order], kind="stable")]
    ids = np.empty(len(labels), int)
    ids[order] = np.arange(len(labels)) % num
    return from_ids(ids)


def grouped_folds(groups: Any, num: int = 10) -> Splits:
    """Folds that keep the samples of a group together, as equal in size as that allows: the largest groups first."""
    names, member, sizes = np.unique(np.asarray(groups), return_inverse=True, return_counts=True)
    if not is_number(num) or not 2 <= num <= len(names):
        raise ValueError(f"num must be a whole number from 2 to the number of groups, {len(names)}, got {num}")
    filled, fold = np.zeros(num, int), np.zeros(len(names), int)
    for group in np.argsort(-sizes, kind="stable"):
        fold[group] = np.argmin(filled)
        filled[fold[group]] += sizes[group]
    return from_ids(fold[member])


def blocked_folds(num_samples: int, num: int = 10) -> Splits:
    """Folds of consecutive samples, for series in which neighbours resemble each other."""
    _check_number(num, num_samples)
    return from_ids(np.arange(num_samples) * num // num_samples)


def time_folds(num_samples: int, num: int = 5, *, gap: int = 0) -> Splits:
    """Splits that train on the past and test on the block that follows, for samples in the order of time.

    Args:
        num_samples: n.
        num: how many blocks are tested; the first of num + 1 blocks only trains.
        gap: how many samples before the tested block are left out.
    """
    _check_number(num + 1, num_samples)
    block = np.arange(num_samples) * (num + 1) // num_samples
    test = block == np.arange(1, num + 1)[:, None]
    start = np.argmax(test, axis=1)
    train = np.arange(num_samples) < start[:, None] - gap
    if gap < 0 or not np.all(np.any(train, axis=1)):
        raise ValueError(f"gap must be from 0 to {start[0] - 1}, the samples before the first tested block, got {gap}")
    return Splits(jnp.asarray(train), jnp.asarray(test))


def random_splits(num_samples: int, num: int = 10, *, fraction: float = 0.25, key: Any = None) -> Splits:
    """Independent random splits, each of which tests this fraction of the samples."""
    size = round(fraction * num_samples)
    if not 0 < size < num_samples:
        raise ValueError(f"fraction must leave samples to train and to test, got {fraction} of {num_samples}")
    if num < 1:
        raise ValueError(f"num must be at least 1, got {num}")
    keys = jax.random.split(_key(key), num)
    test = jax.vmap(lambda k: jax.random.permutation(k, jnp.arange(num_samples) < size))(keys)
    return Splits(~test, test)


def as_splits(folds: Any, num_samples: int, key: Any, repeats: int) -> Splits:
    """What `folds=` takes: a number, ids or `Splits`."""
    if is_number(folds):
        return k_folds(num_samples, int(folds), key=key, repeats=repeats)
    if key is not None or repeats != 1:
        raise ValueError("key and repeats go with a number of folds; folds has ids or splits of its own")
    splits = folds if isinstance(folds, Splits) else from_ids(folds)
    for name, array in (("train", splits.train), ("test", splits.test)):
        if jnp.ndim(array) != 2 or jnp.shape(array) != jnp.shape(splits.test) or array.shape[1] != num_samples:
            raise ValueError(f"folds has {name} of shape {jnp.shape(array)}: it takes (K, n) with n = {num_samples}")
        if array.dtype != bool:
            raise ValueError(f"folds has {name} of dtype {array.dtype}: it takes booleans; weights are an argument")
    if splits.repeats < 1 or len(splits.test) % splits.repeats:
        raise ValueError(f"folds has repeats={splits.repeats}, which does not divide its {len(splits.test)} splits")
    return splits


def is_number(folds: Any) -> bool:
    """Whether it says how many folds to draw."""
    return isinstance(folds, int | np.integer) and not isinstance(folds, bool)


def _key(key: Any) -> Any:
    return jax.random.key(0) if key is None else key


def _check_number(num: Any, num_samples: int) -> None:
    if not is_number(num) or not 2 <= num <= num_samples:
        raise ValueError(
            f"the number of folds must be a whole number from 2 to the number of samples, {num_samples}, got {num}"
        )
