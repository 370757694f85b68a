"""How many lanes share a vector instruction on the CPU.

Dr.Jit puts 16 lanes together with AVX-512, and 8 with AVX2, whatever the size of their numbers.

In float64 that is two vectors for every number: twice the instructions, of which a large kernel
then takes more than twice the time to compile, and no more speed. Half as many lanes fill a vector.
A batch of a few lanes is best off with four.

In float32 16 lanes are faster than 8 as soon as there are more than 8 for a core: by a fifth to a
half where the processor works on 512 bits at once, by a tenth to a quarter where it takes them in
halves (AMD's Zen 4), for there are half as many instructions.

Local memory lies on a thread's stack, all lanes' together, and may take three quarters of it. 16
lanes of a kernel that has much of it take more than a core's cache, and still are faster: a QP of
69 unknowns, with 124 KiB a lane, took 1.5 times as long with 8 of them (Zen 5), and frames of a
human within torque limits, with 93 KiB, 1.4 times (a Xeon with 1 MiB).

A kernel for another number of lanes is compiled anew. That of a lot of local memory takes minutes,
which no batch that gets smaller on the way, such as that of a bisection, is worth.
"""

from collections.abc import Collection
from functools import cache

from jaxsim.fused.core import core

MOST = 16
NARROW = 8
LEAST = 4
SMALLEST_STACK = 2_097_152
LARGE = 32_768  # bytes of local memory a lane: a kernel that takes long to compile


def set_lanes(batch: int, doubles: bool, local: int, made: Collection[int] = ()) -> int:
    """How many lanes go together from now on, for a kernel of ``batch`` lanes, with numbers of 64
    bits or not, and ``local`` bytes of local memory a lane, that is ``made`` for some numbers of
    lanes; 0 where there is no choice.

    Call it before a kernel is recorded and before it is run; a recording serves the number that it
    was made with. What each lane computes does not depend on it. There is no choice where vectors
    are shorter, or where Dr.Jit's core library does not offer it.
    """
    found = core()
    if found is None or found.most not in (NARROW, MOST):
        return 0
    import drjit as dr

    large = local > LARGE
    threads = 1 if large else dr.thread_count()
    if doubles:
        few, most = LEAST, found.most // 2
    else:
        few, most = NARROW, found.most if MOST * local <= 3 * stack() // 4 else NARROW
    wide = batch > few * threads or (large and most in made)
    width = most if wide else few
    if found.width() != width:
        found.set_target(found.cpu(), found.features(), width)
    return width


def room() -> int:
    """Bytes of local memory that a lane may have, so that eight have room in a thread's stack."""
    return 3 * stack() // 4 // NARROW


@cache
def stack() -> int:
    """Bytes of a new thread's stack."""
    try:
        import resource
    except ImportError:  # on Windows
        return SMALLEST_STACK
    soft = resource.getrlimit(resource.RLIMIT_STACK)[0]
    return SMALLEST_STACK if soft == resource.RLIM_INFINITY else soft
