"""Choice of the next hold for a climber, from tables of the holds.

All is in the plane of the holds, (left, up) [m], and data: one program serves a batch of walls.
Jain, Ye, Liu (2009), section 6.2, take "the next nearest hold"; they do not mention the feet. Here
a move is possible where some place of the centre of mass has all four limbs within their reach
after it; of these moves the one is chosen that raises the limbs most and leaves them least
stretched. The move is made from such a place, so that no three limbs have to lift the body, if the
limbs reach their holds from there before it, too. Where no move is possible the last one is taken
back, and another route tried from there: a depth-first search.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from jaxsim.characters.standing import standing_kinematics
from jaxsim.dynamics.effectors import Effectors
from jaxsim.dynamics.jacobians import center_of_mass
from jaxsim.math.safe import safe_norm
from jaxsim.model import Model
from jaxsim.model.roles import FEET, HANDS

LIMBS = (*FEET, *HANDS)
CHAINS = tuple(
    tuple(side + part for part in parts)
    for parts in (("Thigh", "Shank", "Foot"), ("UpperArm", "Forearm", "Hand"))
    for side in ("left", "right")
)
SIDE = np.array([1.0, -1.0, 1.0, -1.0])
HAND = np.array([False, False, True, True])
# In heights of the standing body's centre of mass, from where the centre of mass is:
DEPTH = 0.20  # it is so far out from the holds
EASE = np.array([[0.2, -0.65], [-0.2, -0.65], [0.25, 0.7], [-0.25, 0.7]])  # where limbs are at ease
HIGHEST_FOOT, LOWEST_HAND = -0.4, 0.15
CROSSED = 0.05  # a limb gets so far over to the other side
APART = 0.05  # the left one of a pair is so far left of the right one
SHARES = np.array([0.79, 0.79, 0.9, 0.9])  # of a limb's length that it stretches to
SPOTS = np.array([(y, z) for z in (0.0, 0.15, -0.15, 0.3, -0.3) for y in (0.0, 0.15, -0.15)])
STARTS = np.array([(y, z) for z in np.linspace(0.0, 0.6, 7) for y in (0.0, 0.15, -0.15)])
STRETCH = 2.0  # what a limb's distance from ease counts, squared
LOSES = 0.4  # largest loss of a move [heights]
GONE = -1  # where a limb does not go again


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Limbs:
    """Reach of a body's limbs, in the order of ``LIMBS``."""

    height: Array  # () of the centre of mass as it stands [m]
    root: Array  # (4, 2) of hips and shoulders from the centre of mass, (left, up) [m]
    reach: Array  # (4,) from there, in the plane of the holds [m]

    @classmethod
    def of(cls, model: Model, effectors: Effectors) -> "Limbs":
        """Reach of the limbs of a body with all of ``CHAINS``, to their last effectors."""
        top = model.topology
        links = np.array([[top.part(name) for name in chain] for chain in CHAINS])  # (4, 3)
        last = np.array([np.flatnonzero(effectors.of(limb))[-1] for limb in LIMBS])

        @jax.jit
        def measured(model: Model, effectors: Effectors) -> tuple[Array, Array, Array]:
            kin, low = standing_kinematics(model)
            com = center_of_mass(model, kin)
            ends = effectors.positions(kin)[last]
            places = jnp.concatenate([kin.link_pos[links], ends[:, None]], axis=1)  # (4, 4, 3)
            length = jnp.sum(safe_norm(jnp.diff(places, axis=1)), axis=1)
            height = com[2] - low
            reach = jnp.sqrt((SHARES * length) ** 2 - (DEPTH * height) ** 2)
            return height, (places[:, 0] - com)[:, 1:], reach

        return cls(*measured(model, effectors))

    @property
    def ease(self) -> Array:
        """Comfortable positions (4, 2) of the limbs, from the centre of mass [m]."""
        return self.height * jnp.asarray(EASE, self.reach.dtype)

    def slack(self, at: Array, com: Array) -> Array:
        """Margin (...,) of the limb nearest to the end of its range [m]; negative: out of reach.

        at (..., 4, 2): positions of the limbs, com (..., 2): of the centre of mass.
        """
        d = at - com[..., None, :]
        far = self.reach - safe_norm(d - self.root)
        aside = SIDE * d[..., 0] + CROSSED * self.height
        level = jnp.where(
            HAND, d[..., 1] - LOWEST_HAND * self.height, HIGHEST_FOOT * self.height - d[..., 1]
        )
        return jnp.min(jnp.minimum(jnp.minimum(far, aside), level), axis=-1)

    def stance(self, at: Array, before: Array | None = None) -> tuple[Array, Array]:
        """Best position (..., 2) of the centre of mass for limbs, and its slack (...,) [m].

        at (..., 4, 2): positions of the limbs; before (4, 2): positions that they are to reach from
        there as well, if possible.
        """
        spots = self.height * jnp.asarray(SPOTS, at.dtype)
        both = at if before is None else (at + before) / 2
        tried = jnp.mean(both - self.ease, axis=-2)[..., None, :] + spots  # (..., n, 2)
        slack = self.slack(at[..., None, :, :], tried)
        liked = slack
        if before is not None:  # of places with slack the one within reach of both
            short = jnp.min(self.reach - safe_norm(before - tried[..., None, :] - self.root), -1)
            liked = jnp.where(slack > 0, jnp.minimum(slack, short), slack - self.height)
        best = jnp.argmax(liked, axis=-1)[..., None] == np.arange(len(SPOTS))
        com = jnp.sum(jnp.where(best[..., None], tried, 0.0), axis=-2)
        apart = at[..., 0::2, 0] - at[..., 1::2, 0] > APART * self.height  # feet, hands
        there = jnp.sum(jnp.where(best, slack, 0.0), axis=-1)
        return com, jnp.where(apart.all(axis=-1), there, -jnp.inf)

    def near(self, places: Array, now: Array) -> Array:
        """Mask (4, n) of moves, a limb to one of places (n, 2), whose stance can have slack at all.

        now (4, 2): present positions of the limbs.
        """
        com = jnp.mean(now - self.ease, axis=0) + (places - now[:, None]) / 8
        away = safe_norm(places - com - self.root[:, None])
        spread = self.height * np.linalg.norm(SPOTS, axis=1).max()
        return away < self.reach[:, None] + spread

    def gain(self, at: Array, way: Array) -> Array:
        """Progress (...,) of limbs at (..., 4, 2) along ``way`` (2,), less their stretching [m]."""
        away = at - self.ease
        away = (away - jnp.mean(away, axis=-2, keepdims=True)) / self.height
        stretched = STRETCH * self.height * jnp.sum(away**2, axis=(-1, -2))
        return jnp.sum(at @ way, axis=-1) - stretched


