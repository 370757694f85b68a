"""The program on Dr.Jit: each value becomes a variable of a kernel, each loop a symbolic loop.

Nothing runs here. Dr.Jit records the operations, compiles them once and keeps the kernel on disk,
so that a program seen before costs only its recording.
"""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np

from jaxsim.fused.core import core
from jaxsim.fused.operations import operations
from jaxsim.fused.program import Block, Branch, Loop, Memory, Program, Value, walk

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
    """Where the lanes of a recording find their inputs and outputs; packets begin at multiples of
    ``PACKET``."""

    def __init__(self, types, inputs: list, own, outputs: list, sizes: list[int], batch: int):
        import drjit

        self.dr, self.types, self.batch = drjit, types, batch
        self.inputs, self.own, self.outputs, self.sizes = inputs, own, outputs, sizes
        self.lane = drjit.arange(types.UInt, batch)

    def read(self, memory: Memory, at):
        """A number of an input."""
        source = self.inputs[memory.leaf]
        return self.dr.gather(type(source), source, self._input(memory, at))

    def read_packet(self, memory: Memory, at):
        """The next numbers of an input."""
        source = self.inputs[memory.leaf]
        at, shape = self._input(memory, at) // PACKET, (PACKET, self.batch)
        return self.dr.gather(getattr(self.types, ROWS[memory.dtype.name]), source, at, shape=shape)

    def write(self, leaf: int, at, number) -> None:
        """A number of an output."""
        index = self.lane * self.sizes[leaf] + at
        self.dr.scatter(self.outputs[leaf], number, index, mode=self.dr.ReduceMode.Permute)

    def write_packet(self, memory: Memory, at, numbers: list) -> None:
        """The next numbers of an output."""
        index = (self.lane * memory.size + at) // PACKET
        row = getattr(self.types, ROWS[memory.dtype.name])(numbers)
        self.dr.scatter(self.outputs[memory.leaf], row, index, mode=self.dr.ReduceMode.Permute)

    def _input(self, memory: Memory, at):
        return self.lane * memory.size + at if self.own[memory.leaf] else at


class Replay:
    """One recording."""

    def __init__(self, types: ModuleType, buffers: Buffers):
        import drjit

        self.dr, self.types, self.buffers = drjit, types, buffers
        self.made: dict[int, Any] = {}  # variables by the id of their value
        self.tables: dict[int, Any] = {}  # buffers of local and constant memory, by its id
        self.operations = operations(drjit, self.type)
        self.core = core() if types.__name__ == "drjit.llvm" else None
        self.true = types.Bool(True)

    def type(self, dtype: np.dtype):
        """The array type of a dtype."""
        return getattr(self.types, TYPES[dtype.name])

    def run(self, program: Program) -> None:
        """Record the program, its outputs last."""
        self.block(program.block)
        for leaf, output in enumerate(program.outputs):
            if not isinstance(output, Memory):
                for k, value in enumerate(output.reshape(-1)):
                    self.buffers.write(leaf, self.types.UInt(k), self.variable(value))

    def variable(self, value: Value):
        """The variable of a value."""
        if value.op == "constant":
            return self.type(value.dtype)(value.data.item())
        return self.made[id(value)]

    def copy(self, value: Value):
        """The same in an object of its own: Dr.Jit writes results into those that it is given."""
        variable = self.variable(value)
        return type(variable)(variable)

    def wide(self, value: Value):
        """The same with a number for each lane. What begins as a single number Dr.Jit takes for one
        number of all lanes in the whole loop, and reads memory for all of them where one points."""
        variable = self.copy(value)
        return self.dr.select(
            self.dr.full(self.types.Bool, True, self.buffers.batch), variable, variable
        )

    def block(self, block: Block) -> None:
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

    def load(self, memory: Memory, index: Value):
        """A number of memory."""
        at = self.types.UInt(self.variable(index))
        if memory.kind == "input":
            return self.buffers.read(memory, at)
        table = self.table(memory)
        if memory.kind != "local":
            return self.dr.gather(self.type(memory.dtype), table, at)
        with self.all_lanes(index):
            return table[at] == 1 if memory.dtype == bool else table[at]

    def store(self, memory: Memory, index: Value, number: Value) -> None:
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
        """At a known place of local memory all lanes read and write, which is one instruction; else
        a write by some is a read, a choice and a write, and of thousands of such reads in a loop
        LLVM makes carries. See ``Memory`` for why the others may; at a computed place, which is
        that of the lanes that take part, they may not."""
        if self.core is None or not index.is_constant:
            return nullcontext()
        return self.core.all_lanes(self.true)

    def table(self, memory: Memory):
        """The buffer of local or constant memory."""
        if id(memory) not in self.tables:
            # LLVM refuses what Dr.Jit makes of local bools: integers stand for them
            kind = self.types.UInt if memory.dtype == bool else self.type(memory.dtype)
            self.tables[id(memory)] = self.dr.alloc_local(kind, memory.size)
        return self.tables[id(memory)]

    def loop(self, loop: Loop) -> None:
        """Record a loop; what it writes to in local memory is part of its state.

        Carries that a round hands on as they came are none of its state: Dr.Jit would find that out
        itself, record the body again, and lose what loops within it had made.
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
        """Record a branch; lanes run the block of theirs."""
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
    """``PACKET`` numbers of a memory that a block reads, or writes, by their places; they begin at
    ``start`` + ``offset``, both multiples of it."""

    memory: Memory
    start: Value
    offset: int
    numbers: dict[int, Value] = field(default_factory=dict)


def packets(block: Block) -> dict[int, Packet]:
    """By the ids of the loads and stores that go together."""
    found: dict[tuple, Packet] = {}
    for value in block.ops:
        if value.op not in ("load", "store") or value.data.kind not in ("input", "output"):
            continue
        memory, (start, k) = value.data, _row(value.args[0])
        if start is not None and k >= 0 and not memory.size % PACKET and memory.dtype.kind == "f":
            key = value.op, id(memory), id(start), k // PACKET
            packet = found.setdefault(key, Packet(memory, start, k - k % PACKET))
            packet.numbers.setdefault(k % PACKET, value)
    whole = (packet for packet in found.values() if len(packet.numbers) == PACKET)
    return {id(value): packet for packet in whole for value in packet.numbers.values()}


def _row(index: Value) -> tuple[Value | None, int]:
    """An index as the start of a row, a computed multiple of ``PACKET``, and the place after it."""
    known = [int(a.data) for a in index.args if a.is_constant]
    if index.op == "add" and known:
        start, k = _row(next(a for a in index.args if not a.is_constant))
        return start, k + known[0]
    return index if index.op == "mul" and any(c % PACKET == 0 for c in known) else None, 0


def local_bytes(program: Program) -> int:
    """How much local memory a lane has."""
    sizes = {m: 4 if m.dtype == bool else m.dtype.itemsize for m in _written(program.block)}
    return sum(m.size * bytes_ for m, bytes_ in sizes.items())


def constants(block: Block) -> list[Memory]:
    """The constant memory that a block reads."""
    found = {
        id(v.data): v.data for v in walk(block) if v.op == "load" and v.data.kind == "constant"
    }
    return list(found.values())


def _written(block: Block) -> list[Memory]:
    found = {id(v.data): v.data for v in walk(block) if v.op == "store" and v.data.kind == "local"}
    return list(found.values())
