"""Controller of a compiled script: torque = PD + virtual forces + gravity + balance.

Source: Shen's thesis, equation 3.1 and sections 3.1 to 3.6. The state machine is a look-up in the
program's tables by the active phase; one ``where`` changes the phase.
"""

import dataclasses
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from controllers.controller import Controller
from controllers.pose.pd import clip_torque
from controllers.scl.program import (
    CHANGED,
    CHILD,
    ESTABLISHED,
    IK_FIRST,
    IK_SECOND,
    JOINT,
    LOST,
    NO_CONTACT,
    PARENT,
    RELAX,
    TOUCHING,
    ScriptProgram,
)
from controllers.virtual_forces import balance_force, gravity_compensation, virtual_force
from jaxsim.dynamics.kinematics import plane_angles
from jaxsim.math.safe import safe_arccos, safe_divide, safe_max, safe_norm
from jaxsim.model import Model, ModelError, State
from jaxsim.simulation.checks import check_array
from jaxsim.simulation.records import Control, Observation

EVENTS_KEPT = 64  # phase changes that a memory records
BY_TIME, BY_CONTACT, BY_BOTH = 1, 2, 3


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class ScriptMemory:
    """ScriptMemory of the state machine; J script joints, nl links, nj joints of the model."""

    begun: Array  # () bool: false before the first step
    phase: Array  # () active phase
    phase_steps: Array  # () steps spent in it
    phase_time: Array  # () the same [s]; a product, for a sum of float32 would miss whole steps
    wanted: Array  # (J,) target angles of the last step, inherited by the next phase [rad]
    start_angle: Array  # (J,) joint angles when the phase began [rad]
    start_link: Array  # (nl,) orientations of the links then [rad]
    start_anchor: Array  # (nj, 2) x, z of the joints then [m]
    has_touched: Array  # (nl,) bool: in contact at some time of the phase
    has_parted: Array  # (nl,) bool: out of contact at some time of the phase
    events: Array  # () phase changes so far
    event_time: Array  # (EVENTS_KEPT,) [s]
    event_phase: Array  # (EVENTS_KEPT,) the phase entered
    event_cause: Array  # (EVENTS_KEPT,) BY_TIME, BY_CONTACT, BY_BOTH


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class ScriptController(Controller):
    """Controller that runs a script.

    ``values`` (n,) are its numbers in the order of the text, in its units (degrees, seconds,
    newtons); they may be batched, tuned or differentiated. The rest is static.
    """

    program: ScriptProgram = dataclasses.field(metadata={"static": True})
    values: Array
    names: tuple[str, ...] = dataclasses.field(default=(), metadata={"static": True})

    @property
    def labels(self) -> dict[str, str]:
        """Mapping from the label of each number, such as "stance: waist angle", to its path."""
        return {name: f"values[{k}]" for k, name in enumerate(self.names)}

    def replace(self, **changes) -> "ScriptController":
        """A copy with some fields changed."""
        return dataclasses.replace(self, **changes)

    def check(self, model: Model) -> None:
        """Raise ModelError unless the script is compiled for this body and has all numbers."""
        top, links = model.topology, self.program.links.shape[-1]
        nv = self.program.gc_base.shape[-1]
        if (links, nv) != (top.n_links, top.nv):
            raise ModelError(
                f"controller: the script was compiled for a body of {links} links and {nv} degrees"
                f" of freedom, the model has {top.n_links} and {top.nv}; make it with"
                " script_controller(script, model) for this very model"
            )
        check_array("controller.values", self.values, (self.program.count,), model.mass.dtype)

    @property
    def phase_names(self) -> tuple[str, ...]:
        """Phases in the order of the script."""
        return self.program.phase_names

    def phase(self, memory: ScriptMemory) -> tuple[Array, Array]:
        """The active phase, and when it was entered [s], 0 for the first."""
        last = (memory.events - 1) % EVENTS_KEPT
        return memory.phase, jnp.where(memory.events > 0, memory.event_time[last], 0.0)

    def phase_changes(self, before: ScriptMemory, after: ScriptMemory) -> list[tuple[float, int]]:
        """(time [s], phase entered) between two memories; of very many the last ones."""
        first = max(int(before.events), int(after.events) - EVENTS_KEPT)
        slots = [event % EVENTS_KEPT for event in range(first, int(after.events))]
        time, phase = np.asarray(after.event_time, float), np.asarray(after.event_phase)
        return [(float(time[slot]), int(phase[slot])) for slot in slots]

    def init(self, model: Model, state: State, obs: Any) -> ScriptMemory:
        """ScriptMemory before phase 0; joints keep the state's pose until a primitive sets them."""
        dtype, top = state.q.dtype, model.topology
        angles, links = _angles(model, self.program, state)
        return ScriptMemory(
            begun=jnp.zeros((), bool),
            phase=jnp.zeros((), jnp.int32),
            phase_steps=jnp.zeros((), jnp.int32),
            phase_time=jnp.zeros((), dtype),
            wanted=angles,
            start_angle=angles,
            start_link=links,
            start_anchor=jnp.zeros((top.n_joints, 2), dtype),
            has_touched=jnp.zeros(top.n_links, bool),
            has_parted=jnp.zeros(top.n_links, bool),
            events=jnp.zeros((), jnp.int32),
            event_time=jnp.zeros(EVENTS_KEPT, dtype),
            event_phase=jnp.zeros(EVENTS_KEPT, jnp.int32),
            event_cause=jnp.zeros(EVENTS_KEPT, jnp.int32),
        )

    def update(
        self, memory: ScriptMemory, model: Model, state: State, obs: Observation, dt: Array
    ) -> tuple[ScriptMemory, Control]:
        """Enter the next phase if its condition holds; compute the torques of the active phase."""
        program = self.program
        values = jnp.append(self.values, 0.0).astype(state.q.dtype)
        angles, links = _angles(model, program, state)
        with jax.named_scope("phase"):
            memory = _advance(program, values, memory, angles, links, state, obs)
        with jax.named_scope("targets"):
            target, gain_p, gain_d = _targets(program, values, memory, model, angles, links, obs)
        with jax.named_scope("torques"):
            speed = state.qd[program.dofs]
            joint_torque = gain_p * (target - angles) - gain_d * speed
            torque = _on_dofs(program, model, joint_torque)
            torque = torque + _virtual_torques(program, values, memory.phase, model, obs)
        control = clip_torque(model, torque, _on_dofs(program, model, gain_d))
        steps = memory.phase_steps + 1
        time = steps * jnp.asarray(dt, state.q.dtype)
        memory = dataclasses.replace(memory, wanted=target, phase_steps=steps, phase_time=time)
        return memory, control


