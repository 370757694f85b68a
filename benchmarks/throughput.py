"""Our step beside MJX's and MuJoCo's, on one humanoid file, with contacts and random torques.

    python benchmarks/throughput.py                  the tables; on a GPU as well: --device gpu
    python benchmarks/throughput.py --mjx PYTHON     with MJX, in the environment of that Python
    python benchmarks/throughput.py --record         and append them to benchmarks/RESULTS.md
    python benchmarks/throughput.py --quick          a minute, to see that it runs

See benchmarks/README.md for what is measured and how, and for the environment of MJX.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks._engines import (
    DT,
    PLAIN_SWEEPS,
    POOL,
    MujocoTask,
    Ran,
    Task,
    Theirs,
    dropped_contacts,
    interleaved,
    lift,
    make_fused,
    make_task,
    make_xla,
    member_function,
    on_ground,
    operations,
    peak,
    residual,
    sweeps_verdict,
    touching,
    with_plain_sweeps,
)
from benchmarks._machine import ROOT, commit, machine, publish, si, table, today, versions
from jaxsim.characters.human import articulated_human
from jaxsim.collision.contacts import find_contacts
from jaxsim.collision.slots import contact_slots
from jaxsim.constraints.rows import contact_frame, contact_jacobian
from jaxsim.dynamics.kinematics import forward_kinematics, integrate
from jaxsim.fused import fuse
from jaxsim.io.mjcf import mjcf_q_index, mjcf_v_index
from jaxsim.model import Model
from jaxsim.model.state import neutral_q, neutral_state
from jaxsim.simulation.step import TimeStepping
from optimize.session import cores, session

# That ours solves for. All, where the rows of most links are known to be zeros (fused); the nearest
# where they are not made use of (XLA): fewer rows, with the same result while none is left out.
CONTACTS, XLA_CONTACTS = 64, 16
BATCHES = (1, 16, 64, 256, 1024, 4096, 8192)
LINE_SEARCH = 4  # iterations of it, of MJX with other than its default iterations
AS_MUCH = 0.02  # MJX solves as much as with its default if the ground's force is so near to that
GOALS = {"XLA / MJX": 1.5, "fused / MJX": 20.0, "fused / MuJoCo C": 6.0}
GOAL_COMPILE = 0.5  # of MJX's
PLAIN = f"{PLAIN_SWEEPS} sweeps, "  # names do not begin as those of the default do
GOAL_GPU, GOAL_LATENCY, GOAL_BYTES = 20e6, 100e-6, 8e3  # steps/s; [s] a step to 4096; a world


def humanoid_task(batch: int, contacts: int = CONTACTS, settle: int = 500) -> Task:
    """Humanoids that fall in all orientations and end up on the ground, limbs bent at random."""
    model = articulated_human()
    top = model.topology
    rng = np.random.default_rng(0)
    turn = 0.3 * rng.normal(size=(POOL, top.nv))
    turn[:, :3], turn[:, 3:6] = 0, 1.5 * rng.normal(size=(POOL, 3))
    for joint in top.limited_joints:
        low, high = float(model.joint_lower[joint]), float(model.joint_upper[joint])
        turn[:, top.v_start[joint]] = rng.uniform(low, high, POOL)
    begun = neutral_state(model)

    def start(turn):
        q = integrate(model, jnp.asarray(neutral_q(model), turn.dtype), turn, 1.0)
        return begun.replace(q=on_ground(model, q, height=2))

    return make_task(model, start, turn, batch, settle, TimeStepping(dt=DT, contacts=contacts))


# ---- MJX -------------------------------------------------------------------------------------


class Mjx:
    """A task run with MJX, on a CPU by one process for each core, on a GPU by one.

    The first process compiles; the others find its program in a cache.
    """

    def __init__(self, task: Task, steps: int, python: str, setting: tuple[int, int]):
        given = MujocoTask(task)
        count = min(cores(), task.batch) if jax.default_backend() == "cpu" else 1
        self.folder = tempfile.TemporaryDirectory()
        self.processes: list[subprocess.Popen] = []
        answers, ends = [], []
        for number, members in enumerate(np.array_split(np.arange(task.batch), count)):
            folder = Path(self.folder.name, str(number))
            folder.mkdir()
            (folder / "model.xml").write_text(given.xml)
            arrays = {"qpos": given.qpos, "qvel": given.qvel, "offset": task.offset}
            arrays = {name: array[members] for name, array in arrays.items()}
            np.savez(folder / "task.npz", table=given.table, **arrays)
            core = sorted(os.sched_getaffinity(0))[number] if count > 1 else None
            options = {"iterations": setting[0], "line_search": setting[1]}
            options |= {"steps": steps, "core": core}
            self.processes.append(self._start(python, folder, options))
            answers.append(json.loads(self._answer(self.processes[-1])))
            with np.load(folder / "out.npz") as out:
                ends.append(dict(out))
        self.figures = answers[0]
        self.last = {k: np.concatenate([end[k] for end in ends]) for k in ends[0]}

    def _start(self, python: str, folder: Path, options: dict) -> subprocess.Popen:
        command = [python, "-m", "benchmarks._mjx", str(folder), json.dumps(options)]
        env = dict(
            os.environ,
            PYTHONPATH=str(ROOT),
            JAX_PLATFORMS="cpu" if jax.default_backend() == "cpu" else "cuda",
            JAX_COMPILATION_CACHE_DIR=self.folder.name,
        )
        if jax.default_backend() == "cpu":
            env["NPROC"] = "8"  # with two threads XLA can stand still for ever in batched loops
        with open(folder / "errors", "w") as errors:
            return subprocess.Popen(
                command,
                cwd=ROOT,
                env=env,
                text=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )

    def _answer(self, process: subprocess.Popen) -> str:
        line = process.stdout.readline()
        while line and not line.startswith("{"):
            line = process.stdout.readline()
        if not line:
            errors = Path(self.folder.name, str(self.processes.index(process)), "errors")
            raise SystemExit(f"MJX stopped:\n{errors.read_text()[-2000:]}")
        return line

    def run(self) -> None:
        for process in self.processes:
            process.stdin.write("\n")
            process.stdin.flush()
        for process in self.processes:
            self._answer(process)

    def close(self) -> None:
        for process in self.processes:
            process.communicate()
        self.folder.cleanup()


# ---- what was solved -------------------------------------------------------------------------


@dataclass(frozen=True)
class Depth:
    """How well the ground holds up, of last states, measured alike for all engines."""

    touching: float  # mean number of points in or on the ground
    mean: float  # of the deepest point [m]
    worst: float  # of 95% of the members [m]
    sinking: float  # mean speed at which the fastest of the points in the ground goes deeper [m/s]


def depth(model: Model, q, qd) -> Depth:
    """Of states q (n, nq), qd (n, nv)."""

    def one(q, qd):
        kin = forward_kinematics(model, q, qd)
        contacts = find_contacts(model, kin)
        frame = contact_frame(model.topology, contacts.normal)
        normal = contact_jacobian(model, kin, contacts, frame[:, :1])[:, 0]
        inside = contacts.gap <= 0
        sinking = jnp.max(jnp.where(inside, -normal @ qd, 0.0), initial=0.0)
        return jnp.sum(inside), jnp.max(-contacts.gap, initial=0.0), sinking

    dtype = model.mass.dtype
    count, deep, sinking = jax.jit(jax.vmap(one))(jnp.asarray(q, dtype), jnp.asarray(qd, dtype))
    return Depth(
        touching=float(np.mean(count)),
        mean=float(np.mean(deep)),
        worst=float(np.quantile(deep, 0.95)),
        sinking=float(np.mean(sinking)),
    )


SOLVED_HEADER = ["engine", "contact slots", "pressing", "iterations", "held / weight"]
SOLVED_HEADER += ["in the ground", "deepest, mean [mm]", "deepest, 95% [mm]", "sinking [mm/s]"]


def solved_rows(task: Task, options) -> list[list[str]]:
    """The engines' contacts over a run of the first members."""
    model, top = task.model, task.model.topology
    weight = -float(model.gravity[2] * model.total_mass)

    def row(name, slots, pressing, iterations, lift, q, qd):
        found = depth(model, q, qd)
        cells = [name, str(slots), pressing, iterations, f"{lift / weight:.3f}"]
        cells += [f"{found.touching:.1f}"]
        cells += [f"{1e3 * x:.3g}" for x in (found.mean, found.worst, found.sinking)]
        return cells

    def ours(name, task):
        member = member_function(task, options.steps, (touching, lift, residual, dropped_contacts))
        run = fuse(member, ((0, 0), None))
        ran: Ran = jax.tree.map(np.asarray, run((task.state, task.offset), task.torques))
        means = {name: float(np.mean(value)) for name, value in ran.means.items()}
        least, most = task.config.sweeps, task.config.most_sweeps
        passes = f"{least} to {most}" if most > least else f"{least}"
        sweeps = f"{passes} sweeps, {1e3 * means['residual']:.2g} mm/s left"
        count = contact_slots(top).count
        slots = f"{min(count, task.config.contacts)} of {count}"
        if means["dropped_contacts"]:
            slots += f", {means['dropped_contacts']:.2g} left out"
        pressing = f"{means['touching']:.1f}"
        return row(name, slots, pressing, sweeps, means["lift"], ran.state.q, ran.state.qd)

    rows = [ours("fused", task), ours("XLA", for_xla(task, options))]
    theirs = Theirs(task, options.steps)
    theirs.run()
    solved, (qpos, qvel) = theirs.solved(), theirs.last()
    q_index, v_index = mjcf_q_index(top), mjcf_v_index(top)
    pressing, iterations = f"{solved.contacts:.1f}", f"{solved.iterations:.1f} Newton"
    rows.append(
        row(
            "MuJoCo C", "any", pressing, iterations, solved.lift, qpos[:, q_index], qvel[:, v_index]
        )
    )
    for name, setting in mjx_settings(options).items():
        mjx = Mjx(task, options.steps, options.mjx, setting)
        mjx.close()
        last, found = mjx.last, mjx.figures
        q, qd = last["qpos"][:, q_index], last["qvel"][:, v_index]
        lifted = float(np.mean(last["lift"]))
        rows.append(row(name, found["slots"], "-", found["iterations"], lifted, q, qd))
    return rows


