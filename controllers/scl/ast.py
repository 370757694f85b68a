"""Parsed form of a script: numbers, phases and transitions.

Group names are resolved to joints and links, `[symm]` and mirrored phases are expanded. Angles stay
in degrees, as in the text. Source: Shen's thesis, sections 4.2 and 4.3, tables 4.3 and 4.4.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from controllers.scl.errors import ScriptError, ScriptWarning, SourceText, Span

if TYPE_CHECKING:
    from controllers.scl.primitive import Primitive


@dataclass(frozen=True)
class Number:
    """Numeral of the script. The span leaves out the '@' that marks a tunable number.

    `index` is its position in Script.numbers. A mirrored copy has the same object.
    """

    value: float
    free: bool
    index: int
    span: Span


@dataclass(frozen=True)
class ContactCondition:
    """Contact that a transition waits for: present, or just established, lost or changed."""

    event: Literal["touching", "established", "lost", "changed"]
    which: Literal["any", "all"]
    links: tuple[str, ...]


@dataclass(frozen=True)
class Transition:
    """Change to phase number `target`: after `time` [s], on contact, or when both hold."""

    time: Number | None
    contact: ContactCondition | None
    target: int
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Phase:
    """One state of the controller. Of primitives that set the same joint, the later one counts.

    Without a transition (the last phase of a motion that is not cyclic) it stays active.
    """

    name: str
    mirror_of: str | None
    primitives: "tuple[Primitive, ...]"
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
        if span is None:
            return ScriptError(message, self.file, hint=hint)
        return SourceText(self.source, self.file).error(span.start, message, hint)
