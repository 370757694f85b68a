"""Controllers that follow poses, from their tables; and none at all."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from controllers.controller import Controller
from controllers.pose.motion import MotionController, TrackingController, Trajectory, inner_freedoms
from controllers.registry import Registered, Setup
from jaxsim.io.joint_angles import pose_of
from jaxsim.io.keys import Keys, reads
from jaxsim.io.toml_table import Table
from jaxsim.io.world import KeyPose
from jaxsim.io.world_character import keys_of
from jaxsim.model import Model, State
from jaxsim.options import REQUIRED, option
from jaxsim.simulation.records import Control, no_control

SETTLING_TIME = 0.1  # [s]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Limp(Controller):
    """No torque at any joint."""

    def init(self, model: Model, state: State, obs: Any) -> None:
        """Nothing is remembered."""
        return None

    def update(self, memory, model, state, obs, dt) -> tuple[None, Control]:
        """Nothing."""
        return None, no_control(model)


@reads(Keys)
def limp(given: Keys, setup: Setup) -> Limp:
    """No torque at any joint."""
    return Limp()


@dataclass(frozen=True, kw_only=True)
class PathKey(Keys):
    """Pose to reach at a time."""

    time: float = option(REQUIRED, "when the pose is reached", unit="s", kind=float, above=0.0)
    pose: Table | None = option(
        None, "joint angles, as of `[character]`", unit="deg", shown="the pose before", kind=dict
    )


@dataclass(frozen=True, kw_only=True)
class TrackingKeys(Keys):
    """Keys of ``pd``."""

    path: tuple[PathKey, ...] = option(
        (), "poses and when each is reached", key="key", kind=list, entries=PathKey
    )


@dataclass(frozen=True, kw_only=True)
class MotionKeys(TrackingKeys):
    """Keys of ``motion``."""

    settling_time: float = option(
        SETTLING_TIME, "time in which a joint comes to its target", unit="s", above=0.0
    )


@reads(TrackingKeys)
def tracking(given: TrackingKeys, setup: Setup) -> Registered:
    """PD torques by the model's gains towards the poses, or towards the start pose."""
    model, top = setup.model, setup.model.topology
    limp = (np.asarray(model.gain_p) == 0) & (np.asarray(model.gain_d) == 0)
    names = dict.fromkeys(top.joint_names[top.dof_joint[d]] for d in top.actuated_dofs if limp[d])
    note = (
        f"motors without gains stay limp: {', '.join(names)}; give gains in the model's file, or"
        " its roles (docs/explanation/characters.md)"
    )
    return Registered(TrackingController(_path(given, setup)), notes=(note,) if names else ())


@reads(MotionKeys)
def motion(given: MotionKeys, setup: Setup) -> MotionController:
    """Accelerations towards the poses that constraints meet, whatever force it takes (equation
    22)."""
    path = _path(given, setup)
    return MotionController(path, given.settling_time, on=jnp.asarray(_followers(setup)))


def _path(given: TrackingKeys, setup: Setup) -> Trajectory:
    keys = tuple(KeyPose(key.time, pose_of(key.pose)) for key in given.path)
    times = [key.time for key in keys]
    if sorted(set(times)) != times:
        raise given.table.error(f"the times of the keys are {times}; they must increase", "key")
    path = keys_of(setup.world, setup.model, setup.state, keys)
    return Trajectory(*(jnp.asarray(x, setup.model.mass.dtype) for x in path))


def _followers(setup: Setup) -> np.ndarray:
    """(nv,) bool: the character's dofs with motors, or without any all its inner ones."""
    top = setup.model.topology
    own = np.array([kind == "character" for kind in setup.link_kinds])[top.dof_link]
    motors = np.isin(np.arange(top.nv), top.actuated_dofs) & own
    return motors if motors.any() else inner_freedoms(setup.model) & own
