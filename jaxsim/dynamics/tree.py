"""Tree recursions in both directions: a level of the tree at a time, all its nodes at once.

``levels`` holds node indices by depth and ``parent`` each node's parent (-1 for the world), both
static. Nodes are pytrees of arrays with a leading node axis.
"""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

Tree = object


def _take(nodes, index):
    return jax.tree.map(lambda x: x[np.asarray(index)], nodes)


def _in_node_order(levels: Sequence[Sequence[int]], outputs: list):
    inverse = np.argsort(np.concatenate([np.array(level) for level in levels]))
    return jax.tree.map(lambda *xs: jnp.concatenate(xs)[inverse], *outputs)


def leaves_to_root(levels, parent, visit: Callable, nodes, zero):
    """Recursion from the leaves: ``visit(node, sum over children) -> (to parent, output)``.

    Returns the outputs by node. ``zero`` is the sum of a node without children.
    """
    outputs = []
    passed = None  # values that the level below sends up, from the nodes ``below``
    below: Sequence[int] = ()
    for level in reversed(levels):
        slot = {node: k for k, node in enumerate(level)}
        width = len(level)
        received = jax.tree.map(lambda z, n=width: jnp.zeros((n, *z.shape), z.dtype), zero)
        if below:
            gather = np.zeros((len(level), len(below)))
            for k, child in enumerate(below):
                gather[slot[parent[child]], k] = 1.0
            received = jax.tree.map(
                lambda x, g=gather: jnp.tensordot(
                    jnp.asarray(g, x.dtype), x, axes=1, precision=jax.lax.Precision.HIGHEST
                ),
                passed,
            )
        passed, output = jax.vmap(visit)(_take(nodes, level), received)
        outputs.append(output)
        below = level
    return _in_node_order(list(reversed(levels)), outputs)


def root_to_leaves(levels, parent, visit: Callable, nodes, root):
    """Recursion from the root: ``visit(node, from parent) -> (to children, output)``.

    Returns the outputs by node. ``root`` is the value for the nodes on the world.
    """
    outputs = []
    passed, above = None, ()
    for level in levels:
        if above:
            slot = [above.index(parent[node]) for node in level]
            received = _take(passed, slot)
        else:
            width = len(level)
            received = jax.tree.map(lambda r, n=width: jnp.broadcast_to(r, (n, *r.shape)), root)
        passed, output = jax.vmap(visit)(_take(nodes, level), received)
        outputs.append(output)
        above = level
    return _in_node_order(levels, outputs)
