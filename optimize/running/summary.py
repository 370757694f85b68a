"""What a motion was like, in numbers: phases and what ended them, heights, errors of the solver."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from controllers.scl.ast import ContactCondition, Script, Transition
from jaxsim.simulation.health import Failure
from jaxsim.solvers.status import Status
from jaxsim.viewer.values import plain_text
from optimize.running.recording import Event, Frame

# group -> key of the summary -> how a reader sees it, with its unit
LABELS = {
    "Motion": {
        "final_head_height": "head height at the end [m]",
        "max_head_height": "greatest head height [m]",
        "time_above_1.8": "head above 1.8 m [s]",
        "distance": "distance walked [m]",
        "airborne_time": "without contact [s]",
        "energy": "squared torques over time [(N m)² s]",
        "max_torque_ratio": "greatest torque, of its limit",
        "contacts_at_end": "in contact at the end",
        "final_com_height": "centre of mass at the end [m]",
        "largest_contact_force": "largest contact force in a step [N]",
        "broken_grips": "grips torn off",
        "standing": "standing at the end",
        "steps_taken": "steps taken",
        "longest_step": "longest step [m]",
        "hand_support_time": "with a force on a hand [s]",
        "sliding_time": "with a foot that slides [s]",
        "slip_distance": "way of feet that slide [m]",
        "reach_distance": "furthest from where an effector was to be [m]",
        "hold_drift": "furthest from where an effector was held [m]",
        "largest_hold_force": "greatest force of what is held [N]",
        "ball_clearance": "least distance of a ball to the body [m]",
    },
    "Accuracy": {
        "verdict": "verdict",
        "failed_at": "means nothing from [s]",
        "finite": "all values finite",
        "largest_penetration": "largest penetration [m]",
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
        "script": "script",
        "world": "world",
        "character": "character",
        "controller": "controller",
        "scheme": "scheme of the step",
        "links": "links",
        "freedoms": "degrees of freedom",
        "start": "start",
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


def cause_text(transition: Transition | None) -> str:
    """What a transition waits for, as in "contact rightFoot after 0.3 s"."""
    if transition is None:
        return ""
    parts = []
    if transition.contact is not None:
        parts.append(_contact_text(transition.contact))
    if transition.time is not None:
        parts.append(f"after {transition.time.value:.4g} s")
    return " ".join(parts)


def _contact_text(contact: ContactCondition) -> str:
    event = "" if contact.event == "touching" else f"{contact.event} "
    joined = (" and " if contact.which == "all" else " or ").join(contact.links)
    return f"contact {event}{joined}"


def phases_of(script: Script, events: Sequence[Event], first: float, end: float) -> list[dict]:
    """The phases a motion went through: name, start [s], end [s], and what ended each.

    The last one is ended by nothing (None): there the simulation ended.
    """
    entered = [Event(first, 0), *events]
    ends: list[float] = [event.time for event in events]
    phases = []
    for event, stop in zip(entered, [*ends, end], strict=True):
        phases.append(
            {
                "name": script.phases[event.phase].name,
                "start": round(event.time, 6),
                "end": round(stop, 6),
                "ended_by": cause_text(script.phases[event.phase].transition),
            }
        )
    phases[-1]["ended_by"] = None
    return phases


def phase_events(phases: Sequence[Mapping[str, Any]]) -> tuple[tuple[float, str, str], ...]:
    """The same as a Motion holds them."""
    causes = ["start", *(phase["ended_by"] for phase in phases)]
    return tuple((p["start"], p["name"], why) for p, why in zip(phases, causes, strict=False))


def outcome(
    link_names: Sequence[str],
    frames: Frame,
    measured: Mapping[str, Any],
    failure: Failure | None,
) -> dict[str, Any]:
    """Where the motion led. frames: T along their first axes; measured: folded over all steps."""
    pelvis, head = link_names.index("pelvis"), link_names.index("head")
    com = frames.link_com
    touching = [name for name, on in zip(link_names, frames.touching[-1]) if on]
    return {
        "final_head_height": com[-1, head, 2],
        "max_head_height": measured["max_head_height"],
        "time_above_1.8": measured["time_above"],
        "distance": com[-1, pelvis, 0] - com[0, pelvis, 0],
        "airborne_time": measured["airborne_time"],
        "energy": measured["energy"],
        "max_torque_ratio": measured["max_torque_ratio"],
        "contacts_at_end": touching if failure is None else [],
        "largest_penetration": measured["largest_penetration"],
        "largest_residual": measured["largest_residual"],
        **verdict(failure),
    }


def verdict(failure: Failure | None) -> dict[str, Any]:
    """Whether the motion means something, and if not, why and from when on."""
    status = Status.OK if failure is None else failure.status
    return {
        "verdict": status.message,
        "finite": status != Status.NOT_FINITE,
        "failed_at": None if failure is None else failure.time,
    }


def json_safe(value: Any) -> Any:
    """Plain Python values, floats to ten digits; numbers that are not finite become None."""
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
    """The summary as the table of a page: groups of label and value."""
    groups = {
        group: {
            label: summary[key]
            for key, label in labels.items()
            if summary.get(key) not in (None, [])
        }
        for group, labels in LABELS.items()
    }
    if "objective" in summary:
        judged = summary["objective"]
        groups[f"Objective {judged['name']}"] = {"total": judged["total"], **judged["parts"]}
    return groups


def table(summary: Mapping[str, Any]) -> str:
    """The summary as lines for a terminal."""
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
