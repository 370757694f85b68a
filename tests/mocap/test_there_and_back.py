"""BVH to a character to BVH: bones point as those of the clip do."""

from dataclasses import replace

import numpy as np
import pytest

from jaxsim.mocap.joint_map import find_map
from jaxsim.mocap.read import read_clip
from jaxsim.mocap.rest_pose import source_of
from jaxsim.mocap.rotations import from_angles
from jaxsim.mocap.write_bvh import write_bvh
from optimize.cli.main import main
from tests.mocap.clips import CLIPS, FOLDER, figure, needs_clips, options

LIMBS = tuple(
    f"{side}{limb}"
    for side in ("left", "right")
    for limb in ("UpperArm", "Forearm", "Thigh", "Shank")
)
BOUND = 0.5  # [deg]


def there_and_back(clip, tmp_path):
    """The file's clip on a human with balls, as the command writes it to a file, read again."""
    to = tmp_path / "back.bvh"
    assert main(["mocap", str(clip), "--character", "ball_joint_human", "--to", str(to)]) == 0
    return read_clip(to)


def bone_errors(clip, again):
    """(limbs, T) [deg] between the bones of two clips of the same frames."""
    assert again.n_frames == clip.n_frames and again.rate == pytest.approx(clip.rate, rel=1e-6)
    one, two = (source_of(each, find_map(each)).bones for each in (clip, again))
    errors = []
    for limb in LIMBS:
        across = np.linalg.norm(np.cross(one[limb], two[limb]), axis=1)
        errors.append(np.arctan2(across, np.sum(one[limb] * two[limb], axis=1)))
    return np.degrees(np.array(errors))


@pytest.fixture
def moving(tmp_path):
    """A file of a human that moves all its limbs."""
    (tmp_path / "still.bvh").write_text(figure(frames=50))
    clip = read_clip(tmp_path / "still.bvh")
    time = np.linspace(0.0, 4.0, clip.n_frames)[:, None, None]
    phase = np.random.default_rng(0).uniform(0.0, 6.0, (1, clip.n_joints, 3))
    rotations = clip.rotations.copy()
    rotations[:, 1:] = from_angles("XYZ", 0.5 * np.sin(time + phase))[:, 1:]
    write_bvh(tmp_path / "moving.bvh", replace(clip, rotations=rotations))
    return tmp_path / "moving.bvh"


def test_bones_come_back(moving, tmp_path):
    again = there_and_back(moving, tmp_path)
    assert again.joint_names[0] == "pelvis"
    assert bone_errors(read_clip(moving), again).max() < BOUND


def test_a_turned_limb_would_be_seen(moving, tmp_path):
    """The measure tells a degree of the left thigh alone."""
    again = there_and_back(moving, tmp_path)
    joint = again.joint("leftThigh")
    again.rotations[:, joint] = from_angles("XYZ", np.radians([[1.0, 0.0, 0.0]]))[0]
    errors = bone_errors(read_clip(moving), again).max(axis=1)
    assert errors[LIMBS.index("leftThigh")] > BOUND > errors[LIMBS.index("rightThigh")]


@needs_clips
@pytest.mark.parametrize("name", [name for name in CLIPS if name.endswith("bvh")])
def test_bones_of_real_clips_come_back(name, tmp_path):
    path = FOLDER / name
    again = there_and_back(path, tmp_path)
    assert bone_errors(read_clip(path, **options(name)), again).max() < BOUND
