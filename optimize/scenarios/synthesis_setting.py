"""Scenes of synthesised motion as arrays: the body, its controller, walls, pushes and balls."""

from dataclasses import replace
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from controllers.goals.controller import GoalController
from controllers.goals.machine import GoalMachine
from controllers.goals.senses import Objects
from controllers.goals.tasks import reach
from jaxsim.characters.human import articulated_human, start
from jaxsim.characters.human_effectors import human_effectors
from jaxsim.characters.poses import posed
from jaxsim.io.toml_table import suggestion
from jaxsim.model import Model, State, box
from jaxsim.model.adopt import add_model
from jaxsim.model.builder import ModelBuilder
from jaxsim.simulation.pushes import Pushes, push, pushes_together
from jaxsim.synthesis.checks import check_setup
from jaxsim.synthesis.config import SynthesisConfig
from jaxsim.synthesis.scheme import PerStepOptimisation
from optimize.scenarios.synthesis_scenes import Ball, SynthesisScene, Wall

WALL = (0.05, 2.0, 1.25)  # half extents [m]


class Setting(NamedTuple):
    """A scene as arrays."""

    model: Model
    scheme: PerStepOptimisation
    controller: GoalController
    state: State
    pushes: Pushes | None

    @property
    def machine(self) -> GoalMachine:
        return self.controller.machine

    @property
    def objects(self) -> Objects | None:
        """What flies about."""
        return self.controller.objects


def set_up(
    scene: SynthesisScene, model: Model | None = None, config: SynthesisConfig | None = None
) -> Setting:
    """Build what a scene describes; model: another body, with the scene's surroundings in it;
    config: of the steps, by default with the torque limits that the scene asks for."""
    config = config or SynthesisConfig(torque_limits=scene.torque_limits)
    if model is None:
        model = with_walls(articulated_human(scene.build, friction=scene.friction), scene.walls)
    state = posed(model, dict(scene.pose_deg)) if scene.pose_deg else start(model, "standing")
    pushes = None
    if scene.pushes:
        angles = [np.deg2rad(p.direction_deg) for p in scene.pushes]
        pushes = pushes_together(
            *(
                push(
                    model,
                    p.link,
                    (p.force * np.cos(a), p.force * np.sin(a), 0.0),
                    start=p.start,
                    duration=p.duration,
                )
                for p, a in zip(scene.pushes, angles)
            )
        )
    thrown = thrown_balls(model, scene.balls) if scene.balls else None
    points = human_effectors(model)
    machine = with_additions(scene, points.names)
    check_setup(model, points, state, None, pushes)
    scheme = PerStepOptimisation.of(model, points, config)
    return Setting(model, scheme, GoalController.of(machine, model, thrown), state, pushes)


def with_additions(scene: SynthesisScene, effectors: tuple[str, ...]) -> GoalMachine:
    """The scene's machine with the goals and constraints that are added for a while."""
    for asked in (*scene.reaches, *scene.holds):
        if asked.effector not in effectors:
            raise ValueError(
                f"there is no effector {asked.effector!r}{suggestion(asked.effector, effectors)};"
                f" there are {', '.join(effectors)}"
            )
    machine = replace(scene.machine(), holds=scene.holds)
    for k, asked in enumerate(scene.reaches):
        where = jnp.asarray(asked.target)
        name, times = f"reach_{k + 1}", (asked.start, asked.end, asked.onset)
        goal = reach(name, asked.effector, lambda *_, where=where: where, *times)
        machine = machine.adding(goal, asked.weight)
    return machine


def with_walls(model: Model, walls: tuple[Wall, ...]) -> Model:
    """The model's characters and world, and walls."""
    if not walls:
        return model
    b = ModelBuilder()
    add_model(b, model)
    for wall in walls:
        a = np.deg2rad(wall.direction_deg)
        away = wall.distance + WALL[0]
        quat = (float(np.cos(a / 2)), 0.0, 0.0, float(np.sin(a / 2)))
        at = (away * np.cos(a), away * np.sin(a), WALL[2])
        b.add_shape("world", box(WALL, name=wall.name, pos=at, quat=quat, friction=0.8))
    return b.build()


def thrown_balls(model: Model, balls: tuple[Ball, ...]) -> Objects:
    """Balls at time 0, on the way to where they are to be."""
    dtype, gravity = model.mass.dtype, np.asarray(model.gravity)
    velocity = np.array([np.array(b.velocity) - gravity * b.arrives for b in balls])
    position = np.array(
        [
            np.array(b.target) - np.array(b.velocity) * b.arrives + gravity * b.arrives**2 / 2
            for b in balls
        ]
    )
    return Objects(
        jnp.asarray(position, dtype),
        jnp.asarray(velocity, dtype),
        jnp.asarray([b.radius for b in balls], dtype),
    )


def flight(setting: Setting, time: np.ndarray) -> np.ndarray:
    """(T, no, 3) where the balls are."""
    assert setting.objects is not None
    at = setting.objects.at(jnp.asarray(time)[:, None, None], setting.model.gravity)
    return np.asarray(at.position)
