"""What a derivative is worth before a search follows it.

A controller's choice of states is discrete; within a choice the loss is smooth, and where a number
only moves the moment of a choice the derivative is zero although the loss may jump. So the
derivatives are compared with finite differences first.
"""

import numpy as np

from optimize.problems.problem import Problem
from optimize.results.folder import RunFolder
from optimize.tuning.assessment import Slopes

REPORT = "report.txt"
CHECKED = 4  # numbers whose derivative is compared with finite differences
DIFFERENCE = {"float64": 1e-4, "float32": 1e-2}  # of a coordinate


def reported(problem: Problem, slopes: Slopes, folder: RunFolder) -> Slopes:
    """The slopes, whose first is compared in report.txt; of a run that goes on it was."""

    def told(x: np.ndarray):
        values, rows = slopes(x)
        if not (folder / REPORT).is_file() and np.isfinite(rows[0]).all():
            folder.write_text(REPORT, "\n".join(compared(problem, x[0], rows[0])) + "\n")
        return values, rows

    return told


def compared(problem: Problem, x: np.ndarray, slope: np.ndarray) -> list[str]:
    """The largest derivatives beside central differences of the loss."""
    step = DIFFERENCE[str(slope.dtype)]
    lines = [f"derivative by a coordinate, and its central difference over +-{step:g}:"]
    for k in np.argsort(-np.abs(slope))[:CHECKED]:
        move = step * np.eye(len(x))[k]
        measured = (problem.value(x + move) - problem.value(x - move)) / (2 * step)
        lines.append(f"  {problem.names[k]:<22} {slope[k]: .6e}  {measured: .6e}")
    return lines
