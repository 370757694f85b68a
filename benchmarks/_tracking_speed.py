"""How fast clips are followed: steps a second, and seconds to compile."""

import time

import jax

from benchmarks._machine import si, table
from benchmarks._tracking import Runs, Shelf, runner, runs

BATCHES = (("fused", 256), ("fused", 1), ("xla", 1))
SECONDS = 1.0  # that each run simulates


def speeds(clips: Shelf, args) -> str:
    """A row for each batch: the first call, then the best of three."""
    rows = []
    for backend, count in BATCHES:
        run = runner(clips, args.help_by, args.dt, args.contacts, backend, SECONDS)
        some = taken(runs(clips, args.balance, starts=-(-count // 40)), count)
        times = []
        for _ in range(4):
            began = time.perf_counter()
            run(some)
            times.append(time.perf_counter() - began)
        steps = count * SECONDS / args.dt / min(times[1:])
        rows.append([
            backend, f"{count}", si(steps), f"{steps * args.dt / count:.1f}",
            f"{times[0] - min(times[1:]):.0f}",
        ])  # fmt: skip
    head = ["backend", "batch", "steps/s", "times real time, each", "compile [s]"]
    return table(head, rows)


def taken(some: Runs, count: int) -> Runs:
    """The first ones."""
    return jax.tree.map(lambda x: x[:count], some)
