"""Labels to targets of ±1 and scores back to labels, for least squares as a classifier; labels to shares of classes."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from regjax.core.checks import as_float_array, check_finite, is_concrete, require


def encode_labels(labels: Any, classes: Any = None) -> tuple[Array, np.ndarray]:
    r"""Labels as targets of ±1: one column for two classes, one column per class (one versus the rest) for more.

    Args:
        labels: (n,), numbers or strings.
        classes: the distinct labels in order, for use under `jit`, or to keep an order; found and sorted if None.

    Returns:
        The targets, (n,) for two classes (+1 for the second) or (n, k), and the classes.

    Example:
        >>> import jax.numpy as jnp, regjax
        >>> y, classes = regjax.encode_labels(["b", "a", "b", "c"])
        >>> print(y[0], classes)
        [-1.  1. -1.] ['a' 'b' 'c']
    """
    if classes is None:
        classes = np.unique(np.asarray(labels))
    classes = np.asarray(classes)
    if classes.ndim != 1 or len(classes) < 2:
        raise ValueError(f"labels take at least two classes, got {classes.tolist()}")
    if len(np.unique(classes)) < len(classes):
        raise ValueError(f"classes must be distinct, got {classes.tolist()}")
    if is_concrete(labels):
        labels = np.asarray(labels)
        unknown = np.setdiff1d(labels, classes)
        if len(unknown):
            raise ValueError(f"labels has {unknown.tolist()}, which is not among the classes {classes.tolist()}")
    if np.ndim(labels) != 1:
        raise ValueError(f"labels has shape {np.shape(labels)}: it takes (n,)")
    compare = labels if isinstance(labels, np.ndarray) else jnp.asarray(labels)
    member = jnp.asarray(compare[:, None] == classes)
    targets = jnp.where(member, 1.0, -1.0)
    return (targets[:, 1] if len(classes) == 2 else targets), classes


def decode_scores(scores: Any, classes: Any) -> Any:
    r"""The labels that scores speak for: the sign for two classes, the largest column for more.

    Args:
        scores: (n,) for two classes or (n, k), such as `solution.params(X)`.
        classes: as `encode_labels` returned them.

    Returns:
        Labels (n,): a NumPy array for classes that are strings, else a JAX array.

    Example:
        >>> import jax.numpy as jnp, regjax
        >>> print(regjax.decode_scores(jnp.array([-0.3, 2.0]), ["no", "yes"]))
        ['no' 'yes']
    """
    scores = as_float_array("scores", scores)
    check_finite("scores", scores)
    classes = np.asarray(classes)
    if scores.ndim == 1 and len(classes) == 2:
        index = (scores > 0).astype(int)
    elif scores.ndim == 2 and scores.shape[1] == len(classes):
        index = jnp.argmax(scores, axis=1)
    else:
        raise ValueError(
            f"scores has shape {scores.shape}: for {len(classes)} classes it takes "
            + ("(n,) or (n, 2)" if len(classes) == 2 else f"(n, {len(classes)})")
        )
    return classes[np.asarray(index)] if classes.dtype.kind in "USO" else jnp.asarray(classes)[index]


def as_shares(y: Any, num_classes: int | None = None) -> Any:
    """Classes 0, …, K − 1 as whole numbers (n,) to the shares (n, K) that `Multinomial` takes; shares as they are."""
    labels = as_float_array("y", y)
    if labels.ndim != 1:
        return y
    if num_classes is None:
        if not is_concrete(labels):
            raise ValueError("num_classes must be given where y is traced")
        check_finite("y", labels)
        num_classes = max(int(jnp.max(labels, initial=0)) + 1, 2)
    require(
        lambda k: jnp.all((k >= 0) & (k < num_classes) & (k == jnp.floor(k))),
        labels,
        message=f"y takes classes 0, …, {num_classes - 1} as whole numbers",
    )
    return (labels[:, None] == jnp.arange(num_classes)).astype(jnp.float32)  # exact, whatever the precision of X
