"""Scalar program: the intermediate form of a JAX function of one character.

Every number is a ``Value``, made once and used by reference. Values are in blocks: that of the
program, one for the body of each loop, two for each branch. A value is in the outermost block where
all its arguments are known, so values that do not change within a loop are outside of it; but
values that only a branch needs stay in the branch.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

_NUMBERS = itertools.count()


class ProgramBlock:
    """Sequence of values; ``parent`` is the block that contains its loop or branch."""

    __slots__ = ("depth", "open", "ops", "parent")

    def __init__(self, parent: "ProgramBlock | None" = None):
        self.parent = parent
        self.depth = 0 if parent is None else parent.depth + 1
        self.ops: list[Value] = []
        self.open = True  # still being built, so that its values can be used


class Value:
    """Scalar of a program. ``op`` is a JAX primitive's name, or one of

    constant   data: a numpy scalar            param, result   data: (Loop or Branch, index)
    load       args: index; data: Memory       loop            data: Loop
    store      args: index, value; data: Memory; has no value itself
    branch     args: condition; data: Branch
    """

    __slots__ = ("args", "block", "data", "dtype", "number", "op", "source")

    def __init__(
        self,
        op: str,
        args: tuple,
        dtype: np.dtype,
        block: ProgramBlock,
        data: Any = None,
        source=None,
    ):
        self.op = op
        self.args = args
        self.dtype = dtype
        self.block = block
        self.data = data
        self.source = source  # the equation of the jaxpr it comes from
        self.number = next(_NUMBERS)  # an order that is the same in every process

    @property
    def is_constant(self) -> bool:
        return self.op == "constant"

    def __repr__(self) -> str:
        return f"{self.op}:{self.dtype.name}" + (f"({self.data})" if self.is_constant else "")


@dataclass(eq=False)
class KernelMemory:
    """Array of numbers that are addressed by a computed index.

    kind: "input" (of this lane, or shared by all), "constant", "local" (of this lane, while the
    kernel runs) or "output". Memory that ``ProgramBuilder.load`` reads is never written any more;
    loads of ``ProgramBuilder.read_now`` are among the stores, in the order of execution.

    Where a block writes to a known index of local memory, only that block and those within it read
    there, after it has written: a lane that does not take part in a round does not use the number
    there, and may write, too.
    """

    kind: str
    dtype: np.dtype
    size: int
    home: ProgramBlock | None = None  # outermost block of loads
    leaf: int = -1  # index of the input or output
    values: np.ndarray | None = None  # of a constant


@dataclass(eq=False)
class Loop:
    """Loop of ``length`` rounds, or while the carry ``alive`` is true; then ``length`` is None.

    A round turns ``params`` into ``outs``; ``results`` are the carries after the last one.
    """

    body: ProgramBlock
    length: int | None
    counter: Value | None
    inits: list[Value]
    params: list[Value]
    alive: int | None = None
    outs: list[Value] = field(default_factory=list)
    results: list[Value] = field(default_factory=list)


@dataclass(eq=False)
class Branch:
    """Branch of two blocks; ``results`` are the ``outs`` of the one that was run."""

    blocks: tuple[ProgramBlock, ProgramBlock]  # for a true and for a false condition
    outs: tuple[list[Value], list[Value]]
    results: list[Value] = field(default_factory=list)


@dataclass(eq=False)
class KernelProgram:
    """Whole function: its block, its inputs, and the values of its outputs.

    An output is an object array of values, or a Memory of kind "output": that of an earlier output,
    where the two are the same.
    """

    block: ProgramBlock
    inputs: list[KernelMemory]
    outputs: list[Any]


def deepest(values) -> ProgramBlock:
    """Innermost block of the values, whose blocks are nested."""
    block = values[0].block
    for value in values:
        if value.block.depth > block.depth:
            block = value.block
    return block


def inner_blocks(value: Value) -> tuple[ProgramBlock, ...]:
    """Blocks of a loop or branch; none for other values."""
    if value.op == "loop":
        return (value.data.body,)
    return value.data.blocks if value.op == "branch" else ()


def blocks(block: ProgramBlock) -> Iterator[ProgramBlock]:
    """Iterate over a block and all blocks within it."""
    yield block
    for value in block.ops:
        if value.op == "loop" or value.op == "branch":  # few are: no call for the others
            for inner in inner_blocks(value):
                yield from blocks(inner)


def walk(block: ProgramBlock) -> Iterator[Value]:
    """Iterate over all values of a block and of the blocks within it."""
    for inner in blocks(block):
        yield from inner.ops