def for_xla(task: Task, options) -> Task:
    """The task with the contacts that the XLA path solves for."""
    return replace(task, config=replace(task.config, contacts=options.xla_contacts))


def mjx_settings(options) -> dict[str, tuple[int, int]]:
    """Iterations, and those of a line search, of each MJX; 0 is its default."""
    if not options.mjx:
        return {}
    fewer = {mjx_name(n): (n, LINE_SEARCH) for n in options.mjx_iterations}
    return {"MJX": (0, 0), **fewer}


def mjx_name(iterations: int) -> str:
    return f"MJX, {iterations} iteration" + "s" * (iterations > 1)


# ---- speed -----------------------------------------------------------------------------------

SPEED_HEADER = ["batch", "engine", "steps/s", "us a step", "fused is", "compile [s]"]
SPEED_HEADER += ["operations a step", "kernels a step", "bytes a world"]


def speed_rows(task: Task, count: int, options) -> tuple[list[list[str]], list[dict]]:
    """A line for each engine at this size of the batch, and its figures."""
    batch, steps = task.batch, options.steps
    slow = batch <= options.slow
    fused = make_fused(task, steps)
    plain = make_fused(with_plain_sweeps(task), steps)
    runs = {"fused": fused.run, f"{PLAIN}fused": plain.run}
    figures = [
        figure("fused", fused.compile_seconds, f"{count}", "1 / all", kept_bytes(task)),
        figure(f"{PLAIN}fused", plain.compile_seconds, "-", "1 / all", kept_bytes(task)),
    ]
    xla = {}
    if slow:
        ours = for_xla(task, options)
        xla["XLA"] = make_xla(ours, steps, options.chunk)
        xla[f"{PLAIN}XLA"] = make_xla(with_plain_sweeps(ours), steps, options.chunk)
    for name, made in xla.items():
        runs |= {f"{name}, {how}": run for how, run in made.runs.items()}
    settings = mjx_settings(options) if slow else {}
    peers = {name: Mjx(task, steps, options.mjx, setting) for name, setting in settings.items()}
    runs |= {name: peer.run for name, peer in peers.items()}
    theirs = Theirs(task, steps) if batch <= options.mujoco else None
    if theirs:
        runs["MuJoCo C"] = theirs.run
    best = interleaved(runs, options.repeats, options.least)
    for name, made in xla.items():
        by = min((f"{name}, {how}" for how in made.runs), key=best.__getitem__)
        flops = f"{made.counts.flops / batch:.0f}"
        kernels = f"{made.counts.kernels:.0f}"
        figures.append(figure(by, made.compile_seconds, flops, kernels, made.bytes_each))
    for name, peer in peers.items():
        peer.close()
        found = peer.figures
        more = "over " if found["open_loops"] else ""
        flops = f"{more}{found['flops'] / -(-batch // len(peer.processes)):.0f}"
        kernels = f"{more}{found['kernels']:.0f}"
        figures.append(figure(name, found["compile"], flops, kernels, found["bytes_each"]))
    if theirs:
        size = 2 * 8 * theirs.initial.shape[1]
        figures.append(figure("MuJoCo C", None, "-", "-", size))
    rows = []
    for each in figures:
        each |= {"batch": batch, "speed": batch * steps / best[each["name"]]}
        each["latency"] = best[each["name"]] / steps
        rows.append(
            [
                str(batch),
                each["name"],
                si(each["speed"]),
                f"{1e6 * each['latency']:.4g}",
                f"{figures[0]['speed'] / each['speed']:.3g} x",
                "-" if each["compile"] is None else f"{each['compile']:.1f}",
                each["operations"],
                each["kernels"],
                f"{each['bytes']:.0f}",
            ]
        )
    return rows, figures


