"""Poses of limbs by rotations about axes of the body, as angles of the hinges that perform them."""

from collections.abc import Sequence

import numpy as np

from jaxsim.characters.standing import standing_kinematics, standing_q
from jaxsim.model import Model, ModelError

FORWARD, LEFT = np.eye(3)[:2]  # as the body stands
ALONG = 0.7  # cosine of the angle between a hinge and the axis that it stands for, at least


def hinge_angles(
    model: Model, turns: Sequence[tuple[str, np.ndarray, float]], who: str
) -> dict[str, float]:
    """Angles of hinges by name [deg], of the standing body with some links rotated.

    turns: a link by its role, the axis of the body (3,) about which a hinge is to rotate it, and
    the angle [deg]. who: name of the controller, for messages. Raises ModelError for unknown links,
    and for a link without such a hinge.
    """
    top = model.topology
    top.require(f"the pose of {who}", "pelvis", *(role for role, *_ in turns))
    q, (kin, _) = standing_q(model), standing_kinematics(model)
    ahead = np.asarray(kin.link_rot[top.part("pelvis")]) @ np.array(top.roles.forward)
    ahead = np.append(ahead[:2], 0.0) / np.linalg.norm(ahead[:2])
    body = np.stack([ahead, np.cross([0.0, 0.0, 1.0], ahead), [0.0, 0.0, 1.0]])
    axes = np.asarray(kin.axis)[:, :3] @ body.T  # (nv, 3)
    pose = {}
    for role, axis, angle in turns:
        hinges = [
            j
            for j, link in enumerate(top.joint_link)
            if link == top.part(role) and top.joint_kinds[j] == "hinge"
        ]
        along = {j: float(axes[top.v_start[j]] @ axis) for j in hinges}
        best = max(hinges, key=lambda j: abs(along[j]), default=None)
        if best is None or abs(along[best]) < ALONG:
            way = "to the side" if axis[0] else "forward or back"
            link = top.link_names[top.part(role)]
            raise ModelError(f"{who} needs a hinge that turns {link!r} ({role}) {way}")
        stands = float(np.rad2deg(q[top.q_start[best]]))
        pose[top.joint_names[best]] = stands + float(np.sign(along[best])) * angle
    return pose
