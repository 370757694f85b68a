"""Paths into a pytree of arrays: `model.friction`, `values[3]`, `gains[0,1]`, `legs["left.knee"]`.

A path is made of `.name` (an attribute or a key that is a plain name), `[i]` (a position in a
sequence, or an element of the array at the end), `[i,j]`, `["key"]` for any other key, and at the
end slices of the array there, as in `gain_p[6:]` or `weights[:,2]`.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

_STEP = re.compile(
    r"""(?P<dot>\.?)(?P<name>[^.\[\]"']+)
      | \[\s*(?P<index>[-\d:]+(?:\s*,\s*[-\d:]+)*)\s*\]
      | \[(?P<quote>["'])(?P<key>[^"']*)(?P=quote)\]""",
    re.VERBOSE,
)


Index = tuple[int | slice, ...]
Step = str | Index


class Entry(NamedTuple):
    """Selected elements of one leaf: its path, its shape, flat indices (all static)."""

    leaf: str
    shape: tuple[int, ...]
    flat: tuple[int, ...]


def leaves_by_path(tree: Any) -> dict[str, Any]:
    """Leaves of a tree by canonical path, in the order of the flattened tree."""
    flat, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {_format(tuple(_step_of(key) for key in keys)): leaf for keys, leaf in flat}


def _step_of(key: Any) -> str | int:
    for attribute in ("name", "key", "idx"):  # GetAttrKey; DictKey, FlattenedIndexKey; SequenceKey
        if hasattr(key, attribute):
            value = getattr(key, attribute)
            return value if isinstance(value, (str, int)) else str(value)
    return str(key)


def _format(steps: Sequence[str | int]) -> str:
    text = ""
    for step in steps:
        if isinstance(step, int):
            text += f"[{step}]"
        elif re.fullmatch(r"""[^.\[\]"']+""", step):
            text += f".{step}" if text else step
        else:
            text += f"['{step}']"
    return text


def _parse(path: str) -> list[Step]:
    """Split a path into names and index tuples; ValueError where it cannot be read."""
    steps: list[Step] = []
    at = 0
    while at < len(path):
        match = _STEP.match(path, at)
        if match is None or (match["name"] and bool(match["dot"]) != bool(at)):
            raise ValueError(f"cannot read the path {path!r} from {path[at:]!r} on")
        if match["index"]:
            steps.append(tuple(_index(path, part) for part in match["index"].split(",")))
        else:
            steps.append(match["name"] or match["key"])
        at = match.end()
    return steps


def _index(path: str, text: str) -> int | slice:
    """Parse an index: a number, or a slice as in 2:5, :3, 6: and ::2."""
    try:
        parts = [int(part) if part.strip() else None for part in text.split(":")]
        if len(parts) > 3 or parts == [None] or (len(parts) == 3 and parts[2] == 0):
            raise ValueError
    except ValueError:
        raise ValueError(f"cannot read {text.strip()!r} in the path {path!r}") from None
    return slice(*parts) if len(parts) > 1 else int(text)


def _canonical(steps: Sequence[Step]) -> str | None:
    """Path in the form of `leaves_by_path`; None if a step is no position in a sequence."""
    plain: list[str | int] = []
    for step in steps:
        if isinstance(step, str):
            plain.append(step)
        elif len(step) == 1 and isinstance(step[0], int):
            plain.append(step[0])
        else:
            return None
    return _format(plain)


def resolve(path: str, leaves: dict[str, Any]) -> Entry:
    """Find the leaf of a path and the elements that are selected in it.

    Raises ValueError for a path that cannot be read, KeyError (with the nearest paths) for one
    that leads to no array, IndexError for an element out of range.
    """
    steps = _parse(path)
    whole = _canonical(steps)
    if whole in leaves:
        shape = np.shape(leaves[whole])
        return Entry(whole, shape, tuple(range(math.prod(shape))))
    if steps and isinstance(index := steps[-1], tuple):
        leaf = _canonical(steps[:-1])
        if leaf in leaves:
            return _element(path, leaf, np.shape(leaves[leaf]), index)
    raise KeyError(_unknown(path, leaves))


def _element(path: str, leaf: str, shape: tuple[int, ...], index: Index) -> Entry:
    if len(index) != len(shape):
        raise IndexError(f"{path}: {len(index)} indices, but {leaf} has shape {shape}")
    try:
        flat = np.arange(math.prod(shape)).reshape(shape)[index]
    except IndexError:
        raise IndexError(f"{path}: out of range, {leaf} has shape {shape}") from None
    if not np.size(flat):
        raise IndexError(f"{path}: nothing is selected, {leaf} has shape {shape}")
    return Entry(leaf, shape, tuple(int(i) for i in np.ravel(flat)))


def read(tree: Any, path: str) -> Any:
    """Read the numbers at a path, () or (k,) for k of them; a whole array in its shape."""
    leaves = leaves_by_path(tree)
    entry = resolve(path, leaves)
    value = jnp.asarray(leaf_of(leaves, entry))
    if len(entry.flat) == value.size and not path.endswith("]"):
        return value
    chosen = jnp.ravel(value)[np.asarray(entry.flat)]
    return chosen[0] if len(entry.flat) == 1 and ":" not in path else chosen


def write(tree: Any, path: str, value: Any) -> Any:
    """Replace the numbers at a path of a tree; value: one number, or as many as there are.

    Traceable and differentiable; the dtype of the array stays. Raises as ``resolve`` does, and
    ValueError for a value of another shape.
    """
    leaves = leaves_by_path(tree)
    entry = resolve(path, leaves)
    held = leaf_of(leaves, entry)
    if isinstance(held, float) and isinstance(value, (int, float)):  # stays a Python number
        leaves[entry.leaf] = float(value)
        return jax.tree.unflatten(jax.tree.structure(tree), list(leaves.values()))
    leaf = jnp.asarray(held)
    value = jnp.asarray(value, leaf.dtype)
    if value.shape not in ((), (len(entry.flat),), entry.shape):
        raise ValueError(f"{path} has {len(entry.flat)} numbers, the value shape {value.shape}")
    flat = jnp.ravel(leaf).at[np.asarray(entry.flat)].set(jnp.ravel(value))
    leaves[entry.leaf] = flat.reshape(leaf.shape)
    return jax.tree.unflatten(jax.tree.structure(tree), list(leaves.values()))


def element_name(entry: Entry, flat: int) -> str:
    """Path of one element of the entry's leaf."""
    index = ",".join(str(int(i)) for i in np.unravel_index(flat, entry.shape))
    return f"{entry.leaf}[{index}]" if entry.shape else entry.leaf


def _unknown(path: str, leaves: dict[str, Any]) -> str:
    below = [name for name in leaves if name.startswith((f"{path}.", f"{path}["))]
    if below:
        return f"{path!r} is not an array but holds some: {', '.join(below[:8])}"
    if not leaves:
        return f"no array at {path!r}: the tree holds none"
    near = difflib.get_close_matches(path, list(leaves), n=5, cutoff=0.3) or list(leaves)[:5]
    return f"no array at {path!r}; nearest are: {', '.join(near)}"


def leaf_of(leaves: dict[str, Any], entry: Entry) -> Any:
    """Leaf of an entry. Raises KeyError where it is missing, ValueError for another shape."""
    if entry.leaf not in leaves:
        raise KeyError(_unknown(entry.leaf, leaves))
    shape = jnp.shape(leaves[entry.leaf])
    if shape != entry.shape:
        raise ValueError(f"{entry.leaf} has shape {shape}, but had {entry.shape} when selected")
    return leaves[entry.leaf]
