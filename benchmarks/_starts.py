"""What starts.py sees of each frame of a scene, and by what a start passes."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from controllers.goals.account import takes_steps
from controllers.goals.dodge import STRUCK, capsules
from controllers.goals.swing import hang
from jaxsim.characters.standing import above_standing
from jaxsim.model.part import character_parts
from jaxsim.model.roles import FEET, HANDS
from jaxsim.synthesis.holds import NO_HOLD
from optimize.scenarios.scenario import Scenario

Frames = dict[str, np.ndarray]  # by name (n, frames, ...)

SWUNG = 60.0  # a swing is to get beyond this angle [deg]
LIFTED = 0.1  # the free foot is so high in the last second [m]
BENT = (75.0, 105.0)  # and its knee bent so far [deg]
FIST = 0.06  # radius of a hand [m]
DOWN = -0.3  # a head so far below its height in standing has fallen [m]
LOST = 1.5  # who is so far below the start is gone [m]
ALARMS, FALLS = 4.5, 9.0  # the cabin is shaken, and its floor falls away, from then on [s]
CLASPED = 100  # frames in which hands hold each other


def common(scene: Scenario, sample: Any) -> dict[str, Any]:
    """Values of every scene."""
    state, since = scene.controller.phase(sample.memory)
    return {
        "phase": state,
        "since": since,
        "com": sample.obs.com,
        "unsolved": jnp.max(jnp.where(sample.info.status != 0, 1, 0)),
    }


def see_one_foot(scene: Scenario, sample: Any) -> dict[str, Any]:
    """Height of the free foot, bend of its knee, and place of the body over the other foot."""
    top, obs = sample.model.topology, sample.obs
    stance, free = (obs.place(obs.group(name)) for name in FEET)
    knee = sample.state.q[top.q_start[top.joint("rightKneeFlexion")]]
    off = obs.com[:2] - stance[:2]
    more = {"lifted": free[2], "knee": jnp.rad2deg(knee), "off": off}
    more["head"] = above_standing(sample.model)(obs.kin.com)
    return common(scene, sample) | more


def why_one_foot(scene: Scenario, seen: Frames) -> list[str]:
    """Causes of failure: the pose is not taken, or not on one foot."""
    names, causes = scene.controller.phase_names, []
    for k, phase in enumerate(seen["phase"]):
        last, off = names[phase[-1]], np.linalg.norm(seen["off"][k, -1])
        since, lifted = seen["since"][k, -1], seen["lifted"][k, -100:].min()
        if seen["head"][k].min() < DOWN:
            at = int(np.argmax(seen["head"][k] < DOWN))
            causes.append(f"falls: in {names[phase[at]]} after {time(scene, at)}")
        elif last != "pose":
            causes.append(f"stays in {last}: from {since:.2f} s on, {off:.3f} m off the foot")
        elif lifted < LIFTED or not BENT[0] < seen["knee"][k, -1] < BENT[1]:
            causes.append(f"no pose: foot {lifted:.2f} m up, knee {seen['knee'][k, -1]:.0f} deg")
        else:
            causes.append("")
    return causes


def held_of(sample: Any) -> Any:
    """Hold (2,) of each hand."""
    now = sample.obs.conf.holds
    return now.grips.held[np.flatnonzero(now.holds.hands)]


def see_swing(scene: Scenario, sample: Any) -> dict[str, Any]:
    """Angle about the hands, and what they hold."""
    angle = jnp.rad2deg(hang(sample.obs).angle)
    return common(scene, sample) | {"angle": angle, "held": held_of(sample)}


def why_swing(scene: Scenario, seen: Frames) -> list[str]:
    """Causes of failure: hands come off, or the swing stays small."""
    causes = []
    for angle, held in zip(seen["angle"], seen["held"]):
        lets_go = (held == NO_HOLD).any(axis=1)
        most = np.abs(angle).max()
        if lets_go.any():
            at = int(np.argmax(lets_go))
            causes.append(f"lets go: after {time(scene, at)} at {angle[at]:.0f} deg")
        elif most <= SWUNG:
            at = int(np.argmax(np.abs(angle)))
            causes.append(f"stays below {SWUNG:g} deg: {most:.0f} at most, {time(scene, at)}")
        else:
            causes.append("")
    return causes


def see_cable_car(scene: Scenario, sample: Any) -> dict[str, Any]:
    """What the hands hold, and how far they are from the nearest holds."""
    conf = sample.obs.conf
    hands = np.flatnonzero(np.any([conf.effectors.of(name) for name in HANDS], axis=0))
    places, _ = conf.holds.nearest(conf.position[hands])
    gap = jnp.min(jnp.linalg.norm(conf.position[hands][:, None] - places, axis=-1), axis=1)
    return common(scene, sample) | {"held": held_of(sample), "gap": gap}


def why_cable_car(scene: Scenario, seen: Frames) -> list[str]:
    """Causes of failure: falls out, or does not do all of it."""
    names = scene.controller.phase_names
    outer = np.array([name.partition(".")[0] for name in names])
    steps, dt, causes = takes_steps(names), float(scene.scheme.dt), []
    for phase, com, held in zip(seen["phase"], seen["com"], seen["held"]):
        here = outer[phase]
        grabs = np.flatnonzero(here == "grab")
        grips = (held != NO_HOLD).sum(axis=1)
        falls = min(round(FALLS / dt), len(grips) - 1)
        if com[-1, 2] < com[0, 2] - LOST:
            at = int(np.argmax(com[:, 2] < com[0, 2] - LOST))
            causes.append(
                f"falls out: {time(scene, at)}, held by {grips[falls]} hands as the floor falls,"
                f" {here[falls]}"
            )
        elif not grabs.size or grabs[0] * dt < ALARMS:
            when = time(scene, grabs[0]) if grabs.size else "never"
            causes.append(f"alarmed by the small sway, or never: {when}")
        elif not (here == "swing").any():
            causes.append(f"does not swing: {grips[-1]} hands at the end")
        elif not steps[phase].any():
            causes.append("takes no step:")
        else:
            causes.append("")
    return causes


def see_holding_hands(scene: Scenario, sample: Any) -> dict[str, Any]:
    """Heads of both above their standing heights, and whether hands hold each other."""
    model, com = sample.model, sample.obs.kin.com
    heads = [
        above_standing(part.of(model))(com[part.links])
        for part in character_parts(model.topology)
        if part.topology.roles.stands
    ]
    more = {"heads": jnp.stack(heads), "clasped": sample.info.clasped.any()}
    return common(scene, sample) | more


def why_holding_hands(scene: Scenario, seen: Frames) -> list[str]:
    """Causes of failure: who falls, or hands that do not meet."""
    causes = []
    for heads, clasped in zip(seen["heads"], seen["clasped"]):
        down = [who for who, high in zip(("adult", "child"), heads[-1]) if high < 0]
        meet = np.flatnonzero(clasped)
        met = f"hands meet after {time(scene, meet[0])}" if meet.size else "hands never meet"
        if down:
            falls = [time(scene, int(np.argmax(high < 0))) for high in heads.T]
            causes.append(
                f"{' and '.join(down)} down: heads low after {' and '.join(falls)}; {met};"
                f" {int(clasped.sum())} frames"
            )
        elif clasped.sum() < CLASPED:
            causes.append(f"hands apart: {int(clasped.sum())} frames; {met}")
        else:
            causes.append("")
    return causes


def see_ball(scene: Scenario, sample: Any) -> dict[str, Any]:
    """Distance of the ball from the body, and the head's height."""
    obs, top = sample.obs, sample.model.topology
    ball = scene.controller.objects.at(obs.time, sample.model.gravity)
    body = [part for _, part in capsules(obs, range(top.n_links))]
    away = jnp.stack([part.distance(ball.position[0]) for part in body]) - ball.radius[0]
    heads = above_standing(sample.model)(obs.kin.com)[None]
    return common(scene, sample) | {"clear": jnp.min(away), "heads": heads}


