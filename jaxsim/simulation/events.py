"""Event-driven step of Kokkevis (2004), section 7: forces from accelerations, halving, impacts.

Within one interval the set of active constraints is fixed until an event: their forces are solved
for with accelerations, and the motion is tried for the rest of the interval. Where a contact gets
too deep the try is halved; contacts that then touch and still approach are stopped by an impact.
``step`` (velocities, one solve a step) is faster and can be differentiated; this one resolves the
times of events, and serves as its check.
"""

import dataclasses
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import Array

from jaxsim.collision.slots import contact_slots
from jaxsim.dynamics.kinematics import forward_kinematics, integrate
from jaxsim.dynamics.momentum import kinetic_energy
from jaxsim.math.safe import safe_norm
from jaxsim.math.varying import alike
from jaxsim.model.errors import ModelError
from jaxsim.model.model import Model
from jaxsim.model.state import State
from jaxsim.simulation import checks
from jaxsim.simulation.constrained import enforce, resolve_impact
from jaxsim.simulation.event_options import EventOptions
from jaxsim.simulation.event_scene import EventScene
from jaxsim.simulation.external import link_wrenches
from jaxsim.simulation.measures import Measure, share
from jaxsim.simulation.pushes import Pushes, push_torque
from jaxsim.simulation.records import Control, Observation
from jaxsim.simulation.scheme import register_scheme
from jaxsim.simulation.step import check_control
from jaxsim.solvers.idle import unless_idle
from jaxsim.solvers.lcp import SOLVED, gauss_seidel
from jaxsim.solvers.status import Status

# Armature of driven joints, in masses of the model: the less contacts move such a joint, which is a
# constraint, the faster they are solved.
HEAVY = 1e6
METHOD = "mass"  # under XLA it takes 0.7 of the time of the deltas


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class EventInfo:
    """Outcome of an interval of the event-driven scheme."""

    status: Array  # () int: Status.OK, INTERVAL, UNFINISHED or NOT_FINITE
    left: Array  # () unused rest of the interval [s]
    tries: Array  # () int
    impacts: Array  # () int: number of tries that ended with an impact
    residual: Array  # () largest residual of the solver [m/s^2, rad/s^2]
    contact_force: Array  # (nc, 3) on shape a, mean over the interval, impacts included [N]
    limit_torque: Array  # (nl,) mean, see StepInfo [N m or N]
    grip_force: Array  # (ng, 3) mean, on the gripping link [N]
    motion_force: Array  # (nv,) mean, of prescribed motion and MotionControl [N m or N]
    penetration: Array  # () deepest at the end [m]
    dropped_contacts: Array  # () int: largest number of contacts without a row
    # those of StepInfo; the last is 0: here penetration gives no more than ``recovery_speed``
    kinetic_before: Array  # () [J]
    kinetic_after: Array  # () before the last impact [J]
    work: Array  # () [J]
    recovery: Array  # () [J]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Slips:
    """Memory of the event-driven scheme."""

    tangent: Array  # (nc, 3) unit, against each contact's last slip; 0 where it has none


@register_scheme
@dataclass(frozen=True)
class EventDriven(EventOptions):
    """Event-driven scheme of Kokkevis (2004), at acceleration level."""

    def measures(self, model: Model) -> dict[str, Measure]:
        """Measures of contact schemes, and the time of unfinished and unsolved steps [s]."""

        def ended(*kinds: Status):
            numbers = jnp.array([int(kind) for kind in kinds])
            return share(lambda sample: jnp.isin(sample.info.status, numbers))

        return {
            **super().measures(model),
            "unfinished_time": ended(Status.INTERVAL),
            "unsolved_time": ended(Status.UNFINISHED, Status.NOT_FINITE),
        }

    @property
    def tells_residual(self) -> bool:
        """False: no derivative of this scheme depends on the residual."""
        return False

    def init(self, model: Model, state: State) -> State:
        """Add the last slip of each contact to a state, unless it has it: no slip."""
        shape = (contact_slots(model.topology).count, 3)
        if isinstance(state.solver, Slips):
            checks.check_array(
                "state.solver.tangent", state.solver.tangent, shape, model.mass.dtype
            )
            return state
        return state.replace(solver=Slips(jnp.zeros(shape, jnp.result_type(model.mass))))

    def step(
        self,
        model: Model,
        state: State,
        obs: Observation,
        command: Control,
        forces: Pushes | None = None,
    ) -> tuple[State, EventInfo]:
        """Run ``event_step`` with this scheme's numbers."""
        return event_step(model, state, obs, command, self, forces)


