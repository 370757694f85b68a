"""Clips as goals of a human that balances: the tables of docs/results/clip_goals.md.

    python benchmarks/clip_goals.py                    five clips, unpushed and pushed
    python benchmarks/clip_goals.py --learn            also weights learned from a motion
    python benchmarks/clip_goals.py --backend xla      compiles sooner, runs slower

Clips lie in the folder that JAXSIM_MOCAP names. The error is that of the links' places from the
pelvis, against the retargeted clip, in the mean over the links, as in benchmarks/tracking.py: its
mean over the clip, its largest value, and its mean over the last second. A body has fallen when its
pelvis is 0.3 m from the clip's height. Pushed are runs with a force at the chest for 0.2 s.

With ``--learn`` hands, head and centre of mass follow a clip, and the joints do not: how the rest
of the body moves is left to the weights ``LEARNED``. CMA-ES looks for those with which the body
moves as a motion does: one that it made itself with the weights ``HIDDEN``, then the clips of
standing and of reaching, in their first ``HALF`` seconds. Judged are also the next ``HALF``.
"""

import argparse
import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks._machine import commit, machine, table, today, versions
from benchmarks._tracking import Shelf, shelf
from controllers.goals.balance import balance_machine
from controllers.goals.clip import FollowedClip, following, following_error, on_ground
from controllers.goals.controller import GoalController
from controllers.tracking.reference import Reference, reference
from jaxsim import Measure, articulated_human, push, rollout
from jaxsim.characters.standing import effectors_of, standing_q
from jaxsim.fused import fuse
from jaxsim.model import State
from jaxsim.solvers.status import Status
from jaxsim.synthesis.config import SynthesisConfig
from jaxsim.synthesis.scheme import PerStepOptimisation
from optimize.problems.fitness import Evaluation
from optimize.tuning.evolution import evolve

QUIET = ("02_05", "02_06", "143_35", "fair1", "idle_65")
JUMPS = "143_35", 5.0  # the first of its two jump turns is later [s]; otherwise the feet stay
FELL = 0.3  # [m]
MADE = "made"  # place on the shelf for a motion of the body's own
FRAMES, RATE = 535, 50.0  # of it
STEP = 0.01  # [s]
LEARNED = {"clip_effectors": 1.0, "clip_com": 10.0, "spine": 70.0, "damping": 0.5}
HIDDEN = {"clip_effectors": 4.0, "clip_com": 3.0, "spine": 7.0, "damping": 0.1}
HALF = 4.0  # [s]
LEAST = 12  # members of a batch
HEAD = [
    "clip", "s", "push [N]", "error [mm]", "largest [mm]", "last second [mm]", "steps",
    "unsolved", "root residual", "fell",
]  # fmt: skip


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Runs:
    """Runs, with a leading axis."""

    start: State
    rate: Any  # of the clip [Hz]
    begin: Any  # of the clip on the shelf [s]
    seconds: Any
    force: Any  # of a push forward [N]
    pushed_at: Any  # [s]
    weights: Any  # (ns, ng) of the goals
    judged: Any  # where the motion begins that it is compared with, in the time of the shelf [s]
    judged_rate: Any  # of that motion [Hz]


def controller_on(clips: Shelf) -> GoalController:
    """Controller that follows the clips of a shelf."""
    controller = GoalController.of(following(balance_machine()), clips.model)
    clip = FollowedClip.of(clips.model, clips.all)
    return dataclasses.replace(controller, clip=clip)


def runs_of(clips: Shelf, controller: GoalController, which, force, pushed_at=2.0) -> Runs:
    """Run of each clip (n,) by its index, with a push (n,) [N] each."""
    which, dtype, n = np.asarray(which), clips.all.q.dtype, len(which)

    def each(x, own=()):
        return jnp.asarray(np.broadcast_to(x, (n, *own)), dtype)

    return Runs(
        start=jax.vmap(lambda x: on_ground(clips.model, x))(
            jax.tree.map(lambda x: x[which, 0], clips.starts(1, 1))
        ),
        rate=each(clips.rate[which]),
        begin=each(clips.begin[which]),
        seconds=each(clips.seconds[which]),
        force=each(force),
        pushed_at=each(pushed_at),
        weights=each(controller.weights, controller.weights.shape),
        judged=each(clips.begin[which]),
        judged_rate=each(clips.rate[which]),
    )


