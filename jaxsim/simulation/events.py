"""The step of Kokkevis (2004), section 7: forces from accelerations, halving, impacts.

Within one interval the constraints that act are fixed for as long as nothing new happens: their
forces are solved for as accelerations, and the motion is tried for the rest of the interval. Where
that goes too deep into something the try is halved; what then touches and still approaches is
stopped by an impact. ``step`` (velocities, one solve a step) is faster and can be differentiated;
this one resolves when things happen, and serves as its check.
"""

import dataclasses
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.collision.contacts import Contacts, find_contacts
from jaxsim.collision.slots import contact_slots
from jaxsim.constraints.acceleration import Rows, joint_rows, point_rows, row_jacobian, stacked
from jaxsim.constraints.rows import contact_frame, contact_jacobian, limit_rows
from jaxsim.dynamics.articulated import articulated_body
from jaxsim.dynamics.kinematics import (
    Kinematics,
    forward_kinematics,
    integrate,
    matmul,
    point_velocity,
)
from jaxsim.math.safe import safe_norm, safe_normalize
from jaxsim.model.model import Model
from jaxsim.simulation.constrained import enforce, resolve_impact
from jaxsim.simulation.step import Control
from jaxsim.solvers.lcp import SOLVED, Bounds, gauss_seidel, together, unilateral, with_friction

