"""Contact slots of a model: its possible contact points, static, from its topology.

A sphere or capsule touches a plane or a box by its end balls, a capsule also by one point of its
side against a box; a box touches a plane by its corners. Balls and capsules touch one another by
their nearest balls, two capsules at two points. On a height field an end ball may rest on two
triangles; half of a capsule's side and a box touch it where the field protrudes. Slots are ordered
by family and, within one, by the order of the shapes, so neighbours in a slot list are mostly
neighbours on the body.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from jaxsim.collision.box_box import SLOTS as BOX_BOX_SLOTS
from jaxsim.collision.box_field import SLOTS as BOX_FIELD_SLOTS
from jaxsim.model.errors import ModelError
from jaxsim.model.shapes import BALL_KINDS
from jaxsim.model.topology import INDEX, Topology

FACE_CORNERS = 4
FAMILIES = {  # name -> index columns and contact slots of a row, in the order of the slots
    "ball_plane": (3, 1),
    "ball_box": (3, 1),
    "side_box": (2, 1),
    "box_plane": (2, FACE_CORNERS),
    "box_box": (2, BOX_BOX_SLOTS),
    "ball_ball": (2, 1),
    "side_side": (2, 2),
    "ball_field": (3, 2),
    "side_field": (3, 1),
    "box_field": (2, BOX_FIELD_SLOTS),
}


@dataclass(frozen=True)
class Slots:
    """Index arrays of contact slots, one row a pair; the last four have one entry a slot.

    Either link may be -1, the world, but not both.
    """

    ball_plane: np.ndarray  # (n, 3) shape, end, plane
    ball_box: np.ndarray  # (n, 3) shape, end, box
    side_box: np.ndarray  # (n, 2) capsule, box
    box_plane: np.ndarray  # (n, 2) box, plane: 4 slots each
    box_box: np.ndarray  # (n, 2) box, box: 13 slots each
    ball_ball: np.ndarray  # (n, 2) two shapes with balls, one of them a sphere
    side_side: np.ndarray  # (n, 2) two capsules: 2 slots each
    ball_field: np.ndarray  # (n, 3) shape, end, height field: 2 slots each
    side_field: np.ndarray  # (n, 3) capsule, half, height field
    box_field: np.ndarray  # (n, 2) box, height field: 24 slots each
    shape_a: np.ndarray  # (nc,)
    shape_b: np.ndarray  # (nc,)
    link_a: np.ndarray  # (nc,)
    link_b: np.ndarray  # (nc,)

    @property
    def count(self) -> int:
        return len(self.shape_a)


@lru_cache(maxsize=64)
def contact_slots(top: Topology) -> Slots:
    """Contact slots of a model. Raises ModelError for a pair of kinds without a routine."""
    families: dict[str, list[tuple[int, ...]]] = {name: [] for name in FAMILIES}
    for a, b in top.shape_pairs:
        for name, row in _rows(top, a, b):
            families[name].append(row)
    for name in ("ball_field", "side_field", "box_field"):  # one field after the other
        families[name].sort(key=lambda row: row[-1])
    arrays = {
        name: np.array(rows, INDEX).reshape(-1, FAMILIES[name][0])
        for name, rows in families.items()
    }
    shape_a, shape_b = (
        np.concatenate(
            [np.repeat(rows[:, column], FAMILIES[name][1]) for name, rows in arrays.items()]
        ).astype(INDEX)
        for column in (0, -1)
    )
    link = np.array(top.shape_link, INDEX)
    return Slots(
        **arrays,
        shape_a=shape_a,
        shape_b=shape_b,
        link_a=link[shape_a] if link.size else shape_a,
        link_b=link[shape_b] if link.size else shape_b,
    )


def _rows(top: Topology, a: int, b: int) -> list[tuple[str, tuple[int, ...]]]:
    """Rows of one pair of shapes and their families."""
    kinds = kind_a, kind_b = top.shape_kinds[a], top.shape_kinds[b]
    surface = {"plane": "plane", "box": "box", "height_field": "field"}.get(kind_b)
    if kind_a == "box" and surface:
        return [(f"box_{surface}", (a, b))]
    if kind_a in BALL_KINDS and kind_b in BALL_KINDS:
        return [("ball_ball" if "sphere" in kinds else "side_side", (a, b))]
    if kind_a not in BALL_KINDS or not surface:
        raise ModelError(
            f"shapes {top.shape_names[a]!r} ({kind_a}) and {top.shape_names[b]!r} ({kind_b}) "
            "cannot touch; balls come before boxes, both before planes and height fields, and the "
            "last two touch neither one another nor themselves"
        )
    rows: list[tuple[str, tuple[int, ...]]] = []
    rows += [(f"ball_{surface}", (a, end, b)) for end in top.ends_of(a)]
    if kind_a != "sphere" and surface == "box":
        rows.append(("side_box", (a, b)))
    if kind_a != "sphere" and surface == "field":
        rows += [("side_field", (a, half, b)) for half in (0, 1)]
    return rows
