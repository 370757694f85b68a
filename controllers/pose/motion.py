"""Tracking of a motion through time: by PD torques, or by constraints that are met exactly."""

import dataclasses
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from controllers.controller import Controller
from controllers.pose.pd import clip_torque, pose_error
from jaxsim.constraints.acceleration import target_acceleration
from jaxsim.dynamics.kinematics import integrate
from jaxsim.model import Model, ModelError, State
from jaxsim.model.joints import V_SIZE
from jaxsim.simulation.checks import check_array, has_values
from jaxsim.simulation.records import Control, MotionControl, Observation, no_control


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Trajectory:
    """Poses at times, with straight lines between them; before and after, the nearest pose.

    time (k,) [s], increasing; q (k, nq) poses, of which the joints count and not a free root.
    """

    time: Array
    q: Array

    def check(self, model: Model, name: str) -> None:
        """Raise ModelError unless there is a pose of the model for each time."""
        dtype, count = model.mass.dtype, np.shape(self.time)[-1:]
        if count in ((), (0,)):
            given = np.shape(self.time)
            raise ModelError(f"{name}.time has shape {given}, expected (k,), a time for each pose")
        check_array(f"{name}.time", self.time, count, dtype)
        check_array(f"{name}.q", self.q, (*count, model.topology.nq), dtype)
        if has_values(self.time) and not (np.diff(np.asarray(self.time)) > 0).all():
            raise ModelError(f"{name}.time does not rise from each pose to the next")

    def at(self, model: Model, time: Array) -> tuple[Array, Array]:
        """Pose (nq,) at a time [s] and its velocity (nv,), zero for free joints."""
        last = self.time.shape[0] - 2
        k = jnp.clip(jnp.sum(self.time <= time) - 1, 0, max(last, 0))
        if last < 0:
            return self.q[0], jnp.zeros(model.topology.nv, self.q.dtype)
        span = self.time[k + 1] - self.time[k]
        part = jnp.clip((time - self.time[k]) / span, 0.0, 1.0)
        way = pose_error(model, self.q[k + 1], self.q[k])
        inside = (time >= self.time[0]) & (time < self.time[-1])
        velocity = jnp.where(inside, way / span, 0.0)
        return integrate(model, self.q[k], way, part), velocity


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class TrackingController(Controller):
    """PD torques towards a trajectory with the model's own gains, clipped."""

    trajectory: Trajectory

    def check(self, model: Model) -> None:
        """Raise ModelError unless the trajectory is one of the model."""
        self.trajectory.check(model, "controller.trajectory")

    def init(self, model: Model, state: State, obs: Any) -> None:
        """No memory."""
        return None

    def update(
        self, memory: None, model: Model, state: State, obs: Observation, dt: Array
    ) -> tuple[None, Control]:
        """kp (q_d - q) + kd (qd_d - qd)."""
        q, qd = self.trajectory.at(model, state.time)
        error, rate = pose_error(model, q, state.q), qd - state.qd
        torque = model.gain_p * error + model.gain_d * rate
        return None, clip_torque(model, torque, model.gain_d)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class MotionController(Controller):
    """Constraints that give the joints the accelerations of equation 22, whatever it takes.

    on (nv,) bool: the dofs that follow, by default all but those of free joints; settling_time [s]:
    see ``target_acceleration``; remaining: share of an error that is left after it, None for the
    gains of Kokkevis (2004). Source: Kokkevis (2004), section 8.3.
    """

    trajectory: Trajectory
    settling_time: Array | float = 0.1
    remaining: float | None = dataclasses.field(default=0.1, metadata={"static": True})
    on: Array | None = None

    def check(self, model: Model) -> None:
        """Raise ModelError unless trajectory and dofs have the sizes of the model."""
        self.trajectory.check(model, "controller.trajectory")
        dtype = model.mass.dtype
        check_array("controller.settling_time", self.settling_time, (), dtype)
        if self.on is not None:
            check_array("controller.on", self.on, (model.topology.nv,), bool)

    def init(self, model: Model, state: State, obs: Any) -> None:
        """No memory."""
        return None

    def update(
        self, memory: None, model: Model, state: State, obs: Observation, dt: Array
    ) -> tuple[None, Control]:
        """Kp (q_d - q) + Kd (qd_d - qd) as accelerations."""
        q, qd = self.trajectory.at(model, state.time)
        error, rate = pose_error(model, q, state.q), qd - state.qd
        wanted = target_acceleration(error, rate, self.settling_time, self.remaining)
        on = inner_freedoms(model) if self.on is None else self.on
        motion = MotionControl(acceleration=jnp.where(on, wanted, 0.0), on=jnp.asarray(on))
        return None, replace(no_control(model), motion=motion)


def inner_freedoms(model: Model) -> np.ndarray:
    """Mask (nv,) of the dofs of all joints except free and driven ones."""
    top = model.topology
    inner = np.repeat(
        [kind != "free" for kind in top.joint_kinds], [V_SIZE[k] for k in top.joint_kinds]
    )
    inner[top.driven_dofs] = False
    return inner
