"""Additional effectors: links besides feet and hands that may support a character."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from jaxsim.characters.standing import standing_kinematics
from jaxsim.math.rotation import rotation_matrix
from jaxsim.model import Model, ModelError
from jaxsim.model.kinds import ShapeKind
from jaxsim.model.roles import FEET, HANDS, Point, Vector3


def bearing(model: Model, parts: Sequence[str]) -> Model:
    """Add two effectors on each given link: half ahead and half to the left or right.

    parts: roles or names of links; each is a group of effectors of its own. Directions are those of
    the standing body. Raises ModelError for a body without a pelvis or effectors, a foot or hand,
    and a part that the body lacks or that has no shape.
    """
    top = model.topology
    top.require("what bears besides feet and hands", "pelvis", *FEET)
    kin, _ = standing_kinematics(model)
    rot = np.asarray(kin.link_rot, float)
    forward = rot[top.part("pelvis")] @ top.roles.forward
    left = np.cross([0.0, 0.0, 1.0], forward)
    points: list[Point] = []
    for part in parts:
        try:
            link = top.part(part)
        except KeyError as error:
            raise ModelError(f"bears: {error.args[0]}") from None
        if link in {top.part(end) for end in (*FEET, *HANDS) if top.roles.link(end)}:
            raise ModelError(f"bears: {part!r} bears anyway; leave it out")
        own = [s for s, owner in enumerate(top.shape_link) if owner == link]
        if not own:
            raise ModelError(f"bears: {part!r} has no shape")
        shape, name = own[0], top.link_names[link]
        frame = rot[link] @ rotation_matrix(np.asarray(model.shape_quat[shape], float))
        size = np.asarray(model.shape_size[shape], float)
        for side, way in (("Left", left), ("Right", -left)):
            place = _place(top.shape_record(shape), size, frame.T @ forward, frame.T @ way)
            points.append((f"{name}{side}", name, top.shape_names[shape], place))
    return with_points(model, points)


def with_points(model: Model, points: Sequence[Point]) -> Model:
    """Model with more effectors, see ``Roles.points``."""
    top = model.topology
    roles = replace(top.roles, points=(*top.roles.points, *points))
    return model.replace(topology=replace(top, roles=roles))


def _place(kind: ShapeKind, size: np.ndarray, ahead: np.ndarray, aside: np.ndarray) -> Vector3:
    """Point between ahead and aside, in shares of the shape's half size as in ``effectors``."""
    x, y, z = (float(part) for part in np.clip(kind.between(size, ahead, aside), -1.0, 1.0))
    return x, y, z
