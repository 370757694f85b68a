"""Run a program over a batch: buffers in and out without copies, cached recordings."""

import math
import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import cached_property
from typing import Any

import jax
import numpy as np

from jaxsim.compilation import notice_if_long
from jaxsim.fused import (
    cuda,
    rules,  # noqa: F401  (fills the table of rules)
)
from jaxsim.fused.digest import digest
from jaxsim.fused.errors import FuseError, NoRule, warn_of_xla
from jaxsim.fused.explain import most_alive
from jaxsim.fused.lanes import room, set_lanes
from jaxsim.fused.llvm import prepare
from jaxsim.fused.lower import lower, no_collection
from jaxsim.fused.program import KernelMemory, KernelProgram, walk
from jaxsim.fused.replay import TYPES, Buffers, Replay, constants, local_bytes

# Number of complete kernels. Of others, used longest ago, only the jaxpr remains, from which the
# rest is made again when needed.
KERNELS_KEPT = 64
ALIGNED = 64  # bytes
SIZES_KEPT = 16  # batch sizes for which a kernel has recordings

_ONE_AT_A_TIME = threading.Lock()  # Dr.Jit records on one thread at a time
_recent: "OrderedDict[weakref.ref[Kernel], None]" = OrderedDict()
_used_by: list[int] = []  # id of the process that has run kernels


