"""Our step beside MuJoCo's, on the same planar human, with contacts and random torques.

    python benchmarks/planar.py                  the table; on a GPU as well: --device gpu
    python benchmarks/planar.py --record         and append it to benchmarks/RESULTS.md
    python benchmarks/planar.py --quick          seconds, to see that it runs

See benchmarks/README.md for what is measured and how.
"""

import argparse
import contextlib
import dataclasses
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import jax
import numpy as np

from benchmarks._engines import DT, Task, Theirs, interleaved, make_ours, make_task
from benchmarks._machine import ROOT, commit, machine, si, table, today, versions
from controllers.scl.load import load_script
from jaxsim.characters.planar_human import planar_human, start
from jaxsim.simulation.step import StepConfig
from optimize.cli_setup import cores, session
from optimize.objectives import objective
from optimize.problem import ScriptProblem

BATCHES = (1, 16, 64, 256, 1024, 4096)
GOAL_RATIO = 0.5  # of MuJoCo's speed, on a CPU
GOAL_COLD, GOAL_CACHED = 20.0, 3.0  # compile time of the tuning loop [s]
GOAL_GPU, GOAL_GPU_BATCH, GOAL_LATENCY = 5e6, 8192, 300e-6  # steps/s; [s] a step up to 4096


# ---- the tables ------------------------------------------------------------------------------

HEADER = ["batch", "ours [steps/s]", "by", "us a step", "MuJoCo C [steps/s]", "ours / MuJoCo"]
HEADER += ["kernels a step", "kflop a step", "kB each", "compile [s]", "contacts, ours / theirs"]


def speed_row(task: Task, options) -> tuple[list[str], dict]:
    """One line of the table, and its figures."""
    batch = task.batch
    ours = make_ours(task, options.steps, options.chunk)
    runs = dict(ours.runs)
    theirs = None if options.without_mujoco else Theirs(task, options.steps)
    if theirs:
        runs["MuJoCo C"] = theirs.run
    best = interleaved(runs, options.repeats, options.least)
    name = min(ours.runs, key=best.__getitem__)
    speed = batch * options.steps / best[name]
    other = batch * options.steps / best["MuJoCo C"] if theirs else float("nan")
    latency = best[name] / options.steps
    row = [
        str(batch),
        si(speed),
        name,
        f"{1e6 * latency:.4g}",
        si(other) if theirs else "-",
        f"{speed / other:.2f}" if theirs else "-",
        f"{ours.counts.kernels:.0f}",
        f"{ours.counts.flops / batch / 1000:.1f}",
        f"{ours.bytes_each / 1000:.1f}",
        f"{ours.compile_seconds:.1f}",
        f"{ours.contacts:.1f} / {theirs.contacts():.1f}" if theirs else f"{ours.contacts:.1f} / -",
    ]
    return row, dict(batch=batch, speed=speed, ratio=speed / other, latency=latency)


def compile_times(options) -> dict[str, float]:
    """Seconds until the tuning loop gives its first result: without a cache, then from it."""
    with tempfile.TemporaryDirectory() as folder:
        env = dict(
            os.environ,
            JAX_COMPILATION_CACHE_DIR=folder,
            JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS="0",
            JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES="-1",
        )
        command = [sys.executable, __file__, "--child"]
        for name in ("device", "precision"):
            if getattr(options, name):
                command += [f"--{name}", getattr(options, name)]
        times = {}
        for name in ("cold", "cached"):
            done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True)
            if done.returncode:
                raise SystemExit(done.stderr)
            times[name] = json.loads(done.stdout.splitlines()[-1])["seconds"]
            print(f"tuning loop, {name}: {times[name]:.1f} s", flush=True)
        return times


def compile_child() -> None:
    """Print how much longer the first generation of a kip-up takes than the second."""
    model = planar_human()
    problem = ScriptProblem(
        model=model,
        script=load_script("kip_up", model),
        start=jax.jit(lambda model: start(model, "supine"))(model),
        objective=dataclasses.replace(objective("athletic-kip-up"), seconds=20 * DT),
        config=StepConfig(dt=DT),
    )
    seconds = []
    z = np.zeros((16, len(problem.script.free_indices())))
    for shift in (0.0, 0.1):
        begun = time.perf_counter()
        problem.evaluate(z + shift)
        seconds.append(time.perf_counter() - begun)
    print(json.dumps({"seconds": seconds[0] - seconds[1]}))


