"""Which numbers a gradient tells something about: it, beside what changes when they change.

    report = gradient_report(loss, {"values": walk.values, "mass": human.mass})
    print(report)          # a line for each leaf
    report.unseen          # numbers that matter and whose gradient is zero

A derivative of zero can mean that a number does not matter, or that it matters by steps: durations
count whole time steps, phases follow from comparisons. Differences with large steps tell the two
apart.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

STEPS = (1e-3, 1e-2, 1e-1)  # of a difference, as parts of the number, or of 1 where it is zero
WHOLE_STEPS = (1, 2, 3)  # of whole numbers
NOISE = 16  # a change of so many units of rounding is none

FINITE = "finite"
ZERO = "zero, and without effect"
UNSEEN = "zero, but the value matters"
NOT_FINITE = "not finite"
NO_DERIVATIVE = "whole numbers have no derivative"


@dataclass(frozen=True)
class LeafGradient:
    """What is known of the k numbers of a leaf that were looked at."""

    path: str
    shape: tuple[int, ...]
    dtype: str
    index: np.ndarray  # (k,) of the numbers, in the order of the flattened leaf
    gradient: np.ndarray  # (k,) NaN where there is none
    slope: np.ndarray  # (k,) of the difference with the smallest step that changes anything
    verdict: np.ndarray  # (k,) str: FINITE, ZERO, UNSEEN, NOT_FINITE or NO_DERIVATIVE
    matters: np.ndarray  # (k,) bool: some difference changes the result

    def names(self, verdict: str, labels: Sequence[str] | None = None) -> list[str]:
        """The numbers with a verdict: their path, and their label where there are labels."""
        names = []
        for i in self.index[self.verdict == verdict]:
            at = ", ".join(map(str, np.unravel_index(i, self.shape))) if self.shape else ""
            label = f" ({labels[i]})" if labels else ""
            names.append(f"{self.path}[{at}]{label}" if at else f"{self.path}{label}")
        return names


@dataclass(frozen=True)
class GradientReport:
    """Leaf by leaf; printed as a table."""

    value: float
    leaves: tuple[LeafGradient, ...]
    labels: Mapping[str, Sequence[str]]

    def _of(self, *verdicts: str) -> list[str]:
        return [
            name
            for leaf in self.leaves
            for verdict in verdicts
            for name in leaf.names(verdict, self.labels.get(leaf.path))
            if verdict != NO_DERIVATIVE or leaf.matters.any()
        ]

    @property
    def unseen(self) -> list[str]:
        """Numbers that change the result and that the gradient says nothing about."""
        return self._of(UNSEEN, NO_DERIVATIVE)

    @property
    def not_finite(self) -> list[str]:
        """Numbers with a gradient that is NaN or infinite."""
        return self._of(NOT_FINITE)

    def __str__(self) -> str:
        lines = [f"value {self.value:.6g}"]
        for leaf in self.leaves:
            size = int(np.prod(leaf.shape))
            some = f", {len(leaf.index)} looked at" if len(leaf.index) < size else ""
            lines.append(f"{leaf.path} {leaf.shape} {leaf.dtype}{some}")
            for verdict in (FINITE, ZERO, UNSEEN, NOT_FINITE, NO_DERIVATIVE):
                which = leaf.verdict == verdict
                if which.any():
                    lines.append(f"  {which.sum():4d}  {verdict}{self._detail(leaf, verdict)}")
        return "\n".join(lines)

    def _detail(self, leaf: LeafGradient, verdict: str) -> str:
        which = leaf.verdict == verdict
        if verdict == FINITE:
            return f": up to {np.abs(leaf.gradient[which]).max():.3g}"
        if verdict == ZERO:
            return ""
        if verdict == NO_DERIVATIVE:
            return ": the value matters" if leaf.matters.any() else ": without effect"
        names = leaf.names(verdict, self.labels.get(leaf.path))
        pairs = [f"{n} {s:.3g}" for n, s in zip(names, leaf.slope[which])]
        slopes = "; slopes of differences" if verdict == UNSEEN else "; differences"
        return f"{slopes}: {', '.join(pairs)}"


def gradient_report(
    function: Callable[[Any], Array],
    tree: Any,
    *,
    most: int = 64,
    labels: Mapping[str, Sequence[str]] | None = None,
) -> GradientReport:
    """The gradient of a function of a tree of arrays, number by number, beside differences.

    function(tree) -> () float, that JAX can trace, batch and differentiate in reverse: a rollout's
    measure, say. Whatever of it is to be looked at belongs into the tree. most: numbers of a leaf,
    evenly spread, where it has more. labels: of the numbers of a leaf, by its path, such as
    ``{"values": [script.label(i) for i in ...]}``.

    Each number is changed by 0.1%, 1% and 10% of itself, both ways (a whole number by 1, 2 and 3, a
    bool is turned over), all in one batch. The verdict on it is one of the constants of this
    module. Raises ValueError where the function does not return one float.

    >>> import jax.numpy as jnp
    >>> tree = {"angle": 1.0, "count": 2.0}
    >>> gradient_report(lambda t: jnp.sin(t["angle"]) * jnp.floor(t["count"]), tree).unseen
    ['count']
    """
    leaves, structure = jax.tree_util.tree_flatten_with_path(tree)
    paths = [_path(path) for path, _ in leaves]
    arrays = [jnp.asarray(leaf) for _, leaf in leaves]
    out = jax.eval_shape(lambda xs: function(jax.tree.unflatten(structure, xs)), arrays)
    if getattr(out, "shape", None) != () or not jnp.issubdtype(out.dtype, jnp.floating):
        raise ValueError(f"the function returns {out}; expected one float of shape ()")
    floats = [k for k, x in enumerate(arrays) if jnp.issubdtype(x.dtype, jnp.floating)]

    def of(arrays):
        return function(jax.tree.unflatten(structure, arrays))

    def of_floats(given):
        full = list(arrays)
        for k, x in zip(floats, given):
            full[k] = x
        return of(full)

    value, slopes = jax.jit(jax.value_and_grad(of_floats))([arrays[k] for k in floats])
    gradients: dict[int, np.ndarray] = {k: np.asarray(g) for k, g in zip(floats, slopes)}
    looked = [_spread(x.size, most) for x in arrays]
    changed = _differences(of, arrays, looked, float(value))
    found = tuple(
        _judged(path, x, index, gradients.get(k), *changed[k])
        for k, (path, x, index) in enumerate(zip(paths, arrays, looked))
    )
    return GradientReport(float(value), found, labels or {})


def _path(keys) -> str:
    return jax.tree_util.keystr(keys, simple=True, separator=".") or "the tree"


class _Change(NamedTuple):
    """One number of a leaf moved by a step."""

    leaf: int
    place: int  # among the numbers of the leaf that are looked at
    step: float
    ends: list  # the new numbers: both ways, of a bool the other one


def _spread(size: int, most: int) -> np.ndarray:
    """Up to so many indices, evenly spread."""
    return np.unique(np.linspace(0, size - 1, min(size, most)).round().astype(int))


def _changes(x: Array, leaf: int, looked: np.ndarray) -> Iterator[_Change]:
    """All of a leaf, the small steps first."""
    flat = np.asarray(x).reshape(-1)
    for place, i in enumerate(looked):
        old = flat[i]
        if flat.dtype == bool:
            yield _Change(leaf, place, 1, [not old])
            continue
        whole = np.issubdtype(flat.dtype, np.integer)
        for step in WHOLE_STEPS if whole else STEPS:
            step = step if whole else step * (abs(float(old)) or 1.0)
            yield _Change(leaf, place, step, [old + step, old - step])


def _differences(of, arrays, looked, value: float) -> list[tuple[np.ndarray, np.ndarray]]:
    """For each leaf: (k,) whether a difference changes the value, and (k,) the slope of the
    smallest one that does, 0 where none does."""
    changes = [c for k, x in enumerate(arrays) for c in _changes(x, k, looked[k])]
    found = [(np.zeros(len(i), bool), np.zeros(len(i))) for i in looked]
    if not changes:
        return found
    leaf = np.array([c.leaf for c in changes for _ in c.ends])
    index = np.array([looked[c.leaf][c.place] for c in changes for _ in c.ends])
    ends = [(c.leaf, end) for c in changes for end in c.ends]
    # the changed numbers in the dtype of each leaf, of which one is read
    news = [
        jnp.asarray(np.array([end if own == k else 0 for own, end in ends]), x.dtype)
        for k, x in enumerate(arrays)
    ]

    def one(leaf, index, news):
        moved = []
        for k, (x, new) in enumerate(zip(arrays, news)):
            at = (jnp.arange(x.size) == index).reshape(x.shape) & (leaf == k)
            moved.append(jnp.where(at, new, x))
        return of(moved)

    results = iter(np.asarray(jax.jit(jax.vmap(one))(leaf, index, news), float))
    noise = NOISE * float(jnp.finfo(jnp.zeros(()).dtype).eps) * abs(value)
    for c in changes:
        got = [next(results) for _ in c.ends]
        matters, slope = found[c.leaf]
        if not matters[c.place] and not all(abs(g - value) <= noise for g in got):
            matters[c.place] = True
            slope[c.place] = (got[0] - (got[1] if len(got) > 1 else value)) / (len(got) * c.step)
    return found


def _judged(path, x, index, gradient, matters, slope) -> LeafGradient:
    if gradient is None:
        own = np.full(len(index), np.nan)
        verdict = np.full(len(index), NO_DERIVATIVE, object)
    else:
        own = gradient.reshape(-1)[index]
        zero = np.where(matters, UNSEEN, ZERO)
        verdict = np.where(own == 0, zero, np.where(np.isfinite(own), FINITE, NOT_FINITE))
    return LeafGradient(path, x.shape, str(x.dtype), index, own, slope, verdict, matters)
