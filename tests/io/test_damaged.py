"""Damaged files: whatever happened to one, it is read, or refused with the documented error."""

import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from jaxsim.io.archive import ArchiveError, read_arrays
from jaxsim.io.motion import Motion, MotionShape
from jaxsim.io.motion_file import MotionFileError, load_motion, save_motion
from jaxsim.io.toml_table import WorldError
from jaxsim.io.world_file import read_world
from jaxsim.model.errors import ModelError
from tests.damage import MANY, damages

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], **MANY)
SHIPPED = sorted((ROOT / "optimize" / "scenarios" / "shipped").glob("*.toml"))
WORLDS = [path.read_bytes() for path in SHIPPED]
assert WORLDS


def a_motion() -> Motion:
    """Three frames of one link."""
    zeros = {"q": (3, 1), "qd": (3, 1), "link_pos": (3, 1, 3), "link_quat": (3, 1, 4)}
    zeros |= {"contact_pos": (3, 1, 3), "contact_force": (3, 1, 3), "torque": (3, 1)}
    return Motion(
        title="one link",
        link_names=("trunk",),
        joint_names=("hip",),
        phase_names=("wait",),
        shapes=(MotionShape("sphere", 0, size=(0.1,)),),
        time=np.arange(3.0),
        phase=np.zeros(3, int),
        torque_limit=np.array([np.inf]),
        heights={"head": np.arange(3.0)},
        **{name: np.arange(float(np.prod(shape))).reshape(shape) for name, shape in zeros.items()},
    )


@pytest.fixture(scope="module")
def motion_bytes(tmp_path_factory):
    path = tmp_path_factory.mktemp("motion") / "motion.npz"
    save_motion(path, a_motion())
    return path.read_bytes()


@SETTINGS
@given(damage=damages())
def test_a_damaged_motion_is_the_same_or_refused(damage, motion_bytes, tmp_path):
    path = tmp_path / "motion.npz"
    path.write_bytes(damage(motion_bytes))
    try:
        loaded = load_motion(path)
    except MotionFileError as error:
        assert str(path) in str(error)
    else:
        np.testing.assert_array_equal(loaded.q, a_motion().q)
        assert loaded.title == "one link"


def stored_again(data: bytes, **changes) -> bytes:
    """An archive with other arrays, or other numbers in its meta."""
    with np.load(io.BytesIO(data)) as file:
        arrays = {name: file[name] for name in file.files}
    meta = json.loads(str(arrays["meta"]))
    for name, value in changes.items():
        if name in meta:
            meta[name] = value
        else:
            arrays[name] = value
    out = io.BytesIO()
    np.savez(out, **{**arrays, "meta": np.array(json.dumps(meta))})
    return out.getvalue()


@pytest.mark.parametrize(
    "changes",
    [
        {"title": 5},
        {"title": None},
        {"link_names": "t"},
        {"joint_names": [1]},
        {"heights": {"head": 1}},
        {"shapes": [5]},
        {"shapes": 5},
        {"shapes": [{"kind": "sphere", "link": 0, "size": ["a"]}]},
        {"shapes": [{"kind": "sphere", "link": 1e400, "size": [1]}]},
        {"phase_events": [[0, "a"]]},
        {"phase_events": 3},
        {"version": np.array("two")},
        {"version": np.arange(3)},
        {"format": np.arange(3)},
        {"q": np.array(["a", "b", "c"])},
        {"q": np.array(5.0)},
        {"phase": np.array([0, 1e300, 0])},
        {"height_0": np.zeros((3, 2))},
    ],
)
def test_a_motion_of_wrong_types_is_refused(changes, motion_bytes, tmp_path):
    path = tmp_path / "motion.npz"
    path.write_bytes(stored_again(motion_bytes, **changes))
    with pytest.raises(MotionFileError, match=r"motion\.npz"), np.errstate(all="ignore"):
        load_motion(path)


def with_meta(text: str, data: bytes) -> bytes:
    with np.load(io.BytesIO(data)) as file:
        arrays = {name: file[name] for name in file.files}
    out = io.BytesIO()
    np.savez(out, **{**arrays, "meta": np.array(text)})
    return out.getvalue()


@pytest.mark.parametrize("text", ["[" * 100_000, "[]", "{", '{"title": ' + "9" * 5000 + "}"])
def test_a_motion_whose_meta_is_nested_deeply_or_no_object_is_refused(text, motion_bytes, tmp_path):
    path = tmp_path / "motion.npz"
    path.write_bytes(with_meta(text, motion_bytes))
    with pytest.raises(MotionFileError, match="restore the file from a copy"):
        load_motion(path)


