"""Carries of loops under ``jax.shard_map``, which vary over the same mesh axes throughout."""

from typing import Any

import jax
import jax.numpy as jnp


def alike(tree: Any, *sources: Any) -> Any:
    """Mark the arrays of a tree as varying over each mesh axis that one of them varies over.

    sources: other trees whose axes count. A loop under ``jax.shard_map`` accepts no carry that is
    constant at first and then one number a device. Elsewhere the tree is returned unchanged.
    """
    leaves = [x for x in jax.tree.leaves((tree, sources)) if jnp.size(x)]
    axes = frozenset().union(*map(mesh_axes, leaves))
    if not axes:
        return tree
    # zeros that depend on data: what JAX has traced once it may call again with arrays that vary
    varying = [jnp.ravel(x)[0] for x in leaves if mesh_axes(x)]
    zeros = [jnp.where(False, x, 0) != 0 for x in varying]
    zero = jnp.any(jnp.stack(zeros))

    def mixed(x):
        x = jnp.asarray(x)
        return (
            x if mesh_axes(x) == axes else x | zero if x.dtype == bool else x + zero.astype(x.dtype)
        )

    return jax.tree.map(mixed, tree)


def mesh_axes(x: Any) -> frozenset:
    """Mesh axes under ``jax.shard_map`` that an array varies over; elsewhere none."""
    kind = jax.typeof(x)
    return kind.mat.varying if hasattr(kind, "mat") else kind.vma  # JAX 0.10.0: vma
