"""Options of time stepping, for the scheme and the stages of its step."""

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

from jax import Array

from jaxsim.options import option
from jaxsim.ranges import check_ranges
from jaxsim.simulation.contact_scheme import ContactScheme, contacts_option
from jaxsim.simulation.smooth import ORDERS

DERIVATIVES = ("iteration", "implicit")
IMPACTS = ("at_once", "successive")


@dataclass(frozen=True)
class StepOptions(ContactScheme):
    """Options of time stepping; ``TimeStepping`` says what they do."""

    cheap: ClassVar[bool] = True
    reverse_mode: ClassVar[bool] = True

    dt: Array | float = 0.00025  # [s]
    stabilization_time: Array | float = option(
        0.02, "time constant of penetration recovery", unit="s", above=0.0
    )
    recovery_speed: Array | float = 1.0  # the fastest of it, for what begins deep inside [m/s]
    bounce_speed: Array | float = 0.1  # slower impacts do not bounce [m/s]
    touch_distance: Array | float = 0.001  # a smaller gap counts as contact [m]
    near_distance: Array | float = 0.01  # what comes nearer in a step is solved for [m]
    warm_start: Array | float = option(
        1.0,
        "share of the last step's impulses that the solver starts from;"
        " [stacks](../explanation/physics.md#stacks-and-the-warm-start) want less",
        least=0.0,
        most=1.0,
    )
    # whether a warm start that gains energy is scaled down, see ``solvers.pgs.useful_start``
    bounded_start: bool = dataclasses.field(default=False, metadata={"static": True})
    sweeps: int = option(6, "Gauss-Seidel sweeps a step, at least", static=True, least=1)
    most_sweeps: int = option(
        40, "sweeps a step, at most; up to `sweeps`: no acceleration", static=True
    )
    # see ``step_impulses.tolerance_at``
    tolerance: Array | float = option(
        0.1,
        "change of a row's velocity by the last sweep that ends the sweeps",
        unit="m/s, rad/s",
        least=0.0,
    )
    contacts: int | None = contacts_option()
    derivative: str = dataclasses.field(default="iteration", metadata={"static": True})
    smoothing: Array | float = 0.0  # relaxes complementarity in the derivative [J]
    impacts: str = option(
        "at_once",
        "impacts of a step: all contacts as one problem, or"
        " [one after the other](../explanation/physics.md), as in Newton's cradle",
        static=True,
        choices=IMPACTS,
    )
    # see ``simulation.smooth``; None: 2 where no joint is between bodies
    order: int | None = option(
        None,
        "order of the velocity products; 2 preserves the energy of"
        " [fast rotation](../explanation/physics.md)",
        shown="2 where no joint is between bodies, else 1",
        kind=int,
        static=True,
        least=1,
        most=2,
    )
    # see ``simulation.move``
    bounded_move: bool = option(
        True, "the position update of fast joints may add no energy", static=True
    )

    def __post_init__(self):
        check_ranges(self)
        if self.order not in ORDERS:
            raise ValueError(
                f"order is {self.order}; give 1 or 2, or None to leave it to the model"
            )
        if self.derivative not in DERIVATIVES:
            raise ValueError(f"derivative {self.derivative!r}: there are {', '.join(DERIVATIVES)}")
        if self.impacts not in IMPACTS:
            raise ValueError(f"impacts {self.impacts!r}: there are {', '.join(IMPACTS)}")
        if self.derivative == "iteration" and isinstance(self.smoothing, float) and self.smoothing:
            raise ValueError('smoothing acts with derivative="implicit" only')

    @property
    def tells_residual(self) -> bool:
        """True where the derivative depends on how well contact problems were solved."""
        return self.derivative == "implicit"
