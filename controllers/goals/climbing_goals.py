"""Goals of a climber; see ``controllers.goals.climb``."""

from collections.abc import Sequence
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
from jax import Array

from controllers.goals import tasks as goals
from controllers.goals.climbing_moves import CHAINS
from controllers.goals.climbing_state import Climb, order_of, row_of, the_holds
from controllers.goals.sensors import pendulum_time
from controllers.goals.tasks import Goal
from jaxsim.dynamics.jacobians import point_jacobian
from jaxsim.math.safe import safe_norm
from jaxsim.model import Topology
from jaxsim.synthesis.observation import EffectorObservation

# What keeps off the wall: joints of the trunk, hips, knees, shoulders, elbows
CLEAR = ("pelvis", "chest", *(link for chain in CHAINS for link in chain[:2]))
HEAD = 0.04  # distance of the middle of the head, too [heights]
FAR = 0.5  # from the hold, a limb's goal has its least weight, in heights of the centre of mass
LEAST = np.array([0.01, 0.01, 0.1, 0.1])  # weights of Jain, Ye, Liu (2009), of feet and of hands
NEAREST = np.array([0.3, 0.3, 0.25, 0.25])


def _tip(obs: EffectorObservation, climb: Climb) -> tuple[Array, Array]:
    """Offset (3,) from hold to gripper of the moving limb [m], and its Jacobian (3, nv)."""
    conf, holds = obs.conf, the_holds(obs)
    at = holds.grippers[order_of(obs)]
    place = jnp.sum(
        jnp.where((climb.hold == np.arange(holds.pos.shape[0]))[:, None], holds.pos, 0.0),
        axis=0,
    )
    return row_of(climb.limb, conf.position[at]) - place, row_of(climb.limb, conf.jacobian[at])


def com_to_place() -> Goal:
    """Gcom: centre of mass where all limbs reach their holds, ``Climb.depth`` off the wall."""

    def rows(obs: EffectorObservation, climb: Climb):
        return obs.conf.com - climb.com_target, obs.conf.com_jacobian

    return Goal("com", "com", rows)


def limb_to_hold() -> Goal:
    """Gp: limb of the move to its hold; the weight grows as it gets nearer.

    The state's weight is in units of that of a hand that is near.
    """

    def rows(obs: EffectorObservation, climb: Climb):
        away, J = _tip(obs, climb)
        part = jnp.clip(safe_norm(away) / (FAR * climb.limbs.height), 0.0, 1.0)
        least, nearest = (row_of(climb.limb, x.tolist()) for x in (LEAST, NEAREST))
        root = jnp.sqrt((nearest + (least - nearest) * part) / nearest)
        return root * away, root * J

    return Goal("hold", "limb", rows)


def pose_near(joints: Sequence[str]) -> Goal:
    """Gpose: hinges as at the start, once a foot is near its hold.

    The hinges of that foot's leg are left out, since they would keep it from getting there.
    """
    pose = goals.pose("pose", tuple(joints), lambda _, climb: climb.pose)

    def rows(obs: EffectorObservation, climb: Climb):
        away = safe_norm(_tip(obs, climb)[0]) / (climb.pace.pose * climb.limbs.height)
        others = climb.limb != limbs_of(obs.conf.model.topology, joints)
        root = jnp.where(others, jnp.clip(1.0 - away, 0.0, 1.0), 0.0)  # at once, it would jerk
        error, J = pose.rows(obs, climb)
        return root * error, root[:, None] * J

    return replace(pose, rows=rows)


def limbs_of(top: Topology, joints: Sequence[str]) -> np.ndarray:
    """Index (n,) of each joint's limb in ``LIMBS``; 4 for joints of the trunk."""
    first = [top.part(chain[0]) for chain in CHAINS]

    def of(link: int) -> int:
        while link >= 0 and link not in first:
            link = top.link_parent[link]
        return first.index(link) if link >= 0 else len(first)

    return np.array([of(top.joint_link[top.joint(name)]) for name in joints])


def clear_of_wall() -> Goal:
    """Hips, knees, shoulders, elbows, trunk and head in front of the holds.

    Nothing else keeps them out of the wall. A point that would be behind the holds within
    ``Pace.ahead`` approaches so slowly that it takes this time; a point behind them returns within
    it.
    """

    def rows(obs: EffectorObservation, climb: Climb):
        conf, errors, slopes = obs.conf, [], []
        head = conf.link("head")
        time = climb.pace.ahead * pendulum_time(obs, climb.limbs.height)
        points = [(conf.link(name), conf.kin.link_pos[conf.link(name)], 0.0) for name in CLEAR]
        for link, place, more in (*points, (head, conf.kin.com[head], HEAD)):
            least = (climb.pace.off + more) * climb.limbs.height
            short = (place - climb.origin) @ climb.frame[2] - least
            slope = climb.frame[2] @ point_jacobian(conf.model, conf.kin, link, place)
            near = short + time * (slope @ conf.v) < 0
            errors.append(jnp.where(near, short / time, 0.0))
            slopes.append(jnp.where(near, slope, 0.0))
        return jnp.stack(errors), jnp.stack(slopes)

    return Goal("clear", "com", rows, "velocity")
