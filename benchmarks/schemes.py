"""The two steps side by side: accuracy, stability and cost by the length of the step.

    python benchmarks/schemes.py             the tables and docs/images/schemes.png
    python benchmarks/schemes.py --record    and append the tables to benchmarks/RESULTS.md
    python benchmarks/schemes.py --quick     a minute, to see that it runs

"time_stepping" is ``step`` (one solve a step), "event_driven" is ``event_step`` (Kokkevis 2004,
section 7).
Scenes in float64: a crate that slides to a stop, a ball that bounces, a crate that falls on an
edge and tumbles, the planar human that falls limp.
See docs/explanation/constraints.md, benchmarks/README.md.
"""

import argparse
import dataclasses
import shlex
import sys
import time as clock
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks._machine import ROOT, commit, machine, publish, table, today, versions
from jaxsim.characters.planar_human import planar_human, start
from jaxsim.dynamics.momentum import kinetic_energy, potential_energy
from jaxsim.model import Model, ModelBuilder, State, box, free, neutral_state, plane, sphere
from jaxsim.simulation.events import EventDriven
from jaxsim.simulation.records import no_control
from jaxsim.simulation.rollout import rollout
from jaxsim.simulation.step import TimeStepping
from optimize.session import cores, session

G, RADIUS, HALF, MASS = 9.81, 0.1, 0.1, 2.0
STEPS = (0.00025, 0.001, 0.004, 1 / 120, 1 / 60)
CHUNK = 10  # steps in a compiled piece
SCHEMES = {"time_stepping": partial(TimeStepping, sweeps=50), "event_driven": EventDriven}


@jax.tree_util.register_static
class Limp:
    """No torque."""

    def init(self, model, state, obs):
        return ()

    def update(self, memory, model, state, obs, dt):
        return memory, no_control(model)


def alone(shape, inertia: float, friction: float, restitution: float) -> Model:
    """One body on the ground."""
    b = ModelBuilder()
    b.add_link("body", "world", mass=MASS, inertia=[inertia] * 3, joints=[free("root")])
    b.add_shape("body", shape)
    b.add_shape("world", plane(name="ground"))
    model = b.build()
    return model.replace(friction=jnp.full(2, friction), restitution=jnp.full(2, restitution))


def placed(model: Model, q, qd) -> State:
    zero = neutral_state(model)
    return zero.replace(q=jnp.asarray(q, float), qd=jnp.asarray(qd, float))


def record(sample):
    """What the tables need of a step."""
    kin = sample.obs.kin
    energy = kinetic_energy(sample.model, kin, sample.state.qd) + potential_energy(
        sample.model, kin
    )
    top, q = sample.model.topology, sample.state.q
    joints = np.array(top.limited_joints, int)
    at = q[np.array(top.q_start, int)[joints]]
    beyond = jnp.maximum(
        sample.model.joint_lower[joints] - at, at - sample.model.joint_upper[joints]
    )
    return dict(
        q=q,
        qd=sample.state.qd,
        energy=energy,
        penetration=sample.info.penetration,
        beyond=jnp.max(beyond, initial=0.0),
    )


@jax.jit
def piece(model: Model, state: State, config):
    """CHUNK steps; compiled once for all lengths of the step."""
    result = rollout(model, Limp(), state, config, CHUNK, record=record, backend="xla")
    return result.state, result.record


