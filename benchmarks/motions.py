"""The shipped motions at three time steps: the table of docs/results/motions.md.

    python benchmarks/motions.py [NAME ...] [--out FOLDER]

Prints one line a run as it ends, then the table. With --out each motion's files are kept.
"""

import argparse
from pathlib import Path

import jax

MOTIONS = {"sit_to_stand": 5.0, "walk": 10.0, "kip_up": 8.0, "prone_to_stand": 8.0}
STEPS = (0.00025, 0.0005, 0.001)
HEAD = (
    "| motion | step [ms] | final head [m] | above 1.8 m [s] | distance [m] | airborne [s] "
    "| penetration [mm] | residual [m/s] |\n|---|---|---|---|---|---|---|---|"
)


def row(name: str, dt: float, summary: dict) -> str:
    """One line of the table."""
    return (
        f"| {name} | {dt * 1e3:g} | {summary['final_head_height']:.2f} "
        f"| {summary['time_above_1.8']:.2f} of {summary['seconds']:g} "
        f"| {summary['distance']:.2f} | {summary['airborne_time']:.2f} "
        f"| {summary['largest_penetration'] * 1e3:.2f} | {summary['largest_residual']:.2f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", default=list(MOTIONS), help=", ".join(MOTIONS))
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    from optimize.running.simulate import simulate, write_simulation

    rows = []
    for name in arguments.names:
        for dt in STEPS:
            result = simulate(name, seconds=MOTIONS.get(name, 5.0), dt=dt)
            rows.append(row(name, dt, result.summary))
            print(rows[-1], flush=True)
            if arguments.out and dt == STEPS[0]:
                write_simulation(arguments.out / name, result)
    print("\n" + HEAD + "\n" + "\n".join(rows))


if __name__ == "__main__":
    main()
