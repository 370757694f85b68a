"""Record a program with Dr.Jit: each value becomes a variable of a kernel, each loop symbolic.

Nothing runs here. Dr.Jit records the operations, compiles them once and caches the kernel on disk,
so that a known program costs only its recording.
"""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np

from jaxsim.fused.core import core
from jaxsim.fused.operations import operations
from jaxsim.fused.program import (
    Branch,
    KernelMemory,
    KernelProgram,
    Loop,
    ProgramBlock,
    Value,
    walk,
)

PACKET = 8  # numbers of a row that are read or written together


TYPES = {
    "bool": "Bool",
    "int32": "Int",
    "uint32": "UInt",
    "int64": "Int64",
    "uint64": "UInt64",
    "float32": "Float",
    "float64": "Float64",
}

ROWS = {"float32": "ArrayXf", "float64": "ArrayXf64"}  # several numbers of a lane


class Buffers:
    """Input and output buffers of a recording's lanes; packets begin at multiples of ``PACKET``."""

    def __init__(self, types, inputs: list, own, outputs: list, sizes: list[int], batch: int):
        import drjit

        self.dr, self.types, self.batch = drjit, types, batch
        self.inputs, self.own, self.outputs, self.sizes = inputs, own, outputs, sizes
        self.lane = drjit.arange(types.UInt, batch)

    def read(self, memory: KernelMemory, at):
        """Read a number of an input."""
        source = self.inputs[memory.leaf]
        return self.dr.gather(type(source), source, self._input(memory, at))

    def read_packet(self, memory: KernelMemory, at):
        """Read a packet of an input."""
        source = self.inputs[memory.leaf]
        at, shape = self._input(memory, at) // PACKET, (PACKET, self.batch)
        return self.dr.gather(getattr(self.types, ROWS[memory.dtype.name]), source, at, shape=shape)

    def write(self, leaf: int, at, number) -> None:
        """Write a number of an output."""
        index = self.lane * self.sizes[leaf] + at
        self.dr.scatter(self.outputs[leaf], number, index, mode=self.dr.ReduceMode.Permute)

    def write_packet(self, memory: KernelMemory, at, numbers: list) -> None:
        """Write a packet of an output."""
        index = (self.lane * memory.size + at) // PACKET
        row = getattr(self.types, ROWS[memory.dtype.name])(numbers)
        self.dr.scatter(self.outputs[memory.leaf], row, index, mode=self.dr.ReduceMode.Permute)

    def _input(self, memory: KernelMemory, at):
        return self.lane * memory.size + at if self.own[memory.leaf] else at


