"""Markers from C3D files that ezc3d writes."""

from pathlib import Path

import numpy as np
import pytest

from jaxsim.mocap.c3d import _markers, markers_motion, read_markers
from jaxsim.mocap.errors import ClipError
from jaxsim.mocap.read import read_clip

REASON = "ezc3d, of the extra mocap, is not installed"


def written(path):
    ezc3d = pytest.importorskip("ezc3d", reason=REASON)
    file = ezc3d.c3d()
    points = np.ones((4, 2, 5))
    points[:3] = 1000.0 * np.arange(30).reshape(3, 2, 5)
    points[:3, 1, 2] = np.nan
    file["parameters"]["POINT"]["RATE"]["value"] = [100.0]
    file["parameters"]["POINT"]["LABELS"]["value"] = ["Anna:HEAD", "Anna:LTOE"]
    file["parameters"]["POINT"]["UNITS"]["value"] = ["mm"]
    file["data"]["points"] = points
    file.write(str(path))
    return path


def test_markers_in_metres_with_what_is_not_seen_masked(tmp_path):
    markers = read_markers(written(tmp_path / "walk.c3d"))
    assert markers.marker_names == ("HEAD", "LTOE") and markers.rate == 100.0
    assert markers.seen.sum() == 9 and np.isfinite(markers.pos).all()
    assert np.allclose(markers.pos[3, 0], [-13.0, 3.0, 23.0])  # x forward is the file's -Y
    assert np.array_equal(markers.pos[2, 1], markers.pos[1, 1])
    assert any("10.0% of the places are lacking" in text for text in markers.problems)
    shown = markers_motion(markers)
    assert shown.n_links == 2 and shown.first_bad_frame() is None


def test_what_the_file_does_not_tell_is_asked_for():
    """ezc3d itself writes no such file."""
    path, points = Path("walk.c3d"), np.ones((5, 2, 3))
    with pytest.raises(ClipError, match="POINT:RATE"):
        _markers(path, points, {"RATE": [0.0], "UNITS": ["mm"]}, None, None, None)
    with pytest.raises(ClipError, match="POINT:UNITS"):
        _markers(path, points, {"RATE": [50.0]}, None, None, None)
    markers = _markers(path, points, {}, 50.0, "cm", "Y")
    assert (markers.rate, markers.unit, markers.up) == (50.0, 0.01, "Y")
    assert markers.marker_names == ("marker 1", "marker 2")


def test_other_files_are_told_without_the_library(tmp_path):
    path = tmp_path / "no.c3d"
    path.write_bytes(b"something else")
    with pytest.raises(ClipError, match=r"no\.c3d: expected a C3D file"):
        read_markers(path)
    with pytest.raises(ClipError, match="markers and no joints"):
        read_clip(path)


def test_a_file_cut_short_is_told(tmp_path):
    path = written(tmp_path / "walk.c3d")
    path.write_bytes(path.read_bytes()[:700])
    with pytest.raises(ClipError, match=r"walk\.c3d: expected"):
        read_markers(path)
