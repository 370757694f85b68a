"""Summary of a motion: phases and what ended them, heights, errors of the solver."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jaxsim.characters.standing import above_standing, standing_height
from jaxsim.model.part import character_parts
from jaxsim.model.roles import FEET, TOES
from jaxsim.simulation.health import Failure
from jaxsim.solvers.status import Status
from jaxsim.viewer.values import plain_text
from optimize.running.recording import Frame
from optimize.scenarios.scenario import Scenario

AIRBORNE, STRIDE = 0.05, 0.05  # of a step, at least [s], [m]

# group -> key of the summary -> how a reader sees it, with its unit
LABELS = {
    "Motion": {
        "final_head_height": "head height at the end [m]",
        "max_head_height": "greatest head height [m]",
        "time_above_": "head above {} m [s]",
        "distance": "distance walked [m]",
        "airborne_time": "without contact [s]",
        "energy": "squared torques over time [(N m)² s]",
        "max_torque_ratio": "greatest torque, of its limit",
        "asked_torque_ratio": "greatest torque that the controller asks for, of its limit",
        "contacts_at_end": "in contact at the end",
        "final_com_height": "centre of mass at the end [m]",
        "largest_contact_force": "largest contact force in a step [N]",
        "broken_grips": "grips torn off",
        "standing": "standing at the end",
        "companions_standing": "companions that stand at the end",
        "clasped_steps": "frames in which hands hold each other",
        "largest_clasp_force": "greatest force between hands that hold each other [N]",
        "largest_clasp_speed": "fastest that hands met which took hold of each other [m/s]",
        "steps_taken": "steps taken, by contact",
        "steps_begun": "steps begun by the controller",
        "longest_step": "longest step [m]",
        "hand_support_time": "with a force on a hand [s]",
        "sliding_time": "with a foot that slides [s]",
        "slip_distance": "way of feet that slide [m]",
        "goals_against": "goals that pulled against each other the most",
        "reach_distance": "furthest from where an effector was to be [m]",
        "hold_drift": "furthest from where an effector was held [m]",
        "largest_hold_force": "greatest force of what is held [N]",
        "clip_error": "mean distance of the links from the clip [m]",
        "largest_clip_error": "largest such distance [m]",
        "ball_clearance": "least distance of a ball to the body [m]",
    },
    "Accuracy": {
        "verdict": "verdict",
        "failed_at": "diverges at [s]",
        "finite": "all values finite",
        "largest_penetration": "largest penetration of any shape [m]",
        "effector_penetration": "largest penetration of hands and feet [m]",
        "first_penetration": "overlap at the start [m]",
        "largest_residual": "largest solver residual [m/s; events: m/s²]",
        "most_left_out": "most contacts left out in a step",
        "left_out_time": "time with contacts left out [s]",
        "largest_root_residual": "largest force without a source at the root [N, N m]",
        "largest_cone_excess": "largest contact force outside of its cone [N]",
        "rolled_back": "frames rolled back for a contact that broke",
        "unsolved_frames": "frames whose optimisation is not solved",
        "unfinished_time": "time of steps not used up [s]",
        "unsolved_time": "time of steps with forces not solved for [s]",
    },
    "Conditions": {
        "scenario": "scenario",
        "character": "character",
        "controller": "controller",
        "scheme": "scheme of the step",
        "links": "links",
        "dofs": "degrees of freedom",
        "start": "start",
        "build": "build",
        "chair_height": "chair height [m]",
        "friction": "friction coefficient",
        "total_mass": "mass of the character [kg]",
        "seconds": "simulated time [s]",
        "dt": "time step [s]",
        "precision": "precision",
        "device": "device",
        "compile_seconds": "compiling [s]",
        "run_seconds": "running [s]",
        "steps_per_second": "steps per second",
    },
}


def phases_of(scenario: Scenario, frames: Frame, changes: Sequence, first: float, end: float):
    """Phases of a motion: name, start [s], end [s], and the condition that ended each.

    changes: (time [s], phase) where the controller reports them, else they are found from frames.
    The last phase is ended by nothing (None): there the simulation ended.
    """
    if not scenario.phases:
        return []
    entered = [(first, int(frames.phase[0]))]
    if changes is not None:
        entered += [(time, phase) for time, phase in changes if time < end]
    else:
        begun = np.flatnonzero(np.diff(frames.since)) + 1
        entered += [(float(frames.since[k]), int(frames.phase[k])) for k in begun]
    ends = [*(time for time, _ in entered[1:]), end]
    phases = [
        {
            "name": scenario.phases[phase][0],
            "start": round(start, 6),
            "end": round(stop, 6),
            "ended_by": scenario.phases[phase][1],
        }
        for (start, phase), stop in zip(entered, ends, strict=True)
    ]
    phases[-1]["ended_by"] = None
    return phases


def phase_events(phases: Sequence[Mapping[str, Any]]) -> tuple[tuple[float, str, str], ...]:
    """Phase changes (time, name, cause) as a Motion stores them."""
    causes = ["start", *(phase["ended_by"] for phase in phases)]
    return tuple((p["start"], p["name"], why) for p, why in zip(phases, causes, strict=False))


def outcome(
    scenario: Scenario,
    frames: Frame,
    time: np.ndarray,
    measured: Mapping[str, Any],
    failure: Failure | None,
) -> dict[str, Any]:
    """Entries of the summary for any motion: heights, distance, contacts, divergence.

    frames: T along their first axes; measured: folded over all steps.
    """
    top, com = scenario.model.topology, frames.link_com
    names, kinds = list(top.link_names), scenario.kinds
    entries = dict(measured)
    for head in top.parts(["head"]):
        entries["final_head_height"] = com[-1, head, 2]
    if "time_above" in entries:
        height = standing_height(scenario.model)
        entries[f"time_above_{height:.3g}"] = entries.pop("time_above")
    for pelvis in top.parts(["pelvis"]):
        entries["distance"] = com[-1, pelvis, 0] - com[0, pelvis, 0]
    if "character" in kinds:
        if top.roles.stands:
            entries["standing"] = bool(above_standing(scenario.model)(com[-1]) >= 0)
        if "companion" in kinds:
            entries["companions_standing"] = _standing_companions(scenario, com)
        on = zip(names, kinds, frames.touching[-1])
        touching = [name for name, kind, touches in on if touches and kind == "character"]
        entries["contacts_at_end"] = touching if failure is None else []
        feet = [top.parts(of_side) for of_side in zip(FEET, TOES)]
        entries["steps_taken"] = steps_taken(feet, frames, time)
    entries |= scenario.controller.summary_entries(scenario.scheme, scenario.model, frames, time)
    torn = entries.pop("torn_at", ())
    grips = zip(top.grip_names, np.asarray(torn))
    entries["broken_grips"] = [f"{name} at {at:.3f} s" for name, at in grips if np.isfinite(at)]
    return {"final_com_height": frames.com[-1, 2], **entries, **verdict(failure)}


def _standing_companions(scenario: Scenario, com: np.ndarray) -> list[str]:
    """Names of the companions that stand in the last of com (T, nl, 3) of links [m].

    By ``above_standing``; only of those whose roles are known.
    """
    model, top = scenario.model, scenario.model.topology
    found = []
    for part in character_parts(top)[1:]:
        first = part.links[0]
        if scenario.kinds[first] == "companion" and part.topology.roles.stands:
            if above_standing(part.of(model))(com[-1, part.links]) >= 0:
                found.append(top.link_names[first].partition(".")[0])
    return found


def steps_taken(feet: Sequence[list[int]], frames: Frame, time: np.ndarray) -> int | None:
    """Count steps by contact; None for a body without feet.

    A step is a foot that was off the ground for ``AIRBORNE`` at least, and comes down ``STRIDE`` or
    more from where it left. feet: the links of each foot, its toes among them.
    """
    count, has_feet = 0, False
    for links in feet:
        if not links:
            continue
        has_feet = True
        on, place = frames.touching[:, links].any(axis=1), frames.link_com[:, links[0], :2]
        left = None
        for k in range(1, len(on)):
            if on[k - 1] and not on[k]:
                left = k
            elif on[k] and not on[k - 1] and left is not None:
                far = np.linalg.norm(place[k] - place[left]) >= STRIDE
                count += int(far and time[k] - time[left] >= AIRBORNE)
    return count if has_feet else None


def verdict(failure: Failure | None) -> dict[str, Any]:
    """Divergence entries of a summary: the reason, and the time from which on it holds."""
    status = Status.OK if failure is None else failure.status
    return {
        "verdict": status.message,
        "finite": status != Status.NOT_FINITE,
        "failed_at": None if failure is None else failure.time,
    }


def json_safe(value: Any) -> Any:
    """Convert to plain Python values, floats to ten digits; not finite numbers become None."""
    if isinstance(value, Mapping):
        return {str(k): json_safe(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_safe(v) for v in value]
    if isinstance(value, (str, bool, int)) or value is None:
        return value
    if hasattr(value, "tolist"):
        return json_safe(value.tolist())
    return float(f"{value:.10g}") if math.isfinite(value) else None


def page_rows(summary: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Rows of the summary for the table of a page: groups of label and value."""
    groups = {
        group: {
            label.format(key.removeprefix(known)): summary[key]
            for known, label in labels.items()
            for key in ([k for k in summary if k.startswith(known)] if "{" in label else [known])
            if summary.get(key) not in (None, [])
        }
        for group, labels in LABELS.items()
    }
    if "objective" in summary:
        judged = summary["objective"]
        groups[f"Objective {judged['name']}"] = {"total": judged["total"], **judged["parts"]}
    return groups


def table(summary: Mapping[str, Any]) -> str:
    """Format the summary as lines for a terminal."""
    groups = page_rows(summary)
    width = max(len(label) for rows in groups.values() for label in rows)
    lines = []
    for group, rows in groups.items():
        lines.append(group)
        lines += [f"  {label:<{width}}  {plain_text(value)}" for label, value in rows.items()]
    phases = summary.get("phases", [])
    lines += ["Phases"] if phases else []
    for phase in phases:
        why = phase["ended_by"] or "end of the simulation"
        lines.append(f"  {phase['start']:7.3f} s  {phase['name']:<20}  {why}")
    return "\n".join(lines)
