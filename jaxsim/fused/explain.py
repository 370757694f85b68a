"""Report of a fused function's operations, from its program; nothing is compiled or run."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxsim.fused.listing import listing
from jaxsim.fused.lower import lower
from jaxsim.fused.program import (
    KernelMemory,
    KernelProgram,
    ProgramBlock,
    Value,
    inner_blocks,
    walk,
)
from jaxsim.fused.source import function_of, place
from jaxsim.fused.work import work

JOINED = {"fma", "fms", "fnma"}  # x y + z, x y - z, z - x y

# Estimates: the time of an operation relative to that of x y + z, measured in float32 on two cores
# with AVX-512, and rounded; other machines differ. An operation that is not listed counts 1.
WEIGHTS = {
    **dict.fromkeys(("convert", "sign"), 5),
    **dict.fromkeys(("div", "rem"), 12),
    "sqrt": 15,
    **dict.fromkeys(("exp", "exp2", "asin"), 20),
    **dict.fromkeys(("rsqrt", "logistic"), 30),
    **dict.fromkeys(("sin", "cos", "tan", "acos", "atan", "atan2", "log", "log1p", "cbrt"), 40),
    **dict.fromkeys(("sinh", "cosh", "tanh", "asinh", "acosh", "atanh"), 40),
    **dict.fromkeys(("expm1", "erf", "pow"), 80),
}
GATHER = 20  # cost of a number read or written in cached memory; further away it is more
KNOWN = 2  # cost of a number in local memory at a known index


@dataclass(frozen=True)
class Count:
    """Operations and memory traffic of one lane in a call, or in a round of a loop.

    The most frequent come first.
    """

    operations: Mapping[str, int]  # arithmetic, by kind
    functions: Mapping[str, int]  # arithmetic, by the function it comes from
    costs: Mapping[str, float]  # by function, with loads and stores; in simple operations
    read: Mapping[str, int]  # [bytes] by kind of memory
    written: Mapping[str, int]  # [bytes]

    @property
    def total(self) -> int:
        """Number of all operations."""
        return sum(self.operations.values())

    @property
    def cost(self) -> float:
        """Estimated cost by ``WEIGHTS``, in simple operations."""
        return sum(self.costs.values())

    def nanoseconds(self, rate: float) -> float:
        """Estimated time [ns] on a machine with ``rate`` simple operations a second."""
        return 1e9 * self.cost / rate


@dataclass(frozen=True)
class BlockReport:
    """Figures of one block of the program."""

    kind: str  # "function", "loop", "while" or "branch" (one side of it)
    depth: int  # 0 for the function itself
    rounds: int | None  # None for a while loop
    carries: int  # numbers
    operations: int  # in a round, with the blocks within
    live: int  # largest number of values alive at once
    place: str  # in the user's code


@dataclass(frozen=True)
class Explanation:
    """Figures of a program; ``str()`` is a report.

    before: rough number of operations of the jaxpr, with zeros, ones and repetitions. step: a round
    of ``main``, the outermost loop with most operations; None without loops. A loop whose number of
    rounds is unknown counts as one round everywhere, a branch as both its sides. Values alive are
    those of the program's order, which a compiler may change, and without constants.
    """

    before: int
    call: Count
    step: Count | None
    main: BlockReport | None
    parts: tuple[BlockReport, ...]
    local_bytes: int  # of a lane
    program: KernelProgram = field(repr=False)

    @property
    def after(self) -> int:
        """Operations of a call as ``before`` counts them: x y + z is two."""
        return sum(n * (1 + (op in JOINED)) for op, n in self.call.operations.items())

    @property
    def loops(self) -> tuple[BlockReport, ...]:
        """Parts that are bodies of loops."""
        return tuple(p for p in self.parts if p.kind in ("loop", "while"))

    @property
    def live(self) -> int:
        """Largest number of values alive at once anywhere."""
        return max(part.live for part in self.parts)

    def table(self, n: int = 12) -> list[tuple[str, int, float]]:
        """Table of the n most costly functions, in a step, or in a call without loops.

        Rows have the function, its operations, and its share of the cost.
        """
        count = self.step or self.call
        whole = count.cost or 1.0
        costs = sorted(count.costs.items(), key=lambda item: (-item[1], item[0]))
        return [(name, count.functions.get(name, 0), cost / whole) for name, cost in costs[:n]]

    def listing(self) -> str:
        """Text of the program."""
        return listing(self.program)

    def __str__(self) -> str:
        return "\n".join(_report(self))


def explain(fn, *args) -> Explanation:
    """Count the operations of the kernel of ``fn`` for one character.

    args: those of fn, arrays or ``jax.ShapeDtypeStruct`` in any pytrees; only shapes and dtypes
    matter. Needs neither Dr.Jit nor LLVM. Raises FuseError where ``fuse`` does.
    """
    closed = jax.make_jaxpr(fn)(*jax.tree.map(_spec, args))
    program = lower(closed)
    ends, parts = _ends_and_parts(program)
    bodies = _outermost(program.block)
    body = max(bodies, key=lambda b: (parts[b].rounds or 1) * parts[b].operations, default=None)
    values = walk(program.block)
    local = {v.data for v in values if v.op == "store" and v.data.kind == "local"}
    return Explanation(
        before=_before(closed.jaxpr),
        call=_count(program.block, ends),
        step=None if body is None else _count(body),
        main=None if body is None else parts[body],
        parts=tuple(parts.values()),
        local_bytes=sum(m.size * m.dtype.itemsize for m in local),
        program=program,
    )


def most_alive(program: KernelProgram) -> int:
    """Largest number of values that a program has alive at once."""
    return max(part.live for part in _ends_and_parts(program)[1].values())


def _ends_and_parts(program: KernelProgram) -> tuple[list[Value], dict[ProgramBlock, BlockReport]]:
    """Values that a program returns, and the part of each block."""
    arrays = [out for out in program.outputs if not isinstance(out, KernelMemory)]
    ends = [value for array in arrays for value in array.flat]
    return ends, _parts(_BlockFrame("function", program.block, ends=ends), 0, "the function")


def _spec(x) -> jax.ShapeDtypeStruct:
    x = x if isinstance(x, jax.ShapeDtypeStruct) else jnp.asarray(x)
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


# --- counting


def _before(jaxpr) -> int:
    """Number of operations of a jaxpr as by ``work``, but with one round of each while loop."""
    inside = [(eqn, _inside(eqn)) for eqn in jaxpr.eqns]
    plain = jaxpr.replace(eqns=[eqn for eqn, inner in inside if not inner])
    return work(plain) + sum(
        times * _before(getattr(inner, "jaxpr", inner))
        for _, found in inside
        for times, inner in found
    )


def _inside(eqn) -> list:
    """Pairs (count, jaxpr) of the inner jaxprs that an equation runs."""
    params, name = eqn.params, eqn.primitive.name
    if name == "cond":
        return [(1, branch) for branch in params["branches"]]
    if name == "while":
        return [(1, params["cond_jaxpr"]), (1, params["body_jaxpr"])]
    if "kernel" in params:
        return [(1, params["kernel"].jaxpr)]
    found = [params[key] for key in ("jaxpr", "call_jaxpr", "fun_jaxpr") if key in params]
    return [(params["length"] if name == "scan" else 1, inner) for inner in found]


def _count(block: ProgramBlock, returned=()) -> Count:
    """Count the operations and memory traffic of a block, and of the returned values' stores."""
    operations, functions, costs, read, written = (Counter() for _ in range(5))

    def run(block: ProgramBlock, times: int):
        for value in block.ops:
            for inner in inner_blocks(value):
                rounds = value.data.length or 1 if value.op == "loop" else 1
                run(inner, times * rounds)
            function = function_of(value.source)
            if value.op in ("load", "store"):
                memory = value.data
                moved = read if value.op == "load" else written
                moved[memory.kind] += times * memory.dtype.itemsize
                near = memory.kind == "local" and value.args[0].is_constant
                costs[function] += times * (KNOWN if near else GATHER)
            elif _is_operation(value):
                operations[value.op] += times
                functions[function] += times
                costs[function] += times * WEIGHTS.get(value.op, 1)

    run(block, 1)
    for value in returned:
        written["output"] += value.dtype.itemsize
        costs[function_of(None)] += GATHER
    return Count(*map(_sorted, (operations, functions, costs, read, written)))


