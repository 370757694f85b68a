"""Holds that hands and feet grip: points and bars, of the world or of moving links.

A controller asks for a hold (``Tasks.hold``); the step grants it while the effector is within reach
of an existing hold, and keeps the effector where it gripped until the controller asks no more, the
hold breaks or its time is over. The effector's velocity relative to the hold is stopped in that
step: the impact is part of its equations of motion.

Source: Jain, Ye, Liu (2009), section 4.2: a grip may push and pull in any direction. A foot on a
hold does not pull: its force stays in the friction cone about the hold's ``push``.
"""

from dataclasses import dataclass, field, replace

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.dynamics.effectors import Effectors
from jaxsim.math.rotation import rotate
from jaxsim.math.safe import safe_norm
from jaxsim.model import Model, ModelError
from jaxsim.model.roles import FEET, HANDS
from jaxsim.synthesis.surroundings import frames

NO_HOLD = -1
KINDS = ("sphere", "capsule")  # of the shapes of holds: a point, a bar along x


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Holds:
    """nh holds, each at a shape of the whole model, and ng grippers.

    Build it with ``Holds.of``.
    """

    shapes: tuple[int, ...] = field(metadata={"static": True})  # (nh,)
    grippers: tuple[int, ...] = field(metadata={"static": True})  # (ng,) of the effectors
    hands: tuple[bool, ...] = field(metadata={"static": True})  # (ng,) may pull as well
    reach: Array  # (nh,) an effector that is nearer can grip the hold [m]
    strength: Array  # (nh,) under a larger force the hold breaks [N]
    lasts: Array  # (nh,) end of the hold's existence [s]
    slides: Array  # (nh,) bool: of a bar, hands slide along it freely
    push: Array  # (nh, 3) unit, in the shape's frame: direction in which it pushes a foot

    @classmethod
    def of(
        cls,
        model: Model,
        effectors: Effectors,
        names: tuple[str, ...],
        reach: float = 0.06,
        strength: float = np.inf,
    ) -> "Holds":
        """Make holds of shapes by name, which push feet along their z axis.

        The gripper of each hand and foot is its last effector: of a foot the tip of the toes.
        Raises ModelError for a shape that is no point and no bar.
        """
        top, dtype = model.topology, model.mass.dtype
        shapes = tuple(top.shape(name) for name in names)
        for s in shapes:
            if top.shape_kinds[s] not in KINDS:
                raise ModelError(
                    f"hold {top.shape_names[s]!r} is a {top.shape_kinds[s]}; holds are"
                    f" {' or '.join(KINDS)}"
                )
        groups = np.array(effectors.groups)
        ends = [k for k, name in enumerate(effectors.group_names) if name in (*FEET, *HANDS)]
        last = [int(np.flatnonzero(groups == k)[-1]) for k in ends]
        n, ones = len(shapes), jnp.ones(len(shapes), dtype)
        return cls(
            shapes=shapes,
            grippers=tuple(last),
            hands=tuple(effectors.group_names[effectors.groups[e]] in HANDS for e in last),
            reach=reach * ones,
            strength=strength * ones,
            lasts=jnp.inf * ones,
            slides=jnp.zeros(n, bool),
            push=jnp.asarray([0.0, 0.0, 1.0], dtype) * ones[:, None],
        )

    def begin(self, dtype) -> "Grips":
        """Initial grips: no hold is gripped, none is broken."""
        n = len(self.grippers)
        return Grips(
            jnp.full(n, NO_HOLD), jnp.zeros((n, 3), dtype), jnp.zeros(len(self.shapes), bool)
        )

    def at(self, model: Model, time: Array, dt: Array | float, grips: "Grips") -> "HoldsNow":
        """Positions and state of the holds in the step from ``time`` [s]; model: the whole one."""
        shapes = np.array(self.shapes)
        pos, rot = frames(model, shapes, time)
        end_pos, end_rot = frames(model, shapes, time + dt)
        bar = np.array([model.topology.shape_kinds[s] == "capsule" for s in shapes])
        return HoldsNow(
            holds=self,
            pos=pos,
            rot=rot,
            end_pos=end_pos,
            end_rot=end_rot,
            half=jnp.where(bar, model.shape_size[shapes, 2], 0.0),
            friction=model.friction[shapes],
            there=(time < self.lasts) & ~grips.broken,
            grips=grips,
        )


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Grips:
    """Grips of a character, carried from step to step."""

    held: Array  # (ng,) int: the hold of each gripper, or NO_HOLD
    place: Array  # (ng, 3) where, in the hold's frame [m]
    broken: Array  # (nh,) bool


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class HoldsNow:
    """Holds in one step: their positions at its beginning and end, and the grips."""

    holds: Holds
    pos: Array  # (nh, 3) [m]
    rot: Array  # (nh, 3, 3)
    end_pos: Array  # (nh, 3) at the step's end [m]
    end_rot: Array  # (nh, 3, 3)
    half: Array  # (nh,) half the length of a bar, along x; 0 of a point [m]
    friction: Array  # (nh,)
    there: Array  # (nh,) bool: the hold exists, neither broken nor past its time
    grips: Grips

    @property
    def grippers(self) -> np.ndarray:
        """(ng,) indices of the effectors that may grip."""
        return np.array(self.holds.grippers)

    def nearest(self, points: Array) -> tuple[Array, Array]:
        """Nearest points on each hold to points (n, 3), and where these are at the step's end [m].

        Both (n, nh, 3).
        """
        local = jnp.einsum("nhi,hij->nhj", points[:, None] - self.pos, self.rot)
        along = jnp.clip(local[..., 0], -self.half, self.half)[..., None]
        return self.pos + along * self.rot[:, :, 0], self.end_pos + along * self.end_rot[:, :, 0]

    def away(self, points: Array) -> Array:
        """(n, nh) distances of points (n, 3) from each hold [m]; infinite if it does not exist."""
        apart = safe_norm(points[:, None] - self.nearest(points)[0])
        return jnp.where(self.there, apart, jnp.inf)

    def in_reach(self, position: Array) -> Array:
        """(ng,) int: nearest hold within reach of each gripper, or NO_HOLD.

        position (ne, 3) of the effectors [m].
        """
        away = self.away(position[self.grippers])
        away = jnp.where(away <= self.holds.reach, away, jnp.inf)
        return jnp.where(jnp.isfinite(away).any(axis=1), jnp.argmin(away, axis=1), NO_HOLD)

    def granted(self, request: Array | None, position: Array) -> "ActiveGrips":
        """Grant the holds that grippers ask for, where they grip them already or are within reach.

        request: (ng,) indices of holds or NO_HOLD, None for no request; position: (ne, 3) of the
        effectors [m].
        """
        request = jnp.full_like(self.grips.held, NO_HOLD) if request is None else request
        points = position[self.grippers]
        one_hot = request[:, None] == np.arange(len(self.holds.shapes))

        def of(values: Array) -> Array:
            """Values of the hold that each gripper asks for, by a sum in place of an index."""
            mask = one_hot.reshape(*one_hot.shape, *(1,) * (values.ndim - 1))
            return jnp.sum(jnp.where(mask, values, 0), axis=1)

        there = (one_hot & self.there).any(axis=1)
        away = jnp.sum(jnp.where(one_hot & self.there, self.away(points), 0.0), axis=1)
        unchanged = self.grips.held == request
        on = there & (unchanged | (away <= of(self.holds.reach)))
        pos, rot, end_pos, end_rot = map(of, (self.pos, self.rot, self.end_pos, self.end_rot))
        local = jnp.einsum("gi,gij->gj", points - pos, rot)
        place = jnp.where((unchanged & on)[:, None], self.grips.place, local)
        slides = on & (one_hot & self.holds.slides).any(axis=1)
        return ActiveGrips(
            on=on,
            fresh=on & ~unchanged,
            which=jnp.where(on, request, NO_HOLD),
            place=place,
            target=end_pos + rotate(end_rot, place),
            along=jnp.where(slides[:, None], end_rot[:, :, 0], 0.0),
            push=rotate(rot, of(self.holds.push)),
            friction=of(self.friction),
            moved=end_pos + rotate(end_rot, local) - points,
        )

    def after(self, held: "ActiveGrips", force: Array) -> Grips:
        """Grips after a step with forces (ne, 3) [N]; a hold loaded beyond its strength breaks."""
        of = jnp.where(held.on[:, None], force[self.grippers], 0.0)
        bears = held.which[:, None] == np.arange(len(self.holds.shapes))
        load = safe_norm(jnp.einsum("gh,gi->hi", jnp.where(bears, 1.0, 0.0).astype(of.dtype), of))
        broken = self.grips.broken | (load > self.holds.strength)
        return replace(self.grips, held=held.which, place=held.place, broken=broken)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class ActiveGrips:
    """Holds of the ng grippers in one step, and how they move."""

    on: Array  # (ng,) bool
    fresh: Array  # (ng,) bool: gripped in this step
    which: Array  # (ng,) int, or NO_HOLD
    place: Array  # (ng, 3) in the hold's frame [m]
    target: Array  # (ng, 3) position of the effector at the step's end [m]
    along: Array  # (ng, 3) unit, direction in which it may slide; zero where it may not
    push: Array  # (ng, 3) unit: the axis of the cone of a foot's force
    friction: Array  # (ng,)
    moved: Array  # (ng, 3) displacement of the hold in the step, at the effector [m]


def check_holds(model: Model, effectors: Effectors, holds: Holds) -> None:
    """Raise ModelError for invalid numbers, and for a gripper that the model lacks."""
    names = [model.topology.shape_names[s] for s in holds.shapes]
    for label in ("reach", "strength", "lasts", "push"):
        values = np.asarray(getattr(holds, label))
        bad = np.isnan(values).reshape(len(names), -1).any(axis=1)
        if label in ("reach", "strength"):
            bad |= values <= 0
        if bad.any():
            raise ModelError(f"hold {names[bad.argmax()]!r}: {label} is {values[bad.argmax()]}")
    if max(holds.grippers) >= effectors.count:
        raise ModelError("the holds are of other effectors; build them for this body")
