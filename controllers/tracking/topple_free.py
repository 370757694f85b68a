"""Balance by virtual actuators on feet that are kept from toppling, along a motion or in a pose.

Source: the document on the topple-free foot, sections 3 to 5, with the numbers it leaves open found
by search (docs/explanation/topple_free.md).
"""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from controllers.numbers import Numbered
from controllers.pose.pd import weakened
from controllers.tracking.balance import ADULT, Balance
from controllers.tracking.level import Levels
from controllers.tracking.outside import Pulls, Turns, leg_torque, swing_force
from controllers.tracking.parts import Parts, com_height, parts
from controllers.tracking.reference import Instant, Reference, turned_path
from controllers.tracking.support import HELP, Flags, help_on_feet, share_of_weight, standing_feet
from controllers.tracking.track import Track
from controllers.tracking.virtual_actuators import virtual_torque
from controllers.tracking.wanted import pressed_ahead, wanted
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
class Memory:
    """What is remembered from step to step; for records too."""

    share: Array  # (2,) of the weight on each foot
    standing: Array  # (2,) bool
    over: Array  # () for how long a torque has been beyond help_to [s]
    fallen: Array  # () bool
    foot_torque: Array  # (2,) size of the virtual actuators' torque on each foot [N m]
    help: Array  # (2, 3) torque from outside on each foot, in the world's axes [N m]
    touching: Array  # (2,) bool: feet in contact
    planned: Array  # (2,) bool: feet that the reference has standing; of none without one


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class ToppleFree(Numbered):
    """PD torques towards a reference, virtual actuators, and torque from outside on the feet.

    Without a reference ``pose`` (nq,) is kept, and feet stand where the body is over them. Build it
    with ``ToppleFree.of``. For ``TimeStepping``, or ``EventDriven`` without a reference.
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
        """For a model, along a reference or in a pose.

        help: "threshold" (what is beyond ``help_from``), "capacity" (what is beyond ``capacity`` of
        what the sole can answer), or "none" (the ankle does no more than that). pulls: external
        controllers. levels: links kept level. steps: whether the swing foot goes where the body
        goes (SIMBICON). turns: of the reference. drift (3,): velocity that the body is to have
        beside the reference's [m/s].
        """
        if (reference is None) == (pose is None):
            raise ModelError("topple-free foot: give a reference or a pose, one of them")
        if help not in HELP:
            raise ModelError(f"topple-free foot: help is {help!r}; choose from {', '.join(HELP)}")
        own = parts(model)
        if balance is None:
            alone = own.alone(model)
            balance = Balance().scaled(float(alone.mass.sum()), float(com_height(model)))
        dtype = model.mass.dtype
        made = cls(
            jax.tree.map(lambda x: jnp.asarray(x, dtype), balance),
            reference,
            None if pose is None else jnp.asarray(pose, dtype),
            jnp.asarray(begin, dtype),
            jnp.zeros((), dtype),
            own,
            pulls,
            levels,
            turns,
            None if drift is None else jnp.asarray(drift, dtype),
            help,
            steps,
        )
        made.check(model)
        return made

    @property
    def labels(self) -> dict[str, str]:
        """ "balance.com_p" and the like by their last word, as in ``help_from``."""
        return {field.name: f"balance.{field.name}" for field in dataclasses.fields(Balance)}

    def resized(self, model: Model, grow: Callable[[Model], Model]) -> "ToppleFree":
        """For the body that ``grow`` makes of the model, which may be traced: its soles, and the
        numbers of balance that go with mass and height. Raises ModelError along a reference."""
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
        """Raise ModelError for numbers that make no sense and a target of another model."""
        target = self.pose if self.reference is None else self.reference.q
        if target is not None and np.shape(target)[-1:] != (model.topology.nq,):
            raise ModelError(
                f"topple-free foot: the target has {np.shape(target)[-1]} positions, the model"
                f" {model.topology.nq}"
            )
        self.balance.check()
        if target is not None and has_values(target) and not np.isfinite(np.asarray(target)).all():
            raise ModelError("topple-free foot: the target is not finite")

    def gauges(self, memory: Memory) -> dict[str, Array]:
        """The virtual actuators' torque on each foot, what helps the feet from outside, which feet
        touch the ground, and which are to by the reference."""
        found = {"help": jnp.sum(safe_norm(memory.help))}
        for k, side in enumerate(SIDES):
            found[f"{side} foot"] = memory.foot_torque[k]
            found[TOUCHES.format(side)] = memory.touching[k]
            if self.reference is not None:
                found[PLANNED.format(side)] = memory.planned[k]
        return found

    def gauge_limits(self) -> dict[str, tuple[str, tuple[float, ...]]]:
        """Figure 4: help begins at the first threshold; at the second the body is let fall."""
        limits = tuple(float(x) for x in (self.balance.help_from, self.balance.help_to))
        feet = {f"{side} foot": ("N m", limits) for side in SIDES}
        kinds = (TOUCHES,) if self.reference is None else (PLANNED, TOUCHES)
        stance = {kind.format(side): ("", ()) for side in SIDES for kind in kinds}
        return {**feet, "help": ("N m", ()), **stance}

    def ghost(self, model: Model, time: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """Where the reference has the links at times (T,) [s], moved along with ``drift``:
        (T, nl, 3) [m] and (T, nl, 4)."""
        if self.reference is None:
            return None
        pos, quat = Track.of(self.reference).places(model, time + float(self.begin))
        angle = jax.lax.map(lambda t: self.facing(t)[0], jnp.asarray(time, self.reference.q.dtype))
        pos, quat = turned_path(pos, quat, np.asarray(angle, float), self.parts.pelvis)
        if self.drift is not None:
            pos = pos + np.asarray(time)[:, None, None] * np.asarray(self.drift, float)
        for kept in (pos, quat):
            kept[:, ~self.parts.mask("own")] = np.nan
        return pos, quat

    def init(self, model: Model, state: State, obs: Observation) -> Memory:
        """Standing on what touches."""
        dtype = state.q.dtype
        zero = jnp.zeros((), dtype)
        com, _ = self._com(model, obs)
        target = self._target(model, state)
        standing = self._standing(model, state, obs, com, target)
        share = share_of_weight(self.parts.ankle(obs.kin), com, standing)
        return Memory(
            share,
            standing,
            zero,
            jnp.zeros((), bool),
            jnp.zeros(2, dtype),
            jnp.zeros((2, 3), dtype),
            *self._contacts(obs, target),
        )

    def update(
        self, memory: Memory, model: Model, state: State, obs: Observation, dt: Array
    ) -> tuple[Memory, Control]:
        """Equations 1 to 14."""
        b, own, kin = self.balance, self.parts, obs.kin
        com, velocity = self._com(model, obs)
        target = self._target(model, state)
        standing = self._standing(model, state, obs, com, target)
        alone = own.alone(model)
        pressed = com + b.inertia * pressed_ahead(alone, com, own.ankle(kin), target)
        share = share_of_weight(own.ankle(kin), pressed, standing)
        follow = jnp.where(
            standing.all() & memory.standing.all(), jnp.minimum(dt / b.share_time, 1.0), 1.0
        )
        share = memory.share + follow * (share - memory.share)
        torque, force = wanted(b, alone, kin, own, (com, velocity), target, standing)
        virtual, on_feet = virtual_torque(alone, kin, own, com, share, torque, force)
        acts = standing.any() & ~memory.fallen
        virtual, on_feet = (jnp.where(acts, x, 0.0) for x in (virtual, on_feet))
        size = safe_norm(on_feet)
        over = jnp.where((size >= b.help_to).any(), memory.over + dt, 0.0)
        fallen = memory.fallen | (over >= b.fall_time)
        help, virtual = help_on_feet(self.help, b, alone, kin, own, share, on_feet, virtual)
        help = jnp.where(~fallen & (state.time < b.help_until), help, 0.0)
        gain_p, gain_d = self._gains(model, standing, fallen)
        if self.steps:
            virtual = self._steps(model, obs, com, velocity, target, standing, virtual, fallen)
        error, rate = difference(model, target.q, state.q, free=False), target.qd
        if self.levels is not None:
            held = self.levels.instead(model, kin, error, rate)
            error, rate = (jnp.where(fallen, old, new) for old, new in zip((error, rate), held))
        pose = gain_p * error + gain_d * (rate - state.qd)
        control = weakened(model, pose + virtual, gain_d)
        external = jnp.zeros((model.topology.n_links, 6), state.q.dtype)
        external = external.at[np.array(own.feet), :3].add(help)
        if self.pulls is not None:
            drawn = self.pulls.force(b, kin, state.time)
            external = external.at[np.array(self.pulls.links), 3:].add(drawn)
        control = dataclasses.replace(control, external=external)
        if target.stance is not None:
            sliding = self._touching(obs) & ~target.stance & ~fallen
            on = (sliding[:, None] & own.mask("foot_links")).any(axis=0)
            control = dataclasses.replace(control, friction=jnp.where(on, b.sliding, 1.0))
        contacts = self._contacts(obs, target)
        return Memory(share, standing, over, fallen, size, help, *contacts), control

    def _com(self, model: Model, obs: Observation) -> tuple[Array, Array]:
        """Of the character alone."""
        if self.parts.mask("own").all():
            return obs.com, obs.com_velocity
        alone = self.parts.alone(model)
        return center_of_mass(alone, obs.kin), com_velocity(alone, obs.kin)

    def _target(self, model: Model, state: State) -> Instant:
        """The reference now, turned by the heading; or the pose at rest."""
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
        """By which the reference is turned about the vertical at a time [s]: () [rad], and how fast
        that changes () [rad/s]."""
        if self.turns is None:
            return self.heading, jnp.zeros_like(self.heading)
        angle, rate = self.turns.at(time)
        return self.heading + angle, rate

    def _touching(self, obs: Observation) -> Flags:
        """(2,) bool: a foot, or what hangs on it, is in contact."""
        links = jnp.asarray(self.parts.mask("foot_links"))
        return (links & obs.link_touching[None, :]).any(axis=1)

    def _contacts(self, obs: Observation, target: Instant) -> tuple[Array, Array]:
        """(2,), (2,) bool: feet that touch, feet that the reference has standing."""
        planned = np.zeros(2, bool) if target.stance is None else target.stance
        return jnp.asarray(self._touching(obs)), jnp.asarray(planned)

    def _standing(self, model, state, obs, com, target: Instant) -> Array:
        feet = np.array(self.parts.feet)
        return standing_feet(
            self._touching(obs), target.stance, com, obs.kin.com[feet], self.balance.zone
        )

    def _steps(self, model, obs, com, velocity, target: Instant, standing, virtual, fallen):
        """The virtual torques (nv,), those of a leg that swings in the place of its own."""
        own, kin = self.parts, obs.kin
        ahead, speed = com - own.soles(kin), velocity
        if target.sole is not None:
            ahead, speed = ahead - (target.com - target.sole), speed - target.com_velocity
        force = swing_force(self.balance, kin, own, standing, ahead, speed)
        swings = (~standing & standing[::-1])[:, None] & own.mask("leg_dofs")
        instead = leg_torque(model, kin, own, force)
        return jnp.where(swings.any(axis=0) & ~fallen, instead, virtual)

    def _gains(self, model: Model, standing: Array, fallen: Array) -> tuple[Array, Array]:
        """(nv,), (nv,): the model's, with the factors of the moment."""
        b, own = self.balance, self.parts
        on_ankle = (standing[:, None] & own.mask("ankle_dofs")).any(axis=0)
        arms = jnp.where(own.mask("arms"), b.arms, 1.0)
        p = b.pose_p * arms * jnp.where(on_ankle, b.ankle_p, 1.0)
        d = b.pose_d * arms * jnp.where(on_ankle, b.ankle_d, 1.0)
        p, d = jnp.where(fallen, b.fall_p * b.pose_p, p), jnp.where(fallen, b.fall_d * b.pose_d, d)
        return p * model.gain_p, d * model.gain_d
