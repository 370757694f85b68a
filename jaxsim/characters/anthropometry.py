"""Segments of the human body: lengths, masses, centres of mass and inertias.

Sources:

- de Leva, "Adjustments to Zatsiorsky-Seluyanov's segment inertia parameters", Journal of
  Biomechanics 29 (1996) 1223-1230, table 4, men (73.0 kg, 1.741 m);
- Drillis and Contini, "Body segment parameters" (1966), as in Winter, "Biomechanics and Motor
  Control of Human Movement": foot height and breadth, sitting height;
- UN Regulation No. 129, annex 8: masses of the Q6 child manikin; UN Regulation No. 44, annex 8:
  stature and sitting height of the P6 manikin, a child of six years.

docs/explanation/characters.md says what was chosen where these say nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from jaxsim.model import ModelError


@dataclass(frozen=True)
class Row:
    """Row of de Leva's table: length, mass, centre of mass and radii of gyration of a segment.

    Length [mm]; mass [% of the body's]; centre of mass from the upper (or inner) end and radii of
    gyration about sagittal, transverse and longitudinal axis, all in [% of the length].
    """

    length: float
    mass: float
    com: float
    radii: tuple[float, float, float]


DE_LEVA = {
    "head": Row(242.9, 6.94, 50.02, (30.3, 31.5, 26.1)),  # vertex to cervicale, with the neck
    "chest": Row(242.1, 15.96, 50.66, (50.5, 32.0, 46.5)),  # cervicale to xiphion
    "abdomen": Row(215.5, 16.33, 45.02, (48.2, 38.3, 46.8)),  # xiphion to omphalion
    "pelvis": Row(145.7, 11.17, 61.15, (61.5, 55.1, 58.7)),  # omphalion to the hips' midpoint
    "upperArm": Row(281.7, 2.71, 57.72, (28.5, 26.9, 15.8)),
    "forearm": Row(268.9, 1.62, 45.74, (27.6, 26.5, 12.1)),
    "hand": Row(187.9, 0.61, 36.24, (28.8, 23.5, 18.4)),  # wrist to the tip of the third finger
    "thigh": Row(422.2, 14.16, 40.95, (32.9, 32.9, 14.9)),
    "shank": Row(440.3, 4.33, 43.95, (25.1, 24.6, 10.2)),  # knee to ankle joint
    "foot": Row(258.1, 1.37, 44.15, (25.7, 24.5, 12.4)),  # heel to the tip of the toes
}
GROUPS = {
    "head": ("head",),
    "trunk": ("chest", "abdomen", "pelvis"),
    "arm": ("upperArm", "forearm", "hand"),
    "leg": ("thigh", "shank", "foot"),
}
UPWARD = ("head", "chest", "abdomen", "pelvis")  # links that stand on their joint; limbs hang
# The palm faces the thigh: the hand's flat side looks along y, not along x as in the table.
TURNED = ("forearm", "hand")
SHOULDER = 87.8 / 242.1  # de Leva: mid-shoulder below cervicale, in the chest's length

# In shares of the stature.
ANKLE_HEIGHT = 0.039  # Drillis and Contini
FOOT_BREADTH = 0.055  # Drillis and Contini
FOOT_LENGTH = 258.1 / 1741  # de Leva
SHOULDER_HALF = 0.105  # from the midline to the shoulder joint; ours
HIP_HALF = 0.05  # to the hip joint; ours
# In shares of the foot's length; ours.
ANKLE_AT = 0.25  # from the heel to the ankle
BALL_AT = 0.73  # from the heel to the joint of the toes
TOE_MASS = 0.12  # of the foot's mass
TOE_HEIGHT = 0.015  # their thickness, in shares of the stature; ours

DENSITY = 1000.0  # of the shapes' volumes [kg/m^3]


@dataclass(frozen=True)
class Build:
    """Default size of a body, and shares of stature and mass by parts of the body.

    heights: shares of the stature of "head", "trunk" and "leg", which add up to 1, and "arm" from
    the shoulder to the finger tips. masses: shares of the body's mass; arm and leg count twice.
    """

    stature: float  # [m]
    mass: float  # [kg]
    heights: Mapping[str, float]
    masses: Mapping[str, float]


def _adult() -> Build:
    """Build of an adult.

    Limbs as in de Leva; trunk and head take the rest of the stature, 4% less than his lengths,
    since his subjects lay down.
    """
    mm = {group: sum(DE_LEVA[n].length for n in names) for group, names in GROUPS.items()}
    leg = (mm["leg"] - DE_LEVA["foot"].length) / 1741 + ANKLE_HEIGHT
    fit = (1 - leg) / (mm["head"] + mm["trunk"])
    return Build(
        stature=1.75,
        mass=72.0,
        heights={
            "head": fit * mm["head"],
            "trunk": fit * mm["trunk"],
            "arm": mm["arm"] / 1741,
            "leg": leg,
        },
        masses={g: sum(DE_LEVA[n].mass for n in names) / 100 for g, names in GROUPS.items()},
    )


ADULT = _adult()


def _child() -> Build:
    """Build of a child of six years.

    Masses of the Q6 manikin, its suit with the torso. A child's hips are lower by as much as it
    sits higher; its head is a sixth of its stature, an adult's 2/15.
    """
    higher = 636 / 1166 - 0.520  # sitting heights: P6 manikin, adult
    leg = ADULT.heights["leg"] - higher
    head = 1.25 * ADULT.heights["head"]
    return Build(
        stature=1.15,
        mass=20.0,
        heights={
            "head": head,
            "trunk": 1 - leg - head,
            "arm": ADULT.heights["arm"] * leg / ADULT.heights["leg"],
            "leg": leg,
        },
        masses={
            "head": 3.94 / 22.95,
            "trunk": (9.07 + 0.55) / 22.95,
            "arm": 2.49 / 22.95 / 2,
            "leg": 6.90 / 22.95 / 2,
        },
    )


CHILD = _child()
BUILDS = {"adult": ADULT, "child": CHILD}


@dataclass(frozen=True)
class Segment:
    """Rigid segment in its link's frame: x forward, y left, z up when the body stands upright."""

    length: float  # [m]
    mass: float  # [kg]
    com: np.ndarray  # (3,) [m]
    inertia: np.ndarray  # (3, 3) about the centre of mass [kg m^2]


def segments(build: Build, stature: float, mass: float) -> dict[str, Segment]:
    """Segments of ``DE_LEVA`` for a body of ``stature`` [m] and ``mass`` [kg].

    A segment's frame is at its joint towards the pelvis (of the pelvis, between the hips).
    """
    bodies = {}
    for group, names in GROUPS.items():
        rows = {name: DE_LEVA[name] for name in names}
        whole = sum(row.length for name, row in rows.items() if name != "foot")
        height = build.heights[group] - (ANKLE_HEIGHT if group == "leg" else 0.0)
        total = sum(row.mass for row in rows.values())
        for name, row in rows.items():
            share = FOOT_LENGTH if name == "foot" else height * row.length / whole
            bodies[name] = _body(
                name, row, share * stature, mass * build.masses[group] * row.mass / total, stature
            )
    return bodies


def _body(name: str, row: Row, length: float, mass: float, stature: float) -> Segment:
    sagittal, transverse, longitudinal = row.radii
    radii, along = (sagittal, transverse, longitudinal), row.com / 100
    if name in TURNED:
        radii = transverse, sagittal, longitudinal
    com = np.array([0, 0, (1 - along) if name in UPWARD else -along]) * length
    if name == "foot":
        radii = longitudinal, transverse, sagittal
        com = np.array([(along - ANKLE_AT) * length, 0, -ANKLE_HEIGHT * stature / 2])
    inertia = mass * np.diag((np.array(radii) / 100 * length) ** 2)
    return Segment(length, mass, com, inertia)


def combine(length: float, *parts: tuple[Segment, float]) -> Segment:
    """Combine several segments into one; sign -1 takes a part away.

    All in one frame. length [m]: of the result.
    """
    mass = sum(sign * part.mass for part, sign in parts)
    com = sum(sign * part.mass * part.com for part, sign in parts) / mass
    inertia = np.zeros((3, 3))
    for part, sign in parts:
        d = part.com - com
        inertia += sign * (part.inertia + part.mass * (d @ d * np.eye(3) - np.outer(d, d)))
    return Segment(length, mass, np.asarray(com), inertia)


def shift_segment(part: Segment, offset) -> Segment:
    """Segment in another frame, in which its own frame's origin is at ``offset`` (3,) [m]."""
    return Segment(part.length, part.mass, part.com + np.asarray(offset), part.inertia)


def foot_and_toes(foot: Segment, stature: float) -> tuple[Segment, Segment]:
    """The foot without its toes, and the toes in a frame at their joint, at half their height.

    Together they have the foot's mass, centre of mass and inertia.
    """
    sides = np.array([(1 - BALL_AT) * foot.length, FOOT_BREADTH * stature, TOE_HEIGHT * stature])
    mass, square = TOE_MASS * foot.mass, sides**2
    inertia = mass / 12 * np.diag(square.sum() - square)
    toes = Segment(float(sides[0]), mass, np.array([sides[0] / 2, 0, 0]), inertia)
    length = BALL_AT * foot.length
    rest = combine(length, (foot, 1.0), (shift_segment(toes, toe_joint(stature)), -1.0))
    return rest, toes


def toe_joint(stature: float) -> np.ndarray:
    """Position (3,) of the toes' joint in the foot's frame [m]."""
    ahead, below = (BALL_AT - ANKLE_AT) * FOOT_LENGTH, ANKLE_HEIGHT - TOE_HEIGHT / 2
    return stature * np.array([ahead, 0.0, -below])


def find_build(name: str) -> Build:
    """Build by name; ModelError lists the names."""
    if name not in BUILDS:
        raise ModelError(f"no build named {name!r}; choose from {', '.join(BUILDS)}")
    return BUILDS[name]
