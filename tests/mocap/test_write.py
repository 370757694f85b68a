"""Clips into files and back: BVH, glTF, and simulated motions."""

import base64
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsim import ball_joint_human, start
from jaxsim.dynamics.kinematics import forward_kinematics
from jaxsim.io.motion import Motion, MotionShape
from jaxsim.math.rotation import matrix_to_quat
from jaxsim.mocap.bvh import read_bvh
from jaxsim.mocap.clip import Clip
from jaxsim.mocap.errors import ClipError
from jaxsim.mocap.figure import beside, clip_motion
from jaxsim.mocap.from_motion import clip_of_motion
from jaxsim.mocap.kinematics import joint_poses, poses_of
from jaxsim.mocap.read import read_clip
from jaxsim.mocap.rotations import angle_between, from_angles
from jaxsim.mocap.schemes import detect_scheme
from jaxsim.mocap.stance import label_stance
from jaxsim.mocap.write_bvh import bvh_text, write_bvh
from jaxsim.viewer.page import read_page, write_page
from tests.mocap.clips import CLIPS, FOLDER, figure, needs_clips, options


def motion(frames=5, slide=0.0, seed=0):
    """A pelvis with two links, the second of which may slide; and its poses."""
    rng = np.random.default_rng(seed)
    local = from_angles("XYZ", rng.uniform(-3, 3, (frames, 3, 3)))
    places = np.repeat(np.array([[[0.0, 0, 1], [0.1, 0.2, -0.3], [0, 0, -0.4]]]), frames, axis=0)
    places[:, 0] += rng.normal(size=(frames, 3))
    places[:, 2, 0] += slide * np.arange(frames)
    pos, quat = joint_poses((-1, 0, 1), places, local)
    none = np.zeros((frames, 0))
    return Motion(
        title="three links", link_names=("pelvis", "thigh one", "shank"), joint_names=(),
        phase_names=(), shapes=(MotionShape("sphere", 2, pos=(0, 0, -0.2), size=(0.05,)),),
        time=np.arange(frames) / 50.0, q=none, qd=none, link_pos=pos, link_quat=quat,
        contact_pos=np.zeros((frames, 0, 3)), contact_force=np.zeros((frames, 0, 3)),
        phase=np.full(frames, -1), torque=none, torque_limit=np.zeros(0), heights={},
    )  # fmt: skip


def largest_turn(a, b):
    return float(angle_between(a, b).max())


@needs_clips
@pytest.mark.parametrize("name", CLIPS)
def test_a_real_clip_comes_back_from_bvh(name, tmp_path):
    clip = read_clip(FOLDER / name, all_rows=True, **options(name))
    write_bvh(tmp_path / "out.bvh", clip)
    again = read_clip(tmp_path / "out.bvh", all_rows=True, unit=clip.unit, up=clip.axes[2])
    order = [again.joint(joint) for joint in clip.joint_names]
    (pos, quat), (pos2, quat2) = poses_of(clip), poses_of(again)
    assert again.axes == clip.axes and again.rate == pytest.approx(clip.rate, rel=1e-11)
    assert np.abs(pos - pos2[:, order]).max() < 1e-10
    assert largest_turn(quat, quat2[:, order]) < 1e-10
    if name.endswith("bvh"):
        assert again.orders == clip.orders and again.joint_names == clip.joint_names
        assert np.allclose(again.offsets[1:], clip.offsets[1:], atol=1e-12)
        assert (again.offsets[0] == 0.0).all()  # three.js adds it to the position, Blender does not
        assert again.end_parents == clip.end_parents
        assert np.allclose(again.end_offsets, clip.end_offsets, atol=1e-12)


def test_what_was_written_is_written_again_the_same(tmp_path):
    write_bvh(tmp_path / "a.bvh", read_bvh_of(tmp_path, figure()))
    write_bvh(tmp_path / "b.bvh", read_bvh(tmp_path / "a.bvh"))
    assert (tmp_path / "a.bvh").read_bytes() == (tmp_path / "b.bvh").read_bytes()


