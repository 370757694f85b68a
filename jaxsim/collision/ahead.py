"""Contact planes that hold for the whole of a step (continuous collision detection).

A step bounds the motion along a contact's normal by its gap, so the shapes must not cross a plane.
The plane between the nearest points at the step's beginning is wrong where the motion goes past: a
ball that flies beside an edge would be deflected without a touch. The plane taken here is the one
between the nearest points where the motion first touches, or where it has gone by.

Two convex shapes that move on straight lines have a distance that is a convex function of time. So
Newton's method from the beginning never passes the first touch, and there is no touch where the
slope turns positive. Source: van den Bergen, Ray casting against general convex objects (2004),
whose clipping by support planes this is. Rotation within a step bends the lines a little and is
included. Height fields are not convex, and the plane of flat ground is the ground; their contacts
do not change.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.collision.box_box import FAR
from jaxsim.collision.contacts import Contacts, shape_poses
from jaxsim.collision.families import FAMILIES, Family, Touch
from jaxsim.collision.seams import has_seams, without_seams
from jaxsim.collision.slots import contact_slots
from jaxsim.dynamics.kinematics import Kinematics, point_velocity
from jaxsim.math.rotation import compose, cross, quat_exp, quat_to_matrix
from jaxsim.math.varying import alike
from jaxsim.model.model import Model

STILL = 1e-5  # way in a step towards a contact below which its plane does not change [m]
TOUCH = 1e-6  # largest gap of a touch [m]
TRIES = 12  # largest number of Newton's steps


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Moving:
    """Shape, or one of every pair, with its motion within a step."""

    pos: Array  # (3,) [m]
    rot: Array  # (3, 3)
    size: Array  # (3,) [m]
    way: Array  # (3,) of pos within the step [m]
    turn: Array  # (3,) rotation vector within the step [rad]
    moves: Array  # () 1, or 0 for a shape of the world

    def at(self, t: Array) -> "Moving":
        """Shape at a fraction t () of the step."""
        turned = compose(quat_to_matrix(quat_exp(t * self.turn)), self.rot)
        return Moving(self.pos + t * self.way, turned, self.size, self.way, self.turn, self.moves)

    def carried(self, point: Array) -> Array:
        """Displacement in a step of the material points now at point (..., 3) [m]."""
        return self.way + cross(self.turn, point - self.pos)

    def ends(self) -> Array:
        """(2, 3) centres of the end balls of a capsule; of a sphere twice its centre."""
        half = self.size[2] * self.rot[:, 0]
        return jnp.stack([self.pos + half, self.pos - half])


def contacts_ahead(model: Model, kin: Kinematics, contacts: Contacts, dt: Array | float):
    """Contacts with the planes that bound a step dt [s] from the velocities of ``kin``.

    Seams of flush surfaces have no contacts, see ``collision.seams``. Gradients treat the fraction
    of the step after which the shapes touch as constant.
    """
    slots = contact_slots(model.topology)
    if not any(family.ahead and len(slots.rows[family.name]) for family in FAMILIES):
        return contacts
    pos, rot = shape_poses(model, kin)
    moving = _moving(model, kin, pos, rot, dt)
    point, normal, gap = contacts.point, contacts.normal, contacts.gap
    half = normal * gap[:, None] / 2
    sites = point + half, point - half
    parts = []
    first = 0
    for family in FAMILIES:
        rows = slots.rows[family.name]
        last = first + family.slots * len(rows)
        mine = tuple(x[first:last] for x in (point, normal, gap, *sites))
        if family.ahead and len(rows):
            mine = _of_family(family, family.ahead, rows, moving, mine)
        parts.append(mine)
        first = last
    point, normal, gap, *ahead = (jnp.concatenate(x) for x in zip(*parts))
    if has_seams(model.topology):
        normal, gap = without_seams(model, pos, rot, (ahead[0], ahead[1]), normal, gap)
    return Contacts(point, normal, gap, contacts.friction, contacts.restitution)


def _moving(model: Model, kin: Kinematics, pos: Array, rot: Array, dt) -> Moving:
    """Shapes of the model, with their motion within a step dt [s]."""
    link = np.array(model.topology.shape_link, int)
    carried = jnp.asarray((link >= 0)[:, None], pos.dtype)
    link = np.maximum(link, 0)
    way = dt * carried * point_velocity(kin, link, pos)
    turn = dt * carried * kin.velocity[link, :3]
    return Moving(pos, rot, model.shape_size, way, turn, carried[:, 0])


def _of_family(family: Family, find: Callable, rows: np.ndarray, moving: Moving, mine):
    """Points, normals, gaps, and the points on both shapes of a family's slots."""
    a, b = (jax.tree.map(lambda x, s=s: x[s], moving) for s in (rows[:, 0], rows[:, -1]))
    end = jnp.asarray(rows[:, 1] if family.columns == 3 else 0 * rows[:, 0], a.pos.dtype)
    begin = tuple(x.reshape(len(rows), family.slots, *x.shape[1:]) for x in mine)
    start = begin[:3]
    if family.empty:  # of a capsule's side, where an end is nearest
        near, empty = jax.vmap(family.empty)(a, b), begin[2] > FAR / 2
        start = tuple(
            jnp.where(empty[..., *[None] * (x.ndim - 2)], y, x) for x, y in zip(start, near)
        )
    out = jax.vmap(partial(_ahead, find))(a, b, end, begin, start)
    return tuple(x.reshape(-1, *x.shape[2:]) for x in out)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _ahead(find: Callable, a: Moving, b: Moving, end: Array, begin: Any, start: Touch):
    """Points, normals, gaps and sites (k, ...) of a pair over a step.

    begin: those at the step's beginning; start: its contact then, also where that has no slot.
    """
    t, touch = _first_touch(find, a, b, end, start)
    return _as_of_begin(t, a, b, touch, begin)


