"""Names in a search: chains of methods, settings by run, and its files.

Importing it starts no device (evosax does), so that a command may still set it up.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

EVOLUTION = ("cma", "sep-cma", "openai-es", "random")  # other methods are optimisers of optax
OWN = ("sigma", "population")  # of the search; others are weights, or numbers
WEIGHTS = "weights."
RESULT, RUNS, CHECKS, FRONT = "result.json", "runs.json", "checks.json", "front.json"


class Stage(NamedTuple):
    """Stage of a chain: a method's name, and its generations (None: all that remain)."""

    name: str
    generations: int | None


def stages(text: str) -> tuple[Stage, ...]:
    """Parse a chain such as "cma:40,adam@0.1:20": evolution, then descent from the best member.

    >>> stages("cma:40,adam")
    (Stage(name='cma', generations=40), Stage(name='adam', generations=None))

    Raises ValueError where a stage but the last has no end. Names are checked by ``method``.
    """
    chain = []
    for part in text.split(","):
        name, colon, count = part.strip().partition(":")
        if colon and not (count.isdecimal() and int(count) > 0):
            raise ValueError(f"method {part!r}: after ':' stands a number of generations")
        chain.append(Stage(name, int(count) if colon else None))
    if any(stage.generations is None for stage in chain[:-1]):
        raise ValueError(
            f"method {text!r}: say how many generations each stage but the last has, as in"
            " cma:40,adam:20"
        )
    return tuple(chain)


def of_runs(by_run: Mapping[str, Sequence[float]], runs: int) -> dict[str, np.ndarray]:
    """Values by name, (runs,) each; the runs take the given ones in turn."""
    out = {}
    for name, values in by_run.items():
        numbers = np.asarray(values, float).reshape(-1)
        if not numbers.size or not np.isfinite(numbers).all():
            raise ValueError(f"by_run: {name} is {values}; give finite numbers")
        out[name] = numbers[np.arange(runs) % numbers.size]
    return out
