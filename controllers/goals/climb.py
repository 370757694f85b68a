"""Climbing a wall of holds, one limb at a time.

Source: Jain, Ye, Liu (2009), section 6.2: five states with their weights. Which hold is next it
leaves open, see ``controllers.goals.climbing_moves``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from controllers.goals import tasks as goals
from controllers.goals.climbing_moves import CHAINS, HAND, LIMBS, Limbs, best_move, places_of
from controllers.goals.machine import GoalMachine, GoalState
from controllers.goals.tasks import Goal
from jaxsim.dynamics.jacobians import point_jacobian
from jaxsim.math.safe import safe_norm
from jaxsim.model import Topology
from jaxsim.model.roles import FEET, HANDS
from jaxsim.synthesis.holds import HoldsNow
from jaxsim.synthesis.observation import EffectorObservation

ROLES = (*FEET, *HANDS, "pelvis", "chest", "head", "leftThigh", "rightThigh")
CLEAR = ("leftShank", "rightShank", "pelvis", "chest", "head")  # whose joints keep off the wall
FAR = 0.5  # from the hold, a limb's goal has its least weight, in heights of the centre of mass
LEAST = np.array([0.01, 0.01, 0.1, 0.1])  # weights that the document prints, of feet and of hands
NEAREST = np.array([0.3, 0.3, 0.25, 0.25])
SWINGS = 0.05  # weight of ``relax`` for a limb on its way: it does not push off the wall
CLEARS = 20.0  # weight of ``clear``


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Pace:
    """When it goes on, where the document says nothing. Arrays: may be tuned. Times are in
    sqrt(height / g), speeds in sqrt(height g), of the height of the centre of mass."""

    still: Array | float = 0.03  # slower, the centre of mass is at rest
    rest: Array | float = 0.3  # all four limbs stay on their holds for at least so long
    near: Array | float = 0.05  # the centre of mass is to come so near to its place [heights]
    patience: Array | float = 5.0  # for so long at most
    relaxed: Array | float = 0.05  # a limb with a smaller load lets go [body weights]
    relaxing: Array | float = 1.5  # after so long it lets go whatever its load
    moving: Array | float = 12.0  # after so long on its way a limb goes back to its hold
    off: Array | float = 0.0  # knees and trunk are so far out from the holds [heights]
    pose: Array | float = 0.1  # a foot nearer to its hold begins to draw the body in pose [heights]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Climb:
    """Where the climber is. Limbs in the order of ``LIMBS``."""

    frame: Array  # (3, 3) rows: left, up, out of the holds' plane
    origin: Array  # (3,) on that plane [m]
    way: Array  # (2,) unit, (left, up): where it wants to get
    depth: Array  # () how far out the centre of mass is from the holds [m]
    limbs: Limbs
    pose: Array  # (n,) hinges at the start [rad]
    pace: Pace
    asked: Array  # (4,) int: the hold of each limb, or the one that it is on its way to
    com: Array  # (2,) where the centre of mass is to be [m]
    limb: Array  # () int: the limb of the move
    hold: Array  # () int: the hold of the move
    back: Array  # () int: the hold that the limb left
    after: Array  # (2,) where the centre of mass is to be for the move [m]
    found: Array  # () bool: there is a move
    last: Array  # () int: the limb that moved last
    begun: Array  # () when the state began [s]
    been: Array  # (4, nh) bool: where limbs have been, or did not get to
    moves: Array  # () int: holds gained

    def places(self, obs: EffectorObservation) -> Array:
        """(nh, 2) of the holds, in the plane [m]."""
        return (_holds(obs).pos - self.origin) @ self.frame[:2].T

    @property
    def com_target(self) -> Array:
        """(3,) where the centre of mass is to be, in the world [m]."""
        return self.origin + jnp.append(self.com, self.depth) @ self.frame

    def waited(self, obs: EffectorObservation, time: Array | float) -> Array:
        """The state has lasted for a time, in sqrt(height / g)."""
        return obs.time - self.begun > time * jnp.sqrt(self.limbs.height / _gravity(obs))


def _gravity(obs: EffectorObservation) -> Array:
    return safe_norm(obs.conf.model.gravity)


def order_of(obs: EffectorObservation) -> np.ndarray:
    """(4,) of each limb its gripper."""
    names = obs.conf.effectors.group_names
    return np.array([names.index(name) for name in LIMBS])


def held_now(obs: EffectorObservation) -> Array:
    """(4,) int: the hold that each limb holds, or NO_HOLD."""
    return _holds(obs).grips.held[order_of(obs)]


def on_its_way(obs: EffectorObservation, climb: Climb) -> Array:
    """(ne,) bool: the effectors of the limb of the move."""
    return _pick(climb.limb, [obs.group(name) for name in LIMBS])


def _holds(obs: EffectorObservation) -> HoldsNow:
    """Those of the scene: one who climbs has some."""
    assert obs.conf.holds is not None
    return obs.conf.holds


def _pick(index: Array, rows: Any) -> Array:
    """The row of an index; zeros for -1, before the first move."""
    one = index == np.arange(len(rows))
    stacked = jnp.stack([jnp.asarray(row) for row in rows])
    if stacked.dtype == bool:
        return (one.reshape(-1, *(1,) * (stacked.ndim - 1)) & stacked).any(axis=0)
    return jnp.tensordot(one.astype(stacked.dtype), stacked, axes=1)


def _tip(obs: EffectorObservation, climb: Climb) -> tuple[Array, Array]:
    """(3,) where the gripper of the moving limb is from its hold [m], and its Jacobian (3, nv)."""
    conf, holds = obs.conf, _holds(obs)
    at = holds.grippers[order_of(obs)]
    place = jnp.sum(
        jnp.where((climb.hold == np.arange(holds.pos.shape[0]))[:, None], holds.pos, 0.0),
        axis=0,
    )
    return _pick(climb.limb, conf.position[at]) - place, _pick(climb.limb, conf.jacobian[at])


def com_to_place() -> Goal:
    """Gcom: the centre of mass where all limbs reach their holds, ``Climb.depth`` out of these."""

    def rows(obs: EffectorObservation, climb: Climb):
        return obs.conf.com - climb.com_target, obs.conf.com_jacobian

    return Goal("com", "com", rows)


def limb_to_hold() -> Goal:
    """Gp: the limb of the move to its hold; weights grow as it gets nearer. The state's weight is
    in units of that of a hand that is near."""

    def rows(obs: EffectorObservation, climb: Climb):
        away, J = _tip(obs, climb)
        part = jnp.clip(safe_norm(away) / (FAR * climb.limbs.height), 0.0, 1.0)
        least, nearest = (_pick(climb.limb, x.tolist()) for x in (LEAST, NEAREST))
        root = jnp.sqrt((nearest + (least - nearest) * part) / nearest)
        return root * away, root * J

    return Goal("hold", "limb", rows)


def pose_near(joints: Sequence[str]) -> Goal:
    """Gpose: hinges as at the start, once a foot is near to its hold; but not those of its own leg,
    which would keep it from getting there."""
    pose = goals.pose("pose", tuple(joints), lambda _, climb: climb.pose)

    def rows(obs: EffectorObservation, climb: Climb):
        away = safe_norm(_tip(obs, climb)[0]) / (climb.pace.pose * climb.limbs.height)
        others = climb.limb != limbs_of(obs.conf.model.topology, joints)
        root = jnp.where(others, jnp.clip(1.0 - away, 0.0, 1.0), 0.0)  # at once, it would jerk
        error, J = pose.rows(obs, climb)
        return root * error, root[:, None] * J

    return replace(pose, rows=rows)


def limbs_of(top: Topology, joints: Sequence[str]) -> np.ndarray:
    """(n,) int: the limb of each joint, index into ``LIMBS``; 4 of the trunk's."""
    first = [top.part(chain[0]) for chain in CHAINS]

    def of(link: int) -> int:
        while link >= 0 and link not in first:
            link = top.link_parent[link]
        return first.index(link) if link >= 0 else len(first)

    return np.array([of(top.joint_link[top.joint(name)]) for name in joints])


