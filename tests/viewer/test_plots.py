"""Film strip and plots: pictures with something in them."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import numpy as np
import pytest

from jaxsim.viewer import write_filmstrip, write_plots
from jaxsim.viewer.plots import DPI, TOP_ROW


def pixels(path) -> np.ndarray:
    image = pytest.importorskip("PIL.Image").open(path)
    assert image.format == "PNG"
    return np.asarray(image.convert("RGB"), dtype=float)


@pytest.mark.parametrize("write", [write_filmstrip, write_plots])
@pytest.mark.parametrize("case", ["falling", "walker", "single", "bad", "bare"])
def test_pictures_show_something(tmp_path, falling, walker, write, case):
    bad = np.where(np.arange(falling.n_frames) < 120, 1.0, np.nan)
    motion = {
        "falling": falling,
        "walker": walker,
        "single": falling.take(np.array([50])),
        "bad": dataclasses.replace(
            falling,
            link_pos=falling.link_pos * bad[:, None, None],
            torque=falling.torque * bad[:, None],
            title="$not mathematics",
            phase_names=("_hidden", "$x"),
        ),
        "bare": dataclasses.replace(
            falling,
            shapes=(),
            phase_names=(),
            phase=np.full(falling.n_frames, -1),
            heights={},
            joint_names=(),
            torque=np.zeros((falling.n_frames, 0)),
            torque_limit=np.zeros(0),
        ),
    }[case]
    write(tmp_path / "picture.png", motion)
    image = pixels(tmp_path / "picture.png")
    assert image.shape[0] > 200 and image.shape[1] > 200
    assert image.std() > 5.0
    assert [p.name for p in tmp_path.iterdir()] == ["picture.png"]


def test_gauges_have_a_panel_each_below_the_heights(tmp_path, followed):
    plain = dataclasses.replace(followed, gauges={})
    write_plots(tmp_path / "plain.png", plain)
    write_plots(tmp_path / "gauges.png", followed)
    without, image = pixels(tmp_path / "plain.png"), pixels(tmp_path / "gauges.png")
    assert image.shape[1] == without.shape[1]
    assert image.shape[0] - without.shape[0] == pytest.approx(2 * TOP_ROW * 0.8 * DPI, abs=2)


def test_strips_share_a_panel(tmp_path, followed, stepping):
    write_plots(tmp_path / "gauges.png", followed)
    write_plots(tmp_path / "strips.png", stepping)
    without, image = pixels(tmp_path / "gauges.png"), pixels(tmp_path / "strips.png")
    assert image.shape[0] - without.shape[0] == pytest.approx((0.35 + 2 * 0.2) * DPI, abs=2)


def test_pictures_refuse_what_they_cannot_show(tmp_path, falling):
    none = falling.take(np.arange(0))
    for write in (write_filmstrip, write_plots):
        with pytest.raises(ValueError, match="without frames"):
            write(tmp_path / "picture.png", none)
        with pytest.raises(FileNotFoundError, match="no folder"):
            write(tmp_path / "nowhere" / "picture.png", falling)
    with pytest.raises(ValueError, match="at least 1"):
        write_filmstrip(tmp_path / "picture.png", falling, frames=0)


def test_without_matplotlib_the_extra_is_named():
    code = """
        import sys
        sys.modules["matplotlib"] = None
        from jaxsim.viewer.plots import new_figure
        try:
            new_figure(1, 1)
        except ImportError as error:
            print(error)
    """
    code = "\n".join(line[8:] for line in code.splitlines())
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert 'pip install "jaxsim-characters[viewer]"' in done.stdout, done.stderr


def test_matplotlib_is_loaded_late():
    code = "import sys, jaxsim.viewer; print('matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "False", done.stderr
