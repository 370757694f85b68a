"""Balance by virtual actuators on topple-free feet, along a motion or in a pose.

Source: the topple-free-foot paper, sections 3 to 5; the numbers that it leaves open were found by
search (docs/explanation/topple_free.md).
"""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from controllers.controller import Controller
from controllers.pose.pd import scale_torque
from controllers.tracking.balance import ADULT, Balance
from controllers.tracking.level import Levels
from controllers.tracking.outside import Pulls, Turns, leg_torque, swing_force
from controllers.tracking.parts import Parts, com_height, parts
from controllers.tracking.reference import Instant, Reference, turned_path
from controllers.tracking.support import HELP, Flags, help_on_feet, share_of_weight, standing_feet
from controllers.tracking.virtual_actuators import virtual_torque
from controllers.tracking.wanted import desired_wrench, pressed_ahead
from jaxsim.dynamics.jacobians import center_of_mass, com_velocity
from jaxsim.dynamics.kinematics import difference
from jaxsim.math.safe import safe_norm
from jaxsim.model import Model, ModelError, State
from jaxsim.model.roles import SIDES
from jaxsim.simulation.checks import has_values
from jaxsim.simulation.records import Control, Observation

PLANNED, TOUCHES = "{} foot stands in the reference", "{} foot touches"


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class ToppleFreeMemory:
    """Memory between steps; for records too."""

    share: Array  # (2,) of the weight on each foot
    standing: Array  # (2,) bool
    over: Array  # () time since which a torque has been beyond help_to [s]
    fallen: Array  # () bool
    foot_torque: Array  # (2,) size of the virtual actuators' torque on each foot [N m]
    help: Array  # (2, 3) torque from outside on each foot, in the world's axes [N m]
    touching: Array  # (2,) bool: feet in contact
    planned: Array  # (2,) bool: stance feet of the reference; none without one


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class ToppleFree(Controller):
    """PD torques towards a reference, virtual actuators, and torque from outside on the feet.

    The residual torque acts on the feet. Without a reference ``pose`` (nq,) is the target, and feet
    are stance feet where the body is over them. Build it with ``ToppleFree.of``. For
    ``TimeStepping``, or ``EventDriven`` without a reference.
    """

    balance: Balance
    reference: Reference | None
    pose: Array | None  # (nq,)
    begin: Array  # () time of the reference at which the motion begins [s]
    heading: Array  # () by which the reference is turned about the vertical [rad]
    parts: Parts
    pulls: Pulls | None = None
    levels: Levels | None = None
    turns: Turns | None = None  # added to the heading
    drift: Array | None = None  # (3,) added to the velocity of the reference's body [m/s]
    help: str = dataclasses.field(default="threshold", metadata={"static": True})
    steps: bool = dataclasses.field(default=False, metadata={"static": True})

    @classmethod
    def of(
        cls,
        model: Model,
        reference: Reference | None = None,
        pose: Array | np.ndarray | None = None,
        balance: Balance | None = None,
        help: str = "threshold",
        begin: float = 0.0,
        pulls: Pulls | None = None,
        levels: Levels | None = None,
        steps: bool = False,
        turns: Turns | None = None,
        drift: Sequence[float] | None = None,
    ) -> "ToppleFree":
        """Controller for a model, along a reference or in a pose.

        help: "threshold" (torque beyond ``help_from``), "capacity" (torque beyond ``capacity`` of
        what the sole can transmit), or "none" (the ankle does no more than that). pulls: external
        controllers. levels: links kept level. steps: the swing foot goes where the body goes
        (SIMBICON). turns: of the reference. drift (3,): velocity of the body besides the
        reference's [m/s].
        """
        if (reference is None) == (pose is None):
            raise ModelError("topple-free foot: give a reference or a pose, one of them")
        if help not in HELP:
            raise ModelError(f"topple-free foot: help is {help!r}; choose from {', '.join(HELP)}")
        body_parts = parts(model)
        if balance is None:
            alone = body_parts.alone(model)
            balance = Balance().scaled(float(alone.mass.sum()), float(com_height(model)))
        dtype = model.mass.dtype
        controller = cls(
            jax.tree.map(lambda x: jnp.asarray(x, dtype), balance),
            reference,
            None if pose is None else jnp.asarray(pose, dtype),
            jnp.asarray(begin, dtype),
            jnp.zeros((), dtype),
            body_parts,
            pulls,
            levels,
            turns,
            None if drift is None else jnp.asarray(drift, dtype),
            help,
            steps,
        )
        controller.check(model)
        return controller

    @property
    def labels(self) -> dict[str, str]:
        """Mapping from label to path: numbers of balance by their names, such as ``help_from``."""
        return {field.name: f"balance.{field.name}" for field in dataclasses.fields(Balance)}

    def resized(self, model: Model, grow: Callable[[Model], Model]) -> "ToppleFree":
        """Controller for the body that ``grow`` makes of the model, which may be traced.

        Its soles, and the numbers of balance that scale with mass and height. Raises ModelError
        along a reference.
        """
        if self.reference is not None:
            raise ModelError(
                "topple-free foot: sizes do not vary where a clip is followed, which was brought to"
                " one body; choose that with character.build, stature and mass"
            )
        after = grow(model)
        mass, height = (
            of(after) / of(model)
            for of in (lambda body: self.parts.alone(body).mass.sum(), com_height)
        )
        return dataclasses.replace(
            self,
            balance=self.balance.scaled(ADULT[0] * mass, ADULT[1] * height),
            parts=self.parts.of_size(after),
        )

    def check(self, model: Model) -> None:
        """Raise ModelError for invalid numbers and a target of another model."""
        target = self.pose if self.reference is None else self.reference.q
        if target is not None and np.shape(target)[-1:] != (model.topology.nq,):
            raise ModelError(
                f"topple-free foot: the target has {np.shape(target)[-1]} positions, the model"
                f" {model.topology.nq}"
            )
        self.balance.check()
        if target is not None and has_values(target) and not np.isfinite(np.asarray(target)).all():
            raise ModelError("topple-free foot: the target is not finite")

    def gauges(self, memory: ToppleFreeMemory) -> dict[str, Array]:
        """Torque of the virtual actuators on each foot, residual torque, and stance of the feet.

        Stance as observed, and as in the reference.
        """
        values = {"help": jnp.sum(safe_norm(memory.help))}
        for k, side in enumerate(SIDES):
            values[f"{side} foot"] = memory.foot_torque[k]
            values[TOUCHES.format(side)] = memory.touching[k]
            if self.reference is not None:
                values[PLANNED.format(side)] = memory.planned[k]
        return values

    def gauge_limits(self) -> dict[str, tuple[str, tuple[float, ...]]]:
        """Units and thresholds of the gauges.

        Figure 4 of the topple-free-foot paper: help begins at the first threshold; at the second
        the body is let fall.
        """
        limits = tuple(float(x) for x in (self.balance.help_from, self.balance.help_to))
        feet = {f"{side} foot": ("N m", limits) for side in SIDES}
        kinds = (TOUCHES,) if self.reference is None else (PLANNED, TOUCHES)
        stance = {kind.format(side): ("", ()) for side in SIDES for kind in kinds}
        return {**feet, "help": ("N m", ()), **stance}

    def reference_poses(
        self, model: Model, time: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Links of the reference at times (T,) [s], moved along with ``drift``.

        Positions (T, nl, 3) [m] and quaternions (T, nl, 4); None without a reference.
        """
        if self.reference is None:
            return None
        pos, quat = self.reference.track.places(model, time + float(self.begin))
        angle = jax.lax.map(lambda t: self.facing(t)[0], jnp.asarray(time, self.reference.q.dtype))
        pos, quat = turned_path(pos, quat, np.asarray(angle, float), self.parts.pelvis)
        if self.drift is not None:
            pos = pos + np.asarray(time)[:, None, None] * np.asarray(self.drift, float)
        for array in (pos, quat):
            array[:, ~self.parts.mask("own")] = np.nan
        return pos, quat

    def init(self, model: Model, state: State, obs: Observation) -> ToppleFreeMemory:
        """Initial memory: feet in contact are stance feet."""
        dtype = state.q.dtype
        zero = jnp.zeros((), dtype)
        com, _ = self._com(model, obs)
        target = self._target(model, state)
        standing = self._standing(model, state, obs, com, target)
        share = share_of_weight(self.parts.ankle(obs.kin), com, standing)
        return ToppleFreeMemory(
            share,
            standing,
            zero,
            jnp.zeros((), bool),
            jnp.zeros(2, dtype),
            jnp.zeros((2, 3), dtype),
            *self._contacts(obs, target),
        )

    def update(
        self, memory: ToppleFreeMemory, model: Model, state: State, obs: Observation, dt: Array
    ) -> tuple[ToppleFreeMemory, Control]:
        """Torques and residual wrench of a step, by equations 1 to 14 of the paper."""
        b, body_parts, kin = self.balance, self.parts, obs.kin
        com, velocity = self._com(model, obs)
        target = self._target(model, state)
        standing = self._standing(model, state, obs, com, target)
        alone = body_parts.alone(model)
        pressed = com + b.inertia * pressed_ahead(alone, com, body_parts.ankle(kin), target)
        share = share_of_weight(body_parts.ankle(kin), pressed, standing)
        follow = jnp.where(
            standing.all() & memory.standing.all(), jnp.minimum(dt / b.share_time, 1.0), 1.0
        )
        share = memory.share + follow * (share - memory.share)
        torque, force = desired_wrench(b, alone, kin, body_parts, (com, velocity), target, standing)
        virtual, on_feet = virtual_torque(alone, kin, body_parts, com, share, torque, force)
        acts = standing.any() & ~memory.fallen
        virtual, on_feet = (jnp.where(acts, x, 0.0) for x in (virtual, on_feet))
        size = safe_norm(on_feet)
        over = jnp.where((size >= b.help_to).any(), memory.over + dt, 0.0)
        fallen = memory.fallen | (over >= b.fall_time)
        help, virtual = help_on_feet(self.help, b, alone, kin, body_parts, share, on_feet, virtual)
        help = jnp.where(~fallen & (state.time < b.help_until), help, 0.0)
        gain_p, gain_d = self._gains(model, standing, fallen)
        if self.steps:
            virtual = self._steps(model, obs, com, velocity, target, standing, virtual, fallen)
        error, rate = difference(model, target.q, state.q, free=False), target.qd
        if self.levels is not None:
            level = self.levels.instead(model, kin, error, rate)
            error, rate = (jnp.where(fallen, old, new) for old, new in zip((error, rate), level))
        pose = gain_p * error + gain_d * (rate - state.qd)
        control = scale_torque(model, pose + virtual, gain_d)
        external = jnp.zeros((model.topology.n_links, 6), state.q.dtype)
        external = external.at[np.array(body_parts.feet), :3].add(help)
        if self.pulls is not None:
            drawn = self.pulls.force(b, kin, state.time)
            external = external.at[np.array(self.pulls.links), 3:].add(drawn)
        control = dataclasses.replace(control, external=external)
        if target.stance is not None:
            sliding = self._touching(obs) & ~target.stance & ~fallen
            on = (sliding[:, None] & body_parts.mask("foot_links")).any(axis=0)
            control = dataclasses.replace(control, friction=jnp.where(on, b.sliding, 1.0))
        contacts = self._contacts(obs, target)
        return ToppleFreeMemory(share, standing, over, fallen, size, help, *contacts), control

    def _com(self, model: Model, obs: Observation) -> tuple[Array, Array]:
        """Centre of mass (3,) [m] and its velocity (3,) [m/s] of the character alone."""
        if self.parts.mask("own").all():
            return obs.com, obs.com_velocity
        alone = self.parts.alone(model)
        return center_of_mass(alone, obs.kin), com_velocity(alone, obs.kin)

    def _target(self, model: Model, state: State) -> Instant:
        """Present instant of the reference, turned by the heading; or the pose at rest."""
        if self.reference is None:
            zero = jnp.zeros(3, state.q.dtype)
            assert self.pose is not None
            return Instant(
                q=self.pose,
                qd=jnp.zeros_like(state.qd),
                com=zero,
                com_velocity=zero,
                com_acceleration=zero,
                momentum=zero,
                momentum_rate=zero,
                trunk=None,
                trunk_velocity=zero,
                sole=None,
                stance=None,
            )
        angle, rate = self.facing(state.time)
        now = self.reference.at(model, state.time + self.begin).turned(angle)
        now = dataclasses.replace(now, trunk_velocity=now.trunk_velocity.at[2].add(rate))
        if self.drift is None:
            return now
        return dataclasses.replace(now, com_velocity=now.com_velocity + self.drift)

    def facing(self, time: Array) -> tuple[Array, Array]:
        """Angle () [rad] of the reference about the vertical at a time [s], and its rate
        [rad/s]."""
        if self.turns is None:
            return self.heading, jnp.zeros_like(self.heading)
        angle, rate = self.turns.at(time)
        return self.heading + angle, rate

    def _touching(self, obs: Observation) -> Flags:
        """Mask (2,) of feet that are in contact, themselves or by a link that hangs on them."""
        links = jnp.asarray(self.parts.mask("foot_links"))
        return (links & obs.link_touching[None, :]).any(axis=1)

    def _contacts(self, obs: Observation, target: Instant) -> tuple[Array, Array]:
        """Masks (2,), (2,) of feet in contact, and of stance feet of the reference."""
        planned = np.zeros(2, bool) if target.stance is None else target.stance
        return jnp.asarray(self._touching(obs)), jnp.asarray(planned)

    def _standing(self, model, state, obs, com, target: Instant) -> Array:
        """Mask (2,) of stance feet."""
        feet = np.array(self.parts.feet)
        return standing_feet(
            self._touching(obs), target.stance, com, obs.kin.com[feet], self.balance.zone
        )

    def _steps(self, model, obs, com, velocity, target: Instant, standing, virtual, fallen):
        """Virtual torques (nv,), replaced by those of ``swing_force`` in a leg that swings."""
        body_parts, kin = self.parts, obs.kin
        ahead, speed = com - body_parts.soles(kin), velocity
        if target.sole is not None:
            ahead, speed = ahead - (target.com - target.sole), speed - target.com_velocity
        force = swing_force(self.balance, kin, body_parts, standing, ahead, speed)
        swings = (~standing & standing[::-1])[:, None] & body_parts.mask("leg_dofs")
        instead = leg_torque(model, kin, body_parts, force)
        return jnp.where(swings.any(axis=0) & ~fallen, instead, virtual)

    def _gains(self, model: Model, standing: Array, fallen: Array) -> tuple[Array, Array]:
        """Gains (nv,), (nv,): the model's, with the factors of the present state."""
        b, body_parts = self.balance, self.parts
        on_ankle = (standing[:, None] & body_parts.mask("ankle_dofs")).any(axis=0)
        arms = jnp.where(body_parts.mask("arms"), b.arms, 1.0)
        p = b.pose_p * arms * jnp.where(on_ankle, b.ankle_p, 1.0)
        d = b.pose_d * arms * jnp.where(on_ankle, b.ankle_d, 1.0)
        p, d = jnp.where(fallen, b.fall_p * b.pose_p, p), jnp.where(fallen, b.fall_d * b.pose_d, d)
        return p * model.gain_p, d * model.gain_d
