"""The numbers of the step of events."""

import dataclasses
from dataclasses import dataclass

import jax
from jax import Array

from jaxsim.ranges import within


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class EventConfig:
    """Numbers of the step; the last five are static."""

    dt: Array | float = 1 / 240  # the interval [s]
    touch_distance: Array | float = 1e-4  # a smaller gap is a contact [m]
    depth: Array | float = 1e-3  # a try that goes deeper is halved [m, rad]
    bounce_speed: Array | float = 0.1  # slower impacts do not bounce [m/s, rad/s]
    slip_speed: Array | float = 1e-3  # slower contacts stick, and keep their tangent [m/s]
    recovery_time: Array | float = 0.02  # time constant in which depth is undone [s]
    recovery_speed: Array | float = 1.0  # the fastest of it, of contacts [m/s]
    contacts: int | None = dataclasses.field(default=None, metadata={"static": True})  # StepConfig
    halvings: int = dataclasses.field(default=8, metadata={"static": True})  # of the interval
    parts: int = dataclasses.field(default=64, metadata={"static": True})  # tries, all told
    iterations: int = dataclasses.field(default=200, metadata={"static": True})  # of the solver
    tolerance: float = dataclasses.field(default=1e-6, metadata={"static": True})

    def __post_init__(self):
        if isinstance(self.dt, float):
            within("dt", self.dt)
        for name, least in (("contacts", 1), ("halvings", 0), ("parts", 1), ("iterations", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise ValueError(f"{name} is {value}; give {least} or more")
