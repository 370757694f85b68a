"""Observation, control and info of a step: what controllers, measures and records work with."""

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
    """Observation for a controller: kinematics, contacts and centre of mass of a state."""

    kin: Kinematics
    contacts: Contacts
    touching: Array  # (nl,) bool: the link is in contact
    com: Array  # (3,) [m]
    com_velocity: Array  # (3,) [m/s]

    @property
    def contact_point(self) -> Array:
        """(nc, 3) possible contact points [m]."""
        return self.contacts.point

    @property
    def link_touching(self) -> Array:
        """(nl,) bool: ``touching``, under the name that all schemes' observations have."""
        return self.touching


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class MotionControl:
    """DOFs with prescribed accelerations, which are met exactly at any force.

    Kokkevis (2004), section 8.3; ``constraints.acceleration.target_acceleration`` gives the
    accelerations of his equation 22.
    """

    acceleration: Array  # (nv,) [m/s^2 or rad/s^2]
    on: Array  # (nv,) bool: dofs with a prescribed acceleration


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Control:
    """Command for one step: generalised forces with damping, grips, prescribed motion, wrenches."""

    torque: Array  # (nv,) at the step's first instant, within the actuators' limits [N m or N]
    damping: Array  # (nv,) -d torque / d qd, treated implicitly; 0 where the actuator saturates
    closed: Array | None = None  # (ng,) bool: the grips that are closed; None for all
    motion: MotionControl | None = None
    # (nl, 6) wrenches on the links, in the world: torque [N m], force at the centre of mass [N]
    external: Array | None = None
    friction: Array | None = None  # (nl,) factors on the friction of a link's contacts


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class StepInfo:
    """Forces, energies and solver residual of one step of a contact scheme."""

    contact_force: Array  # (nc, 3) on shape a, in the world [N]
    limit_torque: Array  # (n limited joints,) along the joint, of a ball about its axis [N m or N]
    grip_force: Array  # (ng, 3) on the gripping link, in the world [N]
    motion_force: Array  # (nv,) needed by prescribed motion, of drives and MotionControl [N m or N]
    residual: Array  # () of the complementarity problem, see ``natural_residual`` [m/s]
    energy_error: Array  # () of the integration, see ``kinetic_by_work`` [J]
    penetration: Array  # () deepest at the step's first instant [m]
    dropped_contacts: Array  # () int: near contacts without rows
    # of dofs that are not prescribed, with the inertia of the first instant: at it, and at the end
    kinetic_before: Array  # () [J]
    kinetic_after: Array  # () [J]
    work: Array  # () of motors, pushes, prescribed motion and grips that close [J]
    recovery: Array  # () largest energy that recovery of penetration and limits may have added [J]


def no_control(model: Model) -> Control:
    """Control with zero torque and damping at every joint."""
    zero = jnp.zeros(model.topology.nv, model.mass.dtype)
    return Control(torque=zero, damping=zero)
