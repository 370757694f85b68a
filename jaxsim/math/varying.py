"""Carries of loops under ``jax.shard_map``, which vary over the same mesh axes throughout."""

from typing import Any

import jax
import jax.numpy as jnp


def alike(tree: Any, *sources: Any) -> Any:
    """Mark the arrays of a tree as varying over each mesh axis that one of them varies over.

    sources: other trees whose axes count. A loop under ``jax.shard_map`` takes no carry that begins
    as a constant and becomes one number a device. Elsewhere the tree is returned as it is.
    """
    axes = frozenset().union(*map(_axes, jax.tree.leaves((tree, sources))))
    if not axes:
        return tree

    def varying(x):
        missing = tuple(sorted(axes - _axes(x), key=str))
        return jax.lax.pcast(jnp.asarray(x), missing, to="varying") if missing else x

    return jax.tree.map(varying, tree)


def _axes(x: Any) -> frozenset:
    kind = jax.typeof(x)
    return kind.mat.varying if hasattr(kind, "mat") else kind.vma  # JAX 0.10.0: vma
