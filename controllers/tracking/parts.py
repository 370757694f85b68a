"""Links and joints of a body that balance on its feet needs, found once from its roles."""

import dataclasses
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.characters.standing import effectors_of, standing_kinematics
from jaxsim.dynamics.jacobians import center_of_mass
from jaxsim.dynamics.kinematics import Kinematics, point_velocity
from jaxsim.math.rotation import rotate
from jaxsim.model import Model, ModelError
from jaxsim.model.roles import FEET, SIDES, side_role
from jaxsim.model.topology import WORLD


def _static() -> Any:
    return dataclasses.field(metadata={"static": True})


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Parts:
    """Links, joints and dofs of balance, left before right.

    Masks are tuples of 0 and 1, so that they are part of the program.
    """

    sole: Array  # (2, 3) its middle, in the foot's frame [m]
    # (2, 2, 2) how far the sole reaches from the ankle, in the foot's frame: by foot, x and y,
    # least and most [m]
    reach: Array
    feet: tuple[int, ...] = _static()  # links
    ankles: tuple[int, ...] = _static()  # their last joints
    pelvis: int = _static()
    trunk: int = _static()  # the chest, whose orientation is kept
    arms: tuple[bool, ...] = _static()  # (nv,)
    ankle_dofs: tuple[tuple[bool, ...], ...] = (
        _static()
    )  # (2, nv) of the feet and what hangs on them
    leg_dofs: tuple[tuple[bool, ...], ...] = _static()  # (2, nv) from the hips down
    inner: tuple[bool, ...] = _static()  # (nv,) of the character, neither of its root nor driven
    own: tuple[bool, ...] = _static()  # (nl,) links of the character
    foot_links: tuple[tuple[bool, ...], ...] = _static()  # (2, nl) the foot and what hangs on it

    def mask(self, name: str) -> np.ndarray:
        """Field of masks as an array of bool."""
        return np.array(getattr(self, name), bool)

    def alone(self, model: Model) -> Model:
        """Model with the mass of the character's links only: for its own momentum."""
        own = self.mask("own")
        if own.all():
            return model
        inertia = jnp.where(own[:, None, None], model.inertia, 0.0)
        return model.replace(mass=jnp.where(own, model.mass, 0.0), inertia=inertia)

    def of_size(self, model: Model) -> "Parts":
        """Parts of the same body with other sizes, whose model may be traced."""
        sole, reach = _soles(model, self.feet, self.ankles)
        return dataclasses.replace(self, sole=sole, reach=reach)

    def ankle(self, kin: Kinematics) -> Array:
        """Ankle positions (2, 3) [m]."""
        return kin.joint_anchor[np.array(self.ankles)]

    def soles(self, kin: Kinematics) -> Array:
        """Middle (2, 3) of each sole [m]."""
        feet = np.array(self.feet)
        return kin.link_pos[feet] + rotate(kin.link_rot[feet], self.sole)

    def sole_velocity(self, kin: Kinematics) -> Array:
        """Velocity (2, 3) of the middle of each sole [m/s]."""
        return point_velocity(kin, np.array(self.feet), self.soles(kin))


def parts(model: Model) -> Parts:
    """Parts of a character with roles.

    Raises ModelError where a required role is missing, where a foot has no ankle, and where the
    model is planar.
    """
    top = model.topology
    top.require("balance on the feet", "pelvis", "chest", "leftThigh", "rightThigh", *FEET)
    if top.planar:
        raise ModelError("balance on the feet needs a character in space, this one is planar")
    points = effectors_of(model)
    feet = tuple(top.part(foot) for foot in FEET)
    ankles, joint_links = [], np.array(top.dof_link)
    for foot, link in zip(FEET, feet):
        if top.link_parent[link] == WORLD or link not in joint_links:
            raise ModelError(
                f"{foot} has no joint of its own: there is no ankle to balance with; give it one,"
                " or name as the foot the link that the ankle turns"
            )
        ankles.append(top.link_joint[link])
        if not (points.of(foot) & (np.array(points.links) == link)).any():
            raise ModelError(f"{foot} has no sole: none of its shapes has a flat or lowest side")

    def hanging(link: int) -> np.ndarray:
        """Mask (nl,) of a link and all that hang on it."""
        return (top.link_dofs & top.link_dofs[link]).sum(axis=1) == top.link_dofs[link].sum()

    def below(link: int) -> np.ndarray:
        """Mask (nv,) of the dofs of a link and all that hang on it."""
        return hanging(link)[joint_links]

    character_links = np.array(top.link_root) == top.link_root[top.part("pelvis")]
    free = np.isin(np.array(top.dof_joint), top.joints_of("free"))
    inner = ~free & character_links[joint_links]
    inner[top.driven_dofs] = False
    arms = np.zeros(top.nv, bool)
    for side in SIDES:
        if top.roles.link(side_role(side, "upperArm")) is not None:
            arms |= below(top.part(side_role(side, "upperArm")))
    sole, reach = _soles(model, feet, tuple(ankles))
    return Parts(
        feet=feet,
        ankles=tuple(ankles),
        pelvis=top.part("pelvis"),
        trunk=top.part("chest"),
        arms=tuple(arms.tolist()),
        ankle_dofs=tuple(tuple(below(foot).tolist()) for foot in feet),
        leg_dofs=tuple(tuple(below(top.part(side_role(s, "thigh"))).tolist()) for s in SIDES),
        inner=tuple(inner.tolist()),
        own=tuple(character_links.tolist()),
        foot_links=tuple(tuple(hanging(foot).tolist()) for foot in feet),
        sole=sole,
        reach=reach,
    )


@partial(jax.jit, static_argnums=(1, 2))
def _soles(model: Model, feet: tuple[int, ...], ankles: tuple[int, ...]) -> tuple[Array, Array]:
    """``Parts.sole`` and ``Parts.reach``."""
    points = effectors_of(model)
    soles, reach = [], []
    for foot, link, ankle in zip(FEET, feet, ankles):
        own = points.of(foot) & (np.array(points.links) == link)
        corners = points.point[np.flatnonzero(own)]
        soles.append((corners.min(axis=0) + corners.max(axis=0)) / 2)
        at = corners - model.joint_anchor[ankle]
        reach.append(jnp.stack([at[:, :2].min(axis=0), at[:, :2].max(axis=0)], axis=1))
    return jnp.stack(soles), jnp.stack(reach)


@jax.jit
def com_height(model: Model) -> Array:
    """Height () of the centre of mass over the soles of the standing body [m]."""
    kin, ground = standing_kinematics(model)
    return center_of_mass(model, kin)[2] - ground
