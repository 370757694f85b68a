"""Primitive of the language: one class declares its syntax, names, numbers, tables and torque.

A new primitive is a subclass in a file of ``primitives``, and an entry of ``primitives.registry``.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, ClassVar, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from lark import Token, Tree

from controllers.scl.ast import Number
from controllers.scl.compiler import Compiler
from controllers.scl.errors import Span
from controllers.scl.reader import Reader
from controllers.scl.roles import Role
from jaxsim.math.safe import safe_divide
from jaxsim.model import Model
from jaxsim.simulation.records import Observation

T = TypeVar("T")
Row = TypeVar("Row", bound=tuple)

# of a field that names joints or links (a name, or a tuple of them): `[symm]` mirrors it
SIDED = {"sided": True}


def role(kind: Role) -> dict[str, Role]:
    """Metadata of a field with numbers of this role: a Number, a tuple of them, or None."""
    return {"role": kind}


@dataclass(frozen=True, kw_only=True)
class Primitive:
    """Base of the primitives. A subclass is a frozen dataclass, whose fields are what it says.

    Fields that name joints or links have the metadata ``SIDED``, fields with numbers ``role(...)``;
    both may be in dataclasses, or tuples of them, within the primitive.
    """

    keyword: ClassVar[str] = ""  # first word, "" for a primitive that begins with a joint
    syntax: ClassVar[str] = ""  # what follows within the brackets, as the right side of a lark rule
    rules: ClassVar[str] = ""  # further rules that the syntax uses, one a line
    usage: ClassVar[str]  # syntax as errors explain it: "... reads [...]"
    links: ClassVar[tuple[str, ...]] = ()  # clauses that name a link, such as "on"; others: a joint
    twice: ClassVar[str] = "[symm] changes nothing here"  # of one that is its own mirror image

    span: Span | None = field(default=None, compare=False, repr=False)

    @classmethod
    def read(cls, tree: Tree[Token], reader: Reader) -> "Primitive":
        """The primitive of a syntax tree, without span. Raises ScriptError."""
        raise NotImplementedError

    def rows(self, compiler: Compiler) -> Sequence[Any]:
        """Rows of the primitive in the tables of its phase.

        Rows hold positions in the vector of the script's numbers, never the numbers. Raises
        ScriptError where the body cannot do what the primitive asks for.
        """
        raise NotImplementedError

    @classmethod
    def joints_of(cls, row: Any) -> tuple[int, ...]:
        """Script joints whose target a row sets."""
        return ()

    @classmethod
    def table(cls, phases: Sequence[Sequence[Any]], compiler: Compiler) -> tuple:
        """Named tuple of arrays with phases along the first axis, from the rows of each phase."""
        raise NotImplementedError

    @classmethod
    def joint_targets(cls, table: Any, step: "ScriptStep") -> "JointTargets":
        """Targets (J,) in this phase, used for the joints that ``joints_of`` gives of its rows."""
        raise NotImplementedError

    @classmethod
    def torque(cls, table: Any, step: "ScriptStep") -> Array | None:
        """Torques (nv,) in this phase that are added to those of the targets [N m], or None."""
        return None

    def numbers(self) -> Iterator[tuple[Number, Role]]:
        """Numbers of the primitive with their roles."""
        return _numbers(self, None)

    def mirror(self, image: Callable[[str], str]) -> "Primitive":
        """Mirror the names of joints and links; the image has the same Number objects."""
        return _mirrored(self, image)

    def names(self) -> tuple[frozenset[str], ...]:
        """Joints and links of the primitive, to compare with its mirror image."""
        return tuple(_names(self))


class JointTargets(NamedTuple):
    """Target angles of the script joints, and factors of their gains."""

    angle: Array  # (J,) [rad]
    stiffness: Array | float = 1.0  # (J,)
    damping: Array | float = 1.0  # (J,)


@dataclass(frozen=True)
class ScriptStep:
    """State of a script at one step; J script joints, nl links, nj joints of the model."""

    dofs: np.ndarray  # (J,) freedom of each script joint
    child: np.ndarray  # (J,) links of the script joints
    parent: np.ndarray  # (J,)
    model: Model
    obs: Observation
    values: Array  # (n + 1,) numbers of the script, and a zero
    phase: Array  # () active phase
    time: Array  # () since it began [s]
    angles: Array  # (J,) joint angles [rad]
    links: Array  # (nl,) orientations of the links, counter-clockwise in the plane [rad]
    last_target: Array  # (J,) target angles of the step before [rad]
    start_angles: Array  # (J,) joint angles when the phase began [rad]
    start_links: Array  # (nl,) orientations of the links then [rad]
    start_anchors: Array  # (nj, 2) x, z of the joints then [m]

    def row(self, table: np.ndarray) -> Array:
        """Row of the active phase in an array of a table."""
        return jnp.asarray(table)[self.phase]

    def numbers(self, positions: np.ndarray) -> Array:
        """Numbers at the positions that a table gives for the active phase."""
        return self.values[self.row(positions)]

    def fraction(self, duration: Array) -> Array:
        """Fraction 0 to 1 of a duration [s] that has passed; 1 for a duration of zero."""
        part = jnp.clip(safe_divide(self.time, duration), 0.0, 1.0)
        return jnp.where(duration > 0, part, 1.0)

    def on_dofs(self, per_joint: Array) -> Array:
        """Values (J,) of the script joints at their dofs, (nv,), zero elsewhere."""
        zeros = jnp.zeros(self.model.topology.nv, per_joint.dtype)
        return zeros.at[self.dofs].set(per_joint)

    @property
    def middles(self) -> Array:
        """(J,) middle of the joints' ranges [rad]."""
        joint = self.model.topology.dof_joint[self.dofs]
        return (self.model.joint_lower[joint] + self.model.joint_upper[joint]) / 2