def _on_dofs(program: ScriptProgram, model: Model, per_joint: Array) -> Array:
    """Values (J,) of the script joints at their dofs, (nv,), zero elsewhere."""
    return jnp.zeros(model.topology.nv, per_joint.dtype).at[program.dofs].set(per_joint)


def _angles(model: Model, program: ScriptProgram, state: State) -> tuple[Array, Array]:
    """Script joints' angles (J,) and link orientations (nl,), counter-clockwise in the plane."""
    return state.q[program.dofs], plane_angles(model, state.q)


def _advance(
    program, values, memory: ScriptMemory, angles, links, state: State, obs
) -> ScriptMemory:
    """Record contacts, and enter the next phase if the present one's condition holds."""
    p = memory.phase
    touched = memory.has_touched | obs.touching
    parted = memory.has_parted | ~obs.touching
    event = jnp.asarray(program.event)[p]
    now = obs.touching
    met = jnp.where(event == ESTABLISHED, now & parted, now & (event == TOUCHING))
    met = jnp.where(event == LOST, ~now & touched, met)
    met = jnp.where(event == CHANGED, touched & parted, met)
    concerned = jnp.asarray(program.links)[p]
    any_met, all_met = jnp.any(met & concerned), jnp.all(met | ~concerned)
    contact_ok = jnp.where(jnp.asarray(program.all_links)[p], all_met, any_met)
    timed = jnp.asarray(program.timed)[p]
    # half a millionth of a second keeps rounding from adding a step
    time_ok = memory.phase_time >= values[jnp.asarray(program.after)[p]] - 5e-7
    no_contact = event == NO_CONTACT
    go = (contact_ok | no_contact) & (time_ok | ~timed) & ~jnp.asarray(program.last)[p]
    cause = jnp.where(timed, jnp.where(no_contact, BY_TIME, BY_BOTH), BY_CONTACT)
    target = jnp.asarray(program.target, jnp.int32)[p]
    go = go & memory.begun
    enter = go | ~memory.begun

    def note(events):
        """Record the phase change in place of the oldest record."""
        new = (state.time, target, cause)
        slot = memory.events % EVENTS_KEPT
        return tuple(old.at[slot].set(x) for old, x in zip(events, new, strict=True))

    events = (memory.event_time, memory.event_phase, memory.event_cause)
    event_time, event_phase, event_cause = jax.lax.cond(go, note, lambda kept: kept, events)

    def pick(new, old):
        return jnp.where(enter, new, old)

    return ScriptMemory(
        begun=jnp.ones((), bool),
        phase=jnp.where(go, target, p),
        phase_steps=pick(0, memory.phase_steps),
        phase_time=pick(0.0, memory.phase_time),
        wanted=memory.wanted,
        start_angle=pick(angles, memory.start_angle),
        start_link=pick(links, memory.start_link),
        start_anchor=pick(obs.kin.joint_anchor[:, ::2], memory.start_anchor),
        has_touched=pick(now, touched),
        has_parted=pick(~now, parted),
        events=memory.events + go,
        event_time=event_time,
        event_phase=event_phase,
        event_cause=event_cause,
    )


