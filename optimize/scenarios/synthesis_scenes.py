"""Scenes of the synthesised behaviours: a body, what stands around it, what happens to it.

Source: Jain, Ye, Liu (2009), section 6.1.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from controllers.goals.balance import balance_machine
from controllers.goals.holds import Hold, at_once, check_holds
from controllers.goals.machine import GoalMachine
from controllers.goals.one_foot import one_foot_machine
from controllers.goals.surroundings import dodge, hands_to_wall
from jaxsim.io.toml_table import suggestion

PUSHED_AT = 1.0  # [s]


@dataclass(frozen=True)
class Wall:
    """A fixed upright box: its near face at ``distance`` from the origin, seen in a direction."""

    distance: float  # [m]
    direction_deg: float = 0.0  # 0 ahead, 90 to the left
    name: str = "wall"


@dataclass(frozen=True)
class Push:
    """A horizontal force on a link."""

    force: float  # [N]
    direction_deg: float = 0.0  # in which it pushes: 0 forward, 90 to the left
    start: float = PUSHED_AT  # [s]
    duration: float = 0.2  # [s]
    link: str = "pelvis"


@dataclass(frozen=True)
class Ball:
    """Thrown so that it would be at ``target`` [m] at time ``arrives`` [s]."""

    target: tuple[float, float, float]
    velocity: tuple[float, float, float]  # when it arrives [m/s]
    arrives: float = 0.8
    radius: float = 0.033  # a tennis ball


@dataclass(frozen=True)
class Reach:
    """A goal added for a while: an effector to a point of the world.

    Raises ValueError for a place or times that are not finite, an onset below zero, or an end that
    is not after the start.
    """

    effector: str
    target: tuple[float, float, float]  # [m]
    start: float  # [s]
    end: float  # [s]
    weight: float = 2.0
    onset: float = 0.3  # in which it comes to its weight [s]

    def __post_init__(self):
        numbers = (*self.target, self.start, self.end, self.weight, self.onset)
        if not np.isfinite(numbers).all() or self.onset < 0:
            raise ValueError(
                f"reach of {self.effector!r}: {numbers} are not all finite, or the last, the onset,"
                " is negative"
            )
        if self.end <= self.start:
            raise ValueError(
                f"reach of {self.effector!r}: it ends at {self.end:g} s, and begins at"
                f" {self.start:g} s"
            )


@dataclass(frozen=True)
class SynthesisScene:
    """One character, a machine of goals, and its surroundings."""

    title: str
    machine: Callable[[], GoalMachine] = balance_machine
    build: str = "adult"
    friction: float = 1.0
    walls: tuple[Wall, ...] = ()
    pushes: tuple[Push, ...] = ()
    balls: tuple[Ball, ...] = ()
    reaches: tuple[Reach, ...] = ()
    holds: tuple[Hold, ...] = ()
    torque_limits: bool = False  # whether joints keep to theirs
    seconds: float = 10.0
    pose_deg: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self):
        """ValueError where an effector is to be in two places at once."""
        check_holds(self.holds)
        for k, reach in enumerate(self.reaches):
            elsewhere = [r for r in self.reaches[:k] if r.target != reach.target]
            for other in (*elsewhere, *self.holds):
                if other.effector == reach.effector and at_once(other, reach):
                    what = "held" if isinstance(other, Hold) else "to reach for another point"
                    raise ValueError(
                        f"reach of {reach.effector!r} from {reach.start:g} to {reach.end:g} s: it"
                        f" is {what} from {other.start:g} to {other.end:g} s; let one end before"
                        " the other begins"
                    )


def by_walls() -> GoalMachine:
    """The balance controller, and hands that look for support."""
    return balance_machine().adding(hands_to_wall(), HANDS_WEIGHT)


def dodging(harmful: bool) -> GoalMachine:
    """The balance controller out of the way of balls; of a harmful one from further away, with more
    weight and the document's other weights of balance (section 6.1.4)."""
    if not harmful:
        return balance_machine().adding(dodge(near=2.5), 1.0)
    machine = balance_machine().adding(dodge(near=4.0), 3.0)
    weights = {"com": 2.0, "spine": 30.0, "damping": 0.5}
    calm = machine.states["balance"]
    states = {**machine.states, "balance": replace(calm, goals={**calm.goals, **weights})}
    return replace(machine, states=states)


