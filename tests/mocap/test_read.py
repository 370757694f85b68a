"""Clips from files: the real ones as their README measures them, dialects, and what is refused."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsim.math.rotation import quat_to_matrix
from jaxsim.mocap.amc import read_amc
from jaxsim.mocap.bvh import read_bvh
from jaxsim.mocap.clip import Clip
from jaxsim.mocap.errors import ClipError
from jaxsim.mocap.kinematics import joint_poses, places_of, poses_of
from jaxsim.mocap.measures import height, not_human
from jaxsim.mocap.read import read_clip
from jaxsim.mocap.rotations import from_angles, to_angles
from jaxsim.mocap.schemes import detect_scheme
from tests.mocap.clips import AMC, ASF, CLIPS, FOLDER, QUADRUPED, figure, needs_clips, options

pytestmark = pytest.mark.usefixtures("x64")


def written(tmp_path, text, name="clip.bvh"):
    path = tmp_path / name
    path.write_bytes(text.encode())
    return path


# ---- real clips


@needs_clips
@pytest.mark.parametrize("name", CLIPS)
def test_a_real_clip_is_as_its_readme_says(name):
    tall, unit, (low, high), scheme = CLIPS[name]
    clip = read_clip(FOLDER / name, **options(name))
    found = detect_scheme(clip.joint_names)
    assert found is not None and found.name == scheme
    assert clip.unit == pytest.approx(unit, rel=1e-3)
    assert height(clip, found) == pytest.approx(tall, abs=0.006)
    z = clip.root_pos[:, 2]
    assert (z.min(), z.max()) == pytest.approx((low, high), abs=0.012)
    assert not_human(clip, found) == ""
    if "leftToe" in found.joints:  # no mirror image: the left foot points to where left x up does
        pos, _ = poses_of(clip)
        at = {role: pos[:, clip.joint(joint)] for role, joint in found.joints.items()}
        forward = np.cross(at["leftThigh"] - at["rightThigh"], at["head"] - at["pelvis"])
        assert np.median(((at["leftToe"] - at["leftFoot"]) * forward).sum(-1)) > 0


@needs_clips
def test_poses_before_the_motion_are_left_out_unless_asked_for():
    for name, rows in (("cmu_12_01__walk.bvh", 1), ("cmu_05_11_daz__pirouette.bvh", 6)):
        short, whole = read_clip(FOLDER / name), read_clip(FOLDER / name, all_rows=True)
        assert whole.n_frames - short.n_frames == rows
        assert any("left out" in text for text in short.problems)


@needs_clips
def test_the_same_take_in_two_formats_agrees():
    """Directions of the thighs in the AMC file and in its DAZ conversion, a frame later."""
    amc = read_clip(FOLDER / "cmu_05_11__pirouette.amc", rate=120.0)
    bvh = read_clip(FOLDER / "cmu_05_11_daz__pirouette.bvh", all_rows=True)
    thighs = []
    for clip, above, below in ((amc, "lfemur", "ltibia"), (bvh, "lThigh", "lShin")):
        pos, _ = poses_of(clip)
        way = pos[:, clip.joint(below)] - pos[:, clip.joint(above)]
        thighs.append(way / np.linalg.norm(way, axis=-1, keepdims=True))
    angle = np.degrees(np.arccos(np.clip((thighs[0][10:590] * thighs[1][11:591]).sum(-1), -1, 1)))
    assert np.median(angle) < 6.0  # the conversion is onto another skeleton: 4.8, least at this lag


@needs_clips
@pytest.mark.parametrize(
    "name, place",
    [
        ("01_truncated_motion.bvh", "line 241: expected 63 numbers"),
        ("02_wrong_channel_count.bvh", "line 182: expected 63 numbers"),
        ("03_nan_token.bvh", "line 225: expected a number for the channels of a frame, number 11"),
        ("04_missing_end_site_brace.bvh", "missing before line 25"),
        ("05_unknown_channel.bvh", "line 21: expected a channel"),
        ("06_binary_garbage.bvh", "expected the text of BVH"),
        ("07_frames_header_too_large.bvh", "line 123: expected 250 frames"),
        ("08_frame_time_zero.bvh", "line 124: expected seconds above zero"),
        ("09_amc_missing_bone.amc", "line 5974: expected a line 'lfemur' (rx ry rz) in frame 200"),
        ("10_asf_undefined_bone.asf", "line 317: expected bones that :bonedata defines"),
    ],
)
def test_each_broken_file_has_one_message_with_place_and_remedy(name, place):
    skeleton = FOLDER / "broken" / "09_and_10_good_skeleton.asf"
    more = {"skeleton": skeleton, "rate": 120.0} if name.endswith("amc") else {}
    with pytest.raises(ClipError) as caught:
        read_clip(FOLDER / "broken" / name, **more)
    text = str(caught.value)
    assert text.startswith(name) and place in text and "; " in text and "\n" not in text


# ---- small files


def test_line_endings_braces_tabs_and_exponents_do_not_matter(tmp_path):
    plain = figure()
    clip = read_clip(written(tmp_path, plain))
    others = (
        plain.replace("\n", "\r\n"),
        plain.replace("\n", "\r"),
        re.sub(r"\n *\{", " {", plain),
        plain.replace("Frames: ", "Frames:\t")
        .replace("  OFFSET", "\t\tOFFSET")
        .replace("\n}", "}\n"),
        plain.replace(" 90 ", "  9.0e+001\t").replace("End Site", "end site"),
        "\ufeff" + plain + "\n\n  \n",
    )
    for text in others:
        other = read_clip(written(tmp_path, text))
        assert other.joint_names == clip.joint_names and other.axes == clip.axes
        assert np.array_equal(other.rotations, clip.rotations)
        assert np.array_equal(other.root_pos, clip.root_pos)


def test_a_position_channel_replaces_the_offset(tmp_path):
    text = figure().replace("OFFSET 0 0 0\n  CHANNELS 6", "OFFSET 155 98 4\n  CHANNELS 6")
    assert np.array_equal(
        read_clip(written(tmp_path, text)).root_pos, read_clip(written(tmp_path, figure())).root_pos
    )
    inner = QUADRUPED.replace("0 30\n    CHANNELS 3 Z", "0 30\n    CHANNELS 4 Yposition Z")
    inner = inner.replace("\n0 40 0 0 0 0 ", "\n0 40 0 0 0 0 7 ")
    inner = inner.replace("\n1 40 0 0 0 0 ", "\n1 40 0 0 0 0 -7 ")
    clip = read_bvh(written(tmp_path, inner))
    assert clip.moved == (1,)
    assert clip.moved_pos[:, 0].tolist() == [[10.0, 7.0, 30.0], [10.0, -7.0, 30.0]]


@pytest.mark.parametrize("order", ["XYZ", "XZY", "YXZ", "YZX", "ZXY", "ZYX"])
def test_orders_of_rotations(order):
    rng = np.random.default_rng(0)
    angles = rng.uniform(-np.pi, np.pi, (200, 3))
    angles[:4, 1] = (np.pi / 2, -np.pi / 2, np.pi / 2 - 1e-9, 0.0)
    by_hand = np.eye(3)
    for axis, angle in zip(order, angles[7]):
        c, s, k = np.cos(angle), np.sin(angle), "XYZ".index(axis)
        turn = np.eye(3)
        i, j = (k + 1) % 3, (k + 2) % 3
        turn[i, i], turn[i, j], turn[j, i], turn[j, j] = c, -s, s, c
        by_hand = by_hand @ turn
    q = from_angles(order, angles)
    assert np.allclose(quat_to_matrix(q[7]), by_hand, atol=1e-14)
    again = from_angles(order, to_angles(order, q))
    assert np.allclose(quat_to_matrix(again), quat_to_matrix(q), atol=1e-7)
    assert np.allclose(quat_to_matrix(again[4:]), quat_to_matrix(q[4:]), atol=1e-12)


def test_asf_rotations_are_those_of_a_calculation_by_hand(tmp_path):
    def turn(axis, deg):
        return quat_to_matrix(from_angles(axis, np.radians([deg])))

    written(tmp_path, ASF, "tiny.asf")
    clip = read_amc(written(tmp_path, AMC, "tiny_01.amc"), rate=60.0)
    unit = 0.0254 / 0.45
    root = turn("Z", 30) @ turn("Y", 20) @ turn("X", 10)
    upper = turn("Z", 20) @ (turn("Z", 7) @ turn("Y", 6) @ turn("X", 5)) @ turn("Z", 20).T
    lower = turn("Z", 20) @ turn("X", 40) @ turn("Z", 20).T
    pos, quat = poses_of(clip)
    assert clip.orders == ("ZYX", "ZYX", "X")
    assert np.allclose(pos[0, 0], unit * np.array([1.0, 2.0, 3.0]))
    assert np.allclose(quat_to_matrix(quat[0, 2]), root @ upper @ lower, atol=1e-12)
    assert np.allclose(pos[0, 2] - pos[0, 1], root @ upper @ np.array([0.0, -2.0 * unit, 0.0]))


def test_amc_without_a_rate_asks_for_it_and_takes_what_the_file_tells(tmp_path):
    written(tmp_path, ASF, "tiny.asf")
    with pytest.raises(ClipError, match=r"a rate, ':SAMPLES-PER-SECOND', got none; give .* --rate"):
        read_clip(written(tmp_path, AMC, "tiny.amc"))
    told = written(tmp_path, ":SAMPLES-PER-SECOND 30\n" + AMC, "tiny.amc")
    assert read_clip(told).rate == 30.0 and read_clip(told, rate=60.0).rate == 60.0
    in_degrees = read_clip(told).rotations
    radians = written(tmp_path, AMC.replace(":DEGREES", ":RADIANS"), "tiny.amc")
    assert not np.allclose(read_clip(radians, rate=1.0).rotations, in_degrees)


def test_one_frame_and_one_frame_a_second(tmp_path):
    clip = read_clip(written(tmp_path, figure(frames=1, frame_time="1.0")))
    assert clip.n_frames == 1 and clip.rate == 1.0 and clip.seconds == 0.0
    with pytest.raises(ClipError, match=r"line 10.: expected seconds above zero .* --rate"):
        read_clip(written(tmp_path, figure(frame_time="0")))
    assert read_clip(written(tmp_path, figure(frame_time="0")), rate=25.0).rate == 25.0


def test_a_hundred_thousand_frames(tmp_path):
    """In seconds: what is measured is in docs/guides/motion_capture.md."""
    clip = read_clip(written(tmp_path, figure(frames=100_000, step=0.001)))
    assert clip.n_frames == 100_000


def test_a_quadruped_is_read_and_is_no_humanoid(tmp_path):
    clip = read_clip(written(tmp_path, QUADRUPED))
    assert clip.n_joints == 3 and detect_scheme(clip.joint_names) is None
    assert any("no humanoid" in text for text in clip.problems)


def test_human_names_on_four_feet_are_no_human(tmp_path):
    text = (
        figure(frames=40).replace("OFFSET 25.0", "OFFSET 75").replace("OFFSET -25.0", "OFFSET -75")
    )
    names = read_bvh(written(tmp_path, text)).joint_names
    level = {"Hips": "0 0 90", "LeftUpLeg": "0 0 -90", "RightUpLeg": "0 0 -90"}
    level |= {"LeftArm": "0 -90 0", "RightArm": "0 90 0"}  # down, as the legs
    row = " ".join(["0 70 0", *(level.get(name, "0 0 0") for name in names)])
    header = text.partition("0.0333333\n")[0] + "0.0333333\n"
    clip = read_clip(written(tmp_path, header + f"{row}\n" * 40), up="Y")
    assert not_human(clip, detect_scheme(clip.joint_names)) == "it goes on four feet: no humanoid"


def test_no_feet_are_told(tmp_path):
    clip = read_clip(written(tmp_path, figure(feet=False)))
    scheme = detect_scheme(clip.joint_names)
    assert scheme is not None and "leftFoot" in scheme.lacking()
    assert any("no left and no right foot" in text for text in clip.problems)


def test_units_and_axes_may_be_given(tmp_path):
    path = written(tmp_path, figure())
    assert read_clip(path).unit == 0.01
    assert read_clip(path, unit="inch").unit == 0.0254
    assert np.allclose(read_clip(path, unit=0.02).offsets, 2.0 * read_clip(path).offsets)
    assert read_clip(path).axes == ("Z", "X", "Y")
    assert read_clip(path, up="Z").axes == ("-Y", "X", "Z")
    for more in ({"unit": "ell"}, {"up": "W"}, {"rate": -1.0}):
        with pytest.raises(ClipError, match="give"):
            read_clip(path, **more)


def test_names_with_blanks_and_twice_are_told_apart(tmp_path):
    text = QUADRUPED.replace("fore_left", "a leg").replace("hind_left", "a leg")
    clip = read_clip(written(tmp_path, text))
    assert clip.joint_names == ("body", "a leg", "a leg_2")


@pytest.mark.parametrize("name", ["gone.bvh", "x.fbx", "only.asf", "alone.amc"])
def test_files_that_are_not_there_or_of_no_use(name, tmp_path):
    if name == "only.asf":
        written(tmp_path, ASF, name)
    if name == "alone.amc":
        written(tmp_path, AMC, name)
    with pytest.raises(ClipError, match="give"):
        read_clip(tmp_path / name, rate=30.0)


def test_naming_schemes():
    assert detect_scheme(["body", "leg"]) is None
    limbs = ("Arm", "ForeArm", "Hand", "UpLeg", "Leg", "Foot", "ToeBase")
    names = ["Hips", "Spine", "Spine1", "Spine2", "Head"]
    names += [f"{side}{limb}" for side in ("Left", "Right") for limb in limbs]
    found = detect_scheme([f"mixamorig:{name}" for name in names])
    assert found is not None and found.name == "mixamo"
    assert found.joints["leftShank"] == "mixamorig:LeftLeg"
    names[3] = "Chest"
    assert detect_scheme(names).name == "MotionBuilder"  # pyright: ignore


# ---- kinematics


def test_kinematics_in_jax_are_those_in_numpy_batched_and_differentiable(tmp_path):
    clip = read_clip(written(tmp_path, QUADRUPED))
    pos, quat = poses_of(clip)
    places, turns = jnp.asarray(places_of(clip)), jnp.asarray(clip.rotations)
    one = jax.jit(jax.vmap(lambda p, r: joint_poses(clip.parents, p, r)))
    assert np.allclose(one(places, turns)[0], pos, atol=1e-12)
    assert np.allclose(one(places, turns)[1], quat, atol=1e-12)
    slope = jax.jit(jax.grad(lambda r: joint_poses(clip.parents, places, r)[0].sum()))(turns)
    assert np.isfinite(slope).all() and float(jnp.abs(slope).max()) > 0


def test_a_clip_that_does_not_agree_is_refused(tmp_path):
    good = read_clip(written(tmp_path, figure()))
    for change in (
        {"rate": 0.0},
        {"root_pos": np.full_like(good.root_pos, np.nan)},
        {"rotations": 2.0 * good.rotations},
        {"parents": good.parents[::-1]},
    ):
        with pytest.raises(ClipError, match="clip: "):
            Clip(**{**vars(good), **change})
