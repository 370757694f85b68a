"""Numbers of balance tuned on half of the clips and judged on the other half.

    python benchmarks/tracking_tune.py --out runs/tracking              half an hour on two cores
    python benchmarks/tracking_tune.py --out runs/tracking --resume     interrupted, it goes on

Both ways: the clips of even places of the list are one half, those of odd places the other one. A
search (CMA-ES) begins at rules of thumb that no clip has been asked about. Its objective is, in the
mean over the runs of its half (unpushed, and 100 N from four sides at 1 s, slightly different
starts): 1 for a failure, the part of the clip that is lost, and the error over 0.1 m.

Judged are those numbers, the rules of thumb and the defaults, on runs that no search has seen:
other starts, pushes at 2 s and at 3.3 s from between those sides, each clip and its mirror image.
"""

import argparse
import dataclasses
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks._machine import commit, machine, table, today, versions
from benchmarks._tracking import (
    NEVER,
    Shelf,
    of_runs,
    runner,
    runs,
    shelf,
    together,
)
from controllers.tracking.balance import Balance
from jaxsim import ball_joint_human
from optimize.problems.fitness import Evaluation
from optimize.results.intervals import wilson
from optimize.tuning.evolution import evolve

# Rules of thumb: the models' gains and half of them for what stands, sqrt(g / h) and critical
# damping for the centre of mass, 5 rad/s for the trunk, what friction of ice is.
THUMB = {
    "pose_p": 0.75, "pose_d": 0.75, "arms": 1.0, "ankle_p": 0.33, "ankle_d": 0.44, "com_p": 720.0,
    "com_d": 450.0, "com_most": 140.0, "momentum": 5.0, "trunk_p": 300.0, "trunk_d": 60.0,
    "trunk_yaw": 0.5, "sliding": 0.1,
}  # fmt: skip
HALVES = ("even", "odd")
SIGMA = 0.35  # of the logarithms of the numbers at first
UNSEEN = 1000  # further on are the seeds of starts that judge
HEAD = ["numbers", "judged on", "followed", "interval [%]", "error [mm]", "largest of a clip"]


def of_half(half: str, mirror: bool) -> list[int]:
    """Places of its clips, or of their mirror images, on a shelf of both."""
    first = HALVES.index(half)
    return list(range(first + 8 * mirror, 8 + 8 * mirror, 2))


def balance_at(x: np.ndarray) -> Balance:
    """x (..., n) are the logarithms of the numbers over the rules of thumb."""
    numbers = {name: value * np.exp(x[..., k]) for k, (name, value) in enumerate(THUMB.items())}
    return dataclasses.replace(Balance(), **numbers)


def tuned(clips: Shelf, run, half: str, args) -> np.ndarray:
    """The x of a search on a half."""
    some = runs(clips, Balance(), starts=args.starts, seed=1, clips=of_half(half, False))

    def evaluate(x: np.ndarray) -> Evaluation:
        many = together([some] * len(x))
        balance = balance_at(np.repeat(x, some.count, axis=0))
        full = jax.tree.map(
            lambda v: jnp.broadcast_to(jnp.asarray(v, many.rate.dtype), many.rate.shape), balance
        )
        found = run(dataclasses.replace(many, balance=full))
        lost = 1 - np.minimum(found["failed"] / many.seconds, 1.0)
        parts = {
            "failed": np.where(found["failed"] < NEVER, 1.0, 0.0),
            "lost": lost,
            "error": np.nan_to_num(found["error"], nan=1.0).clip(0.0, 1.0) / 0.1,
        }
        parts = {k: v.reshape(len(x), -1).mean(axis=1) for k, v in parts.items()}
        steps = many.count * int(float(clips.seconds.max()) / args.dt)
        return Evaluation(sum(parts.values()), parts, steps=steps)

    folder = args.out / half
    begun = (folder / "checkpoint.msgpack").exists()
    result = evolve(
        evaluate,
        np.zeros(len(THUMB)),
        sigma=SIGMA,
        population=args.population,
        generations=args.generations,
        seed=args.seed,
        folder=folder,
        resume=begun and args.resume,
    )
    if result.interrupted:
        raise SystemExit(f"--resume goes on in {args.out}")
    return np.asarray(result.mean)


def judged(clips: Shelf, run, balance: Balance, half: str, args) -> list[str]:
    """The cells of a row: how many of the runs were followed, and how well."""
    places = [place for mirror in (False, True) for place in of_half(half, mirror)]
    sets = [
        runs(
            clips, balance, starts=args.starts + 1, seed=UNSEEN * (1 + k), pushed_at=at,
            turn=np.pi / 4, clips=places,
        )
        for k, at in enumerate((2.0, 3.3))
    ]  # fmt: skip
    found = [of_runs(part, len(places)) for part in halved(run(together(sets)))]
    good = np.concatenate([each["failed"][..., 1:] == NEVER for each in found], axis=-1)
    error = 1e3 * np.concatenate([each["error"][:, 0, 1:] for each in found], axis=-1).mean(axis=-1)
    low, high = wilson(good.sum(), good.size)
    worst = int(error.argmax())
    return [
        f"{good.sum()} of {good.size}", f"{100 * low:.0f} to {100 * high:.0f}",
        f"{error.mean():.1f}", f"{error[worst]:.1f} ({clips.names[places[worst]]})",
    ]  # fmt: skip


def halved(found: dict[str, np.ndarray]) -> list[dict[str, np.ndarray]]:
    """Of two sets of runs together, each."""
    return [{k: np.split(np.asarray(v), 2)[part] for k, v in found.items()} for part in range(2)]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="where the searches are kept")
    parser.add_argument("--resume", action="store_true", help="go on with what is there")
    parser.add_argument("--generations", type=int, default=12)
    parser.add_argument("--population", type=int, default=16)
    parser.add_argument("--starts", type=int, default=2, help="of each run")
    parser.add_argument("--dt", type=float, default=0.002, help="[s]")
    parser.add_argument("--contacts", type=int, default=16, help="solved for, at most")
    parser.add_argument("--seed", type=int, default=1, help="of the searches")
    args = parser.parse_args()
    clips = shelf(ball_joint_human(), mirror=True)
    run = runner(clips, "threshold", args.dt, args.contacts)
    kinds = {"rules of thumb": balance_at(np.zeros(len(THUMB)))}
    found = {half: balance_at(tuned(clips, run, half, args)) for half in HALVES}
    kinds |= {f"tuned on {half}": balance for half, balance in found.items()}
    kinds["defaults"] = Balance()
    rows = []
    for name, balance in kinds.items():
        for half in HALVES:
            rows.append([name, half, *judged(clips, run, balance, half, args)])
            print(", ".join(rows[-1]), flush=True)
    numbers = [
        [name, *[f"{float(getattr(balance, name)):.3g}" for balance in kinds.values()]]
        for name in THUMB
    ]
    print(f"\n{today()}, {machine()}, commit {commit()}; {versions(jax)}\n")
    print(f"{table(HEAD, rows)}\n\n{table(['number', *kinds], numbers)}")


if __name__ == "__main__":
    main()
