"""Reader of ``[[wall]]``: a wall with randomly placed holds, as a box and points."""

import math
from dataclasses import dataclass

import numpy as np

from jaxsim.io.keys import Keys
from jaxsim.io.toml_table import Table
from jaxsim.io.world import Hold, Vector
from jaxsim.math.rotation import rotation_matrix
from jaxsim.model import Shape
from jaxsim.options import REQUIRED, option

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


@dataclass(frozen=True, kw_only=True)
class WallKeys(Keys):
    """Wall with randomly placed holds: a box that carries load, and points as of `[[hold]]`,
    uniform over its area."""

    name: str = option("wall", "name of the wall; its holds are `wall_1`, `wall_2` and so on")
    pos: tuple = option(REQUIRED, "middle of its lower edge", unit="m", kind=tuple)
    width: float = option(REQUIRED, "width of the wall", unit="m", kind=float, above=0.0)
    height: float = option(
        REQUIRED, "height of the wall, along its surface", unit="m", kind=float, above=0.0
    )
    facing_deg: float = option(
        180.0, "direction that its front faces: 0 along x, 90 along y", unit="deg"
    )
    lean_deg: float = option(
        0.0,
        "overhang: angle by which its top leans towards the climber; negative: away",
        unit="deg",
        least=-80.0,
        most=80.0,
    )
    density: float = option(REQUIRED, "holds per area", unit="1/m^2", kind=float, above=0.0)
    spacing: float = option(0.2, "least distance of two holds", unit="m", least=0.0)
    lowest: float = option(0.2, "least height of a hold", unit="m", least=0.0)
    seed: int = option(0, "seed of the positions of the holds", least=0)
    out: float = option(0.08, "distance of the holds from the wall", unit="m", above=0.0)
    reach: float = option(
        Hold.reach, "distance within which an effector takes hold", unit="m", above=0.0
    )
    strength: float = option(
        np.inf,
        "load above which a hold breaks for good",
        unit="N",
        shown="never breaks",
        above=0.0,
    )
    hold_friction: float | None = option(
        None,
        "friction of a foot on a hold",
        shown="the world's",
        kind=float,
        above=0.0,
        of="friction",
    )
    friction: float | None = option(
        None, "friction of the wall", shown="the world's", kind=float, least=0.0
    )


def climbing_wall(table: Table, friction: float) -> tuple[Shape, list[Hold]]:
    """Read a wall and its holds.

    A hold's frame: x to the left as one faces the wall, y out of it, z up along it, the direction
    in which feet are pushed. Raises WorldError.
    """
    keys = WallKeys.read(table)
    table.done()
    name, width, height, lowest = keys.name, keys.width, keys.height, keys.lowest
    density, spacing = keys.density, keys.spacing
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
    quat = _turned(keys)
    frame, origin = rotation_matrix(quat), np.array(keys.pos)

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
        friction=friction if keys.friction is None else keys.friction,
    )
    places = random_places(count, (-width / 2, lowest), (width / 2, height), spacing, keys.seed)
    holds = []
    for k, (left, up) in enumerate(places, 1):
        label = f"{name}_{k}"
        placed = dict(pos=at(left, keys.out, up), quat=quat, name=label, group=0, mask=0)
        rubs = keys.hold_friction or friction
        point = Shape("sphere", (0.03, 0.0, 0.0), friction=rubs, **placed)  # type: ignore
        holds.append(Hold(label, point, reach=keys.reach, strength=keys.strength))
    return shape, holds


def _turned(keys: WallKeys) -> Vector:
    """Quaternion of a hold's frame."""
    about_z = math.radians(keys.facing_deg - 90.0) / 2
    about_x = -math.radians(keys.lean_deg) / 2
    c, s = math.cos(about_z), math.sin(about_z)
    return (
        c * math.cos(about_x),
        c * math.sin(about_x),
        s * math.sin(about_x),
        s * math.cos(about_x),
    )
