"""The functions of Dr.Jit's core library that its Python module does not pass on.

They are looked up by their names in the library. Where one is not found nothing is lost but speed.
"""

import ctypes
import sys
from contextlib import contextmanager
from functools import cache
from pathlib import Path

_LIBRARIES = {"linux": "libdrjit-core.so", "darwin": "libdrjit-core.dylib"}
_LLVM = 2  # Dr.Jit's number for this back end


class Core:
    """How many lanes go together, and which of them an operation is for."""

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
        self._push = library["_Z17jit_var_mask_push10JitBackendj"]
        self._pop = library["_Z16jit_var_mask_pop10JitBackend"]
        self._push.argtypes, self._pop.argtypes = [ctypes.c_int, ctypes.c_uint], [ctypes.c_int]
        self._push.restype = self._pop.restype = None

    @contextmanager
    def all_lanes(self, true):
        """Meanwhile memory is read and written for all lanes of a vector, also for those that have
        left the loop or took the other branch; true: a Bool of ``drjit.llvm``."""
        self._push(_LLVM, true.index)
        try:
            yield
        finally:
            self._pop(_LLVM)


@cache
def core() -> Core | None:
    """None where the library does not offer this."""
    import drjit as dr

    try:
        folder = Path(dr.__file__).parent
        return Core(ctypes.CDLL(str(folder / _LIBRARIES.get(sys.platform, "none"))))
    except (OSError, AttributeError):
        return None
