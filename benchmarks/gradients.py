"""The gradient through a landing beside finite differences, by horizon and by smoothing.

    python benchmarks/gradients.py                              the table
    python benchmarks/gradients.py --out docs/images/landing_gradients.png    and the picture
    python benchmarks/gradients.py --record                     append it to benchmarks/RESULTS.md
    python benchmarks/gradients.py --quick                      to see that it runs
    python benchmarks/gradients.py --float32                    float32 beside float64, see below

A hopper (a weight on a leg with a soft knee) is thrown forward, lands and slides. What it does by
the initial speed and by the friction is differentiated after every step of the motion. See
docs/explanation/gradients.md.

With --float32: 32 steps of humans that stand, in float32 and in float64, and which members
``checked_gradient`` names (benchmarks/_gradient_precision.py).
"""

import argparse
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import _gradient_precision
from benchmarks._machine import commit, machine, publish, table, today, versions
from controllers.pose.pd import PoseController
from jaxsim.model import ModelBuilder, capsule, hinge, neutral_state, plane, slide
from jaxsim.model.model import Model
from jaxsim.simulation.rollout import rollout
from jaxsim.simulation.step import TimeStepping
from optimize.session import session

DT, SECONDS, SWEEPS = 0.001, 0.35, 100
START = dict(q=[0.0, 0.58, 0.1, -0.2], qd=[2.0, -0.5, 0.0, 0.0])
SMOOTHINGS = (0.0, 1e-5, 1e-4, 1e-2)  # [J]
SMALL, LARGE = 1e-6, 0.05  # half the differences' steps


@dataclass(frozen=True)
class Question:
    """What is differentiated by what."""

    title: str
    unit: str
    of: int  # index in q
    by: str  # "speed" or "friction"


QUESTIONS = (
    Question("height of the weight by initial upward speed", "s", 1, "speed"),
    Question("travel of the weight by friction", "m", 0, "friction"),
)


def hopper() -> Model:
    """A weight on a leg in the x-z plane; the hinge between them is its knee."""
    b = ModelBuilder()
    root = [slide("x", (1, 0, 0)), slide("z", (0, 0, 1)), hinge("tilt", (0, -1, 0))]
    b.add_link("body", "world", mass=3.0, inertia=[0.03] * 3, joints=root)
    knee = hinge("knee", (0, -1, 0), limits=(-1, 0.5), kp=150, kd=5, max_torque=100)
    b.add_link("leg", "body", mass=1.0, com=(0, 0, -0.2), inertia=(0.02, 0.02, 0.01), joints=[knee])
    upright = (np.sqrt(0.5), 0, -np.sqrt(0.5), 0)  # the capsule's x axis along z
    b.add_shape("leg", capsule(0.05, 0.2, pos=(0, 0, -0.2), quat=upright, name="leg"))
    b.add_shape("world", plane(name="ground", friction=0.05))
    return b.build()


def measure(steps: int) -> dict:
    """Arrays over the steps: times, whether there is contact, residuals; and for each question
    its slopes (smoothing, steps) and differences "small", "large" (steps)."""
    model = hopper()
    zero = neutral_state(model)
    begin = zero.replace(**{name: jnp.array(x) for name, x in START.items()})

    def record(sample):
        pushed = jnp.any(sample.info.contact_force != 0)
        return sample.state.q, pushed, sample.info.residual

    def motion(change, smoothing, by: str):
        """The records of all steps, with the question's number changed."""
        at, state = model, begin
        if by == "speed":
            state = begin.replace(qd=begin.qd.at[1].add(change))
        else:
            at = model.replace(friction=model.friction + change)
        config = TimeStepping(dt=DT, sweeps=SWEEPS, derivative="implicit", smoothing=smoothing)
        hold = PoseController(jnp.zeros(model.topology.nv))
        done = rollout(at, hold, state, config, steps, record=record, backend="xla")
        return done.record

    found: dict = {"time": DT * np.arange(steps)}
    for question in QUESTIONS:
        run = jax.jit(jax.vmap(lambda c, by=question.by: motion(c, 0.0, by)))
        q, contact, residual = map(np.asarray, run(jnp.array([0.0, SMALL, -SMALL, LARGE, -LARGE])))

        def slope(smoothing, by=question.by):
            return jax.jvp(lambda c: motion(c, smoothing, by)[0], (0.0,), (1.0,))[1]

        slopes = np.asarray(jax.jit(jax.vmap(slope))(jnp.array(SMOOTHINGS)))
        of = q[..., question.of]
        found[question.title] = {
            "slopes": slopes[..., question.of],
            "small": (of[1] - of[2]) / (2 * SMALL),
            "large": (of[3] - of[4]) / (2 * LARGE),
        }
        found |= {"contact": contact[0], "residual": residual[0]}
    return found


def landing(found: dict) -> int:
    """The first step with a contact force; the last step if there is none."""
    contact = found["contact"]
    return int(np.argmax(contact)) if contact.any() else len(contact) - 1


