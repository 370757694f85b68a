"""jaxsim mocap of many files: a reference each, one table, failures by name, going on."""

import csv
import json

import numpy as np
import pytest

from optimize.cli import retargeting
from optimize.cli.main import main
from tests.mocap.clips import figure


@pytest.fixture
def folder(tmp_path):
    """Three clips, of which the second is cut off."""
    inside = tmp_path / "clips"
    inside.mkdir()
    (inside / "a.bvh").write_text(figure(frames=40))
    (inside / "b.bvh").write_text(figure(frames=40)[:-60])
    (inside / "c.BVH").write_text(figure(frames=50, step=0.0))
    (inside / "notes.txt").write_text("no clip")
    return inside


def run(folder, out, *words):
    return main(
        ["mocap", str(folder), "--character", "ball_joint_human", "--out", str(out), *words]
    )


def table(out):
    with open(out / "quality.csv", newline="") as file:
        return list(csv.DictReader(file))


def test_all_but_the_broken_one(folder, tmp_path, capsys):
    out = tmp_path / "out"
    assert run(folder, out) == 1
    told = capsys.readouterr()
    assert "1/3 a.bvh: within all bounds" in told.err and "2/3 b.bvh: failed: b.bvh" in told.err
    assert "2 of 3 clips are on ball_joint_human" in told.out
    assert told.out.rstrip().endswith("b.bvh")
    rows = table(out)
    assert [row["file"].rpartition("/")[2] for row in rows] == ["a.bvh", "b.bvh", "c.BVH"]
    assert [bool(row["failed"]) for row in rows] == [False, True, False]
    assert float(rows[2]["bone direction error mean deg"]) < 0.5 and rows[2]["frames"] == "50"
    assert {path.name for path in out.iterdir()} == {"a.npz", "c.npz", "quality.csv"}
    with np.load(out / "c.npz") as stored:
        assert stored["q"].shape[0] == 50
        assert json.loads(str(stored["about"]))["report"]["frames"] == 50


def test_what_is_there_is_kept_and_what_changed_is_made_anew(folder, tmp_path, capsys):
    out = tmp_path / "out"
    run(folder, out)
    first = {path.name: path.read_bytes() for path in out.iterdir()}
    (folder / "b.bvh").write_text(figure(frames=30))
    (folder / "c.BVH").write_text(figure(frames=60, step=0.0))
    (out / "a.npz").touch()
    capsys.readouterr()
    assert run(folder, out) == 0
    told = capsys.readouterr().err
    assert "a.bvh: within all bounds, kept from before" in told and told.count("kept") == 1
    assert (out / "a.npz").read_bytes() == first["a.npz"]
    assert [row["frames"] for row in table(out)] == ["40", "30", "60"]
    assert run(folder, out, "--pin") == 0  # another question
    assert "kept" not in capsys.readouterr().err
    (out / "a.npz").write_bytes(b"damaged")
    assert run(folder, out, "--pin") == 0
    assert capsys.readouterr().err.count("kept") == 2


def test_an_interrupted_run_keeps_what_is_done(folder, tmp_path, monkeypatch, capsys):
    out, put = tmp_path / "out", retargeting.on_character

    def interrupted(args, clip, *rest):
        if clip.name == "c":
            raise KeyboardInterrupt
        return put(args, clip, *rest)

    monkeypatch.setattr(retargeting, "on_character", interrupted)
    assert run(folder, out) == 130
    assert [row["file"].rpartition("/")[2] for row in table(out)] == ["a.bvh", "b.bvh"]
    monkeypatch.undo()
    capsys.readouterr()
    assert run(folder, out) == 1
    assert capsys.readouterr().err.count("kept from before") == 1 and len(table(out)) == 3


def test_a_character_is_compiled_once(tmp_path):
    from jaxsim.mocap.fit_angles import fit_hinges

    for k in range(3):
        (tmp_path / f"{k}.bvh").write_text(figure(frames=20 + 7 * k))
    assert run(tmp_path / "0.bvh", tmp_path / "one") == 0
    before = fit_hinges._cache_size()
    files = [str(tmp_path / f"{k}.bvh") for k in range(3)]
    words = ["--character", "ball_joint_human", "--out", str(tmp_path / "all")]
    assert main(["mocap", *files, *words]) == 0
    assert fit_hinges._cache_size() <= before + 1


@pytest.mark.parametrize(
    "words, message",
    [
        ([], "give --character and --out"),
        (["--character", "ball_joint_human"], "give --character and --out"),
        (["--character", "planar_human", "--out", "{out}"], "moves freely"),
        (["--character", "ball_joint_human", "--out", "{out}", "--to", "x.bvh"], "--to: this is"),
    ],
)
def test_options_that_do_not_go_with_many(words, message, folder, tmp_path, capsys):
    words = [word.format(out=tmp_path / "out") for word in words]
    assert main(["mocap", str(folder), *words]) == 2
    assert message in capsys.readouterr().err


def test_names_that_collide_and_folders_without_clips(folder, tmp_path, capsys):
    (folder / "a.amc").write_text("")
    assert run(folder, tmp_path / "out") == 2
    told = capsys.readouterr().err
    assert "a.amc" in told and "a.bvh" in told and "would both be written as a.npz" in told
    assert not (tmp_path / "out").exists()
    (tmp_path / "empty").mkdir()
    assert run(tmp_path / "empty", tmp_path / "out") == 2
    assert "no file in it ends in .bvh or .amc" in capsys.readouterr().err
    assert main(["mocap", str(folder / "c.BVH"), str(tmp_path / "none.bvh"), "--character",
                 "ball_joint_human", "--out", str(tmp_path / "out")]) == 2  # fmt: skip
    assert "none.bvh: there is no such file" in capsys.readouterr().err
