"""Contacts and constraints of one configuration in the event-driven scheme."""

import dataclasses
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.collision.contacts import Contacts, find_contacts, take
from jaxsim.collision.nearest import Chosen, contact_count, nearest
from jaxsim.collision.seams import correct_seams
from jaxsim.collision.slots import contact_slots
from jaxsim.constraints.acceleration import (
    AccelerationRows,
    grip_rows,
    joint_rows,
    point_rows,
    row_jacobian,
    stack_rows,
)
from jaxsim.constraints.rows import (
    contact_frame,
    contact_jacobian,
    grip_axes,
    limit_rows,
    limit_sign,
)
from jaxsim.constraints.rows import grip_rows as velocity_grip_rows
from jaxsim.dynamics.articulated import articulated_body
from jaxsim.dynamics.kinematics import Kinematics, forward_kinematics, integrate, point_velocity
from jaxsim.math.products import matmul
from jaxsim.math.rotation import cross
from jaxsim.math.safe import safe_norm, safe_normalize
from jaxsim.model.model import Model
from jaxsim.model.state import State
from jaxsim.model.topology import Topology
from jaxsim.simulation.event_options import EventOptions
from jaxsim.simulation.prescribed import closed_grips, prescribed_motion
from jaxsim.simulation.records import Control
from jaxsim.solvers.lcp import Bounds, bilateral, together, unilateral, with_friction

ROUNDING = 1e-6  # slower approaches are within the solver's tolerance [m/s, rad/s]


