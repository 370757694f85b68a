"""Controller by goals in forward simulation: the torques of its optimisation drive the joints.

At regular steps the optimisation observes the character, and solves for torques, contact forces and
the next velocity together, as in its own scheme. The torques go to the simulation, whose contacts
may differ; a low damping towards the intended velocity keeps the two together until the next
solution. With ``SynthesisConfig.torque_limits`` the optimisation keeps to the limits of the motors,
and the motors give no more, whatever the damping or an unsolved optimisation asks for.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from controllers.controller import Wrapped
from controllers.goals.controller import GoalController
from controllers.pose.pd import clip_torque
from jaxsim.model import Model, ModelError, State
from jaxsim.simulation.records import Control
from jaxsim.solvers.status import Status
from jaxsim.synthesis.measured import effort
from jaxsim.synthesis.scheme import PerStepOptimisation
from jaxsim.synthesis.shares import shares


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class GoalTorquesState:
    """Memory between two steps of the simulation."""

    inner: Any  # of the controller by goals
    solver: Any  # of the optimisation
    count: Array  # () int: steps since the last optimisation
    torque: Array  # (nv,) of the character [N m]
    velocity: Array  # (nv,) intended [m/s, rad/s]
    asked: Array  # () largest torque asked for so far, over its limit
    unsolved: Array  # () int: optimisations so far that were not solved


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class GoalTorques(Wrapped):
    """``inner`` as a controller of torques, for a model whose first links are the character's.

    own: the character with what is fixed around it, and nothing else; scheme: for that model;
    damping: () kd towards the intended velocity, relative to the model's own gain. every: steps of
    the simulation from one optimisation to the next.
    """

    inner: GoalController
    scheme: PerStepOptimisation
    own: Model
    damping: Array | float = 0.1
    every: int = dataclasses.field(default=5, metadata={"static": True})

    @property
    def machine(self) -> Any:
        """Machine of the inner controller."""
        return self.inner.machine

    def resized(self, model: Model, grow: Callable[[Model], Model]) -> "GoalTorques":
        """Controller for the body that ``grow`` makes of the model."""
        scheme = self.scheme.resized(self.own, grow)
        return dataclasses.replace(self, own=grow(self.own), scheme=scheme)

    def check(self, model: Model) -> None:
        """Raise ModelError unless the model begins with the character."""
        own, names = self.own.topology.link_names, model.topology.link_names
        if names[: len(own)] != own:
            raise ModelError(
                f"controller: the first links are {', '.join(names[: len(own)])}; those of the"
                f" character are needed, {', '.join(own)}"
            )
        self.inner.check(self.own)

    def inner_memory(self, memory: GoalTorquesState) -> Any:
        return memory.inner

    def inner_model(self, model: Model) -> Model:
        return self.own

    def inner_scheme(self, scheme: Any) -> PerStepOptimisation:
        return self.scheme

    def record(self, model: Model, state: State, memory: GoalTorquesState) -> dict[str, Array]:
        """Objective by goal and conflicts of goals at the velocity that was meant, see
        ``jaxsim.synthesis.shares``, positions of the effectors (ne, 3) [m], and what
        ``summary_entries`` reports."""
        own = self._part(state, memory.solver)
        sees = self.scheme.observe(self.own, own)
        command = self.inner.tasks_at(memory.inner, self.own, sees, jnp.asarray(self.scheme.dt))
        cost, against = shares(command(sees.conf, jnp.zeros_like(own.qd)), memory.velocity)
        return {
            "cost": cost,
            "against": against,
            "effector_pos": sees.conf.position,
            "asked": memory.asked,
            "unsolved": memory.unsolved,
        }

    def summary_entries(
        self, scheme: Any, model: Model, frames: Any, time: np.ndarray
    ) -> dict[str, Any]:
        """Entries of the inner controller, the largest torque that was asked for, relative to its
        limit, and the number of optimisations that were not solved."""
        entries = super().summary_entries(scheme, model, frames, time)
        asked, unsolved = float(frames.more["asked"][-1]), int(frames.more["unsolved"][-1])
        return {**entries, "asked_torque_ratio": asked, "unsolved_frames": unsolved}

    def inner_frames(self, scheme: Any, model: Model, frames: Any, time: np.ndarray) -> Any:
        """Frames by effector: force of the link's contacts in equal parts on its effectors, and
        sliding of those that bear a force and move faster than ``slip_speed``."""
        links = np.asarray(self.scheme.effectors.links)
        on, other = scheme.contact_links(model)
        at = (np.asarray(on)[:, None] == links) - 1.0 * (np.asarray(other)[:, None] == links)
        count = (links[:, None] == links).sum(axis=0)
        force = np.einsum("tci,ce->tei", frames.contact_force, at / count)
        position = frames.more["effector_pos"]
        step = np.diff(time, append=time[-1] + (time[-1] - time[-2] if len(time) > 1 else 1.0))
        moved = np.diff(position[..., :2], axis=0, append=position[-1:, :, :2])
        speed = np.linalg.norm(moved, axis=-1) / step[:, None]
        pressed = np.linalg.norm(force, axis=-1) > 0
        return SimpleNamespace(
            contact_pos=position,
            contact_force=force,
            more={**frames.more, "sliding": pressed & (speed > float(self.scheme.slip_speed))},
            **{name: getattr(frames, name) for name in ("link_pos", "link_quat", "phase", "since")},
        )

    def init(self, model: Model, state: State, obs: Any) -> GoalTorquesState:
        """Initial memory: the optimisation runs at the first step."""
        own = self.scheme.init(self.own, self._part(state, None))
        inner = self.inner.init(self.own, own, self.scheme.observe(self.own, own))
        none, zero = jnp.asarray(0), jnp.zeros_like(own.qd)
        return GoalTorquesState(inner, own.solver, none, zero, own.qd, zero[0], none)

    def update(
        self, memory: GoalTorquesState, model: Model, state: State, obs: Any, dt: Array
    ) -> tuple[GoalTorquesState, Control]:
        """Torques of the latest solution, and damping towards its velocity.

        Where the solution was no usable motion, the torques before it continue.
        """

        def look(memory: GoalTorquesState) -> GoalTorquesState:
            own = self._part(state, memory.solver)
            sees = self.scheme.observe(self.own, own)
            dt = jnp.asarray(self.scheme.dt)
            inner, tasks = self.inner.update(memory.inner, self.own, own, sees, dt)
            after, info = self.scheme.step(self.own, own, sees, tasks)
            return dataclasses.replace(
                memory,
                inner=inner,
                solver=after.solver,
                count=jnp.asarray(0),
                torque=after.solver.motors.torque,
                velocity=after.qd,
                unsolved=memory.unsolved + (info.status != Status.OK),
            )

        memory = jax.lax.cond(memory.count % self.every == 0, look, lambda m: m, memory)
        nv = self.own.topology.nv
        on = np.zeros(nv)
        on[self.own.topology.actuated_dofs] = 1.0
        gain = self.damping * self.own.gain_d * on
        torque = memory.torque * on + gain * (memory.velocity - state.qd[:nv])
        asked = jnp.maximum(memory.asked, effort(self.own, torque))
        command = Control(torque, gain)
        if self.scheme.torque_limits:
            command = clip_torque(self.own, torque, gain)
        every = jnp.zeros(model.topology.nv, state.qd.dtype)
        torque, gain = every.at[:nv].set(command.torque), every.at[:nv].set(command.damping)
        memory = dataclasses.replace(memory, count=memory.count + 1, asked=asked)
        return memory, Control(torque=torque, damping=gain)

    def _part(self, state: State, solver: Any) -> State:
        """State of the character alone."""
        top = self.own.topology
        return State(state.q[: top.nq], state.qd[: top.nv], state.time, None, solver)
