"""Options of the event-driven scheme, for the scheme and its scenes."""

import dataclasses
from dataclasses import dataclass

from jax import Array

from jaxsim.ranges import check_ranges
from jaxsim.simulation.contact_scheme import ContactScheme, contacts_option


@dataclass(frozen=True)
class EventOptions(ContactScheme):
    """Options of the event-driven scheme; the last five are static."""

    dt: Array | float = 1 / 240  # the interval [s]
    touch_distance: Array | float = 1e-4  # a smaller gap is a contact [m]
    depth: Array | float = 1e-3  # a try that goes deeper is halved [m, rad]
    bounce_speed: Array | float = 0.1  # slower impacts do not bounce [m/s, rad/s]
    slip_speed: Array | float = 1e-3  # slower contacts stick, and keep their tangent [m/s]
    recovery_time: Array | float = 0.02  # time constant in which depth is undone [s]
    recovery_speed: Array | float = 1.0  # the fastest of it, of contacts [m/s]
    contacts: int | None = contacts_option()
    halvings: int = dataclasses.field(default=8, metadata={"static": True})  # of the interval
    parts: int = dataclasses.field(default=64, metadata={"static": True})  # tries in all
    iterations: int = dataclasses.field(default=200, metadata={"static": True})  # of the solver
    tolerance: float = dataclasses.field(default=1e-6, metadata={"static": True})

    def __post_init__(self):
        check_ranges(self)
