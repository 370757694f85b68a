"""Units and bounds of numbers by path, where the simulator gives them a meaning."""

import math
from typing import NamedTuple

import numpy as np

from jaxsim.tree_paths import Entry, element_name, leaves_by_path, resolve
from optimize.problems.problem import Problem
from optimize.scenarios.scenario import Scenario
from optimize.scenarios.sizes import LEAST, MOST

INF = math.inf


class Quantity(NamedTuple):
    """Unit and bounds of a number.

    unit: as a reader sees it, "" where it is not known. least, most: what it may be.
    """

    unit: str = ""
    least: float = -INF
    most: float = INF


LEAVES = {
    "model.gravity": Quantity("m/s^2"),
    "model.mass": Quantity("kg", 1e-9, 1e9),
    "model.com": Quantity("m"),
    "model.inertia": Quantity("kg m^2"),
    "model.joint_pos": Quantity("m"),
    "model.joint_anchor": Quantity("m"),
    "model.joint_lower": Quantity("rad or m"),
    "model.joint_upper": Quantity("rad or m"),
    "model.damping": Quantity("N m s/rad or N s/m", 0.0),
    "model.armature": Quantity("kg m^2 or kg", 0.0),
    "model.gain_p": Quantity("N m/rad or N/m", 0.0),
    "model.gain_d": Quantity("N m s/rad or N s/m", 0.0),
    "model.torque_limit": Quantity("N m or N", 0.0),
    "model.shape_pos": Quantity("m"),
    "model.shape_size": Quantity("m", 0.0),
    "model.friction": Quantity("1", 0.0, 1e3),
    "model.restitution": Quantity("1", 0.0, 1.0),
    "model.grip_strength": Quantity("N", 0.0),
    "model.heights": Quantity("m"),
    "forces.point": Quantity("m"),
    "forces.force": Quantity("N"),
    "forces.start": Quantity("s"),
    "forces.duration": Quantity("s", 0.0),
    "forces.direction": Quantity("rad"),
}


def quantity(scenario: Scenario, path: str) -> Quantity:
    """Unit and bounds of the numbers at a path."""
    entry = resolve(path, leaves_by_path(scenario.tree))
    if entry.leaf.startswith("controller."):
        source = scenario.number_source
        units, limits = source.units(), source.limits()
        names = [element_name(entry, flat) for flat in entry.flat]
        known = {(units.get(name, ""), limits.get(name, (-INF, INF))) for name in names}
        if len(known) == 1:
            unit, (least, most) = known.pop()
            return Quantity(unit, least, most)
    if entry.leaf.startswith("sizes"):
        return Quantity("1", LEAST, MOST)
    return LEAVES.get(entry.leaf.partition("[")[0], Quantity())


def check_bounds(problem: Problem, name: str, path: str, values: np.ndarray) -> None:
    """Raise ValueError where a value is outside of the number's bounds, or of the problem's."""
    known = quantity(problem.scenario, path)
    least, most = known.least, known.most
    for given, spec in (problem.numbers or {}).items():
        own = problem.scenario.path(given)
        if _same(problem.scenario, own, path):
            least, most = max(least, np.min(spec[0])), min(most, np.max(spec[1]))
    low, high = float(values.min()), float(values.max())
    if not least <= low <= high <= most:
        unit = f" {known.unit}" if known.unit else ""
        raise ValueError(
            f"{name} would vary from {low:g} to {high:g}{unit}, outside of its bounds"
            f" [{least:g}, {most:g}]; give values within, or a Normal with low and high"
        )


def _same(scenario: Scenario, first: str, second: str) -> bool:
    leaves = leaves_by_path(scenario.tree)
    return overlap(resolve(first, leaves), resolve(second, leaves))


def overlap(first: Entry, second: Entry) -> bool:
    """True if two paths share a number."""
    return first.leaf == second.leaf and bool(set(first.flat) & set(second.flat))
