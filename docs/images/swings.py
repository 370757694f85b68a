"""The angle of a swing over time: one goal and stiff legs, from rest and from a high angle.

python docs/images/swings.py docs/images/swings.png

Prints a table of the largest angle in each part of 5 s, of the start that swings least and of the
one that swings most, and how physical the motions are.
"""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from controllers.goals.swing import hang  # noqa: E402
from jaxsim.simulation.rollout import rollout  # noqa: E402
from optimize.scenarios.find import scenario  # noqa: E402

SECONDS, PART = 20, 5
OFFSETS = (-2.0, -1.0, 1.0, 2.0)  # of the start from that of the case [deg]
CASES = {  # label: scenario, start [deg]
    "one goal, from rest": ("swing", 0.0),
    "one goal, from 60 degrees": ("swing", 60.0),
    "stiff, from 60 degrees": ("swing_stiff", 60.0),
    "stiff, from rest": ("swing_stiff", 0.0),
}


def swung() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(cases, starts, T) angles [deg], efforts, and whether the optimisation was solved."""
    made = [
        scenario(name, {"controller.start_deg": deg + offset})
        for name, deg in CASES.values()
        for offset in OFFSETS
    ]
    one = made[0]
    count = round(SECONDS / float(one.scheme.dt))

    def run(weights, state):
        def keep(sample):
            return hang(sample.obs).angle, sample.info.effort, sample.info.status == 0

        controller = replace(one.controller, weights=weights)
        options: dict[str, Any] = dict(record=keep, backend="xla")
        return rollout(one.model, controller, state, one.scheme, count, **options).record

    weights = jnp.stack([each.controller.weights for each in made])
    states = jax.tree.map(lambda *x: jnp.stack(x), *(each.state for each in made))
    found = jax.jit(jax.vmap(run))(weights, states)
    angle, effort, solved = (np.reshape(x, (len(CASES), len(OFFSETS), -1)) for x in found)
    return np.rad2deg(angle), effort, solved


def main(out: Path) -> None:
    """Write the picture, print the table."""
    angle, effort, solved = swung()
    time = np.linspace(0, SECONDS, angle.shape[2], endpoint=False)
    figure, axes = plt.subplots(len(CASES), 1, figsize=(8, 7), sharex=True, sharey=True)
    starts = range(0, SECONDS, PART)
    parts = " | ".join(f"{t} to {t + PART} s" for t in starts)
    print(f"| largest angle [deg] | {parts} | largest effort | frames not solved |")
    print("|---" * (len(starts) + 3) + "|")
    for axis, label, deg, part, good in zip(axes, CASES, angle, effort, solved, strict=True):
        axis.plot(time, deg.T, linewidth=0.8)
        axis.set_title(label, fontsize=9)
        axis.grid(alpha=0.3)
        axis.set_ylabel("angle [deg]")
        largest = [np.abs(deg[:, (time >= t) & (time < t + PART)]).max(axis=1) for t in starts]
        cells = " | ".join(f"{value.min():.0f} to {value.max():.0f}" for value in largest)
        print(f"| {label} | {cells} | {part.max():.3f} | {(~good).sum()} of {good.size} |")
    axes[-1].set_xlabel("time [s]")
    figure.tight_layout()
    figure.savefig(out, dpi=80)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
