"""What XLA calls: found by name, safe among threads and caches, on every device; the driver."""

import _ctypes
import gc
import shutil
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from jaxsim.fused import cuda, fuse, handler, kept
from jaxsim.fused.launch import Kernel

ROOT = Path(__file__).resolve().parents[2]
PLATFORM = {"gpu": "cuda"}.get(jax.default_backend(), "cpu")
X = np.random.default_rng(0).normal(size=(6, 3)).astype("float32")


def digest(fn, *args) -> str:
    return Kernel(jax.make_jaxpr(fn)(*args)).digest


def looped(factor=0.5, rounds=70, table=(1.0, 2.0)):
    def fn(x, i):
        body = lambda c, r: (factor * c + jnp.sin(r), c * r)  # noqa: E731
        end, rows = lax.scan(body, x, jnp.tile(x, (rounds, 1)))
        picked = rows[i] * jnp.array(table * 20)[i]
        return lax.cond(i > 2, lambda x: jnp.cumsum(x * end), lambda x: x - 1, picked)

    return fn


def test_the_same_function_has_the_same_name_and_another_has_another():
    x, i = X[0], 1
    known = digest(looped(), x, i)
    assert digest(looped(), x, i) == known
    others = [
        digest(looped(factor=np.nextafter(np.float32(0.5), np.float32(1))), x, i),
        digest(looped(rounds=71), x, i),
        digest(looped(table=(1.0, 2.5)), x, i),
        digest(looped(), x.astype("float16").astype("float32")[:2], i),
        digest(lambda x, i: looped()(x, i) * 1, x, i),
    ]
    assert len({known, *others[:4]}) == 5
    assert others[4] == known  # a product with one is nothing


def test_a_name_is_the_same_in_every_process():
    code = """
import jax, numpy as np
from tests.fused.test_handler import looped, digest
print(digest(looped(), np.ones(3, np.float32), 1))
"""
    done = [
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=120,
            env={"PYTHONHASHSEED": str(seed), "PATH": "", "JAX_PLATFORMS": "cpu"},
        )
        for seed in (1, 2)
    ]
    assert done[0].stdout and not done[0].returncode, done[0].stderr
    assert done[0].stdout == done[1].stdout


def test_a_program_whose_kernel_is_elsewhere_says_so():
    lost = jax.ffi.ffi_call(handler.target(PLATFORM), jax.ShapeDtypeStruct((3,), jnp.float32))
    with pytest.raises(jax.errors.JaxRuntimeError, match="Trace it here, or export it"):
        jax.block_until_ready(lost(X[0], kernel="0123 1 1"))
    with pytest.raises(jax.errors.JaxRuntimeError, match="without its name"):
        jax.block_until_ready(lost(X[0], kernel=np.int32(3)))


def test_kernels_live_as_long_as_the_programs_that_call_them():
    gc.collect()
    before = set(handler.kernels)
    run = jax.jit(fuse(lambda x: jnp.sin(x) * 1.25 + 3)).lower(X).compile()
    own = set(handler.kernels) - before
    kept._kept.clear()  # which would hold it too
    gc.collect()
    assert own and own <= set(handler.kernels)
    np.testing.assert_allclose(run(X)[0], np.sin(X[0]) * 1.25 + 3, rtol=1e-6)


def test_an_error_within_a_call_is_an_error_of_jax(monkeypatch):
    def fails(*args):
        raise RuntimeError("no more of it")

    run = jax.jit(fuse(lambda x: x * 0.75))
    monkeypatch.setattr(Kernel, {"cpu": "on_host", "cuda": "on_gpu"}[PLATFORM], fails)
    with pytest.raises(jax.errors.JaxRuntimeError, match="RuntimeError: no more of it"):
        jax.block_until_ready(run(X))


def test_a_call_may_wait_for_what_another_makes():
    """Compiled code that still runs wants the lock that the caller must not hold while it waits."""
    slow = fuse(lambda x: lax.fori_loop(0, 2_000, lambda _, y: jnp.cos(y), x))
    compiled, after = jax.jit(slow), fuse(lambda x: x + 1)
    x = jnp.ones((4096, 4))
    for _ in range(5):
        end = after(compiled(compiled(x)))
    np.testing.assert_allclose(end, 1.7390851, rtol=1e-6)


def test_on_two_devices():
    code = """
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from jaxsim.fused import fuse
mesh = Mesh(np.array(jax.devices()), ("batch",))
x = np.arange(24, dtype=np.float32).reshape(8, 3)
run = fuse(lambda x, k: (x * k, x.sum()), (0, None))
wanted = x * 2, x.sum(1)
each = jax.jit(jax.shard_map(run, mesh=mesh, in_specs=(P("batch"), P()), out_specs=P("batch")))
spread = jax.device_put(x, NamedSharding(mesh, P("batch")))
for out in (each(x, np.float32(2)), jax.jit(run)(spread, np.float32(2)), run(spread, 2.0)):
    for got, y in zip(out, wanted):
        np.testing.assert_array_equal(got, y)
second = jax.device_put(x, jax.devices()[1])
print(len(jax.devices()), jax.jit(run)(second, 2.0)[0].devices())
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        env={
            "JAX_PLATFORMS": "cpu",
            "XLA_FLAGS": "--xla_force_host_platform_device_count=2",
            "HOME": str(Path.home()),
        },
    )
    assert done.stdout.strip() == "2 {CpuDevice(id=1)}", done.stderr


def test_programs_that_xla_keeps_on_disk_find_their_kernel(tmp_path):
    code = f"""
import sys, jax, numpy as np
jax.config.update("jax_compilation_cache_dir", {str(tmp_path)!r})
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
from jaxsim.fused import fuse
k = float(sys.argv[1])
print(jax.jit(fuse(lambda x: x * k))(np.ones((2, 3), np.float32))[0, 0])
"""
    for k, files in (("2", 1), ("3", 2), ("2", 2)):
        done = subprocess.run(
            [sys.executable, "-c", code, k], cwd=ROOT, capture_output=True, text=True, timeout=120
        )
        assert done.stdout == f"{float(k)}\n", done.stderr
        kept = [p for p in tmp_path.iterdir() if p.name.startswith("jit__lambda")]
        assert len([p for p in kept if p.name.endswith("-cache")]) == files


@pytest.mark.skipif(sys.platform != "linux", reason="for the loader of Linux")
def test_the_driver_is_found_where_this_process_has_loaded_it(tmp_path):
    """As JAX does, from a folder that Dr.Jit does not look into; else by the loader's settings."""
    path = tmp_path / "elsewhere" / cuda.DRIVER
    path.parent.mkdir()
    shutil.copy(_ctypes.__file__, path)  # some library
    code = """
import ctypes, os, sys
from jaxsim.fused import cuda
print(cuda.find_driver(False))
if sys.argv[1]:
    ctypes.CDLL(sys.argv[1])
cuda.name_driver(load=not sys.argv[1])
print(os.environ.get(cuda.SETTING))
"""
    for loaded, env in ((str(path), {}), ("", {"LD_LIBRARY_PATH": str(path.parent)})):
        done = subprocess.run(
            [sys.executable, "-c", code, loaded],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
            env=env,
        )
        assert done.stdout.split() == ["None", str(path)], done.stderr
