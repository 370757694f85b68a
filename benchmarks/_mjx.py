"""MJX in a process, and if need be an environment, of its own: it needs its own release of MuJoCo.

Run by ``throughput.py``; ``Mjx`` there speaks to it by lines of JSON. Imports nothing of jaxsim.
"""

import json
import sys
import time
from functools import partial
from importlib.metadata import version
from pathlib import Path

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from jax.sharding import Mesh, PartitionSpec
from mujoco import mjx

from benchmarks._hlo import count


def rollout(model, steps: int, table, data, offset):
    """One world: last qpos and qvel, mean solver iterations and mean vertical force."""

    def one(carry, k):
        data, iterations, lift = carry
        torque = table[(offset + k) % table.shape[0]]
        data = mjx.step(model, data.replace(qfrc_applied=torque))
        lift = lift + data.qfrc_constraint[2]
        return (data, iterations + data._impl.solver_niter, lift), None

    (data, iterations, lift), _ = jax.lax.scan(one, (data, 0, 0.0), jnp.arange(steps))
    return data.qpos, data.qvel, iterations / steps, lift / steps


def main(folder: Path, options: dict) -> None:
    jax.config.update("jax_num_cpu_devices", options["devices"])
    task = np.load(folder / "task.npz")
    mj = mujoco.MjModel.from_xml_path(str(folder / "model.xml"))
    if options["iterations"]:
        mj.opt.iterations, mj.opt.ls_iterations = options["iterations"], options["line_search"]
    model, empty = mjx.put_model(mj), mjx.make_data(mj)
    steps, table = options["steps"], jnp.asarray(task["table"], jnp.float32)

    def world(qpos, qvel, offset):
        return rollout(model, steps, table, empty.replace(qpos=qpos, qvel=qvel), offset)

    function = jax.vmap(world)
    devices = jax.devices() if len(task["offset"]) % len(jax.devices()) == 0 else jax.devices()[:1]
    if len(devices) > 1:
        batch = PartitionSpec("worlds")
        mesh = Mesh(np.array(devices), ("worlds",))
        function = jax.shard_map(
            function, mesh=mesh, in_specs=batch, out_specs=batch, check_vma=False
        )
    given = [jnp.asarray(task[k], jnp.float32) for k in ("qpos", "qvel")]
    given.append(jnp.asarray(task["offset"], jnp.int32))
    begun = time.perf_counter()
    program = jax.jit(function).lower(*given).compile()
    seconds = time.perf_counter() - begun
    run = partial(program, *given)
    out = jax.block_until_ready(run())
    np.savez(folder / "out.npz", qpos=out[0], qvel=out[1])
    counts, memory = count(program.as_text()).per(steps), program.memory_analysis()
    used = memory.temp_size_in_bytes + memory.output_size_in_bytes + memory.argument_size_in_bytes
    say = {
        "version": version("mujoco-mjx"),
        "jax": jax.__version__,
        "compile": seconds,
        "kernels": counts.kernels,
        "flops": counts.flops,
        "open_loops": counts.open_loops,
        "bytes_each": used * len(devices) / len(task["offset"]),
        "slots": int(empty._impl.contact.dist.shape[0]),
        "iterations": float(np.mean(out[2])),
        "lift": float(np.mean(out[3])),
    }
    print(json.dumps(say), flush=True)
    for _ in sys.stdin:
        jax.block_until_ready(run())
        print("{}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
