"""How far climbers get by the tables of holds alone, nothing simulated: with going back, without.

A move comes to its hold, or with a chance of ``fails`` the limb stays where it was, as one that
does not get there. What three limbs cannot bear costs nothing here.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from controllers.goals.climbing_moves import LIMBS, best_move, holding, leaving, places_of
from controllers.goals.climbing_state import Climb

MOST = 200  # moves
HEAD = [
    "who finds no move",
    "walls",
    "got there",
    "no hold in reach",
    f"{MOST} moves were not enough",
]
HEAD += ["way, median and range [m]", "moves of those who got there, median and most"]
HEAD += ["of these taken back, mean and most"]


def climbed(
    places: Array, climb: Climb, key: Array, goal: float, fails: float, back: Array
) -> tuple[Array, Array, Array, Array]:
    """() of one wall: how far it is climbed [m], moves until then, those of them that were taken
    back, and whether there was always a move. places (nh, 2) [m]; back () bool: whether to."""
    limbs, way, pace = climb.limbs, climb.way, climb.pace

    def far(held):
        return limbs.stance(places_of(places, held))[0] @ way

    start = far(climb.asked)

    def step(carry, key):
        held, been, last, gone, moves, returns, found = carry
        over = limbs.height * jnp.where(np.arange(len(LIMBS)) == last, pace.again, 0.0)
        on = found & (gone < goal)
        left = jnp.where(back & on, been, 0)
        move = best_move(limbs, places, held, (been == 0) & on, way, over, left)
        went, returned = leaving(been, held, move.limb, move.hold)
        there = (np.arange(len(LIMBS)) == move.limb) & (jax.random.uniform(key) >= fails)
        holds = jnp.where(there, move.hold, held)
        goes = on & move.found
        held = jnp.where(goes, holds, held)
        after = (
            held,
            jnp.where(goes, holding(went, holds), been),
            jnp.where(goes, move.limb, last),
            jnp.maximum(gone, far(held) - start),
            moves + goes,
            returns + (goes & returned),
            found & (move.found | ~on),
        )
        return after, None

    none, nought = jnp.asarray(0), jnp.zeros((), places.dtype)
    begun = climb.asked, climb.been, climb.last, nought, none, none, jnp.asarray(True)
    after, _ = lax.scan(step, begun, jax.random.split(key, MOST))
    return after[3:]


def rows(pos: Array, climb: Climb, good: Array, goal: float, fails: float) -> list[list[str]]:
    """Of the table: holds pos (n, nh, 3) [m], where climbs begin, which have a start."""
    keys = jax.random.split(jax.random.key(0), len(pos))
    found = []
    for back in (False, True):
        one = partial(_on_wall, goal=goal, fails=fails, back=jnp.asarray(back))
        # one after the other: a batch would look for moves as long as its slowest does
        out = jax.jit(partial(lax.map, lambda each: one(*each)))((pos, climb, keys))  # noqa: B023
        gone, moves, returns, always = (np.asarray(x)[np.asarray(good)] for x in out)
        there = gone >= goal
        found.append(
            [
                "goes back" if back else "stays",
                str(len(gone)),
                str(there.sum()),
                str((~there & ~always).sum()),
                str((~there & always).sum()),
                f"{np.median(gone):.1f}, {gone.min():.1f} to {gone.max():.1f}",
                f"{np.median(moves[there]):.0f}, {moves[there].max()}" if there.any() else "",
                f"{returns[there].mean():.1f}, {returns[there].max()}" if there.any() else "",
            ]
        )
    return found


def _on_wall(pos: Array, climb: Climb, key: Array, **options: Any):
    return climbed((pos - climb.origin) @ climb.frame[:2].T, climb, key, **options)
