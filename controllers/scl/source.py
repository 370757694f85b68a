"""Numbers of a script as its text has them."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from controllers.scl.names import vocabulary
from controllers.scl.parser import parse
from controllers.scl.roles import Role
from controllers.scl.script import Script, number_roles
from controllers.scl.writer import mark_all, rewrite
from controllers.source import NumberSource
from jaxsim.model import Model

FILE = "script.scl"  # name of the text among the files of a scenario
BEST = "best.scl"  # name of the text with other values


@dataclass(frozen=True, kw_only=True)
class ScriptSource(NumberSource):
    """Source of the numbers of a script for a model."""

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
        return {self._path(k): role.unit for k, role in enumerate(self._roles)}

    def limits(self) -> dict[str, tuple[float, float]]:
        return {self._path(k): (role.least, role.most) for k, role in enumerate(self._roles)}

    def values(self) -> dict[str, float]:
        return {self._path(k): value for k, value in enumerate(self.script.values())}

    def files(self, values: Mapping[str, float]) -> dict[str, str]:
        every = [values.get(path, value) for path, value in self.values().items()]
        return {BEST: rewrite(self.script, every)}

    def rounded(self, values: Mapping[str, float]) -> dict[str, float]:
        held = parse(self.files(values)[BEST], vocabulary(self.model)).values()
        written = {self._path(k): value for k, value in enumerate(held)}
        return {path: written.get(path, value) for path, value in values.items()}

    def text_with_marks(self) -> str:
        return mark_all(self.script)

    def range_of(self, index: int) -> tuple[float, float, float]:
        """Search range and scale (lower, upper, scale) of a number, from its role."""
        return self._roles[index].search_range(self.script.values()[index])
