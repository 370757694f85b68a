"""PD gains for motors that a model file gives none: those of the human in space, by role.

They are scaled to the body so that they have the same effect (Hof 1996): torques with weight times
length, times with the root of length.
"""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np

from jaxsim.characters.anthropometry import ADULT, ANKLE_HEIGHT, segments
from jaxsim.characters.human import AXIAL, LIMBS, TURNS, Turn
from jaxsim.characters.standing import standing_kinematics
from jaxsim.model import Model
from jaxsim.model.roles import PAIRS, SIDES, THIGHS, side_role
from jaxsim.model.topology import WORLD

SPARE = 1.5  # with the human's own gains a body of other proportions may sink and topple
OF_PART: dict[str, Turn] = {  # that of a link's first hinge
    **{part: TURNS[hinges[0]] for part, (_, hinges) in AXIAL.items()},
    **{
        side_role(side, part): TURNS[LIMBS[part][1][0]] for part in PAIRS.values() for side in SIDES
    },
    "pelvis": TURNS[AXIAL["abdomen"][1][0]],  # where it is not the root
}


def with_default_gains(model: Model) -> tuple[Model, tuple[str, ...]]:
    """Add gains for motors that have none; returns the model and the names of these joints.

    A joint takes the gains of the role of the link that it moves, of a link without a role those of
    the next link above with one. A body without roles for thighs and feet is unchanged.
    """
    top = model.topology
    part_of = {}
    for role, link in reversed(top.roles.links):
        if role in OF_PART:
            part_of[top.link_names.index(link)] = role
    bare = (np.asarray(model.gain_p) == 0) & (np.asarray(model.gain_d) == 0)
    if not (top.roles.points and all(map(top.roles.link, THIGHS))):
        return model, ()
    heavier, longer = _size(model)
    gains, joints = (np.array(model.gain_p), np.array(model.gain_d)), []
    for dof in top.actuated_dofs:
        link = int(top.dof_link[dof])
        while link != WORLD and link not in part_of:
            link = top.link_parent[link]
        if bare[dof] and link != WORLD:
            turn = OF_PART[part_of[link]]
            gains[0][dof] = SPARE * turn.kp * heavier * longer
            gains[1][dof] = SPARE * turn.kd * heavier * longer**1.5
            joints.append(top.joint_names[top.dof_joint[dof]])
    gain_p, gain_d = (jnp.asarray(gain, model.mass.dtype) for gain in gains)
    return replace(model, gain_p=gain_p, gain_d=gain_d), tuple(dict.fromkeys(joints))


def _size(model: Model) -> tuple[float, float]:
    """Mass and length of the legs, relative to those of the adult human."""
    adult = segments(ADULT, ADULT.stature, ADULT.mass)
    legs = adult["thigh"].length + adult["shank"].length + ANKLE_HEIGHT * ADULT.stature
    kin, soles = standing_kinematics(model)
    hips = np.asarray(kin.link_pos)[model.topology.parts(THIGHS), 2].mean()
    return float(model.total_mass) / ADULT.mass, float(hips - soles) / legs
