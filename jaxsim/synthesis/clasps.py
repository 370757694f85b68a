"""Hand holds between two characters: a joint of three free forces, equal and opposite.

The characters are members of a ``jax.vmap`` over the axis ``AXIS``, each with its own optimisation;
two of them are tied by ``solvers.joint``: the points where they hold each other stay together, and
the forces there add up to zero. A hand hold is made where two hands, which at least one of both
characters asks for, are within its reach and meet no faster than ``CATCHES``, in the middle between
them; from then on it is at that point of either hand.

Source: Jain, Ye, Liu (2009), sections 4.2 and 6.1.5.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxsim.dynamics.effectors import Effectors
from jaxsim.dynamics.jacobians import point_jacobian
from jaxsim.math.products import matmul
from jaxsim.math.rotation import rotate
from jaxsim.math.safe import safe_max, safe_norm
from jaxsim.model.errors import ModelError
from jaxsim.solvers.joint import JointEquations

AXIS = "character"
CATCHES = 5.0  # hands that meet faster cannot take hold of each other [m/s]
APART = 1e-3  # unit of the distance between two hands that hold each other [m]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Clasps:
    """nc pairs of hands that may hold each other. Build it with ``Clasps.of``."""

    ends: tuple[tuple[int, int, int, int], ...] = field(metadata={"static": True})
    # (nc,) a character and its effector, another and its effector
    reach: Array  # (nc,) hands that are nearer may hold each other [m]
    strength: Array  # (nc,) under a larger force the hand hold breaks, for good [N]

    @classmethod
    def of(
        cls,
        effectors: Effectors,
        characters: Sequence[str],
        pairs: Sequence[tuple[tuple[str, str], tuple[str, str]]],
        reach: float | Sequence[float] = 0.06,
        strength: float | Sequence[float] = np.inf,
    ) -> "Clasps":
        """Build hand holds from pairs of (character, hand) by name, at each hand's last effector.

        Raises ModelError for an unknown name, for two hands of one character, and for a reach or
        strength that is not positive.
        """
        ends = []
        for pair in pairs:
            members = []
            for who, hand in pair:
                if who not in characters:
                    raise ModelError(f"clasp: no character {who!r}; there are {_all(characters)}")
                if hand not in effectors.group_names:
                    raise ModelError(
                        f"clasp: no {hand!r} that could hold; there are"
                        f" {_all(effectors.group_names)}"
                    )
                members += [characters.index(who), int(np.flatnonzero(effectors.of(hand))[-1])]
            if members[0] == members[2]:
                raise ModelError(f"clasp: {pair[0][0]!r} cannot hold itself; name two characters")
            ends.append(tuple(members))
        n, dtype = len(ends), effectors.point.dtype
        numbers = {"reach": reach, "strength": strength}
        for name, value in numbers.items():
            if not (np.asarray(value, float) > 0).all():
                raise ModelError(f"clasp: {name} is {value}; it has to be positive")
        arrays = {k: jnp.broadcast_to(jnp.asarray(v, dtype), (n,)) for k, v in numbers.items()}
        return cls(ends=tuple(ends), **arrays)

    def begin(self) -> "ClaspMemory":
        """Initial memory of one character: no hand hold is closed."""
        n, dtype = len(self.ends), self.reach.dtype
        return ClaspMemory(jnp.zeros(n, bool), jnp.zeros((n, 3), dtype), jnp.zeros(n, bool))


def _all(names: Sequence[str]) -> str:
    return ", ".join(names)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class ClaspMemory:
    """Hand holds of one character, carried from step to step."""

    on: Array  # (nc,) bool, the same of both
    place: Array  # (nc, 3) point of the hand hold, in the frame of the character's link [m]
    broken: Array  # (nc,) bool


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class ClaspsNow:
    """Hand holds that one character may close in a step, with its memory of them."""

    clasps: Clasps
    memory: ClaspMemory

    @property
    def count(self) -> int:
        """Number nc of hand holds."""
        return len(self.clasps.ends)

    def sign(self) -> Array:
        """(nc,) side of this character in each hand hold: 1 first, -1 second, 0 neither."""
        ends, me = np.array(self.clasps.ends), lax.axis_index(AXIS)
        first, second = me == ends[:, 0], me == ends[:, 2]
        return jnp.where(first, 1.0, jnp.where(second, -1.0, 0.0)).astype(self.memory.place.dtype)

    def hands(self, count: int) -> Array:
        """(count,) bool: effectors in a closed hand hold."""
        ends, sign, on = np.array(self.clasps.ends), self.sign(), self.memory.on
        effector = jnp.where(sign > 0, ends[:, 1], jnp.where(sign < 0, ends[:, 3], -1))
        return ((effector == np.arange(count)[:, None]) & on).any(axis=1)

    def _own(self, of_first: Array, of_second: Array) -> Array:
        """(nc, ...) values of this character's end of each hand hold; 0 where it has none."""
        sign = self.sign().reshape(-1, *(1,) * (of_first.ndim - 1))
        return jnp.where(sign > 0, of_first, jnp.where(sign < 0, of_second, 0.0))

    def granted(self, request: Array | None, conf: Any) -> "Clasped":
        """Close the hand holds that either side asks for and that are closed or within reach.

        request: (nc,) bool, this character's requests, None for none; conf: its configuration.
        """
        ends, on = np.array(self.clasps.ends), jnp.zeros(self.count, bool)
        links = np.array(conf.effectors.links)[ends[:, 1::2]]  # (nc, 2)
        sign, kin = self.sign(), conf.kin
        own = sign != 0
        requests = own & (on if request is None else request)
        requests = lax.psum(jnp.where(requests, 1, 0), AXIS) > 0
        tip = self._own(conf.position[ends[:, 1]], conf.position[ends[:, 3]])
        apart = safe_norm(lax.psum(sign[:, None] * tip, AXIS))
        middle = lax.psum(tip, AXIS) / 2
        origin = self._own(kin.link_pos[links[:, 0]], kin.link_pos[links[:, 1]])
        turn = self._own(kin.link_rot[links[:, 0]], kin.link_rot[links[:, 1]])
        closed = self.memory.on & requests
        here = jnp.einsum("cji,cj->ci", turn, middle - origin)
        place = jnp.where(closed[:, None], self.memory.place, here)
        point = origin + rotate(turn, place)
        of_link = [
            [
                point_jacobian(conf.model, kin, int(link), point[c])
                for c, link in enumerate(links[:, side])
            ]
            for side in (0, 1)
        ]
        J = self._own(jnp.stack(of_link[0]), jnp.stack(of_link[1]))
        moves = lax.psum(sign[:, None] * jnp.einsum("cij,j->ci", J, conf.v), AXIS)
        takes = (apart <= self.clasps.reach) & (safe_norm(moves) <= CATCHES)
        on = requests & ~self.memory.broken & (closed | takes)
        J = jnp.where(on[:, None, None], J, 0.0)
        speed = safe_max(jnp.append(jnp.where(on & ~closed, safe_norm(moves), 0.0), 0.0))
        return Clasped(on=on, sign=sign, place=place, point=point, J=J, speed=speed)

    def after(self, clasped: "Clasped", force: Array) -> ClaspMemory:
        """Memory after a step with forces (nc, 3) [N]; those loaded beyond their strength break."""
        broken = clasped.on & (safe_norm(force) > self.clasps.strength)
        broken = self.memory.broken | (lax.psum(jnp.where(broken, 1, 0), AXIS) > 0)
        return replace(self.memory, on=clasped.on & ~broken, place=clasped.place, broken=broken)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Clasped:
    """Closed hand holds of one character in one step; zeros where it is part of none."""

    on: Array  # (nc,) bool: between any two characters
    sign: Array  # (nc,) see ``ClaspsNow.sign``
    place: Array  # (nc, 3) in the frame of the own link [m]
    point: Array  # (nc, 3) in the world [m]
    J: Array  # (nc, 3, nv) of that point
    speed: Array  # () largest relative speed of hands that meet in this step [m/s]

    @property
    def count(self) -> int:
        """Number nc of hand holds."""
        return len(self.on)

    def force(self, own: Array) -> Array:
        """(nc, 3) force on this character: the mean of both characters' solutions ``own`` (nc, 3).

        So the two forces are equal and opposite to the last digit.
        """
        shared = lax.psum(jnp.where(self.on[:, None], self.sign[:, None] * own, 0.0), AXIS) / 2
        return self.sign[:, None] * shared

    def equations(self, others: int, force: Array, dt: Array | float) -> JointEquations:
        """6 nc equations: the points of a hand hold stay together, the forces add up to zero.

        Unknowns are this character's velocity, ``others`` coefficients of contacts, and (nc, 3) of
        hand holds in the unit ``force`` [N].
        """
        n, dtype = self.count, self.J.dtype
        nv, sign = self.J.shape[-1], jnp.where(self.on, self.sign, 0.0)
        J = (dt / APART * sign[:, None, None] * self.J).reshape(3 * n, nv)
        apart = lax.psum(sign[:, None] * self.point, AXIS).reshape(-1) / APART
        mine = jnp.repeat(jnp.abs(sign), 3) * force / (lax.psum(force, AXIS))
        still = jnp.concatenate([J, jnp.zeros((3 * n, others + 3 * n), dtype)], axis=1)
        none = jnp.concatenate([jnp.zeros((3 * n, nv + others), dtype), jnp.diag(mine)], axis=1)
        c = jnp.concatenate([-apart, jnp.zeros(3 * n, dtype)])
        return JointEquations(jnp.concatenate([still, none]), c, AXIS)

    def any(self, x: Array) -> Array:
        """() bool: x is true for any character."""
        return lax.psum(jnp.where(x, 1, 0), AXIS) > 0

    def torque(self, force: Array) -> Array:
        """(nv,) generalised force of the forces (nc, 3) in hand holds [N m or N]."""
        return matmul(force.reshape(-1), self.J.reshape(-1, self.J.shape[-1]))
