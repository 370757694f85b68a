"""What passes between a step and a controller, and what happened: for measures and records."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import Array

from jaxsim.collision.contacts import Contacts
from jaxsim.dynamics.kinematics import Kinematics
from jaxsim.model.model import Model


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Observation:
    """What a controller may look at: everything that follows from the state."""

    kin: Kinematics
    contacts: Contacts
    touching: Array  # (nl,) bool: the link is in contact
    com: Array  # (3,) [m]
    com_velocity: Array  # (3,) [m/s]

    @property
    def contact_point(self) -> Array:
        """(nc, 3) where there may be a contact [m]."""
        return self.contacts.point

    @property
    def link_touching(self) -> Array:
        """(nl,) bool: ``touching``; all schemes' observations have this name."""
        return self.touching


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class MotionControl:
    """DOFs whose accelerations are met exactly, by whatever force it takes.

    Kokkevis (2004), section 8.3; ``constraints.acceleration.target_acceleration`` gives the
    accelerations of his equation 22.
    """

    acceleration: Array  # (nv,) [m/s^2 or rad/s^2]
    on: Array  # (nv,) bool: the dofs that it holds for


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Control:
    """Generalised forces for one step, and how they fall with velocity within it."""

    torque: Array  # (nv,) at the step's first instant, within the actuators' limits [N m or N]
    damping: Array  # (nv,) -d torque / d qd, treated implicitly; 0 where the actuator saturates
    closed: Array | None = None  # (ng,) bool: the grips that are closed; None for all
    motion: MotionControl | None = None
    # (nl, 6) from outside on the links, in the world: torque [N m], force at the centre of mass [N]
    external: Array | None = None
    friction: Array | None = None  # (nl,) by which the friction of a link's contacts is multiplied


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class StepInfo:
    """What happened in a step."""

    contact_force: Array  # (nc, 3) on shape a, in the world [N]
    limit_torque: Array  # (n limited joints,) along the joint, of a ball about its axis [N m or N]
    grip_force: Array  # (ng, 3) on the link that holds, in the world [N]
    motion_force: (
        Array  # (nv,) what prescribed motion takes, of drives and MotionControl [N m or N]
    )
    residual: Array  # () of the complementarity problem, see ``natural_residual`` [m/s]
    energy_error: Array  # () made by the integration, see ``energy_error`` [J]
    penetration: Array  # () deepest at the step's first instant [m]
    dropped_contacts: Array  # () int: contacts that were near and not solved for
    # of what is not prescribed, with the inertia of the step's first instant: at it, and at the end
    kinetic_before: Array  # () [J]
    kinetic_after: Array  # () [J]
    work: Array  # () put in by motors, pushes, prescribed motion and grips that close [J]
    recovery: Array  # () the most that undoing depth and exceeded limits may have put in [J]


def no_control(model: Model) -> Control:
    """No torque at any joint."""
    zero = jnp.zeros(model.topology.nv, model.mass.dtype)
    return Control(torque=zero, damping=zero)
