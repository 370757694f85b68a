"""Kernels for CUDA, emulated: the order among streams, memory, accuracy, what the PTX has."""

import re
import subprocess
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from jaxsim.fused import FuseError, call, cuda, fuse, launch
from jaxsim.fused.launch import Kernel
from jaxsim.fused.llvm import prepare
from tests.cuda_emulation import kit
from tests.fused.agree import agree, by_xla, same

FOLDER = kit.active()
if FOLDER is None:
    pytest.skip("run by make test-cuda-emulated", allow_module_level=True)

X = np.random.default_rng(0).normal(size=(5, 3)).astype("float32")
TINY = np.float32(np.finfo(np.float32).tiny)


def log() -> list[str]:
    return (FOLDER / "log").read_text().splitlines() if (FOLDER / "log").exists() else []


def kernels() -> dict[str, str]:
    """The PTX of all kernels so far; not of Dr.Jit's own, which are one file."""
    texts = {path.name: path.read_text() for path in sorted(FOLDER.glob("*.ptx"))}
    return {name: text for name, text in texts.items() if ".entry drjit_" in text}


def new_kernels(run) -> list[str]:
    """The PTX that a function leads to."""
    prepare("cuda")  # which tries a kernel of its own
    before = kernels()
    jax.block_until_ready(run())
    return [text for name, text in kernels().items() if name not in before]


@pytest.fixture
def free(monkeypatch):
    """Sets how much device memory is free; none was granted before."""
    monkeypatch.setattr(cuda, "_granted", {})
    return lambda bytes_: monkeypatch.setenv("CUDA_EMULATION_FREE", str(bytes_))


def test_functions_run_as_kernels_for_cuda_inside_and_outside_jit():
    run = fuse(lambda x, k: (jnp.cumsum(x) * k, x > 0), (0, None))
    wanted = by_xla(lambda x, k: (jnp.cumsum(x) * k, x > 0), X, 2.0, in_axes=(0, None))
    assert len(new_kernels(lambda: run(X, 2.0))) == 1
    same(run(X, 2.0), wanted)
    same(jax.jit(run)(X, 2.0), wanted)


def test_the_kernel_stands_between_what_is_on_the_stream_and_what_comes():
    run = fuse(lambda x: x * 3)
    run(X)
    begun = len(log())
    run(2 * X)
    lines = [line.split() for line in log()[begun:]]
    words = [line[0] for line in lines if line[0] in ("record", "wait", "launch")]
    assert words == ["record", "wait", "launch", "record", "wait"]
    by_xla_, drjit_waits, launch, by_drjit, xla_waits = [
        line for line in lines if line[0] in ("record", "wait", "launch")
    ]
    assert by_xla_[1] == drjit_waits[1] and by_drjit[1] == xla_waits[1]  # events
    xla, drjit = by_xla_[-1], drjit_waits[-1]
    assert xla != drjit
    assert [launch[-1], by_drjit[-1], xla_waits[-1]] == [drjit, drjit, xla]
    copies = [line for line in lines if line[0] == "copy"]
    assert [c[-1] for c in copies] == [drjit] and lines.index(copies[0]) < lines.index(by_drjit)


def test_inputs_are_not_copied():
    x = jnp.asarray(np.ones((7, 1000), np.float32))
    run = fuse(lambda x: x[5])
    run(x)
    begun = len(log())
    run(x)
    assert [line for line in log()[begun:] if line.startswith("copy")] == [
        line for line in log()[begun:] if line.startswith("copy 28 ")
    ]


def test_a_recording_is_let_go_when_no_kernel_can_run_any_more(monkeypatch):
    """Its tables would be freed under a kernel on another thread's stream."""
    monkeypatch.setattr(launch, "SIZES_KEPT", 2)
    table = np.arange(20, dtype="float32") ** 2
    run = fuse(lambda i: jnp.asarray(table)[i])
    for size in (1, 2):
        run(np.arange(size))
    begun = len(log())
    np.testing.assert_array_equal(run(np.arange(3)), table[:3])
    assert "finish" in log()[begun:]
    np.testing.assert_array_equal(run(np.arange(1)), table[:1])