DONE, UNFINISHED, UNSOLVED = 0, 1, 2  # a status
STATUS = (
    "done",
    "the interval was not used up: more parts, or a shorter interval",
    "some forces were not solved to the tolerance: more iterations, or contradictory constraints",
)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class EventConfig:
    """Numbers of the step; the last four are static."""

    dt: Array | float = 1 / 240  # the interval [s]
    touch_distance: Array | float = 1e-4  # a smaller gap is a contact [m]
    depth: Array | float = 1e-3  # a try that goes deeper is halved [m, rad]
    bounce_speed: Array | float = 0.1  # slower impacts do not bounce [m/s, rad/s]
    slip_speed: Array | float = 1e-3  # slower contacts stick, and keep their tangent [m/s]
    recovery_time: Array | float = 0.02  # time constant in which depth is undone [s]
    halvings: int = dataclasses.field(default=8, metadata={"static": True})  # of the interval
    parts: int = dataclasses.field(default=64, metadata={"static": True})  # tries, all told
    iterations: int = dataclasses.field(default=200, metadata={"static": True})  # of the solver
    tolerance: float = dataclasses.field(default=1e-6, metadata={"static": True})

    def __post_init__(self):
        for name, least in (("halvings", 0), ("parts", 1), ("iterations", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} is {getattr(self, name)}; give {least} or more")


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Moving:
    """What the step takes on: the state, and how each contact slid last (section 8.1)."""

    q: Array  # (nq,)
    qd: Array  # (nv,)
    time: Array  # () [s]
    tangent: Array  # (nc, 3) unit, against the last slip: friction acts along it; or zeros


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class EventInfo:
    """What happened in an interval."""

    status: Array  # () int: DONE, UNFINISHED or UNSOLVED
    left: Array  # () what of the interval was not used [s]
    tries: Array  # () int
    impacts: Array  # () int: parts that ended with one
    residual: Array  # () the largest of the solver's [m/s^2, rad/s^2]
    contact_force: Array  # (nc, 3) on shape a, in the last part [N]
    penetration: Array  # () deepest at the end [m]


def moving(model: Model, q: Array, qd: Array) -> Moving:
    """A beginning at time 0."""
    slots = contact_slots(model.topology).count
    dtype = model.mass.dtype
    zero = jnp.zeros((slots, 3), dtype)
    return Moving(jnp.asarray(q, dtype), jnp.asarray(qd, dtype), jnp.zeros((), dtype), zero)


def event_step(
    model: Model, state: Moving, control: Control, config: EventConfig
) -> tuple[Moving, EventInfo]:
    """Advance one character by ``config.dt`` under a constant control.

    Damping is explicit: stiff joints need a short interval. Bounded in its work; the status says
    when a bound was hit, and a member of a batch that is not finite ends with its own status. Not
    differentiable in reverse.
    """
    begin, dt = state, jnp.asarray(config.dt, state.q.dtype)
    zero = jnp.zeros((), state.q.dtype)

    def goes_on(carry):
        _, left, _, _, info = carry
        return (left > 1e-9 * dt) & (info.tries < config.parts)

    def again(carry):
        state, left, attempt, halved, info = carry
        h = jnp.minimum(attempt, left)
        torque = control.torque - control.damping * (state.qd - begin.qd)
        torque = torque - model.damping * state.qd
        before = _Scene.of(model, state, config).holding(model, torque)
        rows, bounds = before.rows(model, state, h, config)
        found = enforce(model, before.kin, torque, rows, bounds, solver=_solver(config))
        qd = state.qd + h * found.qdd
        tried = dataclasses.replace(
            state, q=integrate(model, state.q, qd, h), qd=qd, time=state.time + h
        )
        after = _Scene.of(model, tried, config)
        tried = dataclasses.replace(tried, tangent=after.tangent)
        halve = after.deeper_than(before, config.depth) & (halved < config.halvings)
        hits, impact_rows, impact_bounds = after.impact(model, tried, config)
        impact = resolve_impact(
            model, after.kin, qd, impact_rows, impact_bounds, solver=_solver(config)
        )
        tried = dataclasses.replace(tried, qd=jnp.where(hits, impact.qdd, qd))
        unsolved = (found.solution.status != SOLVED) | (hits & (impact.solution.status != SOLVED))
        taken = EventInfo(
            status=jnp.where(unsolved, UNSOLVED, info.status),
            left=left - h,
            tries=info.tries,
            impacts=info.impacts + hits,
            residual=jnp.maximum(info.residual, found.solution.residual),
            contact_force=before.forces(found.solution.force),
            penetration=after.penetration(),
        )

        def choose(yes, no):
            return jax.tree.map(lambda a, b: jnp.where(halve, a, b), yes, no)

        state, info = choose((state, info), (tried, taken))
        left = jnp.where(halve, left, left - h)
        attempt = jnp.where(halve, 0.5 * h, left)
        halved = jnp.where(halve, halved + 1, 0)
        return state, left, attempt, halved, dataclasses.replace(info, tries=info.tries + 1)

    count = jnp.zeros((), int)
    slots = state.tangent.shape[0]
    begun = EventInfo(count + DONE, dt, count, count, zero, jnp.zeros((slots, 3), dt.dtype), zero)
    end, left, _, _, info = jax.lax.while_loop(goes_on, again, (state, dt, dt, count, begun))
    finite = jnp.isfinite(end.q).all() & jnp.isfinite(end.qd).all()
    late = jnp.where(left > 1e-9 * dt, UNFINISHED, info.status)
    status = jnp.where(finite, late, UNSOLVED)
    return end, dataclasses.replace(info, status=status, left=jnp.maximum(left, 0))


def _solver(config: EventConfig):
    def solve(K, b, bounds):
        return gauss_seidel(
            K, b, bounds, iterations=config.iterations, tolerance=config.tolerance, early=True
        )

    return solve


@dataclass(frozen=True)
class _Scene:
    """Contacts and limits of one configuration."""

    kin: Kinematics
    contacts: Contacts
    slip: Array  # (nc, 3) velocity of a against b [m/s]
    tangent: Array  # (nc, 3) against the slip, or the last one
    limit_gap: Array  # (nl,)
    limit_sign: Array  # (nl,)
    limit_dof: np.ndarray  # (nl,)

    @classmethod
    def of(cls, model: Model, state: Moving, config: EventConfig) -> "_Scene":
        kin = forward_kinematics(model, state.q, state.qd)
        contacts = find_contacts(model, kin)
        slots = contact_slots(model.topology)
        slip = jnp.zeros_like(contacts.point)
        for link, sign in ((slots.link_a, 1.0), (slots.link_b, -1.0)):
            moves = jnp.asarray((link >= 0)[:, None], slip.dtype)
            velocity = point_velocity(kin, jnp.asarray(np.maximum(link, 0)), contacts.point)
            slip = slip + sign * moves * velocity
        n = contacts.normal
        slides = slip - n * jnp.sum(slip * n, axis=-1, keepdims=True)
        kept = safe_normalize(state.tangent - n * jnp.sum(state.tangent * n, -1, keepdims=True))
        speed = safe_norm(slides, keepdims=True)
        tangent = jnp.where(speed > config.slip_speed, -safe_normalize(slides), kept)
        dof, sign, _, gap = limit_rows(model, state.q, 1.0, 1.0)
        return cls(kin, contacts, slip, tangent, gap, sign, dof)

    def holding(self, model: Model, torque: Array) -> "_Scene":
        """The same, with friction against the way that a contact would begin to slide, where it
        never slid; the document takes any tangent then, and lets it slide for a step."""
        frame = contact_frame(model.topology, self.contacts.normal)
        J = contact_jacobian(model, self.kin, self.contacts, frame)
        along = matmul(J, articulated_body(model, self.kin, torque))[:, 1:, None]
        begins = jnp.sum(along * frame[:, 1:], axis=1)
        slid = jnp.any(self.tangent != 0, axis=-1, keepdims=True)
        tangent = jnp.where(slid, self.tangent, -safe_normalize(begins))
        return dataclasses.replace(self, tangent=tangent)

    def _rows(self, model: Model) -> Rows:
        """Normal and tangent of each contact, then the limits; nothing desired yet."""
        slots, contacts = contact_slots(model.topology), self.contacts
        directions = jnp.stack([contacts.normal, self.tangent], axis=1).reshape(-1, 3)
        points = jnp.repeat(contacts.point, 2, axis=0)
        links = [np.repeat(link, 2).tolist() for link in (slots.link_a, slots.link_b)]
        touch = point_rows(
            model, self.kin, links[0], points, directions, jnp.zeros(len(points)), links[1]
        )
        limits = joint_rows(model, self.limit_dof.tolist(), jnp.zeros(len(self.limit_dof)))
        limits = dataclasses.replace(limits, torque=limits.torque * self.limit_sign[:, None])
        return stacked(touch, limits)

    def _bounds(self) -> Bounds:
        bounds = together(with_friction(self.contacts.friction), unilateral(len(self.limit_dof)))
        return jax.tree.map(
            lambda x: x.astype(self.slip.dtype) if x.dtype.kind == "f" else x, bounds
        )

    def _touching(self, config: EventConfig) -> Array:
        """(m,) which rows act."""
        near = jnp.repeat(self.contacts.gap <= config.touch_distance, 2)
        return jnp.concatenate([near, self.limit_gap <= config.touch_distance])

    def rows(self, model: Model, state: Moving, h: Array, config: EventConfig):
        """Acceleration constraints: what touches gains no approach within h, and stops sliding."""
        rows = self._rows(model)
        speed = matmul(row_jacobian(model, self.kin, rows), state.qd)
        drift = rows.drift.at[: 2 * len(self.contacts.gap) : 2].set(self._gap_drift(model, state))
        return _acting(
            dataclasses.replace(rows, drift=drift, desired=-speed / h), self._touching(config)
        ), self._bounds()

    def _gap_drift(self, model: Model, state: Moving) -> Array:
        """(nc,) second derivative of the gaps in time where qdd = 0: of a rolling ball it is 0,
        while the material point that touches is drawn to the centre."""

        def gap(t):
            q = integrate(model, state.q, state.qd, t)
            return find_contacts(model, forward_kinematics(model, q, state.qd)).gap

        def rate(t):
            return jax.jvp(gap, (t,), (jnp.ones_like(t),))[1]

        at = jnp.zeros((), state.q.dtype)
        return jax.jvp(rate, (at,), (jnp.ones_like(at),))[1]

    def impact(self, model: Model, state: Moving, config: EventConfig):
        """Whether something that touches approaches; the rows and bounds of the impact."""
        rows = self._rows(model)
        speed = matmul(row_jacobian(model, self.kin, rows), state.qd)
        acts = self._touching(config)
        n = 2 * len(self.contacts.gap)
        depth = jnp.maximum(-jnp.concatenate([self.contacts.gap, self.limit_gap]), 0.0)
        restitution = jnp.concatenate([self.contacts.restitution, 0 * self.limit_gap])
        across = jnp.concatenate([speed[:n:2], speed[n:]])
        bounce = jnp.where(across < -config.bounce_speed, -restitution * across, 0.0)
        target = jnp.maximum(bounce, depth / config.recovery_time)
        wanted = jnp.zeros_like(speed).at[:n:2].set(target[: n // 2]).at[n:].set(target[n // 2 :])
        pushes = jnp.concatenate([jnp.arange(n) % 2 == 0, jnp.ones(len(speed) - n, bool)])
        hits = jnp.any(acts & pushes & (speed < wanted - 1e-9))
        return (
            hits,
            _acting(dataclasses.replace(rows, desired=wanted - speed), acts),
            self._bounds(),
        )

    def deeper_than(self, before: "_Scene", depth) -> Array:
        """() whether something went deeper than allowed in between."""
        old = jnp.concatenate([before.contacts.gap, before.limit_gap])
        new = jnp.concatenate([self.contacts.gap, self.limit_gap])
        return jnp.any((new < -depth) & (new < old))

    def forces(self, force: Array) -> Array:
        """(nc, 3) in the world."""
        pairs = force[: 2 * len(self.contacts.gap)].reshape(-1, 2)
        return pairs[:, :1] * self.contacts.normal + pairs[:, 1:] * self.tangent

    def penetration(self) -> Array:
        return jnp.max(-self.contacts.gap, initial=0.0)


def _acting(rows: Rows, acts: Array) -> Rows:
    """The others become rows of zeros, which stay idle."""

    def masked(x):
        return jnp.where(acts.reshape(-1, *[1] * (x.ndim - 1)), x, 0.0)

    return jax.tree.map(masked, rows)
