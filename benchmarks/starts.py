"""How many starts scenes of goal machines withstand, and why the others fail.

    python benchmarks/starts.py --scenes one_foot swing     64 starts each; minutes a scene
    python benchmarks/starts.py --seed 5000 --starts 128    others
    python benchmarks/starts.py --scenes climb --starts 256 which walls have a start, no motion
    python benchmarks/starts.py --quick                     half a second, to see that it runs

Starts are those of ``jaxsim sweep --starts``: joints off by 0.02 rad and 0.1 rad/s, of
``holding_hands`` the adult's. Each start of ``cable_car`` has its own shaking, as in
cable_car.py, and each of ``climb`` its own wall. One program runs all starts of a scene. See
benchmarks/README.md.
"""

import argparse
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from benchmarks._machine import commit, machine, publish, table, today, versions
from benchmarks._starts import JUDGES, Frames
from benchmarks.cable_car import shaken
from jaxsim.fused import fuse
from jaxsim.fused.fuse import BACKENDS
from jaxsim.io.toml_table import WorldError
from jaxsim.model import ModelError
from jaxsim.simulation.rollout import advance, begin
from optimize.problems.starts import ANGLE, RATE, spread_text, start_states
from optimize.results.intervals import wilson
from optimize.scenarios.find import scenario
from optimize.scenarios.scenario import Scenario
from optimize.session import session

EVERY = 100  # frames of a call
HEAD = ["scene", "passed", "share, 95% by Wilson", "frames not solved", "why others failed"]


@dataclass(frozen=True)
class Starts:
    """Scene, with states (n, ...) and drives of the model, if any, (n, ...) to start from."""

    scene: Scenario
    state: Any
    drive: Any = None

    def model(self, drive: Any) -> Any:
        """Model of one start."""
        return self.scene.model if drive is None else replace(self.scene.model, drive=drive)


def starts_of(name: str, count: int, seed: int) -> Starts:
    """Starts of a scene that has motions."""
    scene = scenario(name)
    if name == "cable_car":
        scenes = [scenario(name, shaken(seed + k, scene)) for k in range(count)]
        both = [(one.state, one.model.drive) for one in scenes]
        return Starts(scene, *jax.tree.map(lambda *x: np.stack(x), *both))
    state = start_states(scene.model, scene.state, count, seed, scheme=scene.scheme)
    return Starts(scene, state)


def frames_of(starts: Starts, see: Callable, seconds: float, backend: str) -> Frames:
    """Values (n, frames, ...) that ``see`` takes from each sample."""
    scene = starts.scene

    def first(state, drive):
        return begin(starts.model(drive), scene.controller, scene.scheme, state)

    def some(drive, carry):
        def step(carry, _):
            model = starts.model(drive)
            state, sample = advance(model, scene.controller, scene.scheme, *carry, scene.forces)
            return (state, sample.memory), see(scene, sample)

        return jax.lax.scan(step, carry, length=EVERY)

    run = fuse(some) if backend == "fused" else jax.jit(jax.vmap(some))
    carry = jax.jit(jax.vmap(first))(starts.state, starts.drive)
    parts = []
    steps = round(seconds / float(scene.scheme.dt))
    for _ in range(-(-steps // EVERY)):
        carry, seen = run(starts.drive, carry)
        parts.append(jax.tree.map(np.asarray, seen))
    return jax.tree.map(lambda *x: np.concatenate(x, axis=1)[:, :steps], *parts)


def simulated(name: str, options: argparse.Namespace) -> list[str]:
    """Row of a scene whose starts are simulated."""
    see, why = JUDGES[name]
    starts = starts_of(name, options.starts, options.seed)
    seen = frames_of(starts, see, options.seconds or starts.scene.seconds, options.backend)
    causes = why(starts.scene, seen)
    for k, cause in enumerate(causes):
        if cause:
            print(f"{name}, start {k}: {cause}", file=sys.stderr)
    unsolved = f"{int(seen['unsolved'].sum())} of {seen['unsolved'].size}"
    return row(name, causes, unsolved)


def walls(options: argparse.Namespace) -> list[str]:
    """Row of walls on which a climb begins."""
    causes = []
    for seed in range(options.seed, options.seed + options.starts):
        try:
            scenario("climb", {"wall.seed": seed})
            causes.append("")
        except (ModelError, WorldError) as error:
            print(f"climb, wall {seed}: {error}", file=sys.stderr)
            causes.append(f"seed {seed} refused")
    return row("climb (a start)", causes, "-")


def row(name: str, causes: Sequence[str], unsolved: str) -> list[str]:
    """Row of the table; causes: why each start fails, empty where it passes."""
    passed, kinds = sum(not cause for cause in causes), {}
    for cause in filter(None, causes):
        kind = cause.partition(":")[0]
        kinds[kind] = kinds.get(kind, 0) + 1
    low, high = wilson(passed, len(causes))
    why = "; ".join(f"{kind} ({count})" for kind, count in kinds.items()) or "-"
    return [name, f"{passed} of {len(causes)}", f"{low:.0%} to {high:.0%}", unsolved, why]


def main(words: list[str]) -> str:
    """Measure, print and return the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    known = [*JUDGES, "climb"]
    parser.add_argument("--scenes", nargs="+", choices=known, default=known)
    parser.add_argument("--starts", type=int, default=64)
    parser.add_argument("--seed", type=int, default=4711)
    parser.add_argument("--seconds", type=float, help="the scene's")
    parser.add_argument("--backend", choices=BACKENDS, default="xla")
    parser.add_argument("--precision", choices=("float32", "float64"), default="float32")
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument("--record", action="store_true", help="append to benchmarks/RESULTS.md")
    parser.add_argument("--quick", action="store_true", help="two starts of one scene")
    options = parser.parse_args(words)
    if options.quick:
        options.scenes, options.starts, options.seconds = ["one_foot"], 2, 0.5
    with session(options.device, options.precision):
        rows = [
            walls(options) if name == "climb" else simulated(name, options)
            for name in options.scenes
        ]
    text = "\n\n".join(
        [
            f"## Starts, {today()}, {machine()}",
            f"commit {commit()}; {versions(jax)}; {options.precision}, {options.backend};"
            f" {spread_text(ANGLE, RATE)}; seed {options.seed}",
            f"`{shlex.join(['python', 'benchmarks/starts.py', *words])}`",
            table(HEAD, rows) + "\n",
        ]
    )
    return publish(text, options.record)


if __name__ == "__main__":
    main(sys.argv[1:])
