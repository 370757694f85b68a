"""Proportional-derivative torques, clipped, with their damping handed to the implicit step."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import Array

from jaxsim.model import Model, State
from jaxsim.simulation.step import Control, Observation


def clipped(model: Model, torque: Array, damping: Array) -> Control:
    """Control from torques (nv,) and the damping (nv,) within them.

    A joint at its torque limit pushes with constant torque, so its damping is left out.
    """
    limit = model.torque_limit
    within = jnp.abs(torque) < limit
    # without an actuator both bounds are zero, and the gradient of clip would be a half there
    bounded = jnp.where(limit > 0, jnp.clip(torque, -limit, limit), 0.0)
    return Control(torque=bounded, damping=jnp.where(within, damping, 0.0))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class PoseController:
    """Holds every actuated hinge and slide at a target with the model's own gains.

    target (nv,) [rad or m]; entries of unactuated joints are ignored. Source: Shen, equation 3.2.
    """

    target: Array

    def init(self, model: Model, state: State) -> None:
        """A pose controller remembers nothing."""
        return None

    def update(
        self, memory: None, model: Model, state: State, seen: Observation, dt: Array
    ) -> tuple[None, Control]:
        """kp (target - q) - kd qd, clipped."""
        top = model.topology
        if top.nq != top.nv:
            raise ValueError("PoseController needs a model of hinges and slides only")
        torque = model.gain_p * (self.target - state.q) - model.gain_d * state.qd
        return None, clipped(model, torque, model.gain_d)
