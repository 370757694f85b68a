"""MJX in a process, and if need be an environment, of its own: it needs its own release of MuJoCo.

Run by ``throughput.py``; ``Mjx`` there speaks to it by lines of JSON. Imports nothing of jaxsim.
"""

import json
import os
import sys
import time
from functools import partial
from importlib.metadata import version
from pathlib import Path

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from mujoco import mjx

from benchmarks._hlo import count


def rollout(model, steps: int, table, data, offset):
    """One world: last qpos and qvel, mean vertical force of the ground."""

    def one(carry, k):
        data, lift = carry
        torque = table[(offset + k) % table.shape[0]]
        data = mjx.step(model, data.replace(qfrc_applied=torque))
        lift = lift + data.qfrc_constraint[2]
        return (data, lift), None

    (data, lift), _ = jax.lax.scan(one, (data, 0.0), jnp.arange(steps))
    return data.qpos, data.qvel, lift / steps


def main(folder: Path, options: dict) -> None:
    task = np.load(folder / "task.npz")
    mj = mujoco.MjModel.from_xml_path(str(folder / "model.xml"))
    if options["iterations"]:
        mj.opt.iterations, mj.opt.ls_iterations = options["iterations"], options["line_search"]
    model, empty = mjx.put_model(mj), mjx.make_data(mj)
    steps, table = options["steps"], jnp.asarray(task["table"], jnp.float32)

    def world(qpos, qvel, offset):
        return rollout(model, steps, table, empty.replace(qpos=qpos, qvel=qvel), offset)

    given = [jnp.asarray(task[k], jnp.float32) for k in ("qpos", "qvel")]
    given.append(jnp.asarray(task["offset"], jnp.int32))
    begun = time.perf_counter()
    program = jax.jit(jax.vmap(world)).lower(*given).compile()
    seconds = time.perf_counter() - begun
    run = partial(program, *given)
    out = jax.block_until_ready(run())
    np.savez(folder / "out.npz", qpos=out[0], qvel=out[1], lift=out[2])
    counts, memory = count(program.as_text()).per(steps), program.memory_analysis()
    used = memory.temp_size_in_bytes + memory.output_size_in_bytes + memory.argument_size_in_bytes
    say = {
        "version": version("mujoco-mjx"),
        "jax": jax.__version__,
        "compile": seconds,
        "kernels": counts.kernels,
        "flops": counts.flops,
        "open_loops": counts.open_loops,
        "bytes_each": used / len(task["offset"]),
        "slots": int(empty._impl.contact.dist.shape[0]),
        "iterations": f"at most {mj.opt.iterations} Newton",
    }
    print(json.dumps(say), flush=True)
    if options["core"] is not None:
        for thread in Path("/proc/self/task").iterdir():
            os.sched_setaffinity(int(thread.name), {options["core"]})
    for _ in sys.stdin:
        jax.block_until_ready(run())
        print("{}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