def runner(
    clips: Shelf, controller: GoalController, seconds: float, backend: str
) -> Callable[..., dict[str, np.ndarray]]:
    """Function of runs that returns their measures (n,) each."""
    model = clips.model
    scheme = PerStepOptimisation.of(model, effectors_of(model), SynthesisConfig(torque_limits=True))
    pushes = push(model, "chest", (1.0, 0.0, 0.0), duration=0.2)

    def one(run: Runs, frames: Reference):
        reference = dataclasses.replace(frames, rate=run.rate)
        clip = FollowedClip(reference, run.begin)
        frames = dataclasses.replace(frames, rate=run.judged_rate)
        judged = dataclasses.replace(clip, reference=frames, begin=run.judged)
        follows = dataclasses.replace(controller, weights=run.weights, clip=clip)
        pushed = dataclasses.replace(
            pushes, force=run.force * pushes.force, start=run.pushed_at[None]
        )
        result = rollout(
            model, follows, run.start, scheme, round(seconds / STEP),
            {"run": totals_of(judged, run)}, pushes=pushed, backend="xla",
            record=lambda sample: sample.state.q, record_every=round(1 / RATE / STEP),
        )  # fmt: skip
        return {**result.measures["run"], "q": result.record}

    batch = fuse(one, (0, None), backend)

    def run(runs: Runs, frames: Reference = clips.all) -> dict[str, np.ndarray]:
        totals = jax.device_get(batch(runs, frames))
        lasted = np.minimum(np.asarray(runs.seconds), seconds)
        late = totals["late"] / np.minimum(1.0, lasted)
        return {**totals, "error": totals["error"] / lasted, "late": late}

    return run


def totals_of(clip: FollowedClip, run: Runs) -> Measure:
    """Totals of a run until its clip ends."""

    def update(totals, sample):
        time, info = sample.state.time, sample.info
        within = time < run.seconds
        last = within & (time >= run.seconds - 1.0)
        planned = clip.at(sample.model, time)
        error = following_error(dataclasses.replace(sample.obs, clip=clip))
        low = jnp.abs(sample.state.q[2] - planned.q[2]) > FELL
        steps = sample.memory.steps
        return {
            "error": totals["error"] + jnp.where(within, sample.dt * error, 0.0),
            "late": totals["late"] + jnp.where(last, sample.dt * error, 0.0),
            "most": jnp.maximum(totals["most"], jnp.where(within, error, 0.0)),
            "unsolved": totals["unsolved"] + jnp.where(within & (info.status != Status.OK), 1, 0),
            "residual": jnp.maximum(totals["residual"], jnp.where(within, info.root_residual, 0.0)),
            "fell": totals["fell"] | (within & low),
            "steps": jnp.where(within, steps[2], totals["steps"]),
        }

    zero, none = jnp.zeros((), clip.reference.q.dtype), jnp.zeros((), int)
    totals = dict.fromkeys(("error", "late", "most", "residual"), zero)
    return Measure({**totals, "unsolved": none, "steps": none, "fell": jnp.zeros((), bool)}, update)


def rows_of(clips: Shelf, runs: Runs, which, measured) -> list[list[str]]:
    """Row of a table for each run."""
    return [
        [
            clips.names[clip], f"{float(runs.seconds[k]):.1f}", f"{float(runs.force[k]):.0f}",
            f"{1e3 * measured['error'][k]:.1f}", f"{1e3 * measured['most'][k]:.1f}",
            f"{1e3 * measured['late'][k]:.1f}", f"{measured['steps'][k]}",
            f"{measured['unsolved'][k]}", f"{measured['residual'][k]:.1g}",
            "yes" if measured["fell"][k] else "no",
        ]
        for k, clip in enumerate(which)
    ]  # fmt: skip


def weighing(controller: GoalController, x: np.ndarray) -> np.ndarray:
    """Weights (P, ns, ng) of logarithms x (P, n) of those of ``LEARNED``; the pose has none."""
    goals = [goal.name for goal in controller.machine.goals]
    weights = np.repeat(np.asarray(controller.weights)[None], len(x), axis=0)
    weights[:, 0, goals.index("clip_pose")] = 0.0
    weights[:, 0, [goals.index(name) for name in LEARNED]] = np.exp(x)
    return weights


