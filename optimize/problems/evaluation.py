"""Fitness of a population, as an optimiser receives it."""

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """Fitness of a population; any field may be what NumPy can read as an array.

    fitness  (P,) to be minimised
    parts    name -> (P,) raw objective terms, each in its own unit
    failed   (P,) bool, members whose simulation broke down
    steps    simulated steps in all, for the report of speed
    """

    fitness: Any
    parts: dict[str, Any] = dataclasses.field(default_factory=dict)
    failed: Any = False
    steps: int = 0
