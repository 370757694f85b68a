"""jaxsim mocap: what is in a clip, its page, its labels, and files for other programs."""

import pytest

from jaxsim.io.motion_file import save_motion
from jaxsim.mocap.figure import clip_motion
from jaxsim.mocap.read import read_clip
from jaxsim.viewer.page import read_page
from optimize.cli.main import main
from tests.mocap.clips import FOLDER, QUADRUPED, figure, needs_clips


@pytest.fixture
def clip(tmp_path):
    path = tmp_path / "drift.bvh"
    path.write_text(figure(frames=60, step=0.0))
    return path


def test_what_is_in_a_clip(clip, capsys):
    assert main(["mocap", str(clip)]) == 0
    shown = capsys.readouterr().out
    for text in ("Hips, Spine", "60 at 30", "scheme  LaFAN", "both 100%", "height  1.", "#" * 60):
        assert text in shown


def test_a_page_and_labels_that_can_be_edited(clip, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("optimize.cli.view.has_display", lambda: False)
    out = tmp_path / "out"
    assert main(["mocap", str(clip), "--out", str(out)]) == 0
    assert "wrote" in capsys.readouterr().err
    assert read_page(out / "motion.html")["phases"][-1] == "both feet"
    labels = (out / "stance.toml").read_text()
    (out / "stance.toml").write_text(labels.replace("[0, 59]", "[0, 29]", 1))
    assert main(["mocap", str(clip), "--stance", str(out / "stance.toml")]) == 0
    assert "right 50%, both 50%" in capsys.readouterr().out


def test_a_simulated_motion_as_bvh(clip, tmp_path, capsys):
    save_motion(tmp_path / "motion.npz", clip_motion(read_clip(clip)))
    to = tmp_path / "out.bvh"
    assert main(["mocap", str(tmp_path / "motion.npz"), "--to", str(to)]) == 0
    assert read_clip(to).n_frames == 60
    assert main(["mocap", str(clip), "--to", str(tmp_path / "out.fbx")]) == 2
    assert "ends in .bvh, .glb or .gltf" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text, words, message",
    [
        (QUADRUPED.replace("MOTION", "MOTIONS"), [], "line 25: expected"),
        (figure(frame_time="0"), [], "--rate"),
        (figure(), ["--up", "up"], "give one of X, Y, Z"),
        (figure(), ["--stance", "none.toml"], "no such file of stance labels"),
    ],
)
def test_bad_input_is_one_message(text, words, message, tmp_path, capsys):
    (tmp_path / "bad.bvh").write_text(text)
    assert main(["mocap", str(tmp_path / "bad.bvh"), *words]) == 2
    told = capsys.readouterr().err
    assert message in told and told.count("\n") == 1


def test_a_quadruped_is_shown_and_named_no_humanoid(tmp_path, capsys):
    (tmp_path / "dog.bvh").write_text(QUADRUPED)
    assert main(["mocap", str(tmp_path / "dog.bvh")]) == 0
    shown = capsys.readouterr().out
    assert "scheme  none" in shown and "no humanoid" in shown and "stance" not in shown


@needs_clips
def test_a_real_clip_that_tells_no_rate(capsys):
    path = str(FOLDER / "cmu_02_05__punch.amc")
    assert main(["mocap", path]) == 2
    assert "--rate" in capsys.readouterr().err
    assert main(["mocap", path, "--rate", "120"]) == 0
    assert "CMU ASF" in capsys.readouterr().out