def _targets(program, values, memory: ScriptMemory, model: Model, angles, links, obs):
    """Target angles (J,) of the script joints, and their gains (J,), (J,)."""
    p, t = memory.phase, memory.phase_time
    mode = jnp.asarray(program.mode)[p]
    goal = jnp.deg2rad(values[jnp.asarray(program.angle)[p]])
    duration = values[jnp.asarray(program.duration)[p]]
    done = jnp.where(duration > 0, jnp.clip(safe_divide(t, duration), 0.0, 1.0), 1.0)
    child, parent = links[program.child], links[program.parent]
    start_child = memory.start_link[program.child]
    start_parent = memory.start_link[program.parent]
    middle = _range_middle(program, model)

    in_child = _between(start_child - parent, _near(goal - parent, middle), done)
    in_parent = _between(child - start_parent, _near(child - goal, middle), done)
    target = jnp.where(mode == JOINT, _between(memory.start_angle, goal, done), memory.wanted)
    target = jnp.where(mode == CHILD, in_child, target)
    target = jnp.where(mode == PARENT, in_parent, target)
    target = jnp.where(mode == RELAX, angles, target)
    for k in range(program.ik_joints.shape[1]):
        first, second, target_first, target_second = _limb(
            program, values, memory, model, k, links, obs
        )
        index = np.arange(len(program.dofs))
        target = jnp.where((mode == IK_FIRST) & (index == first), target_first, target)
        target = jnp.where((mode == IK_SECOND) & (index == second), target_second, target)
    target = jnp.where((mode == IK_FIRST) | (mode == IK_SECOND), _near(target, middle), target)
    relaxed = mode == RELAX
    strength = values[jnp.asarray(program.strength)[p]]
    gain_p = jnp.where(relaxed, 0.0, model.gain_p[program.dofs])
    gain_d = jnp.where(relaxed, strength, 1.0) * model.gain_d[program.dofs]
    return target, gain_p, gain_d


def _between(a: Array, b: Array, fraction: Array) -> Array:
    return a + (b - a) * fraction


def _near(angle: Array, middle: Array) -> Array:
    """The angle plus the whole turns that bring it within half a turn of ``middle``."""
    turns = jnp.round((angle - middle) / (2 * jnp.pi))
    return angle - 2 * jnp.pi * jax.lax.stop_gradient(turns)


def _range_middle(program: ScriptProgram, model: Model) -> Array:
    """(J,) middle of the joints' ranges."""
    joint = model.topology.dof_joint[program.dofs]
    return (model.joint_lower[joint] + model.joint_upper[joint]) / 2


