"""Learning curves of runs: rewards by update, and the return of the best policy."""

import os
from collections.abc import Mapping
from typing import Any

from jaxsim.viewer.plots import new_figure, save_figure


def write_curve(path: str | os.PathLike, history: list[dict[str, Any]]) -> None:
    """Plot reward, return and episode length by actions. Raises ImportError without matplotlib."""
    figure = new_figure(7, 6)
    upper, middle, lower = figure.subplots(3, 1, sharex=True)
    millions = [line["actions"] / 1e6 for line in history]
    upper.plot(millions, [line["reward"] for line in history])
    upper.set_ylabel("reward of an action")
    checks = [line for line in history if "worth" in line]
    middle.plot([c["actions"] / 1e6 for c in checks], [c["worth"] for c in checks], ".-")
    middle.set_ylabel("return without noise")
    lengths = [(m, line["length"]) for m, line in zip(millions, history) if line["length"]]
    lower.plot(*zip(*lengths)) if lengths else None
    lower.set_ylabel("actions of an episode")
    lower.set_xlabel("actions [millions]")
    save_figure(path, figure)


def write_curves(path: str | os.PathLike, histories: Mapping[int, list[dict[str, Any]]]) -> None:
    """Plot the returns without noise of several seeds by actions.

    Raises ImportError without matplotlib.
    """
    figure = new_figure(7, 4)
    axis = figure.subplots()
    for seed, history in histories.items():
        checks = [line for line in history if "worth" in line]
        millions = [line["actions"] / 1e6 for line in checks]
        axis.plot(millions, [line["worth"] for line in checks], ".-", label=f"seed {seed}")
    axis.set_ylabel("return without noise")
    axis.set_xlabel("actions [millions]")
    axis.legend(fontsize=8, frameon=False)
    save_figure(path, figure)