def test_too_little_device_memory_is_told_before_the_driver_ends_the_process(free, monkeypatch):
    def fn(x, i):
        ys = lax.scan(lambda c, r: (c + r, c * r), 0.0, x)[1]
        return ys[i]

    x, i = np.ones((2, 3000), np.float32), np.arange(2)
    kernel = Kernel(jax.make_jaxpr(fn)(x[0], i[0]))
    assert 12_000 <= kernel.frame < 12_200  # its array, and few values beside
    need = 132 * 2048 * kernel.frame + cuda.RESERVE
    free(need - 2**20)
    with pytest.raises(FuseError, match="XLA_PYTHON_CLIENT_MEM_FRACTION") as error:
        kernel.foresee(0, 2)
    assert f"{kernel.frame} bytes each" in str(error.value)
    with monkeypatch.context() as patch:  # called directly, it is told before anything runs
        gpu = SimpleNamespace(platform="gpu", local_hardware_id=0)
        patch.setattr(call, "_devices", lambda leaves: [gpu])
        with pytest.raises(FuseError, match="XLA_PYTHON_CLIENT_PREALLOCATE"):
            fuse(fn)(x, i)
    with pytest.raises(jax.errors.JaxRuntimeError, match="XLA_PYTHON_CLIENT_MEM_FRACTION"):
        jax.block_until_ready(fuse(fn)(x, i))
    free(need + 2**20)
    agree(fn, x, i)
    free(2**29)  # what the driver has taken for the first it has for the second
    kernel.foresee(0, 2)
    with pytest.raises(FuseError, match="for its outputs"):
        kernel.foresee(0, 2**27)


