"""Motion of a simulation from its recorded frames, for pages and pictures."""

from pathlib import Path
from typing import Any

import numpy as np

from jaxsim.io.gauges import Gauge
from jaxsim.io.motion import Motion
from jaxsim.io.motion import MotionShape as DrawnShape
from optimize.running.recording import Frame, shapes_of
from optimize.scenarios.scenario import Scenario

MARK = 0.03  # the ball that shows where an effector is to go [m]


def motion_of(scenario: Scenario, frames: Frame, time: np.ndarray, events: tuple) -> Motion:
    """Convert recorded frames (T along their first axes, on the host) to a Motion."""
    model, top = scenario.model, scenario.model.topology
    used = np.any(frames.contact_force != 0, axis=(0, 2))  # most places for contacts never are
    sign, outer = _sides(scenario)
    names, kinds, shapes = list(top.link_names), list(scenario.kinds), list(shapes_of(model))
    link_pos, link_quat = frames.link_pos, frames.link_quat
    for radius, places in scenario.controller.flying_objects(model, time):
        shapes.append(DrawnShape("sphere", len(names), size=(radius,)))
        kinds.append("prop")
        names.append(f"ball_{len(names) - top.n_links + 1}")
        still = np.broadcast_to([1.0, 0.0, 0.0, 0.0], (len(time), 1, 4))
        link_pos = np.concatenate([link_pos, places[:, None]], axis=1)
        link_quat = np.concatenate([link_quat, still], axis=1)
    for asked in scenario.controller.reach_targets:
        shapes.append(DrawnShape("sphere", -1, asked.target, size=(MARK,)))
    obs = [role for role in ("head", "pelvis") if top.roles.link(role) is not None]
    heights = {role: frames.link_com[:, top.part(role), 2] for role in obs}
    begun = scenario.conditions.get("start")
    title = scenario.title or Path(scenario.name).stem
    return Motion(
        title=f"{title}: {time[-1] - time[0]:g} s" + (f", start: {begun}" if begun else ""),
        link_names=tuple(names),
        joint_names=top.actuated_dof_names,
        phase_names=tuple(name for name, _ in scenario.phases),
        shapes=tuple(shapes),
        time=time,
        q=frames.q,
        qd=frames.qd,
        link_pos=link_pos,
        link_quat=link_quat,
        contact_pos=frames.contact_pos[:, used],
        contact_force=(frames.contact_force * sign[:, None])[:, used],
        contact_outer=outer[used],
        phase=frames.phase if scenario.phases else np.full(len(time), -1),
        phase_events=events,
        torque=frames.torque,
        torque_limit=np.asarray(model.torque_limit)[top.actuated_dofs],
        heights={**heights, "com": frames.com[:, 2]},
        planar=top.planar,
        com=frames.com,
        link_roles=tuple(kinds),
        gauges=_gauges(scenario.controller, frames),
        shares=scenario.controller.goal_shares(frames),
        **_ghost(scenario, time, len(names)),
        **({"grip_names": top.grip_names, **_grips(frames)} if top.n_grips else {}),
    )


def _gauges(controller: Any, frames: Frame) -> dict[str, Gauge]:
    """Gauges in the order of the controller's limits, then by name."""
    limits = controller.gauge_limits()
    found = {}
    for name in dict.fromkeys([*limits, *frames.gauges]):
        unit, thresholds = limits.get(name, ("", ()))
        found[name] = Gauge(unit, thresholds, frames.gauges[name])
    return found


def _ghost(scenario: Scenario, time: np.ndarray, n_links: int) -> dict[str, np.ndarray]:
    """Link poses of the controller's reference, NaN for what is drawn besides the links."""
    offered = scenario.controller.reference_poses(scenario.model, time)
    if offered is None:
        return {}
    besides = n_links - scenario.model.topology.n_links
    pos, quat = (
        np.pad(np.asarray(x), ((0, 0), (0, besides), (0, 0)), constant_values=np.nan)
        for x in offered
    )
    return {"ghost_pos": pos, "ghost_quat": quat}


def _grips(frames: Frame) -> dict[str, np.ndarray]:
    return {key: frames.more[key] for key in ("grip_pos", "grip_force", "grip_closed")}


def _sides(scenario: Scenario) -> tuple[np.ndarray, np.ndarray]:
    """Sign and scope of each contact slot's force in the record.

    The sign is 1, or -1 where the other link is the more important one of the two. The second array
    says whether the surroundings act there on the character, or on any loose body if there is none.
    """
    rank = {"character": 2, "companion": 2, "prop": 1, "driven": 0}
    role = np.array([*map(rank.get, scenario.kinds), -1])  # the last is the world's, link -1
    one, other = scenario.scheme.contact_links(scenario.model)
    a, b = role[one], role[other]
    outer = (a != b) & (np.maximum(a, b) == role.max())
    return np.where(b > a, -1.0, 1.0), outer
