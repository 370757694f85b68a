"""How far help at the feet can be faded: the numbers of balance tuned for each clip by itself.

    python benchmarks/fade.py --out runs/fade                    all clips, 60 generations each
    python benchmarks/fade.py --out runs/fade --clips n_kick     one
    python benchmarks/fade.py --out runs/fade                    again: goes on where it stopped

CMA-ES (optimize.tuning.evolution) minimises help, error and time lost over three starts; help is
what the ground cannot answer on the whole sole. Judged on ``--starts`` starts of another seed, by
each kind of help; help and error are means of the runs that were followed to their end. Clips lie
in the folder that JAXSIM_MOCAP names; a run has failed as in benchmarks/tracking.py.
"""

import argparse
import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks._machine import commit, machine, table, today, versions
from benchmarks._tracking import CLIPS, MOST, NEVER, clips_folder, followed
from controllers.tracking.parts import parts
from controllers.tracking.reference import reference
from controllers.tracking.support import HELP
from controllers.tracking.topple_free import ToppleFree
from jaxsim import TimeStepping, ball_joint_human
from jaxsim.io.files import write_bytes
from jaxsim.mocap.read import read_clip
from jaxsim.mocap.retarget import Retargeted, retarget
from optimize import Problem
from optimize.results.folder import RunFolder
from optimize.results.intervals import wilson
from optimize.running.objectives import Objective, Term
from optimize.scenarios.scenario import Scenario
from optimize.tuning.evolution import evolve

VARIED = (
    *("pose_p", "pose_d", "arms", "ankle_p", "ankle_d", "com_p", "com_d", "com_most", "momentum"),
    *("trunk_p", "trunk_d", "trunk_yaw", "sliding", "share_time"),
)
RANGE = 5.0  # a number may be so many times its default, or that part of it
WEIGHTS = {"lost": 20.0, "help": 0.1, "error": 20.0}  # of a second lost, N m s, m s
SPREAD = 0.01, 0.05  # of starts [rad], [rad/s]
HEAD = ["clip", "numbers", "help by", "followed", "interval [%]", "help [N m]", "error [mm]"]


def scenario_of(model, motion: Retargeted) -> Scenario:
    """A clip that is followed from its start to its end."""
    own = parts(model)
    frames = min(len(motion.q), int(MOST * motion.rate) + 1)
    ref = reference(model, motion.q[:frames], motion.rate, motion.stance[:frames], own)
    controller = ToppleFree.of(model, ref, help="capacity")
    scheme = TimeStepping(dt=0.002, contacts=16)
    return Scenario(model, controller, ref.state(model), scheme, seconds=float(ref.duration()))


@dataclass(frozen=True)
class Whole:
    """A clip from its start to its end."""

    seconds: float
    begin: float = 0.0


def objective(scenario: Scenario, weights: dict[str, float]) -> Objective:
    """Help, error and time lost, over the whole clip."""
    model, controller = scenario.model, scenario.controller
    seconds = scenario.seconds
    run = followed(model, controller.parts, controller.reference, Whole(seconds))

    def lost(totals):
        failed = totals["failed"]
        return jnp.where(failed == NEVER, 0.0, jnp.maximum(seconds - failed, 1e-3))

    terms = (
        Term("lost", "s", lambda model: run, lost),
        Term("help", "N m s", lambda model: run, lambda totals: totals["help"]),
        Term("error", "m s", lambda model: run, lambda totals: totals["error"]),
    )
    weights = {name: value / seconds for name, value in weights.items()}
    return Objective("faded", seconds, weights, terms=terms)


def problem_of(
    scenario: Scenario, trials: int, seed: int, varied=VARIED, weights=WEIGHTS
) -> Problem:
    """All numbers that vary, on a logarithmic scale about those of the scenario."""
    balance = scenario.controller.balance
    numbers = {}
    for name in varied:
        value = float(getattr(balance, name))
        numbers[f"controller.balance.{name}"] = (value / RANGE, value * RANGE, "log")
    return Problem(
        scenario, numbers, objective(scenario, weights), trials=trials, spread=SPREAD, seed=seed
    )


def judged(scenario: Scenario, xs: np.ndarray, help_by: str, starts: int) -> list[list[str]]:
    """Cells of a row for each of xs (k, n), on starts that the search has not seen."""
    controller = dataclasses.replace(scenario.controller, help=help_by)
    problem = problem_of(dataclasses.replace(scenario, controller=controller), starts, seed=4711)
    found, _ = problem.outcomes(xs)
    rows = []
    for lost, help, error in zip(found["lost"], found["help"], found["error"]):
        good = lost == 0
        low, high = wilson(good.sum(), starts)
        interval, shown, apart = f"{100 * low:.0f} to {100 * high:.0f}", "-", "-"
        if good.any():
            shown = f"{help[good].mean() / scenario.seconds:.1f}"
            apart = f"{1e3 * error[good].mean() / scenario.seconds:.0f}"
        rows.append([f"{good.sum()} of {starts}", interval, shown, apart])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="a folder for each clip in it")
    parser.add_argument("--clips", nargs="*", default=list(CLIPS), choices=CLIPS)
    parser.add_argument("--generations", type=int, default=60)
    parser.add_argument("--population", type=int, default=24)
    parser.add_argument("--starts", type=int, default=32, help="to judge on")
    args = parser.parse_args()
    folder = clips_folder()
    model, rows = ball_joint_human(), []
    for name in args.clips:
        file = folder / CLIPS[name]
        clip = read_clip(file, rate=120.0 if file.suffix == ".amc" else None)
        scenario = scenario_of(model, retarget(clip, model))
        problem = problem_of(scenario, 3, seed=0)
        own = args.out / name
        own.mkdir(parents=True, exist_ok=True)
        found = evolve(
            problem.evaluate, np.zeros(problem.tunables.size), sigma=0.3, seed=0,
            population=args.population, generations=args.generations, folder=own,
            resume=(own / RunFolder.HISTORY).is_file(),
        )  # fmt: skip
        start, tuned = (problem.tunables.decode(z) for z in (0 * found.mean, found.mean))
        for help_by in HELP:
            both = judged(scenario, np.stack([start, tuned]), help_by, args.starts)
            rows += [[name, how, help_by, *row] for how, row in zip(("default", "tuned"), both)]
        print("\n".join(" | ".join(row) for row in rows[-2 * len(HELP) :]), flush=True)
        numbers = dict(zip(problem.names, map(float, tuned)))
        write_bytes(own / "best.json", json.dumps({"numbers": numbers}, indent=2).encode())
        if found.interrupted:
            break
    print(f"\n{today()}, {machine()}, commit {commit()}; {versions(jax)}\n\n{table(HEAD, rows)}")


if __name__ == "__main__":
    main()
