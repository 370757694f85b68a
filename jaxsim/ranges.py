"""Ranges of numbers: one table for Python, the command line, world files and scripts.

A number outside of its range is finite but gives no valid motion: the table has the reason, and a
valid example. It is checked for numbers that are known when a function is called, not for arrays
under ``jit`` and ``vmap``.
"""

import numbers
from dataclasses import dataclass, fields
from typing import Any

FLOAT32 = 1e-6  # relative tolerance at the ends of a range, for numbers of float32


@dataclass(frozen=True)
class Range:
    """Range of a number from ``least`` to ``most``, both allowed, with an example and a reason."""

    least: float
    most: float
    unit: str  # empty for plain numbers
    example: str
    why: str  # reason for the limits
    whole: bool = False

    def contains(self, value: Any) -> bool:
        """True for a number in the range, and a whole one where ``whole`` is set."""
        kind = numbers.Integral if self.whole else numbers.Real
        if not isinstance(value, kind) or isinstance(value, bool):
            return False
        number: Any = value
        slack = 0 if self.whole else FLOAT32
        least, most = self.least - slack * abs(self.least), self.most + slack * abs(self.most)
        return bool(least <= number <= most)

    @property
    def wanted(self) -> str:
        """Remedy and reason, for the end of a message."""
        kind, unit = "a whole number" if self.whole else "a number", self.unit and f" {self.unit}"
        ends = f"from {self.least:g} to {self.most:g}{unit}"
        return f"give {kind} {ends}, such as {self.example}: {self.why}"


RANGES = {
    "dt": Range(
        1e-6,
        0.05,
        "s",
        "0.001",
        "a longer step lets things pass through one another, and the"
        " clock of float32 does not count shorter ones",
    ),
    "seconds": Range(1e-6, 1e5, "s", "5", "all of a motion is kept, and looked at"),
    "steps": Range(1, 2**31 - 1, "", "20000", "steps are counted in 32 bits", whole=True),
    "frames": Range(1, 1_000_000, "", "600", "all frames are kept in memory", whole=True),
    "fps": Range(1e-3, 1e6, "frames a second", "120", "there is at most a frame a step"),
    "sweeps": Range(
        1,
        10_000,
        "",
        "30",
        "a step takes as long as its sweeps; a shorter step needs fewer",
        whole=True,
    ),
    "contacts": Range(1, 10_000, "", "40", "a step holds rows for all of them at once", whole=True),
    "count": Range(
        1,
        1000,
        "",
        "10",
        "each is a body or a shape of its own, and pairs grow with the square",
        whole=True,
    ),
    "mass": Range(
        1e-9,
        1e9,
        "kg",
        "1.5",
        "in float32 the equations of heavier or lighter ones are lost in rounding",
    ),
    "moment": Range(1e-18, 1e15, "kg m^2", "0.01", "in float32 others are lost in rounding"),
    "stabilization_time": Range(
        1e-6, 1e6, "s", "0.02", "depth is undone in this time; a long one leaves it"
    ),
    "recovery_time": Range(1e-6, 1e6, "s", "0.02", "depth is undone in this time"),
    "recovery_speed": Range(0, 1e3, "m/s", "1", "what begins deep inside comes out so fast"),
    "bounce_speed": Range(0, 1e6, "m/s", "0.1", "slower impacts do not bounce"),
    "slip_speed": Range(0, 1e6, "m/s", "0.001", "slower contacts stick"),
    "touch_distance": Range(-1, 10, "m", "0.001", "a smaller gap counts as contact"),
    "near_distance": Range(-1, 1e6, "m", "0.01", "what comes nearer in a step is solved for"),
    "depth": Range(1e-9, 1e3, "m", "0.001", "a part of a step that goes deeper is halved"),
    "warm_start": Range(0, 1, "", "1", "it is the part of the last impulses to begin with"),
    "most_sweeps": Range(0, 10_000, "", "100", "a step takes as long as its sweeps", whole=True),
    "tolerance": Range(0, 1e9, "m/s", "0.1", "a smaller change of a velocity ends the sweeps"),
    "smoothing": Range(0, 1e9, "J", "0.001", "it relaxes complementarity in the derivative"),
    "halvings": Range(0, 60, "", "8", "a shorter part of a step is lost in rounding", whole=True),
    "parts": Range(1, 1_000_000, "", "64", "a step is cut in at most so many", whole=True),
    "iterations": Range(1, 1_000_000, "", "200", "a solution takes as long as these", whole=True),
    "friction": Range(0, 1e3, "", "0.6", "nothing slides at far less"),
    "chair_height": Range(0.01, 100, "m", "0.45", "a human sits on it"),
    "number": Range(-1e9, 1e9, "", "1", "float32 keeps seven digits, and its squares end at 1e38"),
}


def within(name: str, value: Any, called: str = "", of: str = "") -> Any:
    """Return the value; raise ValueError unless it is in the range of this name.

    called: the name for the message, by default ``name``; of: a range of another name.
    """
    limits = RANGES[of or name]
    shown = (
        value.item() if getattr(value, "shape", None) == () else value
    )  # 0.1, not np.float64(0.1)
    if not limits.contains(shown):
        unit = f" {limits.unit}" if limits.unit and isinstance(shown, numbers.Real) else ""
        raise ValueError(f"{called or name} is {shown!r}{unit}; {limits.wanted}")
    return value


def check_ranges(record: Any) -> None:
    """Check the fields of a dataclass whose names have a range; raise ValueError.

    Arrays pass, as they may be traced, and so does None.
    """
    for field in fields(record):
        value = getattr(record, field.name)
        if field.name in RANGES and isinstance(value, (numbers.Number, str)):
            within(field.name, value)