def figure(name: str, compile_seconds, operations: str, kernels: str, size: float) -> dict:
    return {
        "name": name,
        "compile": compile_seconds,
        "operations": operations,
        "kernels": kernels,
        "bytes": size,
    }


def kept_bytes(task: Task) -> float:
    """What a world of the fused path keeps in memory between calls: its state, in and out."""
    leaves = jax.tree.leaves((task.state, task.offset))
    return 2 * sum(leaf.nbytes for leaf in leaves) / task.batch


def verdicts(figures: list[dict]) -> list[str]:
    """How the figures stand to the goals."""

    def line(what: str, text: str, met: bool) -> str:
        return f"- {what}: {text}, {'met' if met else 'not met'}"

    def of(start: str, batch: int) -> list[dict]:
        return [f for f in figures if f["name"].startswith(start) and f["batch"] == batch]

    def ratios(start: str, peer: str) -> dict[int, float]:
        batches = sorted({f["batch"] for f in figures})
        return {
            b: of(start, b)[0]["speed"] / max(f["speed"] for f in of(peer, b))
            for b in batches
            if of(start, b) and of(peer, b)
        }

    def spread(found: dict[int, float]) -> str:
        return ", ".join(f"{ratio:.2g} at {batch}" for batch, ratio in found.items())

    lines = []
    for back_end in ("fused", "XLA"):
        times = {b: 1 / ratio for b, ratio in ratios(back_end, f"{PLAIN}{back_end}").items()}
        if times:
            lines.append(sweeps_verdict(back_end, times))
    if jax.default_backend() == "cpu":
        for what, goal in GOALS.items():
            names = what.split(" / ")
            found = ratios(*names)
            if found:
                best = [max(f["speed"] for f in figures if f["name"].startswith(n)) for n in names]
                ratio = best[0] / best[1]
                text = f"{ratio:.3g} with the best batch of each (goal {goal:g}); {spread(found)}"
                lines.append(line(what, text, ratio >= goal))
    else:
        best = max((f for f in figures if f["name"] == "fused"), key=lambda f: f["speed"])
        text = f"{si(best['speed'])} steps/s at batch {best['batch']} (goal {si(GOAL_GPU)})"
        lines.append(line("fused", text, best["speed"] >= GOAL_GPU))
        small = [f["latency"] for f in figures if f["name"] == "fused" and f["batch"] <= 4096]
        if small:
            text = f"{1e6 * max(small):.0f} us a step (goal {1e6 * GOAL_LATENCY:.0f})"
            lines.append(line("latency up to 4096", text, max(small) <= GOAL_LATENCY))
        text = f"{best['bytes']:.0f} bytes a world (goal {GOAL_BYTES:.0f})"
        lines.append(line("memory", text, best["bytes"] <= GOAL_BYTES))
        found = ratios("XLA", "MJX")
        if found:
            lines.append(line("XLA / MJX", f"{spread(found)} (goal 3)", min(found.values()) >= 3))
    shares = [
        of("XLA", b)[0]["compile"] / min(f["compile"] for f in of("MJX", b))
        for b in sorted({f["batch"] for f in figures})
        if of("XLA", b) and of("MJX", b)
    ]
    if shares:
        text = f"at most {max(shares):.2f} of MJX's (goal {GOAL_COMPILE:g})"
        lines.append(line("compile time of XLA", text, max(shares) <= GOAL_COMPILE))
    return lines


