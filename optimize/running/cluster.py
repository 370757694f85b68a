"""Calls of one function on workers of Dask distributed: on this machine, on others, under Slurm.

    with workers(4) as pool:
        for parts, good in each(pool, problem.outcomes_at, calls):
            ...

A worker computes with the device, the precision and the code of the caller, or raises an error.
The calls of a worker that is lost are repeated by the others.
"""

import contextlib
import functools
import itertools
import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxsim.compilation import cache_settings
from optimize.results.digest import code_digest
from optimize.results.folder import library_versions
from optimize.session import session

EXTRA = 'pip install "jaxsim-characters[cluster]"'
SLURM = "slurm"
Calls = Generator[Any, None, None]
AHEAD = 2  # calls for each worker that are under way or wait there
# A Ctrl-C reaches all processes of a terminal; the caller ends after the chunk under way.
PATIENT = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"
PATIENCE = 30.0  # for a scheduler to answer [s]


@dataclass(frozen=True)
class Workers:
    """Pool of Dask workers. client: of Dask. count: how many workers there are, or will be."""

    client: Any
    count: int

    def each(self, function: Callable[..., Any], calls: Iterable[tuple]) -> Calls:
        """Results of calls on these workers, see ``each``; only a few calls ahead are under way."""
        job, like, waiting = _sent(function), _here(), deque()
        calls = iter(calls)
        try:
            while True:
                room = AHEAD * max(1, len(self.client.nthreads())) - len(waiting)
                for call in itertools.islice(calls, max(0, room)):
                    waiting.append(self.client.submit(_done, job, like, call, pure=False))
                if not waiting:
                    return
                yield _result(waiting.popleft())
        finally:
            self.client.cancel(list(waiting))


def each(pool: Workers | None, function: Callable[..., Any], calls: Iterable[tuple]) -> Calls:
    """Results of the function for each tuple of arguments, in order; without a pool computed here.

    The function and all that it holds is sent by cloudpickle. Raises its errors; ValueError where
    it cannot be sent, RuntimeError where workers are lost repeatedly at the same call.
    """
    yield from itertools.starmap(function, calls) if pool is None else pool.each(function, calls)


@contextlib.contextmanager
def workers(cluster: Any) -> Iterator[Workers | None]:
    """Context with a pool of workers, None for none.

    cluster: None; a Client of Dask, or the address of its scheduler ("tcp://host:8786"), which go
    on afterwards; a number of processes of this machine; "slurm:8", eight jobs as the file
    jobqueue.yaml of dask-jobqueue describes them. Raises ImportError, naming the extra, ValueError
    for anything else, OSError where no scheduler answers.
    """
    check_cluster(cluster)
    if cluster is None:
        yield None
        return
    distributed = _need("distributed", EXTRA)
    kind, colon, jobs = str(cluster).partition(":")
    with contextlib.ExitStack() as stack:
        if isinstance(cluster, distributed.Client):
            client, count = cluster, 0
        elif not colon:
            options: dict[str, Any] = dict(n_workers=int(kind), threads_per_worker=1)
            # A chunk bounds the memory; the dashboard would open a port.
            options |= dict(memory_limit=None, dashboard_address=None, preload=[PATIENT])
            local = stack.enter_context(distributed.LocalCluster(**options))
            client, count = stack.enter_context(distributed.Client(local)), int(kind)
        elif kind == SLURM:
            queue = _need("dask_jobqueue", "pip install dask-jobqueue").SLURMCluster()
            queue = stack.enter_context(queue)
            queue.scale(jobs=int(jobs))
            client, count = stack.enter_context(distributed.Client(queue)), int(jobs)
        else:
            client, count = stack.enter_context(_connected(distributed, cluster)), 0
        client.wait_for_workers(1)
        yield Workers(client, count or len(client.nthreads()))


def check_cluster(cluster: Any) -> None:
    """Raise the ValueError and ImportError of ``workers`` before anything is started."""
    if cluster is None:
        return
    distributed = _need("distributed", EXTRA)
    if isinstance(cluster, distributed.Client):
        if cluster.status != "running":
            raise ValueError("cluster: the Client is closed; give one that is open")
        return
    kind, colon, jobs = str(cluster).partition(":")
    count = jobs if kind == SLURM else "" if colon else kind
    counted = count.isdecimal() and int(count) > 0
    if not counted and not (isinstance(cluster, str) and colon and kind != SLURM):
        raise ValueError(
            f"cluster is {cluster!r}; give a number of workers, a scheduler's address as"
            " tcp://host:8786, slurm:8, or a Client of Dask"
        )


def _need(name: str, how: str) -> Any:
    try:
        return __import__(name)
    except ImportError as error:
        raise ImportError(f"cluster= needs {name}: {how}", name=error.name) from error


def _connected(distributed: Any, address: str) -> Any:
    try:
        return distributed.Client(address, timeout=PATIENCE)
    except (OSError, TimeoutError) as error:
        raise OSError(f"no scheduler answers at {address}: start one (dask scheduler)") from error


def _sent(function: Callable[..., Any]) -> bytes:
    import cloudpickle

    try:
        return cloudpickle.dumps(function)
    except Exception as error:  # of whatever the user's own parts hold
        raise ValueError(
            f"cluster: what is simulated cannot be sent to a worker ({error}); files, locks and"
            " generators in a controller or measure cannot"
        ) from error


def _result(future: Any) -> Any:
    from distributed.scheduler import KilledWorker

    try:
        return future.result()
    except KilledWorker as error:
        raise RuntimeError(
            f"{error.allowed_failures + 1} workers were lost at the same call, the last of them"
            f" {error.last_worker.address}; if their memory did not do, give a smaller chunk"
        ) from None


# ---- on a worker


class _Like(NamedTuple):
    """Settings of the calling process that decide the digits of a result."""

    device: str
    precision: str
    cached: bool  # whether compiled programs are cached, as in a session
    made_of: tuple[tuple[str, str | None], ...]  # code and libraries


def _here() -> _Like:
    device = "cpu" if jax.default_backend() == "cpu" else "gpu"
    settings = cache_settings()
    kept = bool(settings["jax_enable_compilation_cache"] and settings["jax_compilation_cache_dir"])
    return _Like(device, jnp.zeros(()).dtype.name, kept, _made_of())


@functools.cache
def _made_of() -> tuple[tuple[str, str | None], ...]:
    return (*code_digest(), *library_versions().items())


def _done(job: bytes, like: _Like, call: tuple) -> Any:
    """Run a call on a worker, under the settings of the calling process."""
    if _made_of() != like.made_of:
        own, theirs = dict(_made_of()), dict(like.made_of)
        told = [f"{n} is {own.get(n)}, not {theirs[n]}" for n in theirs if own.get(n) != theirs[n]]
        raise ValueError(
            f"the worker {_name()} has other code: {'; '.join(told)}; install the same"
        )
    with session(like.device, like.precision, like.cached, notices=False):
        return _loaded(job, like.precision)(*call)


@functools.lru_cache(maxsize=2)
def _loaded(job: bytes, precision: str) -> Callable[..., Any]:
    """Function of a job, unpickled once, so that what it compiles is reused."""
    import cloudpickle

    try:
        return cloudpickle.loads(job)
    except ImportError as error:
        raise ValueError(
            f"the worker {_name()} lacks what is simulated ({error}); install the module there, or"
            " define the measure or controller in the script that runs"
        ) from error


def _name() -> str:
    import socket

    return f"{socket.gethostname()} (process {os.getpid()})"
