"""Numbers of a script as its text has them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from controllers.scl.ast import Script
from controllers.scl.names import vocabulary
from controllers.scl.parser import parse
from controllers.scl.roles import LIMITS, UNITS, Role, number_roles
from controllers.scl.writer import mark_all, rewrite
from controllers.source import NumberSource
from jaxsim.model import Model

FILE = "script.scl"  # name of the text among the files of a scenario
BEST = "best.scl"  # name of the text with other values


@dataclass(frozen=True, kw_only=True)
class ScriptSource(NumberSource):
    """Source of the numbers of a script for a model."""

    coarse: ClassVar[bool] = True

    script: Script
    model: Model

    @cached_property
    def _roles(self) -> tuple[Role, ...]:
        return number_roles(self.script)

    def _path(self, index: int) -> str:
        return f"{self.prefix}values[{index}]"

    def marked(self) -> dict[str, tuple]:
        return {self._path(k): self.range_of(k) for k in self.script.free_indices()}

    def units(self) -> dict[str, str]:
        return {self._path(k): UNITS[role] for k, role in enumerate(self._roles)}

    def limits(self) -> dict[str, tuple[float, float]]:
        none = -math.inf, math.inf
        return {self._path(k): LIMITS.get(role, none) for k, role in enumerate(self._roles)}

    def values(self) -> dict[str, float]:
        return {self._path(k): value for k, value in enumerate(self.script.values())}

    def files(self, values: Mapping[str, float]) -> dict[str, str]:
        every = {**self.values(), **{p: v for p, v in values.items() if p in self.units()}}
        return {BEST: rewrite(self.script, list(every.values()))}

    def rounded(self, values: Mapping[str, float]) -> dict[str, float]:
        held = parse(self.files(values)[BEST], vocabulary(self.model)).values()
        written = {self._path(k): value for k, value in enumerate(held)}
        return {path: written.get(path, value) for path, value in values.items()}

    def text_with_marks(self) -> str:
        return mark_all(self.script)

    def range_of(self, index: int) -> tuple[float, float, float]:
        """Range and scale (lower, upper, scale) of a number, from its role.

        Angles may leave the printed value by 90 degrees, forces by 500 N, points by 0.5 m; times
        lie between 0 and 3 s, strengths between 0 and 1. One unit of the optimiser is one scale.
        """
        value = self.script.values()[index]
        role = self._roles[index]
        if role == "angle":
            return value - 90.0, value + 90.0, 45.0
        if role == "force":
            return value - 500.0, value + 500.0, 200.0
        if role == "gain":
            return 0.0, max(2 * value, 200.0), max(value / 2, 50.0)
        if role == "time":
            return 0.0, max(3.0, 2 * value), 0.3
        if role == "strength":
            return 0.0, 1.0, 0.2
        return value - 0.5, value + 0.5, 0.1
