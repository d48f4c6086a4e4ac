"""Gram matrices: whole, as products that never hold them, and whether they are positive semidefinite."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from regjax.core.checks import as_float_array, require
from regjax.core.lanes import lane_by_lane
from regjax.core.tree import ravel_design
from regjax.kernels.kernel import Kernel
from regjax.kernels.maps import as_kernel

BLOCK = 2**22  # entries of a Gram matrix that `gram_matvec` holds at a time: 32 MB in float64


def gram(kernel: Any, X: Any, Z: Any = None) -> Array:
    """The matrix k(xᵢ, zⱼ).

    Args:
        kernel: of `regjax.kernels`, or a function of two points.
        X: n points: (n, p), (n,) or a pytree of arrays with n in front.
        Z: m points; X itself if None, which is the one case in which `White` noise is on the diagonal.

    Returns:
        (n, m).

    Example:
        >>> import jax.numpy as jnp
        >>> from regjax.kernels import RBF, gram
        >>> x = jnp.array([0.0, 1.0])
        >>> print(gram(2.0 * RBF(1.0), x).round(3))
        [[2.    1.213]
         [1.213 2.   ]]
    """
    X, Z = check_points(X, Z)
    return _gram(check_kernel(kernel, precision_of(X)), X, Z)


_gram = jax.jit(lambda kernel, X, Z: kernel.matrix(X, Z))


def gram_matvec(kernel: Any, X: Any, Z: Any, V: Any) -> Array:
    """Σⱼ k(xᵢ, zⱼ) vⱼ, a block of rows at a time: the n×m matrix is never held, in derivatives neither.

    Args:
        kernel, X, Z: as in `gram`.
        V: (m,) or (m, t).

    Returns:
        (n,) or (n, t).

    Example:
        >>> import jax.numpy as jnp
        >>> from regjax.kernels import Linear, gram_matvec
        >>> print(gram_matvec(Linear(), jnp.array([1.0, 2.0]), jnp.array([3.0, 4.0]), jnp.array([1.0, 1.0])))
        [ 7. 14.]
    """
    X, Z = check_points(X, Z)
    kernel = check_kernel(kernel, precision_of(X))
    V = as_float_array("V", V)
    m = len(jax.tree.leaves(X if Z is None else Z)[0])
    if V.ndim not in (1, 2) or len(V) != m:
        raise ValueError(f"V has shape {V.shape}: it takes ({m},) or ({m}, t), one row per point of Z")
    return blocked_product(kernel, X, Z, V)


@jax.jit
def blocked_product(kernel: Kernel, X: Any, Z: Any, V: Array) -> Array:
    """`gram_matvec` of arguments that are known to be right."""
    n, m = len(jax.tree.leaves(X)[0]), len(V)
    rows = max(1, min(n, BLOCK // m))
    others = X if Z is None else Z

    @jax.checkpoint  # the derivative computes a block again rather than keep them all
    def product(block):
        return kernel.matrix(block, others) @ V

    result = over_blocks(product, X, rows)
    if Z is None:  # what only the diagonal of a self-Gram has
        own = kernel.diagonal(X) - jax.vmap(lambda x: kernel(x, x))(X)
        result = result + (own * V.T).T
    return result


def over_blocks(function: Any, X: Any, rows: int) -> Array:
    """`function` of all samples of X, `rows` at a time; the last block is filled with the last sample."""
    n = len(jax.tree.leaves(X)[0])
    count = -(-n // rows)
    if count == 1:
        return function(X)
    index = jnp.minimum(jnp.arange(count * rows), n - 1).reshape(count, rows)
    result = lax.map(lambda i: function(jax.tree.map(lambda a: a[i], X)), index)
    return jax.tree.map(lambda r: r.reshape(count * rows, *r.shape[2:])[:n], result)


def is_positive_definite(kernel: Any, X: Any) -> Array:
    """Mercer's condition on a sample: whether the Gram matrix is symmetric with no eigenvalue below zero, to rounding.

    A kernel that fails on one sample is not positive semidefinite; one that passes may fail on another.

    Args:
        kernel: as in `gram`.
        X: n points.

    Returns:
        A boolean scalar.

    Example:
        >>> import jax.numpy as jnp
        >>> from regjax.kernels import RBF, is_positive_definite
        >>> x = jnp.linspace(0, 3, 10)
        >>> print(is_positive_definite(RBF(1.0), x), is_positive_definite(lambda x, z: jnp.maximum(0, x - z), x))
        True False
    """
    return positive_semidefinite(gram(kernel, X))


@jax.jit
def positive_semidefinite(K: Array) -> Array:
    """Whether K is symmetric and its smallest eigenvalue at least −10 n eps times the largest in size."""
    symmetric = jnp.max(jnp.abs(K - K.T)) <= 10 * jnp.finfo(K.dtype).eps * jnp.max(jnp.abs(K))
    values = jnp.linalg.eigvalsh((K + K.T) / 2)
    largest = jnp.max(jnp.abs(values))
    return symmetric & (values[0] >= -10 * len(K) * jnp.finfo(K.dtype).eps * largest)


def indefinite(diagonal: Array, K: Array | None) -> Array:
    """Whether a Gram matrix shows that its kernel is not positive semidefinite.

    K is None where the kernel is known to be, up to its amplitude: then its diagonal tells.
    """
    negative = jnp.any(diagonal < 0)
    if K is None:
        return negative
    return negative | ~_definite_lanes(lax.stop_gradient(K)) & jnp.all(jnp.isfinite(K))


_definite_lanes = lane_by_lane(positive_semidefinite)


def precision_of(X: Any) -> Any:
    """The dtype of checked points."""
    return jax.tree.leaves(X)[0].dtype


def check_kernel(kernel: Any, dtype: Any) -> Kernel:
    """The kernel, its hyperparameters arrays of this dtype; raises where one is outside of its domain."""
    kernel = as_kernel(kernel)
    leaves, treedef = jax.tree_util.tree_flatten_with_path(kernel)
    domains = jax.tree.leaves(kernel.domain())
    checked = []
    for (path, leaf), domain in zip(leaves, domains, strict=True):
        name = f"kernel{jax.tree_util.keystr(path)}"
        array = as_float_array(name, leaf).astype(dtype)
        require(lambda a: jnp.all(jnp.isfinite(a)), array, message=f"{name} must be finite, got {array}")
        if domain == "positive":
            require(lambda a: jnp.all(a > 0), array, message=f"{name} must be positive, got {array}")
        if domain == "non-negative":
            require(lambda a: jnp.all(a >= 0), array, message=f"{name} must be non-negative, got {array}")
        checked.append(array)
    return jax.tree.unflatten(treedef, checked)


def check_points(X: Any, Z: Any = None, name: str = "Z") -> tuple[Any, Any]:
    """Points as pytrees of float arrays with the samples in front, X and Z of one kind and one dtype.

    `name` is what the caller's argument Z is called.
    """
    X, columns = _as_points("X", X)
    if Z is None:
        return X, None
    Z, others = _as_points(name, Z)
    if jax.tree.structure(X) != jax.tree.structure(Z):
        raise ValueError(
            f"{name} has the tree structure {jax.tree.structure(Z)}, but the points X have {jax.tree.structure(X)}"
        )
    if columns != others:
        raise ValueError(f"{name} has points of shape {others}, but X has points of shape {columns}")
    return X, jax.tree.map(lambda z, x: z.astype(x.dtype), Z, X)


def _as_points(name: str, X: Any) -> tuple[Any, Any]:
    if isinstance(X, (list, tuple)) and all(isinstance(leaf, (int, float)) for leaf in jax.tree.leaves(X)):
        X = as_float_array(name, X)
    try:
        matrix, structure = ravel_design(X)
    except ValueError as error:
        raise ValueError(str(error).replace("X", name, 1)) from error
    n = len(matrix)
    if n == 0 or matrix.shape[1] == 0:
        raise ValueError(f"{name} has {n} points and {matrix.shape[1]} columns: it takes at least one of each")
    shapes = structure.shapes[0] if len(structure.shapes) == 1 else structure.shapes  # pyright: ignore
    return jax.tree.map(lambda a: as_float_array(name, a).astype(matrix.dtype), X), shapes
