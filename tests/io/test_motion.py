"""The record of a motion: what it refuses, and that a file gives back what was saved."""

from __future__ import annotations

import dataclasses
import json
import os

import numpy as np
import pytest

from jaxsim.io.gauges import Gauge
from jaxsim.io.motion import Motion, MotionShape
from jaxsim.io.motion_file import MotionFileError, load_motion, save_motion

FIELDS = ("time", "q", "qd", "link_pos", "link_quat", "contact_pos", "contact_force", "phase")
FIELDS = (*FIELDS, "torque", "torque_limit")


def make_motion(frames: int = 7, **changes: object) -> Motion:
    rng = np.random.default_rng(0)
    values: dict = {
        "title": "two links, \N{GREEK SMALL LETTER ALPHA} & <b>",
        "link_names": ("trunk", "left_arm"),
        "joint_names": ("left_shoulder",),
        "phase_names": ("wait", "go"),
        "shapes": (
            MotionShape("plane", -1),
            MotionShape(
                "tapered_capsule", 1, (0, 0, 0.1), (0.6, 0, 0.8, 0), np.array([0.1, 0.2, 0.3])
            ),
        ),
        "time": np.arange(frames) * 0.01,
        "q": rng.normal(size=(frames, 8)),
        "qd": rng.normal(size=(frames, 7)).astype(np.float32),
        "link_pos": rng.normal(size=(frames, 2, 3)),
        "link_quat": rng.normal(size=(frames, 2, 4)),
        "contact_pos": rng.normal(size=(frames, 3, 3)),
        "contact_force": rng.normal(size=(frames, 3, 3)),
        "phase": np.arange(frames) % 3 - 1,
        "torque": rng.normal(size=(frames, 1)),
        "torque_limit": np.array([np.inf]),
        "heights": {"head": rng.normal(size=frames), "odd / name": rng.normal(size=frames)},
        "planar": True,
        "phase_events": ((0.0, "wait", "start"), (0.02, "go", "t > 0.02")),
    }
    return Motion(**(values | changes))


@pytest.mark.parametrize("frames", [7, 1, 0])
def test_file_gives_back_the_motion(tmp_path, frames):
    motion = make_motion(frames, com=np.ones((frames, 3)))
    save_motion(tmp_path / "motion.npz", motion)
    loaded = load_motion(tmp_path / "motion.npz")
    for name in (*FIELDS, "com"):
        was, now = getattr(motion, name), getattr(loaded, name)
        assert now.dtype == was.dtype
        np.testing.assert_array_equal(now, was)
    assert list(loaded.heights) == list(motion.heights)
    for name, height in motion.heights.items():
        np.testing.assert_array_equal(loaded.heights[name], height)
    for name in ("title", "link_names", "joint_names", "phase_names", "planar", "phase_events"):
        assert getattr(loaded, name) == getattr(motion, name)
    assert loaded.shapes == motion.shapes


def test_file_without_centre_of_mass(tmp_path):
    save_motion(tmp_path / "motion.npz", make_motion())
    assert load_motion(tmp_path / "motion.npz").com is None


def test_saving_replaces_the_file_and_leaves_nothing_else(tmp_path):
    path = tmp_path / "motion.npz"
    path.write_bytes(b"old")
    save_motion(path, make_motion())
    assert os.listdir(tmp_path) == ["motion.npz"]
    assert load_motion(path).n_frames == 7


def test_failed_save_keeps_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "motion.npz"
    save_motion(path, make_motion(3))

    def fail(*_):
        raise OSError("disk")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk"):
        save_motion(path, make_motion(5))
    monkeypatch.undo()
    assert os.listdir(tmp_path) == ["motion.npz"]
    assert load_motion(path).n_frames == 3


