"""Film strip and plots: pictures with something in them, outlines that are right."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import numpy as np
import pytest

from jaxsim.io.motion import Shape
from jaxsim.viewer import write_filmstrip, write_plots
from jaxsim.viewer.filmstrip import side_outline


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


def test_filmstrip_has_the_limbs_colours(tmp_path, walker):
    write_filmstrip(tmp_path / "strip.png", walker, frames=4)
    image = pixels(tmp_path / "strip.png").reshape(-1, 3)
    shares = [(image == colour).all(axis=1).mean() for colour in ((55, 85, 122), (120, 169, 224))]
    assert min(shares) > 0.005  # right limbs dark, left limbs light


def test_frames_do_not_overlap(tmp_path, walker):
    """Between the panels there is a white column."""
    write_filmstrip(tmp_path / "strip.png", walker, frames=5)
    image = pixels(tmp_path / "strip.png")
    body = image[int(0.3 * len(image)) : int(0.8 * len(image)), int(0.1 * image.shape[1]) :]
    empty = (body == 255).all(axis=(0, 2))
    assert np.count_nonzero(np.diff(empty.astype(int)) == 1) >= 4


def test_a_body_that_flew_apart_is_drawn_in_a_picture_of_common_size(tmp_path, walker):
    """Parts of it 6000 km away: as many ticks and inches as ever."""
    far = np.array(walker.link_pos)
    far[-1, -1, 0] += 6e6
    path = tmp_path / "far.png"
    write_filmstrip(path, dataclasses.replace(walker, link_pos=far), frames=3)
    assert 0 < path.stat().st_size < 1e6


def test_pictures_refuse_what_they_cannot_show(tmp_path, falling):
    none = falling.take(np.arange(0))
    for write in (write_filmstrip, write_plots):
        with pytest.raises(ValueError, match="without frames"):
            write(tmp_path / "picture.png", none)
        with pytest.raises(FileNotFoundError, match="no folder"):
            write(tmp_path / "nowhere" / "picture.png", falling)
    with pytest.raises(ValueError, match="at least 1"):
        write_filmstrip(tmp_path / "picture.png", falling, frames=0)


def support(outline: np.ndarray, angle: float) -> float:
    """How far an outline reaches in a direction."""
    return float((outline @ np.array([np.cos(angle), np.sin(angle)])).max())


@pytest.mark.parametrize("angle", np.linspace(0.1, 6.2, 7))
def test_outline_is_the_hull_of_both_circles(angle):
    shape = Shape("tapered_capsule", 0, size=(0.2, 0.1, 0.3))
    pos, axes = np.array([0.5, 0.0, 1.0]), np.eye(3)
    direction = np.array([np.cos(angle), np.sin(angle)])
    ends = [(np.array([0.8, 1.0]), 0.2), (np.array([0.2, 1.0]), 0.1)]
    wanted = max(centre @ direction + radius for centre, radius in ends)
    assert support(side_outline(shape, pos, axes), angle) == pytest.approx(wanted, abs=2e-3)


def test_outline_where_one_circle_holds_the_other():
    shape = Shape("tapered_capsule", 0, size=(0.3, 0.1, 0.05))
    outline = side_outline(shape, np.zeros(3), np.eye(3))
    distance = np.linalg.norm(outline - [0.05, 0.0], axis=1)
    np.testing.assert_allclose(distance, 0.3, atol=1e-12)


def test_outline_of_a_turned_box():
    axes = np.array([[np.sqrt(0.5), 0, np.sqrt(0.5)], [0, 1, 0], [-np.sqrt(0.5), 0, np.sqrt(0.5)]])
    outline = side_outline(Shape("box", 0, size=(0.1, 0.5, 0.1)), np.zeros(3), axes)
    assert len(outline) == 4
    assert support(outline, 0.0) == pytest.approx(np.sqrt(0.02))
    with pytest.raises(ValueError, match="plane"):
        side_outline(Shape("plane", -1), np.zeros(3), np.eye(3))


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


def test_outline_of_a_height_field():
    field = Shape("height_field", -1, size=(1, 2), heights=((0, 0.1), (0.3, 0.2), (0, 0)))
    outline = side_outline(field, np.array([5.0, 0, 1]), np.eye(3))
    np.testing.assert_allclose(
        outline, [[4, 1.1], [5, 1.3], [6, 1], [6, 0.98], [4, 0.98]], atol=1e-12
    )
