"""Families of contact slots: pairs of kinds of shapes with one contact routine.

A sphere or capsule touches a plane or a box by its end balls, a capsule also by one point of its
side against a box; a box touches a plane by its corners. Balls and capsules touch one another by
their nearest balls, two capsules at two points. On a height field an end ball may rest on two
triangles; half of a capsule's side and a box touch it where the field protrudes.

A new kind of shape adds its pairs to ``FAMILIES``, which lists the families in the order of their
slots.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.collision import box_box as of_boxes
from jaxsim.collision import box_field as of_fields
from jaxsim.collision.box_box import FAR, box_box
from jaxsim.collision.box_field import box_field
from jaxsim.collision.height_field import Field, ball_field, side_field
from jaxsim.collision.pairs import ball_box, ball_plane, box_plane, side_box
from jaxsim.collision.round_cones import nearest_balls, side_side
from jaxsim.math.products import matmul
from jaxsim.model.model import Model
from jaxsim.model.topology import FieldReach, Topology

FACE_CORNERS = 4
Touch = tuple[Array, Array, Array]
"""Points (k, 3), normals (k, 3), gaps (k,) of contacts."""
Row = tuple[int, ...]


@dataclass(frozen=True)
class Scene:
    """Shapes of a model in the world."""

    model: Model
    pos: Array  # (ns, 3) [m]
    rot: Array  # (ns, 3, 3)

    @property
    def size(self) -> Array:
        """(ns, 3) sizes [m]."""
        return self.model.shape_size

    @cached_property
    def ends(self) -> Array:
        """(ns, 2, 3) centres of the end balls of every shape, see ``ball_centers``."""
        return ball_centers(self.pos, self.rot, self.size)

    @cached_property
    def radii(self) -> Array:
        """(ns, 2) radii of the end balls of every shape (of a sphere twice its radius) [m]."""
        top, size = self.model.topology, self.size
        single = np.array([top.shape_record(s).ends == 1 for s in range(len(top.shape_kinds))])
        return jnp.stack([size[:, 0], jnp.where(single, size[:, 0], size[:, 1])], axis=1)


def ball_centers(pos: Array, rot: Array, size: Array) -> Array:
    """(ns, 2, 3) centres of the end balls of every shape (of a sphere twice its centre)."""
    half = size[:, 2:] * rot[:, :, 0]
    return jnp.stack([pos + half, pos - half], axis=1)


@dataclass(frozen=True)
class Family:
    """Contact slots of the pairs of two kinds of shapes, and the routine that fills them.

    ``rows`` gives the index rows of a pair of shapes (a, b), of ``columns`` numbers from a to b, or
    None where the pair is not of the family. ``touch`` fills the slots of some rows.

    ``ahead(a, b, end)`` is the contact of one pair of moving shapes, for ``collision.ahead``; None:
    the plane of the step's beginning stays. ``empty(a, b)`` is the contact where a slot is empty
    since another family has it.
    """

    name: str
    columns: int
    slots: int  # contact slots of a row
    rows: Callable[[Topology, int, int], list[Row] | None]
    touch: Callable[[Scene, np.ndarray], Touch | list[Touch]]
    ahead: Callable[[Any, Any, Array], Touch] | None = None
    empty: Callable[[Any, Any], Touch] | None = None
    by_second: bool = False  # rows in the order of the second shape


# ---- which pairs


def _ends_on(kind: str) -> Callable[[Topology, int, int], list[Row] | None]:
    """Rows (shape, end, other) of the end balls on a kind of shape."""

    def rows(top: Topology, a: int, b: int) -> list[Row] | None:
        if not top.shape_record(a).ends or top.shape_kinds[b] != kind:
            return None
        return [(a, end, b) for end in top.ends_of(a)]

    return rows


def pair_of(first: str, second: str) -> Callable[[Topology, int, int], list[Row] | None]:
    """Row of two kinds of shapes."""

    def rows(top: Topology, a: int, b: int) -> list[Row] | None:
        return [(a, b)] if (top.shape_kinds[a], top.shape_kinds[b]) == (first, second) else None

    return rows


def _side_box_rows(top: Topology, a: int, b: int) -> list[Row] | None:
    """Row of a shape with a side, and a box."""
    sides = top.shape_record(a).ends == 2 and top.shape_kinds[b] == "box"
    return [(a, b)] if sides else None


def _side_field_rows(top: Topology, a: int, b: int) -> list[Row] | None:
    """Rows (shape, half of its side, field)."""
    sides = top.shape_record(a).ends == 2 and top.shape_record(b).grid
    return [(a, half, b) for half in (0, 1)] if sides else None


def _ball_ball_rows(top: Topology, a: int, b: int) -> list[Row] | None:
    """Row of two shapes with end balls, one of them a single ball."""
    ends = top.shape_record(a).ends, top.shape_record(b).ends
    return [(a, b)] if min(ends) == 1 else None


def _side_side_rows(top: Topology, a: int, b: int) -> list[Row] | None:
    """Row of two shapes with sides."""
    return [(a, b)] if top.shape_record(a).ends == top.shape_record(b).ends == 2 else None


# ---- contacts of all pairs of a family


def _ball_plane(scene: Scene, rows: np.ndarray) -> Touch:
    s, e, b = rows.T
    return jax.vmap(ball_plane)(scene.ends[s, e], scene.size[s, e], scene.pos[b], scene.rot[b])


def _ball_box(scene: Scene, rows: np.ndarray) -> Touch:
    s, e, b = rows.T
    size = scene.size
    return jax.vmap(ball_box)(scene.ends[s, e], size[s, e], scene.pos[b], scene.rot[b], size[b])


def _side_box(scene: Scene, rows: np.ndarray) -> Touch:
    s, b = rows.T
    size = scene.size
    point, normal, gap, counts = jax.vmap(side_box)(
        scene.ends[s], size[s, :2], scene.pos[b], scene.rot[b], size[b]
    )
    return point, normal, jnp.where(counts, gap, FAR)


def _box_plane(scene: Scene, rows: np.ndarray) -> Touch:
    s, b = rows.T
    pos, rot = scene.pos, scene.rot
    return in_one_row(jax.vmap(box_plane)(pos[s], rot[s], scene.size[s], pos[b], rot[b]))


def _box_box(scene: Scene, rows: np.ndarray) -> Touch:
    s, b = rows.T
    pos, rot, size = scene.pos, scene.rot, scene.size
    return in_one_row(jax.vmap(box_box)(pos[s], rot[s], size[s], pos[b], rot[b], size[b]))


def _ball_ball(scene: Scene, rows: np.ndarray) -> Touch:
    a, b = rows.T
    ends, radii = scene.ends, scene.radii
    return jax.vmap(nearest_balls)(ends[a], radii[a], ends[b], radii[b])


def _side_side(scene: Scene, rows: np.ndarray) -> Touch:
    a, b = rows.T
    ends, radii = scene.ends, scene.radii
    return in_one_row(jax.vmap(side_side)(ends[a], radii[a], ends[b], radii[b]))


# ---- contacts with height fields


def _of_fields(touch: Callable) -> Callable[[Scene, np.ndarray], list[Touch]]:
    """Contacts of all fields, from ``touch(scene, rows, shape, field, reach)`` in the frame of one.

    Fields and their shapes are mapped one by one, so that the kernel contains the large routine
    once.
    """

    def of_all(scene: Scene, rows: np.ndarray) -> list[Touch]:
        top, touches = scene.model.topology, []
        for shape in dict.fromkeys(rows[:, -1].tolist()):
            number = top.shape_field[shape]
            field = Field(scene.model.heights[number], scene.size[shape, :2])
            mine = rows[rows[:, -1] == shape]
            pos, rot = scene.pos[shape], scene.rot[shape]
            point, normal, gap = touch(scene, mine, shape, field, top.field_reach[number])
            point, normal = (matmul(x, rot.T) for x in (point, normal))
            touches.append((pos + point, normal, gap))
        return touches

    return of_all


def _ball_field(scene: Scene, rows: np.ndarray, shape: int, field: Field, reach: FieldReach):
    s, e = rows[:, 0], rows[:, 1]
    ends = matmul(scene.ends - scene.pos[shape], scene.rot[shape])
    find = partial(ball_field, field=field, reach=reach.ball)
    return in_one_row(_one_by_one(find, ends[s, e], scene.size[s, e]))


def _side_field(scene: Scene, rows: np.ndarray, shape: int, field: Field, reach: FieldReach):
    s, half = rows[:, 0], jnp.asarray(rows[:, 1], scene.size.dtype)
    ends = matmul(scene.ends - scene.pos[shape], scene.rot[shape])
    find = partial(side_field, field=field, reach=reach)
    point, normal, gap, counts = _one_by_one(find, ends[s], scene.size[s, :2], half)
    return point, normal, jnp.where(counts, gap, FAR)


def _box_field(scene: Scene, rows: np.ndarray, shape: int, field: Field, reach: FieldReach):
    s, pos, rot = rows[:, 0], scene.pos, scene.rot
    place = matmul(pos[s] - pos[shape], rot[shape])
    turn = matmul(rot[shape].T, rot[s])
    find = partial(box_field, field=field, reach=reach)
    return in_one_row(_one_by_one(find, place, turn, scene.size[s]))


def _one_by_one(find: Callable, *arrays: Array) -> tuple[Array, ...]:
    """Map ``find(*rows)`` over the rows of the arrays sequentially."""
    return jax.lax.map(lambda rows: find(*rows), arrays)


def in_one_row(each: tuple[Array, ...]) -> Touch:
    """Flatten (pairs, slots, ...) to (pairs slots, ...)."""
    point, normal, gap = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), each)
    return point, normal, gap


# ---- contacts of one pair that moves, for ``collision.ahead``; a and b are its ``Moving``


def _ball_box_ahead(a, b, end: Array) -> Touch:
    center = a.pos + (1 - 2 * end) * a.size[2] * a.rot[:, 0]
    radius = jnp.where(end > 0, a.size[1], a.size[0])
    return _one(ball_box(center, radius, b.pos, b.rot, b.size))


def _side_box_ahead(a, b, end: Array) -> Touch:
    """Contact of a capsule's side with a box; where an end is nearer, that of the end."""
    *side, counts = side_box(a.ends(), a.size[:2], b.pos, b.rot, b.size)
    return jax.tree.map(partial(jnp.where, counts), _one(side), _nearest_end(a, b))


