"""Compiling in tests: most programs run a few times only, so compile time is what counts.

``conftest.py`` says the same to XLA for all tests; this is for programs that are to compile quickly
whatever XLA_FLAGS say.
"""

from functools import cache

import jax

# Without optimisation XLA's CPU compiler is about five times faster. The fused kernels are made
# by the same rules as before; numbers agree to rounding.
_OPTIONS = {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False}


@cache
def _options() -> dict:
    """Those of the options that this version of XLA knows."""
    return {name: value for name, value in _OPTIONS.items() if _known(name, value)}


def _known(name: str, value) -> bool:
    try:
        jax.jit(lambda x: x + 1, compiler_options={name: value})(1.0)
    except Exception:
        return False
    return True


def quick_jit(function, **options):
    """``jax.jit`` without optimisation, for programs that run only a few times.

    Only for the outermost function: JAX refuses compiler options inside another jit.
    """
    return jax.jit(function, compiler_options=_options(), **options)


def quick_map(function):
    """``quick_jit`` of a function over batches of its arguments, one member after the other.

    Compiles in a fraction of the time of ``vmap``, which traces loops within loops again and again;
    for batches of few members that are soon computed.
    """
    return quick_jit(lambda *batch: jax.lax.map(lambda member: function(*member), batch))