def test_missing_files_and_folders_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"absent\.npz"):
        load_motion(tmp_path / "absent.npz")
    with pytest.raises(FileNotFoundError, match="no folder"):
        save_motion(tmp_path / "nowhere" / "motion.npz", make_motion())


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04 broken"])
def test_other_files_are_refused(tmp_path, content):
    path = tmp_path / "motion.npz"
    path.write_bytes(content)
    with pytest.raises(MotionFileError, match="not a motion file"):
        load_motion(path)


def test_damaged_file_is_refused(tmp_path):
    path = tmp_path / "motion.npz"
    save_motion(path, make_motion())
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(MotionFileError, match="damaged"):
        load_motion(path)


def test_objects_are_never_unpickled(tmp_path):
    path = tmp_path / "motion.npz"
    np.savez(path, format=np.array([{"a": 1}], dtype=object))
    with pytest.raises(MotionFileError, match="not a motion file"):
        load_motion(path)


def rewrite(path, **changes):
    with np.load(path) as file:
        stored = {name: file[name] for name in file.files}
    stored |= changes
    np.savez(path, **{name: array for name, array in stored.items() if array is not None})


def test_files_of_the_first_version_are_read(tmp_path):
    path, motion = tmp_path / "motion.npz", make_motion()
    save_motion(path, motion)
    with np.load(path) as file:
        meta = json.loads(str(file["meta"]))
    for name in ("link_roles", "grip_names"):
        del meta[name]
    for shape in meta["shapes"]:
        del shape["heights"]
    new = dict.fromkeys(("grip_pos", "grip_force", "grip_closed", "contact_outer"))
    rewrite(path, version=np.array(1), meta=np.array(json.dumps(meta)), **new)
    old = load_motion(path)
    assert old.link_roles == ("character",) * motion.n_links and old.grip_names == ()
    assert old.grip_pos.shape == (7, 0, 3) and old.contact_outer.all()
    np.testing.assert_array_equal(old.link_pos, motion.link_pos)


def followed(**changes: object) -> Motion:
    """With two gauges and a ghost that lacks a link."""
    ghost = np.ones((7, 2, 3), dtype=np.float32)
    ghost[:, 1] = np.nan
    gauges = {
        "ankle / torque": Gauge("N m", (20.0, 40.0), np.arange(7.0)),
        "lean": Gauge("", (), np.zeros(7, dtype=np.float32)),
        "left foot touches": Gauge("", (), np.arange(7) > 2),
    }
    values: dict = {"gauges": gauges, "ghost_pos": ghost, "ghost_quat": np.ones((7, 2, 4))}
    return make_motion(**(values | changes))


def test_file_gives_back_gauges_and_ghost(tmp_path):
    motion = followed()
    save_motion(tmp_path / "motion.npz", motion)
    loaded = load_motion(tmp_path / "motion.npz")
    assert list(loaded.gauges) == list(motion.gauges)
    for name, gauge in motion.gauges.items():
        now = loaded.gauges[name]
        assert (now.unit, now.thresholds) == (gauge.unit, gauge.thresholds)
        assert now.values.dtype == gauge.values.dtype
        np.testing.assert_array_equal(now.values, gauge.values)
    assert [gauge.is_strip for gauge in loaded.gauges.values()] == [False, False, True]
    np.testing.assert_array_equal(loaded.ghost_pos, motion.ghost_pos)
    np.testing.assert_array_equal(loaded.ghost_quat, motion.ghost_quat)
    assert motion.first_bad_frame() is None  # a ghost may lack links
    part = motion.take(np.array([1, 4]))
    np.testing.assert_array_equal(part.gauges["ankle / torque"].values, [1.0, 4.0])
    assert part.ghost_pos is not None and part.ghost_pos.shape == (2, 2, 3)


SHARES = {"reach": np.linspace(0.0, 1.0, 7), "damping": np.linspace(1.0, 0.0, 7)}


