"""Contents of a world file as plain numbers; `jaxsim.io.world_file` reads them from TOML."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from jaxsim.io.toml_table import Table
from jaxsim.model import Joint, Shape

Vector = tuple[float, ...]
ZERO: Vector = (0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Body:
    """Loose body: one solid shape of uniform density, whose frame is the body's."""

    name: str
    shape: Shape
    mass: float  # [kg]
    pos: Vector = ZERO  # [m]
    quat: Vector = (1.0, 0.0, 0.0, 0.0)
    velocity: Vector = ZERO  # in the world's frame [m/s]
    angular_velocity: Vector = ZERO  # in the world's frame [rad/s]
    throw_at: float | None = None  # held until then, and thrown with its velocity [s]


@dataclass(frozen=True)
class DrivenBody:
    """Shape with prescribed motion, which no force changes.

    Its joints' drives give the motion, relative to the world or to another driven body. Without
    joints it is part of that one.
    """

    name: str
    shape: Shape
    joints: tuple[Joint, ...]
    pos: Vector = ZERO  # [m]
    quat: Vector = (1.0, 0.0, 0.0, 0.0)
    on: str = "world"  # or a driven body that is given before


@dataclass(frozen=True)
class Grip:
    """Point of a link held at a point of another link or of the world, for a time."""

    name: str
    link: str
    point: Vector = ZERO  # in the link's frame [m]
    to: str = "world"
    to_point: Vector | None = None  # [m]; None: where the point is at the start
    strength: float = np.inf  # [N]
    close: float = 0.0  # [s]
    open: float = np.inf  # [s]


@dataclass(frozen=True)
class Hold:
    """Point (a sphere) or bar (a capsule) that hands and feet can hold, without collisions.

    See ``jaxsim.synthesis.holds``.
    """

    name: str
    shape: Shape
    on: str = "world"  # or a driven body
    reach: float = 0.06  # from which an effector takes hold [m]
    strength: float = np.inf  # [N]
    lasts: float = np.inf  # [s]
    slides: bool = False  # of a bar: hands slide along it
    push: Vector = (0.0, 0.0, 1.0)  # the way a foot on it is pushed, in the shape's frame


@dataclass(frozen=True)
class Push:
    """Force on a link for a time."""

    link: str
    force: Vector  # in the world's frame [N]
    start: float = 0.0  # [s]
    duration: float = np.inf  # [s]
    point: Vector | None = None  # in the link's frame [m]; None: its centre of mass


@dataclass(frozen=True)
class KeyPose:
    """Joint angles to be reached at a time."""

    time: float  # [s]
    pose: dict[str, Any]  # joint name -> [deg], of a ball (3,) rotation vector


@dataclass(frozen=True)
class CharacterSpec:
    """Character of a world file: its model, start pose and placement."""

    model: str  # a built-in character's name or a model file
    options: dict[str, Any] = field(default_factory=dict)  # of the built-in character's function
    start: str | None = None  # a start pose or key frame; None: the first one there is
    pose: dict[str, Any] = field(default_factory=dict)  # on top of it, as in KeyPose
    pos: Vector = ZERO  # added to the start pose [m]
    quat: Vector = (1.0, 0.0, 0.0, 0.0)  # turns the start pose about the world's origin first
    velocity: Vector = ZERO  # of the root [m/s]
    angular_velocity: Vector = ZERO  # of the root, in the world's frame [rad/s]
    self_collision: bool | None = None  # None: as a model file has it, else not
    bears: tuple[str, ...] = ()  # links with effectors besides feet and hands


@dataclass(frozen=True)
class Companion:
    """Another character of the world, built like the first; its links are called ``name.link``."""

    name: str
    spec: CharacterSpec
    controller: Table | None = None


@dataclass(frozen=True)
class Clasp:
    """Two hands that may hold each other, see ``jaxsim.synthesis.clasps``.

    As "leftHand" of the character and "child.rightHand" of a companion.
    """

    hand: str
    to: str
    reach: float = 0.06  # from which they take hold [m]
    strength: float = np.inf  # [N]


@dataclass(frozen=True)
class World:
    """Whole world file. SI units and radians, except poses."""

    name: str = "world"
    title: str = ""
    gravity: Vector = (0.0, 0.0, -9.81)  # [m/s^2]
    seconds: float = 5.0  # how long a simulation is by default [s]
    dt: float | None = None  # [s]; None: the default of the scheme
    scheme: str = "time_stepping"  # or "event_driven", "per_step_optimisation"
    settings: Mapping[str, Any] = field(default_factory=dict)  # fields of the scheme
    ground: bool | None = (
        None  # whether the character's own ground stays; None: if nothing is fixed
    )
    fixed: tuple[Shape, ...] = ()
    bodies: tuple[Body, ...] = ()
    driven: tuple[DrivenBody, ...] = ()
    grips: tuple[Grip, ...] = ()
    holds: tuple[Hold, ...] = ()
    pushes: tuple[Push, ...] = ()
    character: CharacterSpec | None = None
    companions: tuple[Companion, ...] = ()
    clasps: tuple[Clasp, ...] = ()
    controller: Table | None = None  # what drives it; its keys are the controller's own
    environment: Table | None = (
        None  # observations, actions and rewards of a policy that learns here
    )
    folder: Path = Path()  # where model files are looked for
    source: str | None = None  # the text of the file
