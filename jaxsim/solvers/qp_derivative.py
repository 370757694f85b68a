"""Derivative of a QP's solution, from the optimality conditions."""

import jax
import jax.numpy as jnp
from jax import Array, lax

from jaxsim.math.products import matmul
from jaxsim.solvers.implicit import ROUNDS, proximal_weight, relaxed_positive
from jaxsim.solvers.interior_point import Iterate, apply_constraints, apply_constraints_transposed
from jaxsim.solvers.qp_system import (
    Reduced,
    ScaledProgram,
    apply_tasks,
    apply_tasks_transposed,
    both_sides,
    factor,
    inequalities,
    least_regularised,
    solve_factored,
)


def solution_change(
    q: ScaledProgram, system: Reduced, p: Iterate, dot: ScaledProgram, smoothing: Array
) -> tuple[Array, Array, Array, Array | None]:
    """Change of x, y, z and w by the change ``dot`` of the problem; smoothing () in scaled units.

    An inequality has (1 - D) dz + D ds = 0, with D 1 where it is active and 0 where it is not.
    """
    real = q.real
    delta = proximal_weight(p.x.dtype)
    D = jnp.where(real, relaxed_positive(p.z - p.s, smoothing)[1], 0.0)
    answer = 1 / (1 - D + delta * D)
    f = least_regularised(lambda ridge: factor(q, system, D * answer, ridge, delta), p.x.dtype)

    error = apply_tasks(q, p.x) - q.r
    g1 = -apply_tasks_transposed(dot, error) - apply_tasks_transposed(
        q, apply_tasks(dot, p.x) - dot.r
    )
    g1 = g1 + matmul(p.y, dot.A) + matmul(both_sides(q, p.z, jnp.subtract)[1], dot.G)
    g2 = dot.b - matmul(dot.A, p.x)
    of_rows = inequalities(q, jnp.zeros_like(p.x), matmul(dot.G, p.x))
    g3 = jnp.where(real, dot.d - of_rows, 0.0)
    joint, moves, g4 = q.joint, dot.joint, None
    if joint is not None and moves is not None:
        g1 = g1 + matmul(p.w, moves.C)
        g4 = moves.c - joint.total(matmul(moves.C, p.x))

    def again(change, _):
        """Step of iterative refinement; the regularised matrix is the preconditioner."""
        dx, dy, dz, dw = change
        r1 = g1 - apply_tasks_transposed(q, apply_tasks(q, dx))
        r1 = jnp.where(q.fixed, 0.0, r1 + matmul(dy, q.A) + apply_constraints_transposed(q, dz))
        r2, r4 = g2 - matmul(q.A, dx), None
        if joint is not None and g4 is not None:
            r1 = jnp.where(q.fixed, 0.0, r1 + matmul(dw, joint.C))
            r4 = g4 - joint.total(matmul(joint.C, dx))
        base = (D * (g3 - apply_constraints(q, dx)) - (1 - D) * dz) * answer
        more, dy_more, towards, dw_more = solve_factored(f, q, r1, base, r2, r4)
        dw = None if dw is None else dw + dw_more
        return (dx + more, dy + dy_more, dz + base - D * answer * towards, dw), None

    change = jnp.where(q.fixed, dot.at, 0.0), *jax.tree.map(jnp.zeros_like, (p.y, p.z, p.w))
    return lax.scan(again, change, None, length=ROUNDS)[0]