def test_file_gives_back_the_shares_of_an_objective(tmp_path):
    motion = make_motion(shares=SHARES)
    save_motion(tmp_path / "motion.npz", motion)
    loaded = load_motion(tmp_path / "motion.npz")
    assert list(loaded.shares) == list(SHARES)
    for name, share in SHARES.items():
        np.testing.assert_array_equal(loaded.shares[name], share)
    np.testing.assert_array_equal(motion.take(np.array([1, 4])).shares["reach"], [1 / 6, 4 / 6])
    with pytest.raises(ValueError, match=r"shares\['reach'\] has shape \(3,\), expected \(7,\)"):
        make_motion(shares={"reach": np.zeros(3)})


@pytest.mark.parametrize(
    ("motion", "version"),
    [
        (make_motion(), 2),
        (followed(), 3),
        (followed(gauges={}), 3),
        (make_motion(shares=SHARES), 4),
    ],
)
def test_a_file_is_of_the_first_version_that_holds_it(tmp_path, motion, version):
    save_motion(tmp_path / "motion.npz", motion)
    with np.load(tmp_path / "motion.npz") as file:
        assert int(file["version"]) == version
        meta = json.loads(str(file["meta"]))
        assert ("gauges" in meta, "shares" in meta) == (bool(motion.gauges), bool(motion.shares))
        assert ("ghost_pos" in file.files) == (version == 3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"gauge_1": None}, "lacks 'gauge_1'"),
        ({"gauge_0": np.zeros(3)}, r"gauges\['ankle / torque'\] has shape \(3,\)"),
        ({"ghost_quat": None}, "needs both"),
    ],
)
def test_wrong_gauges_and_ghosts_of_files_are_named(tmp_path, changes, message):
    save_motion(tmp_path / "motion.npz", followed())
    rewrite(tmp_path / "motion.npz", **changes)
    with pytest.raises(MotionFileError, match=message):
        load_motion(tmp_path / "motion.npz")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (("N", (2.0, 1.0), np.zeros(7)), "finite and increasing"),
        (("N", (np.nan,), np.zeros(7)), "finite and increasing"),
        (("N", (), np.zeros((7, 1))), r"expected \(T,\)"),
        ((None, (), np.zeros(7)), "unit is None"),
        (("N", (), np.zeros(7, bool)), "no unit 'N'"),
        (("", (0.5,), np.zeros(7, bool)), "no unit '' or thresholds"),
    ],
)
def test_gauges_are_checked(values, message):
    with pytest.raises(ValueError, match=message):
        Gauge(*values)


