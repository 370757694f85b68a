"""Number of lanes that share a vector instruction on the CPU.

Dr.Jit groups 16 lanes with AVX-512, and 8 with AVX2, for numbers of any size.

In float64 that is two vectors for every number: twice the instructions, more than twice the compile
time of a large kernel, and no more speed. Half as many lanes fill a vector. For a batch of a few
lanes four are best.

In float32 16 lanes are faster than 8 as soon as there are more than 8 for a core: by a fifth to a
half where the processor works on 512 bits at once, by a tenth to a quarter where it takes them in
halves (AMD's Zen 4), for there are half as many instructions.

Local memory is on a thread's stack, for all lanes together, and may take three quarters of it. 16
lanes of a kernel with much local memory exceed a core's cache, and still are faster: a QP of 69
unknowns, with 124 KiB a lane, took 1.5 times as long with 8 lanes (Zen 5), and frames of a human
within torque limits, with 93 KiB, 1.4 times (a Xeon with 1 MiB).

A kernel for another number of lanes is compiled separately. With much local memory that takes
minutes, which is not worth it for a batch that shrinks, such as that of a bisection.
"""

from collections.abc import Collection
from functools import cache

from jaxsim.fused.core import core

MOST = 16
NARROW = 8
LEAST = 4
SMALLEST_STACK = 2_097_152
LARGE = 32_768  # bytes of local memory a lane: a kernel that takes long to compile


def set_lanes(batch: int, doubles: bool, local: int, compiled: Collection[int] = ()) -> int:
    """Set and return the number of lanes that are grouped from now on; 0 where there is no choice.

    batch: lanes of the kernel; doubles: its numbers have 64 bits; local: its bytes of local memory
    a lane; compiled: numbers of lanes for which it is compiled already. Call it before a kernel is
    recorded and before it is run; a recording is valid for the number that it was made with. The
    results of a lane do not depend on it. There is no choice where vectors are shorter, or where
    Dr.Jit's core library lacks the function.
    """
    library = core()
    if library is None or library.most not in (NARROW, MOST):
        return 0
    import drjit as dr

    large = local > LARGE
    threads = 1 if large else dr.thread_count()
    if doubles:
        few, most = LEAST, library.most // 2
    else:
        few, most = NARROW, library.most if MOST * local <= 3 * stack() // 4 else NARROW
    wide = batch > few * threads or (large and most in compiled)
    width = most if wide else few
    if library.width() != width:
        library.set_target(library.cpu(), library.features(), width)
    return width


def room() -> int:
    """Bytes of local memory that a lane may have, so that eight fit in a thread's stack."""
    return 3 * stack() // 4 // NARROW


@cache
def stack() -> int:
    """Size of a new thread's stack [bytes]."""
    try:
        import resource
    except ImportError:  # on Windows
        return SMALLEST_STACK
    soft = resource.getrlimit(resource.RLIMIT_STACK)[0]
    return SMALLEST_STACK if soft == resource.RLIM_INFINITY else soft