def solving_as_much(figures: list[dict], solved: list[list[str]]) -> list[str]:
    """XLA beside the fastest MJX that holds the bodies up as MJX does with its default."""
    held = {row[0]: float(row[SOLVED_HEADER.index("held / weight")]) for row in solved}
    if "MJX" not in held:
        return []
    names = [n for n in held if n.startswith("MJX") and abs(held[n] / held["MJX"] - 1) <= AS_MUCH]
    lines = []
    for batch in sorted({f["batch"] for f in figures}):
        here = {f["name"]: f["speed"] for f in figures if f["batch"] == batch}
        ours = [speed for name, speed in here.items() if name.startswith("XLA")]
        theirs = {name: here[name] for name in names if name in here}
        if ours and theirs:
            best = max(theirs, key=theirs.__getitem__)
            lines.append(f"{ours[0] / theirs[best]:.2g} at {batch} ({best})")
    what = f"held / weight within {AS_MUCH:.0%} of its default"
    return [f"- XLA / the fastest MJX with {what}: {', '.join(lines)}"] if lines else []


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "gpu"))
    parser.add_argument("--precision", choices=("float32", "float64"), default="float32")
    parser.add_argument("--batch", type=int, nargs="+", help="sizes of the batches")
    parser.add_argument("--steps", type=int, default=100, help="time steps a call")
    parser.add_argument("--chunk", type=int, default=64, help="members of a chunk, on each device")
    parser.add_argument("--repeats", type=int, default=5, help="the best of so many counts")
    parser.add_argument("--least", type=float, default=0.5, help="seconds of each repeat")
    parser.add_argument("--slow", type=int, default=1024, help="the largest batch for XLA and MJX")
    parser.add_argument("--mujoco", type=int, default=4096, help="the same for MuJoCo C")
    parser.add_argument("--contacts", type=int, default=CONTACTS, help="places for them, fused")
    parser.add_argument(
        "--xla-contacts", type=int, default=XLA_CONTACTS, help="the nearest, of the XLA path"
    )
    parser.add_argument("--mjx", metavar="PYTHON", help="the Python of an environment with MJX")
    parser.add_argument(
        "--mjx-iterations", type=int, nargs="+", default=[1], help="beside MJX's default"
    )
    parser.add_argument("--record", action="store_true", help="append to benchmarks/RESULTS.md")
    parser.add_argument("--quick", action="store_true", help="two small batches, few steps")
    options = parser.parse_args(words)
    options.words = words
    if options.quick:
        options.batch = options.batch or [1, 4]
        options.steps, options.repeats, options.least = 4, 1, 0.0
    return options


