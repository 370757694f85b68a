"""Design of a sweep: axes of a grid, samples of distributions, and boxes of both.

The members form an array: an axis for each number with values, one ("sample") for all that are
sampled, and at the end the starts. It is computed box by box; a box is as large as the chunk
allows, and all are filled up to one size, so that one program does them all.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from optimize.sweeps.distributions import Distribution, as_json, of_json

SAMPLES = ("random", "sobol", "saltelli")
COUNT = 256  # of a sample, by default
CHUNK = 1024  # members at a time

Values = Mapping[str, Sequence | np.ndarray | Distribution]


@dataclass(frozen=True)
class Design:
    """Members of a sweep: values of numbers, and samples of distributions.

    values: label or path -> values (k,), one for all numbers of the path, or (k, m) for its m
    numbers; or a distribution. sample: how these are sampled, by default "random"; count: how many
    times (of "saltelli": the base, times the number of distributions + 2). chunk: members at a
    time. Raises ValueError for invalid values.
    """

    values: Values
    sample: str | None = None
    count: int | None = None
    seed: int = 0
    starts: int = 1
    chunk: int = CHUNK
    drawn: tuple[str, ...] = field(init=False)

    def __post_init__(self):
        values, sampled = {}, []
        if not self.values:
            raise ValueError("nothing varies: give at least one path with its values")
        for name, given in self.values.items():
            if isinstance(given, Distribution):
                sampled.append(name)
                values[name] = given
            else:
                values[name] = _array(name, given)
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "drawn", tuple(sampled))
        for name in ("starts", "chunk"):
            if not getattr(self, name) >= 1:
                raise ValueError(f"{name} is {getattr(self, name)}; at least 1 is needed")
        if not sampled and (self.sample is not None or self.count is not None):
            raise ValueError(
                "there is nothing to draw: every number has values; give a distribution, as"
                " Uniform(0.4, 1.2) (--vary PATH=0.4:1.2)"
            )
        if sampled:
            object.__setattr__(self, "sample", self.sample or "random")
            object.__setattr__(self, "count", COUNT if self.count is None else self.count)
            self._check_sample()

    def _check_sample(self) -> None:
        count: Any = self.count
        if self.sample not in SAMPLES:
            raise ValueError(f"sample {self.sample!r}: there are {', '.join(SAMPLES)}")
        if count < 1:
            raise ValueError(f"count is {count}; at least 1 is needed")
        if self.sample != "random" and count & (count - 1):
            below = 1 << (count.bit_length() - 1)
            raise ValueError(
                f"count is {count}; a Sobol sequence is even at powers of two only:"
                f" give {below} or {2 * below}"
            )
        if self.sample == "saltelli" and len(self.drawn) < len(self.values):
            rest = ", ".join(name for name in self.values if name not in self.drawn)
            raise ValueError(f"sensitivity is of distributions; {rest} has values")

    @property
    def gridded(self) -> tuple[str, ...]:
        """Names with values, an axis each."""
        return tuple(name for name in self.values if name not in self.drawn)

    @cached_property
    def samples(self) -> np.ndarray:
        """Samples (samples, drawn) of the distributions."""
        units = _units(self.sample, len(self.drawn), self.count, self.seed)
        columns = [self.values[n].quantile(u) for n, u in zip(self.drawn, units.T)]  # type: ignore
        return np.stack(columns, axis=1)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Shape of all axes but the starts."""
        sizes = [len(self.values[name]) for name in self.gridded]  # type: ignore
        return (*sizes, *([len(self.samples)] if self.drawn else []))

    @property
    def members(self) -> int:
        """Number of members that are simulated."""
        return math.prod(self.shape) * self.starts

    @cached_property
    def box(self) -> tuple[int, ...]:
        """Largest box of points that a chunk holds: whole along the last axes."""
        left, sizes = max(1, self.chunk // self.starts), []
        for size in reversed(self.shape):
            sizes.append(min(size, left))
            left //= sizes[-1]
        return tuple(reversed(sizes))

    @property
    def boxes(self) -> tuple[int, ...]:
        """Number of boxes along each axis."""
        return tuple(-(-size // part) for size, part in zip(self.shape, self.box))

    def regions(self) -> Iterator[tuple[slice, ...]]:
        """Boxes in their order, as slices."""
        for index in np.ndindex(self.boxes):
            yield tuple(
                slice(k * part, min((k + 1) * part, size))
                for k, part, size in zip(index, self.box, self.shape)
            )

    def at(self, region: tuple[slice, ...]) -> dict[str, np.ndarray]:
        """Values (points,) or (points, m) by name at the points of a box, its last axis fastest."""
        ranges = [np.arange(part.start, part.stop) for part in region]
        index = [axis.reshape(-1) for axis in np.meshgrid(*ranges, indexing="ij")]
        found = {name: self.values[name][k] for name, k in zip(self.gridded, index)}  # type: ignore
        if self.drawn:
            found |= {name: self.samples[index[-1], k] for k, name in enumerate(self.drawn)}
        return found

    def all_of(self, name: str) -> np.ndarray:
        """Values that a number takes."""
        if name in self.drawn:
            return self.samples[:, self.drawn.index(name)]
        return np.asarray(self.values[name])

    def as_json(self) -> dict[str, Any]:
        """Dictionary for config.json; ``design_of_json`` reads it."""
        values = {
            name: as_json(given) if isinstance(given, Distribution) else np.asarray(given).tolist()
            for name, given in self.values.items()
        }
        numbers = {n: getattr(self, n) for n in ("sample", "count", "seed", "starts", "chunk")}
        return {"values": values, **numbers}


def design_of_json(content: Mapping[str, Any]) -> Design:
    """Design from the dictionary of ``Design.as_json``.

    Raises KeyError, TypeError or ValueError for anything else.
    """
    values = {
        name: of_json(given) if isinstance(given, Mapping) else given
        for name, given in content["values"].items()
    }
    return Design(**{**content, "values": values})


def _array(name: str, values: Any) -> np.ndarray:
    try:
        array = np.atleast_1d(np.asarray(values, float))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name}: {values!r} are no values, and no distribution: {error}"
        ) from None
    if array.ndim > 2 or not array.size or not np.isfinite(array).all():
        raise ValueError(f"{name}: give finite values (k,) or (k, m), got shape {array.shape}")
    return array


def _units(sample: str | None, numbers: int, count: int | None, seed: int) -> np.ndarray:
    """Samples (samples, numbers) in the unit cube."""
    size: Any = count
    if sample == "random":
        return np.random.default_rng(seed).random((size, numbers))
    if sample == "sobol":
        from scipy.stats import qmc

        return qmc.Sobol(numbers, scramble=True, rng=seed).random(size)
    from optimize.sweeps.sensitivity import saltelli

    return saltelli(numbers, size, seed)