def _nearest_end(a, b) -> Touch:
    """Contact of the end of a capsule that is nearer to a box."""
    first, second = _ball_box_ahead(a, b, jnp.zeros(())), _ball_box_ahead(a, b, jnp.ones(()))
    return jax.tree.map(partial(jnp.where, first[2][0] <= second[2][0]), first, second)


def _box_box_ahead(a, b, end: Array) -> Touch:
    return box_box(a.pos, a.rot, a.size, b.pos, b.rot, b.size)


def _ball_ball_ahead(a, b, end: Array) -> Touch:
    return _one(nearest_balls(a.ends(), _radii(a), b.ends(), _radii(b)))


def _side_side_ahead(a, b, end: Array) -> Touch:
    return side_side(a.ends(), _radii(a), b.ends(), _radii(b))


def _radii(a) -> Array:
    """(2,) radii of the end balls; of a sphere, whose second size is 0, twice its radius."""
    return jnp.stack([a.size[0], jnp.where(a.size[1] > 0, a.size[1], a.size[0])])


def _one(touch) -> Touch:
    point, normal, gap = touch
    return point[None], normal[None], gap[None]


FAMILIES = [
    Family("ball_plane", 3, 1, _ends_on("plane"), _ball_plane),
    Family("ball_box", 3, 1, _ends_on("box"), _ball_box, _ball_box_ahead),
    Family("side_box", 2, 1, _side_box_rows, _side_box, _side_box_ahead, _nearest_end),
    Family("box_plane", 2, FACE_CORNERS, pair_of("box", "plane"), _box_plane),
    Family("box_box", 2, of_boxes.SLOTS, pair_of("box", "box"), _box_box, _box_box_ahead),
    Family("ball_ball", 2, 1, _ball_ball_rows, _ball_ball, _ball_ball_ahead),
    Family("side_side", 2, 2, _side_side_rows, _side_side, _side_side_ahead),
    Family("ball_field", 3, 2, _ends_on("height_field"), _of_fields(_ball_field), by_second=True),
    Family("side_field", 3, 1, _side_field_rows, _of_fields(_side_field), by_second=True),
    Family(
        "box_field",
        2,
        of_fields.SLOTS,
        pair_of("box", "height_field"),
        _of_fields(_box_field),
        by_second=True,
    ),
]
