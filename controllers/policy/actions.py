"""Actions (na,) from -1 to 1, and the torques or targets that they stand for; one class a kind."""

from dataclasses import dataclass
from typing import Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer

from controllers.policy.observations import look_up
from controllers.pose.pd import clip_torque, pose_error
from controllers.tracking.track import Track
from jaxsim.dynamics.kinematics import integrate
from jaxsim.model import Model, ModelError, State
from jaxsim.simulation.records import Control


class Action(Protocol):
    """Mapping from an action to a character's motors. Static: its fields are numbers and texts."""

    @property
    def scale(self) -> float:
        """Value of an action of 1, in the action's unit."""
        ...

    def size(self, model: Model) -> int:
        """Number na of entries of an action."""
        ...

    def control(self, model: Model, state: State, pose: Array, action: Array) -> Control:
        """Control of a step, during which the action (na,) is constant.

        pose (nq,): reference pose, see ``PolicyInput``; for ``ClipOffsets`` that of the clip.
        """
        ...


@jax.tree_util.register_static
@dataclass(frozen=True)
class Torques:
    """Torques relative to the motors' limits."""

    scale: float = 1.0

    def size(self, model: Model) -> int:
        """Number of dofs with motors."""
        motors = model.topology.actuated_dofs
        if not (_traced(model) or np.isfinite(np.asarray(model.torque_limit)[motors]).all()):
            raise ModelError(
                "the action 'torques' is in parts of the greatest torques, and some motors have"
                " none; choose 'offsets', or give the model torque limits"
            )
        return len(motors)

    def control(self, model: Model, state: State, pose: Array, action: Array) -> Control:
        """Torques without damping."""
        full = _of_dofs(model, action)
        torque = self.scale * jnp.where(full == 0, 0.0, full * model.torque_limit)
        return clip_torque(model, torque, jnp.zeros_like(torque))


@jax.tree_util.register_static
@dataclass(frozen=True)
class Offsets:
    """Targets of the model's own PD gains: offsets from the pose of at most ``scale`` [rad, m]."""

    scale: float = 0.5

    def size(self, model: Model) -> int:
        """Number of dofs with motors."""
        return _with_gains(model, "offsets")

    def control(self, model: Model, state: State, pose: Array, action: Array) -> Control:
        """kp (target - q) - kd qd, clipped."""
        one = jnp.ones((), action.dtype)
        return _held(
            model, state, integrate(model, pose, self.scale * _of_dofs(model, action), one)
        )


@jax.tree_util.register_static
@dataclass(frozen=True)
class Targets:
    """Targets of the model's own PD gains within the joints' limits: -1 the lower, 1 the upper one.

    Balls turn from the pose by at most their largest angle, joints without limits by ``scale``
    [rad, m].
    """

    scale: float = 1.0

    def size(self, model: Model) -> int:
        """Number of dofs with motors."""
        return _with_gains(model, "targets")

    def control(self, model: Model, state: State, pose: Array, action: Array) -> Control:
        """kp (target - q) - kd qd, clipped."""
        top, one = model.topology, jnp.ones((), action.dtype)
        full = _of_dofs(model, action)
        limited = np.array(top.joint_limited)
        ball = np.isin(np.arange(top.n_joints), top.joints_of("ball"))
        reach = jnp.where(limited & ball, model.joint_upper, self.scale)[top.dof_joint]
        target = integrate(model, pose, reach * full, one)
        simple = np.array([j for j in top.limited_joints if not ball[j]], int)
        if simple.size:
            at, dof = np.array(top.q_start)[simple], np.array(top.v_start)[simple]
            low, high = model.joint_lower[simple], model.joint_upper[simple]
            target = target.at[at].set(low + (high - low) * (full[dof] + 1) / 2)
        return _held(model, state, target)


@jax.tree_util.register_static
@dataclass(frozen=True)
class ClipOffsets(Offsets):
    """Targets of the model's own PD gains, as offsets from the present pose of a clip.

    Offsets are at most ``scale`` [rad, m]. The owner of the action passes the clip's pose to
    ``control``.
    """


ACTIONS = {"torques": Torques, "offsets": Offsets, "targets": Targets, "clip_offsets": ClipOffsets}


def action_of(name: str, scale: float | None = None) -> Action:
    """Action by name. Raises KeyError, with the nearest names."""
    kind = look_up(name, ACTIONS, "action")
    return kind() if scale is None else kind(float(scale))


def name_of(action: Action) -> str:
    """Name of an action; of a custom one that of its class."""
    known = {kind: name for name, kind in ACTIONS.items()}
    return known.get(type(action), type(action).__name__)


def held_control(
    kind: Action, model: Model, state: State, pose: Array, track: Track | None, action: Array
) -> Control:
    """Control of a step, during which an action (na,) is constant.

    Raises ValueError for an action about a clip where ``track`` is None.
    """
    if isinstance(kind, ClipOffsets):
        if track is None:
            raise ValueError(
                "the action 'clip_offsets' counts from a clip, and there is none; name one in"
                " [environment.clip]"
            )
        pose = track.at(model, state.time)
    return kind.control(model, state, pose, action)


def _of_dofs(model: Model, action: Array) -> Array:
    """Action at the dofs with motors, (nv,), zeros elsewhere."""
    top = model.topology
    bounded = jnp.clip(action, -1.0, 1.0)
    return jnp.zeros(top.nv, action.dtype).at[top.actuated_dofs].set(bounded)


def _held(model: Model, state: State, target: Array) -> Control:
    error = pose_error(model, target, state.q)
    return clip_torque(model, model.gain_p * error - model.gain_d * state.qd, model.gain_d)


def _traced(model: Model) -> bool:
    """True if the numbers of the model are traced: they were checked before."""
    return isinstance(model.gain_p, Tracer) or isinstance(model.torque_limit, Tracer)


def _with_gains(model: Model, asker: str) -> int:
    motors = model.topology.actuated_dofs
    if len(motors) and not (_traced(model) or np.asarray(model.gain_p)[motors].any()):
        raise ModelError(
            f"the action {asker!r} needs PD gains, and the model has none; choose 'torques', or"
            " give gains in the model's file or its roles"
        )
    return len(motors)
