"""Time stepping: pose and contacts -> control -> free motion -> impulses -> new state.

The step is semi-implicit Euler at velocity level. Damping, passive and of the PD controllers, is
implicit: the free motion and the impulses see M + h D in the place of M, so that a light hand
under a stiff wrist is stable at 1 ms, where h kd / I is about 2 and an explicit damper blows up.
"""

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxsim.collision.ahead import contacts_ahead
from jaxsim.collision.contacts import Contacts, find_contacts, take
from jaxsim.collision.nearest import Chosen, contact_count, nearest
from jaxsim.collision.slots import contact_slots
from jaxsim.constraints.rows import (
    contact_frame,
    contact_targets,
    grip_axes,
    grip_rows,
    limit_rows,
    limit_sign,
    row_layout,
)
from jaxsim.dynamics.jacobians import center_of_mass, com_velocity
from jaxsim.dynamics.kinematics import (
    Kinematics,
    forward_kinematics,
    integrate,
    integrate_finely,
    point_velocity,
    with_velocity,
)
from jaxsim.dynamics.momentum import kinetic_energy
from jaxsim.dynamics.rigid import bias_force, gravity_force, mass_matrix
from jaxsim.math.products import matmul
from jaxsim.math.rotation import rotate
from jaxsim.math.safe import safe_max, safe_norm
from jaxsim.model.model import Model
from jaxsim.model.state import State
from jaxsim.options import option
from jaxsim.ranges import check_ranges
from jaxsim.simulation import checks
from jaxsim.simulation.external import link_wrenches, with_friction
from jaxsim.simulation.health import Health, update_health
from jaxsim.simulation.integrators import kinetic_by_work
from jaxsim.simulation.measures import Measure, Sample, contact_measures
from jaxsim.simulation.move import momentum_change, whip_weight
from jaxsim.simulation.prescribed import FreeMotion, closed_grips, prescribed_motion
from jaxsim.simulation.pushes import Pushes, push_torque
from jaxsim.simulation.records import Control, Observation, StepInfo
from jaxsim.simulation.row_blocks import contact_rows, packs, row_groups, split_impulses
from jaxsim.simulation.scheme import Scheme, register_scheme
from jaxsim.simulation.smooth import ORDERS, halfway, mean_bias, second_order
from jaxsim.simulation.warm_start import (
    WarmStart,
    check_warm_start,
    rest_of,
    warm_start,
    with_warm_start,
)
from jaxsim.solvers import adaptive, implicit
from jaxsim.solvers.idle import unless_idle
from jaxsim.solvers.pgs import RowGroup, natural_residual, useful_start
from jaxsim.solvers.successive import Impacts, after_impacts
from jaxsim.solvers.tree_factor import lower_product, solve_lower, solve_upper, whiten_rows

DERIVATIVES = ("iteration", "implicit")
IMPACTS = ("at_once", "successive")
SWIFT = 1.0  # a step whose fastest degree of freedom is slower has less tolerance [m/s, rad/s]
STILL = 1e-6  # least factor on the tolerance


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


