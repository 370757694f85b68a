"""Prescribed motion of hinges and slides: platforms that rock, walls that advance."""

import dataclasses
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Drive:
    """Prescribed position of a joint as a function of time t, independent of forces.

        start + rate s + acceleration s^2 / 2 + amplitude sin(2 pi frequency s + phase),
        s = clip(t, begin, end) - begin

    Numbers in a declaration (see ``Joint.drive``), arrays (nd,) in ``Model.drive``: [rad or m],
    [per s], [per s^2], [Hz], [s].
    """

    start: Array | float = 0.0
    rate: Array | float = 0.0
    amplitude: Array | float = 0.0
    frequency: Array | float = 0.0
    phase: Array | float = 0.0  # [rad]
    begin: Array | float = 0.0
    end: Array | float = np.inf
    acceleration: Array | float = 0.0

    def position(self, time: Array | float) -> Array:
        """Position of the joint at a time [s]."""
        s = jnp.clip(time, self.begin, self.end) - self.begin
        swing = self.amplitude * jnp.sin(2 * np.pi * self.frequency * s + self.phase)
        return self.start + (self.rate + self.acceleration * s / 2) * s + swing


def stack_drives(drives: list[Drive]) -> dict[str, list[float]]:
    """Collect the numbers of several drives by field."""
    fields = [field.name for field in dataclasses.fields(Drive)]
    return {name: [getattr(drive, name) for drive in drives] for name in fields}
