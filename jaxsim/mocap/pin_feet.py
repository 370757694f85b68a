"""Pinning of stance feet by inverse kinematics of the legs.

In certain stance the ankle is moved to one place, and to the height at which the sole touches the
ground; before and after, the correction fades over 0.1 s. Damped Gauss-Newton steps of hips, knees
and ankles of all frames at once; the foot keeps its orientation.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.dynamics.kinematics import forward_kinematics, integrate
from jaxsim.math.rotation import compose, cross, matrix_to_quat, quat_log, rotate
from jaxsim.mocap.body import RoleLinks
from jaxsim.mocap.fit_angles import in_blocks, role_frames, role_points
from jaxsim.mocap.stance import runs
from jaxsim.model import Model

__all__ = ["pin_feet"]

BLEND = 0.1  # [s]
STEPS = 10
PLACE = 30.0  # [1/m] weight of an ankle's place, beside 1 [1/rad] of the foot's orientation
KEEP = 0.03  # weight of the orientation of thigh and shank
DAMPING = 1e-4
LEG = ("Thigh", "Shank", "Foot")
BENT = 0.15  # [rad] a knee that is a ball starts bent by at least this, so that it bends this way
REACH = 0.998  # of a leg's length; further than this, or than it was, it is not stretched


def pin_feet(
    model: Model,
    body: RoleLinks,
    q: np.ndarray,
    ankles: np.ndarray,
    lowest: np.ndarray,
    stands: np.ndarray,
    flat: np.ndarray,
    rate: float,
) -> np.ndarray:
    """Coordinates (T, nq) with the feet pinned.

    q (T, nq); ankles (T, 2, 3) [m] and the lowest points of the soles (T, 2) [m], of left and
    right, at q; stands (T, 2): in stance, flat (T, 2): also in one place; rate [Hz].
    """
    shift = np.zeros_like(ankles)
    for k in range(2):
        level = np.zeros((len(q), 2))
        for start, end in runs(flat[:, k]):
            place = ankles[start:end, k, :2]
            level[start:end] = place.mean(axis=0) - place
        shift[:, k, :2] = blend(level, flat[:, k], rate)
        shift[:, k, 2] = blend(-lowest[:, k, None], stands[:, k], rate)[:, 0]

    def some(q, places):
        dtype = model.mass.dtype
        return reach_ankles(model, body, jnp.asarray(q, dtype), jnp.asarray(places, dtype))

    return np.asarray(in_blocks(some, len(q), q, ankles + shift), np.float64)


def blend(values: np.ndarray, mask: np.ndarray, rate: float) -> np.ndarray:
    """Values (T, n) where the (T,) mask holds, faded to zero around it over BLEND.

    Or over the gap to the next stretch where that is shorter.
    """
    out = np.where(mask[:, None], values, 0.0)
    count = len(mask)
    for start, end in runs(~mask):
        gap = end - start + 1
        reach = max(min(BLEND * rate, gap), 1.0)
        k = np.arange(1, end - start + 1)
        for edge, share in ((start - 1, k / reach), (end, (gap - k) / reach)):
            if 0 <= edge < count:
                part = np.clip(share, 0.0, 1.0)
                fade = 1.0 - part * part * (3.0 - 2.0 * part)
                out[start:end] += fade[:, None] * values[edge]
    return out


@partial(jax.jit, static_argnames="body")
def reach_ankles(model: Model, body: RoleLinks, q: Array, places: Array) -> Array:
    """Coordinates (N, nq) with the ankles as near to ``places`` (N, 2, 3) [m] as the legs reach."""
    return jax.vmap(partial(_reached, model, body))(q, places)


def _reached(model: Model, body: RoleLinks, q: Array, places: Array) -> Array:
    top = model.topology
    roles = [body.index(f"{side}{limb}") for side in ("left", "right") for limb in LEG]
    feet = np.array(roles[2::3])
    joints = [j for k in roles for j in body.joints[k]]
    dofs = np.flatnonzero(np.isin(top.dof_joint, joints))
    carried = top.link_dofs[np.array(body.links)[roles]][:, dofs]
    weights = np.array([KEEP, KEEP, 1.0] * 2)[:, None]
    hinges = [j for j in joints if top.joint_kinds[j] == "hinge" and top.joint_limited[j]]
    start, limited = np.array([top.q_start[j] for j in hinges], int), np.array(hinges, int)
    still = jnp.zeros(top.nv, q.dtype)
    kin = forward_kinematics(model, q, still)
    aims, points = role_frames(body, kin)[np.array(roles)], role_points(body, kin)
    places = _in_reach(points[np.array(roles[::3])], points[feet], places, body.leg)
    q = _bent(model, body, q, aims)

    def step(q: Array, _) -> tuple[Array, None]:
        kin = forward_kinematics(model, q, still)
        frames, points = role_frames(body, kin)[np.array(roles)], role_points(body, kin)[feet]
        back = jnp.swapaxes(frames, -1, -2)
        turn = weights * quat_log(matrix_to_quat(compose(back, aims)))
        axis = kin.axis[dofs]
        J_turn = rotate(back[:, None], axis[None, :, :3]) * (carried * weights)[..., None]
        arm = points[:, None] - kin.reference[body.links[roles[0]]]
        J_place = axis[None, :, 3:] + cross(axis[None, :, :3], arm)
        J_place = PLACE * J_place * carried[2::3][..., None]
        J = jnp.concatenate([J_turn, J_place])
        J = jnp.swapaxes(J, 1, 2).reshape(-1, len(dofs))
        error = jnp.concatenate([turn, PLACE * (places - points)]).reshape(-1)
        H = J.T @ J + DAMPING * jnp.eye(len(dofs), dtype=q.dtype)
        move = jnp.clip(jnp.linalg.solve(H, J.T @ error), -0.3, 0.3)
        q = integrate(model, q, still.at[dofs].set(move), 1.0)
        if hinges:
            low, high = model.joint_lower[limited], model.joint_upper[limited]
            q = q.at[start].set(jnp.clip(q[start], low, high))
        return q, None

    return jax.lax.scan(step, q, None, length=STEPS)[0]


def _in_reach(hips: Array, ankles: Array, places: Array, leg: float) -> Array:
    """Places (2, 3) [m], those beyond reach moved to the line from the hip."""
    way = places - hips
    far = jnp.linalg.norm(way, axis=-1, keepdims=True)
    least = jnp.linalg.norm(ankles - hips, axis=-1, keepdims=True)
    return hips + way * jnp.minimum(1.0, jnp.maximum(least, REACH * leg) / far)


def _bent(model: Model, body: RoleLinks, q: Array, frames: Array) -> Array:
    """Coordinates (nq,) with ball knees bent by BENT or more.

    frames (6, 3, 3): of both legs' LEG.
    """
    top, move = model.topology, jnp.zeros(model.topology.nv, q.dtype)
    for side, role in enumerate(("leftShank", "rightShank")):
        k = body.index(role)
        if [top.joint_kinds[j] for j in body.joints[k]] == ["ball"]:
            x, z = (frames[3 * side][:, n] @ frames[3 * side + 1][:, 2] for n in (0, 2))
            axis = jnp.asarray(body.offsets[k][1], q.dtype)
            more = jnp.maximum(BENT - jnp.arctan2(x, z), 0.0)
            start = top.v_start[body.joints[k][0]]
            move = move.at[start : start + 3].set(more * axis)
    return integrate(model, q, move, 1.0)
