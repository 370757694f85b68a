"""Which contact points a model can have: decided once from its topology, all static.

A sphere or capsule touches a plane or a box by its end balls, a capsule also by one point of its
side against a box; a box touches a plane by its corners. Slots are ordered by family and, within
one, by the order of the shapes, so neighbours in a slot list are mostly neighbours on the body.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from jaxsim.collision.box_box import SLOTS as BOX_BOX_SLOTS
from jaxsim.model.errors import ModelError
from jaxsim.model.shapes import BALL_KINDS
from jaxsim.model.topology import INDEX, Topology

BOX_CORNERS = 8


@dataclass(frozen=True)
class Slots:
    """Index arrays, one row a pair; the last four have one entry a contact slot."""

    ball_plane: np.ndarray  # (n, 3) shape, end, plane
    ball_box: np.ndarray  # (n, 3) shape, end, box
    side_box: np.ndarray  # (n, 2) capsule, box
    box_plane: np.ndarray  # (n, 2) box, plane: 8 slots each
    box_box: np.ndarray  # (n, 2) box, box: 13 slots each
    shape_a: np.ndarray  # (nc,)
    shape_b: np.ndarray  # (nc,)
    link_a: np.ndarray  # (nc,)
    link_b: np.ndarray  # (nc,) -1 for the world

    @property
    def count(self) -> int:
        return len(self.shape_a)


@lru_cache(maxsize=64)
def contact_slots(top: Topology) -> Slots:
    """The contact slots of a model. Raises ModelError for a pair of kinds without a routine."""
    families: dict[str, list[tuple[int, ...]]] = {
        name: [] for name in ("ball_plane", "ball_box", "side_box", "box_plane", "box_box")
    }
    for a, b in top.shape_pairs:
        kind_a, kind_b = top.shape_kinds[a], top.shape_kinds[b]
        if kind_b not in ("plane", "box") or kind_a not in (*BALL_KINDS, "box"):
            raise ModelError(
                f"shapes {top.shape_names[a]!r} ({kind_a}) and {top.shape_names[b]!r} ({kind_b}) "
                "cannot touch yet; the second must be a plane or a box"
            )
        if kind_a == "box":
            families["box_plane" if kind_b == "plane" else "box_box"].append((a, b))
            continue
        ball = "ball_plane" if kind_b == "plane" else "ball_box"
        families[ball] += [(a, end, b) for end in top.ends_of(a)]
        if kind_b == "box" and kind_a != "sphere":
            families["side_box"].append((a, b))
    width = {"ball_plane": 3, "ball_box": 3}
    arrays = {
        name: np.array(rows, INDEX).reshape(-1, width.get(name, 2))
        for name, rows in families.items()
    }
    repeat = {"box_plane": BOX_CORNERS, "box_box": BOX_BOX_SLOTS}
    shape_a, shape_b = (
        np.concatenate(
            [np.repeat(rows[:, column], repeat.get(name, 1)) for name, rows in arrays.items()]
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
