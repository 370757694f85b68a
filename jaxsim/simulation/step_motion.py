"""Integration of a time step, with the bound on the energy of fast joints."""

from dataclasses import dataclass

from jax import Array

from jaxsim.dynamics.kinematics import (
    Kinematics,
    forward_kinematics,
    integrate,
    integrate_finely,
    with_velocity,
)
from jaxsim.dynamics.momentum import kinetic_energy
from jaxsim.dynamics.rigid import gravity_force
from jaxsim.model.model import Model
from jaxsim.model.state import State
from jaxsim.simulation.integrators import kinetic_by_work
from jaxsim.simulation.move import momentum_change, whip_weight
from jaxsim.simulation.step_dynamics import StepDynamics
from jaxsim.simulation.step_options import StepOptions
from jaxsim.simulation.warm_start import rest_of
from jaxsim.solvers.idle import unless_idle
from jaxsim.solvers.tree_factor import lower_product


@dataclass(frozen=True)
class StepMotion:
    """Positions and velocities after a step."""

    q: Array  # (nq,)
    rest: Array | None  # rounding of q, see ``warm_start``
    qd: Array  # (nv,)
    solved: Array  # (nv,) velocity before the energy of fast joints is bounded
    y: Array  # (nv,)
    after: Kinematics
    due: Array  # () kinetic energy by the work of the forces [J]


def integrate_step(
    model: Model,
    state: State,
    kin: Kinematics,
    dynamics: StepDynamics,
    y: Array,
    config: StepOptions,
) -> StepMotion:
    """Integrate the positions with the velocity of y (nv,), and bound the energy of the result."""
    top, dt = dynamics.top, dynamics.dt
    moving, rest = dynamics.velocity(y), rest_of(state)
    q = integrate(model, state.q, moving, dt)
    if rest is not None:
        q, rest = integrate_finely(model, state.q, moving, dt, rest)
    y = y + dynamics.late
    qd = solved = dynamics.velocity(y)
    inertia, bias = dynamics.inertia, dynamics.bias
    after = forward_kinematics(model, q, solved)  # for ``energy_error``, if it is asked for
    due = kinetic_by_work(model, kin, after, inertia, dt * bias, state.qd, solved)
    if config.bounded_move:

        def limited() -> Array:
            after = forward_kinematics(model, q, solved)
            due = kinetic_by_work(model, kin, after, inertia, dt * bias, state.qd, solved)
            excess = kinetic_energy(model, after, solved) - due

            def braked() -> Array:
                pose = dynamics.pose
                force = dynamics.whitened(bias - gravity_force(model, pose))
                carried = dynamics.velocity(y + force)
                return momentum_change(model, pose, carried, after, solved, excess, dynamics.moved)

            return unless_idle(excess > 0, braked)

        whip = whip_weight(top, dt * solved)
        qd = solved + whip * unless_idle(whip > 0, limited)
        after = with_velocity(top, after, qd)
        y = lower_product(top, dynamics.L, qd)
    return StepMotion(q, rest, qd, solved, y, after, due)
