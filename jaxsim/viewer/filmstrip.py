"""Rows of side views of a motion at evenly spaced times, in one picture."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING

import numpy as np

from jaxsim.io.motion import Motion, Shape
from jaxsim.viewer.plots import SOFT, new_figure, phase_colour, save_figure
from jaxsim.viewer.series import even_frames, side_of, timed, world_poses

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["side_outline", "write_filmstrip"]

SIDE_FILL = {"right": "#37557a", "": "#5a87bd", "left": "#78a9e0"}
PROP_FILL, EDGE, GROUND, HORIZON = "#d3bd97", "#1b2735", "#e6e9ed", "#7d8894"
ARC = 24  # points on a half circle
PANEL_HEIGHT = 2.6  # [inch]
PICTURE_WIDTH = 17.0  # [inch]; panels that do not fit go to the next row
BELOW_GROUND = 0.12  # [m] of ground shown


def write_filmstrip(path: str | os.PathLike[str], motion: Motion, frames: int = 10) -> None:
    """Write a PNG of a motion's side view (x to the right, z up), one panel for each time.

    frames: how many panels, evenly spaced from the first sample to the last; fewer where the
    motion has fewer samples. All panels have one scale; each follows the character, and its
    ruler shows where it is. Frames that are not finite are drawn empty and say so.

    Raises ValueError if frames < 1 or the motion has no frames, ImportError without matplotlib,
    FileNotFoundError if the folder does not exist.
    """
    motion = timed(motion)
    if frames < 1:
        raise ValueError(f"frames must be at least 1, got {frames}")
    if motion.n_frames == 0:
        raise ValueError("cannot draw a motion without frames")
    index = even_frames(motion.time, np.linspace(motion.time[0], motion.time[-1], frames))
    drawings = [_outlines(motion, int(frame)) for frame in index]
    centres, (width, low, high) = _window(drawings, motion)
    high = max(high, low + width * PANEL_HEIGHT / PICTURE_WIDTH)  # a panel fits into the picture
    scale = PANEL_HEIGHT / (high - low)  # [inch/m]
    panel_width = width * scale + 0.12
    rows = -(-len(index) // max(1, int(PICTURE_WIDTH / panel_width)))
    columns = -(-len(index) // rows)
    figure = new_figure(columns * panel_width + 0.5, rows * (PANEL_HEIGHT + 0.6) + 0.4)
    grid = figure.subplots(rows, columns, sharey=True, squeeze=False)
    panels = np.ravel(grid)
    for unused in panels[len(index) :]:
        unused.set_visible(False)
    for panel, frame, drawing, centre in zip(panels, index, drawings, centres, strict=False):
        panel.set_xlim(centre - width / 2, centre + width / 2)
        panel.set_ylim(low, high)
        panel.set_aspect("equal")
        _draw_panel(panel, motion, int(frame), drawing)
        _label_panel(panel, motion, int(frame), width * scale)
        panel.tick_params(left=panel in grid[:, 0])
    panels[0].set_ylabel("z [m]", fontsize=8)
    panels[0].set_xlabel("x [m]", fontsize=8)
    figure.suptitle(motion.title, fontsize=11, x=0.01, ha="left", parse_math=False)
    save_figure(path, figure)


def side_outline(shape: Shape, pos: np.ndarray, axes: np.ndarray) -> np.ndarray:
    """(n, 2) [m]: the outline of a shape seen along y, as x and z of a polygon, convex but for
    height fields (the upper edge of each row).

    pos: (3,) [m] and axes: (3, 3) (one axis per row): the shape's frame in the world. Not for
    planes, which have no outline: raises ValueError.
    """
    if shape.kind == "plane":
        raise ValueError("a plane has no outline")
    if shape.kind == "box":
        signs = np.array(np.meshgrid([-1, 1], [-1, 1], [-1, 1])).reshape(3, 8).T
        return _hull((pos + (signs * np.array(shape.size)) @ axes)[:, [0, 2]])
    if shape.kind == "height_field":
        return _field_outline(shape, pos, axes)
    if shape.kind == "sphere":
        return _circle(pos, shape.size[0])
    radius_0, radius_1 = shape.size[0], shape.size[-2]
    half = shape.size[-1] * axes[0]
    return _hull(np.concatenate([_circle(pos + half, radius_0), _circle(pos - half, radius_1)]))


def _field_outline(shape: Shape, pos: np.ndarray, axes: np.ndarray) -> np.ndarray:
    heights = np.array(shape.heights)
    sides = [np.linspace(-h, h, n) for h, n in zip(shape.size, heights.shape, strict=True)]
    local = np.stack([*np.meshgrid(*sides, indexing="ij"), heights], axis=-1)
    points = (pos + local @ axes)[..., [0, 2]]
    top = points[np.arange(len(points)), points[..., 1].argmax(axis=1)]
    low = points[..., 1].min() - 0.02
    return np.concatenate([top, [[top[-1, 0], low], [top[0, 0], low]]])


def _circle(centre: np.ndarray, radius: float) -> np.ndarray:
    angle = np.arange(2 * ARC) * (np.pi / ARC)
    return centre[[0, 2]] + radius * np.stack([np.cos(angle), np.sin(angle)], axis=1)


def _hull(points: np.ndarray) -> np.ndarray:
    """The convex hull of (n, 2) points, counter-clockwise (Andrew's monotone chain)."""
    ordered = points[np.lexsort((points[:, 1], points[:, 0]))]
    chains = []
    for sequence in (ordered, ordered[::-1]):
        chain: list[np.ndarray] = []
        for point in sequence:
            while len(chain) > 1:
                (ax, ay), (bx, by) = chain[-1] - chain[-2], point - chain[-2]
                if ax * by - ay * bx > 0:
                    break
                chain.pop()
            chain.append(point)
        chains += chain[:-1]
    return np.array(chains) if chains else ordered[:1]


def _outlines(motion: Motion, frame: int) -> list[tuple[Shape, np.ndarray]]:
    """Shapes with their outlines, in drawing order: world, right side, middle, left side."""
    order = {"right": 0, "": 1, "left": 2}
    found = []
    for shape in motion.shapes:
        pos, axes = world_poses(motion, shape, frame)
        if shape.kind != "plane" and np.isfinite(pos).all() and np.isfinite(axes).all():
            found.append((shape, side_outline(shape, pos, axes)))
    return sorted(found, key=lambda item: -1 if item[0].link < 0 else order[_side(motion, item[0])])


def _side(motion: Motion, shape: Shape) -> str:
    return side_of(motion.link_names[shape.link])[0]


def _window(
    drawings: list[list[tuple[Shape, np.ndarray]]], motion: Motion
) -> tuple[list[float], tuple[float, float, float]]:
    """The centre of each panel in x, and the common (width, low, high) of all, in [m]."""
    centres, widths, lows, highs = [], [0.6], [], [0.6]
    for drawing in drawings:
        own = [outline for shape, outline in drawing if shape.link >= 0]
        everything = np.concatenate(own) if own else np.zeros((1, 2))
        left, right = everything[:, 0].min(), everything[:, 0].max()
        centres.append(float(left + right) / 2 if own else (centres[-1] if centres else 0.0))
        widths.append(float(right - left) + 0.25)
        lows.append(float(everything[:, 1].min()))
        highs.append(float(everything[:, 1].max()) + 0.08)
    low = min([*lows, 0.0]) if _has_ground(motion) else min(lows)
    low, high = low - BELOW_GROUND, max(highs)
    return centres, (max(*widths, 0.5 * (high - low)), low, high)


def _has_ground(motion: Motion) -> bool:
    return any(shape.kind == "plane" and shape.link < 0 for shape in motion.shapes)


def _draw_panel(
    panel: Axes, motion: Motion, frame: int, drawing: list[tuple[Shape, np.ndarray]]
) -> None:
    from matplotlib.patches import Polygon

    for shape in motion.shapes:
        if shape.kind == "plane" and shape.link < 0:
            pos, axes = world_poses(motion, shape, frame)
            normal, far = axes[2][[0, 2]], 1e3
            if np.linalg.norm(normal) > 1e-6:
                along = np.array([normal[1], -normal[0]]) * far
                p = pos[[0, 2]]
                below = [p - along, p + along, p + along - far * normal, p - along - far * normal]
                panel.add_patch(Polygon(below, facecolor=GROUND, edgecolor=HORIZON, linewidth=0.8))
    for shape, outline in drawing:
        fill = PROP_FILL if shape.link < 0 else SIDE_FILL[_side(motion, shape)]
        panel.add_patch(Polygon(outline, facecolor=fill, edgecolor=EDGE, linewidth=0.5))
    if not any(shape.link >= 0 for shape, _ in drawing) and motion.n_links:
        panel.text(0.5, 0.5, "not finite", transform=panel.transAxes, ha="center", color="#a3281f")


def _tick_step(width: float) -> float:
    """Between two ticks of a ruler of this width [m]: 0.5, 1, or what gives at most ten of them.

    >>> _tick_step(2.0), _tick_step(4.0), _tick_step(6e6)
    (0.5, 1.0, 1000000.0)
    """
    if width < 2.5:
        return 0.5
    return max(1.0, 10.0 ** math.ceil(math.log10(width / 10.0)))


def _label_panel(panel: Axes, motion: Motion, frame: int, inches: float) -> None:
    phase = int(motion.phase[frame])
    name = motion.phase_names[phase] if phase >= 0 else ""
    room = max(4, int(inches / 0.075))  # characters that fit above the panel
    name = name if len(name) <= room else name[: room - 1] + "\N{HORIZONTAL ELLIPSIS}"
    panel.set_title(f"{motion.time[frame]:.2f} s\n{name}", fontsize=8, pad=4, parse_math=False)
    panel.plot([0, 1], [1, 1], transform=panel.transAxes, color=phase_colour(phase), linewidth=3)
    left, right = panel.get_xlim()
    step = _tick_step(right - left)
    edge = 0.08 * (right - left)  # so that labels of neighbours do not touch
    first, last = np.ceil((left + edge) / step), np.floor((right - edge) / step)
    ticks = np.arange(first, last + 1) * step + 0.0  # no -0.0
    panel.set_xticks(ticks, [f"{tick:.6g}" if step > 1 else f"{tick:.1f}" for tick in ticks])
    panel.set_xlim(left, right)
    panel.tick_params(labelsize=7, colors=SOFT, length=2, pad=1)
    panel.spines[["top", "right", "left"]].set_visible(False)
    panel.spines["bottom"].set_color(HORIZON)
