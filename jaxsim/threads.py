"""How many threads XLA and LAPACK have on a CPU."""

import contextlib
import importlib
import os
from collections.abc import Iterator

THREADS = 8  # at least
HANGS = (
    "if it never ends: on a CPU of few cores XLA can wait for itself, start Python with NPROC=8 in"
    " the environment (docs/guides/install.md)"
)
LAPACK = ("OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS")  # any of them says


@contextlib.contextmanager
def thread_counts() -> Iterator[None]:
    """XLA starts with threads enough and LAPACK with one, where the user has not said how many.

    Acts where JAX starts inside, or calls LAPACK for the first time.
    """
    one_for_lapack()
    with more_threads():
        yield


@contextlib.contextmanager
def more_threads() -> Iterator[None]:
    """XLA starts with as many threads as NPROC says: with THREADS, unless the user has set it.

    Before jaxlib 0.11.1 each batched factorisation keeps a thread waiting for others to do its
    work: with two threads, two of them at once wait for ever. Acts where JAX starts inside.
    """
    if "NPROC" in os.environ or cores() >= THREADS:
        yield
        return
    with _set("NPROC", THREADS):
        yield


def one_for_lapack() -> None:
    """Loads the LAPACK that JAX calls on a CPU, which is SciPy's, with one thread.

    Its threads spin while they wait for each other, in every factorisation of 64 rows and more:
    where others use the cores too, ten times the processor's time for nothing. Where LAPACK is
    loaded already it stays as it is; NumPy has one of its own.
    """
    if any(name in os.environ for name in LAPACK):
        return
    with _set(LAPACK[0], 1):
        importlib.import_module("scipy.linalg.cython_lapack")


@contextlib.contextmanager
def _set(name: str, value: int) -> Iterator[None]:
    """A variable of the environment inside, and none after."""
    os.environ[name] = str(value)
    try:
        yield
    finally:
        os.environ.pop(name, None)


def cores() -> int:
    """How many processor cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
