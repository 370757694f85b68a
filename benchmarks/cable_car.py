"""What one in a cable car does when: the scenario ``cable_car``, shaken by seeds.

    python benchmarks/cable_car.py                     six seeds; minutes
    python benchmarks/cable_car.py --seeds 7 8 9       others
    python benchmarks/cable_car.py --record            and append the table to benchmarks/RESULTS.md
    python benchmarks/cable_car.py --quick             the first half second, to see that it runs

A seed draws how far and how fast the cabin is shaken to and fro and rocked, each within what
``DRAWN`` says; the rest is as in the file. All seeds are one batch of one program. Told of each:
when the machine first took hold, by what, how many steps it took before, when it hung and swung,
and what it held at the end. See benchmarks/README.md.
"""

import argparse
import shlex
import sys
from functools import partial

import jax
import numpy as np

from benchmarks._machine import commit, machine, publish, table, today, versions
from controllers.goals.account import takes_steps
from jaxsim.model.roles import HANDS
from jaxsim.simulation.rollout import begin
from jaxsim.synthesis.holds import NO_HOLD
from optimize import scenario
from optimize.running.recording import (
    PIECE,
    first_progress,
    frame_of,
    frames_of,
    measures_of,
    pieces,
    run_pieces,
)
from optimize.scenarios.scenario import Scenario
from optimize.session import session

SHAKES = {"shake": 1, "rock": 2}  # which of the file's drives, by their place
DRAWN = {  # from, to: amplitude [m, deg] and frequency [Hz]
    "shake": ((0.08, 0.14), (0.8, 1.2)),
    "rock": ((1.5, 3.5), (0.5, 0.9)),
}
LOST = 1.5  # who is so far below where it began is gone [m]


def shaken(seed: int, scene: Scenario) -> dict[str, float]:
    """What a seed changes of the scene, by path. The motion ends at rest, half a period or less
    from when it ends in the file."""
    numbers, changes = np.random.default_rng(seed), {}
    for name, k in SHAKES.items():
        amplitude, frequency = (numbers.uniform(*span) for span in DRAWN[name])
        amplitude *= numbers.choice([-1, 1]) * (np.pi / 180 if name == "rock" else 1.0)
        begin, end = (float(getattr(scene.model.drive, key)[k]) for key in ("begin", "end"))
        end = begin + round((end - begin) * 2 * frequency) / (2 * frequency)
        given = {"amplitude": amplitude, "start": -amplitude, "frequency": frequency, "end": end}
        changes |= {f"model.drive.{key}[{k}]": float(value) for key, value in given.items()}
    return changes


def simulate(plain: Scenario, scenes: list[Scenario], steps: int) -> list[dict[str, np.ndarray]]:
    """Of each scene by name, (frames, ...), and of each quarter of a second what the hands hold."""
    measures, dt = measures_of(plain, {}), float(plain.scheme.dt)
    begun = begin(plain.model, plain.controller, plain.scheme, plain.state)
    first = first_progress(begun, measures)
    program = pieces(plain, measures, frame_of(plain), 1, "xla").func
    hands = [name in HANDS for name in plain.scheme.effectors.names]
    found = []
    for scene in scenes:
        held: list[np.ndarray] = [np.asarray(first.state.solver.grips.held)]
        run = run_pieces(
            partial(program, (scene.model, plain.scheme, plain.forces)),
            *(plain.controller, first, dt, steps, 1, False),
            after=lambda _, now, held=held: held.append(np.asarray(now.state.solver.grips.held)),
        )
        frames, _ = frames_of(run, steps, 1, dt)
        bears = (np.abs(frames.contact_force[:, hands]) > 0).any(axis=(1, 2))
        kept = {"phase": frames.phase, "com": frames.com, "bears": bears, "held": np.array(held)}
        found.append(kept | {"unsolved": np.asarray(run.progress.measured["unsolved_frames"])})
    return found


def row(scene: Scenario, holds: list[str], found: dict[str, np.ndarray]) -> list[str]:
    """Of one seed, in the table."""
    names = scene.controller.machine.state_names
    dt, phase = float(scene.scheme.dt), found["phase"]
    entered = np.flatnonzero(np.diff(phase, prepend=-1))
    steps = entered[takes_steps(names)[phase[entered]]]

    def first(states: str) -> int | None:
        of = np.array([name.partition(".")[0] == states for name in names])
        at = np.flatnonzero(of[phase])
        return int(at[0]) if at.size else None

    def when(at: int | None) -> str:
        return "-" if at is None else f"{dt * at:.2f}"

    def hands(at: int) -> str:
        """At the end of the piece with this frame."""
        held = found["held"]
        here = [holds[k] for k in held[min(at // PIECE + 1, len(held) - 1)] if k != NO_HOLD]
        return ", ".join(here) if here else "nothing"

    taken = np.flatnonzero(found["bears"])
    hang = first("hang")
    gone = found["com"][-1, 2] < found["com"][0, 2] - LOST
    far, often = (
        [float(scene.get(f"model.drive.{key}[{k}]")) for k in SHAKES.values()]
        for key in ("amplitude", "frequency")
    )
    rock = abs(np.rad2deg(far[1]))
    return [
        f"{abs(far[0]):.2f} m, {often[0]:.2f} Hz; {rock:.1f} deg, {often[1]:.2f} Hz",
        when(first("grab")),
        f"{len(steps)}",
        f"{dt * taken[0]:.2f} {hands(taken[0])}" if taken.size else "-",
        "-" if hang is None else f"{dt * hang:.2f} {hands(hang)}",
        when(first("swing")),
        "gone" if gone else hands(len(phase)),
        f"{found['unsolved']}",
    ]


HEADER = ["seed", "shaken by", "alarmed [s]", "steps", "first hold [s]", "hangs from [s]"]
HEADER += ["swings from [s]", "holds at the end", "frames not solved"]


def main(words: list[str]) -> str:
    """Measure, print and return the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[10, 11, 12, 13, 14, 15])
    parser.add_argument("--seconds", type=float, help="the scenario's")
    parser.add_argument("--record", action="store_true", help="append to benchmarks/RESULTS.md")
    parser.add_argument("--quick", action="store_true", help="half a second of one seed")
    options = parser.parse_args(words)
    if options.quick:
        options.seeds, options.seconds = options.seeds[:1], 0.5
    with session("cpu", "float64"):
        plain = scenario("cable_car")
        scenes = [scenario("cable_car", shaken(seed, plain)) for seed in options.seeds]
        seconds = options.seconds or plain.seconds
        found = simulate(plain, scenes, round(seconds / float(plain.scheme.dt)))
        top, held = plain.model.topology, plain.scheme.holds
        holds = [top.shape_names[s] for s in held.shapes]
        rows = [
            [str(seed), *row(scene, holds, one)]
            for seed, scene, one in zip(options.seeds, scenes, found)
        ]
    text = "\n\n".join(
        [
            f"## A cable car, {today()}, {machine()}",
            f"commit {commit()}; {versions(jax)}; float64",
            f"`{shlex.join(['python', 'benchmarks/cable_car.py', *words])}`",
            table(HEADER, rows) + "\n",
        ]
    )
    return publish(text, options.record)


if __name__ == "__main__":
    main(sys.argv[1:])
