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

from jaxsim.collision.contacts import Contacts, find_contacts, take
from jaxsim.collision.nearest import Chosen, nearest
from jaxsim.collision.slots import contact_slots
from jaxsim.constraints.acceleration import (
    Rows,
    grip_rows,
    joint_rows,
    point_rows,
    row_jacobian,
    stacked,
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
from jaxsim.dynamics.kinematics import (
    Kinematics,
    forward_kinematics,
    integrate,
    matmul,
    point_velocity,
)
from jaxsim.math.safe import safe_norm, safe_normalize
from jaxsim.model.model import Model
from jaxsim.model.state import State
from jaxsim.simulation.constrained import enforce, resolve_impact
from jaxsim.simulation.pushes import Pushes, push_torque
from jaxsim.simulation.step import Control, Observation, holding, prescribed
from jaxsim.solvers.lcp import (
    SOLVED,
    Bounds,
    bilateral,
    gauss_seidel,
    together,
    unilateral,
    with_friction,
)

# A driven joint is a constraint, and contacts with what it moves are solved the sooner, the less
# they move it: its armature is as many times the model's mass.
HEAVY = 1e6
METHOD = "mass"  # under XLA, where this step runs, it takes 0.7 of the time of the deltas
DONE, UNFINISHED, UNSOLVED = 0, 1, 2  # a status
STATUS = (
    "done",
    "the interval was not used up: more parts, or a shorter interval",
    "some forces were not solved to the tolerance: more iterations, or contradictory constraints",
)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class EventConfig:
    """Numbers of the step; the last five are static."""

    dt: Array | float = 1 / 240  # the interval [s]
    touch_distance: Array | float = 1e-4  # a smaller gap is a contact [m]
    depth: Array | float = 1e-3  # a try that goes deeper is halved [m, rad]
    bounce_speed: Array | float = 0.1  # slower impacts do not bounce [m/s, rad/s]
    slip_speed: Array | float = 1e-3  # slower contacts stick, and keep their tangent [m/s]
    recovery_time: Array | float = 0.02  # time constant in which depth is undone [s]
    recovery_speed: Array | float = 1.0  # the fastest of it, of contacts [m/s]
    contacts: int = dataclasses.field(default=40, metadata={"static": True})  # see StepConfig
    halvings: int = dataclasses.field(default=8, metadata={"static": True})  # of the interval
    parts: int = dataclasses.field(default=64, metadata={"static": True})  # tries, all told
    iterations: int = dataclasses.field(default=200, metadata={"static": True})  # of the solver
    tolerance: float = dataclasses.field(default=1e-6, metadata={"static": True})

    def __post_init__(self):
        for name, least in (("contacts", 1), ("halvings", 0), ("parts", 1), ("iterations", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} is {getattr(self, name)}; give {least} or more")


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class EventInfo:
    """What happened in an interval."""

    status: Array  # () int: DONE, UNFINISHED or UNSOLVED
    left: Array  # () what of the interval was not used [s]
    tries: Array  # () int
    impacts: Array  # () int: parts that ended with one
    residual: Array  # () the largest of the solver's [m/s^2, rad/s^2]
    contact_force: Array  # (nc, 3) on shape a, the mean over the interval, impacts included [N]
    limit_torque: Array  # (nl,) the same, see StepInfo [N m or N]
    grip_force: Array  # (ng, 3) the same, on the link that holds [N]
    motion_force: Array  # (nv,) the same, of drives and MotionControl [N m or N]
    penetration: Array  # () deepest at the end [m]
    left_out: Array  # () int: most contacts for which there was no row


def ready(model: Model, state: State) -> State:
    """The state with what the step keeps of each contact; nothing has slid yet."""
    if state.tangent is not None:
        return state
    slots = contact_slots(model.topology).count
    return state.replace(tangent=jnp.zeros((slots, 3), state.q.dtype))


def event_step(
    model: Model,
    state: State,
    seen: Observation,
    control: Control,
    config: EventConfig,
    pushes: Pushes | None = None,
) -> tuple[State, EventInfo]:
    """Advance one character by ``config.dt`` under a constant control; arguments as of ``step``.

    Damping is explicit: stiff joints need a short interval. Bounded in its work; the status says
    when a bound was hit, and a member of a batch that is not finite ends with its own status. Not
    differentiable in reverse. The state's impulses are left as they are.
    """
    del seen  # the parts of the interval see for themselves
    begin, dt = ready(model, state), jnp.asarray(config.dt, state.q.dtype)
    if model.topology.driven_dofs.size:
        heavy = model.armature.at[model.topology.driven_dofs].add(HEAVY * model.total_mass)
        model = model.replace(armature=heavy)
    zero = jnp.zeros((), state.q.dtype)

    def goes_on(carry):
        _, left, _, _, info = carry
        return (left > 1e-9 * dt) & (info.tries < config.parts)

    def again(carry):
        state, left, attempt, halved, info = carry
        h = jnp.minimum(attempt, left)
        torque = control.torque - control.damping * (state.qd - begin.qd)
        torque = torque - model.damping * state.qd
        before = _Scene.of(model, state, config)
        if pushes is not None:
            torque = torque + push_torque(model, before.kin, pushes, state.time)
        before = before.holding(model, torque)
        rows, bounds = before.rows(model, state, control, h, config)
        solver = _solver(config)
        found = enforce(model, before.kin, torque, rows, bounds, METHOD, solver)
        qd = state.qd + h * found.qdd
        tried = state.replace(q=integrate(model, state.q, qd, h), qd=qd, time=state.time + h)
        after = _Scene.of(model, tried, config)
        tried = tried.replace(tangent=after.tangent)
        halve = after.deeper_than(before, config.depth) & (halved < config.halvings)
        hits, impact_rows, impact_bounds = after.impact(model, tried, control, config)
        impact = resolve_impact(model, after.kin, qd, impact_rows, impact_bounds, METHOD, solver)
        unsolved = (found.solution.status != SOLVED) | (hits & (impact.solution.status != SOLVED))
        forces = before.forces(model, control, found.solution.force)
        blows = after.forces(model, control, jnp.where(hits, impact.solution.force, 0.0))
        mean = [(h * f + blow) / dt for f, blow in zip(forces, blows)]
        tried = tried.replace(qd=jnp.where(hits, impact.qdd, qd))
        if state.broken is not None:
            torn = safe_norm(forces[2]) > model.grip_strength
            tried = tried.replace(broken=state.broken | torn)
        taken = EventInfo(
            status=jnp.where(unsolved, UNSOLVED, info.status),
            left=left - h,
            tries=info.tries,
            impacts=info.impacts + hits,
            residual=jnp.maximum(info.residual, found.solution.residual),
            contact_force=info.contact_force + mean[0],
            limit_torque=info.limit_torque + mean[1],
            grip_force=info.grip_force + mean[2],
            motion_force=info.motion_force + mean[3],
            penetration=after.penetration(),
            left_out=jnp.maximum(info.left_out, before.left_out),
        )

        def choose(yes, no):
            return jax.tree.map(lambda a, b: jnp.where(halve, a, b), yes, no)

        state, info = choose((state, info), (tried, taken))
        left = jnp.where(halve, left, left - h)
        attempt = jnp.where(halve, 0.5 * h, left)
        halved = jnp.where(halve, halved + 1, 0)
        return state, left, attempt, halved, dataclasses.replace(info, tries=info.tries + 1)

    count, top = jnp.zeros((), int), model.topology
    begun = EventInfo(
        status=count + DONE,
        left=dt,
        tries=count,
        impacts=count,
        residual=zero,
        contact_force=jnp.zeros((contact_slots(top).count, 3), dt.dtype),
        limit_torque=jnp.zeros(len(top.limited_joints), dt.dtype),
        grip_force=jnp.zeros((top.n_grips, 3), dt.dtype),
        motion_force=jnp.zeros_like(begin.qd),
        penetration=zero,
        left_out=count,
    )
    end, left, _, _, info = jax.lax.while_loop(goes_on, again, (begin, dt, dt, count, begun))
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
    """Contacts, limits and grips of one configuration."""

    kin: Kinematics
    contacts: Contacts
    tangent: Array  # (nc, 3) against the slip, or the last one
    limit_gap: Array  # (nl,)
    limit_J: Array  # (nl, nv)
    chosen: Chosen | None  # the contacts that the rows are of, if not all
    driven: np.ndarray  # (nv,) bool: freedoms of driven joints

    @classmethod
    def of(cls, model: Model, state: State, config: EventConfig) -> "_Scene":
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
        last = jnp.asarray(state.tangent)
        kept = safe_normalize(last - n * jnp.sum(last * n, -1, keepdims=True))
        speed = safe_norm(slides, keepdims=True)
        tangent = jnp.where(speed > config.slip_speed, -safe_normalize(slides), kept)
        limit_J, _, gap = limit_rows(model, state.q, state.qd, 0.0, 1.0)
        chosen = None
        if config.contacts < slots.count:
            chosen = nearest(contacts.gap, config.contacts, config.touch_distance)
        driven = np.isin(np.arange(model.topology.nv), model.topology.driven_dofs)
        return cls(kin, contacts, tangent, gap, limit_J, chosen, driven)

    def holding(self, model: Model, torque: Array) -> "_Scene":
        """The same, with friction against the way that a contact would begin to slide, where it
        never slid; the document takes any tangent then, and lets it slide for a step."""
        contacts, _ = self._taken()
        frame = contact_frame(model.topology, contacts.normal)
        J = contact_jacobian(model, self.kin, contacts, frame, self.chosen)
        along = matmul(J, articulated_body(model, self.kin, torque))[:, 1:, None]
        begins = -safe_normalize(jnp.sum(along * frame[:, 1:], axis=1))
        if self.chosen is not None:
            begins = self.chosen.scatter(begins)
        slid = jnp.any(self.tangent != 0, axis=-1, keepdims=True)
        return dataclasses.replace(self, tangent=jnp.where(slid, self.tangent, begins))

    @property
    def left_out(self) -> Array:
        """() int: contacts that touch and have no row."""
        return jnp.zeros((), int) if self.chosen is None else self.chosen.left_out

    def _taken(self) -> tuple[Contacts, Array]:
        """The contacts that have rows, and their tangents."""
        if self.chosen is None:
            return self.contacts, self.tangent
        return take(self.contacts, self.chosen), self.chosen.gather(self.tangent)

    def _rows(self, model: Model, state: State, control: Control) -> Rows:
        """Normal and tangent of contacts, limits, prescribed motion, grips; nothing desired yet."""
        top = model.topology
        slots, (contacts, tangent) = contact_slots(top), self._taken()
        directions = jnp.stack([contacts.normal, tangent], axis=1).reshape(-1, 3)
        points = jnp.repeat(contacts.point, 2, axis=0)
        links = [jnp.asarray(link) for link in (slots.link_a, slots.link_b)]
        if self.chosen is not None:
            links = [link[self.chosen.slot] for link in links]
        links = [jnp.repeat(link, 2) for link in links]
        zeros = jnp.zeros(len(points))
        touch = point_rows(model, self.kin, links[0], points, directions, zeros, links[1])
        limits = joint_rows(model, [0] * len(self.limit_gap), jnp.zeros(len(self.limit_gap)))
        limits = dataclasses.replace(limits, torque=self.limit_J)
        dofs = _given_dofs(model, control)
        given = joint_rows(model, dofs, jnp.zeros(len(dofs)))
        shape = (top.n_grips, len(grip_axes(top, zeros.dtype)))
        grips = grip_rows(model, self.kin, holding(model, state, control), jnp.zeros(shape))
        return stacked(touch, limits, given, grips)

    def _bounds(self, rows: Rows) -> Bounds:
        contacts, _ = self._taken()
        count, limits = 2 * len(contacts.gap), len(self.limit_gap)
        bounds = together(
            with_friction(contacts.friction),
            unilateral(limits),
            bilateral(len(rows.drift) - count - limits),
        )
        return jax.tree.map(
            lambda x: x.astype(rows.drift.dtype) if x.dtype.kind == "f" else x, bounds
        )

    def _touching(self, rows: Rows, control: Control, config: EventConfig) -> Array:
        """(m,) which rows act."""
        contacts, _ = self._taken()
        near = jnp.repeat(contacts.gap <= config.touch_distance, 2)
        limits = self.limit_gap <= config.touch_distance
        rest = jnp.ones(len(rows.drift) - len(near) - len(limits), bool)
        if control.motion is not None:
            rest = rest.at[: len(self.driven)].set(self.driven | control.motion.on)
        return jnp.concatenate([near, limits, rest])

    def rows(self, model: Model, state: State, control: Control, h: Array, config: EventConfig):
        """Acceleration constraints: what touches gains no approach within h, what has sunk in comes
        out, sliding stops, driven joints move as they must, and grips stay closed."""
        rows = self._rows(model, state, control)
        speed = matmul(row_jacobian(model, self.kin, rows), state.qd)
        gap_drift = self._gap_drift(model, state)
        gap_drift = gap_drift if self.chosen is None else self.chosen.gather(gap_drift)
        drift = rows.drift.at[: 2 * len(gap_drift) : 2].set(gap_drift)
        given = prescribed(model, state, control, h, config.recovery_time)
        given = speed[:0] if given is None else given[1][np.array(_given_dofs(model, control), int)]
        holds = holding(model, state, control)
        _, closing = velocity_grip_rows(model, self.kin, holds, config.recovery_time)
        contacts, _ = self._taken()
        depth = jnp.maximum(-contacts.gap, 0.0)
        out = jnp.minimum(depth / config.recovery_time, config.recovery_speed)
        out = jnp.stack([out, jnp.zeros_like(out)], axis=1).reshape(-1)
        back = jnp.maximum(-self.limit_gap, 0.0) / config.recovery_time
        wanted = jnp.concatenate([out, back, given, closing.reshape(-1)])
        rows = dataclasses.replace(rows, drift=drift, desired=(wanted - speed) / h)
        return _acting(rows, self._touching(rows, control, config)), self._bounds(rows)

    def _gap_drift(self, model: Model, state: State) -> Array:
        """(nc,) second derivative of the gaps in time where qdd = 0: of a rolling ball it is 0,
        while the material point that touches is drawn to the centre."""

        def gap(t):
            q = integrate(model, state.q, state.qd, t)
            return find_contacts(model, forward_kinematics(model, q, state.qd)).gap

        def rate(t):
            return jax.jvp(gap, (t,), (jnp.ones_like(t),))[1]

        at = jnp.zeros((), state.q.dtype)
        return jax.jvp(rate, (at,), (jnp.ones_like(at),))[1]

    def impact(self, model: Model, state: State, control: Control, config: EventConfig):
        """Whether something that touches approaches; the rows and bounds of the impact."""
        rows, (contacts, _) = self._rows(model, state, control), self._taken()
        speed = matmul(row_jacobian(model, self.kin, rows), state.qd)
        acts = self._touching(rows, control, config)
        n, last = 2 * len(contacts.gap), 2 * len(contacts.gap) + len(self.limit_gap)
        restitution = jnp.concatenate([contacts.restitution, 0 * self.limit_gap])
        across = jnp.concatenate([speed[:n:2], speed[n:last]])
        target = jnp.where(across < -config.bounce_speed, -restitution * across, 0.0)
        wanted = jnp.zeros_like(speed).at[:n:2].set(target[: n // 2])
        wanted = wanted.at[n:last].set(target[n // 2 :]).at[last:].set(speed[last:])
        index = jnp.arange(len(speed))
        pushes = ((index < n) & (index % 2 == 0)) | ((index >= n) & (index < last))
        hits = jnp.any(acts & pushes & (speed < wanted - 1e-9))
        rows = dataclasses.replace(rows, desired=wanted - speed)
        return hits, _acting(rows, acts), self._bounds(rows)

    def deeper_than(self, before: "_Scene", depth) -> Array:
        """() whether something went deeper than allowed in between."""
        old = jnp.concatenate([before.contacts.gap, before.limit_gap])
        new = jnp.concatenate([self.contacts.gap, self.limit_gap])
        return jnp.any((new < -depth) & (new < old))

    def forces(self, model: Model, control: Control, force: Array) -> tuple[Array, ...]:
        """Of contacts (nc, 3), limits (nl,), grips (ng, 3) and prescribed motion (nv,)."""
        top, (contacts, tangent) = model.topology, self._taken()
        n, last = 2 * len(contacts.gap), 2 * len(contacts.gap) + len(self.limit_gap)
        pairs = force[:n].reshape(-1, 2)
        of_contact = pairs[:, :1] * contacts.normal + pairs[:, 1:] * tangent
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


def _given_dofs(model: Model, control: Control) -> list[int]:
    """The freedoms that may have prescribed motion: those driven, or all where a control says."""
    top = model.topology
    return top.driven_dofs.tolist() if control.motion is None else list(range(top.nv))


def _acting(rows: Rows, acts: Array) -> Rows:
    """The others become rows of zeros, which stay idle."""

    def masked(x):
        return jnp.where(acts.reshape(-1, *[1] * (x.ndim - 1)), x, 0.0)

    return jax.tree.map(masked, rows)