def rows_of(found: dict) -> list[list[str]]:
    """Of each question: horizons before, at and after the landing."""
    first, last = landing(found), len(found["time"]) - 1
    rows = []
    for question in QUESTIONS:
        of = found[question.title]
        for k in sorted({min(k, last) for k in (first // 2, first - 1, first, first + 50, last)}):
            numbers = [of["small"][k], of["large"][k], *of["slopes"][:, k]]
            name = f"{question.title} [{question.unit}]"
            rows.append([name, f"{1000 * found['time'][k]:.0f} ms", *(f"{x:.6f}" for x in numbers)])
    return rows


def worst(found: dict) -> dict[str, float]:
    """Of each question the largest error of the slope without smoothing, relative to the largest
    slope."""
    return {
        q.title: float(
            np.abs(found[q.title]["slopes"][0] - found[q.title]["small"]).max()
            / np.abs(found[q.title]["small"]).max()
        )
        for q in QUESTIONS
    }


def picture(found: dict, path: Path) -> None:
    """Slopes over the horizon, and the error of the one without smoothing."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 6.5), layout="constrained")
    axes = figure.subplots(2, 2, sharex=True, height_ratios=[2, 1])
    time = found["time"]
    for column, question in enumerate(QUESTIONS):
        of, (top, low) = found[question.title], axes[:, column]
        for smoothing, slope, color in zip(
            SMOOTHINGS, of["slopes"], ("C0", "C2", "C1", "C3"), strict=True
        ):
            name = f"smoothing {smoothing:g} J" if smoothing else "no smoothing"
            top.plot(time, slope, color=color, lw=1.5, label=name)
        every = max(1, len(time) // 50)
        name = f"differences of {SMALL:g}"
        top.plot(time[::every], of["small"][::every], "k.", ms=4, label=name)
        top.plot(time, of["large"], "k:", lw=1, label=f"differences of {LARGE:g}")
        top.set(title=question.title, ylabel=f"slope [{question.unit}]")
        low.semilogy(time, np.abs(of["slopes"][0] - of["small"]) + 1e-16, "C0", lw=1)
        low.axhline(1e-6, color="grey", ls="--", lw=1)
        low.set(xlabel="horizon [s]", ylabel="error without smoothing", ylim=(1e-13, 1e-2))
        for axis in (top, low):
            axis.axvline(time[landing(found)], color="grey", lw=0.8)
    axes[0, 1].legend(loc="lower left", fontsize=8)
    figure.savefig(path, dpi=110)


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", choices=("cpu", "gpu"))
    parser.add_argument("--out", type=Path, help="where the picture goes")
    parser.add_argument("--record", action="store_true", help="append to benchmarks/RESULTS.md")
    parser.add_argument("--quick", action="store_true", help="a few steps")
    parser.add_argument("--float32", action="store_true", help="float32 beside float64")
    parser.add_argument("--members", type=int, default=64, help="with --float32")
    parser.add_argument("--steps", type=int, default=32, help="with --float32")
    parser.add_argument("--seed", type=int, default=1, help="with --float32")
    parser.add_argument("--body", choices=_gradient_precision.BODIES, help="with --float32, alone")
    options = parser.parse_args(words)
    options.words = words
    return options


def in_float32(options: argparse.Namespace) -> str:
    """The table of float32 beside float64."""
    members, steps = (4, 4) if options.quick else (options.members, options.steps)
    found = []
    for body in [options.body] if options.body else _gradient_precision.BODIES:
        of = _gradient_precision.measure(body, members, options.seed, steps, options.device)
        found += _gradient_precision.rows(body, of)
    return "\n\n".join(
        [
            f"## Gradients in float32 beside float64, {today()}, {machine()}",
            f"commit {commit()}; {versions(jax)}; {steps} steps of"
            f" {1000 * _gradient_precision.DT:g} ms, seed {options.seed}",
            f"`{shlex.join(['python', 'benchmarks/gradients.py', *options.words])}`",
            table(_gradient_precision.HEADER, found) + "\n",
        ]
    )


def main(words: list[str]) -> str:
    """Measure, print and return the table."""
    options = parse(words)
    if options.float32:
        return publish(in_float32(options), options.record)
    with session(options.device, "float64"):
        found = measure(20 if options.quick else round(SECONDS / DT))
    if options.out:
        picture(found, options.out)
    names = [f"{s:g} J" if s else "no smoothing" for s in SMOOTHINGS]
    header = ["slope", "horizon", f"differences of {SMALL:g}", f"of {LARGE:g}", *names]
    off = "; ".join(f"{title}: {x:.1e}" for title, x in worst(found).items())
    text = "\n\n".join(
        [
            f"## Gradients through a landing, {today()}, {machine()}",
            f"commit {commit()}; {versions(jax)}; float64, a step of {1000 * DT:g} ms,"
            f" {SWEEPS} sweeps (largest residual {found['residual'].max():.1e} m/s);"
            f" landing after {1000 * found['time'][landing(found)]:.0f} ms",
            f"`{shlex.join(['python', 'benchmarks/gradients.py', *options.words])}`",
            table(header, rows_of(found)),
            f"Largest error without smoothing, relative to the largest slope: {off}.\n",
        ]
    )
    return publish(text, options.record)


if __name__ == "__main__":
    main(sys.argv[1:])
