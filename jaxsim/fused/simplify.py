"""Optimisation passes over the whole program: dead code, shared divisions, fused products."""

from collections import Counter

from jaxsim.fused.program import (
    Branch,
    KernelMemory,
    KernelProgram,
    Loop,
    ProgramBlock,
    Value,
    blocks,
    inner_blocks,
)


def finish(program: KernelProgram) -> KernelProgram:
    """Optimise a program: drop dead values, share divisions, join products with sums."""
    _drop_dead(program)
    _share_divisions(program.block)
    uses = _uses(program)
    for block in blocks(program.block):
        _join_products(block, uses)
    _drop_dead(program)
    return program


def _drop_dead(program: KernelProgram) -> None:
    """Drop values, stores and carries that no output depends on."""
    stores: dict[int, list[Value]] = {}
    holder: dict[int, Value] = {}  # the loop or branch that a block is of
    for block in blocks(program.block):
        for value in block.ops:
            if value.op == "store":
                stores.setdefault(id(value.data), []).append(value)
            elif value.op in ("loop", "branch"):
                holder.update((id(inner), value) for inner in inner_blocks(value))
    live: set[Value] = set()
    todo: list[Value] = []

    def need(value: Value):
        if value not in live:
            live.add(value)
            todo.append(value)

    for output in program.outputs:
        if isinstance(output, KernelMemory):
            for store in stores.get(id(output), []):
                need(store)
        else:
            for value in output.flat:
                need(value)
    needed: dict[int, set[int]] = {}  # carries of loops, results of branches
    while todo:
        value = todo.pop()
        for arg in value.args:
            if arg not in live:  # most are: no call for them
                need(arg)
        if value.block is not program.block and id(value.block) in holder:
            need(holder[id(value.block)])
        if value.op in ("param", "result"):
            of, k = value.data
            if k >= 0 and k not in needed.setdefault(id(of), set()):
                needed[id(of)].add(k)
                if isinstance(of, Loop):
                    need(holder[id(of.body)])
                    need(of.inits[k])
                    need(of.outs[k])
                else:
                    need(holder[id(of.blocks[0])])
                    need(of.outs[0][k])
                    need(of.outs[1][k])
        elif value.op == "loop" and value.data.alive is not None:
            need(value.data.params[value.data.alive])
        elif value.op == "load" and value.data.kind == "local":
            for store in stores.get(id(value.data), []):
                need(store)
    for block in list(blocks(program.block)):
        block.ops = [v for v in block.ops if v in live]
        for value in block.ops:
            if value.op in ("loop", "branch"):
                _keep(value.data, sorted(needed.get(id(value.data), ())))


def _keep(of: Loop | Branch, indices: list[int]) -> None:
    """Drop the other carries of a loop, or results of a branch."""
    if isinstance(of, Branch):
        of.outs = ([of.outs[0][k] for k in indices], [of.outs[1][k] for k in indices])
        of.results = [of.results[k] for k in indices]
    else:
        if of.alive is not None:
            of.alive = indices.index(of.alive)
        for name in ("inits", "params", "outs", "results"):
            old = getattr(of, name)
            setattr(of, name, [old[k] for k in indices])
        for new, param in enumerate(of.params):
            param.data = (of, new)
    for new, result in enumerate(of.results):
        result.data = (of, new)


def _uses(program: KernelProgram) -> Counter:
    """Count the uses of each value, by id."""
    uses: Counter = Counter()
    for block in blocks(program.block):
        for value in block.ops:
            uses.update(map(id, value.args))
            if value.op == "loop":
                uses.update(map(id, value.data.inits))
                uses.update(map(id, value.data.outs))
            elif value.op == "branch":
                uses.update(id(v) for outs in value.data.outs for v in outs)
    for output in program.outputs:
        if not isinstance(output, KernelMemory):
            uses.update(id(v) for v in output.flat)
    return uses


def _share_divisions(block: ProgramBlock) -> None:
    """Replace several divisions by one number by products with its inverse."""
    for inner in list(blocks(block)):
        by = Counter(id(v.args[1]) for v in inner.ops if v.op == "div" and v.dtype.kind == "f")
        inverse: dict[int, Value] = {}
        ops: list[Value] = []
        for value in inner.ops:
            if value.op == "div" and value.dtype.kind == "f" and by[id(value.args[1])] > 1:
                x, y = value.args
                if id(y) not in inverse:
                    one = Value("constant", (), y.dtype, block, y.dtype.type(1))
                    inverse[id(y)] = Value("div", (one, y), y.dtype, inner, source=value.source)
                    ops.append(inverse[id(y)])
                value.op, value.args = "mul", (x, inverse[id(y)])
            ops.append(value)
        inner.ops = ops


def _join_products(block: ProgramBlock, uses: Counter) -> None:
    """Replace x y + z by one operation, where the product is used nowhere else."""
    place = _places(block)

    def alone(value: Value) -> bool:
        return uses[id(value)] == 1 and value.block is block

    for value in block.ops:
        if value.op not in ("add", "sub") or value.dtype.kind != "f":
            continue
        x, y = value.args
        of_x, of_y = ("fma", "fma") if value.op == "add" else ("fms", "fnma")
        if y.op == "mul" and alone(y):
            _join(value, of_y, y.args, x)
        elif x.op == "mul" and alone(x):
            _join(value, of_x, x.args, y)
        else:
            for total, name, first in ((y, of_y, x), (x, of_x, y)):
                if _begin(total, name, first, alone, place):
                    value.op, value.args = total.op, total.args
                    break


def _join(value: Value, name: str, factors: tuple, term: Value) -> None:
    """Turn a value into the joined operation ``name`` of two factors and a term.

    The first factor is the one that changes with the innermost loop: that one is negated, where
    the negative of the other would occupy a register throughout the loop.
    """
    value.op = name
    value.args = (*sorted(factors, key=lambda v: -v.block.depth), term)


def _begin(total: Value, name: str, first: Value, alone, place: dict[int, int]) -> bool:
    """Move a term to the beginning of a sum of products, if possible; returns success.

    x y + p q + z becomes x y + (p q + z), an operation less, and the last one waits only for x y;
    but only where z is known before p q.
    """
    sums = []
    while total.op in ("fma", "fnma") and alone(total):
        sums.append(total)
        total = total.args[2]
    known_before = place.get(id(first), -1) < place.get(id(total), -1)
    if not (sums and total.op == "mul" and alone(total) and known_before):
        return False
    _join(total, name, total.args, first)
    if name == "fnma":
        for value in sums:
            _join(value, "fnma" if value.op == "fma" else "fma", value.args[:2], value.args[2])
    return True


def _places(block: ProgramBlock) -> dict[int, int]:
    """Position in a block of each value made there, by id; values from outside are missing."""
    places = {}
    for k, value in enumerate(block.ops):
        made = value.data.results if value.op in ("loop", "branch") else [value]
        places.update((id(v), k) for v in made)
    return places
