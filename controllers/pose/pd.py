"""Proportional-derivative torques, clipped, with their damping handed to the implicit step."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from controllers.controller import Controller
from jaxsim.dynamics.kinematics import difference
from jaxsim.model import Model, State
from jaxsim.simulation.checks import check_array
from jaxsim.simulation.records import Control, Observation


def clip_torque(model: Model, torque: Array, damping: Array) -> Control:
    """Clip torques (nv,) to the joints' limits, with the damping (nv,) within them.

    A joint at its torque limit pushes with constant torque, so its damping is left out.
    """
    limit = model.torque_limit
    within = jnp.abs(torque) < limit
    # without an actuator both bounds are zero, and the gradient of clip would be a half there
    bounded = jnp.where(limit > 0, jnp.clip(torque, -limit, limit), 0.0)
    return Control(torque=bounded, damping=jnp.where(within, damping, 0.0))


def scale_torque(model: Model, torque: Array, damping: Array) -> Control:
    """Scale torques (nv,) to the joints' limits, together with their damping (nv,).

    A constant torque makes a light link, such as a foot in the air, overshoot within one step, and
    the other way in the next. With torque and damping scaled alike it comes to rest.
    """
    limited = jnp.isfinite(model.torque_limit)
    bound = jnp.where(limited & (model.torque_limit > 0), model.torque_limit, 1.0)
    scale = jnp.where(limited, bound / jnp.maximum(jnp.abs(torque), bound), 1.0)
    scale = jnp.where(model.torque_limit > 0, scale, 0.0)
    return Control(torque=scale * torque, damping=scale * damping)


def pose_error(model: Model, target: Array, q: Array) -> Array:
    """Difference (nv,) from q (nq,) to the target (nq,) [rad or m], zero for free joints.

    Of a ball it is the rotation vector from one to the other, the short way round, in the link's
    axes: those of its velocity, torque and gains.
    """
    return difference(model, target, q, free=False)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class PoseController(Controller):
    """Holds every actuated hinge, slide and ball at a target with the model's own gains.

    target (nq,) [rad, m, unit quaternions]; entries of unactuated joints are ignored. Sources:
    Shen's thesis, equation 3.2; for balls tau = kp L(q_r q^-1) - kd w, equation 1 of the
    topple-free-foot paper, here in the link's axes.
    """

    target: Array

    def check(self, model: Model) -> None:
        """Raise ModelError unless the target is a pose of the model."""
        check_array("controller.target", self.target, (model.topology.nq,), model.mass.dtype)

    def init(self, model: Model, state: State, obs: Any) -> None:
        """No memory."""
        return None

    def update(
        self, memory: None, model: Model, state: State, obs: Observation, dt: Array
    ) -> tuple[None, Control]:
        """kp (target - q) - kd qd, clipped."""
        error = pose_error(model, self.target, state.q)
        return None, clip_torque(
            model, model.gain_p * error - model.gain_d * state.qd, model.gain_d
        )
