"""Time stepping: pose and contacts -> control -> free motion -> impulses -> new state.

The step is semi-implicit Euler at velocity level. Damping, passive and of the PD controllers, is
implicit: the free motion and the impulses see M + h D in the place of M, so that a light hand
under a stiff wrist is stable at 1 ms, where h kd / I is about 2 and an explicit damper blows up.
"""

from dataclasses import dataclass

import jax

from jaxsim.math.safe import safe_norm
from jaxsim.model.model import Model
from jaxsim.model.state import State
from jaxsim.simulation import checks
from jaxsim.simulation.pushes import Pushes
from jaxsim.simulation.records import Control, Observation, StepInfo
from jaxsim.simulation.scheme import register_scheme
from jaxsim.simulation.step_dynamics import free_dynamics
from jaxsim.simulation.step_impulses import solve_impulses
from jaxsim.simulation.step_info import contact_forces, step_info
from jaxsim.simulation.step_motion import integrate_step
from jaxsim.simulation.step_options import StepOptions
from jaxsim.simulation.step_rows import all_impulses, assemble_rows
from jaxsim.simulation.warm_start import (
    WarmStart,
    check_warm_start,
    with_warm_start,
)


@register_scheme
@dataclass(frozen=True)
class TimeStepping(StepOptions):
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
