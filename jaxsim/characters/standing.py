"""Standing pose of a character, and its standing height, fall threshold and effectors."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer

from jaxsim.collision.contacts import lowest_point
from jaxsim.dynamics.effectors import Effectors, effectors
from jaxsim.dynamics.kinematics import Kinematics, forward_kinematics
from jaxsim.model import Model, ModelError, State, neutral_state
from jaxsim.model.roles import FEET
from jaxsim.model.state import neutral_q

# What stands or lies at a start is this deep in the ground [m]. Exactly on it rounding would decide
# whether a gap closes within a step or depth is undone slowly, and float32 would have other
# gradients than float64. Deeper starts push the harder: this one by 0.5 mm/s, once.
START_DEPTH = 1e-5
STANDS = 0.9  # a head that is this much of its height in the standing pose up stands
DIGITS = 6  # of a height [m], so that it is the same in both precisions
FALLEN = 0.6  # share of the height in the standing pose below which a character has fallen


def standing_q(model: Model) -> np.ndarray:
    """Coordinates (nq,) of the standing character, which come first in q; its root anywhere."""
    q = neutral_q(model)
    own = model.topology.roles.standing
    q[: len(own)] = own
    return q


@partial(jax.jit, static_argnames="name")
def stand(model: Model, name: str = "standing") -> State:
    """State that stands at rest on the ground, see ``START_DEPTH``.

    Raises ModelError for another name.
    """
    if name != "standing":
        raise ModelError(f"no start named {name!r}; choose from standing")
    state, top = neutral_state(model), model.topology
    q = jnp.asarray(standing_q(model), state.q.dtype)
    if top.root_height is not None:
        kin = forward_kinematics(model, q, state.qd)
        q = q.at[top.root_height].add(rise_to_ground(model, kin))
    return state.replace(q=q)


def rise_to_ground(model: Model, kin: Kinematics) -> Array:
    """Distance () of the lowest point below its position at a start [m], see ``START_DEPTH``."""
    return -lowest_point(model, kin) - START_DEPTH


def standing_height(model: Model) -> float | Array:
    """Height () of the head's centre of mass above which a body is standing [m].

    A share of the head's height over the soles in the standing pose, so that it scales with the
    body: ``STANDS``, or what the character declares; the planar human's is 1.8 m. Raises ModelError
    for a model without roles for head or feet.
    """
    top = model.topology
    top.require("the standing height", "head")
    share = top.roles.stands_at
    if share is None:
        top.require("the standing height", *FEET)
        share = STANDS

    def height() -> Array:
        kin, soles = standing_kinematics(model)
        return share * (kin.com[top.part("head"), 2] - soles)

    if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(model)):
        return height()
    with jax.ensure_compile_time_eval():  # the numbers are known, also within a trace
        return round(float(height()), DIGITS)


def above_standing(model: Model) -> Callable[[Any], Array]:
    """Function of the links' centres of mass (nl, 3): head height above ``standing_height`` () [m].

    A character is standing where it is not negative, in every measure, objective and verdict.
    Heights are over the ground at height 0. Raises ModelError as ``standing_height`` does.
    """
    height, head = standing_height(model), model.topology.part("head")
    return lambda com: com[head, 2] - height


def com_over_feet(model: Model, kin: Kinematics) -> Array:
    """Height () of the centre of mass over the lower foot's, over height 0 without feet [m]."""
    high, feet = kin.com[:, 2], model.topology.parts(FEET)
    com = jnp.sum(model.mass * high) / jnp.sum(model.mass)
    return com - jnp.min(high[np.array(feet, int)]) if feet else com


def fallen_height(model: Model) -> Array | None:
    """Threshold () of ``com_over_feet`` below which a character has fallen [m].

    ``FALLEN`` of the value in the standing pose; None for a body without a standing pose.
    """
    if not model.topology.roles.stands:
        return None
    kin, low = standing_kinematics(model)
    high = com_over_feet(model, kin)
    return FALLEN * (high if model.topology.parts(FEET) else high - low)


@jax.jit
def standing_kinematics(model: Model) -> tuple[Kinematics, Array]:
    """Kinematics of the standing pose, and height () of its lowest effector [m].

    The root is anywhere; of a body without effectors the height is that of its lowest point.
    """
    top, dtype = model.topology, model.mass.dtype
    q = jnp.asarray(standing_q(model), dtype)
    kin = forward_kinematics(model, q, jnp.zeros(top.nv, dtype))
    if not top.roles.points:
        return kin, lowest_point(model, kin, top.main_links)
    return kin, jnp.min(effectors_of(model).positions(kin)[:, 2])


def effectors_of(model: Model) -> Effectors:
    """Effectors of a character, which carry load: corners of soles, ends of hands.

    Works for a body of any size. Raises ModelError for a model without roles for the feet.
    """
    top = model.topology
    top.require("what bears on surroundings", *FEET)
    if not top.roles.points:
        name = top.roles.character or "this model"
        raise ModelError(f"{name} has no effectors; it is simulated forward only")
    return effectors(model, top.roles.points)
