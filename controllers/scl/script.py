"""Parsed script: its phases with their primitives, and its numbers with their roles."""

from dataclasses import dataclass, field

from controllers.scl.ast import Number, Transition
from controllers.scl.errors import ScriptError, ScriptWarning, Span, error_at
from controllers.scl.primitive import Primitive
from controllers.scl.roles import TIME, Role


@dataclass(frozen=True)
class Phase:
    """One state of the controller. Of primitives that set the same joint, the later one counts.

    Without a transition (the last phase of a motion that is not cyclic) it stays active.
    """

    name: str
    mirror_of: str | None
    primitives: tuple[Primitive, ...]
    transition: Transition | None
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Script:
    """Whole script: its phases, and its numbers in the order of the text."""

    phases: tuple[Phase, ...]
    numbers: tuple[Number, ...]
    source: str
    file: str
    warnings: tuple[ScriptWarning, ...]
    labels: tuple[str, ...] = ()

    def values(self) -> list[float]:
        """Value of every number, in the order of the text."""
        return [number.value for number in self.numbers]

    def free_indices(self) -> tuple[int, ...]:
        """Indices of the numbers marked '@'."""
        return tuple(number.index for number in self.numbers if number.free)

    def label(self, index: int) -> str:
        """Name of a number for plots and tables, e.g. "roll_back: shoulders angle".

        No two numbers of a script have the same label. Raises IndexError for an unknown index.
        """
        if not 0 <= index < len(self.labels):
            raise IndexError(f"number {index} of a script that has {len(self.labels)} numbers")
        return self.labels[index]

    def error(self, span: Span | None, message: str, hint: str = "") -> ScriptError:
        """Error, to be raised, for a check made after parsing; `span` is its place."""
        return error_at(self.source, self.file, span, message, hint)


def number_roles(script: Script) -> tuple[Role, ...]:
    """Role of every number, in the order of the text."""
    roles = [TIME] * len(script.numbers)  # of transitions
    for phase in script.phases:
        for primitive in phase.primitives:
            for number, role in primitive.numbers():
                roles[number.index] = role
    return tuple(roles)
