"""The parts of ``gpu.py``: each runs in a process of its own and says a line of JSON for each row.

python -m benchmarks._gpu_parts NAME OPTIONS        options as JSON
"""

import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib import metadata
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from jaxsim.fused import choose_backend, fuse

SEEN = 33  # the batch whose results are compared: members that fill no warp
LEAST = 0.3  # seconds of timed calls


def versions(options: dict) -> Iterator[dict]:
    """What the machine and the libraries are, and whether kernels run there."""
    device = jax.devices()[0]
    yield {"what": "device", "is": f"{len(jax.devices())} x {device.device_kind}"}
    yield {"what": "fused functions run as", "is": choose_backend("fused")}
    for name in ("jax", "jaxlib", "drjit", "numpy", "mujoco", "mujoco-mjx", "mujoco-warp"):
        try:
            yield {"what": name, "is": metadata.version(name)}
        except metadata.PackageNotFoundError:
            yield {"what": name, "is": "not installed"}
    yield {"what": "memory", "is": _memory()}
    if device.platform == "gpu":
        import drjit.cuda  # noqa: F401

        from jaxsim.fused import cuda

        yield {"what": "driver", "is": str(cuda.find_driver(load=False))}
        yield {"what": "threads at once", "is": str(cuda.threads(0))}


def accuracy(options: dict) -> Iterator[dict]:
    """Largest errors of elementary functions in float32, in units of the last place."""
    rng = np.random.default_rng(0)
    small, usual = 10 ** rng.uniform(-6, -1, 50_000), rng.uniform(-8, 8, 50_000)
    positive = 10 ** rng.uniform(-30, 30, 50_000)
    for name, function, exact, points in (
        ("sin", jnp.sin, np.sin, (small, usual)),
        ("cos", jnp.cos, np.cos, (small, usual)),
        ("exp", jnp.exp, np.exp, (small, usual)),
        ("log", jnp.log, np.log, (positive,)),
        ("tanh", jnp.tanh, np.tanh, (small, usual)),
        ("expm1", jnp.expm1, np.expm1, (small, usual)),
        ("log1p", jnp.log1p, np.log1p, (small,)),
        ("sqrt", jnp.sqrt, np.sqrt, (positive,)),
        ("divide", lambda x: 1 / x, lambda x: 1 / x, (small, positive)),
    ):
        row = {"function": name}
        for backend, run in (("fused", fuse(function)), ("xla", jax.jit(function))):
            worst = 0.0
            for x in points:
                x = x.astype("float32")
                wanted = exact(x.astype(float))
                place = np.spacing(np.abs(wanted).astype("float32"))
                worst = max(
                    worst, float(np.max(np.abs(np.asarray(run(x), float) - wanted) / place))
                )
            row[f"{backend} [last places]"] = f"{worst:.2f}"
        yield row


def _planar(options: dict, batch: int):
    from controllers.pose.pd import PoseController
    from jaxsim.characters.planar_human import planar_human, start
    from jaxsim.simulation.rollout import rollout
    from jaxsim.simulation.step import TimeStepping

    model = planar_human()
    standing = start(model, "standing")
    steps = options["steps"]

    def member(q):
        begin = standing.replace(q=q)
        config = TimeStepping(dt=0.001)
        return rollout(
            model, PoseController(standing.q), begin, config, steps, backend="xla"
        ).state.q

    noise = np.random.default_rng(0).normal(size=(batch, standing.q.size))
    return member, (jnp.asarray(standing.q + 0.05 * noise, standing.q.dtype),), steps