@register_scheme
@dataclass(frozen=True)
class TimeStepping(ContactScheme):
    """Time stepping at velocity level, with contacts; numbers not marked static may be batched.

    A step does ``sweeps`` sweeps of the solver, and more while the last one changed the velocity of
    a row by over ``tolerance``, up to ``most_sweeps``: accelerated ones, see ``solvers.adaptive``.
    Where all dofs are slower than ``SWIFT`` the tolerance is less, so that stacks come to rest.
    With ``most_sweeps`` 0, or up to ``sweeps``, it does ``sweeps`` plain sweeps.

    Where a model has more than ``contacts`` contact slots, the nearest are solved for, and
    ``StepInfo.dropped_contacts`` counts contacts without a slot. None: see ``collision.nearest``.

    derivative: of the impulses, "iteration" (that of the sweeps) or "implicit" (that of the solved
    problem, see ``solvers.implicit``: exact with enough sweeps to solve it, and less costly). For
    sweeps beyond the first ``sweeps`` it is approximate, so for exact gradients through hard
    impacts set ``most_sweeps=0``, with enough ``sweeps``.
    smoothing: relaxes the implicit derivative only.
    impacts: those of a step, "at_once" as one problem of all contacts, or "successive", one contact
    after the other as in ``solvers.successive``.
    """

    cheap: ClassVar[bool] = True
    reverse_mode: ClassVar[bool] = True

    dt: Array | float = 0.00025  # [s]
    stabilization_time: Array | float = option(
        0.02, "time constant of penetration recovery", unit="s", above=0.0
    )
    recovery_speed: Array | float = 1.0  # the fastest of it, for what begins deep inside [m/s]
    bounce_speed: Array | float = 0.1  # slower impacts do not bounce [m/s]
    touch_distance: Array | float = 0.001  # a smaller gap counts as contact [m]
    near_distance: Array | float = 0.01  # what comes nearer in a step is solved for [m]
    warm_start: Array | float = option(
        1.0,
        "share of the last step's impulses that the solver starts from;"
        " [stacks](../explanation/physics.md#stacks-and-the-warm-start) want less",
        least=0.0,
        most=1.0,
    )
    # whether a warm start that gains energy is scaled down, see ``solvers.pgs.useful_start``
    bounded_start: bool = dataclasses.field(default=False, metadata={"static": True})
    sweeps: int = option(6, "Gauss-Seidel sweeps a step, at least", static=True, least=1)
    most_sweeps: int = option(
        40, "sweeps a step, at most; up to `sweeps`: no acceleration", static=True
    )
    # see ``tolerance_at``
    tolerance: Array | float = option(
        0.1,
        "change of a row's velocity by the last sweep that ends the sweeps",
        unit="m/s, rad/s",
        least=0.0,
    )
    contacts: int | None = contacts_option()
    derivative: str = dataclasses.field(default="iteration", metadata={"static": True})
    smoothing: Array | float = 0.0  # relaxes complementarity in the derivative [J]
    impacts: str = option(
        "at_once",
        "impacts of a step: all contacts as one problem, or"
        " [one after the other](../explanation/physics.md), as in Newton's cradle",
        static=True,
        choices=IMPACTS,
    )
    # see ``simulation.smooth``; None: 2 where no joint is between bodies
    order: int | None = option(
        None,
        "order of the velocity products; 2 preserves the energy of"
        " [fast rotation](../explanation/physics.md)",
        shown="2 where no joint is between bodies, else 1",
        kind=int,
        static=True,
        least=1,
        most=2,
    )
    # see ``simulation.move``
    bounded_move: bool = option(
        True, "the position update of fast joints may add no energy", static=True
    )

    def __post_init__(self):
        check_ranges(self)
        if self.order not in ORDERS:
            raise ValueError(
                f"order is {self.order}; give 1 or 2, or None to leave it to the model"
            )
        if self.derivative not in DERIVATIVES:
            raise ValueError(f"derivative {self.derivative!r}: there are {', '.join(DERIVATIVES)}")
        if self.impacts not in IMPACTS:
            raise ValueError(f"impacts {self.impacts!r}: there are {', '.join(IMPACTS)}")
        if self.derivative == "iteration" and isinstance(self.smoothing, float) and self.smoothing:
            raise ValueError('smoothing acts with derivative="implicit" only')

    @property
    def tells_residual(self) -> bool:
        """True where the derivative depends on how well contact problems were solved."""
        return self.derivative == "implicit"

    def init(self, model: Model, state: State) -> State:
        """Add warm-start impulses to a state: zeros, unless it has some."""
        return with_warm_start(model, state)

    def step(
        self,
        model: Model,
        state: State,
        obs: Observation,
        command: Control,
        forces: Pushes | None = None,
    ) -> tuple[State, StepInfo]:
        """Run ``step`` with this scheme's numbers."""
        return step(model, state, obs, command, self, forces)


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


