"""Controller of a compiled script: torque = PD + virtual forces + gravity + balance.

Source: Shen's thesis, equation 3.1 and sections 3.1 to 3.6. The state machine is a look-up in the
program's tables by the active phase; one ``where`` changes the phase.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from controllers.controller import Controller
from controllers.pose.pd import clip_torque
from controllers.scl.names import vocabulary
from controllers.scl.parser import parse
from controllers.scl.primitive import ScriptStep
from controllers.scl.program import (
    CHANGED,
    ESTABLISHED,
    LOST,
    NO_CONTACT,
    TOUCHING,
    ScriptProgram,
)
from controllers.scl.source import FILE, ScriptSource
from controllers.source import NumberSource
from jaxsim.dynamics.kinematics import plane_angles
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

    def number_source(self, files: Mapping[str, str], model: Model) -> NumberSource:
        """Numbers of the script's text, where the scenario has it."""
        if FILE not in files:
            return NumberSource()
        return ScriptSource(script=parse(files[FILE], vocabulary(model)), model=model)

    def replace(self, **changes) -> "ScriptController":
        """A copy with some fields changed."""
        return dataclasses.replace(self, **changes)

    def check(self, model: Model) -> None:
        """Raise ModelError unless the script is compiled for this body and has all numbers."""
        top, links = model.topology, self.program.links.shape[-1]
        nv = self.program.nv
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
        step = ScriptStep(
            dofs=program.dofs,
            child=program.child,
            parent=program.parent,
            model=model,
            obs=obs,
            values=values,
            phase=memory.phase,
            time=memory.phase_time,
            angles=angles,
            links=links,
            last_target=memory.wanted,
            start_angles=memory.start_angle,
            start_links=memory.start_link,
            start_anchors=memory.start_anchor,
        )
        with jax.named_scope("targets"):
            target, gain_p, gain_d = _targets(program, step)
        with jax.named_scope("torques"):
            joint_torque = gain_p * (target - angles) - gain_d * state.qd[program.dofs]
            torque = step.on_dofs(joint_torque) + _added_torques(program, step)
        control = clip_torque(model, torque, step.on_dofs(gain_d))
        steps = memory.phase_steps + 1
        time = steps * jnp.asarray(dt, state.q.dtype)
        memory = dataclasses.replace(memory, wanted=target, phase_steps=steps, phase_time=time)
        return memory, control


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


def _targets(program: ScriptProgram, step: ScriptStep) -> tuple[Array, Array, Array]:
    """Target angles (J,) of the script joints [rad], and their gains (J,), (J,)."""
    setter = step.row(program.setter)
    gain_p, gain_d = step.model.gain_p[program.dofs], step.model.gain_d[program.dofs]
    angle = step.last_target
    for k, (kind, table) in enumerate(zip(program.kinds, program.tables, strict=True)):
        if (program.setter == k).any():
            targets, sets = kind.joint_targets(table, step), setter == k
            angle = jnp.where(sets, targets.angle, angle)
            gain_p = jnp.where(sets, targets.stiffness, 1.0) * gain_p
            gain_d = jnp.where(sets, targets.damping, 1.0) * gain_d
    return angle, gain_p, gain_d


def _added_torques(program: ScriptProgram, step: ScriptStep) -> Array:
    """Torques (nv,) that the phase's primitives add to those of the targets [N m]."""
    torque = jnp.zeros(step.model.topology.nv, step.values.dtype)
    for kind, table in zip(program.kinds, program.tables, strict=True):
        added = kind.torque(table, step)
        torque = torque if added is None else torque + added
    return torque
