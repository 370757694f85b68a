"""Bodies that several benchmarks share."""

import numpy as np

from jaxsim.model import Model, ModelBuilder, ball, free, hinge


def body_of_37() -> Model:
    """A torso that flies free, spine, head, two arms and two legs with toes: 37 freedoms."""
    builder = ModelBuilder((0, 0, -9.81))
    inertia = 0.02 * np.eye(3)

    def link(name, above, pos, *joints):
        builder.add_link(
            name, above, pos=pos, mass=3.0, com=(0, 0, -0.1), inertia=inertia, joints=list(joints)
        )

    link("pelvis", "world", (0, 0, 0), free("root"))
    link("chest", "pelvis", (0, 0, 0.2), ball("spine"))
    link("head", "chest", (0, 0, 0.3), ball("neck"))
    for side, y in (("left", 0.15), ("right", -0.15)):
        link(f"{side}_arm", "chest", (0, y, 0.2), ball(f"{side}_shoulder"))
        link(f"{side}_forearm", f"{side}_arm", (0, 0, -0.3), hinge(f"{side}_elbow", (0, 1, 0)))
        wrist = [hinge(f"{side}_wrist{k}", axis) for k, axis in enumerate(np.eye(3)[:2])]
        link(f"{side}_hand", f"{side}_forearm", (0, 0, -0.25), *wrist)
        link(f"{side}_thigh", "pelvis", (0, y, 0), ball(f"{side}_hip"))
        link(f"{side}_shank", f"{side}_thigh", (0, 0, -0.4), hinge(f"{side}_knee", (0, 1, 0)))
        ankle = [hinge(f"{side}_ankle{k}", axis) for k, axis in enumerate(np.eye(3)[:2])]
        link(f"{side}_foot", f"{side}_shank", (0, 0, -0.4), *ankle)
    link("toes", "left_foot", (0.15, 0, 0), hinge("toe", (0, 1, 0)))
    return builder.build()
