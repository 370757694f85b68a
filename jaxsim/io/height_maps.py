"""Generators of height maps for height fields, by name."""

from collections.abc import Callable

import numpy as np


def rough(rows: int, columns: int, height: float, seed: int) -> np.ndarray:
    """Random heights (rows, columns) [m]: every node between 0 and ``height``."""
    return height * np.random.default_rng(seed).random((rows, columns))


def hills(rows: int, columns: int, height: float, seed: int) -> np.ndarray:
    """Smooth heights (rows, columns) [m]: waves of random direction, between 0 and ``height``."""
    random = np.random.default_rng(seed)
    x, y = np.meshgrid(np.linspace(0, 1, rows), np.linspace(0, 1, columns), indexing="ij")
    total = np.zeros((rows, columns))
    for waves in (1.0, 1.7, 2.9):
        angle, phase = random.uniform(0, 2 * np.pi, 2)
        total += np.sin(2 * np.pi * waves * (x * np.cos(angle) + y * np.sin(angle)) + phase) / waves
    low, high = total.min(), total.max()
    return height * (total - low) / (high - low)


GENERATORS: dict[str, Callable[..., np.ndarray]] = {"rough": rough, "hills": hills}