@_ahead.defjvp
def _ahead_jvp(find, primals, tangents):
    a, b, end, _, start = primals
    t, _ = _first_touch(find, a, b, end, start)

    def smooth(a, b, end, begin, _):
        return _as_of_begin(t, a, b, find(a.at(t), b.at(t), end), begin)

    return jax.jvp(smooth, primals, tangents)


def _first_touch(find: Callable, a: Moving, b: Moving, end: Array, start: Touch):
    """Fraction t () of the step at which the shapes first touch or pass, and their contact."""

    def step(t, touch: Touch) -> Array:
        """Newton's step in t; 0 where the iteration has ended."""
        point, normal, gap = touch
        slope = _slope(a.at(t), b.at(t), point, normal)
        comes = (slope < -STILL) & (gap < FAR / 2)
        way = jnp.where(comes, jnp.maximum(gap, 0) / jnp.where(comes, -slope, 1), 2)
        least = jnp.min(way)
        nearest = jnp.min(jnp.where(comes, gap, FAR))
        return jnp.where((nearest > TOUCH) & (t + least < 1), least, 0)

    def goes_on(carry):
        count, _, ahead, _ = carry
        return (ahead > 0) & (count < TRIES)

    def again(carry):
        count, t, ahead, _ = carry
        t = t + ahead
        touch = find(a.at(t), b.at(t), end)
        return count + 1, t, step(t, touch), touch

    zero = jnp.zeros((), a.pos.dtype)
    begin = jnp.zeros((), int), zero, step(zero, start), start
    _, t, _, touch = jax.lax.while_loop(goes_on, again, alike(begin, a, b))
    return t, touch


def _slope(a: Moving, b: Moving, point: Array, normal: Array) -> Array:
    """(k,) rate of change of the gaps [m per step]."""
    return jnp.sum(normal * (a.carried(point) - b.carried(point)), axis=-1)


def _as_of_begin(t: Array, a: Moving, b: Moving, touch: Touch, begin):
    """Planes of a contact at t, as gaps along their normals at the step's beginning."""
    point, normal, gap = touch
    at_a, at_b = a.at(t), b.at(t)
    slope = _slope(at_a, at_b, point, normal)
    back = gap - t * slope
    # a plane that the motion moves away from has been on the other side
    back = jnp.where(slope > 0, jnp.maximum(back, jnp.minimum(gap, 0)), back)
    half = normal * jnp.where(gap < FAR / 2, gap, 0)[:, None] / 2
    on_a, on_b = at_a.carried(point), at_b.carried(point)
    both = a.moves + b.moves
    mean = (a.moves * on_a + b.moves * on_b) / jnp.where(both > 0, both, 1)
    new = (
        point - t * mean,
        normal,
        jnp.where(gap < FAR / 2, back, FAR),
        point + half - t * on_a,
        point - half - t * on_b,
    )
    return jax.tree.map(lambda x, old: jnp.where(t > 0, x, old), new, tuple(begin))
