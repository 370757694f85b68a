"""Climbing machine: up a wall of holds, one limb at a time.

Source: Jain, Ye, Liu (2009), section 6.2: five states with their weights. The choice of the next
hold is left open there, see ``controllers.goals.climbing_moves``.
"""

from collections.abc import Sequence
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
from jax import Array

from controllers.goals import tasks as goals
from controllers.goals.climbing_goals import (
    NEAREST,
    clear_of_wall,
    com_to_place,
    limb_to_hold,
    pose_near,
)
from controllers.goals.climbing_moves import (
    HAND,
    LIMBS,
    best_move,
    holding,
    leaving,
    places_of,
)
from controllers.goals.climbing_stance import Cones, efforts
from controllers.goals.climbing_state import (
    Climb,
    held_now,
    on_its_way,
    order_of,
    row_of,
    the_holds,
)
from controllers.goals.machine import GoalMachine, GoalState
from controllers.goals.sensors import gravity
from jaxsim.math.safe import safe_norm
from jaxsim.model.roles import FEET, HANDS
from jaxsim.synthesis.observation import EffectorObservation

ROLES = (*FEET, *HANDS, "pelvis", "chest", "head", "leftThigh", "rightThigh")
SWINGS = 0.05  # weight of ``relax`` for a limb on its way: it does not push off the wall
CLEARS = 2.0  # weight of ``clear``
HEAVIEST = 3.0  # largest penalty for three limbs that cannot carry the body [heights]
EFFORT = 1e-5  # weight of ``effort``: so small that the body does not sag


def plan(obs: EffectorObservation, climb: Climb) -> Climb:
    """Choose the next move while all limbs hold on, or that of a limb that has lost its hold.

    The target of the centre of mass becomes the place from which the move is made.
    """
    held, places = held_now(obs), climb.places(obs)
    lost = held != climb.asked
    may = jnp.where(lost.any(), lost, True)[:, None] & the_holds(obs).there
    back = jnp.where(may & _goes_further(obs, climb, places), climb.been, 0)
    over, may = _costs(obs, climb), may & (climb.been == 0)
    move = best_move(climb.limbs, places, climb.asked, may, climb.way, over, back)
    com, _ = climb.limbs.stance(places_of(places, climb.asked))
    com = jnp.where(move.found, move.com, com)
    return replace(climb, limb=move.limb, hold=move.hold, com=com, found=move.found)


def _goes_further(obs: EffectorObservation, climb: Climb, places: Array) -> Array:
    """() bool: holds lie beyond those of the limbs, so that another route may be worth it."""
    beyond = jnp.where(the_holds(obs).there, places @ climb.way, -jnp.inf)
    reached = places_of(places, climb.asked) @ climb.way
    return jnp.max(beyond) - jnp.max(reached) > climb.pace.further * climb.limbs.height


def _costs(obs: EffectorObservation, climb: Climb) -> Array:
    """Cost (4,) of moving each limb [m]."""
    pace, limb = climb.pace, np.arange(4)
    too_heavy = jnp.clip(three_bear(obs, climb) - pace.bears, 0.0, HEAVIEST)
    again = jnp.where(limb == climb.last, pace.again, 0.0)
    kept = jnp.where(limb == climb.limb, pace.keeps, 0.0)
    return climb.limbs.height * (too_heavy + again - kept)


def three_bear(obs: EffectorObservation, climb: Climb) -> Array:
    """Largest torque relative to its limit, (4,), as the other three limbs carry the body."""
    holds, order = the_holds(obs), order_of(obs)
    left, up, out = climb.frame
    feet = Cones((0, 1), jnp.stack([up, left, out]), jnp.min(holds.friction))
    one = ~np.eye(4, dtype=bool)
    return efforts(obs.conf, holds.grippers[order], one, feet, obs.weight, obs.height)


def _rest(obs: EffectorObservation, climb: Climb) -> Climb:
    """Enter ``allSupport``: count the move that has ended."""
    one = np.arange(4) == climb.limb
    gained = (climb.limb >= 0) & (jnp.where(one, climb.asked, 0).sum() != climb.back)
    moves = climb.moves + jnp.where(gained, 1, 0)
    been = holding(climb.been, climb.asked)  # that of a limb that was saved is another
    return replace(climb, last=climb.limb, begun=obs.time, moves=moves, been=been)


def _relax(obs: EffectorObservation, climb: Climb) -> Climb:
    """Enter a state that unloads the limb of the move: note the time."""
    return replace(climb, begun=obs.time)


