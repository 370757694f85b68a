"""Foreign function by which XLA's compiled code calls a fused kernel, on the CPU or on a GPU.

XLA's foreign function interface calls a C function with a frame: buffers in and out, attributes,
and on a GPU a stream. Its layout is a stable part of XLA (xla/ffi/api/c_api.h); only version 0.1 is
used here, which later versions extend. The function is Python, through ctypes, so no compiler is
needed; it reads the frame, and runs the kernel on XLA's memory. A call names its kernel by
``digest``: compiled programs that XLA caches on disk stay valid.
"""

import ctypes
import math
from collections.abc import Callable
from ctypes import POINTER, Structure, c_char_p, c_int, c_int64, c_size_t, c_uint32, c_void_p, cast
from functools import cache
from typing import NamedTuple
from weakref import WeakValueDictionary

import jax
import numpy as np

from jaxsim.fused import cuda
from jaxsim.fused.errors import FuseError
from jaxsim.fused.launch import Kernel

PLATFORMS = ("cpu", "cuda")
VERSION = 0, 1  # of the interface: the oldest that XLA still accepts
_METADATA = 1  # extension of a frame that queries the version
_STRING = 4  # type of an attribute
_INVALID, _INTERNAL = 3, 13  # codes of errors

kernels: WeakValueDictionary[str, Kernel] = WeakValueDictionary()  # compiled programs own them


class _Version(Structure):
    _fields_ = (("size", c_size_t), ("more", c_void_p), ("major", c_int), ("minor", c_int))


class _Metadata(Structure):
    _fields_ = (("size", c_size_t), ("version", _Version), ("traits", c_uint32))


class _Extension(Structure):
    _fields_ = (
        *(("size", c_size_t), ("type", c_int), ("next", c_void_p)),
        ("metadata", POINTER(_Metadata)),
    )


class _Buffers(Structure):
    _fields_ = (
        *(("size", c_size_t), ("more", c_void_p), ("count", c_int64)),
        *(("types", POINTER(c_int)), ("items", POINTER(c_void_p))),
    )


class _Attributes(Structure):
    _fields_ = (
        *(("size", c_size_t), ("more", c_void_p), ("count", c_int64)),
        *(("types", POINTER(c_int)), ("names", POINTER(c_void_p)), ("items", POINTER(c_void_p))),
    )


class _Api(Structure):
    _fields_ = (
        *(("size", c_size_t), ("more", c_void_p), ("version", _Version), ("internal", c_void_p)),
        *(("create_error", c_void_p), ("read_error", c_void_p), ("destroy_error", c_void_p)),
        *(("register", c_void_p), ("get_stream", c_void_p)),
    )


class _CallFrame(Structure):
    _fields_ = (
        *(("size", c_size_t), ("extension", POINTER(_Extension)), ("api", POINTER(_Api))),
        *(("context", c_void_p), ("stage", c_int)),
        *(("inputs", _Buffers), ("outputs", _Buffers), ("attributes", _Attributes)),
    )


class _Buffer(Structure):
    _fields_ = (
        *(("size", c_size_t), ("more", c_void_p), ("type", c_int), ("data", c_void_p)),
        *(("rank", c_int64), ("dims", POINTER(c_int64))),
    )


class _CallText(Structure):
    _fields_ = (("data", c_void_p), ("length", c_size_t))


class _NewError(Structure):
    _fields_ = (
        *(("size", c_size_t), ("more", c_void_p)),
        *(("message", c_char_p), ("code", c_int)),
    )


class _GetStream(Structure):
    _fields_ = (
        *(("size", c_size_t), ("more", c_void_p)),
        *(("context", c_void_p), ("stream", c_void_p)),
    )


_Handler = ctypes.CFUNCTYPE(c_void_p, POINTER(_CallFrame))
_Function = ctypes.CFUNCTYPE(c_void_p, c_void_p)  # of the interface: an error or None


class Call(NamedTuple):
    """Call of a kernel by XLA, parsed from a frame."""

    kernel: Kernel
    own: tuple[bool, ...]
    batch: int
    inputs: list[int]  # pointers
    outputs: list[int]


def name_kernel(kernel: Kernel, own: tuple[bool, ...], batch: int) -> tuple[str, Kernel]:
    """Name by which a call finds a kernel, and the kernel: this one, or an equal one.

    The owner of the call has to own the kernel, too.
    """
    kept = kernels.setdefault(kernel.digest, kernel)
    return f"{kernel.digest} {batch} {''.join(map(str, map(int, own)))}", kept


