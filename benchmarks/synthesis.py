"""Frames per second of the synthesizer, what a frame is made of, and the seconds to compile it.

    python benchmarks/synthesis.py             one character and batches, fused and by XLA
    python benchmarks/synthesis.py --window 5 --backend xla --batch 1    five steps at once
    python benchmarks/synthesis.py --scene climb --backend xla --batch 32    one who climbs instead
    python benchmarks/synthesis.py --scene holding_hands --backend xla --batch 32    two who do
    python benchmarks/synthesis.py --study     the two forms: accuracy and cost by the time step
    python benchmarks/synthesis.py --record    and append the tables to benchmarks/RESULTS.md
    python benchmarks/synthesis.py --quick     seconds, to see that it runs

The 37-DOF human stands, each member of a batch pushed for 0.2 s in its own direction by up to
150 N, so that some step, without torque limits and within them. Who climbs is not pushed; of two
who hold hands it is the child, and a frame is one of both. Fused kernels of a climber and of two
take ten minutes to compile. See benchmarks/README.md.
"""

import argparse
import os
import shlex
import sys
import tempfile
import time
from dataclasses import replace
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec

from benchmarks._machine import commit, machine, publish, table, today, versions
from benchmarks._synthesis import SCENES, Scene, around
from benchmarks._synthesis_study import study
from jaxsim.fused import fuse
from jaxsim.fused.fuse import BACKENDS
from jaxsim.solvers import qp
from jaxsim.synthesis.config import SynthesisConfig
from optimize.session import cores, session

LIMITS = ("with", "without")  # torque limits


def batched(run, chunk: int | None = None):
    """One character's function for a batch, an equal part on each device, there so many at once."""
    devices = jax.devices()

    def members(*given):
        return (
            jax.lax.map(lambda one: run(*one), given, batch_size=chunk)
            if chunk
            else (jax.vmap(run)(*given))
        )

    def of(*given):
        if jax.tree.leaves(given)[0].shape[0] % len(devices):
            return members(*given)
        spec = PartitionSpec("batch")
        mesh = Mesh(np.array(devices), ("batch",))
        return jax.shard_map(members, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)(
            *given
        )

    return of


def compiled(run, *given):
    """The program, and how many seconds of the processor it took to make."""
    begun = time.process_time()
    program = jax.jit(run).lower(*given).compile()
    return program, time.process_time() - begun


def kernel(run, given, repeats: int):
    """The same of a kernel, whose first call makes it."""
    program = fuse(run)
    begun = time.process_time()
    jax.block_until_ready(program(*given))
    first = time.process_time() - begun
    return program, first - seconds(program, given, repeats)[1]


def seconds(program, given, repeats: int) -> np.ndarray:
    """(2,) of the fastest call: by the clock, and of all cores for this process alone."""
    best = np.full(2, np.inf)
    for _ in range(repeats):
        begun = np.array([time.perf_counter(), time.process_time()])
        jax.block_until_ready(program(*given))
        best = np.minimum(best, [time.perf_counter(), time.process_time()] - begun)
    return best


def frames(scene: Scene, backend: str, batch: int, options) -> list[str]:
    """A row of the table: what it takes a batch, in microseconds of each frame."""
    count = options.frames

    def run(carry, pushes):
        def step(carry, _):
            carry, info = scene.step(model, carry, pushes)
            return carry, (info.status, info.passes, info.iterations)

        return jax.lax.scan(step, carry, None, length=count)

    model, first = scene.human[0], scene.begin()
    pushes = scene.pushes(around(batch, scene.strongest))
    carry = jax.tree.map(lambda x: jnp.broadcast_to(x, (batch, *x.shape)), first)
    if backend == "fused":
        whole, making = kernel(run, (carry, pushes), options.repeats)
    else:
        whole, making = compiled(batched(run, options.chunk), carry, pushes)
    total, busy = seconds(whole, (carry, pushes), options.repeats) / count
    _, (status, passes, iterations) = whole(carry, pushes)
    status, told = np.asarray(status), ["", "", ""]
    if scene.config.window == 1 and scene.characters == 1:
        parts = of_kernel if backend == "fused" else of_xla
        each = parts(scene, (carry, pushes), busy, options.repeats) * 1e6 / batch
        told = [f"{each[0]:.0f}", f"{max(each[1] - each[0], 0.0):.0f}", f"{each[2]:.0f}"]
    return [
        str(batch),
        backend,
        "with" if scene.config.torque_limits else "without",
        str(scene.config.window),
        f"{batch / total:.0f}",
        f"{scene.characters * batch / total:.0f}",
        f"{1e6 * busy / batch:.0f}",
        *told,
        f"{making:.0f}",
        f"{np.mean(passes):.2f}",
        f"{np.mean(iterations):.1f} / {np.max(iterations)}",
        f"{(status != qp.SOLVED).sum()} of {status.size}",
    ]