def simulate(model: Model, state: State, config, seconds: float):
    """The record, and the seconds that it took."""
    config = dataclasses.replace(config, dt=jnp.asarray(config.dt))
    state = config.init(model, state)
    jax.block_until_ready(piece(model, state, config))
    began, records = clock.perf_counter(), []
    for _ in range(-(-round(seconds / float(config.dt)) // CHUNK)):
        state, kept = piece(model, state, config)
        records.append(kept)
    jax.block_until_ready(state)
    took = clock.perf_counter() - began
    return jax.tree.map(lambda *x: np.concatenate(x), *records), took


def rises(energy: np.ndarray) -> float:
    """The energy gained in all steps that gain any [J]."""
    return float(np.maximum(np.diff(energy), 0).sum())


def slide(config) -> dict[str, float]:
    model = alone(box([HALF] * 3), 2 / 3 * MASS * HALF**2, 0.4, 0.0)
    state = placed(model, [0, 0, HALF, 1, 0, 0, 0], [2.0, 1.5, 0, 0, 0, 0])
    result, seconds = simulate(model, state, config, 1.0)
    wanted = 2.5**2 / (2 * 0.4 * G)
    return {"error": abs(np.hypot(*result["q"][-1, :2]) / wanted - 1), "seconds": seconds}


def bounce(config) -> dict[str, float]:
    model = alone(sphere(RADIUS), 0.4 * MASS * RADIUS**2, 0.4, 0.8)
    result, seconds = simulate(
        model, placed(model, [0, 0, RADIUS + 0.5, 1, 0, 0, 0], np.zeros(6)), config, 0.9
    )
    after = round((np.sqrt(1 / G) + 0.02) / config.dt)
    height = result["q"][after:, 2].max() - RADIUS
    return {"error": abs(height / (0.64 * 0.5) - 1), "seconds": seconds}


def tumble(config) -> dict[str, float]:
    model = alone(box([HALF] * 3), 2 / 3 * MASS * HALF**2, 0.5, 0.0)
    turned = np.array([np.cos(0.3), 0, np.sin(0.3), 0])
    state = placed(model, [0, 0, 0.3, *turned], [0.5, 0, 0, 0, 1.0, 0])
    result, seconds = simulate(model, state, config, 2.0)
    return {
        "risen": rises(result["energy"]),
        "depth": result["penetration"].max(),
        "rest": np.abs(result["qd"][-1]).max(),
        "seconds": seconds,
    }


def fall(config) -> dict[str, float]:
    model = planar_human()
    result, seconds = simulate(model, start(model, "standing"), config, 2.0)
    finite = np.isfinite(result["q"]).all()
    return {
        "finite": finite,
        "risen": rises(result["energy"]),
        "depth": result["penetration"].max(),
        "beyond": np.rad2deg(result["beyond"].max()),
        "seconds": seconds,
    }


SCENES = {"slide": slide, "bounce": bounce, "tumble": tumble, "fall": fall}
COLUMNS = [
    ("slide", "error", "sliding distance off [%]", 100),
    ("bounce", "error", "bounce height off [%]", 100),
    ("tumble", "risen", "tumble: energy gained [mJ]", 1e3),
    ("tumble", "depth", "depth [mm]", 1e3),
    ("tumble", "rest", "speed at 2 s [mm/s]", 1e3),
    ("fall", "risen", "human: energy gained [J]", 1),
    ("fall", "depth", "depth [mm]", 1e3),
    ("fall", "beyond", "beyond a limit [deg]", 1),
    ("fall", "seconds", "time for 2 s [s]", 1),
]


def plot(found, steps, path: Path) -> None:
    """Errors and cost by the step, both schemes."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    chosen = [COLUMNS[k] for k in (0, 1, 6, 8)]
    figure, axes = plt.subplots(1, len(chosen), figsize=(12, 3), layout="constrained")
    for axis, (scene, key, label, factor) in zip(axes, chosen):
        for scheme, marker in zip(SCHEMES, "os"):
            values = [max(factor * found[scheme, dt][scene][key], 1e-4) for dt in steps]
            axis.loglog([1e3 * dt for dt in steps], values, marker=marker, label=scheme)
        axis.set(xlabel="step [ms]", title=f"{scene}: {label.removeprefix('human: ')}")
        axis.title.set_fontsize(9)
        axis.grid(alpha=0.3)
    axes[0].legend()
    figure.savefig(path, dpi=80)
    plt.close(figure)


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "gpu"))
    parser.add_argument("--record", action="store_true", help="append to benchmarks/RESULTS.md")
    parser.add_argument("--quick", action="store_true", help="two steps, without the human")
    options = parser.parse_args(words)
    options.words = words
    return options


def main(words: list[str]) -> str:
    """Measure, print and return the table."""
    options = parse(words)
    steps = STEPS[-2:] if options.quick else STEPS
    scenes = {k: f for k, f in SCENES.items() if not (options.quick and k == "fall")}
    columns = [c for c in COLUMNS if c[0] in scenes]
    with session(options.device, "float64", cpu_devices=cores()):
        found = {}
        for scheme, config in SCHEMES.items():
            for dt in steps:
                found[scheme, dt] = {name: f(config(dt=dt)) for name, f in scenes.items()}
                print(scheme, f"{1e3 * dt:.3g} ms", found[scheme, dt], flush=True)
    rows = [
        [
            scheme,
            f"{1e3 * dt:.3g}",
            *(f"{x * found[scheme, dt][s][k]:.3g}" for s, k, _, x in columns),
        ]
        for scheme, dt in found
    ]
    if not options.quick:
        plot(found, steps, ROOT / "docs" / "images" / "schemes.png")
    text = "\n\n".join(
        [
            f"## The two steps, {today()}, {machine()}",
            f"commit {commit()}; {versions(jax)}; float64, XLA, one character",
            f"`{shlex.join(['python', 'benchmarks/schemes.py', *options.words])}`",
            table(["scheme", "step [ms]", *(label for _, _, label, _ in columns)], rows) + "\n",
        ]
    )
    return publish(text, options.record)


if __name__ == "__main__":
    main(sys.argv[1:])