def _limb(program, values, memory: ScriptMemory, model: Model, k: int, links, obs):
    """Two-link inverse kinematics of chain ``k``: its joints and their target angles.

    The target runs along straight pieces of equal time from where the end was when the phase began.
    Out of reach means stretched towards the target. Source: Shen's thesis, section 3.5.
    """
    p, t = memory.phase, memory.phase_time
    first, second, end = (jnp.asarray(program.ik_joints)[p, k, i] for i in range(3))
    nodes = jnp.asarray(model.topology.dof_joint[program.dofs])
    begin = memory.start_anchor[nodes[end]]
    origin = memory.start_anchor[jnp.asarray(program.ik_relative)[p, k]]
    points = values[jnp.asarray(program.ik_target)[p, k]] + origin
    count = jnp.asarray(program.ik_count)[p, k]
    duration = values[jnp.asarray(program.ik_duration)[p, k]]
    done = jnp.where(duration > 0, jnp.clip(safe_divide(t, duration), 0.0, 1.0), 1.0) * count
    piece = jnp.minimum(jnp.floor(done).astype(count.dtype), count - 1)
    previous = jnp.where(piece == 0, begin, points[jnp.maximum(piece - 1, 0)])
    target = _between(previous, points[piece], done - piece)

    # limbs extend along -x of their links: root - target = l1 u(phi1) + l2 u(phi1 + angle2)
    l1 = _limb_length(model, nodes[second])
    l2 = _limb_length(model, nodes[end])
    root = obs.kin.joint_anchor[nodes[first], ::2]
    away = root - target
    reach = jnp.clip(safe_norm(away), jnp.abs(l1 - l2) + 1e-4, l1 + l2 - 1e-4)
    cosine = (reach**2 - l1**2 - l2**2) / (2 * l1 * l2)
    middle = _range_middle(program, model)
    angle2 = jnp.where(middle[second] >= 0, 1.0, -1.0) * safe_arccos(cosine)
    phi1 = jnp.arctan2(away[1], away[0]) - jnp.arctan2(
        l2 * jnp.sin(angle2), l1 + l2 * jnp.cos(angle2)
    )
    parent = links[jnp.asarray(program.parent)[first]]
    return first, second, phi1 - parent, angle2


def _limb_length(model: Model, node: Array) -> Array:
    """Distance from the joint before ``node`` to it [m]."""
    return safe_norm(model.joint_pos[node])


def _virtual_torques(program, values, phase, model: Model, obs: Observation) -> Array:
    """(nv,) torques of the phase's virtual forces, balance feedback and gravity compensation."""
    kin = obs.kin
    torque = jnp.zeros(model.topology.nv, values.dtype)
    span = _foot_span(program, phase, model, obs)
    for k in range(program.vf_on.shape[1]):
        a, b = values[jnp.asarray(program.vf_force)[phase, k]]
        given = jnp.stack([a, jnp.zeros_like(a), b])
        balance = balance_force(a, b, span, obs.com, obs.com_velocity)
        force = jnp.where(jnp.asarray(program.vf_balance)[phase, k], balance, given)
        point = kin.com[jnp.asarray(program.vf_on)[phase, k]]
        along = jnp.asarray(program.vf_chain, torque.dtype)[phase, k]
        torque = torque + virtual_force(model, kin, along, point, force)
    if program.gc_on.any():
        base = jnp.asarray(program.gc_base, torque.dtype)[phase]
        compensation = gravity_compensation(model, kin, obs.com, base)
        torque = torque + jnp.where(jnp.asarray(program.gc_on)[phase], compensation, 0.0)
    return torque


def _foot_span(program: ScriptProgram, phase: Array, model: Model, obs: Observation) -> Array:
    """() middle of the x range that the base links of the phase's balance feedback cover [m]."""
    bases = np.flatnonzero(program.feet.any(axis=0))
    if not bases.size:
        return jnp.zeros((), obs.com.dtype)
    top = model.topology
    shapes = np.array([top.shape_link.index(link) for link in bases])
    half = model.shape_size[shapes, 2:] * np.array([1.0, 0.0, 0.0])  # along the shape's x
    local = model.shape_pos[shapes]
    rot, pos = obs.kin.link_rot[bases], obs.kin.link_pos[bases]
    x = jnp.stack(
        [pos[:, 0] + jnp.sum(rot[:, 0] * (local + side * half), axis=-1) for side in (1.0, -1.0)],
        axis=-1,
    )
    used = jnp.asarray(program.feet[:, bases])[phase][:, None]
    far = 1e6
    low, high = -safe_max(-jnp.where(used, x, far)), safe_max(jnp.where(used, x, -far))
    return (low + high) / 2
