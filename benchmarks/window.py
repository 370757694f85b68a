"""Windows of steps on a body with one leg: what they cost, and what one step cannot do.

    python benchmarks/window.py                       all of it, minutes
    python benchmarks/window.py --films FOLDER        and film strips of the behaviours
    python benchmarks/window.py --quick               seconds, to see that it runs

The body is that of the synthesizer's tests: 40 kg, three joints, one foot, within torque limits.
See benchmarks/README.md.
"""

import argparse
import shlex
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks._machine import commit, machine, publish, table, today, versions
from benchmarks._window import ANNOUNCED, JUMP, TOP, Scene, Told, film, jumped, planned, shoved
from jaxsim.solvers.lcp import SOLVED
from optimize.session import session

WINDOWS = (1, 5, 10, 16)
MOST = ("root_residual", "effort")  # fields of ``Told``
FORCES = (250.0, 300.0, 350.0, 400.0, 500.0)  # [N], for 0.1 s


def pushes(frames: tuple[int, ...], forces: tuple[float, ...], films: Path | None) -> str:
    """What a step takes, and who stands after a push, by the frames of the window."""
    rows = []
    for count in frames:
        scene = Scene(count, ANNOUNCED)
        begun = time.process_time()
        run = jax.jit(shoved(scene)).lower(scene.begin(), jnp.asarray(0.0)).compile()
        making, taken, runs, ends = time.process_time() - begun, [], [], []
        for force in forces:
            begun = time.process_time()
            told = jax.block_until_ready(run(scene.begin(), jnp.asarray(force)))
            taken.append((time.process_time() - begun) / scene.steps)
            runs.append(told)
            lean = 1e3 * float(told.com[: scene.before, 0].min() - told.com[0, 0])
            ends.append(f"{'stands' if told.stands else 'falls'}, {lean:.0f}")
            if films is not None:
                film(scene, told, films / f"push_{force:.0f}N_window_{count}.png")
        rows.append([str(count), *costs(count, 1e3 * min(taken), making, runs), *ends])
        print(*rows[-1], flush=True)
    header = ["frames", "step, CPU [ms]", "of each frame [ms]", "iterations, mean / max"]
    header += ["compile, CPU [s]", "QPs that failed", "root residual [N]", "torque by its limit"]
    return table([*header, *(f"{force:.0f} N, lean [mm]" for force in forces)], rows)


def costs(frames: int, step: float, making: float, runs: list[Told]) -> list[str]:
    """Of a window's runs; step: [ms] of the processor, making: [s] to compile."""
    iterations = np.concatenate([told.iterations for told in runs])
    failed = sum(int((np.asarray(told.status) != SOLVED).sum()) for told in runs)
    cells = [f"{step:.1f}", f"{step / frames:.1f}"]
    cells += [f"{iterations.mean():.1f} / {iterations.max()}", f"{making:.0f}", str(failed)]
    worst = (max(float(getattr(told, name).max()) for told in runs) for name in MOST)
    return cells + [f"{value:.1g}" for value in worst]


def plans(frames: int, height: float, films: Path | None) -> str:
    """A jump as one window, from rest: how the plan settles, QP by QP."""
    scene, rows = Scene(frames, JUMP), []
    sweep = jax.jit(planned(scene))
    state = scene.begin()
    state = state.replace(time=jnp.asarray(TOP - frames * scene.kind.dt))
    plan, first, told = state.solver.last, float(scene.seen(state.q, state.qd).com[2]), None
    for count in range(1, 15):
        before, begun = plan.x, time.process_time()
        plan, told = jax.block_until_ready(sweep(state, plan, jnp.asarray(height)))
        taken, nv = time.process_time() - begun, scene.model.topology.nv
        z = 1e3 * (np.asarray(told.com)[:, 2] - first)
        changed = float(jnp.abs(plan.x - before)[:, :nv].max())
        cells = [f"{z[-1]:.0f}", f"{1e3 * float(told.gap[-1]):.0f}", f"{z.min():.0f}"]
        cells += [f"{float(told.root_residual.max()):.1e}", f"{float(told.effort.max()):.3f}"]
        rows.append([str(count), *cells, f"{changed:.2g}", str(told.iterations[0])])
        rows[-1].append(f"{1e3 * taken:.0f}")
        print(*rows[-1], flush=True)
    if films is not None and told is not None:
        film(scene, told, films / f"jump_{1e3 * height:.0f}mm_plan_{frames}.png")
    header = ["QP", "height at the end [mm]", "sole [mm]", "crouch [mm]", "root residual [N]"]
    header += ["largest torque by its limit", "velocities changed by", "iterations", "CPU [ms]"]
    return table(header, rows)


def jumps(frames: tuple[int, ...], heights: tuple[float, ...], films: Path | None) -> str:
    """How far the centre of mass is from where it was asked to be at the top, and the sole."""
    rows = []
    for count in frames:
        scene = Scene(count, JUMP)
        run = jax.jit(jumped(scene))
        for height in heights:
            told = run(scene.begin(), jnp.asarray(height))
            at = scene.top
            rows.append(
                [
                    str(count),
                    f"{1e3 * height:.0f}",
                    f"{1e3 * float(told.com[at, 2] - told.com[0, 2]):.0f}",
                    f"{1e3 * float(told.gap[at]):.0f}",
                    f"{1e3 * float(told.com[:at, 2].min() - told.com[0, 2]):.0f}",
                    f"{float(told.root_residual.max()):.0e}",
                    f"{float(told.effort.max()):.3f}",
                    "stands" if told.stands else "falls",
                ]
            )
            print(*rows[-1], flush=True)
            if films is not None:
                film(scene, told, films / f"jump_{1e3 * height:.0f}mm_window_{count}.png")
    header = ["frames", "asked [mm]", "reached [mm]", "sole over the ground [mm]", "crouch [mm]"]
    return table([*header, "root residual [N]", "largest torque by its limit", "then"], rows)


def main(words: list[str]) -> str:
    """Measure, print and return the tables."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--films", type=Path, help="a folder for film strips")
    parser.add_argument("--only", choices=("pushes", "plans", "jumps"), help="one of the tables")
    parser.add_argument("--frames", type=int, nargs="+", default=WINDOWS, help="of the windows")
    parser.add_argument("--record", action="store_true", help="append to benchmarks/RESULTS.md")
    parser.add_argument("--quick", action="store_true", help="one push of one step alone")
    options = parser.parse_args(words)
    if options.films is not None:
        options.films.mkdir(parents=True, exist_ok=True)
    parts = {
        "pushes": lambda: pushes(tuple(options.frames), FORCES, options.films),
        "plans": lambda: plans(20, 0.15, options.films),
        "jumps": lambda: jumps((1, 20), (0.1, 0.15, 0.2), options.films),
    }
    if options.quick:
        parts = {"pushes": lambda: pushes((1,), (200.0,), None)}
    with session(None, "float64"):
        bodies = [make() for name, make in parts.items() if options.only in (None, name)]
        text = "\n\n".join(
            [
                f"## Windows, {today()}, {machine()}",
                f"commit {commit()}; {versions(jax)}; float64, one core's time",
                f"`{shlex.join(['python', 'benchmarks/window.py', *words])}`",
                *bodies,
            ]
        )
    return publish(text + "\n", options.record)


if __name__ == "__main__":
    main(sys.argv[1:])