def test_local_memory_is_limited_by_the_device(free):
    def rereads(x, i):
        return lax.scan(lambda c, r: (c + r, c * r), 0.0, x)[1][i]

    i = jnp.arange(2)
    with pytest.raises(FuseError, match=f"on a GPU there is room for {cuda.MOST_LOCAL}"):
        fuse(rereads)(jnp.zeros((2, cuda.MOST_LOCAL // 4 + 1)), i)


def test_an_unknown_device_is_told():
    with pytest.raises(FuseError, match=r"Dr\.Jit cannot use GPU 7"):
        cuda.use(7)
    cuda.use(0)


def rounded(x):
    """To 32 bits."""
    return x.astype("float32").astype("float64")


FUNCTIONS = {  # with the points' exponents, largest errors [ulp]
    "sin": (jnp.sin, np.sin, -20, 4, 2),
    "cos": (jnp.cos, np.cos, -20, 4, 2),
    "tan": (jnp.tan, np.tan, -20, 4, 4),
    "exp": (jnp.exp, np.exp, -20, 1.9, 2),
    "exp2": (jnp.exp2, np.exp2, -20, 2, 2),
    "log": (jnp.log, np.log, -37, 38, 2),
    "log near 1": (lambda x: jnp.log(1 + x), lambda x: np.log(rounded(1 + x)), -5, -0.3, 2),
    "log2": (jnp.log2, np.log2, -37, 38, 2),
    "log1p": (jnp.log1p, np.log1p, -20, 20, 3),
    "expm1": (jnp.expm1, np.expm1, -20, 1.9, 3),
    "tanh": (jnp.tanh, np.tanh, -20, 2, 3),
    "sinh": (jnp.sinh, np.sinh, -20, 1.9, 4),
    "cosh": (jnp.cosh, np.cosh, -20, 1.9, 4),
    "asinh": (jnp.arcsinh, np.arcsinh, -20, 20, 4),
    "acosh": (lambda x: jnp.arccosh(1 + x), lambda x: np.arccosh(rounded(1 + x)), -6, 18, 4),
    "atanh": (jnp.arctanh, np.arctanh, -20, -0.01, 4),
    "logistic": (jax.nn.sigmoid, lambda x: 1 / (1 + np.exp(-x)), -20, 1.9, 4),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_elementary_functions_are_right_to_a_few_roundings(name):
    """Of small arguments, too; the emulation's approximate functions are as coarse as a GPU's."""
    function, exact, low, high, most = FUNCTIONS[name]
    rng = np.random.default_rng(1)
    x = (10 ** rng.uniform(low, high, 20_000)).astype("float32")
    if name not in ("log", "log2", "log near 1", "acosh", "log1p"):
        x *= rng.choice([-1, 1], x.size).astype("float32")
    (text,) = new_kernels(lambda: fuse(function)(x)) or [""]
    assert not re.findall(r"(?:sin|cos|ex2|lg2|tanh|rsqrt|rcp|sqrt)\.approx", text)
    got, wanted = np.asarray(fuse(function)(x), "float64"), exact(x.astype("float64"))
    usual = (np.abs(wanted) > TINY) & (np.abs(wanted) < 3e38)
    error = np.abs(got - wanted) / np.spacing(np.abs(wanted).astype("float32"), dtype="float32")
    assert usual.mean() > 0.8
    worst = np.argmax(np.where(usual, error, 0))
    assert error[worst] <= most, (x[worst], got[worst], wanted[worst])


def test_the_error_function_is_right():
    x = np.linspace(-5, 5, 4001, dtype="float32")
    from math import erf

    wanted = np.array([erf(float(v)) for v in x])
    np.testing.assert_allclose(fuse(lax.erf)(x), wanted, rtol=4e-7)


def test_the_hardwares_own_functions_would_not_do():
    """The emulation makes their errors, so that the tests above can fail."""
    import drjit as dr
    from drjit.cuda import Float

    x = np.float32(1e-3) * np.arange(1, 100, dtype="float32")
    with dr.scoped_set_flag(dr.JitFlag.FastMath, False):
        sine, tangent = (np.array(f(Float(x))) for f in (dr.sin, dr.tanh))
    assert np.max(np.abs(sine / np.sin(x.astype(float)) - 1)) > 1e-5
    assert np.max(np.abs(tangent / np.tanh(x.astype(float)) - 1)) > 1e-4


@pytest.mark.skipif(kit.ptxas() is None, reason="ptxas is missing")
def test_kernels_assemble_for_sm_90(tmp_path):
    def fn(x, i):
        def body(c, row):
            c = 0.9 * c + jnp.tanh(jnp.sin(row)) * jnp.exp(-c)
            return c, c * row

        ys = lax.scan(body, x, jnp.tile(x, (70, 1)))[1]
        return ys, ys[i], lax.cond(i > 2, jnp.cumsum, jnp.cumprod, x)

    texts = new_kernels(lambda: fuse(fn)(X, np.arange(5)))
    assert texts
    for k, text in enumerate(texts):
        path = tmp_path / f"{k}.ptx"
        path.write_text(text)
        command = [kit.ptxas(), "-arch=sm_90", "-O1", "-o", str(tmp_path / "out"), str(path)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr


@pytest.mark.skipif(kit.ptxas() is None, reason="ptxas is missing")
def test_what_the_assembler_takes_for_a_thread_is_foreseen(tmp_path):
    """Of a loop with more carries than there are registers."""

    def fn(x):
        return lax.scan(lambda c, _: (0.9 * c[::-1] * c + x, None), x, None, length=70)[0]

    x = np.ones((2, 280), np.float32)
    (text,) = new_kernels(lambda: fuse(fn)(x))
    (tmp_path / "it.ptx").write_text(text)
    command = [kit.ptxas(), "-arch=sm_90", "-O3", "-v", "-o", "out", "it.ptx"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    found = re.search(r"(\d+) bytes stack frame", done.stderr)
    frame = Kernel(jax.make_jaxpr(fn)(x[0])).frame
    assert found, done.stderr
    assert 100 < int(found[1]) <= frame
