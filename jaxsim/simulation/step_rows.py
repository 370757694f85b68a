"""Constraint rows of a time step: the nearest contacts, limits and grips."""

import dataclasses
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.collision.ahead import contacts_ahead
from jaxsim.collision.contacts import Contacts, take
from jaxsim.collision.nearest import Chosen, contact_count, nearest
from jaxsim.collision.slots import contact_slots
from jaxsim.constraints.rows import (
    RowLayout,
    contact_frame,
    contact_targets,
    grip_rows,
    limit_rows,
    row_layout,
)
from jaxsim.dynamics.kinematics import (
    Kinematics,
    point_velocity,
)
from jaxsim.math.products import matmul
from jaxsim.model.model import Model
from jaxsim.model.state import State
from jaxsim.simulation.external import with_friction
from jaxsim.simulation.prescribed import closed_grips
from jaxsim.simulation.records import Control, Observation
from jaxsim.simulation.row_blocks import contact_rows, packs, split_impulses
from jaxsim.simulation.step_options import StepOptions


@dataclass(frozen=True)
class StepRows:
    """Constraint rows of a step: contacts, limits and grips."""

    contacts: Contacts  # those to solve for
    chosen: Chosen | None  # where these are in the contact slots; None for all
    layout: RowLayout
    frame: Array  # (nc, k, 3) axes of each contact's rows
    J_limit: Array  # (nl, nv)
    J: Array  # (m, nv) of all rows
    target: Array  # (m,) [m/s, rad/s]


def assemble_rows(
    model: Model, state: State, obs: Observation, control: Control, config: StepOptions
) -> StepRows:
    """Assemble the rows of the nearest contacts, of limits and of grips."""
    kin, contacts = obs.kin, obs.contacts
    if control.friction is not None:
        contacts = with_friction(model, contacts, control.friction)
    contacts = contacts_ahead(model, kin, contacts, config.dt)
    chosen = choose(model, kin, contacts, config)
    if chosen is not None:
        contacts = take(contacts, chosen)
    layout = row_layout(model.topology, contacts.gap.shape[0])
    frame = contact_frame(model.topology, contacts.normal)
    J_limit, J, target = _rows(model, state, kin, contacts, chosen, frame, control, config)
    return StepRows(contacts, chosen, layout, frame, J_limit, J, target)


def _rows(model, state, kin, contacts, chosen, frame, control, config):
    """Jacobian of the limits, Jacobian (m, nv) of all rows, and their target velocities (m,)."""
    top, dt, layout = model.topology, config.dt, row_layout(model.topology, contacts.gap.shape[0])
    # recovery within less than a step would overshoot, further with every step
    recovery_time = jnp.maximum(config.stabilization_time, dt)
    J = contact_rows(model, kin, contacts, frame, chosen, packs(layout, chosen))
    approach = matmul(J[:, 0], state.qd)
    if config.impacts == "successive":  # whose bounces are resolved before
        contacts = dataclasses.replace(contacts, restitution=jnp.zeros_like(contacts.restitution))
    normal_target = contact_targets(
        contacts,
        approach,
        dt,
        recovery_time,
        config.recovery_speed,
        config.bounce_speed,
    )
    tangent_zero = jnp.zeros((layout.contacts, layout.contact_rows - 1), J.dtype)
    contact_target = jnp.concatenate([normal_target[:, None], tangent_zero], axis=1)
    J_limit, limit_target, _ = limit_rows(model, state.q, state.qd, dt, recovery_time)
    rows = [J.reshape(contact_target.size, top.nv), J_limit]
    targets = [contact_target.reshape(-1), limit_target]
    if layout.grips:
        closed = closed_grips(model, state, control)
        J_grip, grip_target = grip_rows(model, kin, closed, recovery_time)
        rows.append(J_grip.reshape(grip_target.size, top.nv))
        targets.append(grip_target.reshape(-1))
    return J_limit, jnp.concatenate(rows), jnp.concatenate(targets)


def choose(model: Model, kin: Kinematics, contacts: Contacts, config: StepOptions) -> Chosen | None:
    """Choose the contacts that a step solves for; None for all."""
    slots = contact_slots(model.topology)
    count = contact_count(slots.count, config.contacts)
    if count == slots.count:
        return None
    approach = jnp.zeros_like(contacts.gap)
    for link, sign in ((slots.link_a, 1.0), (slots.link_b, -1.0)):
        velocity = point_velocity(kin, jnp.asarray(np.maximum(link, 0)), contacts.point)
        along = jnp.sum(velocity * contacts.normal, axis=-1)
        approach = approach + sign * jnp.where(link >= 0, along, 0.0)
    ahead = contacts.gap + config.dt * jnp.minimum(approach, 0.0)
    return nearest(ahead, count, config.near_distance)


def all_impulses(model: Model, rows: StepRows, impulse: Array) -> Array:
    """Impulses of the rows of all contact slots, from those of the contacts to solve for."""
    if rows.chosen is None:
        return impulse
    of_contact, *_ = split_impulses(rows.layout, impulse)
    return _of_all_slots(model.topology, rows.layout, rows.chosen, of_contact, impulse)


def _of_all_slots(top, layout, chosen, of_contact: Array, impulse: Array) -> Array:
    """Impulses of the rows of all contact slots, from those of the chosen contacts."""
    of_contact = chosen.scatter(of_contact)
    padding = jnp.zeros(row_layout(top).n_contact_rows - of_contact.size, impulse.dtype)
    return jnp.concatenate([of_contact.reshape(-1), padding, impulse[layout.n_contact_rows :]])
