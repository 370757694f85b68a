"""Film strip: pictures of a motion at evenly spaced times, in one file."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from jaxsim.io.motion import Motion, MotionShape
from jaxsim.viewer.colours import LIGHT, part_of
from jaxsim.viewer.outlines import faces, outline
from jaxsim.viewer.plots import SOFT, new_figure, phase_colour, save_figure
from jaxsim.viewer.series import (
    even_frames,
    finite_times,
    followed_links,
    followed_point,
    ghost_of,
    world_poses,
)
from jaxsim.viewer.views import NEAR, View, choose_view

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["write_filmstrip"]

PANEL_HEIGHT = 2.6  # [inch]
PICTURE_WIDTH = 17.0  # [inch]; panels that do not fit go to the next row
BELOW_GROUND = 0.12  # [m] of ground shown
SEEN_THROUGH = 0.2  # opacity of things far before the character, which they would hide
TO_LIGHT = np.array([0.36, -0.48, 0.8])
FROM_ITS_SIDE = {"surroundings": 0, "driven": 1, "loose": 1, "right": 2, "middle": 3, "left": 4}
IN_SPACE = {"surroundings": 0, "driven": 1}  # all others after them


class Drawn(NamedTuple):
    """A shape in the picture of one frame."""

    shape: MotionShape
    outline: np.ndarray  # (n, 2) [m]
    pos: np.ndarray  # (3,) [m] in the world
    axes: np.ndarray  # (3, 3) one axis a row


class Panel(NamedTuple):
    """One frame of a film strip: its shapes, and the point of the picture's plane at its middle."""

    frame: int
    drawing: list[Drawn]  # in the order in which it is drawn
    ghost: list[np.ndarray]  # (n, 2) [m] each: outlines of where the reference has the links
    centre: float  # [m] to the right
    base: float  # [m] up: the height zero below what is followed
    depth: float  # [m] towards the eye: where what is followed is


