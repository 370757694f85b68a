"""Torques with which a climber hangs on to the wall by some of its limbs.

The forces on the limbs that hold on keep the body at rest, feet within their friction cones, with
the least sum of squared torques, each relative to its limit. The optimal forces, by a linear
program (benchmarks/_stances.py), need somewhat less: this problem is solved in every frame.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.linalg import cho_factor, cho_solve

from jaxsim.dynamics.rigid import gravity_force
from jaxsim.synthesis.configuration import Configuration
from jaxsim.synthesis.problem import motor_mask

LEAST = 1e-3  # of a force in weights: of stretched limbs some forces take no torque
CONE = 1e4  # weight of the distance of a force outside of its cone, beside 1 of a torque
NEAR_CONE = 0.003  # margin below which an active side of a cone stays active [weights]
TRIES = 4  # solutions in which forces go back into their cones
UNBORNE = 0.02  # residual forces and moments at the root, in weights and heights
AT_STOP = 0.01  # distance to the end of its range at which a joint rests on its stop [rad]


@dataclass(frozen=True)
class Cones:
    """Friction cones of grippers that only push, along the first axis of a frame."""

    which: tuple[int, ...]  # of the grippers
    frame: Array  # (3, 3) rows: the way of the push, and two across it
    friction: Array  # () coefficient

    def sides(self, count: int) -> Array:
        """Matrix (4 len(which), 3 count) from forces on all grippers to margins at cone sides."""
        push, *across = self.frame
        ways = jnp.stack([self.friction * push + s * t for t in across for s in (-1.0, 1.0)])
        of = np.eye(count)[list(self.which)]  # (feet, count)
        return jnp.einsum("fc,wd->fwcd", of, ways).reshape(4 * len(self.which), 3 * count)


def efforts(
    conf: Configuration,
    tips: np.ndarray,
    stays: Array | np.ndarray,
    feet: Cones,
    weight: Array,
    height: Array,
) -> Array:
    """Largest torque relative to its limit, (k,), as the body hangs at rest from grippers.

    stays (k, n) bool: k choices among n grippers, effectors tips (n,) int; feet: those of them that
    do not pull; weight () [N] and height () [m] of the body. Infinite where no forces keep the body
    at rest, as on two points.
    """
    model, top = conf.model, conf.model.topology
    motors = np.flatnonzero(motor_mask(top))
    root = np.flatnonzero(~motor_mask(top))
    load = gravity_force(model, conf.kin)
    J = conf.jacobian[tips].reshape(-1, top.nv)  # (3n, nv)
    limit = model.torque_limit[motors]
    joint = np.array(top.dof_joint)[motors]
    angle = conf.q[np.array(top.q_start)[joint]]
    at_low = angle < model.joint_lower[joint] + AT_STOP
    at_high = angle > model.joint_upper[joint] - AT_STOP
    part = weight / limit
    of_torque, torque = part[:, None] * J[:, motors].T, part * load[motors] / weight
    counts = jnp.where(at_low | at_high, 0.0, 1.0)
    # moments about the root in weights times heights, forces in weights
    unit = jnp.where(np.arange(len(root)) < 3, 1.0, 1 / height)
    A, at_root = unit[:, None] * J[:, root].T, unit * load[root] / weight
    M = counts[:, None] * of_torque
    H, g = M.T @ M + A.T @ A, M.T @ torque + A.T @ at_root  # A^T A changes no solution
    sides = feet.sides(len(tips))

    def forces(stays: Array, out: Array) -> Array:
        """Forces (3n,) on the limbs that hold on; out (ns,) bool: violated sides of cones."""
        on = jnp.repeat(stays, 3)
        K = H + CONE * sides.T @ jnp.where(out[:, None], sides, 0.0)
        free = jnp.where(on[:, None] & on, K, 0.0) + jnp.diag(jnp.where(on, LEAST**2, 1.0))
        factor, rows = cho_factor(free, lower=True), jnp.where(on, A, 0.0)
        force, by_root = cho_solve(factor, jnp.where(on, g, 0.0)), cho_solve(factor, rows.T)
        S = rows @ by_root + LEAST**2 * jnp.eye(len(root), dtype=H.dtype)
        pull = cho_solve(cho_factor(S, lower=True), at_root - rows @ force)
        return force + by_root @ pull

    def effort(stays: Array) -> Array:
        out = jnp.zeros(len(sides), bool)
        force = forces(stays, out)
        for _ in range(TRIES):
            out = (sides @ force < 0) | (out & (sides @ force < NEAR_CONE))
            force = forces(stays, out)
        asked = torque - of_torque @ force
        most = jnp.max(jnp.where(at_low, -asked, jnp.where(at_high, asked, jnp.abs(asked))))
        left = jnp.max(jnp.abs(at_root - jnp.where(jnp.repeat(stays, 3), A, 0.0) @ force))
        missed = jnp.max(jnp.maximum(-sides @ force, 0.0))
        return jnp.where(jnp.maximum(left, missed) < UNBORNE, most, jnp.inf)

    return jax.vmap(effort)(jnp.asarray(stays))
