"""What cannot be followed is one message with file, key and remedy, before anything runs."""

import re
import time
from pathlib import Path

import jax
import numpy as np
import pytest

from controllers.tracking.parts import parts
from controllers.tracking.reference import reference
from controllers.tracking.topple_free import ToppleFree
from jaxsim import ball_joint_human
from jaxsim.io.toml_table import WorldError
from jaxsim.model import ModelError
from jaxsim.model.state import neutral_q
from optimize import scenario, simulate
from optimize.cli.main import main
from tests.mocap.clips import QUADRUPED, figure

MODELS = Path(__file__).parents[2] / "models"
GOOD = figure(frames=40, step=0.1)


def written(folder, controller="", clip="clip.bvh", model="ball_joint_human", world=""):
    """A scenario that follows a clip."""
    follows = f'clip = "{clip}"' if clip else ""
    (folder / "follow.toml").write_text(
        f'[world]\nseconds = 0.01\n{world}\n[character]\nmodel = "{model}"\n'
        f'[controller]\nname = "topple_free"\n{follows}\n{controller}\n'
    )
    return folder / "follow.toml"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("clip.bvh", figure(feet=False), "no leftFoot and no rightFoot; choose one with two feet"),
        ("clip.bvh", figure(frames=1), "1 frame; a motion needs at least 2, give a longer"),
        ("clip.bvh", figure(frames=40, frame_time="1"), "1 frames a second.* is the rate right"),
        ("clip.bvh", QUADRUPED, "no known naming scheme.* is it a human"),
        ("clip.bvh", GOOD[:-40], "line .*: expected .*, got .*; "),
        ("clip.bvh", GOOD.replace("\n0.1 90", "\nnan 90"), "line .*: expected a number"),
        ("clip.amc", "root 1", "no ASF file beside it.*give its skeleton"),
        ("clip.c3d", "x", "holds markers and no joints; read_markers"),
        ("clip.fbx", "x", "unknown kind '.fbx'; give a file of .bvh, .amc"),
        ("none.bvh", None, "there is no such file; give the path of a BVH file"),
        (".", None, "; give"),
    ],
)
def test_clips_that_cannot_be_followed(name, text, message, tmp_path):
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(WorldError, match=rf"follow.toml: \[controller\], key 'clip': .*{message}"):
        scenario(written(tmp_path, clip=name))


def test_a_map_of_joints_is_a_file_beside_the_scenario(tmp_path):
    (tmp_path / "clip.bvh").write_text(GOOD)
    (tmp_path / "map.toml").write_text('[joints]\npelvis = "Hipps"\n')
    file = written(tmp_path, 'joints = "map.toml"')
    with pytest.raises(WorldError, match=r"'clip': map.toml.* 'Hipps'.* Hips"):
        scenario(file)
    with pytest.raises(WorldError, match=r"'clip': .*maps.toml: there is no such file"):
        scenario(written(tmp_path, 'joints = "maps.toml"'))


@pytest.mark.parametrize(
    ("controller", "message"),
    [
        ("numbers = { help_from = 300.0 }", "key 'numbers': balance.help_from is 300.* larger one"),
        ("numbers = { com_p = -1.0 }", "key 'numbers': balance.com_p is -1.0; it is zero or more"),
        ("numbers = { com_p = nan }", "key 'numbers': balance.com_p is nan; it is zero or more"),
        ("numbers = { com_q = 1.0 }", "key 'numbers.com_q': "),
        ('help = "capcity"', "key 'help': is 'capcity'; did you mean 'capacity'"),
        ("rate = nan", "key 'rate': is nan; give a finite number above 0"),
        ("begin = -1.0", "key 'begin': "),
    ],
)
def test_numbers_that_make_no_sense(controller, message, tmp_path):
    (tmp_path / "clip.bvh").write_text(GOOD)
    with pytest.raises(WorldError, match=rf"follow.toml: \[controller\], {message}"):
        scenario(written(tmp_path, controller, clip="" if "numbers" in controller else "clip.bvh"))


