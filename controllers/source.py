"""Numbers of a controller as its user wrote them: ranges, units, and the files that hold them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

FACTOR = 100.0  # that a positive number may change by, either way
OFFSET = 0.1  # one unit of an optimiser for a number that is not positive


@dataclass(frozen=True, kw_only=True)
class NumberSource:
    """Source of a controller's numbers; the base is that of a controller without a file of its own.

    Paths are those of the tree in which the controller stands at ``prefix``. A range is (lower,
    upper), (lower, upper, scale) with one unit of an optimiser, or (lower, upper, "log").
    """

    prefix: str = ""

    def under(self, prefix: str) -> Self:
        """Source of a controller that stands at ``prefix`` of a larger tree."""
        return replace(self, prefix=prefix + self.prefix)

    def marked(self) -> dict[str, tuple]:
        """Ranges of the numbers that the file marks to vary, by path."""
        return {}

    def ranges(self) -> dict[str, tuple]:
        """Ranges of the numbers that vary where none is named, by path: those that are marked."""
        return self.marked()

    def units(self) -> dict[str, str]:
        """Units of numbers by path."""
        return {}

    def limits(self) -> dict[str, tuple[float, float]]:
        """Least and largest possible values of numbers by path."""
        return {}

    def values(self) -> dict[str, float]:
        """Numbers by path as the file has them, which may have more digits than arrays."""
        return {}

    def files(self, values: Mapping[str, float]) -> dict[str, str]:
        """Files, name -> text, of the controller with other values, by path."""
        return {}

    def rounded(self, values: Mapping[str, float]) -> dict[str, float]:
        """Values by path as ``files`` holds them."""
        return dict(values)

    def text_with_marks(self) -> str | None:
        """Text of the file with every number marked to vary; None without a file."""
        return None


def range_around(value: Any) -> tuple:
    """Range around a value: a factor for a positive number, else an offset."""
    value = float(value)
    if value > 0:
        return value / FACTOR, value * FACTOR, "log"
    return value - 10 * OFFSET, value + 10 * OFFSET, OFFSET
