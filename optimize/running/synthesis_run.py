"""Run a scene of synthesised motion, to a motion and a summary: what happened, was it physical."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from controllers.goals.balance import FEET
from jaxsim.io.motion import Motion, Shape
from jaxsim.math.rotation import matrix_to_quat, quat_to_matrix
from jaxsim.simulation.health import Failure
from jaxsim.simulation.rollout import Sample, begin
from jaxsim.synthesis.config import SynthesisConfig
from optimize.interrupts import noting
from optimize.results.folder import versions
from optimize.running import summary as summaries
from optimize.running.recording import (
    Run,
    first_progress,
    frames_of,
    pieces,
    run_pieces,
    shapes_of,
)
from optimize.running.simulate import Simulation, failure_notes
from optimize.scenarios.synthesis_scenes import SynthesisScene
from optimize.scenarios.synthesis_setting import Setting, set_up
from optimize.scenarios.synthesis_setting import flight as flight_of

SLIPS = 0.05  # of the weight on a point that slips, at least
TARGET = 0.03  # the ball that shows where an effector is to go [m]
FALLEN = 0.6  # a body whose centre of mass is lower than this part of its height at the start fell


class SceneFrame(NamedTuple):
    """What is kept of a frame."""

    q: Any
    qd: Any
    link_pos: Any
    link_quat: Any
    com: Any
    position: Any
    force: Any
    torque: Any
    state: Any
    since: Any
    touching: Any
    sliding: Any
    root_residual: Any
    cone_excess: Any
    penetration: Any
    status: Any
    passes: Any
    leaving: Any


def keep(sample: Sample) -> SceneFrame:
    """Of one frame what pages, plots and tests need."""
    view, info = sample.seen.view, sample.info
    return SceneFrame(
        q=sample.state.q,
        qd=sample.state.qd,
        link_pos=view.kin.link_pos,
        link_quat=matrix_to_quat(view.kin.link_rot),
        com=view.com,
        position=view.position,
        force=info.force,
        torque=info.torque,
        state=sample.memory.state,
        since=sample.memory.since,
        touching=sample.seen.touching,
        sliding=info.sliding,
        root_residual=info.root_residual,
        cone_excess=info.cone_excess,
        penetration=info.penetration,
        status=info.status,
        passes=info.passes,
        leaving=info.leaving,
    )


@noting()
def synthesize_scene(
    scene: SynthesisScene,
    *,
    config: SynthesisConfig | None = None,
    progress: bool = False,
) -> Simulation:
    """Run a scene; every frame is kept. Ctrl-C ends it with what is there, and so does a frame that
    is not finite. Runs on JAX's default device in its default precision."""
    setting = set_up(scene, config=config)
    model, scheme, controller = setting.model, setting.scheme, setting.controller
    dt = float(scheme.dt)
    steps = max(round(scene.seconds / dt) - 1, 0)
    first = first_progress(begin(model, controller, scheme, setting.state), {})
    run_piece = pieces(model, {}, keep, 1, scheme, "xla", setting.pushes, shared=True)
    run = run_pieces(run_piece, controller, first, dt, steps, 1, progress)
    frames, failure = frames_of(run, steps, 1, dt)
    return _simulation(scene, setting, frames, failure, run, dt)