def read_bvh_of(tmp_path, text):
    (tmp_path / "figure.bvh").write_text(text)
    return read_bvh(tmp_path / "figure.bvh")


@pytest.mark.parametrize("slide", [0.0, 0.05])
@pytest.mark.parametrize("parents", [None, (-1, 0, 1)])
def test_a_simulated_motion_keeps_its_poses_in_bvh(slide, parents, tmp_path):
    simulated = motion(slide=slide)
    clip = clip_of_motion(simulated, parents)
    assert clip.moved == ((2,) if slide else ()) and clip.rate == pytest.approx(50.0)
    write_bvh(tmp_path / "out.bvh", clip)
    again = read_clip(tmp_path / "out.bvh", unit="m", up="Y")
    assert again.joint_names == ("pelvis", "thigh_one", "shank")
    pos, quat = poses_of(again)
    assert largest_turn(quat, simulated.link_quat) < 1e-6
    assert np.abs(pos - simulated.link_pos).max() < 1e-6


def test_a_human_of_jaxsim_keeps_its_poses_and_is_known(tmp_path, x64):
    model = ball_joint_human()
    rng = np.random.default_rng(1)
    state = start(model, "standing")
    kinematics = jax.jit(lambda q: forward_kinematics(model, q, jnp.zeros(model.topology.nv)))
    poses = []
    for _ in range(4):
        q = np.array(state.q)
        q[7:] += 0.1 * rng.normal(size=len(q) - 7)
        balls = q[7:].reshape(-1, 4)
        q[7:] = (balls / np.linalg.norm(balls, axis=1, keepdims=True)).ravel()
        poses.append(kinematics(jnp.asarray(q)))
    names, parents = model.topology.link_names, model.topology.link_parent
    pos, quat = link_poses(poses)
    none = np.zeros((4, 0))
    simulated = Motion(
        title="human", link_names=names, joint_names=(), phase_names=(), shapes=(),
        time=np.arange(4) / 30.0, q=none, qd=none, link_pos=pos, link_quat=quat,
        contact_pos=np.zeros((4, 0, 3)), contact_force=np.zeros((4, 0, 3)),
        phase=np.full(4, -1), torque=none, torque_limit=np.zeros(0), heights={},
    )  # fmt: skip
    clip = clip_of_motion(simulated, parents)
    assert clip.moved == ()
    assert clip_of_motion(simulated).parents == clip.parents  # found from the motion alone
    write_bvh(tmp_path / "out.bvh", clip)
    again = read_clip(tmp_path / "out.bvh")  # axes and unit found, too
    found = detect_scheme(again.joint_names)
    assert found is not None and found.name == "jaxsim" and again.axes == ("Z", "X", "Y")
    order = [again.joint(name) for name in names]
    assert largest_turn(poses_of(again)[1][:, order], quat) < 1e-6
    assert np.abs(poses_of(again)[0][:, order] - pos).max() < 1e-6


def link_poses(poses):
    pos = np.stack([np.asarray(each.link_pos) for each in poses])
    return pos, np.stack([np.asarray(matrix_to_quat(each.link_rot)) for each in poses])


def test_a_file_for_blender_has_three_rotations_a_joint_and_its_lines_apart():
    clip = clip_of_motion(motion())
    lines = bvh_text(Clip(**{**vars(clip), "orders": ("ZXY", "X", "")})).split("\n")
    channels = [line.split()[2:] for line in lines if "CHANNELS" in line]
    assert [len([c for c in row if c.endswith("rotation")]) for row in channels] == [3, 3, 3]
    for k, line in enumerate(lines):
        if line.split()[:1] in (["ROOT"], ["JOINT"]):
            following = [each.split()[0] for each in lines[k + 1 : k + 4]]
            assert following == ["{", "OFFSET", "CHANNELS"]


def test_a_motion_that_makes_no_clip_is_told():
    bad = motion()
    bad.link_pos[2, 0, 0] = np.nan
    with pytest.raises(ClipError, match="not finite"):
        clip_of_motion(bad)
    with pytest.raises(ClipError, match="parents"):
        clip_of_motion(motion(), (-1, 2, 0))


