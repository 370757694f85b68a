"""Builders of the controllers ``pd``, ``motion`` and ``ragdoll`` from their scenario tables."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from controllers.numbers import Numbered
from controllers.pose.motion import MotionController, TrackingController, Trajectory, inner_freedoms
from controllers.registry import Registered, Setup
from jaxsim.io.toml_table import Table
from jaxsim.io.world_character import keys_of
from jaxsim.io.world_tables import key_pose
from jaxsim.model import Model, State
from jaxsim.simulation.records import Control, no_control

SETTLING_TIME = 0.1  # [s]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Limp(Numbered):
    """Controller without torque at any joint."""

    def init(self, model: Model, state: State, obs: Any) -> None:
        """No memory."""
        return None

    def update(self, memory, model, state, obs, dt) -> tuple[None, Control]:
        """No torques."""
        return None, no_control(model)


def limp(table: Table, setup: Setup) -> Limp:
    """Controller of a ragdoll."""
    return Limp()


def tracking(table: Table, setup: Setup) -> Registered:
    """Controller with PD torques towards the poses of ``[[controller.key]]``, or the start pose."""
    model, top = setup.model, setup.model.topology
    limp = (np.asarray(model.gain_p) == 0) & (np.asarray(model.gain_d) == 0)
    names = dict.fromkeys(top.joint_names[top.dof_joint[d]] for d in top.actuated_dofs if limp[d])
    note = (
        f"motors without gains stay limp: {', '.join(names)}; give gains in the model's file, or"
        " its roles (docs/explanation/characters.md)"
    )
    return Registered(TrackingController(_path(table, setup)), notes=(note,) if names else ())


def motion(table: Table, setup: Setup) -> MotionController:
    """Controller that meets the accelerations towards ``[[controller.key]]`` poses exactly."""
    settling = table.number("settling_time", SETTLING_TIME, above=0.0)
    return MotionController(_path(table, setup), settling, on=jnp.asarray(_followers(setup)))


def _path(table: Table, setup: Setup) -> Trajectory:
    keys = tuple(map(key_pose, table.tables("key")))
    times = [key.time for key in keys]
    if sorted(set(times)) != times:
        raise table.error(f"the times of the keys are {times}; they must increase", "key")
    path = keys_of(setup.world, setup.model, setup.state, keys)
    return Trajectory(*(jnp.asarray(x, setup.model.mass.dtype) for x in path))


def _followers(setup: Setup) -> np.ndarray:
    """Mask (nv,) of the character's dofs with motors, or without any of all its inner ones."""
    top = setup.model.topology
    own = np.array([kind == "character" for kind in setup.link_kinds])[top.dof_link]
    motors = np.isin(np.arange(top.nv), top.actuated_dofs) & own
    return motors if motors.any() else inner_freedoms(setup.model) & own