def _is_operation(value: Value) -> bool:
    return value.op not in ("load", "store", "loop", "branch")


def _sorted(counter: Counter) -> dict:
    return dict(sorted(counter.items(), key=lambda item: (-item[1], item[0])))


# --- blocks and what is alive in them


class _BlockFrame(NamedTuple):
    """Block with the values that enter and leave it."""

    kind: str
    block: ProgramBlock
    begin: Sequence[Value] = ()  # known before the first operation
    ends: Sequence[Value] = ()  # used after the last one
    rounds: int | None = 1
    carries: int = 0


def _frames(value: Value) -> list[_BlockFrame]:
    """Frames of the blocks of a loop or branch; none for other values."""
    of = value.data
    if value.op == "branch":
        return [_BlockFrame("branch", b, ends=outs) for b, outs in zip(of.blocks, of.outs)]
    if value.op != "loop":
        return []
    counter, kind = ([], "while") if of.counter is None else ([of.counter], "loop")
    begin, ends = [*counter, *of.params], [*counter, *of.outs]
    return [_BlockFrame(kind, of.body, begin, ends, of.length, len(of.inits))]


def _parts(frame: _BlockFrame, around: int, place: str) -> dict[ProgramBlock, BlockReport]:
    """Parts of a block and of all blocks within it.

    around: number of values from outside that are alive throughout, because they are used in it or
    after it.
    """
    block = frame.block
    last: dict[int, int] = {}  # index of the last use of each value of this block
    for k, value in enumerate(block.ops):
        used = [*value.args, *(value.data.inits if value.op == "loop" else ())]
        for inner in _frames(value):
            used += _used_in(inner)
        last.update((id(v), k) for v in used if v.block is block)
    last.update((id(v), len(block.ops)) for v in frame.ends if v.block is block)
    ending: dict[int, list[int]] = {}
    for v, k in last.items():
        ending.setdefault(k, []).append(v)
    alive = {id(v) for v in frame.begin if id(v) in last}
    most, operations = len(alive), 0
    within: dict[ProgramBlock, BlockReport] = {}
    for k, value in enumerate(block.ops):
        operations += _is_operation(value)
        for inner in _frames(value):
            needed = set(map(id, _used_in(inner)))
            through = sum(last[v] > k or v in needed for v in alive)
            found = _parts(inner, around + through, _place(value))
            operations += (inner.rounds or 1) * found[inner.block].operations
            within |= found
        made = value.data.results if value.op in ("loop", "branch") else [value]
        alive.difference_update(ending.get(k, ()))
        alive.update(id(v) for v in made if id(v) in last)
        most = max(most, len(alive))
    part = BlockReport(
        kind=frame.kind,
        depth=block.depth,
        rounds=frame.rounds,
        carries=frame.carries,
        operations=operations,
        live=around + most,
        place=place,
    )
    return {block: part, **within}