def main(words: list[str]) -> str:
    """Measure, print progress and the tables; returns the text for RESULTS.md."""
    options = parse(words)
    os.environ["DRJIT_CACHE_DIR"] = tempfile.mkdtemp()  # or compile times would be those of a cache
    with session(options.device, options.precision, cache=False, cpu_devices=cores()):
        import mujoco

        batches = options.batch or BATCHES
        print(f"{machine()}; batches {batches}", flush=True)
        largest = humanoid_task(max(batches), options.contacts, 0 if options.quick else 500)
        count, top = operations(largest, options.steps), peak()
        solved = solved_rows(largest.first(min(POOL, max(batches))), options)
        print(table(SOLVED_HEADER, solved), flush=True)
        rows, figures = [], []
        for batch in batches:
            more, found = speed_rows(largest.first(batch), count, options)
            rows += more
            figures += found
            print(table(SPEED_HEADER, more), flush=True)
        best = max(f["speed"] for f in figures if f["name"] == "fused")
        lines = [
            f"- {count} operations a fused step, x y + z counted as one: at the best batch "
            f"{best * count / 1e9:.0f} G a second; a kernel with nothing but these does "
            f"{top / 1e9:.0f} G"
        ]
        precision = "float64" if jax.config.jax_enable_x64 else "float32"
        head = [
            f"## Throughput, {today()}, {machine()}",
            f"commit {commit()}; {versions(jax, mujoco)}; ours in {precision}, MuJoCo C in float64",
            f"`python benchmarks/throughput.py {shlex.join(options.words)}`".replace(" `", "`"),
            table(SPEED_HEADER, rows),
            table(SOLVED_HEADER, solved),
            "\n".join([*lines, *verdicts(figures), *solving_as_much(figures, solved)]),
        ]
    return publish("\n\n".join(head) + "\n", options.record)


if __name__ == "__main__":
    main(sys.argv[1:])