class Kernel:
    """Jaxpr of one character, with its program and the recordings made of it."""

    def __init__(self, closed_jaxpr):
        self.jaxpr = closed_jaxpr
        self.in_avals = [v.aval for v in closed_jaxpr.jaxpr.invars]
        self.out_avals = [v.aval for v in closed_jaxpr.jaxpr.outvars]
        self._recorded: OrderedDict = OrderedDict()
        self._compiled: dict = {}

    @cached_property
    def program(self) -> KernelProgram:
        """Program of the jaxpr, lowered at the first use."""
        with notice_if_long("making a fused kernel"):
            return lower(self.jaxpr)

    @cached_property
    def lacks(self) -> str | None:
        """Message about a primitive without a rule, for which XLA runs the function; else None.

        The first use warns of it.
        """
        try:
            _ = self.program
        except NoRule as error:
            warn_of_xla(str(error))
            return str(error)
        return None

    @cached_property
    def digest(self) -> str:
        """Digest of the program, see ``digest``."""
        return digest(self.program)

    def known(self) -> dict[int, np.ndarray]:
        """Constant outputs by index, which do not depend on the inputs."""
        if self.lacks:
            return {}
        constant_outputs = {}
        for leaf, (made, aval) in enumerate(zip(self.program.outputs, self.out_avals)):
            if (
                not isinstance(made, KernelMemory)
                and made.size
                and all(v.is_constant for v in made.flat)
            ):
                numbers = np.array([v.data for v in made.flat], aval.dtype)
                constant_outputs[leaf] = numbers.reshape(aval.shape)
        return constant_outputs

    def forget(self) -> None:
        """Drop all that can be made again from the jaxpr: the program and its recordings."""
        for name in ("program", "tables", "written", "local", "doubles"):
            self.__dict__.pop(name, None)
        while self._recorded:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        (_, _, (kind, device)), recording = self._recorded.popitem(last=False)
        if kind == "cuda":  # a kernel that still runs, on another thread's stream, reads its tables
            cuda.finish(device)
        del recording

    def returning(self, indices: list[int]) -> "Kernel":
        """Kernel that returns only the outputs with these indices."""
        jaxpr = self.jaxpr.jaxpr
        outvars = [jaxpr.outvars[k] for k in indices]
        unnamed = jaxpr.debug_info.with_unknown_names()
        kernel = Kernel(
            self.jaxpr.replace(jaxpr=jaxpr.replace(outvars=outvars, debug_info=unnamed))
        )
        if self.lacks:
            return kernel
        outputs = [self.program.outputs[k] for k in indices]
        for leaf, made in reversed(list(enumerate(outputs))):
            if isinstance(made, KernelMemory):
                made.leaf = leaf
        kernel.program = KernelProgram(self.program.block, self.program.inputs, outputs)
        return kernel

    @cached_property
    def tables(self) -> list[KernelMemory]:
        """Constant memories that the program reads."""
        return constants(self.program.block)

    @cached_property
    def written(self) -> list[int]:
        """Index of the buffer of each output: its own, or that of an equal earlier output."""
        return [
            made.leaf if isinstance(made, KernelMemory) else leaf
            for leaf, made in enumerate(self.program.outputs)
        ]

    @cached_property
    def local(self) -> int:
        """Size of a lane's local memory [bytes]."""
        return local_bytes(self.program)

    @cached_property
    def frame(self) -> int:
        """Largest local memory of a GPU's thread [bytes]: its arrays, and the values alive at once.

        Of these registers may hold none, and the compiler stores some twice.
        """
        alive = (8 if self.doubles else 4) * most_alive(self.program)
        return self.local + alive + alive // 4

    @cached_property
    def doubles(self) -> bool:
        """True if most of its floats have 64 bits; with ``jax_enable_x64`` a few easily do."""
        sizes = [v.dtype.itemsize for v in walk(self.program.block) if v.dtype.kind == "f"]
        return sizes.count(8) > sizes.count(4)

    def input_shapes(self, own: tuple[bool, ...], batch: int) -> list[tuple[int, ...]]:
        """Shapes of the inputs: input k has one row a lane if ``own[k]``, else one row for all."""
        return [(batch if mine else 1, *a.shape) for mine, a in zip(own, self.in_avals)]

    def output_shapes(self, batch: int) -> list[tuple[int, ...]]:
        """Shapes of the outputs, each with a row a lane."""
        return [(batch, *aval.shape) for aval in self.out_avals]

    def check(self, own: tuple[bool, ...], batch: int, platform: str) -> None:
        """Raise FuseError if the function, or this batch of it, cannot run on "cpu" or "cuda"."""
        most = room() if platform == "cpu" else cuda.MOST_LOCAL
        if self.local > most:
            where = "this machine's stacks (ulimit -s) there is" if platform == "cpu" else (
                "a GPU there is"
            )  # fmt: skip
            raise FuseError(
                f"the function keeps {self.local} bytes a lane that are read at computed indices;"
                f" on {where} room for {most}. Keep less (fewer rows of a scan's ys that are read"
                " again), or return it and read it in a second function"
            )
        shapes = (*self.input_shapes(own, batch), *self.output_shapes(batch))
        if (largest := max(map(math.prod, shapes), default=0)) >= 2**32:
            raise FuseError(f"an array of {largest} numbers is too large; take a smaller batch")

    def run(self, leaves, own: tuple[bool, ...], batch: int) -> list:
        """Run all lanes of a batch on the CPU: an array (batch, ...) for each output.

        leaves: arrays of the dtypes and (after the batch axis) shapes of the jaxpr's inputs.
        """
        made = self.on_host(leaves, own, batch)
        return [
            jax.dlpack.from_dlpack(_shaped(x, shape))
            if math.prod(shape)
            else jax.numpy.zeros(shape, aval.dtype)
            for x, shape, aval in zip(made, self.output_shapes(batch), self.out_avals)
        ]

    def on_host(self, leaves, own: tuple[bool, ...], batch: int) -> list:
        """Run all lanes of a batch on the CPU: flat Dr.Jit arrays of outputs, None if empty."""
        if not any(map(math.prod, self.output_shapes(batch))):
            return [None] * len(self.out_avals)
        self.check(own, batch, "cpu")
        given = _apart([np.asarray(x) for x in leaves])  # before the lock: it may wait for one
        with _one_at_a_time(self):
            types = prepare("cpu")
            import drjit as dr

            made = {lanes for of, _, (kind, lanes) in self._recorded if (of, kind) == (own, "cpu")}
            lanes = set_lanes(batch, self.doubles, self.local, made)
            flat = [_buffer(types, x) for x in given]
            made = self._launch(types, flat, own, batch, ("cpu", lanes))
            dr.sync_thread()
        return made

    @contextmanager
    def on_gpu(self, device: int, own: tuple[bool, ...], batch: int) -> Iterator[Callable]:
        """Context with a function that runs all lanes on a GPU, from (pointer, size) of inputs.

        It returns arrays as ``on_host`` does, possibly before they are computed. Until the end of
        the context no other thread uses Dr.Jit.
        """
        self.check(own, batch, "cuda")
        with _one_at_a_time(self):
            types = prepare("cuda")
            self._foresee(device, batch)

            def launch(inputs: list[tuple[int, int]]) -> list:
                kinds = [getattr(types, TYPES[a.dtype.name]) for a in self.in_avals]
                flat = [cuda.wrap_memory(k, *x) if x[1] else k(0) for k, x in zip(kinds, inputs)]
                for k in _again([pointer if size else None for pointer, size in inputs]):
                    flat[k] = cuda.copy_array(types, flat[k])
                return self._launch(types, flat, own, batch, ("cuda", device))

            yield launch

    def foresee(self, device: int, batch: int) -> None:
        """Raise FuseError where a batch would take more memory than a GPU has."""
        with _one_at_a_time(self):
            prepare("cuda")
            self._foresee(device, batch)

    def _foresee(self, device: int, batch: int) -> None:
        cuda.use(device)
        sizes = map(math.prod, self.output_shapes(batch))
        outputs = sum(n * aval.dtype.itemsize for n, aval in zip(sizes, self.out_avals))
        cuda.foresee(device, self.frame, outputs)

    def compiled(self, own: tuple[bool, ...], batch: int | None, make: Callable) -> Callable:
        """Cached result of ``make`` for these batch axes and this batch size."""
        if (own, batch) not in self._compiled:
            self._compiled[own, batch] = make()
        return self._compiled[own, batch]

    def _launch(self, types, flat: list, own, batch: int, place: tuple[str, int]) -> list:
        """Run the recording for a batch and a place; it is made at first use."""
        import drjit as dr

        key = own, batch, place
        new = key not in self._recorded
        if new:
            tables = [_buffer(types, np.asarray(m.values)) for m in self.tables]
            dr.sync_thread()  # other threads, with streams of their own, read them too
            recording = dr.freeze(
                lambda flat, tables: self._record(types, flat, tables, own, batch)
            )
            self._recorded[key] = recording, tables
            if len(self._recorded) > SIZES_KEPT:
                self._forget_oldest()
        self._recorded.move_to_end(key)
        recording, tables = self._recorded[key]
        watch = notice_if_long("compiling a fused kernel") if new else nullcontext()
        with dr.scoped_set_flag(dr.JitFlag.FastMath, False), no_collection(), watch:
            outputs = recording(flat, tables)
            dr.eval(outputs)
        sizes = map(math.prod, self.output_shapes(batch))
        return [outputs[leaf] if size else None for leaf, size in zip(self.written, sizes)]

    def _record(self, types, flat, tables, own, batch: int) -> list:
        """Record the program with Dr.Jit; returns the buffers of the outputs."""
        import drjit as dr

        sizes = [math.prod(aval.shape) for aval in self.out_avals]
        outputs = [
            dr.empty(
                getattr(types, TYPES[aval.dtype.name]),
                max(batch * size, 1) if self.written[leaf] == leaf else 1,
            )
            for leaf, (aval, size) in enumerate(zip(self.out_avals, sizes))
        ]

        replay = Replay(types, Buffers(types, flat, own, outputs, sizes, batch))
        replay.tables.update({id(m): t for m, t in zip(self.tables, tables)})
        replay.run(self.program)
        return outputs


