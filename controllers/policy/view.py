"""Inputs of a policy: a character at an instant, and its commands."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.dynamics.kinematics import forward_kinematics
from jaxsim.math.products import matmul
from jaxsim.math.safe import safe_norm
from jaxsim.model import Model, State


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class PolicyInput:
    """One character as observations, rewards and conditions see it."""

    model: Model
    state: State
    obs: Any  # what the scheme observes, as ``jaxsim.simulation.records.Observation``
    pose: Array  # (nq,) that angles are counted from: the start's
    upright: Array  # (3, 3) orientation of the root link in that pose
    height: Array  # () of the centre of mass in that pose [m]
    command: Mapping[str, Array]  # name -> () value, such as speed [m/s]
    action: Array  # (na,) the last one, from -1 to 1
    wanted: Array | None = None  # (nq,) the pose that a clip has now

    @property
    def turned(self) -> Array:
        """Rotation (3, 3) of the root link from its orientation in the pose to the present one."""
        return matmul(self.obs.kin.link_rot[root_link(self.model)], self.upright.T)

    @property
    def heading(self) -> Array:
        """Rotation (3, 3) of the root about the vertical since the pose.

        Of a planar body the identity; of a body that lies, the direction in which the forward axis
        of the pose points now.
        """
        if self.model.topology.planar:
            return jnp.eye(3, dtype=self.state.q.dtype)
        x, y = self.turned[0, 0], self.turned[1, 0]
        length = jnp.maximum(safe_norm(jnp.stack([x, y])), 1e-6)
        cos, sin = x / length, y / length
        zero, one = jnp.zeros_like(cos), jnp.ones_like(cos)
        return jnp.stack(
            [
                jnp.stack([cos, -sin, zero]),
                jnp.stack([sin, cos, zero]),
                jnp.stack([zero, zero, one]),
            ]
        )

    def ahead(self, vector: Array) -> Array:
        """Vectors (..., 3) of the world in the frame of the heading."""
        return matmul(vector, self.heading)


def root_link(model: Model) -> int:
    """Pelvis, or of a body without one the first link of the character."""
    top = model.topology
    if top.roles.link("pelvis") is not None:
        return top.part("pelvis")
    return int(np.flatnonzero(top.main_links)[0])


def stance(model: Model, state: State) -> tuple[Array, Array]:
    """Fields ``upright`` (3, 3) and ``height`` () of a ``PolicyInput``, from its pose's state."""
    kin = forward_kinematics(model, state.q, state.qd)
    own = model.topology.main_links
    mass = jnp.where(own, model.mass, 0.0)
    height = jnp.sum(mass * kin.com[:, 2]) / jnp.sum(mass)
    return kin.link_rot[root_link(model)], height