def errors(clips, controller, run, clip, judged, x, begin=0.0) -> np.ndarray:
    """Errors (P,) [m] of the weights x (P, n) on a clip, from ``begin`` on, against a motion.

    Batches of ``LEAST`` and more run by one kernel.
    """
    count, x = len(x), x[np.arange(max(len(x), LEAST)) % len(x)]
    runs = runs_of(clips, controller, [clip] * len(x), np.zeros(len(x)))
    begins = jnp.asarray(clips.begin[clip] + begin, runs.begin.dtype)
    reference = dataclasses.replace(clips.all, rate=runs.rate[0])
    start = on_ground(clips.model, reference.state(clips.model, begins))
    runs = dataclasses.replace(
        runs,
        start=jax.tree.map(lambda leaf: jnp.repeat(leaf[None], len(x), axis=0), start),
        begin=jnp.full_like(runs.begin, begins),
        seconds=jnp.full_like(runs.seconds, HALF),
        weights=jnp.asarray(weighing(controller, x), runs.weights.dtype),
        judged=jnp.full_like(runs.judged, clips.begin[judged] + begin),
        judged_rate=jnp.full_like(runs.judged_rate, clips.rate[judged]),
    )
    return run(runs, clips.all)["error"][:count]


def with_made(clips: Shelf, q: np.ndarray) -> Reference:
    """Frames of a shelf with a motion q (FRAMES, nq) in the place of ``MADE``."""
    made = reference(clips.model, q, RATE, np.ones((FRAMES, 2), bool), clips.parts)
    first = round(clips.begin[clips.names.index(MADE)] * RATE)
    return dataclasses.replace(
        clips.all,
        **{
            field.name: getattr(clips.all, field.name)
            .at[first : first + FRAMES]
            .set(getattr(made, field.name))
            for field in dataclasses.fields(Reference)
            if field.name not in ("rate", "moves")
        },
    )


def learn(clips: Shelf, controller: GoalController, run, args) -> str:
    """Table of weights learned from motions."""
    names = list(LEARNED)
    first, hidden = (np.log(list(x.values())) for x in (LEARNED, HIDDEN))
    reaching, standing, made = (clips.names.index(x) for x in ("02_06", "idle_65", MADE))
    runs = runs_of(clips, controller, [reaching] * LEAST, np.zeros(LEAST))
    weights = jnp.asarray(weighing(controller, hidden[None]), runs.weights.dtype)
    weights = jnp.broadcast_to(weights, runs.weights.shape)
    q = run(dataclasses.replace(runs, weights=weights))["q"][0][:FRAMES]
    clips = dataclasses.replace(clips, all=with_made(clips, q))
    rows = []
    for title, clip, judged in (
        ("its own, hidden weights", reaching, made),
        ("02_06, reaching", reaching, reaching),
        ("idle_65, standing", standing, standing),
    ):
        error = partial(errors, clips, controller, run, clip, judged)
        found = evolve(
            lambda x, error=error: Evaluation(error(x), {}, steps=len(x)), first,
            sigma=args.sigma, population=args.population, generations=args.generations,
            seed=args.seed,
        )  # fmt: skip
        for name, x in (("at first", first), ("learned", found.best_x)):
            seen, unseen = (1e3 * error(x[None], begin)[0] for begin in (0.0, HALF))
            shown = [f"{np.exp(value):.3g}" for value in x]
            rows.append([title, name, f"{seen:.2f}", f"{unseen:.2f}", *shown])
    head = ["motion", "weights", "error [mm]", f"next {HALF:g} s [mm]", *names]
    return table(head, rows)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--force", type=float, default=150.0, help="of the pushes [N]")
    parser.add_argument("--backend", choices=("fused", "xla"), default="fused")
    parser.add_argument("--learn", action="store_true", help="weights from a motion")
    parser.add_argument("--generations", type=int, default=12, help="of each search")
    parser.add_argument("--population", type=int, default=LEAST)
    parser.add_argument("--sigma", type=float, default=0.7, help="of the logarithms at first")
    parser.add_argument("--seed", type=int, default=1, help="of the searches")
    args = parser.parse_args()
    model = articulated_human()
    blank = np.repeat(standing_q(model)[None], FRAMES, axis=0), np.ones((FRAMES, 2), bool), RATE
    clips = shelf(model, names=QUIET, more={MADE: blank})
    controller = controller_on(clips)
    jumps, before = JUMPS
    which = np.repeat([*range(len(QUIET)), QUIET.index(jumps)], 2)
    runs = runs_of(clips, controller, which, np.tile([0.0, args.force], len(which) // 2))
    runs = dataclasses.replace(runs, seconds=runs.seconds.at[-2:].set(before))
    run = runner(clips, controller, FRAMES / RATE, args.backend)
    print(f"{today()}, {machine()}, commit {commit()}; {versions(jax)}\n")
    print(table(HEAD, rows_of(clips, runs, which, run(runs))), flush=True)
    if args.learn:
        print(f"\n{learn(clips, controller, run, args)}")


if __name__ == "__main__":
    main()
