"""An ellipsoid in place of a simulation, so that what is learned of it can be checked."""

import numpy as np

from optimize.compatibility.space import Space

SPACE = Space.of({"h": (0.15, 0.75, 10.0)}, {"w": (0.0, 90.0, 1 / 40), "s": (0.0, 180.0, 1 / 40)})
START = np.array([0.45, 30.0, 70.0])
CENTRE, RADII = np.array([0.45, 35.0, 70.0]), np.array([0.25, 40.0, 80.0])


def answers(points: np.ndarray) -> np.ndarray:
    within = np.linalg.norm((points - CENTRE) / RADII, axis=-1) < 1
    return within & SPACE.inside(points)


def held_out(count: int = 2000) -> tuple[np.ndarray, np.ndarray]:
    points = np.random.default_rng(99).uniform(SPACE.lower, SPACE.upper, (count, 3))
    return points, answers(points)


def sampled(sampler, batches: int) -> tuple[np.ndarray, np.ndarray]:
    points = []
    for _ in range(batches):
        points.append(sampler.ask())
        sampler.tell(answers(points[-1]))
    points = np.concatenate(points)
    return points, answers(points)
