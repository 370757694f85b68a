"""Poses of any character from angles by joint name."""

from collections.abc import Mapping

import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.math.rotation import quat_exp
from jaxsim.model import Model, State, neutral_state
from jaxsim.model.joints import Q_SIZE
from jaxsim.model.roles import SIDES, side_role

MIRROR = np.array([-1.0, 1.0, -1.0])  # of a rotation, in the x-z plane


def without_side(name: str) -> str:
    """Name without its side: "leftKnee" -> "knee"; names of the middle are unchanged."""
    for side in SIDES:
        rest = name.removeprefix(side)
        if rest and rest != name and rest[0].isupper():
            return rest[0].lower() + rest[1:]
    return name


def posed(model: Model, degrees: Mapping[str, float | Array | tuple]) -> State:
    """State at rest from joint angles in degrees by joint name.

    A name without its side ("knee", also "knees") sets both joints. Hinges take a number; balls
    (3,), the rotation vector from the parent's axes, which is mirrored on the right if the name has
    no side. Raises KeyError for a name that is neither, or a joint that is no hinge or ball.
    """
    top = model.topology
    state = neutral_state(model)
    q = state.q
    for name, angle in degrees.items():
        both = name not in top.joint_names
        names = [side_role(side, name.removesuffix("s")) for side in SIDES] if both else [name]
        for joint, sign in zip(names, (np.ones(3), MIRROR)):
            index = top.joint(joint)
            start, kind = top.q_start[index], top.joint_kinds[index]
            if kind == "ball":
                turn = quat_exp(jnp.deg2rad(jnp.asarray(angle, q.dtype)) * sign.astype(q.dtype))
                q = q.at[start : start + 4].set(turn)
            elif Q_SIZE[kind] == 1:
                q = q.at[start].set(jnp.deg2rad(jnp.asarray(angle, q.dtype)))
            else:
                raise KeyError(f"joint {joint!r} is {kind}; only hinges and balls take angles")
    return state.replace(q=q)