@dataclass(frozen=True)
class EventScene:
    """Contacts, limits and grips of one configuration."""

    kin: Kinematics
    contacts: Contacts
    tangent: Array  # (nc, 3) unit, against the slip, or against the last one
    limit_gap: Array  # (nl,)
    limit_J: Array  # (nl, nv)
    chosen: Chosen | None  # contacts that have rows, if not all
    driven: np.ndarray  # (nv,) bool: dofs of driven joints

    @classmethod
    def of(cls, model: Model, state: State, config: EventOptions) -> "EventScene":
        kin = forward_kinematics(model, state.q, state.qd)
        contacts = correct_seams(model, kin, find_contacts(model, kin))
        slots = contact_slots(model.topology)
        slip = jnp.zeros_like(contacts.point)
        for link, sign in ((slots.link_a, 1.0), (slots.link_b, -1.0)):
            moves = jnp.asarray((link >= 0)[:, None], slip.dtype)
            velocity = point_velocity(kin, jnp.asarray(np.maximum(link, 0)), contacts.point)
            slip = slip + sign * moves * velocity
        n = contacts.normal
        slides = slip - n * jnp.sum(slip * n, axis=-1, keepdims=True)
        last = jnp.asarray(state.solver.tangent)
        kept = safe_normalize(last - n * jnp.sum(last * n, -1, keepdims=True))
        speed = safe_norm(slides, keepdims=True)
        tangent = jnp.where(speed > config.slip_speed, -safe_normalize(slides), kept)
        limit_J, _, gap = limit_rows(model, state.q, state.qd, 0.0, 1.0)
        chosen = None
        count = contact_count(slots.count, config.contacts)
        if count < slots.count:
            chosen = nearest(contacts.gap, count, config.touch_distance)
        driven = np.isin(np.arange(model.topology.nv), model.topology.driven_dofs)
        return cls(kin, contacts, tangent, gap, limit_J, chosen, driven)

    def with_friction_directions(self, model: Model, torque: Array) -> "EventScene":
        """Scene with friction against the direction in which a contact would begin to slide.

        For contacts that never slid; Kokkevis (2004) takes any tangent then, and lets it slide for
        a step.
        """
        contacts, _ = self._selected()
        frame = contact_frame(model.topology, contacts.normal)
        J = contact_jacobian(model, self.kin, contacts, frame, self.chosen)
        along = matmul(J, articulated_body(model, self.kin, torque))[:, 1:, None]
        begins = -safe_normalize(jnp.sum(along * frame[:, 1:], axis=1))
        if self.chosen is not None:
            begins = self.chosen.scatter(begins)
        slid = jnp.any(self.tangent != 0, axis=-1, keepdims=True)
        return dataclasses.replace(self, tangent=jnp.where(slid, self.tangent, begins))

    @property
    def dropped_contacts(self) -> Array:
        """() int: number of contacts that touch and have no row."""
        return jnp.zeros((), int) if self.chosen is None else self.chosen.dropped_contacts

    def _selected(self) -> tuple[Contacts, Array]:
        """Contacts that have rows, and their tangents."""
        if self.chosen is None:
            return self.contacts, self.tangent
        return take(self.contacts, self.chosen), self.chosen.gather(self.tangent)

    def _rows(self, model: Model, state: State, control: Control) -> AccelerationRows:
        """Rows of contacts, limits, prescribed motion and grips, with zero desired velocities."""
        top = model.topology
        slots, (contacts, tangent) = contact_slots(top), self._selected()
        k = _rows_per_contact(top)
        directions = [contacts.normal, tangent, -tangent]
        if k > 3:  # sideways friction within the step, in both directions
            aside = cross(contacts.normal, tangent)
            directions += [aside, -aside]
        directions = jnp.stack(directions, axis=1).reshape(-1, 3)
        points = jnp.repeat(contacts.point, k, axis=0)
        links = [jnp.asarray(link) for link in (slots.link_a, slots.link_b)]
        if self.chosen is not None:
            links = [link[self.chosen.slot] for link in links]
        links = [jnp.repeat(link, k) for link in links]
        zeros = jnp.zeros(len(points))
        touch = point_rows(model, self.kin, links[0], points, directions, zeros, links[1])
        limits = joint_rows(model, [0] * len(self.limit_gap), jnp.zeros(len(self.limit_gap)))
        limits = dataclasses.replace(limits, torque=self.limit_J)
        dofs = _given_dofs(model, control)
        given = joint_rows(model, dofs, jnp.zeros(len(dofs)))
        shape = (top.n_grips, len(grip_axes(top, zeros.dtype)))
        grips = grip_rows(model, self.kin, closed_grips(model, state, control), jnp.zeros(shape))
        return stack_rows(touch, limits, given, grips)

    def _bounds(self, model: Model, rows: AccelerationRows) -> Bounds:
        contacts, _ = self._selected()
        k = _rows_per_contact(model.topology)
        count, limits = k * len(contacts.gap), len(self.limit_gap)
        bounds = together(
            with_friction(contacts.friction, k - 1),
            unilateral(limits),
            bilateral(len(rows.drift) - count - limits),
        )
        return jax.tree.map(
            lambda x: x.astype(rows.drift.dtype) if x.dtype.kind == "f" else x, bounds
        )

    def _touching(
        self, model: Model, rows: AccelerationRows, control: Control, config: EventOptions
    ) -> Array:
        """(m,) bool: rows that act, those of contacts and limits only within the touch distance."""
        contacts, _ = self._selected()
        near = contacts.gap <= config.touch_distance
        near = jnp.repeat(near, _rows_per_contact(model.topology))
        limits = self.limit_gap <= config.touch_distance
        rest = jnp.ones(len(rows.drift) - len(near) - len(limits), bool)
        if control.motion is not None:
            rest = rest.at[: len(self.driven)].set(self.driven | control.motion.on)
        return jnp.concatenate([near, limits, rest])

    def rows(self, model: Model, state: State, control: Control, h: Array, config: EventOptions):
        """Acceleration constraints of the next h [s], with their bounds.

        Touching contacts gain no approach within h, penetration is undone, sliding stops, driven
        joints follow their prescribed motion, and grips stay closed.
        """
        rows = self._rows(model, state, control)
        speed = matmul(row_jacobian(model, self.kin, rows), state.qd)
        gap_drift = self._gap_drift(model, state)
        gap_drift = gap_drift if self.chosen is None else self.chosen.gather(gap_drift)
        k = _rows_per_contact(model.topology)
        drift = rows.drift.at[: k * len(gap_drift) : k].set(gap_drift)
        motion = prescribed_motion(model, state, control, h, config.recovery_time)
        dofs = np.array(_given_dofs(model, control), int)
        velocity = speed[:0] if motion is None else motion[1][dofs]
        closed = closed_grips(model, state, control)
        _, closing = velocity_grip_rows(model, self.kin, closed, config.recovery_time)
        contacts, _ = self._selected()
        depth = jnp.maximum(-contacts.gap, 0.0)
        out = jnp.minimum(depth / config.recovery_time, config.recovery_speed)
        out = jnp.zeros(k * len(out), out.dtype).at[::k].set(out)
        back = jnp.maximum(-self.limit_gap, 0.0) / config.recovery_time
        wanted = jnp.concatenate([out, back, velocity, closing.reshape(-1)])
        rows = dataclasses.replace(rows, drift=drift, desired=(wanted - speed) / h)
        acts = self._touching(model, rows, control, config)
        return _acting(rows, acts), self._bounds(model, rows)

    def _gap_drift(self, model: Model, state: State) -> Array:
        """(nc,) second time derivative of the gaps where qdd = 0.

        That of a rolling ball is 0, while its material point in contact accelerates to the centre.
        """

        def gap(t):
            q = integrate(model, state.q, state.qd, t)
            kin = forward_kinematics(model, q, state.qd)
            return correct_seams(model, kin, find_contacts(model, kin)).gap

        def rate(t):
            return jax.jvp(gap, (t,), (jnp.ones_like(t),))[1]

        at = jnp.zeros((), state.q.dtype)
        return jax.jvp(rate, (at,), (jnp.ones_like(at),))[1]

    def impact(self, model: Model, state: State, control: Control, config: EventOptions):
        """Impact rows: () bool of any touching contact that approaches, rows, and their bounds."""
        rows, (contacts, _) = self._rows(model, state, control), self._selected()
        speed = matmul(row_jacobian(model, self.kin, rows), state.qd)
        acts = self._touching(model, rows, control, config)
        k = _rows_per_contact(model.topology)
        n, last = k * len(contacts.gap), k * len(contacts.gap) + len(self.limit_gap)
        restitution = jnp.concatenate([contacts.restitution, 0 * self.limit_gap])
        across = jnp.concatenate([speed[:n:k], speed[n:last]])
        target = jnp.where(across < -config.bounce_speed, -restitution * across, 0.0)
        wanted = jnp.zeros_like(speed).at[:n:k].set(target[: n // k])
        wanted = wanted.at[n:last].set(target[n // k :]).at[last:].set(speed[last:])
        index = jnp.arange(len(speed))
        pushes = ((index < n) & (index % k == 0)) | ((index >= n) & (index < last))
        hits = jnp.any(acts & pushes & (speed < wanted - ROUNDING))
        rows = dataclasses.replace(rows, desired=wanted - speed)
        return hits, _acting(rows, acts), self._bounds(model, rows)

    def deeper_than(self, before: "EventScene", depth) -> Array:
        """() bool: a contact or limit went deeper than ``depth`` since the scene ``before``."""
        old = jnp.concatenate([before.contacts.gap, before.limit_gap])
        new = jnp.concatenate([self.contacts.gap, self.limit_gap])
        return jnp.any((new < -depth) & (new < old))

    def forces(self, model: Model, control: Control, force: Array) -> tuple[Array, ...]:
        """Forces of contacts (nc, 3), limits (nl,), grips (ng, 3) and prescribed motion (nv,)."""
        top, (contacts, tangent) = model.topology, self._selected()
        k = _rows_per_contact(top)
        n, last = k * len(contacts.gap), k * len(contacts.gap) + len(self.limit_gap)
        each = force[:n].reshape(-1, k)
        along = each[:, 1:2] - each[:, 2:3]
        of_contact = each[:, :1] * contacts.normal + along * tangent
        if k > 3:
            aside = cross(contacts.normal, tangent)
            of_contact = of_contact + (each[:, 3:4] - each[:, 4:5]) * aside
        if self.chosen is not None:
            of_contact = self.chosen.scatter(of_contact)
        axes = grip_axes(top, force.dtype)
        of_grip = force[len(force) - top.n_grips * len(axes) :].reshape(-1, len(axes))
        of_limit = limit_sign(top, self.limit_J) * force[n:last]
        dofs = np.array(_given_dofs(model, control), int)
        of_motion = jnp.zeros(top.nv, force.dtype).at[dofs].set(force[last : last + len(dofs)])
        return of_contact, of_limit, matmul(of_grip, axes), of_motion

    def penetration(self) -> Array:
        return jnp.max(-self.contacts.gap, initial=0.0)


def _rows_per_contact(top: Topology) -> int:
    """Number of rows per contact: normal, friction in both directions along the slip and across.

    In the plane there is no friction across. Friction only against the slip at the step's beginning
    would let a contact that stops within the step, or in an impact, slide back freely; and it would
    turn a slow slide round and round, for its effect across in a step is more than the slip.
    """
    return 3 if top.planar else 5


def _given_dofs(model: Model, control: Control) -> list[int]:
    """Dofs that may have prescribed motion: those of driven joints, or all with MotionControl."""
    top = model.topology
    return top.driven_dofs.tolist() if control.motion is None else list(range(top.nv))


def _acting(rows: AccelerationRows, acts: Array) -> AccelerationRows:
    """Replace the rows that do not act by rows of zeros, which stay idle."""

    def masked(x):
        return jnp.where(acts.reshape(-1, *[1] * (x.ndim - 1)), x, 0.0)

    return jax.tree.map(masked, rows)
