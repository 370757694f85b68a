"""Two clips that ask for more than those of benchmarks/tracking.py: hops, a turn on the toes.

    python benchmarks/stretch.py                          judged with the numbers of stretch.json
    python benchmarks/stretch.py --tune --out runs/hops   numbers found anew, by CMA-ES

55_25 hops from foot to foot with the body 0.3 m beside the one that stands; 05_11 turns on the ball
of a foot. Standing feet are pinned to the ground when retargeting, and which foot stands follows
from the reference's own rates of momentum (``loaded``), not from how slow an ankle is. Numbers are
tuned over three starts for time, help and error, and judged as in benchmarks/fade.py, on starts
that the search has not seen, beside the defaults and the defaults with the
reference's rates of momentum. Clips lie in the folder that JAXSIM_MOCAP names.
"""

import argparse
import dataclasses
import json
from pathlib import Path

import jax
import numpy as np

from benchmarks._machine import commit, machine, table, today, versions
from benchmarks._tracking import clips_folder
from benchmarks.fade import HEAD, VARIED, judged, problem_of, scenario_of
from controllers.tracking.parts import parts
from controllers.tracking.reference import reference
from jaxsim import ball_joint_human
from jaxsim.io.files import write_bytes
from jaxsim.mocap.read import read_clip
from jaxsim.mocap.retarget import Retargeted, retarget, sole_sides
from jaxsim.mocap.stance import Stance
from jaxsim.model import Model
from optimize.results.folder import RunFolder
from optimize.tuning.evolution import evolve

CLIPS = {"55_25": "cmu_55_25__step_in_place.amc", "05_11": "cmu_05_11__pirouette.amc"}
NUMBERS = Path(__file__).with_name("stretch.json")
SEARCHED = (*VARIED, "inertia", "com_height", "help_to", "fall_time")
BEGIN = {"inertia": 0.8, "com_height": 0.3, "help_to": 250.0, "fall_time": 0.15}
WEIGHTS = {"lost": 20.0, "help": 0.01, "error": 20.0}
NEAR = 0.03  # of a sole above the ground, at most, in order to stand [m]
BEARS = 0.25  # of the weight, at least, while any foot stands
SHARE = 0.2  # of the load, at least, of each foot where both do


def loaded(model: Model, motion: Retargeted) -> np.ndarray:
    """(T, 2) bool, which feet bear the body: low ones, while the ground has to give what changes
    the body's momenta; where both are low, those between which it presses."""
    frames = len(motion.q)
    ref = reference(model, motion.q, motion.rate, np.ones((frames, 2), bool), parts(model))
    mass, g = float(model.mass.sum()), -np.asarray(model.gravity, float)
    com, acc, turn, sole = (
        np.asarray(x, float) for x in (ref.com, ref.com_acceleration, ref.momentum_rate, ref.sole)
    )
    force = mass * (acc + g)
    load = np.maximum(force[:, 2], BEARS * mass * g[2])
    x = com[:, 0] - (com[:, 2] * force[:, 0] + turn[:, 1]) / load
    y = com[:, 1] - (com[:, 2] * force[:, 1] - turn[:, 0]) / load
    way = (sole[:, 0] - sole[:, 1])[:, :2]
    left = np.sum((np.stack([x, y], axis=1) - sole[:, 1, :2]) * way, axis=1)
    left = left / np.sum(way**2, axis=1)
    lowest = [motion.soles[:, side, 2].min(axis=1) for side in sole_sides(motion.body)]
    low = np.stack(lowest, axis=1) < NEAR
    shares = np.stack([left, 1 - left], axis=1)
    bears = force[:, 2:] > BEARS * mass * g[2]
    return low & bears & (~low.all(axis=1, keepdims=True) | (shares > SHARE))


def motion_of(model: Model, name: str) -> Retargeted:
    """The clip with feet pinned where they are loaded."""
    clip = read_clip(clips_folder() / CLIPS[name], rate=120.0)
    stands = loaded(model, retarget(clip, model))
    return retarget(clip, model, pin=True, stance=Stance(stands, 0 * stands > 0, clip.rate))


def with_numbers(scenario, numbers: dict[str, float]):
    """The scenario with some numbers of its balance changed, helped beyond a threshold."""
    controller = scenario.controller
    balance = dataclasses.replace(controller.balance, **numbers)
    changed = dataclasses.replace(controller, balance=balance, help="threshold")
    return dataclasses.replace(scenario, controller=changed)


def tune(scenario, args, folder: Path) -> dict[str, float]:
    """Numbers found by search."""
    problem = problem_of(with_numbers(scenario, BEGIN), 3, 0, SEARCHED, WEIGHTS)
    folder.mkdir(parents=True, exist_ok=True)
    found = evolve(
        problem.evaluate, np.zeros(problem.tunables.size), sigma=0.3, seed=0,
        population=args.population, generations=args.generations, folder=folder,
        resume=(folder / RunFolder.HISTORY).is_file(),
    )  # fmt: skip
    best = problem.tunables.decode(found.best_x)
    return dict(zip(SEARCHED, map(float, best)))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--clips", nargs="*", default=list(CLIPS), choices=list(CLIPS))
    parser.add_argument("--tune", action="store_true", help="find numbers, and write them")
    parser.add_argument("--out", type=Path, help="of the search, a folder for each clip in it")
    parser.add_argument("--generations", type=int, default=60)
    parser.add_argument("--population", type=int, default=40)
    parser.add_argument("--starts", type=int, default=32, help="to judge on")
    args = parser.parse_args()
    if args.tune and args.out is None:
        raise SystemExit("--tune needs --out, a folder for the search")
    model, rows = ball_joint_human(), []
    numbers = json.loads(NUMBERS.read_text())
    for name in args.clips:
        scenario = scenario_of(model, motion_of(model, name))
        if args.tune:
            numbers[name] = tune(scenario, args, args.out / name)
            write_bytes(NUMBERS, (json.dumps(numbers, indent=2) + "\n").encode())
        tried = {"default": {}, "inertia 1": {"inertia": 1.0}, "tuned": numbers[name]}
        for how, changes in tried.items():
            changed = with_numbers(scenario, changes)
            own = [[float(getattr(changed.controller.balance, key)) for key in VARIED]]
            (row,) = judged(changed, np.array(own), "threshold", args.starts)
            rows.append([name, how, "threshold", *row])
            print(" | ".join(rows[-1]), flush=True)
    print(f"\n{today()}, {machine()}, commit {commit()}; {versions(jax)}\n\n{table(HEAD, rows)}")


if __name__ == "__main__":
    main()
