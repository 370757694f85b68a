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

import jax
import numpy as np

from benchmarks._engines import (
    DT,
    PLAIN_SWEEPS,
    POOL,
    Task,
    Theirs,
    interleaved,
    make_fused,
    make_task,
    make_xla,
    on_ground,
    operations,
    peak,
    sweeps_verdict,
    with_plain_sweeps,
)
from benchmarks._machine import ROOT, commit, machine, publish, si, table, today, versions
from jaxsim.characters.planar_human import planar_human, start
from optimize.problems.problem import Problem
from optimize.running.objectives import objective
from optimize.scenarios.find import scenario
from optimize.session import cores, session

BATCHES = (1, 16, 64, 256, 1024, 4096, 16384, 65536)
GOAL_RATIO, GOAL_RATIO_BATCH = 20.0, 256  # of MuJoCo's speed on a CPU, at this batch and above
GOAL_COLD, GOAL_CACHED = 20.0, 3.0  # compile time of the tuning loop [s]
GOAL_GPU, GOAL_LATENCY, GOAL_GPU_COMPILE = 100e6, 50e-6, 30.0  # steps/s; [s] a step to 4096; [s]


STARTS = ("standing", "supine", "prone")


def planar_task(batch: int, settle: int = 500) -> Task:
    """They begin standing or lying, turned and bent a little at random.

    The kd of their joints is passive damping, which both engines treat implicitly.
    """
    model = planar_human()
    model = model.replace(damping=model.gain_d)
    noise = np.zeros((POOL, model.topology.nq))
    noise[:, 2:] = 0.1 * np.random.default_rng(0).normal(size=noise[:, 2:].shape)
    begin = jax.jit(start, static_argnums=1)
    named = [begin(model, name) for name in STARTS]
    poses = np.stack([np.asarray(named[k % len(STARTS)].q) for k in range(POOL)]) + noise
    return make_task(
        model,
        lambda q: named[0].replace(q=on_ground(model, q, height=1)),
        poses,
        batch,
        settle,
    )


# ---- the tables ------------------------------------------------------------------------------

HEADER = ["batch", "fused [steps/s]", "us a step", "G operations/s", "of peak", "compile [s]"]
HEADER += ["XLA [steps/s]", "by", "kernels a step", "MuJoCo C [steps/s]"]
HEADER += ["fused / MuJoCo", "fused / XLA", "contacts, ours / theirs"]
HEADER += [f"{PLAIN_SWEEPS} sweeps, fused", "default / these, time", "default / these, XLA"]


def speed_row(task: Task, count: int, peak: float, options) -> tuple[list[str], dict]:
    """One line of the table, and its figures; '-' where a slow engine was not asked for."""
    batch = task.batch
    fused = make_fused(task, options.steps)
    plain = with_plain_sweeps(task)
    plain_fused = make_fused(plain, options.steps)
    runs = {"fused": fused.run, "plain": plain_fused.run}
    xla = plain_xla = None
    if batch <= options.xla:
        xla = make_xla(task, options.steps, options.chunk)
        plain_xla = make_xla(plain, options.steps, options.chunk)
        runs |= xla.runs | {f"plain {how}": run for how, run in plain_xla.runs.items()}
    theirs = Theirs(task, options.steps) if batch <= options.mujoco else None
    if theirs:
        runs["MuJoCo C"] = theirs.run
    best = interleaved(runs, options.repeats, options.least)

    def speed(name: str) -> float:
        return batch * options.steps / best[name]

    ours = speed("fused")
    by = min(xla.runs, key=best.__getitem__) if xla else ""
    over_plain = {"fused": best["fused"] / best["plain"]}
    if xla:
        over_plain["XLA"] = best[by] / min(best[f"plain {how}"] for how in plain_xla.runs)
    others = [speed(name) if there else 0.0 for name, there in ((by, xla), ("MuJoCo C", theirs))]
    row = [
        str(batch),
        si(ours),
        f"{1e6 * best['fused'] / options.steps:.4g}",
        f"{ours * count / 1e9:.1f}",
        f"{ours * count / peak:.2f}",
        f"{fused.compile_seconds:.1f}",
        si(others[0]) if xla else "-",
        by or "-",
        f"{xla.counts.kernels:.0f}" if xla else "-",
        si(others[1]) if theirs else "-",
        f"{ours / others[1]:.1f}" if theirs else "-",
        f"{ours / others[0]:.0f}" if xla else "-",
        f"{fused.contacts:.1f} / {theirs.solved().contacts:.1f}"
        if theirs
        else f"{fused.contacts:.1f} / -",
        si(speed("plain")),
        f"{over_plain['fused']:.2f}",
        f"{over_plain['XLA']:.2f}" if xla else "-",
    ]
    figures = {
        "batch": batch,
        "speed": ours,
        "ratio": ours / others[1] if theirs else None,
        "latency": best["fused"] / options.steps,
        "compile": fused.compile_seconds,
        "over plain": over_plain,
    }
    return row, figures


