"""How many threads XLA has on a CPU."""

import contextlib
import os
from collections.abc import Iterator

THREADS = 8  # at least
HANGS = (
    "if it never ends: on a CPU of few cores XLA can wait for itself, start Python with NPROC=8 in"
    " the environment (docs/guides/install.md)"
)


@contextlib.contextmanager
def more_threads() -> Iterator[None]:
    """XLA starts with as many threads as NPROC says: with THREADS, unless the user has set it.

    Before jaxlib 0.11.1 each batched factorisation keeps a thread waiting for others to do its
    work: with two threads, two of them at once wait for ever. Acts where JAX starts inside.
    """
    if "NPROC" in os.environ or cores() >= THREADS:
        yield
        return
    os.environ["NPROC"] = str(THREADS)
    try:
        yield
    finally:
        os.environ.pop("NPROC", None)


def cores() -> int:
    """How many processor cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