class Replay:
    """Recording of one program with Dr.Jit."""

    def __init__(self, types: ModuleType, buffers: Buffers):
        import drjit

        self.dr, self.types, self.buffers = drjit, types, buffers
        self.made: dict[int, Any] = {}  # variables by the id of their value
        self.tables: dict[int, Any] = {}  # buffers of local and constant memory, by its id
        self.operations = operations(drjit, self.type)
        self.core = core() if types.__name__ == "drjit.llvm" else None
        self.true = types.Bool(True)

    def type(self, dtype: np.dtype):
        """Array type of a dtype."""
        return getattr(self.types, TYPES[dtype.name])

    def run(self, program: KernelProgram) -> None:
        """Record the program, its outputs last."""
        self.block(program.block)
        for leaf, output in enumerate(program.outputs):
            if not isinstance(output, KernelMemory):
                for k, value in enumerate(output.reshape(-1)):
                    self.buffers.write(leaf, self.types.UInt(k), self.variable(value))

    def variable(self, value: Value):
        """Dr.Jit variable of a value."""
        if value.op == "constant":
            return self.type(value.dtype)(value.data.item())
        return self.made[id(value)]

    def copy(self, value: Value):
        """Variable of a value in a new object, as Dr.Jit writes results into its arguments."""
        variable = self.variable(value)
        return type(variable)(variable)

    def wide(self, value: Value):
        """Variable of a value with a number for each lane.

        Dr.Jit would take a single number as common to all lanes in the whole loop, and would read
        memory at one index for all of them.
        """
        variable = self.copy(value)
        return self.dr.select(
            self.dr.full(self.types.Bool, True, self.buffers.batch), variable, variable
        )

    def block(self, block: ProgramBlock) -> None:
        """Record a block's values in their order."""
        together = packets(block)
        for value in block.ops:
            if id(value) in together:
                self.packet(together[id(value)], value)
            elif value.op == "loop":
                self.loop(value.data)
            elif value.op == "branch":
                self.branch(value.args[0], value.data)
            elif value.op == "load":
                self.made[id(value)] = self.load(value.data, value.args[0])
            elif value.op == "store":
                self.store(value.data, *value.args)
            else:
                args = [self.variable(a) for a in value.args]
                self.made[id(value)] = self.operations[value.op](*args, dtype=value.dtype)

    def packet(self, packet: "Packet", value: Value) -> None:
        """Read a packet where its first number is read; write it where its last one is written."""
        memory, numbers = packet.memory, packet.numbers
        at = self.types.UInt(self.variable(packet.start)) + packet.offset
        if value.op == "load" and id(value) not in self.made:
            variables = self.buffers.read_packet(memory, at)
            self.made.update((id(v), variables[k]) for k, v in numbers.items())
        elif value.op == "store" and value is next(reversed(numbers.values())):
            variables = [self.copy(numbers[k].args[1]) for k in range(PACKET)]
            self.buffers.write_packet(memory, at, variables)

    def load(self, memory: KernelMemory, index: Value):
        """Read a number of memory."""
        at = self.types.UInt(self.variable(index))
        if memory.kind == "input":
            return self.buffers.read(memory, at)
        table = self.table(memory)
        if memory.kind != "local":
            return self.dr.gather(self.type(memory.dtype), table, at)
        with self.all_lanes(index):
            return table[at] == 1 if memory.dtype == bool else table[at]

    def store(self, memory: KernelMemory, index: Value, number: Value) -> None:
        """Write to an output or to local memory."""
        at, variable = self.types.UInt(self.variable(index)), self.variable(number)
        if memory.kind == "output":
            self.buffers.write(memory.leaf, at, variable)
            return
        if memory.dtype == bool:
            variable = self.dr.select(variable, self.types.UInt(1), 0)
        with self.all_lanes(index):
            self.table(memory)[at] = variable

    def all_lanes(self, index: Value) -> AbstractContextManager:
        """Context in which all lanes read and write a known index of local memory.

        That is one instruction; a write by some lanes is a read, a select and a write, and LLVM
        turns thousands of such reads in a loop into carries. ``KernelMemory`` has the reason why
        the other lanes may write; at a computed index, which is that of the lanes that take part,
        they may not.
        """
        if self.core is None or not index.is_constant:
            return nullcontext()
        return self.core.all_lanes(self.true)

    def table(self, memory: KernelMemory):
        """Buffer of local or constant memory."""
        if id(memory) not in self.tables:
            # LLVM refuses Dr.Jit's code for local bools: integers replace them
            kind = self.types.UInt if memory.dtype == bool else self.type(memory.dtype)
            self.tables[id(memory)] = self.dr.alloc_local(kind, memory.size)
        return self.tables[id(memory)]

    def loop(self, loop: Loop) -> None:
        """Record a loop; the local memory that it writes is part of its state.

        Carries that a round does not change are not: Dr.Jit would find that out itself, record the
        body again, and lose the variables of loops within it.
        """
        written = _written(loop.body)
        for memory in written:
            self.table(memory)
        count = range(len(loop.inits))
        moving = [k for k in count if k == loop.alive or loop.outs[k] is not loop.params[k]]
        for k in set(count) - set(moving):
            for value in (loop.params[k], loop.results[k]):
                self.made[id(value)] = self.variable(loop.inits[k])
        # bounds of the state: a counter, if there is one, carries, memory
        counter = [self.types.Int(0)] if loop.length is not None else []
        state = (
            *counter,
            *(self.wide(loop.inits[k]) for k in moving),
            *(self.tables[id(m)] for m in written),
        )
        first = len(counter)
        last = first + len(moving)

        def goes_on(*state):
            if loop.length is not None:
                return state[0] < loop.length
            assert loop.alive is not None
            return state[first + moving.index(loop.alive)]

        def body(*state):
            if loop.counter is not None:
                self.made[id(loop.counter)] = state[0]
            for k, variable in zip(moving, state[first:last]):
                self.made[id(loop.params[k])] = variable
            for memory, table in zip(written, state[last:]):
                self.tables[id(memory)] = table
            self.block(loop.body)
            return (
                *([state[0] + 1] if counter else []),
                *(self.copy(loop.outs[k]) for k in moving),
                *(self.tables[id(m)] for m in written),
            )

        end = self.dr.while_loop(state, goes_on, body, mode="symbolic")
        results = [loop.results[k] for k in moving]
        self._take(results, end[first:last], written, end[last:])

    def branch(self, condition: Value, branch: Branch) -> None:
        """Record a branch; each lane runs one of its blocks."""
        written = list(dict.fromkeys(m for block in branch.blocks for m in _written(block)))
        tables = tuple(self.table(m) for m in written)

        def run(k: int):
            def run_block(*given):
                self._take((), (), written, given)
                self.block(branch.blocks[k])
                outs = map(self.copy, branch.outs[k])
                return (*outs, *(self.tables[id(m)] for m in written))

            return run_block

        end = self.dr.if_stmt(tables, self.variable(condition), run(0), run(1), mode="symbolic")
        count = len(branch.results)
        self._take(branch.results, end[:count], written, end[count:])

    def _take(self, results, variables, written, tables) -> None:
        for result, variable in zip(results, variables):
            self.made[id(result)] = variable
        for memory, table in zip(written, tables):
            self.tables[id(memory)] = table


