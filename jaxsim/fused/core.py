"""Functions of Dr.Jit's core library that its Python module does not export.

They are looked up by their names in the library. On the CPU a missing one costs only speed.
"""

import ctypes
import sys
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from jaxsim.fused.errors import FusedUnavailable

_LIBRARIES = {"linux": "libdrjit-core.so", "darwin": "libdrjit-core.dylib"}
_LLVM = 2  # Dr.Jit's number for this back end
# LLVM takes gathers of AVX2 apart, a branch a lane, unless they count as fast: a kernel of per-step
# optimisation of a human then compiles for over ten minutes in the place of three.
_GATHERS = b",+fast-gather"


class Core:
    """Vector width of Dr.Jit's LLVM back end, and masks of its lanes."""

    def __init__(self, library: ctypes.CDLL):
        self.width = library["_Z21jit_llvm_vector_widthv"]
        self.cpu = library["_Z19jit_llvm_target_cpuv"]
        self.features = library["_Z24jit_llvm_target_featuresv"]
        self.set_target = library["_Z19jit_llvm_set_targetPKcS0_j"]
        self.cpu.restype = self.features.restype = ctypes.c_char_p
        self.width.restype = ctypes.c_uint
        self.set_target.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_uint]
        self.set_target.restype = None
        self.most = self.width()  # before any of it is changed
        features = self.features()
        if b"+avx2" in features and _GATHERS not in features:
            self.set_target(self.cpu(), features + _GATHERS, self.most)
        self._push = library["_Z17jit_var_mask_push10JitBackendj"]
        self._pop = library["_Z16jit_var_mask_pop10JitBackend"]
        self._push.argtypes, self._pop.argtypes = [ctypes.c_int, ctypes.c_uint], [ctypes.c_int]
        self._push.restype = self._pop.restype = None

    @contextmanager
    def all_lanes(self, true):
        """Context in which memory is read and written for all lanes of a vector.

        Also for lanes that have left the loop or took the other branch; true: a Bool of
        ``drjit.llvm``.
        """
        self._push(_LLVM, true.index)
        try:
            yield
        finally:
            self._pop(_LLVM)


class GpuCore:
    """Devices, streams, and arrays over foreign memory of Dr.Jit's CUDA back end."""

    def __init__(self, library: ctypes.CDLL):
        pointer, number = ctypes.c_void_p, ctypes.c_uint32

        def function(name: str, result, *args):
            found = library[name]
            found.restype, found.argtypes = result, args
            return found

        self.count = function("_Z21jit_cuda_device_countv", ctypes.c_int)
        self.set_device = function("_Z19jit_cuda_set_devicei", None, ctypes.c_int)
        self.device = function("_Z19jit_cuda_device_rawv", ctypes.c_int)  # the driver's number
        self.context = function("_Z16jit_cuda_contextv", pointer)
        self.stream = function("_Z15jit_cuda_streamv", pointer)
        self.sync_stream = function("_Z20jit_cuda_sync_streamm", None, ctypes.c_size_t)
        self.map = function(
            *("_Z15jit_var_mem_map10JitBackend7VarTypePvmi", number),
            *(ctypes.c_int, ctypes.c_int, pointer, ctypes.c_size_t, ctypes.c_int),
        )
        self.data = function("_Z12jit_var_datajPPv", number, number, pointer)
        self.forget = function("_Z20jit_var_dec_ref_implj", None, number)
        self.copy = function(
            *("_Z16jit_memcpy_async10JitBackendPvPKvm", None),
            *(ctypes.c_int, pointer, pointer, ctypes.c_size_t),
        )


@cache
def core() -> Core | None:
    """Core functions for the CPU; None where the library lacks them."""
    try:
        return Core(_library())
    except (OSError, AttributeError):
        return None


@cache
def gpu_core() -> GpuCore:
    """Core functions for GPUs; FusedUnavailable where the library lacks them."""
    try:
        return GpuCore(_library())
    except (OSError, AttributeError) as error:
        raise FusedUnavailable(
            f"this version of Dr.Jit hands no arrays to a GPU's kernel ({error});"
            ' pip install "drjit>=1.5,<1.6", or use backend="xla"'
        ) from error


def _library() -> ctypes.CDLL:
    import drjit as dr

    folder = Path(dr.__file__).parent
    return ctypes.CDLL(str(folder / _LIBRARIES.get(sys.platform, "none")))