def compile_times(options) -> dict[str, float]:
    """Seconds until the tuning loop gives its first result: without a cache, then from it."""
    with tempfile.TemporaryDirectory() as folder:
        env = dict(
            os.environ,
            DRJIT_CACHE_DIR=folder,
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
    kip_up = scenario("kip_up", {"scheme.dt": DT})
    judged = dataclasses.replace(objective("athletic-kip-up"), seconds=20 * DT)
    problem = Problem(kip_up, None, judged)
    seconds = []
    z = np.zeros((16, problem.tunables.size))
    for shift in (0.0, 0.1):
        begun = time.perf_counter()
        problem.evaluate(z + shift)
        seconds.append(time.perf_counter() - begun)
    print(json.dumps({"seconds": seconds[0] - seconds[1]}))


def verdicts(figures: list[dict], times: dict[str, float]) -> list[str]:
    """How the figures stand to the goals."""

    def verdict(what: str, value: float, text: str, goal: float, below: bool) -> str:
        met = value <= goal if below else value >= goal
        return f"- {what}: {text}, {'met' if met else 'not met'}"

    lines = []
    for back_end in ("fused", "XLA"):
        over_plain = {
            f["batch"]: f["over plain"][back_end] for f in figures if back_end in f["over plain"]
        }
        if over_plain:
            lines.append(sweeps_verdict(back_end, over_plain))
    if jax.default_backend() == "cpu":
        known = [f for f in figures if f["ratio"] is not None]
        large = [f for f in known if f["batch"] >= GOAL_RATIO_BATCH]
        if large:
            worst = min(large, key=lambda f: f["ratio"])
            text = f"at least {worst['ratio']:.1f} times MuJoCo C's (goal {GOAL_RATIO:g})"
            what = f"speed from batch {GOAL_RATIO_BATCH} on"
            lines.append(verdict(what, worst["ratio"], text, GOAL_RATIO, below=False))
        for f in known:
            if f["batch"] == 1:
                text = f"{f['ratio']:.2f} times MuJoCo C's on one core (goal 1)"
                lines.append(verdict("speed of a batch of one", f["ratio"], text, 1.0, below=False))
    elif figures:
        best = max(figures, key=lambda f: f["speed"])
        text = f"{si(best['speed'])} steps/s at batch {best['batch']} (goal {si(GOAL_GPU)})"
        lines.append(verdict("speed", best["speed"], text, GOAL_GPU, below=False))
        small = [f for f in figures if f["batch"] <= 4096]
        if small:
            worst = max(f["latency"] for f in small)
            text = f"{1e6 * worst:.0f} us a step (goal {1e6 * GOAL_LATENCY:.0f})"
            lines.append(verdict("latency up to 4096", worst, text, GOAL_LATENCY, below=True))
        worst = max(f["compile"] for f in figures)
        text = f"{worst:.1f} s (goal {GOAL_GPU_COMPILE:g})"
        lines.append(verdict("compile", worst, text, GOAL_GPU_COMPILE, below=True))
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
    parser.add_argument("--xla", type=int, default=256, help="the largest batch for XLA (256)")
    parser.add_argument("--mujoco", type=int, default=4096, help="the same for MuJoCo (4096)")
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
    if not options.child:  # kernels of earlier processes would hide what compiling takes
        os.environ["DRJIT_CACHE_DIR"] = tempfile.mkdtemp()
    with session(options.device, options.precision, cache=options.child, cpu_devices=cores()):
        if options.child:
            compile_child()
            return ""
        batches = options.batch or BATCHES
        print(f"{machine()}; batches {batches}", flush=True)
        rows, figures = [], []
        largest = planar_task(max(batches), settle=0 if options.quick else 500)
        count = operations(largest, options.steps)
        top = peak()
        print(f"{count} operations a step; peak {top / 1e9:.0f} G operations/s", flush=True)
        for batch in batches:
            row, figure = speed_row(largest.first(batch), count, top, options)
            rows.append(row)
            figures.append(figure)
            print("  ".join(f"{name}: {cell}" for name, cell in zip(HEADER, row)), flush=True)
        times = {} if options.without_compile else compile_times(options)
        lines = [f"- {count} operations a step, x y + z counted as one; the same kind of kernel"]
        lines[0] += f" with nothing but these does {top / 1e9:.0f} G a second here"
        text = block(rows, [*lines, *verdicts(figures, times)], options)
    return publish(text, options.record)


if __name__ == "__main__":
    main(sys.argv[1:])
