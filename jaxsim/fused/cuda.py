"""CUDA driver for kernels: device and memory of arrays, order among streams.

JAX and Dr.Jit share a device's primary context, so that a pointer of one is valid for the other.
Each has its own streams: events order the kernel after the producers of its inputs, and the
consumers of its outputs after the kernel. Nothing waits on the host.
"""

import ctypes
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from jaxsim.fused.core import gpu_core
from jaxsim.fused.errors import FuseError

SETTING = "DRJIT_LIBCUDA_PATH"
DRIVER = "libcuda.so.1"
MOST_LOCAL = 512 * 1024  # local bytes of a thread, on every GPU since compute capability 2.0
RESERVE = 256 << 20  # bytes that the driver itself and compiled programs may take

_FOLDERS = (
    *("/usr/local/nvidia/lib64", "/usr/local/nvidia/lib", "/usr/lib/wsl/lib"),
    *("/run/opengl-driver/lib", "/usr/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib"),
)
_MULTIPROCESSORS, _THREADS_OF_ONE = 16, 39  # attributes of a device
_DEVICE_OF_POINTER = 9  # an attribute of a pointer

_granted: dict[int, int] = {}  # by device: local bytes of a thread that it has granted before


def find_driver(load: bool) -> Path | None:
    """Driver's library that this process has loaded, as JAX has where it uses a GPU.

    If there is none and ``load``, the one of the system's loader, or of a container's folders.
    """
    found = _loaded()
    if found is None and load:
        for name in (DRIVER, *(f"{folder}/{DRIVER}" for folder in _FOLDERS)):
            with suppress(OSError):
                ctypes.CDLL(name)
                return _loaded() or Path(name)
    return found


def name_driver(load: bool) -> None:
    """Set the driver's path for Dr.Jit, which searches few folders; before it is imported."""
    if not os.environ.get(SETTING) and (found := find_driver(load)):
        os.environ[SETTING] = str(found)


def _loaded() -> Path | None:
    with suppress(OSError):
        for line in Path("/proc/self/maps").read_text().splitlines():
            path = Path(line[line.find("/") :]) if "/" in line else None
            if path is not None and re.fullmatch(r"libcuda\.so(\.[\d.]+)?", path.name):
                return path
    return None


@cache
def _driver() -> ctypes.CDLL:
    return ctypes.CDLL(os.environ.get(SETTING) or DRIVER)


def _ask(name: str, *args) -> None:
    """Call the driver; FuseError with its code where that fails."""
    if code := _driver()[name](*args):
        raise FuseError(f"CUDA's driver answers {name} with error {code}")


def device_of(pointer: int) -> int:
    """Driver's number of the device that owns some memory."""
    found = ctypes.c_int()
    _ask("cuPointerGetAttribute", ctypes.byref(found), _DEVICE_OF_POINTER, ctypes.c_uint64(pointer))
    return found.value


def use(device: int) -> None:
    """Set the device of Dr.Jit on this thread; FuseError where it cannot use it."""
    core = gpu_core()
    if core.device() == device:
        return
    for k in range(core.count()):
        core.set_device(k)
        if core.device() == device:
            return
    raise FuseError(f"Dr.Jit cannot use GPU {device}; the arrays are there. Move them to another")


