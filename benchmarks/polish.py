"""Does a gradient pay? Evolution, a gradient, and chains of both at equal cost, on our problems.

    python benchmarks/polish.py --out DIR                   all problems; goes on where it stopped
    python benchmarks/polish.py --out DIR --only rise walk  some
    python benchmarks/polish.py --out DIR --table           the table of what DIR holds

Every method has the same number of rollouts, of which a derivative counts for five (measured: 3.5
to 6, docs/results/gradients.md), and the settings that a search has by default. "Early" is from
the scenario as it is, "late" after 60 generations of CMA-ES. Four seeds advance as one program, in
float64. "kept" is what ``gradient_health`` finds where the derivative's stage begins: the decrease
over a tenth of Adam's first step, in parts of what is promised; above 0.5 ``tune`` follows. The
last table has it over other parts of that step.
"""

import argparse
import functools
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks._machine import commit, machine, table, today, versions
from controllers.pose.pd import PoseController
from jaxsim import rollout, start
from jaxsim.characters.human import ball_joint_human
from jaxsim.characters.planar_human import planar_human
from jaxsim.simulation.measures import final
from jaxsim.simulation.pushes import push
from jaxsim.simulation.step import TimeStepping
from optimize.problems.problem import Problem
from optimize.running.objectives import OBJECTIVES, Objective, Term
from optimize.scenarios.find import scenario
from optimize.scenarios.scenario import Scenario
from optimize.tuning.descent import optimiser
from optimize.tuning.evolution import evolve_runs
from optimize.tuning.gradient import ENOUGH, PART, gradient_health, health_of

SEEDS = range(4)
POPULATION, SIGMA, GRADIENT = 20, 0.1, 5  # members, first step, rollouts that a derivative costs
ROLLOUTS, BEFORE = 300, 60  # of a method; generations before "late"
GENERATIONS, STEPS = ROLLOUTS // POPULATION, ROLLOUTS // GRADIENT
METHODS = {
    "evolution": f"cma:{GENERATIONS}",
    "gradient": f"adam:{STEPS}",
    "evolution, gradient": f"cma:{GENERATIONS // 2},adam:{STEPS // 2}",
    "ES, gradient": f"openai-es:{GENERATIONS // 2},adam:{STEPS // 2}",
    "late evolution": f"cma:{BEFORE + GENERATIONS}",
    "late gradient": f"cma:{BEFORE},adam:{STEPS}",
}
DT = 0.001  # of all problems [s]
LOG = "log"
PARTS = (1.0, 0.3, 0.1, 0.03, 0.01)  # of the first step, over which a derivative is tried


def script(name: str, objective: str, seconds: float | None = None) -> Problem:
    """The marked numbers of a shipped script, all where it marks none."""
    judged = OBJECTIVES[objective]
    own = scenario(name, {"scheme.dt": DT})
    return Problem(own, numbers_of(own), judged, seconds=seconds or judged.seconds)


def numbers_of(own: Scenario) -> dict[str, tuple] | None:
    """All numbers of a script that marks none."""
    source: Any = own.number_source
    if source.marked():
        return None
    count = len(own.get("controller.values"))
    return {f"controller.values[{k}]": source.range_of(k) for k in range(count)}


def walk() -> Problem:
    """As far as it comes in 1.5 s, with a price on effort."""
    travel = Term("travel", "m", lambda model: final(lambda s: s.state.q[0]), lambda x: -x)
    judged = Objective("travel", 1.5, {"travel": 1.0, "energy": 1e-6}, terms=(travel,))
    own = scenario("walk", {"scheme.dt": DT})
    return Problem(own, numbers_of(own), judged)


def held(model, newton: float, seconds: float, numbers: dict[str, Any]) -> Problem:
    """A standing body that is pushed, whose joints are held at a pose."""
    state = start(model, "standing")
    pushed = push(model, "pelvis", (newton, 0.0, 0.0), start=0.1, duration=0.2)
    own = Scenario(model, PoseController(state.q), state, TimeStepping(dt=DT), pushed)
    judged = Objective("hold", seconds, {"imbalance": 1.0, "shortfall": 1.0, "energy": 1e-7})
    return Problem(own, numbers, judged)


def hold() -> Problem:
    """Targets and gains of the planar human."""
    model = planar_human()
    targets = start(model, "standing").q
    own = {f"controller.target[{k}]": around(targets[k]) for k in model.topology.actuated_dofs}
    gains = {f"model.gain_p[{k}]": scaled(model.gain_p[k]) for k in model.topology.actuated_dofs}
    return held(model, 150.0, 1.0, own | gains)


