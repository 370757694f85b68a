"""How a character stands, and what follows from that: its height, its effectors."""

from functools import partial

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

STANDS = 0.9  # a head that is this much of its height in the standing pose up stands


def standing_q(model: Model) -> np.ndarray:
    """(nq,) as the character stands; its root anywhere. It comes first in q."""
    q = neutral_q(model)
    own = model.topology.roles.standing
    q[: len(own)] = own
    return q


@partial(jax.jit, static_argnames="name")
def stand(model: Model, name: str = "standing") -> State:
    """Standing at rest, the lowest point on the ground. ModelError for another name."""
    if name != "standing":
        raise ModelError(f"no start named {name!r}; choose from standing")
    state, top = neutral_state(model), model.topology
    q = jnp.asarray(standing_q(model), state.q.dtype)
    if top.root_height is not None:
        low = lowest_point(model, forward_kinematics(model, q, state.qd))
        q = q.at[top.root_height].add(-low)
    return state.replace(q=q)


def standing_height(model: Model) -> float | Array:
    """() the height of the head's centre of mass from which on a body counts as standing [m].

    What the character declares, as 1.8 m of the planar human; else ``STANDS`` of the head's height
    over the soles in the standing pose, so that it goes with the size of the body. Raises
    ModelError where head or feet are not known.
    """
    top = model.topology
    top.require("the standing height", "head")
    if top.roles.stands_above is not None:
        return top.roles.stands_above
    top.require("the standing height", *FEET)
    kin, soles = standing_kinematics(model)
    height = STANDS * (kin.com[top.part("head"), 2] - soles)
    return height if isinstance(height, Tracer) else float(height)


@jax.jit
def standing_kinematics(model: Model) -> tuple[Kinematics, Array]:
    """The standing pose, wherever its root is, and the height () of the lowest effector [m]."""
    dtype = model.mass.dtype
    q = jnp.asarray(standing_q(model), dtype)
    kin = forward_kinematics(model, q, jnp.zeros(model.topology.nv, dtype))
    return kin, jnp.min(effectors_of(model).positions(kin)[:, 2])


def effectors_of(model: Model) -> Effectors:
    """Where a character may bear on its surroundings: its soles' corners, the ends of its hands.

    Works for a body of any size. Raises ModelError where feet are not known.
    """
    top = model.topology
    top.require("what bears on surroundings", *FEET)
    if not top.roles.points:
        name = top.roles.character or "this model"
        raise ModelError(f"{name} has no effectors; it is simulated forward only")
    return effectors(model, top.roles.points)
