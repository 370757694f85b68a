"""Contact slots of a model: its possible contact points, static, from its topology.

Slots are ordered by family (``collision.families``) and, within one, by the order of the shapes, so
neighbours in a slot list are mostly neighbours on the body.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from jaxsim.collision.families import FAMILIES, Row
from jaxsim.model.errors import ModelError
from jaxsim.model.topology import INDEX, Topology


@dataclass(frozen=True)
class Slots:
    """Index arrays of contact slots: of each family one row a pair, the rest one entry a slot.

    Either link may be -1, the world, but not both.
    """

    rows: dict[str, np.ndarray]  # by family (n, columns): first shape, ..., second shape
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
    of_family: dict[str, list[Row]] = {family.name: [] for family in FAMILIES}
    for a, b in top.shape_pairs:
        for name, rows in _rows(top, a, b).items():
            of_family[name] += rows
    for family in FAMILIES:
        if family.by_second:
            of_family[family.name].sort(key=lambda row: row[-1])
    arrays = {
        family.name: np.array(of_family[family.name], INDEX).reshape(-1, family.columns)
        for family in FAMILIES
    }
    shape_a, shape_b = (
        np.concatenate(
            [np.repeat(arrays[family.name][:, column], family.slots) for family in FAMILIES]
        ).astype(INDEX)
        for column in (0, -1)
    )
    link = np.array(top.shape_link, INDEX)
    return Slots(
        rows=arrays,
        shape_a=shape_a,
        shape_b=shape_b,
        link_a=link[shape_a] if link.size else shape_a,
        link_b=link[shape_b] if link.size else shape_b,
    )


def _rows(top: Topology, a: int, b: int) -> dict[str, list[Row]]:
    """Rows of one pair of shapes by family."""
    each = {family.name: family.rows(top, a, b) for family in FAMILIES}
    rows = {name: own for name, own in each.items() if own is not None}
    if not rows:
        raise ModelError(
            f"shapes {top.shape_names[a]!r} ({top.shape_kinds[a]}) and "
            f"{top.shape_names[b]!r} ({top.shape_kinds[b]}) "
            "cannot touch; balls come before boxes, both before planes and height fields, and the "
            "last two touch neither one another nor themselves"
        )
    return rows