def test_numbers_that_are_set_later_are_told_before_it_runs(tmp_path, capsys):
    file = written(tmp_path, clip="")
    for words in (["--set", "help_from=300"], ["--set", "controller.balance.com_p=-3"]):
        began = time.perf_counter()
        assert main(["simulate", str(file), *words]) == 2
        assert time.perf_counter() - began < 10.0  # it compiled nothing
        assert re.search(r"error: balance\.(help_from is 300|com_p is -3)", capsys.readouterr().err)
    with pytest.raises(ModelError, match="help_to, which is the larger one"):
        simulate(scenario(file).set("help_from", 300.0))


@pytest.mark.parametrize(
    ("pose", "message"),
    [
        ("kneeFlexion = nan", "key 'kneeFlexion': is nan; give a finite number"),
        ("leftKnee = [nan, 0, 0]", "key 'leftKnee': is "),
    ],
)
def test_a_target_that_is_no_number(pose, message, tmp_path):
    file = written(tmp_path, clip="")
    text = file.read_text().replace("[controller]", f"pose = {{ {pose} }}\n[controller]")
    file.write_text(text)
    with pytest.raises(WorldError, match=message):
        scenario(file)


def test_targets_from_python_that_are_no_numbers():
    model = ball_joint_human()
    q = np.tile(neutral_q(model), (3, 1))
    with pytest.raises(ModelError, match="the target is not finite"):
        ToppleFree.of(model, pose=np.full(model.topology.nq, np.nan))
    q[1, 4] = np.nan
    with pytest.raises(ModelError, match="the pose of frame 1 is not finite"):
        reference(model, q, 60.0, np.ones((3, 2), bool), parts(model))


@pytest.mark.parametrize("clip", ["", pytest.param("clip.bvh", marks=pytest.mark.slow)])
def test_a_character_without_ankles(clip, tmp_path):
    text = (MODELS / "humanoid.xml").read_text()
    for pattern in (r"<joint name=\"ankle[^>]*>", r"<motor joint=\"ankle[^>]*>"):
        text = re.sub(pattern, "", text)
    text = re.sub(r"<keyframe>.*?</keyframe>", "", text, flags=re.S)
    (tmp_path / "stiff.xml").write_text(text)
    roles = (MODELS / "humanoid.roles.toml").read_text()
    roles = re.sub(r"^.*ankle_.*$", "", roles, flags=re.M)
    (tmp_path / "stiff.roles.toml").write_text(roles)
    (tmp_path / "clip.bvh").write_text(GOOD)
    with pytest.raises(WorldError, match=r"\[controller\]: .*Foot has no joint of its own: "):
        scenario(written(tmp_path, clip=clip, model="stiff.xml"))


def test_a_character_that_is_no_body_in_space(tmp_path):
    (tmp_path / "clip.bvh").write_text(GOOD)
    with pytest.raises(WorldError, match=r"no root that moves freely.*such as ball_joint_human"):
        scenario(written(tmp_path, model="planar_human"))
    with pytest.raises(WorldError, match="needs a character in space"):
        scenario(written(tmp_path, clip="", model="planar_human"))


@pytest.mark.slow
def test_a_clip_of_an_hour_is_followed(tmp_path):
    """10^5 frames: half a kB a frame, and no more than a minute besides compiling."""
    (tmp_path / "clip.bvh").write_text(figure(frames=100_000, step=0.0))
    followed = scenario(written(tmp_path)).controller.reference
    assert followed.frames == 100_000
    assert sum(x.nbytes for x in jax.tree.leaves(followed)) < 110e6  # in float64
    assert np.isfinite(np.asarray(followed.com)).all()


def test_a_begin_after_the_end_of_the_clip_is_told(tmp_path):
    (tmp_path / "clip.bvh").write_text(GOOD)
    with pytest.raises(WorldError, match=r"key 'begin': begin is 9 s, the clip is 1\.\d+ s long"):
        scenario(written(tmp_path, controller="begin = 9.0"))
