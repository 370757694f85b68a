"""Functions that between them use every primitive of the fused back end, with hard arguments.

A case returns a dict: for each primitive that it is there for, what to compare.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

CASES: list["Case"] = []
INT_MAX, INT_MIN = np.iinfo(np.int64).max, np.iinfo(np.int64).min
UINT_MAX = np.iinfo(np.uint64).max


@dataclass(frozen=True, eq=False)
class Case:
    """A function of one member, and a batch of arguments in 64 bits."""

    name: str
    fn: Callable[..., dict[str, Any]]
    primitives: tuple[str, ...]
    args: tuple[Any, ...]
    rtol: dict[str, float] | None  # by dtype, where it is not the usual one
    folds: bool  # with constants for arguments, nothing is left to compute
    sums: bool  # terms may cancel; an error counts against the largest number of an array

    def in_precision(self, bits: int) -> tuple[Any, ...]:
        """The arguments in 32 or 64 bits; extremes of integers stay extremes."""
        return tuple(_narrowed(np.asarray(x), bits) for x in self.args)


def _narrowed(x: np.ndarray, bits: int) -> np.ndarray:
    if x.dtype.kind == "b":
        return x
    dtype = np.dtype(f"{x.dtype.kind}{bits // 8}")
    if x.dtype.kind == "f":
        return x.astype(dtype)
    return np.clip(x, np.iinfo(dtype).min, np.iinfo(dtype).max).astype(dtype)


def case(*primitives: str, args, rtol=None, folds: bool = False, sums: bool = False):
    """Enter a function into the table, under the primitives that it is there for."""

    def enter(fn):
        CASES.append(Case(fn.__name__, fn, primitives, tuple(args), rtol, folds, sums))
        return fn

    return enter


def pairs(*values) -> list[np.ndarray]:
    """All combinations of the values, as one batch for each argument."""
    return [x.reshape(-1) for x in np.meshgrid(*values, indexing="ij")]


def randoms(seed: int, *shape: int, low: float = -2.0, high: float = 2.0) -> np.ndarray:
    """Uniform random numbers, the same in every run."""
    return np.random.default_rng(seed).uniform(low, high, shape)