def gltf_poses(data, blob):
    """World positions and rotations of the joints by a reader of its own, at the frames."""

    def values(index):
        accessor = data["accessors"][index]
        view = data["bufferViews"][accessor["bufferView"]]
        size = {"SCALAR": 1, "VEC3": 3, "VEC4": 4}[accessor["type"]]
        raw = np.frombuffer(blob, "<f4", accessor["count"] * size, view["byteOffset"])
        return raw.reshape(-1, size).astype(float)

    animation = data["animations"][0]
    at, time = {}, None
    for channel in animation["channels"]:
        sampler = animation["samplers"][channel["sampler"]]
        time = values(sampler["input"])
        at[channel["target"]["node"], channel["target"]["path"]] = values(sampler["output"])
    return at, time


@pytest.mark.parametrize("kind", ["glb", "gltf"])
def test_gltf_has_the_poses_of_the_clip(kind, tmp_path):
    pytest.importorskip("pygltflib", reason="pygltflib, of the extra mocap, is not installed")
    from jaxsim.mocap.write_gltf import TO_GLTF, write_gltf

    clip = clip_of_motion(motion(slide=0.02))
    path = tmp_path / f"out.{kind}"
    write_gltf(path, clip)
    raw = path.read_bytes()
    if kind == "glb":
        size = int.from_bytes(raw[12:16], "little")
        data, blob = json.loads(raw[20 : 20 + size]), raw[28 + size :]
    else:
        data = json.loads(raw)
        blob = base64.b64decode(data["buffers"][0]["uri"].partition(",")[2])
    at, time = gltf_poses(data, blob)
    assert (
        time is not None and np.allclose(time[:, 0], clip.time) and (np.diff(time[:, 0]) > 0).all()
    )
    for j in range(clip.n_joints):
        q = at[j, "rotation"]
        ours = np.concatenate([q[:, 3:], q[:, [2, 0, 1]]], axis=1)
        assert largest_turn(ours, clip.rotations[:, j]) < 2e-3  # of float32, near the identity
        assert (np.sum(q[1:] * q[:-1], axis=1) >= 0).all()
    assert np.allclose(at[0, "translation"], clip.root_pos[:, TO_GLTF], atol=1e-6)
    assert np.allclose(at[2, "translation"], clip.moved_pos[:, 0][:, TO_GLTF], atol=1e-6)
    assert np.allclose(data["nodes"][1]["translation"], clip.offsets[1][TO_GLTF], atol=1e-6)
    with pytest.raises(ClipError, match="ends in"):
        write_gltf(tmp_path / "out.txt", clip)


def test_the_page_plays_the_bones_with_the_stance_as_phases(tmp_path):
    (tmp_path / "figure.bvh").write_text(figure(frames=40))
    clip = read_clip(tmp_path / "figure.bvh")
    scheme = detect_scheme(clip.joint_names)
    assert scheme is not None
    shown = clip_motion(clip, scheme, label_stance(clip, scheme))
    write_page(tmp_path / "page.html", shown)
    page = read_page(tmp_path / "page.html")
    assert np.allclose(page["link_pos"], poses_of(clip)[0], atol=1e-5)
    assert "leftThigh (LeftUpLeg)" in [link["name"] for link in page["links"]]
    assert {link["part"] for link in page["links"]} == {"left", "middle", "right"}
    assert page["phases"][3] == "both feet" and set(page["height_names"]) >= {"head"}
    bones = [s for s in shown.shapes if s.kind == "capsule"]
    assert len(bones) == sum(p >= 0 for p in clip.parents) + len(clip.end_parents)


def test_two_motions_beside_one_another():
    one = motion()
    both = beside(one, one, apart=2.0)
    assert both.n_links == 6 and len(both.shapes) == 2
    assert np.allclose(both.link_pos[:, 3:, 1], one.link_pos[..., 1] - 2.0)
    with pytest.raises(ValueError, match="same times"):
        beside(one, motion(frames=4))
