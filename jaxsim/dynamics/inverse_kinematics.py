"""Inverse kinematics of a whole body: effectors at target points, as near as possible to a pose.

Damped Gauss-Newton steps of all degrees of freedom, within the ranges of the joints (an active set:
a joint that is pushed out of its range stays at its end for the step).
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.dynamics.effectors import Effectors
from jaxsim.dynamics.jacobians import center_of_mass, com_jacobian
from jaxsim.dynamics.kinematics import forward_kinematics, integrate
from jaxsim.model import Model

STEPS = 60
DAMPING = 1e-3
LARGEST = 0.3  # largest change of a dof in a step [rad, m]
KEEP = 0.02  # weight of a joint's angle [1/rad], beside 1 [1/m] of a point's position
TURN = 0.1  # weight of the root's orientation [1/rad]
LEAN = 0.3  # weight of the centre of mass [1/m]


@partial(jax.jit, static_argnames="at")
def reach_points(
    model: Model, points: Effectors, at: tuple[int, ...], q: Array, places: Array, com: Array
) -> Array:
    """Pose (nq,) near q (nq,) with effectors and the centre of mass at target points.

    The effectors ``at`` go to ``places`` (len(at), 3), the centre of mass to ``com`` (3,) [m]; the
    effectors have the larger weight. It is a local search: from a pose far away, as from a hanging
    arm to a point overhead, it may end before it gets there.
    """
    top = model.topology
    still, index = jnp.zeros(top.nv, q.dtype), np.array(at)
    root = np.array([top.joint_kinds[j] == "free" for j in top.dof_joint])
    # the first three dofs of a free root are its position, which is free, the others turn it
    turns = root & (np.cumsum(root) > 3)
    keep = jnp.asarray(np.where(turns, TURN, np.where(root, 0.0, KEEP)), q.dtype)
    hinges = [j for j, limited in enumerate(top.joint_limited) if limited]
    spots, dofs, joints = (
        np.array([of[j] for j in hinges], int)
        for of in (top.q_start, top.v_start, range(len(top.joint_kinds)))
    )
    low, high = model.joint_lower[joints], model.joint_upper[joints]

    def step(carry: tuple[Array, Array], _) -> tuple[tuple[Array, Array], None]:
        q, moved = carry
        kin = forward_kinematics(model, q, still)
        position = points.positions(kin)
        J_places = points.jacobians(model, kin, position)[index].reshape(-1, top.nv)
        J = jnp.concatenate([J_places, LEAN * com_jacobian(model, kin), jnp.diag(keep)])
        error = jnp.concatenate(
            [
                (places - position[index]).reshape(-1),
                LEAN * (com - center_of_mass(model, kin)),
                -keep * moved,
            ]
        )
        pull, angles = J.T @ error, q[spots]
        out = ((angles <= low) & (pull[dofs] < 0)) | ((angles >= high) & (pull[dofs] > 0))
        J = jnp.where(jnp.zeros(top.nv, bool).at[dofs].set(out), 0.0, J)
        H = J.T @ J + DAMPING**2 * jnp.eye(top.nv, dtype=q.dtype)
        move = jnp.clip(jnp.linalg.solve(H, J.T @ error), -LARGEST, LARGEST)
        q = integrate(model, q, move, 1.0)
        within = jnp.clip(q[spots], low, high)
        moved = (moved + move).at[dofs].add(within - q[spots])
        return (q.at[spots].set(within), moved), None

    return jax.lax.scan(step, (q, still), None, length=STEPS)[0][0]
