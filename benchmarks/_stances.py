"""What part of the torque limits a climber needs at least to hang where it begins, at rest.

A linear problem: of all contact forces that bear the body, hands pulling any way and feet within
their cones, those that leave the largest torque, as a part of its limit, the least. A joint at its
stop is borne by it on that side.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import linprog

from controllers.goals.climbing_moves import LIMBS
from jaxsim.dynamics.kinematics import forward_kinematics
from jaxsim.dynamics.rigid import bias_force
from jaxsim.synthesis.problem import motor_mask
from optimize.scenarios.scenario import Scenario

NEAR = 0.01  # a joint that is nearer to its stop is at it [rad]
TOES = ("leftToeExtension", "rightToeExtension")
HEAD = ["limbs that hold", "least effort, median and range", "within limits"]
HEAD += ["toes as strong as it takes: median and range", "within limits"]


@dataclass(frozen=True)
class Body:
    """The model's numbers that count, of its dofs (nv,)."""

    limit: np.ndarray  # of the torques [N m]; infinite without one
    motors: np.ndarray  # bool
    spot: np.ndarray  # int: where in q the dof's angle is
    lower: np.ndarray  # end of the range [rad]
    upper: np.ndarray
    weight: float  # [N]
    friction: float  # of the holds

    @classmethod
    def of(cls, made: Scenario, strong_toes: bool) -> "Body":
        model, top = made.model, made.model.topology
        limit, joint = np.array(model.torque_limit, float), np.array(top.dof_joint)
        if strong_toes:
            limit[[top.dof(toe) for toe in TOES]] *= 1e3
        return cls(
            limit,
            motor_mask(top),
            np.array(top.q_start)[joint],
            np.asarray(model.joint_lower)[joint],
            np.asarray(model.joint_upper)[joint],
            float(model.mass.sum()) * float(np.linalg.norm(model.gravity)),
            float(model.friction[made.scheme.holds.shapes[0]]),
        )


def stances(made: Scenario, started: tuple[Any, Any, Any, Any]) -> list[list[str]]:
    """Rows of the table, of the starts that ``climbing.walls`` gives, where there is one."""
    _, state, climb, good = started
    model, points = made.model, made.scheme.effectors
    at = np.array(made.scheme.holds.grippers)
    order = np.array([points.group_names.index(limb) for limb in LIMBS])

    @jax.jit
    @jax.vmap
    def at_rest(q):
        kin = forward_kinematics(model, q, jnp.zeros_like(state.qd[0]))
        J = points.jacobians(model, kin, points.positions(kin))
        return bias_force(model, kin), J[at[order]]

    loads, slopes = map(np.asarray, at_rest(state.q))
    bodies = [Body.of(made, strong_toes) for strong_toes in (False, True)]
    whole, rows = np.ones(len(LIMBS), bool), []
    for label, bears in (
        ("all four", whole),
        *((f"all but {limb}", np.array(LIMBS) != limb) for limb in LIMBS),
    ):
        cells = [label]
        for body in bodies:
            given = zip(np.asarray(state.q), loads, slopes[:, bears], np.asarray(climb.frame), good)
            found = [
                least_effort(body, q, load, J, frame, np.array(LIMBS)[bears])
                for q, load, J, frame, has in given
                if has
            ]
            found = np.array(found)
            low, middle, high = np.quantile(found, (0.0, 0.5, 1.0), method="lower")
            cells += [
                f"{middle:.2f}, {low:.2f} to {high:.2f}",
                f"{(found <= 1).sum()} of {len(found)}",
            ]
        rows.append(cells)
    return rows


def least_effort(
    body: Body, q: np.ndarray, load: np.ndarray, slopes: np.ndarray, frame: np.ndarray, limbs: Any
) -> float:
    """The largest torque by its limit; inf where no forces bear the body. q (nq,), load (nv,) what
    gravity asks of joints and root [N m, N], slopes (k, 3, nv) of the limbs (k,) that bear, frame
    (3, 3) of the wall: left, up, out."""
    left, up, out = frame
    forces, lowest = [], []
    for J, limb in zip(slopes, limbs):
        if limb.endswith("Hand"):
            ways, least = np.eye(3), None
        else:
            ways = np.array([up + s * body.friction * t for t in (left, out) for s in (-1, 1)])
            least = 0.0
        forces += list(ways @ J)
        lowest += [least] * len(ways)
    push = np.array(forces).T  # (nv, n) generalised force of each
    A, b = [], []
    for dof in np.flatnonzero(body.motors & np.isfinite(body.limit)):
        angle, limit = q[body.spot[dof]], body.limit[dof]
        at_lower, at_upper = angle < body.lower[dof] + NEAR, angle > body.upper[dof] - NEAR
        for sign, borne in ((1.0, at_lower), (-1.0, at_upper)):
            if not borne:  # sign (load - push f) <= effort limit
                A.append(np.append(-sign * push[dof] / limit, -1.0))
                b.append(-sign * load[dof] / limit)
    root = np.flatnonzero(~body.motors)
    done = linprog(
        np.append(np.zeros(push.shape[1]), 1.0),
        A_ub=np.array(A),
        b_ub=np.array(b),
        A_eq=np.append(push[root], np.zeros((len(root), 1)), axis=1) / body.weight,
        b_eq=load[root] / body.weight,
        bounds=[(least, None) for least in lowest] + [(0.0, None)],
    )
    return float(done.x[-1]) if done.status == 0 else np.inf
