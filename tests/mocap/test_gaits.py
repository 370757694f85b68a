"""Motions of our own: the shipped files are the command's, and what a plan asks for holds."""

import numpy as np
import pytest

from docs.generate.motions import FOLDER, plans
from jaxsim import articulated_human, ball_joint_human, planar_human
from jaxsim.mocap.errors import ClipError
from jaxsim.mocap.gaits import interpolate_keys, walk
from jaxsim.mocap.kinematics import poses_of
from jaxsim.mocap.plan import GRAVITY, clip_of_plan, pendulum
from jaxsim.mocap.read import read_clip
from jaxsim.mocap.retarget import retarget
from jaxsim.mocap.schemes import detect_scheme
from jaxsim.mocap.stance import label_stance


@pytest.fixture(scope="module")
def clips():
    model = ball_joint_human()
    return {plan.name: (plan, clip_of_plan(plan, model)) for plan in plans()}


def test_the_shipped_files_are_those_of_the_command(clips):
    assert {file.stem for file in FOLDER.glob("*.bvh")} == set(clips)
    for name, (_, made) in clips.items():
        file = FOLDER / f"{name}.bvh"
        assert file.stat().st_size < 200_000
        shipped = read_clip(file)
        order = [shipped.joint(joint) for joint in made.joint_names]
        np.testing.assert_allclose(poses_of(shipped)[0][:, order], poses_of(made)[0], atol=1e-6)
        assert shipped.rate == pytest.approx(made.rate)


def test_ankles_are_where_the_plan_has_them(clips):
    for plan, clip in clips.values():
        pos, _ = poses_of(clip)
        for k, side in enumerate(("left", "right")):
            way = pos[:, clip.joint(f"{side}Foot")] - plan.ankle[:, k]
            np.testing.assert_allclose(way, np.broadcast_to(way[0], way.shape), atol=1e-9)
            assert np.abs(way[0, :2]).max() < 1e-9


def test_a_cycle_ends_as_it_begins(clips):
    for plan, clip in clips.values():
        pos, quat = poses_of(clip)
        moved = pos[-1] - pos[0]
        np.testing.assert_allclose(moved, np.broadcast_to(moved[0], moved.shape), atol=1e-9)
        np.testing.assert_allclose(np.abs((quat[-1] * quat[0]).sum(axis=-1)), 1.0, atol=1e-9)
        np.testing.assert_allclose(moved[0, :2], plan.ankle[-1, 0, :2] - plan.ankle[0, 0, :2])


def test_the_pendulum_obeys_its_equation():
    plan, height = walk(0.6), 0.95
    com = pendulum(plan.pressure, plan.rate, height)
    speed = np.diff(com, axis=0) * plan.rate
    push = np.diff(speed, axis=0) * plan.rate
    asked = GRAVITY / height * (com - plan.pressure)[1:-1]
    np.testing.assert_allclose(push, asked, atol=0.1)
    np.testing.assert_allclose(com[-1] - com[0], plan.pressure[-1] - plan.pressure[0], atol=1e-12)


def test_each_foot_stands_while_the_other_one_swings(clips):
    for name in ("walk", "walk_in_place"):
        _, clip = clips[name]
        stands = label_stance(clip, detect_scheme(clip.joint_names)).stands
        assert stands.any(axis=1).all() and (stands.mean(axis=0) < 0.8).all()
    _, clip = clips["reach"]
    assert label_stance(clip, detect_scheme(clip.joint_names)).stands.all()


@pytest.mark.parametrize(
    "human", [ball_joint_human, pytest.param(articulated_human, marks=pytest.mark.slow)]
)
def test_other_humans_take_them(clips, human):
    _, clip = clips["walk"]
    found = retarget(clip, human())
    far = found.q[-1, :2] - found.q[0, :2]
    np.testing.assert_allclose(far, [0.54 * found.scale, 0.0], atol=5e-3)
    assert np.abs(found.soles[..., 2].min(axis=1)).max() < 0.02  # a foot is on the floor


def test_a_clip_goes_on_cycle_by_cycle(clips):
    _, clip = clips["walk"]
    three = clip.repeated(3)
    assert three.n_frames == 3 * (clip.n_frames - 1) + 1
    pos = poses_of(three)[0]
    steps = np.linalg.norm(np.diff(pos, axis=0), axis=-1)
    assert steps.max() < 1.05 * np.linalg.norm(np.diff(poses_of(clip)[0], axis=0), axis=-1).max()
    np.testing.assert_allclose(pos[-1, 0, 0] - pos[0, 0, 0], 3 * 0.54, atol=1e-9)


def test_keys_are_reached_at_rest():
    time = np.linspace(-1.0, 3.0, 4001)
    values = interpolate_keys(time, [(0.0, 1.0), (1.0, 3.0), (2.0, 0.0)])
    np.testing.assert_allclose(values[[0, 1000, 2000, 3000, 4000]], [1, 1, 3, 0, 0], atol=1e-12)
    assert np.abs(np.gradient(values, time)[[1000, 2000, 3000]]).max() < 1e-2


def test_what_cannot_be_is_told():
    model = ball_joint_human()
    with pytest.raises(ClipError, match=r"stride: left leg .* to reach .* shorter steps"):
        clip_of_plan(walk(1.5, name="stride"), model)
    with pytest.raises(ClipError, match=r"the model has no link .*; take ball_joint_human"):
        clip_of_plan(walk(), planar_human())
