"""Acceleration constraints: scalar linear functions of qdd, h(qdd) = J qdd + drift - desired.

A row is a test force of one unit; it does work on the acceleration that it constrains, so J
also gives its generalised force. Source: Kokkevis, Practical Physics for Articulated Characters
(2004), sections 4 (constraints) and 8.3 (motion control). ``simulation.constrained`` solves for the
forces.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.linalg import cho_factor, cho_solve
from scipy.optimize import brentq

from jaxsim.constraints.rows import grip_axes, grip_points
from jaxsim.dynamics.articulated import (
    Articulated,
    acceleration_deltas,
    articulated_body,
    articulated_inertia,
)
from jaxsim.dynamics.kinematics import Kinematics, mask_product, point_velocity
from jaxsim.dynamics.rigid import mass_matrix
from jaxsim.math.rotation import cross
from jaxsim.math.spatial import wrench_at
from jaxsim.model.model import Model

METHODS = ("mass", "deltas", "abm")


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class AccelerationRows:
    """Rows of m scalar acceleration constraints."""

    link_force: Array  # (m, nl, 6) test forces on the links, about their trees' roots
    torque: Array  # (m, nv) test torques on the dofs
    drift: Array  # (m,) constrained acceleration at qdd = 0 [m/s^2 or rad/s^2]
    desired: Array  # (m,) desired acceleration, or of an impact the change of velocity


def joint_rows(model: Model, dofs: Sequence[int], desired: Array) -> AccelerationRows:
    """Rows of the accelerations of degrees of freedom (static indices); desired (m,)."""
    desired = jnp.asarray(desired, model.mass.dtype)
    torque = jnp.asarray(np.eye(model.topology.nv)[np.array(dofs, int)], desired.dtype)
    links = jnp.zeros((len(torque), model.topology.n_links, 6), desired.dtype)
    return AccelerationRows(links, torque, jnp.zeros_like(desired), desired)


def point_rows(
    model: Model,
    kin: Kinematics,
    links: Sequence[int] | Array,
    points: Array,
    directions: Array,
    desired: Array,
    others: Sequence[int] | Array | None = None,
) -> AccelerationRows:
    """Rows of the accelerations along directions (m, 3) of the links' points now at points (m, 3).

    links, others: indices (m,); with others (-1 is the world) the acceleration is relative to
    the point of that link at the same place, and the forces act on the two in pairs. Only the
    bodies move, not the direction: for one that turns, subtract its share from ``desired``.
    """
    desired = jnp.asarray(desired, model.mass.dtype)
    zeros = jnp.zeros((len(links), model.topology.n_links, 6), desired.dtype)
    force, drift = zeros, jnp.zeros_like(desired)
    of_links = jnp.asarray(links, int)
    of_others = jnp.full_like(of_links, -1) if others is None else jnp.asarray(others, int)
    for sign, link in ((1.0, of_links), (-1.0, of_others)):
        moves = jnp.where(link >= 0, sign, 0.0).astype(desired.dtype)
        link = jnp.maximum(link, 0)
        wrench = wrench_at(points, kin.reference[link], directions)
        pushed = link[:, None] == np.arange(model.topology.n_links)
        force = force + jnp.where(pushed[:, :, None], (moves[:, None] * wrench)[:, None], 0.0)
        bias = kin.bias[link]
        turning = cross(kin.velocity[link, :3], point_velocity(kin, link, points))
        falling = bias[:, 3:] + cross(bias[:, :3], points - kin.reference[link]) + turning
        drift = drift + moves * jnp.sum(directions * falling, axis=-1)
    return AccelerationRows(
        force, jnp.zeros((len(links), model.topology.nv), desired.dtype), drift, desired
    )


def grip_rows(model: Model, kin: Kinematics, closed: Array, desired: Array) -> AccelerationRows:
    """Rows of the relative accelerations of the grips' two points; desired (ng, K) [m/s^2].

    closed (ng,) bool: the others become rows of zeros. K as in ``constraints.rows.grip_rows``.
    """
    top = model.topology
    axes = grip_axes(top, kin.axis.dtype)
    k = len(axes)
    directions = jnp.where(closed[:, None, None], axes, 0.0).reshape(-1, 3)
    sides = [
        point_rows(
            model,
            kin,
            np.repeat(link, k).tolist(),
            jnp.repeat(at, k, axis=0),
            directions,
            jnp.zeros(desired.size),
        )
        for link, at in zip((top.grip_link, top.grip_other), grip_points(model, kin))
    ]
    apart = jax.tree.map(jnp.subtract, *sides)
    return replace(apart, desired=jnp.where(closed[:, None], desired, 0.0).reshape(-1))


def stack_rows(*parts: AccelerationRows) -> AccelerationRows:
    """Concatenate rows."""
    return jax.tree.map(lambda *x: jnp.concatenate(x), *parts)


def row_jacobian(model: Model, kin: Kinematics, rows: AccelerationRows) -> Array:
    """Jacobian J (m, nv): generalised forces of the test forces."""
    on_freedoms = jax.vmap(partial(mask_product, model.topology.link_dofs.T))(rows.link_force)
    return rows.torque + jnp.sum(kin.axis[None] * on_freedoms, axis=-1)


def net_effects(
    model: Model,
    kin: Kinematics,
    rows: AccelerationRows,
    method: str = "deltas",
    articulated: Articulated | None = None,
) -> Array:
    """(m, nv) change of qdd by each test force. K is ``row_jacobian @ net_effects.T``.

    method: "abm" calls the articulated-body method again with each test force (section 4.2),
    "deltas" passes only the change up and down the tree (4.3), "mass" solves with the mass matrix.
    They agree to rounding; benchmarks/constraint_matrix.py compares their cost.
    """
    if method not in METHODS:
        raise ValueError(f"method {method!r}: there are {', '.join(METHODS)}")
    top = model.topology
    if method == "mass":
        factor = cho_factor(mass_matrix(model, kin))
        return cho_solve(factor, row_jacobian(model, kin, rows).T).T
    if articulated is None:
        articulated = articulated_inertia(model, kin)
    if method == "deltas":
        return jax.vmap(partial(acceleration_deltas, top, articulated))(
            rows.link_force, rows.torque
        )
    default = articulated_body(model, kin, jnp.zeros_like(rows.torque[0]))
    tested = jax.vmap(lambda f, t: articulated_body(model, kin, t, f))(rows.link_force, rows.torque)
    return tested - default


def target_acceleration(
    error: Array, error_rate: Array, settling_time: Array | float, remaining: float | None = None
) -> Array:
    """Critically damped PD acceleration, Kp (q_d - q) + Kd (qd_d - qd), from the two differences.

    Source: Kokkevis (2004), equation 22. His gains are Kp = 1/ts^2 and Kd = 2/ts, and he states
    that the joint is within 10% of its target after ts; (1 + t/ts) exp(-t/ts) is 74% there, and 10%
    at 3.89 ts. With ``remaining`` the gains are those that leave this share of the error after ts.
    """
    rate = (1.0 if remaining is None else _settled(remaining)) / settling_time
    return rate * rate * error + 2 * rate * error_rate


def _settled(remaining: float) -> float:
    """Solve (1 + x) exp(-x) = remaining for x."""
    if not 0 < remaining < 1:
        raise ValueError(
            f"remaining is {remaining}; give the part of the error that is left, 0 to 1"
        )
    x, _ = brentq(lambda x: (1 + x) * np.exp(-x) - remaining, 0, 100, full_output=True)
    return x