def check_process() -> None:
    """Raise FuseError in a fork of a process that has run kernels.

    Their threads do not exist in the fork, which would wait for them for ever.
    """
    if _used_by and _used_by[0] != os.getpid():
        raise FuseError(
            f"process {os.getpid()} is a fork of {_used_by[0]}, which had already run kernels;"
            " their threads, like those of JAX, do not survive a fork. Start processes anew:"
            ' multiprocessing.get_context("spawn"), or fork before the first kernel runs'
        )


@contextmanager
def _one_at_a_time(kernel: Kernel) -> Iterator[None]:
    """Context with exclusive use of Dr.Jit; recordings of kernels used long ago are dropped."""
    check_process()
    with _ONE_AT_A_TIME:
        _used_by[:] = [os.getpid()]
        ref = weakref.ref(kernel)
        _recent[ref] = None
        _recent.move_to_end(ref)
        for old in [r for r in _recent if r() is None]:
            del _recent[old]
        while len(_recent) > KERNELS_KEPT:
            oldest = _recent.popitem(last=False)[0]()
            if oldest is not None:
                oldest.forget()
        yield


def _again(places: list) -> list[int]:
    """Indices of the addresses that occur earlier in the list; None is no address."""
    known: set = set()
    return [k for k, at in enumerate(places) if at is not None and (at in known or known.add(at))]


def _apart(arrays: list[np.ndarray]) -> list[np.ndarray]:
    """Copy arrays where needed so that no two share an address and all are aligned.

    A recording of inputs that are one array would read that for all of them in later calls, too.
    For an array that is not aligned Dr.Jit would make another recording.
    """
    places = [_place(x) if x.size else None for x in arrays]
    again = set(_again(places))
    return [
        _aligned(x) if at is not None and (at % ALIGNED or k in again) else x
        for k, (x, at) in enumerate(zip(arrays, places))
    ]


def _place(x: np.ndarray) -> int:
    return x.__array_interface__["data"][0]


def _aligned(x: np.ndarray) -> np.ndarray:
    """Copy an array to an address that is a multiple of ``ALIGNED``."""
    room = np.empty(x.nbytes + ALIGNED, np.uint8)
    first = -_place(room) % ALIGNED
    copy = room[first : first + x.nbytes].view(x.dtype).reshape(x.shape)
    copy[...] = x
    return copy


def _buffer(types, x: np.ndarray):
    """Make a flat Dr.Jit array over the memory of an array; on a GPU a copy."""
    kind = getattr(types, TYPES[np.dtype(x.dtype).name])
    return kind(x.reshape(-1)) if x.size else kind(0)


def _shaped(x, shape):
    """Make a Dr.Jit tensor of a shape without a copy, which JAX's reshape would make."""
    import drjit as dr

    tensor: Any = dr.tensor_t(type(x))
    return tensor(x, shape)
