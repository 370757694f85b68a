"""Time stepping: pose and contacts -> control -> free motion -> impulses -> new state.

The step is semi-implicit Euler at velocity level. Damping, passive and of the PD controllers, is
implicit: the free motion and the impulses see M + h D in the place of M, so that a light hand
under a stiff wrist is stable at 1 ms, where h kd / I is about 2 and an explicit damper blows up.
"""

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.collision.contacts import Contacts, find_contacts
from jaxsim.collision.slots import contact_slots
from jaxsim.dynamics.jacobians import center_of_mass, com_velocity
from jaxsim.dynamics.kinematics import (
    forward_kinematics,
)
from jaxsim.math.rotation import rotate
from jaxsim.math.safe import safe_norm
from jaxsim.model.model import Model
from jaxsim.model.state import State
from jaxsim.options import option
from jaxsim.ranges import check_ranges
from jaxsim.simulation import checks
from jaxsim.simulation.health import Health, update_health
from jaxsim.simulation.measures import Measure, Sample, contact_measures
from jaxsim.simulation.prescribed import closed_grips
from jaxsim.simulation.pushes import Pushes
from jaxsim.simulation.records import Control, Observation, StepInfo
from jaxsim.simulation.scheme import Scheme, register_scheme
from jaxsim.simulation.smooth import ORDERS
from jaxsim.simulation.step_dynamics import free_dynamics
from jaxsim.simulation.step_impulses import solve_impulses
from jaxsim.simulation.step_info import contact_forces, step_info
from jaxsim.simulation.step_motion import integrate_step
from jaxsim.simulation.step_rows import all_impulses, assemble_rows
from jaxsim.simulation.warm_start import (
    WarmStart,
    check_warm_start,
    rest_of,
    with_warm_start,
)

DERIVATIVES = ("iteration", "implicit")
IMPACTS = ("at_once", "successive")


def contacts_option() -> Any:
    """Field of a scheme: contact slots that a step solves for, at most."""
    return option(
        None,
        "contacts to solve for in a step, the nearest; the summary counts those left out",
        shown="all up to 64, else 40",
        kind=int,
        static=True,
        least=1,
    )


class ContactScheme(Scheme):
    """Base of schemes that step with contacts: observation, health and checks."""

    def observe(self, model: Model, state: State) -> Observation:
        """Observe a state with this scheme's touch distance, see ``observe``."""
        return observe(model, state, self)

    def watch(self, health: Health, model: Model, state: State, obs, after: State, info) -> Health:
        """Watch energy, speed and depth of a step: see ``simulation.health``."""
        return update_health(health, model, state, obs, after, info)

    def measures(self, model: Model) -> dict[str, Measure]:
        """Measures of depth, residual, dropped contacts, broken grips: see ``contact_measures``."""
        return contact_measures(model)

    def torque(self, command: Control, info: Any) -> Array:
        """(nv,) torque of the command and of prescribed motion [N m or N]."""
        return command.torque + info.motion_force

    def contact_links(self, model: Model) -> tuple[np.ndarray, np.ndarray]:
        """(nc,), (nc,) links of both sides of each contact slot, -1 for the world."""
        slots = contact_slots(model.topology)
        return np.asarray(slots.link_a), np.asarray(slots.link_b)

    def keep(self, model: Model, sample: Sample) -> dict[str, Array]:
        """Fields of a record: grips' positions (ng, 3) [m], forces (ng, 3) [N], closed (ng,)."""
        kin, links = sample.obs.kin, np.array(model.topology.grip_link, int)
        return {
            "grip_pos": kin.link_pos[links] + rotate(kin.link_rot[links], model.grip_point),
            "grip_force": sample.info.grip_force,
            "grip_closed": closed_grips(model, sample.state, sample.control),
        }

    def check(self, model: Model) -> None:
        """Raise ValueError or TypeError for an invalid number of the scheme."""
        checks.check_config(model, self, type(self))


