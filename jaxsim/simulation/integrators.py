"""Runge-Kutta method for smooth motion, and the kinetic energy that a time step should have."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.dynamics.articulated import articulated_body
from jaxsim.dynamics.kinematics import Kinematics, forward_kinematics, integrate
from jaxsim.dynamics.momentum import kinetic_energy
from jaxsim.math.products import matmul
from jaxsim.math.rotation import quat_normalize
from jaxsim.model.joints import Q_SIZE
from jaxsim.model.model import Model

Force = Callable[[Array, Array, Kinematics], Array]


def runge_kutta(
    model: Model, q: Array, qd: Array, dt: Array | float, force: Force | None = None
) -> tuple[Array, Array]:
    """Classical Runge-Kutta step of fourth order: q (nq,) and qd (nv,) after dt [s].

    force(q, qd, kin) gives the generalised forces (nv,) [N m or N] at every stage; none by default.
    ``step`` is of first order, with contact; use this one as its reference, or for flight.
    """

    def slope(q, qd):
        kin = forward_kinematics(model, q, qd)
        _, rate = jax.jvp(lambda t: integrate(model, q, qd, t), (0.0,), (1.0,))
        tau = jnp.zeros_like(qd) if force is None else force(q, qd, kin)
        return rate, articulated_body(model, kin, tau)

    def stage(carry, weights):
        total, last = carry
        ahead, share = weights
        last = slope(q + ahead * dt * last[0], qd + ahead * dt * last[1])
        total = total[0] + share * dt * last[0], total[1] + share * dt * last[1]
        return (total, last), None

    weights = jnp.array([0, 0.5, 0.5, 1], q.dtype), jnp.array([1, 2, 2, 1], q.dtype) / 6
    start = (q, qd), (jnp.zeros_like(q), jnp.zeros_like(qd))
    ((q_new, qd_new), _), _ = jax.lax.scan(stage, start, weights)
    return _unit_quaternions(model, q_new), qd_new


def kinetic_by_work(
    model: Model,
    kin: Kinematics,
    after: Kinematics,
    inertia: Array,
    bias: Array,
    before: Array,
    qd: Array,
) -> Array:
    """() kinetic energy at the pose ``after`` if only the work of all forces changed it [J].

    A step from kin and the velocities ``before`` (nv,) leads to qd (nv,) by the mass matrix
    (nv, nv) and the impulse of the bias force (nv,) of one pose. The work of impulses is that at
    the mean of the velocities before and after, of gravity that of the fall.
    """
    fallen = jnp.sum(model.mass[:, None] * (after.com - kin.com) * model.gravity[None])
    gained = jnp.sum((qd - before) * matmul(inertia, qd + before)) / 2
    of_bias = jnp.sum(bias * (before + qd)) / 2
    return kinetic_energy(model, kin, before) + gained + of_bias + fallen


def _unit_quaternions(model: Model, q: Array) -> Array:
    top = model.topology
    for kind in ("ball", "free"):
        for joint in top.joints_of(kind):
            end = top.q_start[joint] + Q_SIZE[kind]
            at = np.arange(end - 4, end)
            q = q.at[at].set(quat_normalize(q[at]))
    return q
