"""Plots of a motion over time: heights, phases, gauges, contact force, torques and limits."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxsim.io.files import write_bytes
from jaxsim.io.gauges import Gauge
from jaxsim.io.motion import Motion
from jaxsim.viewer.colours import LIGHT, LIGHT_LINES, LIGHT_PHASES
from jaxsim.viewer.series import (
    finite_times,
    gauges_of,
    normal_force,
    phase_bands,
    side_of,
    strips_of,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["write_plots"]

SIDE_COLOURS = {"left": "#d2691e", "right": "#1f5fbf", "": "#333a44"}
LINE_COLOURS, SOFT = LIGHT_LINES, LIGHT["soft"]
LIMIT_COLOUR, FORCE_COLOUR = "#8a939e", "#c22f26"
COLUMNS = 3  # of the torque panels
DPI = 130
WIDTH, TOP_ROW, TORQUE_ROW = 12.0, 2.1, 1.55  # [inch]


def new_figure(width: float, height: float) -> Figure:
    """Empty figure, not known to pyplot, drawn without a screen. width, height: [inch].

    Raises ImportError, naming the extra to install, where matplotlib is missing.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            'drawing needs matplotlib: pip install "jaxsim-characters[viewer]"'
        ) from error
    figure = Figure(figsize=(width, height), dpi=DPI, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def save_figure(path: str | os.PathLike[str], figure: Figure) -> None:
    """Write a figure as PNG, as a whole or not at all."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    write_bytes(path, buffer.getvalue())


def phase_colour(phase: int) -> str:
    """Colour of a phase, as "#rrggbb"; grey for -1."""
    return "#c9ced6" if phase < 0 else LIGHT_PHASES[phase % len(LIGHT_PHASES)]


def write_plots(path: str | os.PathLike[str], motion: Motion) -> None:
    """Write one PNG with a motion's heights, phases, gauges, contact force, and torques, over time.

    Left and right of one joint share a panel, each gauge of a number has one; dashed lines are
    limits and thresholds; a flag has a lane. Samples that are not finite leave gaps. Raises
    ValueError if the motion has no frames, ImportError without matplotlib, FileNotFoundError if the
    folder does not exist.
    """
    motion = finite_times(motion)
    if motion.n_frames == 0:
        raise ValueError("cannot plot a motion without frames")
    groups = _joint_groups(motion.joint_names)
    n_lanes = len(motion.phase_names)
    phase_row = 0.35 + 0.2 * n_lanes if n_lanes else 0.0
    torque_rows = -(-len(groups) // COLUMNS)
    strips, gauges = strips_of(motion), gauges_of(motion)
    top_rows = [TOP_ROW, *([phase_row] if n_lanes else []), *[TOP_ROW * 0.8] * len(gauges)]
    top_rows += [0.35 + 0.2 * len(strips)] * bool(strips) + [TOP_ROW * 0.8]
    height = sum(top_rows) + torque_rows * TORQUE_ROW + 1.1
    figure = new_figure(WIDTH, height)
    figure.suptitle(motion.title, fontsize=12, x=0.02, ha="left", parse_math=False)
    parts = figure.subfigures(
        2 if groups else 1,
        1,
        squeeze=False,
        height_ratios=[sum(top_rows), torque_rows * TORQUE_ROW][: 2 if groups else 1],
    )
    axes = list(
        np.ravel(
            parts[0, 0].subplots(
                len(top_rows), 1, sharex=True, squeeze=False, height_ratios=top_rows
            )
        )
    )
    _plot_heights(axes[0], motion)
    if n_lanes:
        _plot_phases(axes[1], motion)
    first = 2 if n_lanes else 1
    for k, (axis, (name, gauge)) in enumerate(zip(axes[first:], gauges.items())):
        _plot_gauge(axis, motion, name, gauge, LINE_COLOURS[k % len(LINE_COLOURS)])
    if strips:
        _plot_strips(axes[-2], motion, strips)
    _plot_force(axes[-1], motion)
    axes[-1].set_xlabel("time [s]", fontsize=9)
    if groups:
        _plot_torques(parts[1, 0], motion, groups)
    save_figure(path, figure)


def _joint_groups(names: tuple[str, ...]) -> dict[str, list[int]]:
    """Joints by their names without sides, in the order of first appearance."""
    groups: dict[str, list[int]] = {}
    for joint, name in enumerate(names):
        side, rest = side_of(name)
        rest = rest[:1].lower() + rest[1:] if side else rest  # "leftKnee" is one of the knees
        groups.setdefault(rest, []).append(joint)
    return groups


def _tidy(axis: Axes, motion: Motion) -> None:
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(True, color="#e3e6ea", linewidth=0.6)
    axis.set_axisbelow(True)
    axis.tick_params(labelsize=8)
    start, end = float(motion.time[0]), float(motion.time[-1])
    axis.set_xlim(start, end if end > start else start + 1.0)


def _shade_phases(axis: Axes, motion: Motion) -> None:
    for start, end, phase in phase_bands(motion):
        if phase >= 0:
            axis.axvspan(start, end, color=phase_colour(phase), alpha=0.16, linewidth=0)


def _legend(axis: Axes, handles: list[Any], names: list[str]) -> None:
    """Draw a legend outside, on the right; names are shown literally, never as mathematics."""
    legend = axis.legend(
        handles,
        names,
        fontsize=8,
        frameon=False,
        loc="upper left",
        bbox_to_anchor=(1.0, 1.0),
        handlelength=1.4,
    )
    for text in legend.get_texts():
        text.set_parse_math(False)


def _line(axis: Axes, motion: Motion, values: np.ndarray, colour: str, width: float) -> Any:
    """Draw values (T,) over time; a dot where there is one sample only."""
    marker = "o" if motion.n_frames == 1 else ""
    return axis.plot(motion.time, values, color=colour, linewidth=width, marker=marker)[0]


def _plot_heights(axis: Axes, motion: Motion) -> None:
    _shade_phases(axis, motion)
    lines = [
        _line(axis, motion, height, LINE_COLOURS[k % len(LINE_COLOURS)], 1.5)
        for k, height in enumerate(motion.heights.values())
    ]
    axis.set_ylabel("height [m]", fontsize=9)
    _tidy(axis, motion)
    axis.set_ylim(bottom=min(0.0, axis.get_ylim()[0]))
    if lines:
        _legend(axis, lines, list(motion.heights))


def _plot_phases(axis: Axes, motion: Motion) -> None:
    """Draw one lane per phase, the first on top."""
    for start, end, phase in phase_bands(motion):
        if phase >= 0:
            axis.barh(phase, end - start, left=start, height=0.72, color=phase_colour(phase))
    _lanes(axis, motion, motion.phase_names)
    axis.set_ylabel("phase", fontsize=9)


def _plot_gauge(axis: Axes, motion: Motion, name: str, gauge: Gauge, colour: str) -> None:
    _shade_phases(axis, motion)
    _line(axis, motion, gauge.values, colour, 1.1)
    for limit in gauge.thresholds:
        axis.axhline(limit, color=LIMIT_COLOUR, linewidth=0.9, dashes=(4, 2))
    label = f"{name}\n[{gauge.unit}]" if gauge.unit else name
    axis.set_ylabel(label, fontsize=9, parse_math=False)
    _tidy(axis, motion)


def _plot_strips(
    axis: Axes, motion: Motion, strips: dict[str, tuple[tuple[float, float], ...]]
) -> None:
    """Draw one lane per flag, the first on top."""
    for lane, (name, spans) in enumerate(strips.items()):
        for start, end in spans:
            colour = SIDE_COLOURS[side_of(name)[0]]
            axis.barh(lane, end - start, left=start, height=0.72, color=colour)
    _lanes(axis, motion, list(strips))


def _lanes(axis: Axes, motion: Motion, names: Sequence[str]) -> None:
    _tidy(axis, motion)
    axis.grid(False, axis="y")
    axis.set_ylim(len(names) - 0.4, -0.6)
    axis.set_yticks(range(len(names)))
    for label in axis.set_yticklabels(names):
        label.set_parse_math(False)


def _plot_force(axis: Axes, motion: Motion) -> None:
    _shade_phases(axis, motion)
    _line(axis, motion, normal_force(motion), FORCE_COLOUR, 1.1)
    axis.set_ylabel("contact force,\nnormal, total [N]", fontsize=9)
    _tidy(axis, motion)


def _plot_torques(part: Any, motion: Motion, groups: dict[str, list[int]]) -> None:
    rows = -(-len(groups) // COLUMNS)
    axes = np.ravel(part.subplots(rows, COLUMNS, sharex=True, squeeze=False))
    seen: dict[str, Any] = {}
    for axis, (name, joints) in zip(axes, groups.items(), strict=False):
        _shade_phases(axis, motion)
        for joint in joints:
            side = side_of(motion.joint_names[joint])[0]
            line = _line(axis, motion, motion.torque[:, joint], SIDE_COLOURS[side], 1.0)
            if side:
                seen.setdefault(side, line)
        for limit in sorted({float(motion.torque_limit[j]) for j in joints}):
            for sign in (1, -1) if np.isfinite(limit) else ():
                line = axis.axhline(sign * limit, color=LIMIT_COLOUR, linewidth=0.9, dashes=(4, 2))
                seen.setdefault("limit", line)
        axis.set_title(name, fontsize=9, loc="left", pad=3, parse_math=False)
        _tidy(axis, motion)
    for column in range(COLUMNS):  # the last panel in use of each column has the time axis
        used = [k for k in range(column, len(groups), COLUMNS)]
        if used:
            axes[used[-1]].tick_params(labelbottom=True)
            axes[used[-1]].set_xlabel("time [s]", fontsize=9)
    for axis in axes[len(groups) :]:
        axis.set_visible(False)
    part.supylabel("joint torque [Nm]", fontsize=9)
    if seen:
        part.legend(
            list(seen.values()), list(seen), loc="outside upper right", ncols=3, fontsize=8,
            frameon=False,
        )  # fmt: skip