def verdicts(figures: list[dict], times: dict[str, float], options) -> list[str]:
    """How the figures stand to the goals."""

    def verdict(what: str, value: float, text: str, goal: float, below: bool) -> str:
        met = value <= goal if below else value >= goal
        return f"- {what}: {text}, {'met' if met else 'not met'}"

    lines = []
    if jax.default_backend() == "cpu":
        best = max(figures, key=lambda f: f["speed"])
        if not options.without_mujoco:
            text = f"{best['ratio']:.2f} of MuJoCo C at batch {best['batch']} (goal {GOAL_RATIO})"
            lines.append(verdict("speed", best["ratio"], text, GOAL_RATIO, below=False))
    else:
        large = [f for f in figures if f["batch"] == GOAL_GPU_BATCH]
        for f in large:
            text = f"{si(f['speed'])} steps/s at batch {f['batch']} (goal {si(GOAL_GPU)})"
            lines.append(verdict("speed", f["speed"], text, GOAL_GPU, below=False))
        small = [f for f in figures if f["batch"] <= 4096]
        if small:
            worst = max(f["latency"] for f in small)
            text = f"{1e6 * worst:.0f} us a step (goal {1e6 * GOAL_LATENCY:.0f})"
            lines.append(verdict("latency up to 4096", worst, text, GOAL_LATENCY, below=True))
    for name, goal in (("cold", GOAL_COLD), ("cached", GOAL_CACHED)):
        if name in times:
            text = f"{times[name]:.1f} s (goal {goal:g})"
            lines.append(verdict(f"tuning loop, {name}", times[name], text, goal, below=True))
    return lines


def block(rows: list[list[str]], lines: list[str], options) -> str:
    """What RESULTS.md gets."""
    modules = [jax]
    with contextlib.suppress(ImportError):
        import mujoco

        modules.append(mujoco)
    precision = "float64" if jax.config.jax_enable_x64 else "float32"
    head = [
        f"## {today()}, {machine()}",
        f"commit {commit()}; {versions(*modules)}; ours in {precision}, MuJoCo C in float64",
        f"`python benchmarks/planar.py {shlex.join(options.words)}`".replace(" `", "`"),
        table(HEADER, rows),
        "\n".join(lines),
    ]
    return "\n\n".join(head) + "\n"


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "gpu"))
    parser.add_argument("--precision", choices=("float32", "float64"))
    parser.add_argument("--batch", type=int, nargs="+", help="sizes of the batches")
    parser.add_argument("--steps", type=int, default=100, help="time steps a call")
    parser.add_argument("--chunk", type=int, default=16, help="members of a chunk, on each device")
    parser.add_argument("--repeats", type=int, default=7, help="the best of so many counts")
    parser.add_argument("--least", type=float, default=0.5, help="seconds of each repeat")
    parser.add_argument("--without-mujoco", action="store_true")
    parser.add_argument("--without-compile", action="store_true", help="no compile times")
    parser.add_argument("--record", action="store_true", help="append to benchmarks/RESULTS.md")
    parser.add_argument("--quick", action="store_true", help="two small batches, few steps")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(words)
    options.words = words
    if options.quick:
        options.batch = options.batch or [1, 4]
        options.steps, options.repeats, options.least = 4, 1, 0.0
        options.without_compile = True
    return options


def main(words: list[str]) -> str:
    """Measure, print progress and the tables; returns the text for RESULTS.md."""
    options = parse(words)
    with session(options.device, options.precision, cache=options.child, cpu_devices=cores()):
        if options.child:
            compile_child()
            return ""
        on_gpu = jax.default_backend() != "cpu"
        batches = options.batch or [*BATCHES, *([GOAL_GPU_BATCH] if on_gpu else [])]
        print(f"{machine()}; batches {batches}", flush=True)
        rows, figures = [], []
        largest = make_task(max(batches), settle=0 if options.quick else 500)
        for batch in batches:
            row, figure = speed_row(largest.first(batch), options)
            rows.append(row)
            figures.append(figure)
            print("  ".join(f"{name}: {cell}" for name, cell in zip(HEADER, row)), flush=True)
        times = {} if options.without_compile else compile_times(options)
        text = block(rows, verdicts(figures, times, options), options)
    print(f"\n{text}")
    if options.record:
        with open(Path(__file__).with_name("RESULTS.md"), "a") as file:
            file.write(f"\n{text}")
    return text


if __name__ == "__main__":
    main(sys.argv[1:])
