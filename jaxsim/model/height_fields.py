"""Static sizes of the windows of a height field in which shapes look for contacts."""

import math
from collections.abc import Sequence

from jaxsim.model.errors import ModelError
from jaxsim.model.kinds import KINDS
from jaxsim.model.shapes import Shape
from jaxsim.model.topology import FieldReach

MOST = 6  # cells or nodes to each side


def field_index(kinds: Sequence[str]) -> tuple[int, ...]:
    """(ns,) index of each height field among the height fields, -1 for other shapes."""
    fields = [i for i, kind in enumerate(kinds) if KINDS[kind].grid]
    return tuple(fields.index(i) if i in fields else -1 for i in range(len(kinds)))


def field_reaches(
    shapes: Sequence[Shape], pairs: Sequence[tuple[int, int]]
) -> tuple[FieldReach, ...]:
    """Window of each height field, from these sizes: a batch with larger shapes needs a larger one.

    Raises ModelError where a shape is so large relative to the cells that it would touch too many.
    """
    return tuple(
        _reach(field, [shapes[a] for a, b in pairs if b == index])
        for index, field in enumerate(shapes)
        if field.record.grid
    )


def _reach(field: Shape, touching: Sequence[Shape]) -> FieldReach:
    nx, ny = len(field.heights), len(field.heights[0])
    cell = min(2 * field.size[0] / (nx - 1), 2 * field.size[1] / (ny - 1))
    ball, side, box, edge = 0.0, 0.0, 0.0, 0.0
    for shape in touching:
        kind = shape.record
        if kind.ends:
            radius = max(shape.size[:2])
            needed = radius + (shape.size[2] / 2 if kind.ends == 2 else 0.0)
            ball, side = max(ball, radius), max(side, needed)
        else:
            needed = kind.bound(shape.size)
            box, edge = max(box, needed), max(edge, 2 * max(shape.size))
        if needed > (MOST - 0.5) * cell:
            raise ModelError(
                f"shape {shape.name!r} is too large for the cells of {field.name!r}, which are "
                f"{cell:.3g} m wide; make them at least {needed / (MOST - 0.5):.3g} m wide, or the "
                "shape smaller"
            )
    return FieldReach(
        ball=math.ceil(ball / cell + 0.5),
        side=math.ceil(side / cell + 0.5),
        box=math.floor(box / cell + 0.5),
        box_lines=math.floor(math.sqrt(2) * edge / cell) + 1,
    )
