"""Push maps of several seeds as one: medians and least pushes with intervals.

    for seed in 4711 4712 4713; do
      jaxsim pushmap --seed $seed --starts 22 --durations 0.2 --out runs/map_$seed
    done
    python benchmarks/maps.py runs/map_4711 runs/map_4712 runs/map_4713

The folders are of maps that differ in their seed alone. Intervals are 95 %, of the median by
bootstrap over all starts, of the share that survives the asked force (``--asked``) Wilson's. See
benchmarks/README.md.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy.stats import bootstrap

from optimize.studies.intervals import wilson
from optimize.studies.push_report import ARRAYS, SIDES

OWN = ("seed", "chunk", "backend")  # options that may differ


def tolerated(folders: Sequence[Path]) -> tuple[dict, np.ndarray]:
    """Their options, and the largest pushes (durations, directions, starts of all) [N].

    Raises ValueError where they are not maps of the same, or of one seed twice.
    """
    options, cells = [], []
    for folder in folders:
        options.append(json.loads((folder / "config.json").read_text())["push_map"])
        with np.load(folder / ARRAYS) as found:
            cells.append(np.nan_to_num(found["tolerated"]))
    for folder, own in zip(folders, options, strict=True):
        other = [k for k in own if k not in OWN and own[k] != options[0][k]]
        if other:
            raise ValueError(f"{folder} is of another map than {folders[0]}: {', '.join(other)}")
    if len({own["seed"] for own in options}) < len(options):
        raise ValueError("two of the maps are of the same seed")
    return options[0], np.concatenate(cells, axis=-1)


def report(options: dict, force: np.ndarray, asked: float) -> str:
    """A line a duration and direction."""
    starts = force.shape[-1]
    lines = [
        f"Largest push survived [N], of {starts} starts, 95 % intervals",
        f"duration       direction   least  quarter           median   survive {asked:g} N",
    ]
    for d, duration in enumerate(options["durations"]):
        for k in range(options["directions"]):
            own, angle = force[d, k], 360 * k / options["directions"]
            name = f"{SIDES.get(round(angle), '')} {angle:.0f} deg".strip()
            good = int((own >= asked).sum())
            low, high = (100 * share for share in wilson(good, starts))
            lines.append(
                f"{duration:6.2f} s  {name:>16}  {own.min():6.0f}  {np.quantile(own, 0.25):7.0f}"
                f"  {np.median(own):4.0f} ({'{:.0f} to {:.0f}'.format(*interval(own))})"
                f"   {good} of {starts} ({low:.0f} to {high:.0f} %)"
            )
    return "\n".join(lines)


def interval(values: np.ndarray) -> tuple[float, float]:
    """Of the median."""
    if np.ptp(values) == 0:
        return float(values[0]), float(values[0])
    found = bootstrap((values,), np.median, method="percentile", rng=0).confidence_interval
    return float(found.low), float(found.high)


def main(argv: list[str] | None = None) -> int:
    """Read the folders, print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", 1)[0])
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--asked", type=float, default=350.0, metavar="N")
    args = parser.parse_args(argv)
    print(report(*tolerated(args.folders), args.asked))
    return 0


if __name__ == "__main__":
    sys.exit(main())
