"""Readers of ``[character]`` and ``[[companion]]``: a model, its start pose and placement."""

from dataclasses import dataclass
from typing import Any

from jaxsim.io.frames import turn_quaternion
from jaxsim.io.joint_angles import pose_of
from jaxsim.io.keys import Keys
from jaxsim.io.toml_table import Table
from jaxsim.io.world import ZERO, CharacterSpec, Companion
from jaxsim.options import REQUIRED, option

OPTIONS = (
    "build",
    "stature",
    "mass",
    "friction",
    "chair_height",
    "hands",
)  # of built-in characters


@dataclass(frozen=True, kw_only=True)
class CharacterKeys(Keys):
    """Character: its model, start pose and placement."""

    model: str = option(
        REQUIRED,
        "`articulated_human`, `ball_joint_human`, `planar_human`, or an MJCF or URDF file beside"
        " the scenario",
        kind=str,
    )
    build: str | None = option(
        None, "`adult` or `child`, of the humans in space", shown="adult", kind=str
    )
    stature: float | None = option(
        None,
        "of the humans in space",
        unit="m",
        shown="that of the build",
        kind=float,
        above=0.0,
    )
    mass: float | None = option(
        None,
        "of the humans in space",
        unit="kg",
        shown="that of the build",
        kind=float,
        above=0.0,
    )
    friction: float | None = option(
        None,
        "of a built-in character and its ground",
        shown="the character's",
        kind=float,
        least=0.0,
    )
    chair_height: float | None = option(
        None, "of the planar human", unit="m", shown="no chair", kind=float, above=0.0
    )
    hands: bool = option(
        False, "true: `ball_joint_human` has hands as links of their own, on ball joints"
    )
    start: str | None = option(
        None,
        "start pose; of a model file a key frame, or `standing` if its roles are known",
        shown="the first one",
        kind=str,
    )
    pose: Table | None = option(
        None,
        "joint angles added to the start pose: `{ kneeFlexion = 30 }` bends both, `leftKneeFlexion`"
        " one; balls take three numbers",
        unit="deg",
        kind=dict,
    )
    pos: tuple = option(
        ZERO,
        "displacement of the start pose; a built-in character stands at height `pos[2]`",
        unit="m",
    )
    turn_deg: tuple = option(
        ZERO, "rotation of the start pose about the origin, before `pos`", unit="deg"
    )
    velocity: tuple = option(ZERO, "velocity of the root", unit="m/s")
    angular_velocity: tuple = option(
        ZERO, "angular velocity of the root, in the world's axes", unit="rad/s"
    )
    bears: tuple[str, ...] = option(
        (),
        "links besides feet and hands that the surroundings can support in per-step optimisation,"
        ' at their fronts: `["pelvis", "chest"]`',
        kind=list,
        entries=str,
    )
    self_collision: bool | None = option(
        None,
        "true: its links touch one another, except shapes that overlap at the start; false: they"
        " never do",
        shown="of a model file the pairs of the file, else false",
        kind=bool,
    )

    @property
    def spec(self) -> CharacterSpec:
        """Character as plain numbers."""
        options: dict[str, Any] = {name: getattr(self, name) for name in OPTIONS}
        options["hands"] = self.hands or None
        return CharacterSpec(
            model=self.model,
            options={name: value for name, value in options.items() if value is not None},
            start=self.start,
            pose=pose_of(self.pose),
            pos=self.pos,
            quat=turn_quaternion(self.turn_deg),
            velocity=self.velocity,
            angular_velocity=self.angular_velocity,
            self_collision=self.self_collision,
            bears=self.bears,
        )


@dataclass(frozen=True, kw_only=True)
class CompanionKeys(CharacterKeys):
    """Another character, with the keys of `[character]`."""

    name: str = option(
        REQUIRED,
        "name of the companion, prefix of the names of its links: `child.pelvis`",
        kind=str,
    )
    controller: Table | None = option(
        None, "its controller by goals, with the keys of `[controller]`", shown="needed", kind=dict
    )


def character_of(table: Table) -> CharacterSpec:
    keys = CharacterKeys.read(table)
    table.done()
    return keys.spec


def companion_of(table: Table) -> Companion:
    keys = CompanionKeys.read(table)
    table.done()
    if "." in keys.name:
        message = f"is {keys.name!r}; a name has no dot, which parts it from its links"
        raise table.error(message, "name")
    return Companion(keys.name, keys.spec, keys.controller)