@contextmanager
def _in_context() -> Iterator[None]:
    """Context in which driver calls concern the device that Dr.Jit works on."""
    _ask("cuCtxPushCurrent_v2", ctypes.c_void_p(gpu_core().context()))
    try:
        yield
    finally:
        _ask("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))


def finish(device: int) -> None:
    """Wait until a device has done all its work."""
    use(device)
    with _in_context():
        _ask("cuCtxSynchronize")


def wait_for(stream: int | None) -> None:
    """Order later work of Dr.Jit after the work that is on the stream now."""
    if not stream:  # the default stream, for which Dr.Jit's stream waits by itself
        return
    core, event = gpu_core(), ctypes.c_void_p()
    with _in_context():
        _ask("cuEventCreate", ctypes.byref(event), 2)  # 2: it keeps no time
        _ask("cuEventRecord", event, ctypes.c_void_p(stream))
        _ask("cuStreamWaitEvent", ctypes.c_void_p(core.stream()), event, 0)
        _ask("cuEventDestroy_v2", event)


def let_go_on(stream: int | None) -> None:
    """Order later work of the stream after the work of Dr.Jit so far."""
    if stream:
        gpu_core().sync_stream(stream)


def wrap_memory(kind: Any, pointer: int, size: int) -> Any:
    """Make a Dr.Jit array over ``size`` numbers of device memory, which it does not own."""
    import drjit as dr

    core = gpu_core()
    variable = core.map(dr.JitBackend.CUDA.value, dr.type_v(kind).value, pointer, size, 0)
    indices: Any = dr.detail.IndexVector()
    indices.append(variable)
    array = dr.detail.update_indices(kind(0), indices)
    core.forget(variable)  # the array and the vector have their own references
    return array


def copy_array(types: Any, array: Any) -> Any:
    """Copy a Dr.Jit array to other memory."""
    import drjit as dr

    copy = dr.gather(type(array), array, dr.arange(types.UInt, len(array)))
    dr.eval(copy)
    return copy


def copy_out(array: Any, pointer: int, bytes_: int) -> None:
    """Copy a computed array to device memory, in order with Dr.Jit's work."""
    import drjit as dr

    core, source = gpu_core(), ctypes.c_void_p()
    core.forget(core.data(array.index, ctypes.byref(source)))
    core.copy(dr.JitBackend.CUDA.value, pointer, source, bytes_)


def threads(device: int) -> int:
    """Largest number of threads that run at once on a device."""
    numbers = []
    for attribute in (_MULTIPROCESSORS, _THREADS_OF_ONE):
        value = ctypes.c_int()
        _ask("cuDeviceGetAttribute", ctypes.byref(value), attribute, device)
        numbers.append(value.value)
    return numbers[0] * numbers[1]


def free_bytes() -> int:
    """Free bytes of the current device's memory, outside JAX's pool."""
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    with _in_context():
        _ask("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
    return free.value


def foresee(device: int, frame: int, outputs: int) -> None:
    """Raise FuseError where a kernel would run out of device memory, which would end the process.

    frame: bytes of local memory of a thread, for its arrays and for values beyond its registers.
    The driver allocates it for all threads that the device can run at once, however small the
    batch. outputs: bytes of the kernel's outputs, which Dr.Jit owns until they are copied.
    """
    if frame > MOST_LOCAL:
        raise FuseError(
            f"the function keeps {frame} bytes a lane in local memory; on a GPU a thread has"
            f" {MOST_LOCAL}. Keep less (fewer rows of a scan's ys that are read again), or use"
            ' backend="xla"'
        )
    import drjit as dr

    at_once = threads(device)
    local = at_once * max(0, frame - _granted.get(device, 0))
    need = local + outputs + RESERVE
    free = free_bytes()
    if need > free:
        dr.flush_malloc_cache()
        free = free_bytes()
    if need > free:
        raise FuseError(
            f"the kernel needs {_mib(need)} of device memory beside JAX's and {_mib(free)} are"
            f" free: {_mib(local)} for the local memory of {at_once} threads, {frame} bytes"
            f" each, {_mib(outputs)} for its outputs, and some for the driver. JAX takes three"
            " quarters of a GPU at its start: set XLA_PYTHON_CLIENT_MEM_FRACTION=0.5 (or less),"
            " or XLA_PYTHON_CLIENT_PREALLOCATE=false, before it; or take a smaller batch"
        )
    _granted[device] = max(frame, _granted.get(device, 0))


def _mib(bytes_: int) -> str:
    return f"{bytes_ / 2**20:,.0f} MiB"