def _simulation(
    scene: SynthesisScene,
    setting: Setting,
    frames: SceneFrame,
    failure: Failure | None,
    run: Run,
    dt: float,
) -> Simulation:
    model, machine = setting.model, setting.machine
    time = np.arange(len(frames.q)) * dt
    limit = np.asarray(model.torque_limit)
    motors = np.flatnonzero(limit > 0)
    names = [machine.state_names[k] for k in frames.state[entries(frames)]]
    hands = [n in ("leftHand", "rightHand") for n in setting.scheme.effectors.names]
    summary = {
        "standing": bool(frames.com[-1, 2] > FALLEN * frames.com[0, 2]),
        "final_com_height": frames.com[-1, 2],
        "steps_taken": names.count("takeStep"),
        "hand_support_time": dt * (np.abs(frames.force[:, hands]).sum((1, 2)) > 0).sum(),
        "longest_step": max(step_lengths(setting, frames), default=0.0),
        "sliding_time": dt * frames.sliding.any(axis=1).sum(),
        "slip_distance": slip_distance(frames, float(setting.scheme.unit.force)),
        "max_torque_ratio": np.max(np.abs(frames.torque[:, motors]) / limit[motors]),
        **summaries.verdict(failure),
        "largest_root_residual": np.nanmax(frames.root_residual),
        "largest_cone_excess": np.nanmax(frames.cone_excess),
        "largest_penetration": np.nanmax(frames.penetration),
        "rolled_back": int((frames.passes > 1).sum()),
        "unsolved_frames": int((frames.status != 0).sum()),
        "character": f"articulated_human, {scene.build}",
        "friction": scene.friction,
        "total_mass": np.asarray(model.total_mass),
        "seconds": len(time) * dt,
        "dt": dt,
        "precision": str(frames.q.dtype),
        "interrupted": run.interrupted,
        "compile_seconds": run.compile_seconds,
        "run_seconds": run.run_seconds,
        "steps_per_second": len(time) / max(run.run_seconds, 1e-9),
        "versions": versions(),
    }
    if setting.objects is not None:
        summary["ball_clearance"] = float(ball_clearance(setting, frames, time).min())
    if scene.reaches:
        summary["reach_distance"] = reach_distance(scene, setting, frames, time)
    if scene.holds:
        drift, pull = hold_measures(scene, setting, frames, time)
        summary |= {"hold_drift": drift, "largest_hold_force": pull}
    motion = scene_motion(scene, setting, frames, time)
    notes = failure_notes(failure, time, run.interrupted)
    if not summary["standing"]:
        notes.append("the character is not standing at the end")
    return Simulation(motion, summaries.json_safe(summary), None, tuple(notes), run.interrupted)


def reach_distance(
    scene: SynthesisScene, setting: Setting, frames: SceneFrame, time: np.ndarray
) -> float | None:
    """How far the effectors were from their places as their goals ended, the furthest [m]; None if
    the run ended before any began."""
    apart = []
    for asked in scene.reaches:
        during = np.flatnonzero((time >= asked.start) & (time <= asked.end))
        if during.size:
            at = setting.scheme.effectors.names.index(asked.effector)
            apart.append(np.linalg.norm(frames.position[during[-1], at] - asked.target))
    return max(apart, default=None)


def hold_measures(
    scene: SynthesisScene, setting: Setting, frames: SceneFrame, time: np.ndarray
) -> tuple[float | None, float | None]:
    """How far any effector got from where it was held [m], and the greatest force of that [N]; None
    if the run ended before any hold began."""
    drifts, pulls = [], []
    for asked in scene.holds:
        during = np.flatnonzero((time >= asked.start) & (time < asked.end))
        if during.size:
            at = setting.scheme.effectors.names.index(asked.effector)
            place = frames.position[during, at]
            drifts.append(np.linalg.norm(place - place[0], axis=1).max())
            pulls.append(np.linalg.norm(frames.force[during, at], axis=1).max())
    return max(drifts, default=None), max(pulls, default=None)


def entries(frames: SceneFrame) -> np.ndarray:
    """Frames in which a state of the machine was entered, perhaps anew."""
    return np.flatnonzero(np.diff(frames.since, prepend=-1.0))


def step_lengths(setting: Setting, frames: SceneFrame) -> list[float]:
    """Of each visit of ``takeStep``: how far the foot that went further got over the ground [m]."""
    machine, points = setting.machine, setting.scheme.effectors
    if "takeStep" not in machine.state_names:
        return []
    places = [frames.position[:, points.of(foot), :2].mean(axis=1) for foot in FEET]
    place = np.stack(places)  # (2, T, 2)
    begun = entries(frames)
    ended = np.append(begun[1:], len(frames.state) - 1)
    stepping = frames.state[begun] == machine.state_names.index("takeStep")
    moved = place[:, ended[stepping]] - place[:, begun[stepping]]
    return np.linalg.norm(moved, axis=2).max(axis=0).tolist()


