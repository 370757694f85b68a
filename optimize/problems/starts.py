"""Slightly different starts of a motion."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxsim.collision.contacts import lowest_point
from jaxsim.dynamics.kinematics import forward_kinematics, integrate
from jaxsim.model import Model, State

ANGLE, RATE = 0.02, 0.1  # deviations of a start's joints [rad], [rad/s]


def start_states(
    model: Model,
    standing: State,
    count: int,
    seed: int,
    spread: tuple[float, float] = (ANGLE, RATE),
) -> State:
    """``count`` starts, with a leading axis: ``standing`` first, then with small normal deviations
    of the character's joints, within their limits, and of their velocities; its lowest point as
    high as it was.

    spread: standard deviations of the two [rad], [rad/s]. The joints of roots stay as they are.
    """
    top = model.topology
    own = top.main_links
    root = np.isin(np.asarray(top.dof_joint), top.root_joints) | ~own[np.asarray(top.dof_link)]
    root[top.driven_dofs] = True
    key = jax.random.split(jax.random.key(seed), 2)
    shape, dtype = (count, top.nv), model.mass.dtype
    some = jnp.where((jnp.arange(count) > 0)[:, None] & ~root, 1.0, 0.0).astype(dtype)
    hinges = np.array(
        [j for j in top.limited_joints if top.joint_kinds[j] in ("hinge", "slide")], int
    )
    at = np.array(top.q_start)[hinges]
    turn = spread[0] * some * jax.random.normal(key[0], shape, dtype)
    rate = spread[1] * some * jax.random.normal(key[1], shape, dtype)

    def low(q):
        return lowest_point(model, forward_kinematics(model, q, standing.qd), own)

    def one(turn, rate):
        q = integrate(model, standing.q, turn, jnp.ones((), dtype))
        bounds = model.joint_lower[hinges], model.joint_upper[hinges]
        q = q.at[at].set(jnp.clip(q[at], *bounds))
        if top.root_height is not None:
            q = q.at[top.root_height].add(low(standing.q) - low(q))
        return standing.replace(q=q, qd=standing.qd + rate)

    return jax.jit(jax.vmap(one))(turn, rate)
