"""Motions made by hand: a two-link thing that falls onto a chair, and a planar walker."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from jaxsim.io.gauges import Gauge
from jaxsim.io.motion import Motion, MotionShape


def pitch_quat(angle: np.ndarray) -> np.ndarray:
    """(..., 4): counter-clockwise seen with x to the right, which is about -y."""
    zero = np.zeros_like(angle)
    return np.stack([np.cos(angle / 2), zero, -np.sin(angle / 2), zero], axis=-1)


def make_falling(frames: int = 200, rate: float = 200.0) -> Motion:
    """A box and a tapered capsule turn and fall past a chair, with names that need escaping."""
    t = np.arange(frames) / rate
    z = np.maximum(1.2 - 4.9 * t**2, 0.2)
    pos = np.zeros((frames, 2, 3))
    pos[:, 0] = np.stack([0.4 * t, 0 * t, z], axis=-1)
    pos[:, 1] = pos[:, 0] + np.array([0.0, 0.1, 0.3])
    quat = np.stack([pitch_quat(3 * t), np.array([[0.8, 0.6, 0, 0]]) * np.ones((frames, 1))], 1)
    force = np.zeros((frames, 2, 3))
    force[z <= 0.2, 0, 2] = 400.0
    force[z <= 0.2, 0, 0] = -120.0
    contact = np.repeat(pos[:, :1], 2, axis=1) * np.array([1, 1, 0])
    phase = np.minimum((4 * t / max(t[-1], 1e-9)).astype(int) - 1, 1) if frames else np.zeros(0)
    return Motion(
        title='Fall <b> & "rise" </script><script>boom()</script>',
        link_names=("trunk", "right_arm"),
        joint_names=("right_shoulder",),
        phase_names=("a <i>free</i> & fall", "</script>landed"),
        shapes=(
            MotionShape("plane", -1),
            MotionShape("box", -1, pos=(1.0, 0, 0.22), size=(0.2, 0.25, 0.22)),
            MotionShape("box", -1, pos=(1.18, 0, 0.7), size=(0.02, 0.25, 0.26)),
            MotionShape("box", 0, size=(0.1, 0.15, 0.2)),
            MotionShape("tapered_capsule", 1, size=(0.1, 0.05, 0.2)),
            MotionShape("sphere", 1, pos=(0.3, 0, 0), size=(0.07,)),
        ),
        time=t,
        q=np.zeros((frames, 8)),
        qd=np.zeros((frames, 7)),
        link_pos=pos,
        link_quat=quat,
        contact_pos=contact,
        contact_force=force,
        phase=phase,
        torque=30 * np.sin(9 * t)[:, None],
        torque_limit=np.array([40.0]),
        heights={"head": z + 0.3, "com": z},
        phase_events=((0.0, "a <i>free</i> & fall", "start"), (0.5, "</script>landed", "a < b")),
    )


PARTS = {  # link: parent, where on the parent's axis it starts [m], its length [m], radii [m]
    "pelvis": (None, 0.0, 0.12, 0.11, 0.11),
    "abdomen": ("pelvis", 0.12, 0.18, 0.11, 0.10),
    "chest": ("abdomen", 0.18, 0.28, 0.10, 0.13),
    "head": ("chest", 0.34, 0.16, 0.06, 0.09),
    **{
        f"{side}_{name}": (f"{side}_{parent}" if own else parent, at, length, r0, r1)
        for side in ("left", "right")
        for name, parent, own, at, length, r0, r1 in (
            ("thigh", "pelvis", False, 0.0, 0.43, 0.085, 0.06),
            ("shank", "thigh", True, 0.43, 0.43, 0.058, 0.04),
            ("foot", "shank", True, 0.43, 0.17, 0.04, 0.03),
            ("upper_arm", "chest", False, 0.26, 0.29, 0.05, 0.042),
            ("forearm", "upper_arm", True, 0.29, 0.26, 0.04, 0.032),
            ("hand", "forearm", True, 0.26, 0.14, 0.035, 0.03),
        )
    },
}


def make_walker(seconds: float = 5.0, rate: float = 240.0) -> Motion:
    """16 planar links in a walk by sines, with a chair that it leaves behind."""
    t = np.arange(int(seconds * rate) + 1) / rate
    stride = 2 * np.pi * 0.9 * t
    angle: dict[str, np.ndarray] = {}
    start: dict[str, np.ndarray] = {}
    for name, (parent, at, *_) in PARTS.items():
        half_turn = np.pi if name.startswith("right") else 0.0
        s = stride + half_turn
        world = {
            "pelvis": np.pi / 2 - 0.03 + 0 * t,
            "abdomen": np.pi / 2 - 0.05 + 0.02 * np.sin(stride),
            "chest": np.pi / 2 - 0.08 + 0.02 * np.sin(stride),
            "head": np.pi / 2 - 0.05 + 0 * t,
            "thigh": -np.pi / 2 + 0.1 + 0.42 * np.sin(s),
            "shank": -np.pi / 2 - 0.25 + 0.45 * np.sin(s - 0.9),
            "foot": 0.0 + 0.35 * np.sin(s - 1.2),
            "upper_arm": -np.pi / 2 - 0.45 * np.sin(s),
            "forearm": -np.pi / 2 + 0.35 - 0.45 * np.sin(s),
            "hand": -np.pi / 2 + 0.45 - 0.45 * np.sin(s),
        }[name.removeprefix("left_").removeprefix("right_")]
        angle[name] = world
        if parent is None:
            bob = 0.91 + 0.015 * np.cos(2 * stride)
            start[name] = np.stack([1.1 * t, 0 * t, bob], axis=-1)
        else:
            direction = np.stack([np.cos(angle[parent]), 0 * t, np.sin(angle[parent])], axis=-1)
            start[name] = start[parent] + at * direction
    names = tuple(PARTS)
    shapes = [
        MotionShape("plane", -1),
        MotionShape("box", -1, pos=(-0.35, 0, 0.43), size=(0.22, 0.25, 0.03)),
        MotionShape("box", -1, pos=(-0.55, 0, 0.7), size=(0.02, 0.25, 0.28)),
        MotionShape("box", -1, pos=(-0.17, 0, 0.2), size=(0.02, 0.25, 0.2)),
        MotionShape("box", -1, pos=(-0.53, 0, 0.2), size=(0.02, 0.25, 0.2)),
    ]
    for link, (_, _, length, r0, r1) in enumerate(PARTS.values()):
        centre = (length / 2, 0, 0)
        shapes.append(MotionShape("tapered_capsule", link, centre, size=(r1, r0, length / 2)))
    contact_pos = np.zeros((len(t), 4, 3))
    contact_force = np.zeros((len(t), 4, 3))
    for k, side in enumerate(("left", "right")):
        load = np.clip(-np.sin(stride + (np.pi if k else 0)) * 2, 0, 1)
        heel = start[f"{side}_foot"] * np.array([1, 1, 0])
        for c, at in ((2 * k, -0.03), (2 * k + 1, 0.18)):
            contact_pos[:, c] = heel + np.array([at, 0, 0])
            contact_force[:, c, 2] = 380 * load * (1 + 0.3 * np.cos(2 * stride))
            contact_force[:, c, 0] = 60 * load * np.cos(stride)
    joints = names[1:]
    torque = np.stack(
        [60 * np.sin(stride + k + (np.pi if n.startswith("right") else 0)) * np.cos(0.3 * k)
         for k, n in enumerate(joints)], axis=-1,
    )  # fmt: skip
    phases = ("stand", "lean forward", "swing left", "swing right")
    phase = np.where(t < 0.4, 0, np.where(t < 0.7, 1, 2 + ((stride / np.pi).astype(int) % 2)))
    change = np.flatnonzero(np.diff(phase, prepend=-1))
    pos = np.stack([start[n] for n in names], axis=1)
    return Motion(
        title="Planar walker, 16 links",
        link_names=names,
        joint_names=joints,
        phase_names=phases,
        shapes=tuple(shapes),
        time=t,
        q=np.zeros((len(t), 18)),
        qd=np.zeros((len(t), 18)),
        link_pos=pos,
        link_quat=pitch_quat(np.stack([angle[n] for n in names], axis=1)),
        contact_pos=contact_pos,
        contact_force=contact_force,
        phase=phase,
        torque=torque,
        torque_limit=np.full(len(joints), 80.0),
        heights={
            "head": pos[:, names.index("head"), 2] + 0.16,
            "pelvis": pos[:, 0, 2],
            "com": pos[:, 0, 2] + 0.08,
        },
        planar=True,
        phase_events=tuple(
            (float(t[i]), phases[phase[i]], "start" if i == 0 else "time > 0.4 s") for i in change
        ),
    )


@pytest.fixture
def falling() -> Motion:
    return make_falling()


def make_followed(motion: Motion) -> Motion:
    """With two gauges, one of them not finite at the end, and a reference 0.3 m ahead that lacks
    the last link."""
    rise = np.linspace(0.0, 60.0, motion.n_frames)
    last = np.where(np.arange(motion.n_frames) < 0.9 * motion.n_frames, -rise / 600, np.nan)
    ghost = motion.link_pos + np.array([0.3, 0.0, 0.0])
    ghost[:, -1] = np.nan
    return dataclasses.replace(
        motion,
        gauges={
            "ankle <torque> $": Gauge("N m", (20.0, 40.0), rise),
            "lean": Gauge("", (), last),
        },
        ghost_pos=ghost,
        ghost_quat=motion.link_quat,
    )


@pytest.fixture
def followed(falling) -> Motion:
    return make_followed(falling)


@pytest.fixture
def stepping(followed) -> Motion:
    """With strips besides: a foot that touches in two stretches, and one that never does."""
    time, none = followed.time, np.zeros(followed.n_frames, bool)
    touches = ((time >= 0.1) & (time < 0.2)) | (time >= 0.7)
    strips = {"left <foot>": Gauge("", (), touches), "trunk": Gauge("", (), none)}
    return dataclasses.replace(followed, gauges={**followed.gauges, **strips})


@pytest.fixture
def asked(falling) -> Motion:
    """With the parts of an objective, of which the second comes to more."""
    part = np.linspace(0.0, 0.5, falling.n_frames)
    return dataclasses.replace(falling, shares={"<reach>": part, "damping": 1 - part})


@pytest.fixture(scope="session")
def walker() -> Motion:
    return make_walker()
