"""Dr.Jit's CUDA back end without a GPU: a pretended driver, and kernels that run on the host."""

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
_INCLUDES = (os.environ.get("CUDA_HOME", "/usr/local/cuda"), "/usr/local/cuda", "/usr")


def cuda_header() -> Path | None:
    """The folder of cuda.h."""
    folders = (Path(home, "include") for home in _INCLUDES)
    return next((folder for folder in folders if (folder / "cuda.h").exists()), None)


def missing() -> str | None:
    """Why there can be no emulation on this machine."""
    if sys.platform != "linux":
        return "it is for Linux"
    if shutil.which("gcc") is None:
        return "gcc is missing"
    if cuda_header() is None:
        return "cuda.h is missing (NVIDIA's CUDA toolkit; CUDA_HOME names its folder)"
    return None


def ptxas() -> str | None:
    """NVIDIA's assembler, if it is there."""
    return shutil.which("ptxas") or shutil.which(f"{_INCLUDES[0]}/bin/ptxas")


def driver(folder: Path) -> Path:
    """Build the pretended driver."""
    path = folder / "libcuda.so.1"
    include = f"-I{cuda_header()}"
    command = ["gcc", "-w", "-O1", "-shared", "-fPIC", include, "-o", path, HERE / "stub.c", "-ldl"]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return path


def prepare() -> Path:
    """Let Dr.Jit, which must not be imported yet, find the emulation; the folder of what it writes:
    PTX of all kernels and a log."""
    folder = Path(tempfile.mkdtemp(prefix="cuda_emulation_"))
    os.environ |= {
        "DRJIT_LIBCUDA_PATH": str(driver(folder)),
        "DRJIT_CACHE_DIR": str(folder / "cache"),
        "CUDA_EMULATION_DIR": str(folder),
        "CUDA_EMULATION_PYTHON": sys.executable,
        "CUDA_EMULATION_PTX_TO_C": str(HERE / "ptx_to_c.py"),
    }
    return folder


def active() -> Path | None:
    """The emulation's folder, where this process has one."""
    folder = os.environ.get("CUDA_EMULATION_DIR")
    return Path(folder) if folder else None


def stream() -> int:
    """One of the driver's streams, as XLA would have."""
    made = ctypes.c_void_p()
    ctypes.CDLL(os.environ["DRJIT_LIBCUDA_PATH"])["cuStreamCreate"](ctypes.byref(made), 0)
    assert made.value
    return made.value


def emulate() -> int:
    """From now on fused functions on the CPU run as kernels for CUDA: XLA's call comes with
    pointers of the host, which is where the emulation's memory is. Returns XLA's stream."""
    from jax.interpreters import mlir

    from jaxsim.fused import call, handler

    name, made = "jaxsim_fused_emulated", stream()
    handler.register(name, lambda asked, frame: handler.run_on_gpu(asked, made), "cpu")
    rule = call.make_lowering("cuda", lambda platform: name)
    mlir.register_lowering(call.fused_p, rule, platform="cpu")
    call.on_cpu = lambda leaves: False
    return made
