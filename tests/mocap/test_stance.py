"""Stance labels: as measured on the real clips, on a made one, and in a file."""

import numpy as np
import pytest

from jaxsim.mocap.errors import ClipError
from jaxsim.mocap.read import read_clip
from jaxsim.mocap.schemes import detect_scheme
from jaxsim.mocap.stance import Stance, StanceRule, label_stance
from jaxsim.mocap.stance_file import read_stance, write_stance
from tests.mocap.clips import FOLDER, figure, needs_clips, options

# left, right, both, none [%], changes of support: measured by another script
MEASURED = {
    "cmu_02_05__punch.amc": (0, 0, 100, 0, 0),
    "cmu_05_11__pirouette.amc": (34, 10, 44, 12, 11),
    "cmu_12_01__walk.bvh": (42, 43, 15, 0, 14),
    "cmu_143_35__dance_macarena.amc": (1, 0, 95, 3, 10),
    "cmu_55_25__step_in_place.amc": (38, 36, 6, 19, 57),
    "fair1_wave_hello__wave_zup.bvh": (0, 0, 100, 0, 0),
    "snu_bboy_1_thomas__acro_flares.amc": (18, 15, 15, 52, 39),
    "snu_walk_left_90degree__walk_turn.bvh": (32, 32, 37, 0, 13),
    "snu_wd2_falling_down__fall_getup.bvh": (25, 13, 55, 8, 39),
    "snu_wd2_n_kick__kick.bvh": (61, 5, 34, 0, 4),
}


def made(tmp_path, **more):
    (tmp_path / "figure.bvh").write_text(figure(**more))
    clip = read_clip(tmp_path / "figure.bvh")
    scheme = detect_scheme(clip.joint_names)
    assert scheme is not None
    return clip, scheme


@needs_clips
@pytest.mark.parametrize("name", MEASURED)
def test_stance_of_real_clips(name):
    clip = read_clip(FOLDER / name, **options(name))
    scheme = detect_scheme(clip.joint_names)
    assert scheme is not None
    stance = label_stance(clip, scheme)
    *shares, changes = MEASURED[name]
    assert [100 * x for x in stance.shares().values()] == pytest.approx(shares, abs=4.5)
    assert abs(stance.switches() - changes) <= 2


def test_who_stands_still_stands_and_who_is_shifted_slides(tmp_path):
    clip, scheme = made(tmp_path, frames=60, step=0.0)
    stance = label_stance(clip, scheme)
    assert stance.shares()["both"] == 1.0 and not stance.slides.any() and stance.switches() == 0
    clip, scheme = made(tmp_path, frames=60, step=1.4)  # [cm] a frame: 0.42 m/s
    stance = label_stance(clip, scheme)
    assert stance.stands.all() and stance.slides.all()
    clip, scheme = made(tmp_path, frames=60, step=3.0)  # 0.9 m/s
    assert not label_stance(clip, scheme).stands.any()


@pytest.mark.parametrize("frames", [1, 2])
def test_the_shortest_clips(frames, tmp_path):
    clip, scheme = made(tmp_path, frames=frames, step=0.0)
    assert label_stance(clip, scheme).stands.all()


def test_without_feet_there_is_an_error_that_says_so(tmp_path):
    clip, scheme = made(tmp_path, feet=False)
    with pytest.raises(ClipError, match="no leftFoot and no rightFoot"):
        label_stance(clip, scheme)
    with pytest.raises(ClipError, match=r"release is 0\.5"):
        StanceRule(release=0.5)


def test_a_file_of_labels_comes_back_and_may_be_edited(tmp_path):
    clip, _ = made(tmp_path, frames=20)
    rng = np.random.default_rng(0)
    stance = Stance(rng.random((20, 2)) > 0.5, rng.random((20, 2)) > 0.5, clip.rate)
    path = tmp_path / "stance.toml"
    write_stance(path, clip, stance)
    again = read_stance(path, clip)
    assert np.array_equal(again.stands, stance.stands)
    assert np.array_equal(again.slides, stance.slides)
    path.write_text(
        "frames = 20\nrate = 30.0\nleft_stands = [[0, 4], [8, 19]]\nright_stands = []\n"
        "left_slides = []\nright_slides = []\n"
    )
    assert read_stance(path, clip).stands.sum(axis=0).tolist() == [17, 0]


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("frames = 20", "frames = 21", "key 'frames': is 21, but the clip has 20"),
        ("[0, 4]", "[0, 20]", "key 'left_stands': has .* from 0 to 19"),
        ("[0, 4]", "[4, 0]", "in order and apart"),
        ("[0, 4]", "[0.5, 4]", "in order and apart"),
        ("right_stands = []", "", "'right_stands': is missing"),
        ("right_stands = []", "right_stands = 3", "give stretches"),
        ("rate", "speed", "'rate'"),
        ("rate = 30.0", "rate = ", "not TOML"),
    ],
)
def test_a_wrong_file_of_labels_is_told(old, new, message, tmp_path):
    clip, _ = made(tmp_path, frames=20)
    good = (
        "frames = 20\nrate = 30.0\nleft_stands = [[0, 4]]\nright_stands = []\n"
        "left_slides = []\nright_slides = []\n"
    )
    (tmp_path / "stance.toml").write_text(good.replace(old, new, 1))
    with pytest.raises(ClipError, match=message):
        read_stance(tmp_path / "stance.toml", clip)