def clear_of_wall() -> Goal:
    """Knees and trunk on this side of the holds: nothing else keeps them out of the wall."""

    def rows(obs: EffectorObservation, climb: Climb):
        conf, errors, slopes = obs.conf, [], []
        least = climb.pace.off * climb.limbs.height
        for name in CLEAR:
            link = conf.link(name)
            place = conf.kin.link_pos[link]
            short = (place - climb.origin) @ climb.frame[2] - least
            slope = climb.frame[2] @ point_jacobian(conf.model, conf.kin, link, place)
            errors.append(jnp.minimum(short, 0.0))
            slopes.append(jnp.where(short < 0, slope, 0.0))
        return jnp.stack(errors), jnp.stack(slopes)

    return Goal("clear", "com", rows)


def plan(obs: EffectorObservation, climb: Climb) -> Climb:
    """The next move, as all limbs hold; of a limb that has lost its hold, that one's."""
    held, places = held_now(obs), climb.places(obs)
    lost = held != climb.asked
    may = jnp.where(lost.any(), lost, np.arange(4) != climb.last)
    may = may[:, None] & ~climb.been & _holds(obs).there
    move = best_move(climb.limbs, places, climb.asked, may, climb.way)
    return replace(climb, limb=move.limb, hold=move.hold, after=move.com, found=move.found)


