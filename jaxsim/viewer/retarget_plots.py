"""Plot of a retargeted clip's deviations from its source and from the ground, over time."""

from __future__ import annotations

import os

import numpy as np

from jaxsim.mocap.quality import over_time
from jaxsim.mocap.retarget import Retargeted
from jaxsim.mocap.stance import runs
from jaxsim.viewer.plots import SIDE_COLOURS, SOFT, new_figure, save_figure

__all__ = ["write_retarget_plots"]

PANELS = ("bone direction error deg", "joint error mm", "sole mm", "knee flexion deg")
PANELS = (*PANELS, "elbow flexion deg")
HEIGHT, WIDTH = 1.7, 12.0  # [inch] of a panel
LEAST = 0.5  # [deg] that a panel of errors shows
LIFT = 250.0  # [mm] up to which soles are drawn: what matters is near the ground


def write_retarget_plots(path: str | os.PathLike[str], motion: Retargeted) -> None:
    """Write one PNG with errors, heights of both soles and flexion of a retargeted clip.

    Bone direction and joint errors; flexion of knees and elbows; stance of the left and the right
    foot as bars under the soles. Raises ImportError, naming the extra to install, where matplotlib
    is missing, and OSError if the file cannot be written.
    """
    series = over_time(motion)
    rows = [name for name in PANELS if any(key.endswith(name) for key in series)]
    figure = new_figure(WIDTH, HEIGHT * len(rows))
    axes = np.atleast_1d(figure.subplots(len(rows), 1, sharex=True))
    for axis, name in zip(axes, rows):
        for key, values in series.items():
            if key.endswith(name):
                side = key.split()[0]
                colour = SIDE_COLOURS.get(side, SIDE_COLOURS[""])
                axis.plot(motion.time, values, color=colour, linewidth=1.0, label=side)
        axis.set_ylabel(name, fontsize=8)
        axis.tick_params(labelsize=8)
        axis.grid(color=SOFT, alpha=0.25, linewidth=0.5)
        if name.startswith("bone"):
            axis.set_ylim(0.0, max(LEAST, axis.get_ylim()[1]))
        if name == "sole mm":
            axis.axhline(0.0, color=SOFT, linewidth=0.8)
            axis.set_ylim(min(-40.0, axis.get_ylim()[0]), min(LIFT, axis.get_ylim()[1]))
            for k, side in enumerate(("left", "right")):
                for start, end in runs(motion.stance[:, k]):
                    span = motion.time[start], motion.time[end - 1]
                    height = axis.get_ylim()[0] + 6.0 + 8.0 * k
                    axis.plot(span, [height] * 2, color=SIDE_COLOURS[side], linewidth=3.0)
            axis.legend(*_first(axis, 2), fontsize=8, loc="upper right", frameon=False)
    axes[0].set_title(f"{motion.name}: retargeted", fontsize=9, loc="left")
    axes[-1].set_xlabel("time [s]", fontsize=8)
    save_figure(path, figure)


def _first(axis, count: int):
    handles, names = axis.get_legend_handles_labels()
    return handles[:count], names[:count]
