"""How many starts scenes of goal machines withstand, and why the others fail.

    python benchmarks/starts.py --scenes one_foot swing     64 starts each; minutes a scene
    python benchmarks/starts.py --seed 5000 --starts 128    others
    python benchmarks/starts.py --scenes climb --starts 256 which walls have a start, no motion
    python benchmarks/starts.py --quick                     half a second, to see that it runs

Starts are those of ``jaxsim sweep --starts``: joints off by 0.02 rad and 0.1 rad/s, of
``holding_hands`` the adult's. Each start of ``cable_car`` has its own shaking, as in
cable_car.py, each of ``climb`` its own wall, each of ``dodge_tennis_ball`` and
``dodge_harmful_ball`` its own ball (``thrown``), each of ``dodge_hand`` its own heading, so that
the other strikes from any side. One program runs all starts of a scene, as a batch if fused or on a
GPU. See benchmarks/README.md.
"""

import argparse
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks._machine import commit, machine, publish, table, today, versions
from benchmarks._starts import JUDGES, Frames
from benchmarks.cable_car import shaken
from controllers.goals.dodge import capsules
from controllers.goals.sensors import Objects
from jaxsim.fused import fuse
from jaxsim.fused.fuse import BACKENDS
from jaxsim.io.toml_table import WorldError
from jaxsim.math.rotation import quat_multiply
from jaxsim.model import ModelError
from jaxsim.simulation.rollout import advance, begin
from optimize.problems.starts import ANGLE, RATE, spread_text, start_states
from optimize.results.intervals import wilson
from optimize.scenarios.find import scenario
from optimize.scenarios.scenario import Scenario
from optimize.session import session

EVERY = 100  # frames of a call
HEIGHTS, ASIDE = (0.9, 1.7), 0.1  # where balls are aimed: height, deviation to the sides [m]
STEEP, LOWEST = (0.0, 0.6), 0.3  # falling angles of balls there [rad], least height of a throw [m]
ROWS = 200  # points of a path
HEAD = ["scene", "passed", "share, 95% by Wilson", "frames not solved", "why others failed"]


@dataclass(frozen=True)
class Ball:
    """Ranges of speed [m/s] and time of arrival [s] of balls."""

    speed: tuple[float, float]
    arrives: tuple[float, float]


BALLS = {
    "dodge_tennis_ball": Ball((7.0, 10.0), (0.7, 1.0)),
    "dodge_harmful_ball": Ball((4.0, 7.0), (0.9, 1.2)),
}


@dataclass(frozen=True)
class Starts:
    """Scene, with states (n, ...) to start from, and what else differs."""

    scene: Scenario
    state: Any
    drive: Any = None  # (n, ...) of the model
    objects: Any = None  # (n, ...) that fly

    def one(self, drive: Any, objects: Any) -> Scenario:
        """Scene of one start."""
        scene = self.scene
        if drive is not None:
            scene = replace(scene, model=replace(scene.model, drive=drive))
        if objects is not None:
            scene = replace(scene, controller=replace(scene.controller, objects=objects))
        return scene


def starts_of(name: str, count: int, seed: int) -> Starts:
    """Starts of a scene that has motions."""
    scene = scenario(name)
    if name == "cable_car":
        scenes = [scenario(name, shaken(seed + k, scene)) for k in range(count)]
        both = [(one.state, one.model.drive) for one in scenes]
        return Starts(scene, *jax.tree.map(lambda *x: np.stack(x), *both))
    state = start_states(scene.model, scene.state, count, seed, scheme=scene.scheme)
    random = np.random.default_rng(seed)
    if name in BALLS:
        return Starts(scene, state, objects=thrown(scene, BALLS[name], count, random))
    return Starts(scene, facing(scene, state, random) if name == "dodge_hand" else state)


def thrown(scene: Scenario, ball: Ball, count: int, random: np.random.Generator) -> Objects:
    """Balls (count,) from all sides that would hit the body if it stood still."""
    radius, g = float(scene.controller.objects.radius[0]), np.asarray(scene.model.gravity)
    obs = scene.scheme.observe(scene.model, scene.scheme.init(scene.model, scene.state))
    body = [part for _, part in capsules(obs, range(scene.model.topology.n_links))]
    least = jax.jit(jax.vmap(lambda x: jnp.min(jnp.stack([part.distance(x) for part in body]))))
    places, velocities = [], []
    while len(places) < count:
        side, steep = random.uniform(0, 2 * np.pi), random.uniform(*STEEP)
        speed, arrives = random.uniform(*ball.speed), random.uniform(*ball.arrives)
        level = [np.cos(side) * np.cos(steep), np.sin(side) * np.cos(steep), np.sin(steep)]
        target = [*random.normal(0, ASIDE, 2), random.uniform(*HEIGHTS)]
        velocity = -speed * np.array(level) - arrives * g
        place = np.array(target) - arrives * velocity - arrives**2 / 2 * g
        times = np.arange(0, arrives + 0.5, 0.01)[:ROWS, None]
        path = place + times * velocity + times**2 / 2 * g
        path = np.concatenate([path, np.repeat(path[-1:], ROWS - len(path), axis=0)])
        if place[2] > LOWEST and np.asarray(least(path)).min() < radius:
            places.append(place)
            velocities.append(velocity)
    dtype = scene.state.q.dtype
    return Objects(
        jnp.asarray(places, dtype)[:, None],
        jnp.asarray(velocities, dtype)[:, None],
        jnp.full((count, 1), radius, dtype),
    )


def facing(scene: Scenario, state: Any, random: np.random.Generator) -> Any:
    """States (n, ...) of which all but the first face any direction."""
    top, q = scene.model.topology, np.array(state.q)
    at = top.q_start[top.root_joints[0]] + 3
    half = random.uniform(0, np.pi, len(q)) * (np.arange(len(q)) > 0)
    turn = np.stack([np.cos(half), 0 * half, 0 * half, np.sin(half)], axis=1)
    q[:, at : at + 4] = jax.vmap(quat_multiply)(turn, q[:, at : at + 4])
    return state.replace(q=jnp.asarray(q, state.q.dtype))


def frames_of(starts: Starts, see: Callable, seconds: float, backend: str) -> Frames:
    """Values (n, frames, ...) that ``see`` takes from each sample."""
    other = starts.drive, starts.objects

    def first(state, other):
        scene = starts.one(*other)
        return begin(scene.model, scene.controller, scene.scheme, state)

    def some(other, carry):
        scene = starts.one(*other)

        def step(carry, _):
            state, sample = advance(
                scene.model, scene.controller, scene.scheme, *carry, scene.forces
            )
            return (state, sample.memory), see(scene, sample)

        return jax.lax.scan(step, carry, length=EVERY)

    run = fuse(some) if backend == "fused" else one_by_one(some)
    carry = jax.jit(jax.vmap(first))(starts.state, other)
    parts = []
    steps = round(seconds / float(starts.scene.scheme.dt))
    for _ in range(-(-steps // EVERY)):
        carry, seen = run(other, carry)
        parts.append(jax.tree.map(np.asarray, seen))
    return jax.tree.map(lambda *x: np.concatenate(x, axis=1)[:, :steps], *parts)


def one_by_one(some: Callable) -> Callable:
    """Map a function over starts (n, ...): on a CPU one after the other, which is quicker."""
    if jax.default_backend() != "cpu":
        return jax.jit(jax.vmap(some))
    return jax.jit(lambda *starts: jax.lax.map(lambda one: some(*one), starts))


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
