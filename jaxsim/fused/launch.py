"""Run a program over a batch: buffers in and out without copies, kernels kept for reuse."""

import math
import threading
from functools import cached_property
from typing import Any

import jax
import numpy as np

from jaxsim.fused import rules  # noqa: F401  (fills the table of rules)
from jaxsim.fused.errors import FuseError
from jaxsim.fused.lanes import set_lanes
from jaxsim.fused.llvm import prepare
from jaxsim.fused.lower import lower, no_collection
from jaxsim.fused.program import Memory, Program, walk
from jaxsim.fused.replay import TYPES, Buffers, Replay, constants, local_bytes

_ONE_AT_A_TIME = threading.Lock()  # Dr.Jit records on one thread at a time


class Kernel:
    """The jaxpr of one character, its program, and the recordings made of it."""

    def __init__(self, closed_jaxpr):
        self.jaxpr = closed_jaxpr
        self.in_avals = [v.aval for v in closed_jaxpr.jaxpr.invars]
        self.out_avals = [v.aval for v in closed_jaxpr.jaxpr.outvars]
        self._recorded: dict = {}

    @cached_property
    def program(self) -> Program:
        """Lowered when it is first asked for."""
        program = lower(self.jaxpr)
        local_bytes(program)  # checked here, because Dr.Jit hides what is raised in a recording
        return program

    def known(self) -> dict[int, np.ndarray]:
        """The outputs that do not depend on the inputs."""
        found = {}
        for leaf, (made, aval) in enumerate(zip(self.program.outputs, self.out_avals)):
            if not isinstance(made, Memory) and made.size and all(v.is_constant for v in made.flat):
                numbers = np.array([v.data for v in made.flat], aval.dtype)
                found[leaf] = numbers.reshape(aval.shape)
        return found

    def returning(self, wanted: list[int]) -> "Kernel":
        """The same kernel with some of its outputs."""
        jaxpr = self.jaxpr.jaxpr
        outvars = [jaxpr.outvars[k] for k in wanted]
        unnamed = jaxpr.debug_info.with_unknown_names()
        kernel = Kernel(
            self.jaxpr.replace(jaxpr=jaxpr.replace(outvars=outvars, debug_info=unnamed))
        )
        outputs = [self.program.outputs[k] for k in wanted]
        for leaf, made in reversed(list(enumerate(outputs))):
            if isinstance(made, Memory):
                made.leaf = leaf
        kernel.program = Program(self.program.block, self.program.inputs, outputs)
        return kernel

    @cached_property
    def tables(self) -> list[Memory]:
        """The constant memory that the program reads."""
        return constants(self.program.block)

    @cached_property
    def written(self) -> list[int]:
        """For each output the one whose buffer holds it: itself, or an earlier one like it."""
        return [
            made.leaf if isinstance(made, Memory) else leaf
            for leaf, made in enumerate(self.program.outputs)
        ]

    @cached_property
    def local(self) -> int:
        """Bytes of a lane's local memory."""
        return local_bytes(self.program)

    @cached_property
    def doubles(self) -> bool:
        """Whether most of its floats have 64 bits; with ``jax_enable_x64`` a few easily do."""
        sizes = [v.dtype.itemsize for v in walk(self.program.block) if v.dtype.kind == "f"]
        return sizes.count(8) > sizes.count(4)

    def run(self, leaves, own: tuple[bool, ...], batch: int, platform: str, as_numpy=False) -> list:
        """All lanes of a batch: ``own[k]`` says that input k has one row a lane, else it is shared.

        leaves: arrays of the dtypes and (behind the batch axis) shapes of the jaxpr's inputs.
        Returns one array (batch, ...) for each output.
        """
        shapes = [(batch, *aval.shape) for aval in self.out_avals]
        if not any(map(math.prod, shapes)):
            return [_empty(s, a.dtype, as_numpy) for s, a in zip(shapes, self.out_avals)]
        inputs = ((batch if mine else 1, *a.shape) for mine, a in zip(own, self.in_avals))
        largest = max(map(math.prod, (*inputs, *shapes)))
        if largest >= 2**32:
            raise FuseError(f"an array of {largest} numbers is too large; take a smaller batch")
        with _ONE_AT_A_TIME:
            types = prepare(platform)
            import drjit as dr

            lanes = set_lanes(batch, self.doubles, self.local) if platform == "cpu" else 0
            key = (own, batch, platform, lanes)
            if key not in self._recorded:
                tables = [_buffer(types, m.values, platform) for m in self.tables]
                recording = dr.freeze(
                    lambda flat, tables: self._record(types, flat, tables, own, batch)
                )
                self._recorded[key] = recording, tables
            recording, tables = self._recorded[key]
            flat = [_buffer(types, x, platform) for x in leaves]
            with dr.scoped_set_flag(dr.JitFlag.FastMath, False), no_collection():
                outputs = recording(flat, tables)
                dr.eval(outputs)
            dr.sync_thread()
            return [
                _array(outputs[leaf], shape, aval.dtype, platform, as_numpy)
                for leaf, shape, aval in zip(self.written, shapes, self.out_avals)
            ]

    def _record(self, types, flat, tables, own, batch: int) -> list:
        """Record the program for Dr.Jit; returns the buffers of the outputs."""
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


def _buffer(types, x, platform: str):
    """A flat Dr.Jit array over the memory of a JAX or numpy array."""
    kind = getattr(types, TYPES[np.dtype(x.dtype).name])
    if math.prod(x.shape) == 0:
        return kind(0)
    if platform == "cpu" or isinstance(x, np.ndarray):
        return kind(np.asarray(x).reshape(-1))
    return kind(x.reshape(-1))


def _array(x, shape, dtype, platform: str, as_numpy: bool) -> Any:
    """A JAX (or numpy) array over the memory of a Dr.Jit array."""
    if math.prod(shape) == 0:
        return _empty(shape, dtype, as_numpy)
    if as_numpy:
        return x.numpy().reshape(shape)
    return jax.dlpack.from_dlpack(_shaped(x, shape))


def _shaped(x, shape):
    """With its shape from the start: JAX's own reshape would copy."""
    import drjit as dr

    tensor: Any = dr.tensor_t(type(x))
    return tensor(x, shape)


def _empty(shape, dtype, as_numpy: bool) -> Any:
    return np.zeros(shape, dtype) if as_numpy else jax.numpy.zeros(shape, dtype)
