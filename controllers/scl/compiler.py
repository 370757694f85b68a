"""Body and text for which the primitives of a script make their tables."""

from dataclasses import dataclass
from functools import cached_property

from controllers.scl.ast import Number
from controllers.scl.errors import ScriptError, Span, error_at
from jaxsim.model.topology import Topology


@dataclass(frozen=True)
class Compiler:
    """Body and text of a script for which primitives make their tables.

    zero: position of a number that the script left out, after those that it has.
    """

    top: Topology
    zero: int
    source: str
    file: str

    @cached_property
    def joints(self) -> tuple[str, ...]:
        """(J,) script joints: those with a motor."""
        return tuple(self.top.joint_names[j] for j in self.top.actuated_joints)

    def joint(self, name: str) -> int:
        """Index of a script joint."""
        return self.joints.index(name)

    def position(self, number: Number | None) -> int:
        """Position of a number, ``zero`` for None."""
        return self.zero if number is None else number.index

    def error(self, span: Span | None, message: str, hint: str = "") -> ScriptError:
        """Error, to be raised, at the place of a primitive in the text."""
        return error_at(self.source, self.file, span, message, hint)
