"""Numbers of threads of XLA and LAPACK on a CPU."""

import contextlib
import importlib
import os
from collections.abc import Iterator

THREADS = 8  # least number of XLA's threads
HANGS = (
    "if it never ends: on a CPU of few cores XLA can wait for itself, start Python with NPROC=8 in"
    " the environment (docs/guides/install.md)"
)
LAPACK = ("OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS")  # any of them counts


@contextlib.contextmanager
def thread_counts() -> Iterator[None]:
    """Context in which XLA starts with enough threads and LAPACK with one.

    Settings of the user have precedence. Acts where JAX starts inside, or calls LAPACK for the
    first time.
    """
    one_for_lapack()
    with more_threads():
        yield


@contextlib.contextmanager
def more_threads() -> Iterator[None]:
    """Context in which XLA starts with ``THREADS`` threads, unless the user has set NPROC.

    Before jaxlib 0.11.1 each batched factorisation keeps a thread waiting for others to do its
    work: with two threads, two of them at once wait for ever. Acts where JAX starts inside.
    """
    if "NPROC" in os.environ or cores() >= THREADS:
        yield
        return
    with _set("NPROC", THREADS):
        yield


def one_for_lapack() -> None:
    """Load the LAPACK that JAX calls on a CPU, which is SciPy's, with one thread.

    Its threads spin while they wait for each other, in every factorisation of 64 rows and more:
    where other processes use the cores too, that wastes ten times the processor's time. A LAPACK
    that is loaded already is not changed; NumPy has a separate one.
    """
    if any(name in os.environ for name in LAPACK):
        return
    with _set(LAPACK[0], 1):
        importlib.import_module("scipy.linalg.cython_lapack")


@contextlib.contextmanager
def _set(name: str, value: int) -> Iterator[None]:
    """Context with a variable of the environment, which is removed after it."""
    os.environ[name] = str(value)
    try:
        yield
    finally:
        os.environ.pop(name, None)


def cores() -> int:
    """Number of processor cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