def hold_in_space() -> Problem:
    """Gains of the human with balls."""
    model = ball_joint_human()
    free = model.topology.actuated_dofs
    own = {f"model.gain_p[{k}]": scaled(model.gain_p[k]) for k in free}
    damping = {f"model.gain_d[{k}]": scaled(model.gain_d[k]) for k in free}
    return held(model, 100.0, 0.6, own | damping)


def around(value) -> tuple:
    return float(value) - 0.6, float(value) + 0.6, 0.5


def scaled(value) -> tuple:
    return float(value) / 5, float(value) * 5, LOG


def identify() -> Problem:
    """Friction, masses and damping of a falling body, from the pose where it lies after 0.5 s."""
    model = planar_human()
    begun = start(model, "standing")
    scheme = TimeStepping(dt=DT)
    rng = np.random.default_rng(0)
    factors = jnp.asarray(np.exp(0.2 * rng.standard_normal(model.mass.shape)))
    other = model.replace(
        mass=model.mass * factors,
        gain_d=model.gain_d * 1.5,
        friction=0.5 * jnp.ones_like(model.friction),
    )
    held_at = PoseController(0.7 * begun.q)
    seen = rollout(other, held_at, begun, scheme, 500).state.q
    off = Term("off", "rad^2", lambda model: final(lambda s: jnp.sum((s.state.q - seen) ** 2)))
    judged = Objective("identify", 0.5, {"off": 1.0}, terms=(off,))
    own = Scenario(model, held_at, begun, scheme)
    numbers = {f"model.mass[{k}]": scaled(m) for k, m in enumerate(np.asarray(model.mass)) if m > 0}
    numbers |= {f"model.gain_d[{k}]": scaled(model.gain_d[k]) for k in model.topology.actuated_dofs}
    return Problem(own, {**numbers, "model.friction": (0.2, 1.5)}, judged)


GAINS = ("pose_p", "pose_d", "ankle_p", "ankle_d", "com_p", "com_d", "momentum", "trunk_p")
GAINS += ("trunk_d", "trunk_yaw")


def tracked(name: str, seconds: float) -> Problem:
    """Gains of the controller with topple-free feet."""
    own = scenario(name, {"scheme.dt": DT})
    numbers = {
        f"controller.balance.{gain}": scaled(own.get(f"controller.balance.{gain}"))
        for gain in GAINS
    }
    judged = Objective("capture", seconds, {"strayed": 1.0, "energy": 1e-7})
    return Problem(own, numbers, judged)


PROBLEMS: dict[str, Callable[[], Problem]] = {
    "rise": functools.partial(script, "sit_to_stand_quick", "quick-rise"),
    "rise, arms": functools.partial(script, "sit_to_stand_arms", "stand", 3.0),
    "rise, slow": functools.partial(script, "sit_to_stand", "stand", 3.0),
    "kip-up": functools.partial(script, "kip_up", "athletic-kip-up", 3.0),
    "athletic kip-up": functools.partial(script, "kip_up_athletic", "athletic-kip-up", 3.0),
    "prone": functools.partial(script, "prone_to_stand", "quick-prone-to-stand", 4.0),
    "walk": walk,
    "hold": hold,
    "identify": identify,
    "hold, in space": hold_in_space,
    "topple-free push, in space": functools.partial(tracked, "stand_pushed", 1.0),
    "topple-free walk, in space": functools.partial(tracked, "walk_in_place", 1.0),
}


def measured(problem: Problem) -> dict[str, Any]:
    """What each method found, (seeds,)."""
    found: dict[str, Any] = {"numbers": problem.tunables.size}
    z = np.zeros((1, problem.tunables.size))
    found["start"] = float(problem.evaluate(z).fitness[0])
    found["rollout [ms]"] = timed(
        lambda: problem.evaluate(np.tile(z, (POPULATION * len(SEEDS), 1)))
    )
    found["derivative [ms]"] = timed(lambda: problem.values_and_slopes(np.tile(z, (len(SEEDS), 1))))
    for name, method in METHODS.items():
        seeds = [0] if name == "gradient" else list(SEEDS)  # which draws nothing
        began = time.perf_counter()
        runs = evolve_runs(
            lambda x, run: problem.evaluate(x),
            z[0],
            sigma=SIGMA,
            population=POPULATION,
            generations=sum(int(part.rpartition(":")[2]) for part in method.split(",")),
            seed=seeds,
            method=method,
            slopes=problem.values_and_slopes,  # followed, whatever they are worth
            progress=False,
        )
        found[name] = {
            "best": [run.best_fitness for run in runs],
            "seconds": time.perf_counter() - began,
        }
        print(f"  {name:<22}", np.round(found[name]["best"], 4), flush=True)
    return found