def event_step(
    model: Model,
    state: State,
    obs: Observation,
    control: Control,
    config: EventDriven,
    pushes: Pushes | None = None,
) -> tuple[State, EventInfo]:
    """Advance one character by ``config.dt`` under a constant control; arguments as of ``step``.

    Damping is implicit, as in ``step``: it acts on a try's last velocity. The work is bounded; the
    status reports a bound that was hit, and a member of a batch that is not finite ends with its
    own status. Not differentiable in reverse.

    Raises as ``step`` does.
    """
    checks.check_model(model)
    checks.check_config(model, config, EventDriven)
    checks.check_state_fits(model, state)
    check_control(model, control)
    if control.friction is not None:
        raise ModelError(
            "control.friction is for TimeStepping; an EventDriven step has the model's"
        )
    checks.check_pushes(model, pushes)
    kin = forward_kinematics(model, state.q, state.qd) if obs is None else obs.kin
    of_motion = kinetic_energy(model, kin, state.qd)
    begin, dt = config.init(model, state), jnp.asarray(config.dt, state.q.dtype)
    if model.topology.driven_dofs.size:
        heavy = model.armature.at[model.topology.driven_dofs].add(HEAVY * model.total_mass)
        model = model.replace(armature=heavy)

    def goes_on(carry):
        _, left, _, _, info = carry
        return (left > 1e-9 * dt) & (info.tries < config.parts)

    def again(carry):
        state, left, attempt, halved, info = carry
        h = jnp.minimum(attempt, left)
        tried, taken, deep = _part(
            model, state, begin.qd, control, config, pushes, (dt, left, h), info
        )
        halve = deep & (halved < config.halvings)

        def choose(yes, no):
            return jax.tree.map(lambda a, b: jnp.where(halve, a, b), yes, no)

        state, info = choose((state, info), (tried, taken))
        left = jnp.where(halve, left, left - h)
        attempt = jnp.where(halve, 0.5 * h, left)
        halved = jnp.where(halve, halved + 1, 0)
        return state, left, attempt, halved, dataclasses.replace(info, tries=info.tries + 1)

    count = jnp.zeros((), int)
    nothing = dataclasses.replace(_nothing_yet(model, dt), kinetic_before=of_motion)
    begun = alike((begin, dt, dt, count, nothing), control, pushes)
    end, left, _, _, info = jax.lax.while_loop(goes_on, again, begun)
    finite = jnp.isfinite(end.q).all() & jnp.isfinite(end.qd).all()
    late = jnp.where(left > 1e-9 * dt, int(Status.INTERVAL), info.status)
    status = jnp.where(finite, late, int(Status.NOT_FINITE))
    return end, dataclasses.replace(info, status=status, left=jnp.maximum(left, 0))


def _nothing_yet(model: Model, dt: Array) -> EventInfo:
    count, top = jnp.zeros((), int), model.topology
    return EventInfo(
        status=count + int(Status.OK),
        left=dt,
        tries=count,
        impacts=count,
        residual=jnp.zeros_like(dt),
        contact_force=jnp.zeros((contact_slots(top).count, 3), dt.dtype),
        limit_torque=jnp.zeros(len(top.limited_joints), dt.dtype),
        grip_force=jnp.zeros((top.n_grips, 3), dt.dtype),
        motion_force=jnp.zeros(top.nv, dt.dtype),
        penetration=jnp.zeros_like(dt),
        dropped_contacts=count,
        kinetic_before=jnp.zeros_like(dt),
        kinetic_after=jnp.zeros_like(dt),
        work=jnp.zeros_like(dt),
        recovery=jnp.zeros_like(dt),
    )