def step(
    model: Model,
    state: State,
    obs: Observation,
    control: Control,
    config: TimeStepping,
    pushes: Pushes | None = None,
) -> tuple[State, StepInfo]:
    """Advance one character by ``config.dt``; ``obs`` is ``observe(model, state, config)``.

    pushes: external forces; one acts in a step if it does at the step's first instant.
    Non-finite input gives non-finite output of this member of a batch alone.

    Raises ModelError, ValueError or TypeError for arguments of another shape, dtype or kind than
    the model needs (see ``simulation.checks``).
    """
    checks.check_config(model, config, TimeStepping)
    _check_step(model, state, obs, control, pushes)
    top, dt = model.topology, config.dt
    kin, contacts = obs.kin, obs.contacts
    if control.friction is not None:
        contacts = with_friction(model, contacts, control.friction)
    with jax.named_scope("rows"):
        contacts = contacts_ahead(model, kin, contacts, dt)
        chosen = choose(model, kin, contacts, config)
        if chosen is not None:
            contacts = take(contacts, chosen)
        layout = row_layout(top, contacts.gap.shape[0])
        frame = contact_frame(top, contacts.normal)
        J_limit, rows, target = _rows(model, state, kin, contacts, chosen, frame, control, config)
    with jax.named_scope("free_motion"):
        damping = control.damping + model.damping
        second = second_order(top, config.order)
        pose = halfway(model, state, dt) if second else kin
        inertia, bias = mass_matrix(model, pose), bias_force(model, pose)
        M = inertia + jnp.diag(dt * damping)
        force = control.torque - model.damping * state.qd - bias
        pushed = jnp.zeros_like(force)
        if pushes is not None:
            pushed = push_torque(model, kin, pushes, state.time)
        if control.external is not None:
            pushed = pushed + link_wrenches(model, kin, control.external)
        if pushes is not None or control.external is not None:
            force = force + pushed
        free = FreeMotion(M, rows, target, dt * force)
        motion = prescribed_motion(
            model, state, control, dt, jnp.maximum(config.stabilization_time, dt)
        )
        rest = free if motion is None else free.without(*motion, state.qd)
        free_of = jnp.ones_like(force) if motion is None else jnp.where(motion[0], 0.0, 1.0)
        acting = packs(layout, chosen)
        L, white, change = whiten_rows(top, rest.M, rest.rows, rest.change, acting)
        y_start = lower_product(top, L, state.qd)

        def whitened(force: Array) -> Array:
            return solve_upper(top, L, (dt * free_of * force)[:, None])[:, 0]

        def moved(momentum: Array) -> Array:
            return free_of * solve_lower(top, L, whitened(momentum) / dt)

        def velocity(y: Array) -> Array:
            qd = solve_lower(top, L, y)
            return qd if motion is None else jnp.where(motion[0], motion[1], qd)

        late = jnp.zeros_like(change)  # of the velocity products, what comes after the move
        if second:
            first, so_far = bias, y_start + change
            bias = mean_bias(
                model,
                pose,
                state.qd,
                first,
                lambda now: velocity(so_far + whitened(first - now)) - state.qd,
            )
            change = change + whitened(first - bias)
            late = whitened(gravity_force(model, pose) - bias) / 2
    with jax.named_scope("impulses"):
        y, blows = y_start, None
        if config.impacts == "successive" and layout.contacts:
            y, blows = after_impacts(
                _impacts(contacts, layout, white, target - rest.target, config), y
            )
        y = y + change - late
        groups = row_groups(layout, white, rest.target, contacts.friction, acting)
        last = state.solver.impulse
        groups, y = _solved(
            groups, y, warm_start(top, layout, last, chosen), config, tolerance_at(config, state.qd)
        )
        residual = natural_residual(groups, y)
        impulse = jnp.concatenate([f.impulse.reshape(-1) for f in groups] or [last])
    with jax.named_scope("integrate"):
        moving, rest = velocity(y), rest_of(state)
        q = integrate(model, state.q, moving, dt)
        if rest is not None:
            q, rest = integrate_finely(model, state.q, moving, dt, rest)
        y = y + late
        qd = solved = velocity(y)
        after = forward_kinematics(model, q, solved)  # for ``energy_error``, if it is asked for
        due = kinetic_by_work(model, kin, after, inertia, dt * bias, state.qd, solved)
        if config.bounded_move:

            def limited() -> Array:
                after = forward_kinematics(model, q, solved)
                due = kinetic_by_work(model, kin, after, inertia, dt * bias, state.qd, solved)
                excess = kinetic_energy(model, after, solved) - due

                def braked() -> Array:
                    carried = velocity(y + whitened(bias - gravity_force(model, pose)))
                    return momentum_change(model, pose, carried, after, solved, excess, moved)

                return unless_idle(excess > 0, braked)

            whip = whip_weight(top, dt * solved)
            qd = solved + whip * unless_idle(whip > 0, limited)
            after = with_velocity(top, after, qd)
            y = lower_product(top, L, qd)
    of_contact, of_limit, of_grip = split_impulses(layout, impulse)
    contact_force = jnp.sum(of_contact[:, :, None] * frame, axis=1) / dt
    grip_force = matmul(of_grip, grip_axes(top, y.dtype)) / dt
    motion_force = jnp.zeros_like(qd)
    impulses = jnp.concatenate([of_contact.reshape(-1), of_limit, of_grip.reshape(-1)])
    acted = impulses
    if blows is not None:
        contact_force = contact_force + jnp.sum(blows[:, :, None] * frame, axis=1) / dt
        acted = impulses.at[: blows.size].add(blows.reshape(-1))
    if motion is not None:
        motion_force = jnp.where(motion[0], free.missing(solved - state.qd, acted), 0.0) / dt
    drive = control.torque - control.damping * (solved - state.qd) + pushed + motion_force
    gained = jnp.maximum(impulses * target, 0.0)
    if chosen is not None:
        contact_force = chosen.scatter(contact_force)
        impulse = _of_all_slots(top, layout, chosen, of_contact, impulse)
    info = StepInfo(
        contact_force=contact_force,
        limit_torque=limit_sign(top, J_limit) * of_limit / dt,
        grip_force=grip_force,
        motion_force=motion_force,
        residual=residual,
        energy_error=kinetic_energy(model, after, qd) - due,
        penetration=safe_max(jnp.append(-obs.contacts.gap, 0.0)),
        dropped_contacts=jnp.zeros((), int) if chosen is None else chosen.dropped_contacts,
        kinetic_before=kinetic_energy(model, kin, state.qd)
        if second and motion is None
        else _kinetic(y_start, state.qd, dt * damping, free_of),
        kinetic_after=_kinetic(y, qd, dt * damping, free_of),
        work=dt * jnp.sum(jnp.maximum(drive * (state.qd + solved) / 2, 0.0))
        + jnp.sum(gained[impulses.size - of_grip.size :]),
        recovery=jnp.sum(gained),
    )
    broken = state.broken
    if broken is not None:
        broken = broken | (safe_norm(grip_force) > model.grip_strength)
    return State(q, qd, state.time + dt, broken, WarmStart(impulse, rest)), info


