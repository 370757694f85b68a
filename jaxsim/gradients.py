"""Report of a gradient beside finite differences: numbers that matter without a gradient.

    report = gradient_report(loss, {"values": walk.values, "mass": human.mass})
    print(report)          # a line for each leaf
    report.unseen          # numbers that matter and whose gradient is zero

A derivative of zero can mean that a number does not matter, or that it matters by steps: durations
count whole time steps, phases follow from comparisons. Differences with large steps distinguish the
two.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

STEPS = (1e-3, 1e-2, 1e-1)  # of differences, relative to the number, or to 1 where it is zero
WHOLE_STEPS = (1, 2, 3)  # of whole numbers
NOISE = 16  # largest change that counts as rounding [units of rounding]

FINITE = "finite"
ZERO = "zero, and without effect"
UNSEEN = "zero, but the value matters"
NOT_FINITE = "not finite"
NO_DERIVATIVE = "whole numbers have no derivative"


@dataclass(frozen=True)
class LeafGradient:
    """Gradients, differences and verdicts of the k examined numbers of a leaf."""

    path: str
    shape: tuple[int, ...]
    dtype: str
    index: np.ndarray  # (k,) of the numbers, in the order of the flattened leaf
    gradient: np.ndarray  # (k,) NaN where there is none
    slope: np.ndarray  # (k,) slope of the difference with the smallest step that has an effect
    verdict: np.ndarray  # (k,) str: FINITE, ZERO, UNSEEN, NOT_FINITE or NO_DERIVATIVE
    matters: np.ndarray  # (k,) bool: some difference changes the result

    def names(self, verdict: str, labels: Sequence[str] | None = None) -> list[str]:
        """Paths of the numbers with a verdict, with their labels where there are some."""
        names = []
        for i in self.index[self.verdict == verdict]:
            at = ", ".join(map(str, np.unravel_index(i, self.shape))) if self.shape else ""
            label = f" ({labels[i]})" if labels else ""
            names.append(f"{self.path}[{at}]{label}" if at else f"{self.path}{label}")
        return names


@dataclass(frozen=True)
class GradientReport:
    """Value of a function and the gradients of its leaves; printed as a table."""

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
        """Numbers that change the result but whose gradient is zero or does not exist."""
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
    """Compare the gradient of a function of a tree of arrays with differences, number by number.

    function(tree) -> () float, that JAX can trace, batch and differentiate in reverse: a rollout's
    measure, for example. The tree has all numbers to examine. most: largest number of examined
    elements of a leaf, evenly spread. labels: of the numbers of a leaf, by its path, such as
    ``{"values": [script.label(i) for i in ...]}``.

    Each number is changed by 0.1%, 1% and 10% of itself, both ways (a whole number by 1, 2 and 3, a
    bool is inverted), all in one batch. Its verdict is one of the constants of this module. Raises
    ValueError where the function does not return one float.

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
    reports = tuple(
        _judged(path, x, index, gradients.get(k), *changed[k])
        for k, (path, x, index) in enumerate(zip(paths, arrays, looked))
    )
    return GradientReport(float(value), reports, labels or {})


def _path(keys) -> str:
    return jax.tree_util.keystr(keys, simple=True, separator=".") or "the tree"


class _Change(NamedTuple):
    """Change of one number of a leaf by a step."""

    leaf: int
    place: int  # index among the examined numbers of the leaf
    step: float
    ends: list  # new numbers: both ways, of a bool the other one


def _spread(size: int, most: int) -> np.ndarray:
    """Up to ``most`` indices below ``size``, evenly spread."""
    return np.unique(np.linspace(0, size - 1, min(size, most)).round().astype(int))


def _changes(x: Array, leaf: int, looked: np.ndarray) -> Iterator[_Change]:
    """Changes of the examined numbers of a leaf, small steps first."""
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
    """Effects of all changes, for each leaf: (k,) bool of an effect, and (k,) slope.

    The slope is that of the smallest step that changes the value, 0 where none does.
    """
    changes = [c for k, x in enumerate(arrays) for c in _changes(x, k, looked[k])]
    effects = [(np.zeros(len(i), bool), np.zeros(len(i))) for i in looked]
    if not changes:
        return effects
    leaf = np.array([c.leaf for c in changes for _ in c.ends])
    index = np.array([looked[c.leaf][c.place] for c in changes for _ in c.ends])
    ends = [(c.leaf, end) for c in changes for end in c.ends]
    # changed numbers in the dtype of each leaf, of which one is read
    news = [
        jnp.asarray(np.array([end if own == k else 0 for own, end in ends]), x.dtype)
        for k, x in enumerate(arrays)
    ]

    def evaluate(leaf, index, news):
        moved = []
        for k, (x, new) in enumerate(zip(arrays, news)):
            at = (jnp.arange(x.size) == index).reshape(x.shape) & (leaf == k)
            moved.append(jnp.where(at, new, x))
        return of(moved)

    results = iter(np.asarray(jax.jit(jax.vmap(evaluate))(leaf, index, news), float))
    noise = NOISE * float(jnp.finfo(jnp.zeros(()).dtype).eps) * abs(value)
    for c in changes:
        got = [next(results) for _ in c.ends]
        matters, slope = effects[c.leaf]
        if not matters[c.place] and not all(abs(g - value) <= noise for g in got):
            matters[c.place] = True
            slope[c.place] = (got[0] - (got[1] if len(got) > 1 else value)) / (len(got) * c.step)
    return effects


def _judged(path, x, index, gradient, matters, slope) -> LeafGradient:
    if gradient is None:
        values = np.full(len(index), np.nan)
        verdict = np.full(len(index), NO_DERIVATIVE, object)
    else:
        values = gradient.reshape(-1)[index]
        zero = np.where(matters, UNSEEN, ZERO)
        verdict = np.where(values == 0, zero, np.where(np.isfinite(values), FINITE, NOT_FINITE))
    return LeafGradient(path, x.shape, str(x.dtype), index, values, slope, verdict, matters)
