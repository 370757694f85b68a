"""Joint declarations. A link moves relative to its parent by its joints, in their order.

Positions in q, velocities in v: fixed 0/0, hinge 1/1 [rad], slide 1/1 [m], ball 4/3 (quaternion
parent -> link; angular velocity in the link's frame), free 7/6 (position and quaternion; linear
velocity in the world's frame, angular in the link's frame). MuJoCo uses the same coordinates.
"""

from dataclasses import dataclass

import numpy as np

from jaxsim.model.drives import Drive

Q_SIZE = {"fixed": 0, "hinge": 1, "slide": 1, "ball": 4, "free": 7}
V_SIZE = {"fixed": 0, "hinge": 1, "slide": 1, "ball": 3, "free": 6}


@dataclass(frozen=True)
class Joint:
    """Joint of a link; build it with :func:`hinge`, :func:`slide`, ...

    axis: (3,) unit vector in the link's frame at the zero pose; anchor: (3,) point of the link's
    frame through which the axis passes [m]; limits: (lower, upper) [rad or m] or None, of a ball
    joint (0, greatest angle from the zero pose); damping [N m s/rad or N s/m], armature [kg m^2 or
    kg], kp, kd: gains of the joint's PD controller; max_torque [N m or N], None for an unactuated
    joint; drive: prescribed motion of a hinge or slide, independent of forces.
    """

    name: str
    kind: str
    axis: tuple[float, float, float] = (0.0, 0.0, 1.0)
    anchor: tuple[float, float, float] = (0.0, 0.0, 0.0)
    limits: tuple[float, float] | None = None
    damping: float = 0.0
    armature: float = 0.0
    kp: float = 0.0
    kd: float = 0.0
    max_torque: float | None = None
    drive: Drive | None = None


def hinge(name: str, axis, **options) -> Joint:
    """Make a hinge: rotation [rad] about ``axis`` through ``anchor``."""
    return Joint(name, "hinge", tuple(np.asarray(axis, float).tolist()), **options)


def slide(name: str, axis, **options) -> Joint:
    """Make a slide: translation [m] along ``axis``."""
    return Joint(name, "slide", tuple(np.asarray(axis, float).tolist()), **options)


def ball(name: str, **options) -> Joint:
    """Make a ball joint: rotation about ``anchor`` in all three directions."""
    return Joint(name, "ball", **options)


def free(name: str, **options) -> Joint:
    """Make a free joint: all six motions of a link whose parent is the world."""
    return Joint(name, "free", **options)


def fixed(name: str) -> Joint:
    """Make a fixed joint, without motion; a link without joints gets one."""
    return Joint(name, "fixed")
