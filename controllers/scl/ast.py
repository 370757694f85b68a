"""Numbers and transitions of a parsed script.

Group names are resolved to joints and links, `[symm]` and mirrored phases are expanded. Angles stay
in degrees, as in the text. Source: Shen's thesis, sections 4.2 and 4.3, tables 4.3 and 4.4.
"""

from dataclasses import dataclass, field
from typing import Literal

from controllers.scl.errors import Span


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