def slip_distance(frames: SceneFrame, weight: float) -> float:
    """How far the point that slides fastest under a load gets over the ground, added up over all
    frames [m]. A toe that drags along as its foot is lifted does not count."""
    moved = np.linalg.norm(np.diff(frames.position[..., :2], axis=0), axis=-1)
    slips = frames.sliding & (np.linalg.norm(frames.force, axis=-1) > SLIPS * weight)
    return float(np.where(slips[:-1], moved, 0.0).max(axis=1).sum())


def scene_motion(
    scene: SynthesisScene, setting: Setting, frames: SceneFrame, time: np.ndarray
) -> Motion:
    """What the page shows; balls are links that fly."""
    model, machine = setting.model, setting.machine
    top = model.topology
    motors = np.flatnonzero(np.asarray(model.torque_limit) > 0)
    link_pos, link_quat = frames.link_pos, frames.link_quat
    names, roles, shapes = list(top.link_names), ["character"] * top.n_links, list(shapes_of(model))
    if setting.objects is not None:
        flight = flight_of(setting, time)
        for k, radius in enumerate(np.asarray(setting.objects.radius)):
            shapes.append(Shape("sphere", len(names), size=(float(radius),)))
            names.append(f"ball_{k + 1}")
            roles.append("prop")
            still = np.broadcast_to([1.0, 0.0, 0.0, 0.0], (len(time), 1, 4))
            link_pos = np.concatenate([link_pos, flight[:, k : k + 1]], axis=1)
            link_quat = np.concatenate([link_quat, still], axis=1)
    shapes += [Shape("sphere", -1, r.target, size=(TARGET,)) for r in scene.reaches]
    return Motion(
        title=f"{scene.title}: {time[-1]:g} s",
        link_names=tuple(names),
        joint_names=tuple(top.joint_names[top.dof_joint[d]] for d in motors),
        phase_names=machine.state_names,
        shapes=tuple(shapes),
        time=time,
        q=frames.q,
        qd=frames.qd,
        link_pos=link_pos,
        link_quat=link_quat,
        contact_pos=frames.position,
        contact_force=frames.force,
        phase=frames.state,
        torque=frames.torque[:, motors],
        torque_limit=np.asarray(model.torque_limit)[motors],
        heights={
            "head": frames.link_pos[:, top.link("head"), 2],
            "pelvis": frames.link_pos[:, top.link("pelvis"), 2],
            "com": frames.com[:, 2],
        },
        com=frames.com,
        phase_events=tuple(
            (float(time[k]), machine.state_names[frames.state[k]], "its condition")
            for k in entries(frames)
        ),
        link_roles=tuple(roles),
    )


def ball_clearance(setting: Setting, frames: SceneFrame, time: np.ndarray) -> np.ndarray:
    """(T,) least distance between a ball and a sphere or capsule of the body [m]; negative: hit."""
    top, model = setting.model.topology, setting.model
    flight, balls = flight_of(setting, time), setting.objects
    assert balls is not None
    least = np.full(len(time), np.inf)
    rotation = _matrices(frames.link_quat)
    for s, kind in enumerate(top.shape_kinds):
        link = top.shape_link[s]
        if link < 0 or kind not in ("sphere", "capsule"):
            continue
        size, local = np.asarray(model.shape_size[s]), np.asarray(model.shape_pos[s])
        axis = _matrices(np.asarray(model.shape_quat[s])[None])[0][:, 0] * size[2]
        ends = [
            frames.link_pos[:, link]
            + np.einsum("tij,j->ti", rotation[:, link], local + sign * axis)
            for sign in (1.0, -1.0)
        ]
        along = ends[1] - ends[0]
        length2 = np.maximum((along**2).sum(-1), 1e-12)
        for k, radius in enumerate(np.asarray(balls.radius)):
            u = np.clip(((flight[:, k] - ends[0]) * along).sum(-1) / length2, 0, 1)
            apart = np.linalg.norm(flight[:, k] - ends[0] - u[:, None] * along, axis=-1)
            least = np.minimum(least, apart - radius - size[0])
    return least


def _matrices(quat: np.ndarray) -> np.ndarray:
    return np.asarray(quat_to_matrix(jnp.asarray(quat)))
