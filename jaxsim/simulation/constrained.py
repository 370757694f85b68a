"""Constrained motion of a character: accelerations, and velocities after an impact.

With qdd0 the accelerations without constraint forces and K = J M^-1 J^T, the forces solve

    K f + h(qdd0) = h(qdd),

as equations, or for rows that only push as a complementarity problem. Impacts are the same problem
with changes of velocity in the place of accelerations. Source: Kokkevis, Practical Physics for
Articulated Characters (2004), sections 4 (constraints), 5 (impacts), 6 (unilateral).
"""

from collections.abc import Callable
from dataclasses import dataclass

import jax
from jax import Array

from jaxsim.constraints.acceleration import AccelerationRows, net_effects, row_jacobian
from jaxsim.dynamics.articulated import articulated_body, articulated_inertia
from jaxsim.dynamics.kinematics import Kinematics
from jaxsim.math.products import matmul
from jaxsim.model.model import Model
from jaxsim.solvers.lcp import Bounds, LCPSolution, bilateral, gauss_seidel


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Enforced:
    """Constraint forces, and the accelerations or velocities that result."""

    qdd: Array  # (nv,), or of an impact the velocities after it
    solution: LCPSolution


def enforce(
    model: Model,
    kin: Kinematics,
    tau: Array,
    rows: AccelerationRows,
    bounds: Bounds | None = None,
    method: str = "deltas",
    solver: Callable[..., LCPSolution] = gauss_seidel,
    link_force: Array | None = None,
) -> Enforced:
    """Solve for accelerations under tau (nv,) and constraint forces; bounds: default equations.

    link_force (nl, 6): other forces on the links, about their trees' roots. solver(K, b, bounds):
    one of ``solvers.lcp``, with options set by ``functools.partial``.
    """
    articulated = articulated_inertia(model, kin)
    default = articulated_body(model, kin, tau, link_force, articulated)
    effects = net_effects(model, kin, rows, method, articulated)
    J = row_jacobian(model, kin, rows)
    missing = matmul(J, default) + rows.drift - rows.desired
    solution = solver(matmul(J, effects.T), missing, bounds or bilateral(len(missing)))
    return Enforced(default + matmul(solution.force, effects), solution)


def resolve_impact(
    model: Model,
    kin: Kinematics,
    qd: Array,
    rows: AccelerationRows,
    bounds: Bounds | None = None,
    method: str = "deltas",
    solver: Callable[..., LCPSolution] = gauss_seidel,
) -> Enforced:
    """Solve for velocities (nv,) after impulses that change the rows by ``desired`` [m/s, rad/s].

    Section 5: a collision with restitution e has desired = -(1 + e) v_n for its normal row, and
    -v_t for its tangent.
    """
    effects = net_effects(model, kin, rows, method)
    K = matmul(row_jacobian(model, kin, rows), effects.T)
    solution = solver(K, -rows.desired, bounds or bilateral(len(rows.desired)))
    return Enforced(qd + matmul(solution.force, effects), solution)