def tolerance_at(config: TimeStepping, qd: Array) -> Array:
    """() tolerance of the solver at velocities qd (nv,): less where all are slow.

    A stack that sways by less than a fixed tolerance would never come to rest, nor with a tolerance
    proportional to the speed: it falls with the square of the speed.
    """
    fastest = jnp.max(jnp.abs(lax.stop_gradient(qd)), initial=0.0)
    return config.tolerance * jnp.clip((fastest / SWIFT) ** 2, STILL, 1.0)


def _solved(groups: tuple[RowGroup, ...], y: Array, warm, config: TimeStepping, tolerance: Array):
    """Solve the row groups that are not empty: groups with impulses, and the velocity y (nv,).

    warm (n,): last impulses of all groups, one after the other.
    """
    groups = tuple(f for f in groups if f.target.size)
    ends = np.cumsum([f.target.size for f in groups], dtype=int)
    groups = tuple(
        dataclasses.replace(f, impulse=config.warm_start * w.reshape(f.target.shape))
        for f, w in zip(groups, jnp.split(warm, ends[:-1]))
    )
    if config.bounded_start:
        groups = useful_start(groups, y)
    sweeps, most = config.sweeps, config.most_sweeps
    if config.derivative == "implicit":
        return implicit.solve(groups, y, sweeps, config.smoothing, most, tolerance)
    return adaptive.solve(groups, y, sweeps, most, tolerance)


def _check_step(model, state, obs, control, pushes) -> None:
    checks.check_model(model)
    checks.check_state_fits(model, state)
    check_warm_start(model, state)
    checks.check_kind("obs", obs, Observation, how=", as observe(model, state, config) gives it")
    checks.check_observation(model, obs)
    check_control(model, control)
    checks.check_pushes(model, pushes)


def check_control(model: Model, control: Control) -> None:
    """Raise ModelError or TypeError unless it is a control of the model."""
    checks.check_kind("control", control, Control, how=", as no_control(model) gives it")
    checks.check_control(model, control)


def _kinetic(y: Array, qd: Array, damping: Array, counted: Array) -> Array:
    """() kinetic energy of the counted dofs from y = L v, with L^T L inertia and damping."""
    return 0.5 * jnp.sum(counted * (y * y - damping * qd * qd))


def _of_all_slots(top, layout, chosen, of_contact: Array, impulse: Array) -> Array:
    """Impulses of the rows of all contact slots, from those of the chosen contacts."""
    of_contact = chosen.scatter(of_contact)
    padding = jnp.zeros(row_layout(top).n_contact_rows - of_contact.size, impulse.dtype)
    return jnp.concatenate([of_contact.reshape(-1), padding, impulse[layout.n_contact_rows :]])


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


def _impacts(contacts, layout, white: Array, given: Array, config: TimeStepping) -> Impacts:
    """Impacts within the step, in whitened rows; given (m,): share of prescribed motion [m/s]."""
    k = layout.contact_rows
    last = layout.contacts * k
    reaches = -jnp.maximum(contacts.gap, 0.0) / config.dt
    bounces = jnp.where(contacts.restitution > 0, 0.0, reaches)
    return Impacts(
        x=white[:last].reshape(layout.contacts, k, -1),
        given=given[:last:k],
        threshold=jnp.minimum(reaches, bounces - config.bounce_speed),
        reaches=reaches,
        restitution=contacts.restitution,
        friction=contacts.friction,
    )


def choose(
    model: Model, kin: Kinematics, contacts: Contacts, config: TimeStepping
) -> Chosen | None:
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


def _touching(model: Model, contacts: Contacts, distance) -> Array:
    """(nl,) bool: links with a contact nearer than ``distance`` [m]."""
    slots = contact_slots(model.topology)
    links = np.arange(model.topology.n_links)[:, None]
    belongs = (slots.link_a[None] == links) | (slots.link_b[None] == links)
    near = jnp.where(belongs, contacts.gap, jnp.inf)
    return jnp.min(near, axis=1, initial=jnp.inf) <= distance