def probed(problem: Problem) -> dict[str, dict[str, float]]:
    """Where a derivative's stage begins -> part of its first step -> what the decrease over it
    keeps."""
    out = {}
    for where, generations in {"start": 0, "half": GENERATIONS // 2, "late": BEFORE}.items():
        x, sigma = np.zeros((1, problem.tunables.size)), SIGMA
        if generations:
            runs = evolve_runs(
                lambda x, run: problem.evaluate(x),
                x[0],
                sigma=SIGMA,
                population=POPULATION,
                generations=generations,
                seed=list(SEEDS),
                progress=False,
            )
            x = np.stack([run.best_x for run in runs])
            sigma = float(np.median([run.sigma for run in runs]))
        health = health_of(problem, optimiser("adam"), x, sigma, horizons=(), points=4)
        length = health.length / PART
        out[where] = {
            str(part): float(
                np.median(gradient_health(problem, x, part * length, horizons=()).kept)
            )
            for part in PARTS
        }
        print(f"  kept, {where}: {out[where]}", flush=True)
    return out


def timed(function: Callable[[], Any]) -> float:
    """Milliseconds of a call, the best of three."""
    function()
    seconds = []
    for _ in range(3):
        began = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - began)
    return 1e3 * min(seconds)


def told(values: list[float]) -> str:
    """Median (least to most)."""
    low, mid, high = (f"{np.quantile(values, q):.4g}" for q in (0.0, 0.5, 1.0))
    return mid if len(values) == 1 else f"{mid} ({low} to {high})"


def tables(folder: Path) -> str:
    """Of all problems that the folder holds."""
    early, late, held = [], [], []
    for name in PROBLEMS:
        path, probe = folder / f"{name}.json", folder / f"{name}.kept.json"
        if not (path.exists() and probe.exists()):
            continue
        own, kept = json.loads(path.read_text()), json.loads(probe.read_text())
        first, *rest = [told(own[m]["best"]) for m in METHODS]
        wins = [
            won(own, "evolution, gradient", "evolution"),
            won(own, "late gradient", "late evolution"),
        ]
        early.append(
            [
                name,
                str(own["numbers"]),
                f"{own['start']:.4g}",
                first,
                *rest[:3],
                *verdict(kept["half"], wins[0]),
            ]
        )
        late.append([name, *rest[3:], *verdict(kept["late"], wins[1])])
        held.append([name, *(f"{kept[w][str(p)]:.2g}" for w in ("half", "late") for p in PARTS)])
    told_by = ["kept", "followed", "polish wins"]
    heads = ["problem", "numbers", "start", *list(METHODS)[:4], *told_by]
    later = ["problem", "evolution goes on", "gradient", *told_by]
    parts = ["problem", *(f"{where}, {part:g}" for where in ("half", "late") for part in PARTS)]
    foot = f"{machine()}, {versions(jax)}, commit {commit()}, {today()}."
    return "\n\n".join([table(heads, early), table(later, late), table(parts, held), foot])


def won(own: dict[str, Any], one: str, other: str) -> bool:
    """Whether the median of one method is below that of another."""
    return float(np.median(own[one]["best"])) < float(np.median(own[other]["best"]))


def verdict(kept: dict[str, float], wins: bool) -> list[str]:
    """What is kept over the part that ``tune`` tries, whether it follows, and whether it should."""
    value = kept[str(PART)]
    return [f"{value:.2g}", "yes" if value > ENOUGH else "no", "yes" if wins else "no"]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("runs/polish"), help="(%(default)s)")
    parser.add_argument("--only", nargs="*", choices=PROBLEMS, metavar="NAME")
    parser.add_argument("--table", action="store_true", help="of what is there, and nothing else")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    with jax.enable_x64(True):
        for name in [] if options.table else options.only or PROBLEMS:
            path = options.out / f"{name}.json"
            if not path.exists():
                print(name, flush=True)
                found = measured(PROBLEMS[name]())
                path.write_text(json.dumps(found, indent=1))
            path = options.out / f"{name}.kept.json"
            if not path.exists():
                print(name, flush=True)
                path.write_text(json.dumps(probed(PROBLEMS[name]()), indent=1))
    print(tables(options.out))
    return 0


if __name__ == "__main__":
    sys.exit(main())