def see_strike(scene: Scenario, sample: Any) -> dict[str, Any]:
    """Distance of the other's hands from head and chest, and heights of both heads."""
    model, com, obs = sample.model, sample.obs.kin.com, sample.obs.of(0)
    other = obs.company[1]
    hands = np.flatnonzero(np.any([other.effectors.of(name) for name in HANDS], axis=0))
    body = [part for _, part in capsules(obs, obs.conf.model.topology.parts(STRUCK))]
    away = jnp.stack([part.distance(other.position[hand]) for part in body for hand in hands])
    heads = jnp.stack(
        [
            above_standing(part.of(model))(com[part.links])
            for part in character_parts(model.topology)
        ]
    )
    return common(scene, sample) | {"clear": jnp.min(away) - FIST, "heads": heads}


def why_dodge(scene: Scenario, seen: Frames) -> list[str]:
    """Causes of failure: who is hit, or falls."""
    causes = []
    for clear, heads, com in zip(seen["clear"], seen["heads"], seen["com"]):
        moved = np.round(com[:, :2] - com[0, :2], 2)
        if clear.min() <= 0:
            at = int(np.argmin(clear))
            causes.append(
                f"hit: after {time(scene, at)}, {-1000 * clear[at]:.0f} mm deep, moved by"
                f" {moved[at].tolist()} m"
            )
        elif (heads < DOWN).any():
            low = (heads < DOWN).any(axis=1)
            causes.append(f"falls: after {time(scene, int(np.argmax(low)))}")
        else:
            causes.append("")
    return causes


def time(scene: Scenario, frame: int) -> str:
    """Time of a frame, as text."""
    return f"{frame * float(scene.scheme.dt):.2f} s"


JUDGES: dict[str, tuple[Callable, Callable]] = {
    "one_foot": (see_one_foot, why_one_foot),
    "swing": (see_swing, why_swing),
    "swing_stiff": (see_swing, why_swing),
    "cable_car": (see_cable_car, why_cable_car),
    "holding_hands": (see_holding_hands, why_holding_hands),
    "dodge_tennis_ball": (see_ball, why_dodge),
    "dodge_harmful_ball": (see_ball, why_dodge),
    "dodge_hand": (see_strike, why_dodge),
}
