"""Scenes that the tests of several readers and writers share."""

import numpy as np

from jaxsim.model import ModelBuilder, ball, box, capsule, free, hinge, plane, slide, sphere


def every_kind() -> ModelBuilder:
    """Two trees with every kind of joint and shape, declared breadth first."""
    b = ModelBuilder(gravity=(0.1, -0.2, -9.0))
    inertia = [[3, 0.1, 0.2], [0.1, 2, 0.3], [0.2, 0.3, 4]]
    body = dict(mass=1.5, com=(0.1, 0.2, 0.3), inertia=inertia)
    turned = (np.sqrt(0.5), 0.0, np.sqrt(0.5), 0.0)
    b.add_link("base", "world", joints=[free("float", damping=0.1)], **body)
    b.add_link("other", "world", pos=(3, 0, 0), **body)
    above = dict(pos=(0, 0, 1), quat=turned)
    b.add_link("arm", "base", **above, joints=[ball("ball", armature=0.2, limits=(0, 1.5))], **body)
    b.add_link("leg", "base", joints=[slide("in", (1, 1, 0)), hinge("turn", (0, 0, 2))], **body)
    options = dict(anchor=(0.3, 0, 0), limits=(-1, 2), damping=0.5, kp=9, kd=2, max_torque=7)
    b.add_link("hand", "arm", joints=[hinge("wrist", (0, 1, 0), **options)], **body)
    b.add_shape("world", plane(name="floor", quat=turned, friction=0.5))
    b.add_shape("world", box((1, 2, 3), pos=(0, 0, 9), quat=turned, name="wall"))
    b.add_shape("base", sphere(0.5, pos=(0.1, 0, 0), name="ball", friction=0.9))
    b.add_shape("arm", capsule(0.1, 0.4, pos=(0, 0.2, 0), quat=turned, name="rod"))
    b.add_shape("hand", box((0.1, 0.2, 0.3), name="block", friction=0.4))
    b.add_pair("ball", "block")
    return b