def header(shape: str, descr: str = "'<f8'") -> bytes:
    """The beginning of an array's file that claims a shape."""
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (header("(10**15,)"), ""),
        (header("(1000000000000000,)"), "which its"),
        (header("(" * 3000 + ")" * 3000), ""),
        (header("(-1,)"), ""),
        (header("(3,)", "'|O'"), "pickled"),
        (b"\x93NUMPY\x09\x00", ""),
        (b"hello", ""),
    ],
)
def test_an_array_that_claims_too_much_is_refused(content, reason, tmp_path):
    path = tmp_path / "some.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("q.npy", content)
    with pytest.raises(ArchiveError, match=rf"some\.npz.*{reason}"):
        read_arrays(path)
    with pytest.raises(MotionFileError, match="is not a motion file, or is damaged"):
        load_motion(path)


def test_an_archive_that_unpacks_to_very_much_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "some.npz"
    np.savez_compressed(path, q=np.zeros(2000), qd=np.zeros(1000))
    assert read_arrays(path, {"qd": 8000}).keys() == {"qd"}
    with pytest.raises(ArchiveError, match="q claims 16000 bytes, over 10000"):
        read_arrays(path, {"q*": 10_000})
    monkeypatch.setattr("jaxsim.io.archive.LARGEST_SUM", 20_000)
    with pytest.raises(ArchiveError, match="claims 24000 bytes, over 20000"):
        read_arrays(path)


def test_of_a_motion_only_its_arrays_are_unpacked(motion_bytes, tmp_path):
    path = tmp_path / "motion.npz"
    path.write_bytes(stored_again(motion_bytes, more=np.array([print], object)))
    assert load_motion(path).title == "one link"


def test_a_single_array_named_npz_is_refused(tmp_path):
    path = tmp_path / "motion.npz"
    with path.open("wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(MotionFileError, match="is no NumPy archive"):
        load_motion(path)


# ---- worlds


@pytest.mark.parametrize("number", range(len(WORLDS)))
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(damage=damages())
def test_a_damaged_world_is_read_or_refused(number, damage, tmp_path):
    path = tmp_path / "some.toml"
    path.write_bytes(damage(WORLDS[number]))
    try:
        read_world(path)
    except WorldError as error:
        assert "some.toml" in str(error)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a = " + "[" * 50_000, "nested too deeply"),
        ("a = " + "9" * 5000, "not TOML"),
        ("[world]\ndt = 1" + "0" * 400, "key 'dt': is"),
        ("[world]\ngravity = [0, 0, 1" + "0" * 400 + "]", "give 3 numbers"),
        ("[[body]]\nname = 'b'\nshape = 'sphere'\nradius = 1\nmass = 1\npos = {}", "pos"),
        (
            "[[fixed]]\nshape = 'height_field'\nhalf_extents = [1, 1]\nheights = [[1, 2], [3]]",
            "rows",
        ),
        (
            "[[fixed]]\nshape = 'height_field'\nhalf_extents = [1, 1]\n"
            "heights = [['1', '2'], ['3', '4']]",
            "rows",
        ),
        ("[[fixed]]\nshape = 'height_field'\nhalf_extents = [1, 1]\nheights = [[[]]]", "rows"),
        (
            "[[fixed]]\nshape = 'height_field'\nhalf_extents = [1, 1]\nheight = 1\n"
            "generator = 'hills'\nrows = 1000000000",
            "at most 1024",
        ),
        ("world = 3", "a table is needed"),
        ("[[world]]", "a table is needed"),
        ("body = [3]", "a table is needed"),
    ],
)
def test_a_world_of_wrong_types_or_sizes_is_refused(text, says, tmp_path):
    path = tmp_path / "some.toml"
    path.write_text(text)
    with pytest.raises(WorldError, match=rf"some\.toml.*{says}") as caught:
        read_world(path)
    assert len(str(caught.value)) < 1000


# ---- models


@pytest.mark.parametrize("name", ["arm.urdf", "humanoid.xml"])
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(damage=damages())
def test_a_damaged_model_is_read_or_refused(name, damage, tmp_path):
    pytest.importorskip("mujoco")
    from jaxsim.io.model_file import load_model

    path = tmp_path / name
    path.write_bytes(damage((ROOT / "tests" / "models" / name).read_bytes()))
    try:
        load_model(path, strict=False)
    except ModelError as error:
        assert name in str(error)


@pytest.mark.parametrize(
    "text",
    [
        "<mujoco>" + "<worldbody>" * 5000,
        "<mujoco>" + "<body>" * 20_000,
        '<mujoco><size memory="999999999999999"/></mujoco>',
        '<mujoco><include file="some.xml"/></mujoco>',
        "<robot></robot>",
        "<",
    ],
)
def test_a_model_of_nonsense_is_refused(text, tmp_path):
    pytest.importorskip("mujoco")
    from jaxsim.io.model_file import load_model

    path = tmp_path / "some.xml"
    path.write_text(text)
    with pytest.raises(ModelError, match=r"some\.xml"):
        load_model(path)