def _rest(obs: EffectorObservation, climb: Climb) -> Climb:
    """All limbs hold, after a move."""
    one = np.arange(4) == climb.limb
    gained = (climb.limb >= 0) & (jnp.where(one, climb.asked, 0).sum() != climb.back)
    com, _ = climb.limbs.stance(places_of(climb.places(obs), climb.asked))
    moves = climb.moves + jnp.where(gained, 1, 0)
    return replace(climb, com=com, last=climb.limb, begun=obs.time, moves=moves)


def _relax(obs: EffectorObservation, climb: Climb) -> Climb:
    return replace(climb, begun=obs.time)


def _leave(obs: EffectorObservation, climb: Climb) -> Climb:
    """The limb lets go."""
    one = np.arange(4) == climb.limb
    nh = climb.been.shape[1]
    been = climb.been | (one[:, None] & (climb.hold == np.arange(nh)))
    return replace(
        climb,
        back=jnp.where(one, climb.asked, 0).sum(),
        asked=jnp.where(one, climb.hold, climb.asked),
        com=climb.after,
        begun=obs.time,
        been=been,
    )


def _watch(obs: EffectorObservation, climb: Climb) -> Climb:
    """A limb that takes too long goes back to where it came from."""
    late = climb.waited(obs, climb.pace.moving)
    one = np.arange(4) == climb.limb
    hold = jnp.where(late, climb.back, climb.hold)
    return replace(
        climb,
        hold=hold,
        asked=jnp.where(one, hold, climb.asked),
        begun=jnp.where(late, obs.time, climb.begun),
    )


def _hand(obs: EffectorObservation, climb: Climb) -> Array:
    return _pick(climb.limb, HAND)


def _goes_on(obs: EffectorObservation, climb: Climb) -> Array:
    """All hold, the centre of mass is at rest where it should be, and there is a move."""
    pace, height = climb.pace, climb.limbs.height
    still = safe_norm(obs.com_velocity) < pace.still * jnp.sqrt(height * _gravity(obs))
    near = safe_norm(obs.com - climb.com_target) < pace.near * height
    stable = still & (near | climb.waited(obs, pace.patience)) & climb.waited(obs, pace.rest)
    return climb.found & stable


def _loaded(obs: EffectorObservation, climb: Climb) -> Array:
    """The limb of the move still bears."""
    at = _holds(obs).grippers[order_of(obs)]
    force = safe_norm(_pick(climb.limb, obs.force[at]))
    on = _pick(climb.limb, held_now(obs) == climb.asked)
    bears = on & (force > climb.pace.relaxed * obs.weight)
    return climb.found & bears & ~climb.waited(obs, climb.pace.relaxing)


def _under_way(obs: EffectorObservation, climb: Climb) -> Array:
    return ~_pick(climb.limb, held_now(obs) == climb.asked)


def climb_machine(joints: Sequence[str], climb: Climb) -> GoalMachine:
    """The document's five states and weights. joints: those of ``Climb.pose``; climb: where it
    begins."""

    def asked(obs: EffectorObservation, climb: Climb):
        order = order_of(obs)
        return jnp.zeros_like(climb.asked).at[order].set(climb.asked)

    def state(weights: dict[str, float], condition, enter, during=lambda _, climb: climb, **more):
        goals = {**weights, "clear": CLEARS}
        return GoalState(goals, condition, enter, during, holds=asked, **more)

    def of_hands(condition):
        return lambda obs, climb: condition(obs, climb) & _hand(obs, climb)

    def of_feet(condition):
        return lambda obs, climb: condition(obs, climb) & ~_hand(obs, climb)

    relax = {"damping": 0.2, "relax": 1.0}
    move = {"damping": 0.2, "com": 10.0, "relax": SWINGS}
    return GoalMachine(
        goals=(
            goals.damping(),
            com_to_place(),
            limb_to_hold(),
            pose_near(joints),
            clear_of_wall(),
            goals.relax("relax", on_its_way),
        ),
        states={
            "allSupport": state(
                {"damping": 0.2, "com": 20.0}, lambda o, c: ~_goes_on(o, c), _rest, plan
            ),
            "relaxHand": state(relax, of_hands(_loaded), _relax),
            "moveHand": state(
                {**move, "hold": NEAREST[2]}, of_hands(_under_way), _leave, _watch, lifts=on_its_way
            ),
            "relaxFoot": state(relax, of_feet(_loaded), _relax),
            "moveFoot": state(
                {**move, "hold": NEAREST[0], "pose": 2.0},
                of_feet(_under_way),
                _leave,
                _watch,
                lifts=on_its_way,
            ),
        },
        transitions={
            "allSupport": ("relaxHand", "relaxFoot"),
            "relaxHand": ("moveHand",),
            "moveHand": ("allSupport",),
            "relaxFoot": ("moveFoot",),
            "moveFoot": ("allSupport",),
        },
        variables=climb,
    )