def _part(
    model: Model,
    state: State,
    start_velocity: Array,
    control: Control,
    config: EventDriven,
    pushes: Pushes | None,
    interval: tuple[Array, Array, Array],
    info: EventInfo,
) -> tuple[State, EventInfo, Array]:
    """Try a part of the interval: state after it, info, and () bool if it went too deep.

    start_velocity (nv,): at the interval's start; interval: its length, what is left of it, and
    the length of the try [s].
    """
    dt, left, h = interval
    torque = control.torque - control.damping * (state.qd - start_velocity)
    drive = torque
    torque = torque - model.damping * state.qd
    before = EventScene.of(model, state, config)
    if pushes is not None:
        pushed = push_torque(model, before.kin, pushes, state.time)
        torque, drive = torque + pushed, drive + pushed
    if control.external is not None:
        pushed = link_wrenches(model, before.kin, control.external)
        torque, drive = torque + pushed, drive + pushed
    damping = control.damping + model.damping
    damped = model.replace(armature=model.armature + h * damping)  # its torque is of qd + h qdd
    before = before.with_friction_directions(damped, torque)
    rows, bounds = before.rows(model, state, control, h, config)
    enforced = enforce(damped, before.kin, torque, rows, bounds, METHOD, _solver(config))
    qd = state.qd + h * enforced.qdd
    tried = state.replace(q=integrate(model, state.q, qd, h), qd=qd, time=state.time + h)
    after = EventScene.of(model, tried, config)
    tried = tried.replace(solver=Slips(after.tangent))
    deep = after.deeper_than(before, config.depth)
    hits, qd_after, impulse, status = _impact(model, after, tried, control, config)
    unsolved = (enforced.solution.status != SOLVED) | (status != SOLVED)
    forces = before.forces(model, control, enforced.solution.force)
    blows = after.forces(model, control, impulse)
    drive = drive - control.damping * (qd - state.qd)
    work = h * jnp.sum(jnp.maximum((drive + forces[3]) * (state.qd + qd) / 2, 0.0))
    mean = [(h * f + blow) / dt for f, blow in zip(forces, blows)]
    tried = tried.replace(qd=qd_after)
    if state.broken is not None:
        torn = safe_norm(forces[2]) > model.grip_strength
        tried = tried.replace(broken=state.broken | torn)
    taken = EventInfo(
        status=jnp.where(unsolved, int(Status.UNFINISHED), info.status),
        left=left - h,
        tries=info.tries,
        impacts=info.impacts + hits,
        residual=jnp.maximum(info.residual, enforced.solution.residual),
        contact_force=info.contact_force + mean[0],
        limit_torque=info.limit_torque + mean[1],
        grip_force=info.grip_force + mean[2],
        motion_force=info.motion_force + mean[3],
        penetration=after.penetration(),
        dropped_contacts=jnp.maximum(info.dropped_contacts, before.dropped_contacts),
        kinetic_before=info.kinetic_before,
        kinetic_after=kinetic_energy(model, after.kin, qd),
        work=info.work + work,
        recovery=info.recovery,
    )
    return tried, taken, deep


def _impact(
    model: Model, scene: EventScene, state: State, control: Control, config: EventDriven
) -> tuple[Array, Array, Array, Array]:
    """Resolve the impact of touching contacts that approach.

    Returns () bool of an impact, the velocities after it, the rows' impulses, and the solver's
    status.
    """
    hits, rows, bounds = scene.impact(model, state, control, config)
    solved = jnp.full((), SOLVED)

    def stopped(qd: Array) -> tuple[Array, Array, Array]:
        found = resolve_impact(model, scene.kin, qd, rows, bounds, METHOD, _solver(config))
        return found.qdd, found.solution.force, found.solution.status

    def untouched(qd: Array) -> tuple[Array, Array, Array]:
        return qd, jnp.zeros_like(rows.desired), solved

    qd, impulse, status = unless_idle(hits, stopped, state.qd, idle=untouched)
    return (
        hits,
        jnp.where(hits, qd, state.qd),
        jnp.where(hits, impulse, 0.0),
        jnp.where(hits, status, solved),
    )


def _solver(config: EventDriven):
    def solve(K, b, bounds):
        return gauss_seidel(
            K, b, bounds, iterations=config.iterations, tolerance=config.tolerance, early=True
        )

    return solve