def write_filmstrip(path: str | os.PathLike[str], motion: Motion, frames: int = 10) -> None:
    """Write a PNG of a motion, one panel for each time, from the view that shows most.

    That is from the side (x to the right, z up), from the front (y to the right), or from a corner,
    as selected by `views.choose_view`; planar characters are shown from the side.

    frames: number of panels, evenly spaced from the first sample to the last; fewer where the
    motion has fewer samples. All panels have one scale; each follows the character, or all links
    where there is none, and its ruler or grid shows where it is. Loose and driven bodies that are
    more than 1.5 m aside may be cut off; those as far before the character are transparent. A ghost
    is a thin outline, cut off at the panel's edge. Frames that are not finite are drawn empty and
    say so. Colours are those of the page.

    Raises ValueError if frames < 1 or the motion has no frames, ImportError without matplotlib,
    FileNotFoundError if the folder does not exist.
    """
    motion = finite_times(motion)
    if frames < 1:
        raise ValueError(f"frames must be at least 1, got {frames}")
    if motion.n_frames == 0:
        raise ValueError("cannot draw a motion without frames")
    view = choose_view(motion)
    index = even_frames(motion.time, np.linspace(motion.time[0], motion.time[-1], frames))
    panels = _panels(motion, index, view)
    width, low, high = _window(panels, motion)
    high = max(high, low + width * PANEL_HEIGHT / PICTURE_WIDTH)  # a panel fits into the picture
    scale = PANEL_HEIGHT / (high - low)  # [inch/m]
    panel_width = width * scale + 0.12
    rows = -(-len(index) // max(1, int(PICTURE_WIDTH / panel_width)))
    columns = -(-len(index) // rows)
    figure = new_figure(columns * panel_width + 0.5, rows * (PANEL_HEIGHT + 0.6) + 0.4)
    grid = figure.subplots(rows, columns, sharey=view.level, squeeze=False)
    axes = np.ravel(grid)
    for unused in axes[len(index) :]:
        unused.set_visible(False)
    for axis, panel in zip(axes, panels, strict=False):
        axis.set_xlim(panel.centre - width / 2, panel.centre + width / 2)
        axis.set_ylim(panel.base + low, panel.base + high)
        axis.set_aspect("equal")
        _draw_panel(axis, motion, panel, view)
        _label_panel(axis, motion, panel.frame, width * scale)
        _draw_ruler(axis, view)
        axis.tick_params(left=view.level and axis in grid[:, 0])
    if view.level:
        axes[0].set_ylabel("z [m]", fontsize=8)
        axes[0].set_xlabel(f"{'x' if view.name == 'side' else 'y'} [m]", fontsize=8)
    else:
        step = _tick_step(width)
        axes[0].set_xlabel(f"from a corner, grid {step:g} m", fontsize=8, color=SOFT)
    figure.suptitle(motion.title, fontsize=11, x=0.01, ha="left", parse_math=False)
    save_figure(path, figure)


def _panels(motion: Motion, index: np.ndarray, view: View) -> list[Panel]:
    """Panels of the frames. A panel without anything to follow keeps the place of the last one."""
    followed = followed_links(motion)
    middle = followed_point(motion)
    ghost = ghost_of(motion)
    centre, base, depth, panels = 0.0, 0.0, 0.0, []
    for frame in map(int, index):
        drawing = _drawing(motion, frame, view)
        character = [d.outline for d in drawing if d.shape.link >= 0 and followed[d.shape.link]]
        if character:
            across = np.concatenate(character)[:, 0]
            centre = float(across.min() + across.max()) / 2
        if np.isfinite(middle[frame]).all():
            base = float(view.project(middle[frame] * [1, 1, 0])[1])
            depth = float(middle[frame] @ view.back)
        beside = _drawing(ghost, frame, view) if ghost else []
        outlines = [d.outline for d in beside if d.shape.link >= 0]
        panels.append(Panel(frame, drawing, outlines, centre, base, depth))
    return panels


def _drawing(motion: Motion, frame: int, view: View) -> list[Drawn]:
    """Shapes without planes, in drawing order.

    The surroundings (terrain first), driven bodies, on which others may stand, then from the far to
    the near; a box of the surroundings by its farthest corner, so that shapes on a wall are drawn
    after it. A planar character has no depth: its right side is far, its left side near.
    """
    shapes = []
    for shape in motion.shapes:
        pos, axes = world_poses(motion, shape, frame)
        if not shape.record.endless and np.isfinite(pos).all() and np.isfinite(axes).all():
            shapes.append(Drawn(shape, outline(shape, pos, axes, view), pos, axes))

    def place(drawn: Drawn) -> tuple[float, float]:
        part = part_of(motion, drawn.shape.link)
        if motion.planar:
            return FROM_ITS_SIDE[part], 0.0
        kind = drawn.shape.record
        near = float(drawn.pos @ view.back)
        if kind.flat and drawn.shape.link < 0:
            near -= float(kind.support(drawn.shape.full_size, -drawn.axes @ view.back))
        return (-1 if kind.grid else IN_SPACE.get(part, 2)), near

    return sorted(shapes, key=place)


def _window(panels: list[Panel], motion: Motion) -> tuple[float, float, float]:
    """Common (width, low, high) of all panels [m], about their centre and base."""
    followed = followed_links(motion)
    halves, lows, highs = [0.3], [], [0.6]
    for panel in panels:
        things = [d for d in panel.drawing if d.shape.link >= 0]
        outlines = [d.outline for d in things if followed[d.shape.link]]
        if not outlines:
            continue
        points = np.concatenate(outlines) - [panel.centre, panel.base]
        low, high = float(points[:, 1].min()), float(points[:, 1].max())
        halves.append(float(np.abs(points[:, 0]).max()) + 0.125)
        for beside in (d.outline for d in things if not followed[d.shape.link]):
            left, bottom = beside.min(axis=0) - [panel.centre, panel.base]
            right, top = beside.max(axis=0) - [panel.centre, panel.base]
            if left < NEAR and right > -NEAR and bottom < high + NEAR and top > low - NEAR:
                halves.append(min(NEAR, float(max(-left, right))))
                low, high = min(low, max(bottom, low - NEAR)), max(high, min(top, high + NEAR))
        lows.append(low)
        highs.append(high + 0.08)
    ground = any(shape.record.endless and shape.link < 0 for shape in motion.shapes)
    low = min([*lows, 0.0] if ground or not lows else lows) - BELOW_GROUND
    high = max(highs)
    return max(2 * max(halves), 0.5 * (high - low)), low, high


def _draw_panel(axis: Axes, motion: Motion, panel: Panel, view: View) -> None:
    from matplotlib.collections import PolyCollection

    for shape in motion.shapes:
        if shape.record.endless and shape.link < 0:
            _draw_ground(axis, *world_poses(motion, shape, panel.frame), view)
    followed = followed_links(motion)
    for drawn in panel.drawing:
        fill = LIGHT[part_of(motion, drawn.shape.link)]
        wide = 0.1 if drawn.shape.record.grid else 0.5
        parts = [] if view.level else faces(drawn.shape, drawn.pos, drawn.axes, view)
        polygons = [points for points, _ in parts] or [drawn.outline]
        fills = [_shaded(fill, normal) for _, normal in parts] or [fill]
        drawing = PolyCollection(polygons, facecolors=fills, edgecolors=LIGHT["edge"])
        drawing.set_linewidth(wide)
        if drawn.shape.link >= 0 and not followed[drawn.shape.link]:
            before = float(drawn.pos @ view.back) - panel.depth > NEAR
            drawing.set_alpha(SEEN_THROUGH if before else None)
        axis.add_collection(drawing, autolim=False)
    thin = {"facecolors": "none", "edgecolors": LIGHT["ghost"], "linewidths": 0.6}
    if panel.ghost:
        axis.add_collection(PolyCollection(panel.ghost, **thin), autolim=False)
    moving = any(shape.link >= 0 and not shape.record.endless for shape in motion.shapes)
    if moving and not any(d.shape.link >= 0 for d in panel.drawing):
        middle = {"transform": axis.transAxes, "ha": "center"}
        axis.text(0.5, 0.5, "not finite", color=LIGHT["warn"], **middle)


def _shaded(colour: str, normal: np.ndarray) -> tuple[float, ...]:
    """Colour of a face (red, green, blue from 0 to 1): the darker the less it faces the light.

    normal: (3,) in the world. The page shades in the same way.
    """
    dark = 0.5 * (1.0 - float(np.clip(normal @ TO_LIGHT, 0.0, 1.0)))
    own, shade = (
        np.array([int(c[k : k + 2], 16) for k in (1, 3, 5)]) / 255 for c in (colour, LIGHT["shade"])
    )
    return tuple(map(float, (1.0 - dark) * own + dark * shade))


def _draw_ground(axis: Axes, pos: np.ndarray, axes: np.ndarray, view: View) -> None:
    """Draw a plane: filled below it in a level view, else a grid over the whole panel.

    pos: (3,) [m], axes: (3, 3): its frame in the world.
    """
    from matplotlib.collections import LineCollection
    from matplotlib.patches import Polygon

    normal = view.project(axes[2])
    if view.level:
        if np.linalg.norm(normal) > 1e-6:
            p, far = view.project(pos), 1e3
            along = np.array([normal[1], -normal[0]]) * far
            below = [p - along, p + along, p + along - far * normal, p - along - far * normal]
            fill, edge = LIGHT["ground"], LIGHT["horizon"]
            axis.add_patch(Polygon(below, facecolor=fill, edgecolor=edge, linewidth=0.8))
        return
    if axes[2, 2] < 0.5:  # a wall would hide what is in front of it, or be grid over it
        return
    axis.set_facecolor(LIGHT["ground"])
    window = np.stack([axis.get_xlim(), axis.get_ylim()], axis=1)
    to_plane = np.linalg.inv(view.project(axes[:2]))  # from the picture to the plane's own x and y
    corners = np.array([[window[i, 0], window[j, 1]] for i in (0, 1) for j in (0, 1)])
    inside = (corners - view.project(pos)) @ to_plane
    step = _tick_step(float(window[1, 0] - window[0, 0]))
    lines = []
    for k in (0, 1):
        first, last = inside[:, k].min(), inside[:, k].max()
        for at in np.arange(math.ceil(first / step), math.floor(last / step) + 1) * step:
            ends = np.full((2, 2), at)
            ends[:, 1 - k] = inside[:, 1 - k].min(), inside[:, 1 - k].max()
            lines.append(view.project(pos + ends @ axes[:2]))
    grid = LineCollection(lines, colors=LIGHT["grid"], linewidths=0.6, zorder=0.5)  # under bodies
    axis.add_collection(grid, autolim=False)


def _tick_step(width: float) -> float:
    """Distance between two ticks of a ruler of this width [m]: 0.5, 1, or for at most ten of them.

    >>> _tick_step(2.0), _tick_step(4.0), _tick_step(6e6)
    (0.5, 1.0, 1000000.0)
    """
    if width < 2.5:
        return 0.5
    return max(1.0, 10.0 ** math.ceil(math.log10(width / 10.0)))


def _label_panel(axis: Axes, motion: Motion, frame: int, inches: float) -> None:
    """Write time and phase above the panel. inches: its width."""
    phase = int(motion.phase[frame])
    name = motion.phase_names[phase] if phase >= 0 else ""
    room = max(4, int(inches / 0.075))  # characters that fit above the panel
    name = name if len(name) <= room else name[: room - 1] + "\N{HORIZONTAL ELLIPSIS}"
    axis.set_title(f"{motion.time[frame]:.2f} s\n{name}", fontsize=8, pad=4, parse_math=False)
    axis.plot([0, 1], [1, 1], transform=axis.transAxes, color=phase_colour(phase), linewidth=3)


def _draw_ruler(axis: Axes, view: View) -> None:
    """Draw a ruler along x or y; none in a view from a corner, where a grid shows distances."""
    left, right = axis.get_xlim()
    step = _tick_step(right - left)
    edge = 0.08 * (right - left)  # so that labels of neighbours do not touch
    first, last = np.ceil((left + edge) / step), np.floor((right - edge) / step)
    ticks = np.arange(first, last + 1) * step + 0.0  # no -0.0
    axis.set_xticks(ticks, [f"{tick:.6g}" if step > 1 else f"{tick:.1f}" for tick in ticks])
    if not view.level:
        axis.set_xticks([])
        axis.set_yticks([])
    axis.set_xlim(left, right)
    axis.tick_params(labelsize=7, colors=SOFT, length=2, pad=1)
    axis.spines[["top", "right", "left"]].set_visible(False)
    axis.spines["bottom"].set_color(LIGHT["horizon"])