def _leave(obs: EffectorObservation, climb: Climb) -> Climb:
    """Enter a state that moves a limb: the limb lets go of its hold."""
    moving = np.arange(4) == climb.limb
    been, returns = leaving(climb.been, climb.asked, climb.limb, climb.hold)
    return replace(
        climb,
        back=jnp.where(moving, climb.asked, 0).sum(),
        asked=jnp.where(moving, climb.hold, climb.asked),
        begun=obs.time,
        short=safe_norm(obs.com - climb.com_target),
        been=been,
        returns=climb.returns + jnp.where(returns, 1, 0),
        saved=jnp.asarray(False),
    )


def _watch(obs: EffectorObservation, climb: Climb) -> Climb:
    """Redirect a limb that takes too long, or moves the body away, to the nearest free hold."""
    strays = safe_norm(obs.com - climb.com_target) - climb.short
    fails = climb.waited(obs, climb.pace.moving)
    fails = fails | ((strays > climb.pace.strays * climb.limbs.height) & ~climb.saved)
    moving, holds = np.arange(4) == climb.limb, the_holds(obs)
    tip = row_of(climb.limb, obs.conf.position[holds.grippers[order_of(obs)]])
    taken = (climb.asked[:, None] == np.arange(holds.pos.shape[0])).any(axis=0)
    away = jnp.where(taken | ~holds.there, jnp.inf, safe_norm(holds.pos - tip))
    hold = jnp.where(fails, jnp.argmin(away), climb.hold)
    return replace(
        climb,
        hold=hold,
        asked=jnp.where(moving, hold, climb.asked),
        begun=jnp.where(fails, obs.time, climb.begun),
        saved=climb.saved | fails,
    )


def _hand(obs: EffectorObservation, climb: Climb) -> Array:
    """True if the limb of the move is a hand."""
    return row_of(climb.limb, HAND)


def _goes_on(obs: EffectorObservation, climb: Climb) -> Array:
    """True once all limbs hold on, the centre of mass is at its target, and there is a move."""
    pace, height = climb.pace, climb.limbs.height
    speed = safe_norm(obs.com_velocity) / jnp.sqrt(height * gravity(obs))
    near = (safe_norm(obs.com - climb.com_target) < pace.near * height) & (speed < pace.still)
    there = near | (speed < pace.stuck) | climb.waited(obs, pace.patience)
    stable = there & climb.waited(obs, pace.rest)
    return climb.found & stable


def _loaded(obs: EffectorObservation, climb: Climb) -> Array:
    """True while the limb of the move still carries load."""
    at = the_holds(obs).grippers[order_of(obs)]
    force = safe_norm(row_of(climb.limb, obs.force[at]))
    on = row_of(climb.limb, held_now(obs) == climb.asked)
    bears = on & (force > climb.pace.relaxed * obs.weight)
    return climb.found & bears & ~climb.waited(obs, climb.pace.relaxing)


def _under_way(obs: EffectorObservation, climb: Climb) -> Array:
    """True until the limb of the move holds on to its hold."""
    return ~row_of(climb.limb, held_now(obs) == climb.asked)


def _requested_holds(obs: EffectorObservation, climb: Climb) -> Array:
    """Hold (ng,) int that each gripper requests."""
    return jnp.zeros_like(climb.asked).at[order_of(obs)].set(climb.asked)


def _not_limbs(obs: EffectorObservation, climb: Climb) -> Array | np.ndarray:
    """Mask (ne,) of effectors besides feet and hands, which need not stay in contact."""
    return ~np.any([obs.group(name) for name in LIMBS], axis=0)


def climb_machine(joints: Sequence[str], climb: Climb) -> GoalMachine:
    """Climbing machine with the five states and weights of Jain, Ye, Liu (2009).

    joints: those of ``Climb.pose``; climb: the initial memory.
    """

    def state(weights: dict[str, float], condition, enter, during=lambda _, climb: climb, **more):
        weights = {**weights, "clear": CLEARS, "effort": EFFORT}
        more = {"lifts": _not_limbs, **more}
        return GoalState(weights, condition, enter, during, holds=_requested_holds, **more)

    def moves(obs: EffectorObservation, climb: Climb):
        return _not_limbs(obs, climb) | on_its_way(obs, climb)

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
            goals.effort(),
        ),
        states={
            "allSupport": state(
                {"damping": 0.2, "com": 20.0}, lambda o, c: ~_goes_on(o, c), _rest, plan
            ),
            "relaxHand": state(relax, of_hands(_loaded), _relax),
            "moveHand": state(
                {**move, "hold": NEAREST[2]}, of_hands(_under_way), _leave, _watch, lifts=moves
            ),
            "relaxFoot": state(relax, of_feet(_loaded), _relax),
            "moveFoot": state(
                {**move, "hold": NEAREST[0], "pose": 2.0},
                of_feet(_under_way),
                _leave,
                _watch,
                lifts=moves,
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
