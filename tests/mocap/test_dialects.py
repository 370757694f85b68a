"""Clips in the forms in which they are found: dialects of BVH, AMASS, long C3D files."""

import numpy as np
import pytest

from jaxsim.mocap.amass import is_amass, read_amass
from jaxsim.mocap.bvh import read_bvh
from jaxsim.mocap.errors import ClipError
from jaxsim.mocap.kinematics import poses_of
from jaxsim.mocap.read import read_clip
from jaxsim.mocap.schemes import detect_scheme
from tests.mocap.clips import figure

ROWS = 4


def with_rows(change=lambda text: text):
    """A small clip, and the same with other lines behind MOTION."""
    text = figure(frames=ROWS)
    head, motion = text.split("MOTION\n")
    return text, head + "MOTION\n" + change(motion)


def read(tmp_path, text, **options):
    path = tmp_path / "clip.bvh"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_bvh(path, **options)


def numbers(text):
    lines = text.strip().split("\n")
    return lines[:2], [[float(word) for word in line.split()] for line in lines[2:]]


def one_row_more(motion):
    return motion.replace(f"Frames: {ROWS}", f"Frames: {ROWS - 1}")


def run_together(motion):
    header, rows = numbers(motion)
    rows[1][1] = -7.5  # after the first
    words = [[f"{value:.4f}" for value in row] for row in rows]
    lines = ["".join(w if w[0] == "-" else f" {w}" for w in row) for row in words]
    return "\n".join([*header, *lines]) + "\n"


def over_lines(motion):
    header, rows = numbers(motion)
    lines = [" ".join(map(str, part)) for row in rows for part in (row[:6], row[6:])]
    return "\n".join([*header, *lines]) + "\n"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (one_row_more, "Frames says 3, and there are 4 rows"),
        (run_together, "numbers stand together before a minus"),
        (over_lines, "over several lines"),
        (lambda motion: motion.replace("Frames:", "frames").replace("Time:", "Time"), ""),
    ],
)
def test_rows_in_other_forms_are_read_and_told(change, told, tmp_path):
    plain, changed = with_rows(change)
    wanted, clip = read(tmp_path, plain), read(tmp_path, changed)
    assert any(told in line for line in clip.problems) if told else not clip.problems
    assert clip.n_frames == ROWS and clip.rate == pytest.approx(wanted.rate)
    if change is not run_together:
        np.testing.assert_allclose(clip.rotations, wanted.rotations)
        np.testing.assert_allclose(clip.root_pos, wanted.root_pos)
    else:
        assert clip.root_pos[1, 1] == -7.5


@pytest.mark.parametrize("comma", ["decimal", "between", "both"])
def test_commas_are_told_apart(comma, tmp_path):
    plain = figure(frames=ROWS).replace("OFFSET 0 -42 0", "OFFSET 0.5 -42.25 0")
    text = plain
    if comma == "decimal":
        text = text.replace(".", ",")
    else:  # names of joints are not touched, nor are the counts of channels
        head, motion = text.split("MOTION\n")
        lines = motion.split("\n")
        mark = "," if comma == "between" else ", "
        text = (
            head + "MOTION\n" + "\n".join([*lines[:2], *(mark.join(x.split()) for x in lines[2:])])
        )
    wanted, clip = read(tmp_path, plain), read(tmp_path, text)
    assert any("commas" in line for line in clip.problems)
    for name in ("offsets", "rotations", "root_pos", "rate"):
        np.testing.assert_allclose(getattr(clip, name), getattr(wanted, name))


@pytest.mark.parametrize("step", ["30", "33.3333", "120"])
def test_a_frame_time_that_is_no_time_is_refused_with_the_remedy(step, tmp_path):
    text = with_rows()[0]
    line = next(line for line in text.split("\n") if line.startswith("Frame Time"))
    text = text.replace(line, f"Frame Time: {step}")
    with pytest.raises(ClipError, match=f"--rate {step}"):
        read(tmp_path, text)
    assert read(tmp_path, text, rate=30.0).rate == 30.0


def test_utf_16_is_text(tmp_path):
    text = with_rows()[0]
    assert read(tmp_path, text.encode("utf-16")).n_frames == ROWS


# ---- AMASS

FRAMES = 30
STANDING = [np.pi / 2, 0.0, 0.0]  # SMPL's y is up, AMASS's world has z up


