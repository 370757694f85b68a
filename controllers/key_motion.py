"""Key poses followed by motion constraints: accelerations that are met whatever force it takes."""

import dataclasses
from dataclasses import dataclass
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from controllers.pd import pose_error
from jaxsim.constraints.acceleration import target_acceleration
from jaxsim.dynamics.kinematics import integrate
from jaxsim.model import Model, State
from jaxsim.simulation.step import Control, MotionControl, Observation, no_control


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class KeyMotion:
    """Moves from key pose to key pose, at rest in each, and stays in the last.

    Hinges, slides and balls between two poses take u^3 (10 - 15 u + 6 u^2) of the way (u from 0 to
    1: no jump in acceleration); free roots are left alone. Errors decay by equation 22 of Kokkevis
    (2004). Sources: there, section 8.3; the polynomial is that of least jerk.
    """

    time: Array  # (n,) increasing, from 0 on [s]
    q: Array  # (n, nq) poses
    step: Array  # (n, nv) the way from each pose to the next; of the last, none
    on: Array  # (nv,) bool: the freedoms that follow
    settling_time: Array  # () [s]

    def init(self, model: Model, state: State) -> None:
        """It remembers nothing."""
        return None

    def target(self, model: Model, time: Array) -> tuple[Array, Array, Array]:
        """Positions (nq,), velocities (nv,) and accelerations (nv,) at a time [s]."""
        ends = jnp.append(self.time[1:], jnp.inf)
        now = (time >= self.time) & (time < ends)
        length = jnp.sum(jnp.where(now, jnp.append(jnp.diff(self.time), 1.0), 0.0))
        begin, way = jnp.sum(jnp.where(now, self.time, 0.0)), now[:, None]
        q = jnp.sum(jnp.where(way, self.q, 0.0), axis=0)
        step = jnp.sum(jnp.where(way, self.step, 0.0), axis=0)
        u = (time - begin) / length
        part = u**3 * (10 + u * (6 * u - 15))
        rate = 30 * u**2 * (1 - u) ** 2 / length
        change = 60 * u * (1 - u) * (1 - 2 * u) / length**2
        return integrate(model, q, step, part), rate * step, change * step

    def update(
        self, memory: None, model: Model, state: State, seen: Observation, dt: Array
    ) -> tuple[None, Control]:
        """No torque; the accelerations of the freedoms that follow."""
        q, qd, qdd = self.target(model, state.time)
        back = target_acceleration(pose_error(model, q, state.q), qd - state.qd, self.settling_time)
        motion = MotionControl(acceleration=qdd + back, on=self.on)
        return None, dataclasses.replace(no_control(model), motion=motion)


def key_motion(
    model: Model, time: np.ndarray, q: np.ndarray, settling_time: float, links: int
) -> KeyMotion:
    """The controller of poses q (n, nq) at times (n,) [s], for the first ``links`` links."""
    dtype = model.mass.dtype
    poses = jnp.asarray(q, dtype)
    steps = [pose_error(model, after, before) for before, after in pairwise(poses)]
    top = model.topology
    kinds = np.array(top.joint_kinds)[top.dof_joint]
    return KeyMotion(
        time=jnp.asarray(time, dtype),
        q=poses,
        step=jnp.stack([*steps, jnp.zeros(top.nv, dtype)]),
        on=jnp.asarray((kinds != "free") & (top.dof_link < links)),
        settling_time=jnp.asarray(settling_time, dtype),
    )