def stack(phases: Sequence[Sequence[Row]], blank: Row) -> Row:
    """Rows as arrays (P, K, ...), K the largest number of rows of a phase; the rest is blank."""
    most = max(len(rows) for rows in phases)
    padded = [[*rows, *[blank] * (most - len(rows))] for rows in phases]
    columns = (np.array([[row[k] for row in rows] for rows in padded]) for k, _ in enumerate(blank))
    return type(blank)(*columns)


def by_joint(phases: Sequence[Sequence[Any]], count: int, blank: Row) -> Row:
    """Rows as arrays (P, J, ...) over ``count`` script joints, by their field ``joint``.

    Of rows of one joint the last one counts; joints without a row are blank.
    """
    grid = [[blank] * count for _ in phases]
    for joints, rows in zip(grid, phases, strict=True):
        for row in rows:
            joints[row.joint] = row
    return stack(grid, blank)


def between(a: Array, b: Array, fraction: Array) -> Array:
    """Point on the line from a to b."""
    return a + (b - a) * fraction


def near(angle: Array, middle: Array) -> Array:
    """The angle plus the whole turns that bring it within half a turn of ``middle`` [rad]."""
    turns = jnp.round((angle - middle) / (2 * jnp.pi))
    return angle - 2 * jnp.pi * jax.lax.stop_gradient(turns)


def _numbers(item: Any, kind: Role | None) -> Iterator[tuple[Number, Role]]:
    if isinstance(item, Number):
        if kind is None:
            raise TypeError("a Number in a field without a role; give it metadata=role(...)")
        yield item, kind
    elif isinstance(item, tuple):
        for entry in item:
            yield from _numbers(entry, kind)
    elif is_dataclass(item):
        for each in fields(item):
            yield from _numbers(getattr(item, each.name), each.metadata.get("role"))


def _mirrored(item: T, image: Callable[[str], str]) -> T:
    """Copy of a dataclass with its names mirrored, and those of dataclasses in its tuples."""
    changes: dict[str, Any] = {}
    for name, value, metadata in _entries(item):
        if metadata.get("sided"):
            names = (value,) if isinstance(value, str) else value
            mirrored = tuple(image(each) for each in names)
            changes[name] = mirrored[0] if isinstance(value, str) else mirrored
        elif isinstance(value, tuple) and any(_names(each) for each in value):
            changes[name] = tuple(_mirrored(each, image) for each in value)
    return replace(item, **changes)  # type: ignore[type-var]


def _names(item: Any) -> list[frozenset[str]]:
    """Names of each field of a dataclass, and of dataclasses in its tuples; [] for other things."""
    names: list[frozenset[str]] = []
    for _, value, metadata in _entries(item):
        if metadata.get("sided"):
            names.append(frozenset({value} if isinstance(value, str) else value))
        elif isinstance(value, tuple):
            for each in value:
                names += _names(each)
    return names


def _entries(item: Any) -> Iterator[tuple[str, Any, Mapping]]:
    """(name, value, metadata) of the fields of a dataclass; none of other things."""
    if is_dataclass(item):
        for each in fields(item):
            yield each.name, getattr(item, each.name), each.metadata