def motion(width=156, **more):
    poses = np.zeros((FRAMES, width))
    poses[:, :3] = STANDING
    trans = np.tile([0.3, -0.2, 0.95], (FRAMES, 1))
    return {"poses": poses, "trans": trans, "betas": np.zeros(16), "gender": "neutral", **more}


def saved(tmp_path, **arrays):
    path = tmp_path / "walk_poses.npz"
    np.savez(path, **arrays)
    return path


@pytest.mark.parametrize("width", [72, 156, 165])
def test_an_amass_motion_stands_and_moves_as_its_rotations_say(width, tmp_path):
    """A bent left knee, a raised right arm: places by hand."""
    held = motion(width, mocap_framerate=120.0)
    held["poses"][:, 3 * 4] = np.pi / 2  # left knee, about SMPL's x: backward
    held["poses"][:, 3 * 17 + 2] = -np.pi / 2  # right shoulder, about z: the T pose's arm goes up
    clip = read_clip(saved(tmp_path, **held))
    assert (clip.n_frames, clip.rate) == (FRAMES, 120.0)
    scheme = detect_scheme(clip.joint_names)
    assert scheme is not None and scheme.name == "SMPL"
    np.testing.assert_allclose(clip.root_pos[0], [0.3, -0.2, 0.95])
    pos, _ = poses_of(clip)
    at = {name: pos[0, clip.joint(name)] for name in clip.joint_names}
    ahead = np.array([0.0, -1.0, 0.0])  # of a figure that AMASS's world has turned up
    assert at["head"][2] > at["pelvis"][2] + 0.4
    shank = at["left_ankle"] - at["left_knee"]
    np.testing.assert_allclose(shank / np.linalg.norm(shank), -ahead, atol=1e-9)
    upper = at["right_elbow"] - at["right_shoulder"]
    np.testing.assert_allclose(upper / np.linalg.norm(upper), [0, 0, 1], atol=1e-9)
    side = at["left_hip"] - at["right_hip"]
    np.testing.assert_allclose(np.cross(side, [0, 0, 1]) @ ahead, np.linalg.norm(side))
    assert any("no lengths of bones" in line for line in clip.problems)


def test_parts_of_the_newer_amass_files_are_read(tmp_path):
    whole = motion(165, mocap_frame_rate=60.0)
    poses = whole.pop("poses")
    parts = {"root_orient": poses[:, :3], "pose_body": poses[:, 3:66]}
    assert read_clip(saved(tmp_path, **whole, **parts)).n_frames == FRAMES


def test_arrays_that_are_not_needed_are_left_alone(tmp_path):
    """Such as one of Python objects, which is never loaded."""
    path = saved(tmp_path, **motion(mocap_framerate=60.0, labels=np.array([{"walk"}, None])))
    assert is_amass(path)
    assert read_clip(path).n_frames == FRAMES


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"betas": np.zeros(16)}, r"expected poses and trans, as AMASS .* got an .npz of betas"),
        (motion(), r"expected mocap_framerate above zero"),
        (motion(mocap_framerate=120.0, trans=np.zeros((3, 3))), r"expected trans \(T, 3\)"),
        (motion(30, mocap_framerate=120.0), r"expected poses \(T, 66\) or more"),
        (motion(mocap_framerate=120.0, trans=np.full((FRAMES, 3), np.nan)), "numbers for trans"),
    ],
)
def test_what_is_no_amass_motion_is_told(arrays, message, tmp_path):
    with pytest.raises(ClipError, match=message):
        read_amass(saved(tmp_path, **arrays))


# ---- C3D


def test_all_frames_of_a_long_c3d_file_are_read(tmp_path):
    ezc3d = pytest.importorskip("ezc3d", reason="C3D files need it")
    from jaxsim.mocap.c3d import read_markers

    file = ezc3d.c3d()
    file["parameters"]["POINT"]["RATE"]["value"] = [100.0]
    file["parameters"]["POINT"]["LABELS"]["value"] = ("A", "B")
    file["parameters"]["POINT"]["UNITS"]["value"] = ["mm"]
    points = np.ones((4, 2, 66_000)) * 1000.0
    points[2] = 1.0 + np.arange(66_000)
    points[:, 1, 65_900] = np.nan
    file["data"]["points"] = points
    file.write(str(tmp_path / "long.c3d"))
    markers = read_markers(tmp_path / "long.c3d")
    np.testing.assert_allclose(markers.pos[:, 0, 2], points[2, 0] / 1000.0, rtol=1e-6)
    assert not markers.seen[65_900, 1] and markers.seen[65_901, 1]
    assert any("holds 66000 frames" in line for line in markers.problems)