@register_scheme
@dataclass(frozen=True)
class TimeStepping(ContactScheme):
    """Time stepping at velocity level, with contacts; numbers not marked static may be batched.

    A step does ``sweeps`` sweeps of the solver, and more while the last one changed the velocity of
    a row by over ``tolerance``, up to ``most_sweeps``: accelerated ones, see ``solvers.adaptive``.
    Where all dofs are slow the tolerance is less, so that stacks rest (``tolerance_at``).
    With ``most_sweeps`` 0, or up to ``sweeps``, it does ``sweeps`` plain sweeps.

    Where a model has more than ``contacts`` contact slots, the nearest are solved for, and
    ``StepInfo.dropped_contacts`` counts contacts without a slot. None: see ``collision.nearest``.

    derivative: of the impulses, "iteration" (that of the sweeps) or "implicit" (that of the solved
    problem, see ``solvers.implicit``: exact with enough sweeps to solve it, and less costly). For
    sweeps beyond the first ``sweeps`` it is approximate, so for exact gradients through hard
    impacts set ``most_sweeps=0``, with enough ``sweeps``.
    smoothing: relaxes the implicit derivative only.
    impacts: those of a step, "at_once" as one problem of all contacts, or "successive", one contact
    after the other as in ``solvers.successive``.
    """

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

    def init(self, model: Model, state: State) -> State:
        """Add warm-start impulses to a state: zeros, unless it has some."""
        return with_warm_start(model, state)

    def step(
        self,
        model: Model,
        state: State,
        obs: Observation,
        command: Control,
        forces: Pushes | None = None,
    ) -> tuple[State, StepInfo]:
        """Run ``step`` with this scheme's numbers."""
        return step(model, state, obs, command, self, forces)


def observe(model: Model, state: State, config: Any) -> Observation:
    """Kinematics and contacts of a state; config: a scheme, whose ``touch_distance`` is used.

    Raises ModelError for a state that is not of the model.
    """
    checks.check_model(model)
    checks.check_state_fits(model, state)
    with jax.named_scope("observe"):
        kin = forward_kinematics(model, state.q, state.qd, rest_of(state))
        contacts = find_contacts(model, kin)
        return Observation(
            kin=kin,
            contacts=contacts,
            touching=_touching(model, contacts, config.touch_distance),
            com=center_of_mass(model, kin),
            com_velocity=com_velocity(model, kin),
        )


def step(
    model: Model,
    state: State,
    obs: Observation,
    control: Control,
    config: TimeStepping,
    pushes: Pushes | None = None,
) -> tuple[State, StepInfo]:
    """Advance one character by ``config.dt``; ``obs`` is ``observe(model, state, config)``.

    pushes: external forces; one acts in a step if it does at the step's first instant.
    Non-finite input gives non-finite output of this member of a batch alone.

    Raises ModelError, ValueError or TypeError for arguments of another shape, dtype or kind than
    the model needs (see ``simulation.checks``).
    """
    checks.check_config(model, config, TimeStepping)
    _check_step(model, state, obs, control, pushes)
    with jax.named_scope("rows"):
        rows = assemble_rows(model, state, obs, control, config)
    with jax.named_scope("free_motion"):
        dynamics = free_dynamics(model, state, obs.kin, rows, control, config, pushes)
    with jax.named_scope("impulses"):
        solution = solve_impulses(state, rows, dynamics, config)
    with jax.named_scope("integrate"):
        motion = integrate_step(model, state, obs.kin, dynamics, solution.y, config)
    forces = contact_forces(state, rows, dynamics, solution, motion)
    info = step_info(model, state, obs, control, rows, dynamics, solution, motion, forces)
    broken = state.broken
    if broken is not None:
        broken = broken | (safe_norm(forces.grip) > model.grip_strength)
    memory = WarmStart(all_impulses(model, rows, solution.impulse), motion.rest)
    return State(motion.q, motion.qd, state.time + config.dt, broken, memory), info


def _check_step(model, state, obs, control, pushes) -> None:
    checks.check_model(model)
    checks.check_state_fits(model, state)
    check_warm_start(model, state)
    checks.check_kind("obs", obs, Observation, how=", as observe(model, state, config) gives it")
    checks.check_observation(model, obs)
    check_control(model, control)
    checks.check_pushes(model, pushes)


def check_control(model: Model, control: Control) -> None:
    """Raise ModelError or TypeError unless it is a control of the model."""
    checks.check_kind("control", control, Control, how=", as no_control(model) gives it")
    checks.check_control(model, control)


def _touching(model: Model, contacts: Contacts, distance) -> Array:
    """(nl,) bool: links with a contact nearer than ``distance`` [m]."""
    slots = contact_slots(model.topology)
    links = np.arange(model.topology.n_links)[:, None]
    belongs = (slots.link_a[None] == links) | (slots.link_b[None] == links)
    near = jnp.where(belongs, contacts.gap, jnp.inf)
    return jnp.min(near, axis=1, initial=jnp.inf) <= distance