def _human(options: dict, batch: int):
    from benchmarks._engines import member_function
    from benchmarks.throughput import humanoid_task

    steps = max(options["steps"] // 5, 2)
    task = humanoid_task(batch, contacts=16, settle=0)
    member = member_function(task, steps)
    return (
        lambda state, offset: member((state, offset), jnp.asarray(task.torques)).state.q,
        (jax.tree.map(jnp.asarray, task.state), jnp.asarray(task.offset)),
        steps,
    )


def _qp(options: dict, batch: int):
    from benchmarks.qp import SHAPES, random_problems
    from jaxsim.solvers import qp

    made = random_problems(min(batch, 64), **SHAPES["tiny" if options["quick"] else "free"])
    fields = {
        name: jnp.asarray(np.resize(x, (batch, *x.shape[1:])), jnp.float32)
        for name, x in made.items()
    }
    return lambda problem: qp.solve(problem).x, (qp.QuadraticProgram(**fields),), 1


def _synthesis(options: dict, batch: int):
    from benchmarks._synthesis import Scene, around
    from jaxsim.synthesis.config import SynthesisConfig

    scene, frames = Scene(SynthesisConfig()), max(options["steps"] // 10, 2)
    model, first = scene.human[0], scene.begin()

    def run(carry, pushes):
        carry = jax.lax.scan(
            lambda carry, _: (scene.step(model, carry, pushes)[0], None), carry, None, frames
        )[0]
        return carry[0].q

    carry = jax.tree.map(lambda x: jnp.broadcast_to(x, (batch, *x.shape)), first)
    return run, (carry, scene.pushes(around(batch, 150.0))), frames


WORK = {  # what a call computes, by name, and what a second is counted in
    "planar": (_planar, "steps"),
    "gradient": (_planar, "steps"),
    "human": (_human, "steps"),
    "qp": (_qp, "problems"),
    "synthesis": (_synthesis, "frames"),
}


def speed(options: dict) -> Iterator[dict]:
    """A row for each batch of one kind of work, by one back end."""
    name, backend = options["work"], options["backend"]
    make, unit = WORK[name]
    for batch in options["batch"]:
        member, given, steps = make(options, batch)
        program = _program(member, given, backend, name == "gradient")
        begun = time.perf_counter()
        out = jax.block_until_ready(program(*given))
        first = time.perf_counter() - begun
        again = _fastest(lambda: program(*given))  # noqa: B023
        row = {"work": name, "backend": backend, "batch": batch}
        row |= {"compile [s]": f"{max(first - again, 0):.1f}", "call [ms]": f"{1e3 * again:.3g}"}
        row["a second"] = f"{batch * steps / again:.4g} {unit}"
        row["finite"] = str(all(bool(jnp.all(jnp.isfinite(x))) for x in jax.tree.leaves(out)))
        if backend == "fused" and name != "gradient":
            jitted = jax.jit(fuse(member))
            jax.block_until_ready(jitted(*given))
            row["in jit [ms]"] = f"{1e3 * _fastest(lambda: jitted(*given)):.3g}"  # noqa: B023
        row["memory"] = _memory()
        if batch == min(SEEN, max(options["batch"])):
            path = Path(options["folder"], f"{name}-{backend}.npy")
            np.save(path, np.asarray(jax.tree.leaves(out)[0], float))
        yield row


def _program(member: Callable, given, backend: str, gradient: bool) -> Callable:
    if not gradient:
        return fuse(member) if backend == "fused" else jax.jit(jax.vmap(member))
    batched = fuse(member) if backend == "fused" else jax.vmap(member)
    slope = jax.grad(lambda q: jnp.sum(batched(q) ** 2))
    return slope if backend == "fused" else jax.jit(slope)


def _fastest(run: Callable) -> float:
    """Seconds of the fastest of some calls."""
    best, begun = math.inf, time.perf_counter()
    while best == math.inf or time.perf_counter() - begun < LEAST:
        start = time.perf_counter()
        jax.block_until_ready(run())
        best = min(best, time.perf_counter() - start)
    return best


def _memory() -> str:
    """What JAX has used at most, and what is free beside it, of the first device."""
    stats = jax.devices()[0].memory_stats() or {}
    said = [f"JAX {stats['peak_bytes_in_use'] / 2**20:.0f} MiB"] if stats else []
    if jax.devices()[0].platform == "gpu" and "drjit" in sys.modules:
        from jaxsim.fused import cuda

        said.append(f"free {cuda.free_bytes() / 2**20:.0f} MiB")
    return ", ".join(said) or "-"


def mjx(options: dict) -> Iterator[dict]:
    """MJX on the 37-freedom human, at rest over the ground."""
    import mujoco
    from mujoco import mjx as theirs

    from benchmarks._mjx import rollout

    model = mujoco.MjModel.from_xml_string(_mjcf())
    model.opt.iterations, model.opt.ls_iterations = 1, 4
    on_device, empty = theirs.put_model(model), theirs.make_data(model)
    steps = max(options["steps"] // 5, 2)
    table = jnp.zeros((1009, model.nv), jnp.float32)
    for batch in options["batch"]:
        qpos = jnp.broadcast_to(jnp.asarray(model.qpos0, jnp.float32), (batch, model.nq))

        def world(qpos):
            return rollout(on_device, steps, table, empty.replace(qpos=qpos), 0)

        program = jax.jit(jax.vmap(world))
        yield _their_row("MJX, 1 iteration", batch, steps, partial(program, qpos))


def warp(options: dict) -> Iterator[dict]:
    """mujoco-warp on the same."""
    import mujoco
    import mujoco_warp as theirs
    import warp as wp

    model = mujoco.MjModel.from_xml_string(_mjcf())
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    steps = max(options["steps"] // 5, 2)
    for batch in options["batch"]:
        on_device, worlds = theirs.put_model(model), theirs.put_data(model, data, nworld=batch)
        theirs.step(on_device, worlds)  # compiles
        with wp.ScopedCapture() as capture:
            theirs.step(on_device, worlds)

        def run():
            for _ in range(steps):
                wp.capture_launch(capture.graph)
            wp.synchronize()

        yield _their_row("mujoco-warp", batch, steps, run)


def _mjcf() -> str:
    from jaxsim import articulated_human
    from jaxsim.io.mjcf import to_mjcf

    return to_mjcf(articulated_human())


def _their_row(name: str, batch: int, steps: int, run: Callable) -> dict:
    begun = time.perf_counter()
    jax.block_until_ready(run())
    first = time.perf_counter() - begun
    again = _fastest(run)
    return {
        "work": "human",
        "backend": name,
        "batch": batch,
        "compile [s]": f"{first - again:.1f}",
        "call [ms]": f"{1e3 * again:.3g}",
        "a second": f"{batch * steps / again:.4g} steps",
        "memory": _memory(),
    }


PARTS = {f.__name__: f for f in (versions, accuracy, speed, mjx, warp)}


def main(name: str, options: dict) -> None:
    for row in PARTS[name](options):
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
