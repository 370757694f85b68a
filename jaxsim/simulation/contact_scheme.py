"""Base of the schemes that step with contacts, and their observation."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.collision.contacts import Contacts, find_contacts
from jaxsim.collision.slots import contact_slots
from jaxsim.dynamics.jacobians import center_of_mass, com_velocity
from jaxsim.dynamics.kinematics import forward_kinematics
from jaxsim.math.rotation import rotate
from jaxsim.model.model import Model
from jaxsim.model.state import State
from jaxsim.options import option
from jaxsim.simulation import checks
from jaxsim.simulation.health import Health, update_health
from jaxsim.simulation.measures import Measure, Sample, contact_measures
from jaxsim.simulation.prescribed import closed_grips
from jaxsim.simulation.records import Control, Observation
from jaxsim.simulation.scheme import Scheme
from jaxsim.simulation.warm_start import rest_of


def contacts_option() -> Any:
    """Field of a scheme: contact slots that a step solves for, at most."""
    return option(
        None,
        "contacts to solve for in a step, the nearest; the summary counts those left out",
        shown="all up to 64, else 40",
        kind=int,
        static=True,
        least=1,
    )


class ContactScheme(Scheme):
    """Base of schemes that step with contacts: observation, health and checks."""

    def observe(self, model: Model, state: State) -> Observation:
        """Observe a state with this scheme's touch distance, see ``observe``."""
        return observe(model, state, self)

    def watch(self, health: Health, model: Model, state: State, obs, after: State, info) -> Health:
        """Watch energy, speed and depth of a step: see ``simulation.health``."""
        return update_health(health, model, state, obs, after, info)

    def measures(self, model: Model) -> dict[str, Measure]:
        """Measures of depth, residual, dropped contacts, broken grips: see ``contact_measures``."""
        return contact_measures(model)

    def torque(self, command: Control, info: Any) -> Array:
        """(nv,) torque of the command and of prescribed motion [N m or N]."""
        return command.torque + info.motion_force

    def contact_links(self, model: Model) -> tuple[np.ndarray, np.ndarray]:
        """(nc,), (nc,) links of both sides of each contact slot, -1 for the world."""
        slots = contact_slots(model.topology)
        return np.asarray(slots.link_a), np.asarray(slots.link_b)

    def keep(self, model: Model, sample: Sample) -> dict[str, Array]:
        """Fields of a record: grips' positions (ng, 3) [m], forces (ng, 3) [N], closed (ng,)."""
        kin, links = sample.obs.kin, np.array(model.topology.grip_link, int)
        return {
            "grip_pos": kin.link_pos[links] + rotate(kin.link_rot[links], model.grip_point),
            "grip_force": sample.info.grip_force,
            "grip_closed": closed_grips(model, sample.state, sample.control),
        }

    def check(self, model: Model) -> None:
        """Raise ValueError or TypeError for an invalid number of the scheme."""
        checks.check_config(model, self, type(self))


def observe(model: Model, state: State, config: Any) -> Observation:
    """Kinematics and contacts of a state; config: a scheme, whose ``touch_distance`` is used.

    Raises ModelError for a state that is not of the model.
    """
    checks.check_model(model)
    checks.check_state_fits(model, state)
    with jax.named_scope("observe"):
        kin = forward_kinematics(model, state.q, state.qd, rest_of(state))
        contacts = find_contacts(model, kin)
        return Observation(
            kin=kin,
            contacts=contacts,
            touching=_touching(model, contacts, config.touch_distance),
            com=center_of_mass(model, kin),
            com_velocity=com_velocity(model, kin),
        )


def _touching(model: Model, contacts: Contacts, distance) -> Array:
    """(nl,) bool: links with a contact nearer than ``distance`` [m]."""
    slots = contact_slots(model.topology)
    links = np.arange(model.topology.n_links)[:, None]
    belongs = (slots.link_a[None] == links) | (slots.link_b[None] == links)
    near = jnp.where(belongs, contacts.gap, jnp.inf)
    return jnp.min(near, axis=1, initial=jnp.inf) <= distance