def before_the_solver(scene: Scene):
    """What is timed apart: to look, and to do so and set up the problem."""
    model, scheme, _ = scene.human
    return (
        lambda carry, pushes: scheme.observe(model, carry[0]),
        lambda carry, pushes: scene.problem(model, carry, pushes),
    )


def of_xla(scene: Scene, given, _, repeats: int) -> np.ndarray:
    """(3,) seconds of all cores: to look, to do so and set up the problem, to solve it anew."""
    found = []
    for part in before_the_solver(scene):
        program, _ = compiled(batched(part), *given)
        found.append(seconds(program, given, repeats)[1])
    problem = program(*given)
    solve, _ = compiled(
        batched(lambda problem: qp.solve(problem, iterations=scene.config.iterations)), problem
    )
    return np.array([*found, seconds(solve, (problem,), repeats)[1]])


def of_kernel(scene: Scene, given, busy: float, repeats: int) -> np.ndarray:
    """The same, in a loop of so many rounds that the call does not count, and with what is set up
    added up, so that nothing is written; the rest of a frame, which takes ``busy``, is solving."""
    found, rounds = [], 200
    for part in before_the_solver(scene):

        def looped(carry, pushes, part=part):
            def again(total, _):  # a pose that depends on the round, so that each is computed
                state = replace(carry[0], q=carry[0].q + 1e-12 * total)
                made = part((state, carry[1]), pushes)
                return sum(jnp.sum(x, dtype=total.dtype) for x in jax.tree.leaves(made)), None

            return jax.lax.scan(again, carry[0].time, None, length=rounds)[0]

        program = fuse(looped)
        program(*given)
        found.append(seconds(program, given, repeats)[1] / rounds)
    return np.array([*found, busy - found[1]])


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "gpu"))
    parser.add_argument("--precision", choices=("float32", "float64"), default="float32")
    parser.add_argument("--scene", choices=tuple(SCENES), default="balance")
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 16, 256, 4096])
    parser.add_argument("--backend", nargs="+", choices=BACKENDS, default=["fused", "xla"])
    parser.add_argument("--limits", nargs="+", choices=LIMITS, default=["without", "with"])
    parser.add_argument(
        "--window", type=int, nargs="+", default=[1], help="steps optimised at once"
    )
    parser.add_argument("--chunk", type=int, help="of XLA: so many at once on a core; or all")
    parser.add_argument("--frames", type=int, default=50, help="of each run")
    parser.add_argument("--repeats", type=int, default=3, help="the best of so many")
    parser.add_argument("--study", action="store_true", help="the two forms instead")
    parser.add_argument("--record", action="store_true", help="append to benchmarks/RESULTS.md")
    parser.add_argument("--quick", action="store_true", help="few frames, one character")
    options = parser.parse_args(words)
    options.words = words
    if options.quick:
        options.batch, options.frames, options.repeats, options.backend = [1], 2, 1, ["xla"]
    return options


HEADER = [
    "batch",
    "backend",
    "torque limits",
    "window",
    "frames/s",
    "character-frames/s",
    "frame, CPU [us]",
    "dynamics [us]",
    "assembly [us]",
    "solve [us]",
    "compile, CPU [s]",
    "passes",
    "iterations, mean / max",
    "failed",
]


def main(words: list[str]) -> str:
    """Measure, print and return the tables."""
    options = parse(words)
    precision = "float64" if options.study else options.precision
    os.environ["DRJIT_CACHE_DIR"] = tempfile.mkdtemp()  # that of others hides what compiling takes
    with session(options.device, precision, cache=False, cpu_devices=cores()):
        load = os.getloadavg()[0]
        if options.study:
            title, body = "Synthesis, two forms", study(options.quick)
        else:
            title, rows = "Synthesis", []
            for batch in options.batch:
                for backend, limits, window in product(
                    options.backend, options.limits, options.window
                ):
                    config = SynthesisConfig(torque_limits=limits == "with", window=window)
                    rows.append(frames(SCENES[options.scene](config), backend, batch, options))
                    print(*rows[-1], flush=True)
            body = table(HEADER, rows)
        text = "\n\n".join(
            [
                f"## {title}, {today()}, {machine()}",
                f"commit {commit()}; {versions(jax)}; {precision}; load of the machine {load:.1f} "
                f"at the start, {os.getloadavg()[0]:.1f} at the end",
                f"`{shlex.join(['python', 'benchmarks/synthesis.py', *options.words])}`",
                body + "\n",
            ]
        )
    return publish(text, options.record)


if __name__ == "__main__":
    main(sys.argv[1:])