@cache
def target(platform: str) -> str:
    """Name of XLA's custom call for a platform, "cpu" or "cuda"; registered at first use."""
    name = f"jaxsim_fused_{platform}"
    register(name, {"cpu": _on_host, "cuda": _on_gpu}[platform], platform)
    return name


_registered = []  # handlers, whose addresses XLA has until the process ends


def register(name: str, enter: Callable[[Call, _CallFrame], None], platform: str) -> None:
    """Register ``enter`` as the target of calls of ``name`` in programs for a platform."""

    @_Handler
    def handler(pointer):
        frame = pointer.contents
        try:
            if frame.extension and frame.extension.contents.type == _METADATA:
                version = frame.extension.contents.metadata.contents.version
                version.major, version.minor = VERSION
                return None
            enter(_call(frame), frame)
            return None
        except BaseException as error:  # no exception may pass through C
            return _error(frame, error)

    _registered.append(handler)
    where = {"cuda": "CUDA"}.get(platform, platform)
    jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(handler), platform=where)


def _call(frame: _CallFrame) -> Call:
    attributes = frame.attributes
    if attributes.count != 1 or attributes.types[0] != _STRING:
        raise FuseError("a call of a fused function without its name; XLA's interface has changed")
    text = cast(attributes.items[0], POINTER(_CallText)).contents
    digest, batch, *flags = ctypes.string_at(text.data, text.length).decode().split(" ")
    kernel = kernels.get(digest)
    if kernel is None:
        raise FuseError(
            "a program was made in another process from a fused function; only the process that"
            ' traced it has its kernel. Trace it here, or export it with backend="xla"'
        )
    pointers = [
        [cast(some.items[k], POINTER(_Buffer)).contents.data or 0 for k in range(some.count)]
        for some in (frame.inputs, frame.outputs)
    ]
    return Call(kernel, tuple(c == "1" for c in "".join(flags)), int(batch), *pointers)


def _error(frame: _CallFrame, error: BaseException) -> int:
    told = isinstance(error, FuseError)
    message = str(error) if told else f"{type(error).__name__}: {error}"
    code = _INVALID if told else _INTERNAL
    args = _NewError(ctypes.sizeof(_NewError), None, message.encode(), code)
    return _Function(frame.api.contents.create_error)(ctypes.addressof(args))


def _on_host(call: Call, frame: _CallFrame) -> None:
    """Run a call on the CPU, with buffers as numpy arrays."""
    shapes = call.kernel.input_shapes(call.own, call.batch)
    given = [_array(*x) for x in zip(call.inputs, shapes, call.kernel.in_avals)]
    out = zip(call.outputs, call.kernel.output_shapes(call.batch), call.kernel.out_avals)
    for place, made in zip([_array(*x) for x in out], call.kernel.on_host(given, *call[1:3])):
        if place.size:
            place[...] = made.numpy().reshape(place.shape)


def _array(pointer: int, shape: tuple[int, ...], aval) -> np.ndarray:
    bytes_ = math.prod(shape) * aval.dtype.itemsize
    if not bytes_:
        return np.zeros(shape, aval.dtype)
    return np.frombuffer((ctypes.c_char * bytes_).from_address(pointer), aval.dtype).reshape(shape)


def _on_gpu(call: Call, frame: _CallFrame) -> None:
    """Run a call on the GPU that owns the buffers, in the order of XLA's stream."""
    run_on_gpu(call, _stream(frame))


def run_on_gpu(call: Call, stream: int | None) -> None:
    """Run a kernel on a GPU after the work on the stream, and later work on it after the kernel."""
    kernel, batch = call.kernel, call.batch
    out_sizes = [math.prod(shape) for shape in kernel.output_shapes(batch)]
    if not any(out_sizes):
        return
    device = cuda.device_of(next(p for p, size in zip(call.outputs, out_sizes) if size))
    in_sizes = map(math.prod, kernel.input_shapes(call.own, batch))
    with kernel.on_gpu(device, call.own, batch) as launch:
        cuda.wait_for(stream)
        made = launch(list(zip(call.inputs, in_sizes)))
        for pointer, array, size, aval in zip(call.outputs, made, out_sizes, kernel.out_avals):
            if size:
                cuda.copy_out(array, pointer, size * aval.dtype.itemsize)
        cuda.let_go_on(stream)


def _stream(frame: _CallFrame) -> int | None:
    args = _GetStream(ctypes.sizeof(_GetStream), None, frame.context, None)
    if _Function(frame.api.contents.get_stream)(ctypes.addressof(args)):
        raise RuntimeError("XLA gives no stream to the call of a fused function")
    return args.stream