HANDS_WEIGHT = 0.8  # as of a foot on its way

SMALL = tuple(
    Push(60.0, 45.0 * k, start=5.0 + 6.0 * k) for k in range(8)
)  # one from each side, over a minute
SCENES: dict[str, SynthesisScene] = {
    "stand": SynthesisScene(
        "Standing for a minute, pushed eight times", pushes=SMALL, seconds=60.0
    ),
    "one_foot": SynthesisScene("On one foot, then in a pose", one_foot_machine, seconds=12.0),
    "push": SynthesisScene("Pushed: as many steps as it takes", pushes=(Push(300.0),)),
    "ice": SynthesisScene("The same on ice", friction=0.2, pushes=(Push(300.0),)),
    "near_wall": SynthesisScene(
        "A wall within reach", by_walls, walls=(Wall(0.55),), pushes=(Push(300.0),)
    ),
    "far_wall": SynthesisScene(
        "A wall some steps away", by_walls, walls=(Wall(0.85),), pushes=(Push(500.0),)
    ),
    "two_walls": SynthesisScene(
        "Walls ahead and to the left",
        by_walls,
        walls=(Wall(0.6), Wall(0.7, 90.0, "side_wall")),
        pushes=(Push(300.0, 60.0),),
    ),
    "dodge_tennis_ball": SynthesisScene(
        "Out of the way of a tennis ball",
        lambda: dodging(False),
        balls=(Ball((0.0, 0.05, 1.6), (-8.0, 0.0, -3.0)),),
        seconds=6.0,
    ),
    "dodge_harmful_ball": SynthesisScene(
        "Out of the way of a harmful ball",
        lambda: dodging(True),
        balls=(Ball((0.0, 0.15, 1.25), (-4.0, 0.0, -4.5), arrives=1.0, radius=0.12),),
        seconds=6.0,
    ),
    "child": SynthesisScene(
        "A child, the same controller and weights", build="child", pushes=(Push(90.0),)
    ),
}


def find_scene(name: str) -> SynthesisScene:
    """A scene by name; ValueError lists the names."""
    if name not in SCENES:
        raise ValueError(
            f"there is no scene {name!r}{suggestion(name, tuple(SCENES))}; there are:"
            f" {', '.join(SCENES)}"
        )
    return SCENES[name]


def changed(
    scene: SynthesisScene,
    push: float | None = None,
    direction_deg: float | None = None,
    duration: float | None = None,
    build: str | None = None,
    friction: float | None = None,
    seconds: float | None = None,
    reaches: tuple[Reach, ...] = (),
    holds: tuple[Hold, ...] = (),
    torque_limits: bool | None = None,
) -> SynthesisScene:
    """A scene with another push (in the place of its own), body, ground or length, with or without
    limits of the torques, or with goals and constraints added."""
    if push is not None or direction_deg is not None or duration is not None:
        first = scene.pushes[0] if scene.pushes else Push(0.0)
        given = {"force": push, "direction_deg": direction_deg, "duration": duration}
        own = {key: value for key, value in given.items() if value is not None}
        scene = replace(scene, pushes=(replace(first, **own),))
    if friction is not None and not (np.isfinite(friction) and friction > 0):
        raise ValueError(f"friction is {friction}; a body needs a positive one to stand")
    changes = {
        "build": build,
        "friction": friction,
        "seconds": seconds,
        "torque_limits": torque_limits,
    }
    scene = replace(scene, reaches=(*scene.reaches, *reaches), holds=(*scene.holds, *holds))
    return replace(scene, **{key: value for key, value in changes.items() if value is not None})