def places_of(places: Array, held: Array) -> Array:
    """Positions (4, 2) of limbs, from the holds (4,) int that they hold and places (nh, 2) [m]."""
    one = held[:, None] == np.arange(places.shape[0])
    return jnp.sum(jnp.where(one[..., None], places, 0.0), axis=1)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Move:
    """A limb and the hold that it goes to."""

    found: Array  # () bool
    limb: Array  # () int, index into ``LIMBS``
    hold: Array  # () int
    com: Array  # (2,) where the centre of mass is to be for it [m]


def best_move(
    limbs: Limbs,
    places: Array,
    held: Array,
    may: Array,
    way: Array,
    over: Array | None = None,
    back: Array | None = None,
) -> Move:
    """Best move of one limb to another hold, or the latest move that can be taken back.

    places (nh, 2) of the holds [m]; held (4,) int the hold of each limb; may (4, nh) bool: allowed
    moves; way (2,): direction of the climb; over (4,): cost of moving each limb [m of its gain];
    back (4, nh) int: numbers from 1 on of moves to take back if no move is possible, the largest
    first.
    """
    nh = places.shape[0]
    taken = (held[:, None] == np.arange(nh)).any(axis=0)
    now = places_of(places, held)
    all_after = jnp.where(np.eye(4, dtype=bool)[:, None, :, None], places[:, None], now)
    gain = limbs.gain(all_after, way) - limbs.gain(now, way)
    can = may & ~taken & limbs.near(places, now) & (gain > -LOSES * limbs.height)
    score = jnp.where(can, gain - (0.0 if over is None else over[:, None]), -jnp.inf)
    score, of = lax.stop_gradient((score.reshape(-1), (limbs, places, now)))  # what is chosen

    def after(which: Array, places: Array, now: Array) -> Array:
        place = jnp.sum(jnp.where((which % nh == np.arange(nh))[:, None], places, 0.0), axis=0)
        return jnp.where((which // nh == np.arange(4))[:, None], place, now)

    def again(tried: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        """Check the best candidate that is left: few need it, all would take a frame's time."""
        score, _, _ = tried
        limbs, places, now = of
        best = jnp.argmax(score)
        slack = limbs.stance(after(best, places, now), now)[1]
        return jnp.where(np.arange(4 * nh) == best, -jnp.inf, score), best, slack > 0

    none = jnp.zeros((), int), jnp.asarray(False)
    _, best, found = lax.while_loop(
        lambda tried: ~tried[2] & (jnp.max(tried[0]) > -jnp.inf), again, (score, *none)
    )
    if back is not None:  # to where it was: no need to look whether that is in reach
        left = jnp.where(taken, 0, back).reshape(-1)
        best, found = jnp.where(found, best, jnp.argmax(left)), found | (jnp.max(left) > 0)
    com, _ = limbs.stance(after(best, places, now), now)
    return Move(found, best // nh, best % nh, com)


def leaving(been: Array, held: Array, limb: Array, hold: Array) -> tuple[Array, Array]:
    """Memory (4, nh) int after a limb leaves its hold, and whether () it takes a move back.

    held (4,) int: the hold of each limb; limb and hold (): of the move. Entries from 1 on: holds
    that a limb has been on along this route, in the order in which they were left; ``GONE``: holds
    that it is on, came back from, or did not reach; 0: all others.
    """
    one, holds = np.arange(4) == limb, np.arange(been.shape[1])
    there = one[:, None] & (holds == hold)
    returns = (there & (been > 0)).any()
    number = jnp.where(returns, GONE, 1 + jnp.maximum(jnp.max(been), 0))
    been = jnp.where(one[:, None] & (holds == held[:, None]), number, been)
    return jnp.where(there, GONE, been), returns


def holding(been: Array, held: Array) -> Array:
    """Memory (4, nh) int after the limbs take the holds ``held`` (4,) int."""
    return jnp.where(held[:, None] == np.arange(been.shape[1]), GONE, been)


def first_holds(limbs: Limbs, places: Array, about: Array) -> tuple[Array, Array, Array]:
    """Initial holds (4,) int, centre of mass (2,) [m] and slack () [m] there.

    Each limb takes the hold nearest to its comfortable position about a centre of mass near
    ``about`` (2,) [m], no hold twice.
    """

    def choose(com: Array) -> tuple[Array, Array, Array]:
        free, chosen = jnp.ones(places.shape[0], bool), []
        for limb in range(4):
            away = safe_norm(places - com - limbs.ease[limb])
            chosen.append(jnp.argmin(jnp.where(free, away, jnp.inf)))
            free = free & (chosen[-1] != np.arange(places.shape[0]))
        held = jnp.stack(chosen)
        return held, *limbs.stance(places[held])

    tried = about + limbs.height * jnp.asarray(STARTS, places.dtype)
    held, com, slack = jax.vmap(choose)(tried)
    best = jnp.argmax(slack)
    return held[best], com[best], slack[best]