@pytest.mark.parametrize(
    ("thresholds", "values", "scale"),
    [
        ((20.0, 40.0), [90.0], (0.0, 60.0)),
        ((-1.0, 1.0), [0.0], (-2.0, 2.0)),
        ((0.0,), [-3.0, np.inf, 2.0], (-3.0, 2.0)),
        ((), [], (0.0, 1.0)),
    ],
)
def test_a_gauge_has_a_bar_that_shows_its_zones(thresholds, values, scale):
    assert Gauge("", thresholds, np.array(values)).scale() == scale


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": np.array("other")}, "not a motion"),
        ({"format": None}, "not a motion"),
        ({"version": np.array(99)}, "format 99"),
        ({"version": None}, "format None"),
        ({"torque": None}, "lacks 'torque'"),
        ({"meta": None}, "lacks 'meta'"),
        ({"meta": np.array("{")}, "does not agree"),
        ({"meta": np.array(json.dumps({"title": ""}))}, "lacks 'link_names'"),
        ({"q": np.zeros((3, 2))}, r"q has shape \(3, 2\), expected \(7, 'any'\)"),
    ],
)
def test_wrong_content_is_named(tmp_path, changes, message):
    path = tmp_path / "motion.npz"
    save_motion(path, make_motion())
    rewrite(path, **changes)
    with pytest.raises(MotionFileError, match=message):
        load_motion(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"link_pos": np.zeros((7, 3, 3))}, "link_pos has shape"),
        ({"contact_force": np.zeros((7, 2, 3))}, "contact_force has shape"),
        ({"contact_pos": np.zeros((7, 9))}, "contact_pos has shape"),
        ({"link_roles": ("king",)}, "link_roles needs"),
        ({"grip_names": ("hold",)}, "grip_pos has shape"),
        ({"contact_outer": np.zeros(5)}, "contact_outer has shape"),
        ({"torque_limit": np.zeros(2)}, "torque_limit has shape"),
        ({"torque_limit": np.array([np.nan])}, "torque_limit holds NaN"),
        ({"heights": {"head": np.zeros(6)}}, r"heights\['head'\] has shape"),
        ({"com": np.zeros((7, 2))}, "com has shape"),
        ({"gauges": {"lean": Gauge("", (), np.zeros(6))}}, r"gauges\['lean'\] has shape"),
        ({"ghost_pos": np.zeros((7, 2, 3))}, "ghost needs both"),
        ({"ghost_pos": np.zeros((7, 1, 3)), "ghost_quat": np.ones((7, 2, 4))}, "ghost_pos has"),
        ({"time": np.array([0, 1, 2, 1.5, 4, 5, 6])}, "time decreases at frame 3"),
        ({"time": np.float64(1.0)}, "time has shape"),
        ({"phase": np.full(7, 2)}, "phase must be -1 to 1"),
        ({"shapes": (MotionShape("sphere", 2, size=(0.1,)),)}, "on link 2, have 2"),
        ({"phase_events": ((np.nan, "go", ""),)}, "phase_events"),
    ],
)
def test_fields_must_agree(changes, message):
    with pytest.raises(ValueError, match=message):
        make_motion(**changes)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"kind": "cone"}, "known: sphere, capsule"),
        ({"kind": "sphere", "size": (0.1, 0.2)}, r"1 numbers \('radius',\), got 2"),
        ({"kind": "box", "size": (0.1, -0.2, 0.1)}, "negative size"),
        ({"kind": "box", "size": (0.1, np.nan, 0.1)}, "finite"),
        ({"kind": "plane", "quat": (2, 0, 0, 0)}, "unit length"),
        ({"kind": "plane", "pos": (0, 0)}, "pos needs 3"),
    ],
)
def test_shapes_are_checked(values, message):
    with pytest.raises(ValueError, match=message):
        MotionShape(link=-1, **values)


def test_first_bad_frame_names_frame_and_field(tmp_path):
    assert make_motion().first_bad_frame() is None
    assert make_motion(0).first_bad_frame() is None
    torque, height = np.zeros((7, 1)), np.zeros(7)
    torque[5], height[4:] = np.inf, np.nan
    motion = make_motion(torque=torque, heights={"head": height})
    bad = motion.first_bad_frame()
    assert bad is not None
    assert (bad.frame, bad.field) == (4, "heights['head']")
    assert bad.time == pytest.approx(0.04)
    save_motion(tmp_path / "bad.npz", motion)
    assert load_motion(tmp_path / "bad.npz").first_bad_frame() == bad


def test_take_keeps_frames_together():
    motion = make_motion(com=np.arange(21.0).reshape(7, 3))
    part = motion.take(np.array([1, 4]))
    np.testing.assert_array_equal(part.time, motion.time[[1, 4]])
    np.testing.assert_array_equal(part.link_pos, motion.link_pos[[1, 4]])
    np.testing.assert_array_equal(part.heights["head"], motion.heights["head"][[1, 4]])
    assert part.com is not None and part.com[1, 0] == 12.0
    np.testing.assert_array_equal(part.torque_limit, motion.torque_limit)


def test_integers_become_floats_and_floats_stay():
    motion = make_motion(q=np.zeros((7, 8), dtype=int))
    assert motion.q.dtype == np.float64
    assert motion.qd.dtype == np.float32
    with pytest.raises(dataclasses.FrozenInstanceError):
        motion.title = "other"
