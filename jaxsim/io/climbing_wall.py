"""Reader of ``[[wall]]``: a wall with randomly placed holds, as a box and points."""

import math

import numpy as np

from jaxsim.io.toml_table import Table
from jaxsim.io.world import Hold, Vector
from jaxsim.model import Shape
from jaxsim.model.checks import rotation

THICK = 0.1  # half of it [m]
FULL = 0.45  # of the area may be covered by discs as wide as the spacing; 0.547 is where random
# placing one by one gets stuck
TRIES = 10_000


def random_places(
    count: int, low: tuple[float, float], high: tuple[float, float], spacing: float, seed: int
) -> np.ndarray:
    """Sample places (count, 2) uniformly from a rectangle, at least ``spacing`` apart [m].

    One after the other; a place nearer to another one is sampled again. Raises ValueError where
    there is no room.
    """
    random, places = np.random.default_rng(seed), np.zeros((count, 2))
    for k in range(count):
        for _ in range(TRIES):
            places[k] = random.uniform(low, high)
            if ((places[:k] - places[k]) ** 2).sum(axis=1).min(initial=np.inf) >= spacing**2:
                break
        else:
            raise ValueError(f"no room for {count} places {spacing:g} m apart")
    return places


def climbing_wall(table: Table, friction: float) -> tuple[Shape, list[Hold]]:
    """Read a wall and its holds.

    A hold's frame: x to the left as one faces the wall, y out of it, z up along it, the direction
    in which feet are pushed. Raises WorldError.
    """
    name = table.text("name", "wall")
    width, height = (table.number(key, above=0.0) for key in ("width", "height"))
    lowest = table.number("lowest", 0.2, least=0.0)
    density = table.number("density", above=0.0)
    spacing = table.number("spacing", 0.2, least=0.0)
    seed = table.whole("seed", 0)
    out = table.number("out", 0.08, above=0.0)
    if lowest >= height:
        raise table.error(f"is {lowest:g} m, not below the height, {height:g} m", "lowest")
    count = round(density * width * (height - lowest))
    if count < 4:
        raise table.error(
            f"is {density:g}, so few that there are {count} holds; give more, or a larger wall",
            "density",
        )
    if count * math.pi * spacing**2 / 4 > FULL * width * (height - lowest):
        most = math.sqrt(4 * FULL / (math.pi * density))
        raise table.error(
            f"is {spacing:g} m, too much for {density:g} holds per square metre; give at most"
            f" {most:.2f} m, or a lower density",
            "spacing",
        )
    quat = _turned(table)
    frame = rotation(quat)
    origin = np.array(table.vector("pos"))
    reach = table.number("reach", 0.06, above=0.0)
    strength = table.number("strength", np.inf, above=0.0)
    hold_friction = table.number("hold_friction", friction, above=0.0, of="friction")

    def at(left: float, outward: float, up: float) -> Vector:
        return tuple((origin + frame @ (left, outward, up)).tolist())

    x, y, z = at(0.0, -THICK, height / 2)
    a, b, c, d = quat
    shape = Shape(
        "box",
        (width / 2, THICK, height / 2),
        pos=(x, y, z),
        quat=(a, b, c, d),
        name=name,
        friction=table.number("friction", friction, least=0.0, of="friction"),
    )
    table.done()
    places = random_places(count, (-width / 2, lowest), (width / 2, height), spacing, seed)
    holds = []
    for k, (left, up) in enumerate(places, 1):
        label = f"{name}_{k}"
        placed = dict(pos=at(left, out, up), quat=quat, name=label, group=0, mask=0)
        point = Shape("sphere", (0.03, 0.0, 0.0), friction=hold_friction, **placed)  # type: ignore
        holds.append(Hold(label, point, reach=reach, strength=strength))
    return shape, holds


def _turned(table: Table) -> Vector:
    """Quaternion of a hold's frame."""
    about_z = math.radians(table.number("facing_deg", 180.0) - 90.0) / 2
    about_x = -math.radians(table.number("lean_deg", 0.0, least=-80.0, most=80.0)) / 2
    c, s = math.cos(about_z), math.sin(about_z)
    return (
        c * math.cos(about_x),
        c * math.sin(about_x),
        s * math.sin(about_x),
        s * math.cos(about_x),
    )
