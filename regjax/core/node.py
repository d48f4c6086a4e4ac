"""Dataclasses as pytrees that are equal only to their own kind."""

from dataclasses import fields
from typing import Any, TypeVar

import jax

T = TypeVar("T")
NODES: dict[str, type] = {}  # every registered class by its `node_name`, so that files can name it


def node_name(cls: type) -> str:
    """The name of a class in files: `kernels.RBF`, which stays when the class moves within its room."""
    package, _, rest = cls.__module__.partition(".")
    room = rest.split(".")[0] if package == "regjax" else cls.__module__
    return f"{room}.{cls.__qualname__}"


def register_node(cls: type[T]) -> type[T]:
    """Register a dataclass as a pytree: its fields are leaves, those with `metadata={"static": True}` are not.

    Use it in place of `jax.tree_util.register_dataclass`, whose tree structures compare equal whenever the names of
    the fields do, whatever the class: two kernels with a `scale` each then share an entry of a `jit` cache by chance
    of their hashes, and one is computed as the other.

    Example:
        >>> import jax
        >>> from dataclasses import dataclass
        >>> @register_node
        ... @dataclass(frozen=True, eq=False)
        ... class Metre:
        ...     length: float
        >>> @register_node
        ... @dataclass(frozen=True, eq=False)
        ... class Foot:
        ...     length: float
        >>> jax.tree.structure(Metre(1.0)) == jax.tree.structure(Foot(1.0))
        False
    """
    dynamic = tuple(f.name for f in fields(cls) if not f.metadata.get("static"))  # pyright: ignore[reportArgumentType]
    static = tuple(f.name for f in fields(cls) if f.metadata.get("static"))  # pyright: ignore[reportArgumentType]
    keys = tuple(jax.tree_util.GetAttrKey(name) for name in dynamic)

    def flatten(node: Any):
        return tuple(getattr(node, name) for name in dynamic), tuple(getattr(node, name) for name in static)

    def flatten_with_keys(node: Any):
        children, rest = flatten(node)
        return tuple(zip(keys, children, strict=True)), rest

    def unflatten(rest: Any, children: Any) -> Any:
        return cls(**dict(zip(dynamic, children, strict=True)), **dict(zip(static, rest, strict=True)))

    jax.tree_util.register_pytree_with_keys(cls, flatten_with_keys, unflatten, flatten)
    NODES[node_name(cls)] = cls
    return cls
