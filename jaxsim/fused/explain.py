"""What a fused function does, read off its program; nothing is compiled or run."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import jax
import jax.numpy as jnp

from jaxsim.fused.lower import lower
from jaxsim.fused.program import Block, Loop, Memory, Program, Value, walk
from jaxsim.fused.rules.control import work
from jaxsim.fused.simplify import COMMUTATIVE
from jaxsim.fused.source import function_of, place

JOINED = {"fma", "fms", "fnma"}  # x y + z, x y - z, z - x y

# Estimates: the time of an operation beside that of x y + z. Measured once, in float32 on two cores
# with AVX-512, and rounded; other machines differ. An operation that is not named counts 1.
WEIGHTS = {
    **dict.fromkeys(("convert", "sign"), 5),
    **dict.fromkeys(("div", "rem"), 12),
    "sqrt": 15,
    **dict.fromkeys(("exp", "exp2"), 20),
    **dict.fromkeys(("rsqrt", "asin", "logistic"), 30),
    **dict.fromkeys(("sin", "cos", "tan", "log", "sinh", "cosh", "tanh", "atan2"), 40),
    **dict.fromkeys(("acos", "atan", "cbrt", "log1p", "asinh", "acosh", "atanh"), 60),
    **dict.fromkeys(("expm1", "erf", "pow"), 100),
}
GATHER = 20  # a number read or written in memory that the caches hold; from further away it is more
KNOWN = 2  # the same in local memory at an index that is known


@dataclass(frozen=True)
class Count:
    """What is done for one lane in a call, or in a round of a loop, the most frequent first."""

    operations: Mapping[str, int]  # arithmetic, by kind
    functions: Mapping[str, int]  # the same by the function it comes from
    costs: Mapping[str, float]  # by function, with loads and stores; in simple operations
    read: Mapping[str, int]  # [bytes] by kind of memory
    written: Mapping[str, int]  # [bytes]

    @property
    def total(self) -> int:
        """All operations."""
        return sum(self.operations.values())

    @property
    def cost(self) -> float:
        """An estimate by ``WEIGHTS``, in simple operations."""
        return sum(self.costs.values())

    def nanoseconds(self, rate: float) -> float:
        """The estimate as a time, for a machine with ``rate`` simple operations a second."""
        return 1e9 * self.cost / rate


@dataclass(frozen=True)
class Part:
    """A block of the program: the function itself (depth 0), or the body of a loop."""

    depth: int
    rounds: int | None  # None for a while loop
    carries: int  # numbers
    operations: int  # in a round, with the loops within
    live: int  # the most values that are alive at once
    place: str  # in the user's code


@dataclass(frozen=True)
class Explanation:
    """A program in figures; ``str()`` is a report.

    before: operations of the jaxpr, roughly, with all zeros and ones and all that is said twice.
    step: a round of ``main``, the outermost loop that does most; None without loops. A loop whose
    number of rounds is unknown counts one round everywhere. Values are counted in the order of the
    program, which a compiler may change, and without constants.
    """

    before: int
    call: Count
    step: Count | None
    main: Part | None
    parts: tuple[Part, ...]
    local_bytes: int  # of a lane
    program: Program = field(repr=False)

    @property
    def after(self) -> int:
        """Operations of a call as ``before`` counts them: x y + z is two."""
        return sum(n * (1 + (op in JOINED)) for op, n in self.call.operations.items())

    @property
    def loops(self) -> tuple[Part, ...]:
        """The parts without the function itself."""
        return self.parts[1:]

    @property
    def live(self) -> int:
        """The most values that are alive at once anywhere."""
        return max(part.live for part in self.parts)

    def table(self, n: int = 12) -> list[tuple[str, int, float]]:
        """The n functions that cost most, in a step, or in a call where there is none.

        Rows of the function, its operations, and its share of the cost.
        """
        count = self.step or self.call
        whole = count.cost or 1.0
        costs = sorted(count.costs.items(), key=lambda item: (-item[1], item[0]))
        return [(name, count.functions.get(name, 0), cost / whole) for name, cost in costs[:n]]

    def __str__(self) -> str:
        return "\n".join(_report(self))


def explain(fn, *args) -> Explanation:
    """Count what ``fn`` of one character becomes.

    args: as for fn, arrays or ``jax.ShapeDtypeStruct`` in any pytrees; only shapes and dtypes
    matter. Needs neither Dr.Jit nor LLVM. Raises FuseError where ``fuse`` does.
    """
    closed = jax.make_jaxpr(fn)(*jax.tree.map(_spec, args))
    program = lower(closed)
    block = program.block
    arrays = [out for out in program.outputs if not isinstance(out, Memory)]
    parts = _parts(block, None, [v for array in arrays for v in array.flat], around=0)
    outermost = zip(
        (v.data for v in block.ops if v.op == "loop"), (p for p in parts if p.depth == 1)
    )
    loop, main = max(
        outermost, key=lambda pair: (pair[1].rounds or 1) * pair[1].operations, default=(None, None)
    )
    local = {id(v.data): v.data for v in walk(block) if v.op == "store" and v.data.kind == "local"}
    return Explanation(
        before=_before(closed.jaxpr),
        call=_count(block, arrays),
        step=None if loop is None else _count(loop.body),
        main=main,
        parts=tuple(parts),
        local_bytes=sum(m.size * m.dtype.itemsize for m in local.values()),
        program=program,
    )


def _spec(x) -> jax.ShapeDtypeStruct:
    x = x if isinstance(x, jax.ShapeDtypeStruct) else jnp.asarray(x)
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


# --- counting


def _before(jaxpr) -> int:
    """``work``, with one round of a while loop."""
    inside = [(eqn, _inside(eqn)) for eqn in jaxpr.eqns]
    plain = jaxpr.replace(eqns=[eqn for eqn, inner in inside if not inner])
    return work(plain) + sum(
        times * _before(getattr(inner, "jaxpr", inner))
        for _, found in inside
        for times, inner in found
    )


def _inside(eqn) -> list:
    """How often an equation runs which jaxprs."""
    params, name = eqn.params, eqn.primitive.name
    if name == "cond":
        return [(1, branch) for branch in params["branches"]]
    if name == "while":
        return [(1, params["cond_jaxpr"]), (1, params["body_jaxpr"])]
    if "kernel" in params:
        return [(1, params["kernel"].jaxpr)]
    found = [params[key] for key in ("jaxpr", "call_jaxpr", "fun_jaxpr") if key in params]
    return [(params["length"] if name == "scan" else 1, inner) for inner in found]


def _count(block: Block, outputs=()) -> Count:
    """What a block does, and in the end writes to the outputs."""
    operations, functions, costs, read, written = (Counter() for _ in range(5))

    def add(value: Value, times: int):
        function = function_of(value.source)
        if value.op in ("load", "store"):
            memory = value.data
            moved = read if value.op == "load" else written
            moved[memory.kind] += times * memory.dtype.itemsize
            near = memory.kind == "local" and value.args[0].is_constant
            costs[function] += times * (KNOWN if near else GATHER)
        else:
            operations[value.op] += times
            functions[function] += times
            costs[function] += times * WEIGHTS.get(value.op, 1)

    def run(block: Block, times: int):
        for value in block.ops:
            if value.op == "loop":
                run(value.data.body, times * (value.data.length or 1))
            else:
                add(value, times)

    run(block, 1)
    for array in outputs:
        for value in array.flat:
            written["output"] += value.dtype.itemsize
            costs[function_of(None)] += GATHER
    return Count(*map(_sorted, (operations, functions, costs, read, written)))


def _sorted(counter: Counter) -> dict:
    return dict(sorted(counter.items(), key=lambda item: (-item[1], item[0])))


# --- blocks and what is alive in them


def _parts(block: Block, holder: Value | None, ends: list[Value], around: int) -> list[Part]:
    """The part of a block, then those of the loops in it.

    ends: values that are used after the last operation. around: how many values from outside are
    alive throughout.
    """
    loop: Loop | None = None if holder is None else holder.data
    begin: list[Value] = [] if loop is None else list(loop.params)
    if loop is not None and loop.counter is not None:
        begin, ends = [loop.counter, *begin], [loop.counter, *ends]
    last: dict[int, int] = {}  # where a value of this block is used for the last time
    for k, value in enumerate(block.ops):
        used = [*value.args, *(_used_by(value.data) if value.op == "loop" else ())]
        last.update((id(v), k) for v in used if v.block is block)
    last.update((id(v), len(block.ops)) for v in ends if v.block is block)
    alive = {id(v) for v in begin if id(v) in last}
    most, operations, inner = len(alive), 0, []
    for k, value in enumerate(block.ops):
        made = [value]
        if value.op == "loop":
            within, made = value.data, value.data.results
            inside = set(map(id, _used_by(within, inits=False)))
            through = sum(last[v] > k or v in inside for v in alive)
            found = _parts(within.body, value, within.outs, around + through)
            operations += (within.length or 1) * found[0].operations
            inner += found
        else:
            operations += value.op not in ("load", "store")
        alive = {v for v in alive if last[v] > k} | {id(v) for v in made if id(v) in last}
        most = max(most, len(alive))
    own = Part(
        depth=block.depth,
        rounds=1 if loop is None else loop.length,
        carries=0 if loop is None else len(loop.inits),
        operations=operations,
        live=around + most,
        place="the function" if holder is None else _place(holder),
    )
    return [own, *inner]


def _used_by(loop: Loop, inits=True) -> list[Value]:
    """The values that a loop uses; without ``inits`` those that its rounds use."""
    used = [*(loop.inits if inits else ()), *loop.outs]
    for value in walk(loop.body):
        used.extend(value.args)
        if value.op == "loop":
            used.extend((*value.data.inits, *value.data.outs))
    return used


def _place(holder: Value) -> str:
    """The line of a loop, or of the first operation in it."""
    sources = [holder.source, *(v.source for v in walk(holder.data.body))]
    return next((place(source) for source in sources if source is not None), "<unknown>")


# --- text


def _report(e: Explanation) -> Iterator[str]:
    """The lines of the report."""
    yield f"{e.before:,} operations before folding, {e.after:,} after (x y + z as two)"
    for name, count in (("call", e.call), ("step", e.step)):
        if count is not None:
            yield (
                f"a {name}: {count.total:,} operations, cost {count.cost:,.0f},"
                f" reads {_bytes(count.read)}, writes {_bytes(count.written)}"
            )
    if e.main is not None:
        yield f"a step is a round of the loop at {_short(e.main)}"
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
        rounds = "while" if p.rounds is None else f"{p.rounds:,}"
        name = ("  " * p.depth + _short(p))[:42]
        yield f"{name:<42}{rounds:>12}{p.carries:>9,}{p.operations:>12,}{p.live:>8,}"
    yield f"local memory: {e.local_bytes:,} B a lane"
    if any(p.rounds is None for p in e.parts):
        yield "a while loop counts as one round: how many there are is not known"


def _short(part: Part) -> str:
    return re.sub(r".*[\\/]", "", part.place)


def _bytes(moved: Mapping[str, int]) -> str:
    return ", ".join(f"{n:,} B of {kind}" for kind, n in moved.items()) or "nothing"


_INFIX = {
    "add": "{} + {}",
    "sub": "{} - {}",
    "mul": "{} * {}",
    "div": "{} / {}",
    "neg": "-{}",
    "fma": "{} * {} + {}",
    "fms": "{} * {} - {}",
    "fnma": "{2} - {0} * {1}",
}


def listing(program: Program) -> str:
    """A program as text, a value in each line: v0, v1, ... are numbers of one lane."""
    names: dict[int, str] = {}
    memories: dict[int, str] = {}
    lines: list[str] = []

    def name(value: Value) -> str:
        return (
            str(value.data) if value.is_constant else names.setdefault(id(value), f"v{len(names)}")
        )

    def element(memory: Memory, index: Value) -> str:
        number = memory.leaf if memory.leaf >= 0 else len(memories)
        known = memories.setdefault(id(memory), f"{memory.kind}{number}")
        return f"{known}[{name(index)}]"

    def right(value: Value) -> str:
        if value.op == "load":
            return element(value.data, *value.args)
        free = 2 if value.op in COMMUTATIVE | JOINED else 0
        args = sorted(value.args[:free], key=lambda a: (a.is_constant, len(name(a)), name(a)))
        args = [name(a) for a in (*args, *value.args[free:])]
        return _INFIX.get(value.op, f"{value.op}({', '.join(args)})").format(*args)

    def write(block: Block, indent: str):
        for value in block.ops:
            if value.op == "loop":
                loop = value.data
                counted = loop.length is not None
                head = f"for {name(loop.counter)} in 0..{loop.length - 1}" if counted else "while"
                carried = [f"{name(p)} = {name(v)}" for p, v in zip(loop.params, loop.inits)]
                head += "" if counted else f" {name(loop.params[loop.alive])}"
                lines.append(f"{indent}{head} with {', '.join(carried) or 'nothing'}:")
                write(loop.body, indent + "    ")
                lines.append(f"{indent}    next {', '.join(map(name, loop.outs)) or 'round'}")
                if loop.results:
                    lines.append(f"{indent}{', '.join(map(name, loop.results))} = the last ones")
            elif value.op == "store":
                lines.append(
                    f"{indent}{element(value.data, value.args[0])} = {name(value.args[1])}"
                )
            else:
                lines.append(f"{indent}{name(value)} = {right(value)}")

    write(program.block, "")
    for leaf, output in enumerate(program.outputs):
        if not isinstance(output, Memory):
            lines.append(f"output{leaf} = {', '.join(map(name, output.flat))}")
    return "\n".join(lines)