@dataclass(eq=False)
class Packet:
    """``PACKET`` adjacent numbers of a memory that a block reads, or writes, by position.

    They begin at ``start`` + ``offset``, both multiples of ``PACKET``.
    """

    memory: KernelMemory
    start: Value
    offset: int
    numbers: dict[int, Value] = field(default_factory=dict)


def packets(block: ProgramBlock) -> dict[int, Packet]:
    """Complete packets of a block, by the ids of their loads and stores."""
    by_row: dict[tuple, Packet] = {}
    for value in block.ops:
        if value.op not in ("load", "store") or value.data.kind not in ("input", "output"):
            continue
        memory, (start, k) = value.data, _row(value.args[0])
        if start is not None and k >= 0 and not memory.size % PACKET and memory.dtype.kind == "f":
            key = value.op, id(memory), id(start), k // PACKET
            packet = by_row.setdefault(key, Packet(memory, start, k - k % PACKET))
            packet.numbers.setdefault(k % PACKET, value)
    whole = (packet for packet in by_row.values() if len(packet.numbers) == PACKET)
    return {id(value): packet for packet in whole for value in packet.numbers.values()}


def _row(index: Value) -> tuple[Value | None, int]:
    """Split an index into the start of a row, a computed multiple of ``PACKET``, and an offset."""
    known = [int(a.data) for a in index.args if a.is_constant]
    if index.op == "add" and known:
        start, k = _row(next(a for a in index.args if not a.is_constant))
        return start, k + known[0]
    return index if index.op == "mul" and any(c % PACKET == 0 for c in known) else None, 0


def local_bytes(program: KernelProgram) -> int:
    """Local memory of a lane [bytes]."""
    sizes = {m: 4 if m.dtype == bool else m.dtype.itemsize for m in _written(program.block)}
    return sum(m.size * bytes_ for m, bytes_ in sizes.items())


def constants(block: ProgramBlock) -> list[KernelMemory]:
    """Constant memories that a block reads."""
    found = {
        id(v.data): v.data for v in walk(block) if v.op == "load" and v.data.kind == "constant"
    }
    return list(found.values())


def _written(block: ProgramBlock) -> list[KernelMemory]:
    found = {id(v.data): v.data for v in walk(block) if v.op == "store" and v.data.kind == "local"}
    return list(found.values())