def _used_in(frame: _BlockFrame) -> list[Value]:
    """Values that a block, the blocks within it, and its ends use."""
    used = list(frame.ends)
    for value in walk(frame.block):
        used += [*value.args, *(value.data.inits if value.op == "loop" else ())]
        used += [v for inner in _frames(value) for v in inner.ends]
    return used


def _outermost(block: ProgramBlock) -> list[ProgramBlock]:
    """Bodies of the loops that are in no other loop."""
    found = []
    for value in block.ops:
        for inner in inner_blocks(value):
            found += [inner] if value.op == "loop" else _outermost(inner)
    return found


def _place(holder: Value) -> str:
    """Source line of a loop or branch, or of the first operation in it."""
    inner = (v for block in inner_blocks(holder) for v in walk(block))
    sources = (v.source for v in (holder, *inner))
    return next((place(source) for source in sources if source is not None), "<unknown>")


# --- text


def _report(e: Explanation) -> Iterator[str]:
    """Lines of the report."""
    yield f"{e.before:,} operations before folding, {e.after:,} after (x y + z as two)"
    for name, count in (("call", e.call), ("step", e.step)):
        if count is not None:
            yield (
                f"a {name}: {count.total:,} operations, cost {count.cost:,.0f},"
                f" reads {_bytes(count.read)}, writes {_bytes(count.written)}"
            )
    if e.main is not None:
        yield f"a step is a round of the loop at {_short(e.main).split(',')[0]}"
    yield ""
    yield f"{'operation':<14}{'a call':>14}{'a step':>12}"
    of_step = {} if e.step is None else e.step.operations
    for op, n in e.call.operations.items():
        yield f"{op:<14}{n:>14,}{of_step.get(op, 0):>12,}"
    yield ""
    yield f"{'function':<42}{'operations':>12}{'cost':>9}   in a {'step' if e.step else 'call'}"
    for name, n, share in e.table():
        yield f"{name[-42:]:<42}{n:>12,}{share:>9.1%}"
    yield ""
    yield f"{'block':<42}{'rounds':>12}{'carries':>9}{'operations':>12}{'alive':>8}"
    for p in e.parts:
        rounds = p.kind if p.kind in ("while", "branch") else f"{p.rounds:,}"
        name = ("  " * p.depth + _short(p))[:42]
        yield f"{name:<42}{rounds:>12}{p.carries:>9,}{p.operations:>12,}{p.live:>8,}"
    yield f"local memory: {e.local_bytes:,} B a lane"
    if any(p.rounds is None for p in e.parts):
        yield "a while loop counts as one round: how many there are is not known"
    if any(p.kind == "branch" for p in e.parts):
        yield "of a branch both sides count"


def _short(part: BlockReport) -> str:
    return re.sub(r".*[\\/]", "", part.place)


def _bytes(moved: Mapping[str, int]) -> str:
    return ", ".join(f"{n:,} B of {kind}" for kind, n in moved.items()) or "nothing"
