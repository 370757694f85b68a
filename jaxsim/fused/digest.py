"""Digest of a program: equal digests mean equal functions."""

import hashlib
from collections.abc import Iterator

import numpy as np

from jaxsim.fused.program import Branch, KernelMemory, KernelProgram, Loop, ProgramBlock, Value


def digest(program: KernelProgram) -> str:
    """Digest of all operations of a program, equal in every process.

    XLA's caches identify compiled programs by their text: a call of a fused function contains this
    digest.
    """
    of = hashlib.sha256()
    for line in _ProgramText().lines(program):
        of.update(line.encode() + b"\n")
    return of.hexdigest()


class _ProgramText:
    """Text of a program, with values and memories numbered in order of appearance."""

    def __init__(self):
        self.numbers: dict[int, int] = {}

    def number(self, thing: Value | KernelMemory) -> int:
        return self.numbers.setdefault(id(thing), len(self.numbers))

    def value(self, value: Value) -> str:
        if value.is_constant:  # with all its bits
            return f"{value.dtype.name}:{np.asarray(value.data, value.dtype).tobytes().hex()}"
        return f"v{self.number(value)}"

    def values(self, values) -> str:
        return " ".join(map(self.value, values))

    def memory(self, memory: KernelMemory) -> str:
        if id(memory) in self.numbers:
            return f"m{self.number(memory)}"
        values = b"" if memory.values is None else np.ascontiguousarray(memory.values).tobytes()
        content = hashlib.sha256(values).hexdigest()
        about = memory.kind, memory.dtype.name, memory.size, memory.leaf, content
        return f"m{self.number(memory)}={about}"

    def lines(self, program: KernelProgram) -> Iterator[str]:
        for memory in program.inputs:
            yield self.memory(memory)
        yield from self.block(program.block)
        for made in program.outputs:
            if isinstance(made, KernelMemory):
                yield f"output {self.memory(made)}"
            else:
                yield f"output {made.shape} {self.values(made.reshape(-1))}"

    def block(self, block: ProgramBlock) -> Iterator[str]:
        yield "{"
        for value in block.ops:
            data = value.data
            head = f"{value.op} {value.dtype.name} {self.values(value.args)}"
            if isinstance(data, KernelMemory):
                yield f"{self.value(value)} = {head} {self.memory(data)}"
            elif isinstance(data, Loop):
                counter = [] if data.counter is None else [data.counter]
                yield f"{head} {data.length} {data.alive} {self.values(counter)}"
                yield f"{self.values(data.inits)} | {self.values(data.params)}"
                yield from self.block(data.body)
                yield f"{self.values(data.outs)} | {self.values(data.results)}"
            elif isinstance(data, Branch):
                yield head
                for inner, outs in zip(data.blocks, data.outs):
                    yield from self.block(inner)
                    yield self.values(outs)
                yield self.values(data.results)
            else:
                yield f"{self.value(value)} = {head} {data}"
        yield "}"
