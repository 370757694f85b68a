"""Make values, as few as possible.

``Builder.op`` folds constants, drops what has no effect and finds a value that is there already,
all while the program is built, so that a product of matrices full of zeros never becomes large.
The passes at the end remove what nothing needs and put products and sums together.

A product with a constant that is exactly zero is zero, whatever the other factor: this is what
makes the zeros of joint axes and planar offsets vanish, and the one place where a NaN or an
infinity is not followed.
"""

from collections import Counter

import numpy as np

from jaxsim.fused.constants import evaluate
from jaxsim.fused.program import (
    Block,
    Branch,
    Loop,
    Memory,
    Program,
    Value,
    blocks,
    deepest,
    inner_blocks,
)

TREE_LEAVES = 32  # of a select of constants that index arithmetic is pushed through
COMMUTATIVE = {"add", "mul", "max", "min", "and", "or", "xor", "eq", "ne"}
BOOL = np.dtype(bool)
COMPARISONS = {"eq", "ne", "lt", "le", "gt", "ge"}


class Builder:
    """Makes values in ``block``, or further out where they can stand there."""

    def __init__(self):
        self.root = Block()
        self.block = self.root
        self.floor = self.root  # of the innermost branch: what is made in it stays in it
        self.source = None  # the equation that is being lowered
        self._known: dict = {}  # values by what they are made of, by id
        self._alive: list = []  # so that no id is used twice

    def constant(self, number) -> Value:
        """A value for a numpy scalar."""
        if not isinstance(number, np.generic):
            number = np.asarray(number)[()]
        key = (type(number), number.tobytes())
        value = self._known.get(key)
        if value is None:
            value = Value("constant", (), number.dtype, self.root, number)
            self._known[key] = value
        return value

    def op(self, op: str, *args: Value, dtype=None) -> Value:
        """The value of an operation; its dtype is that of the last argument unless given."""
        key = (op, dtype if op == "convert" else None, *map(id, args))
        value = self._known.get(key)
        if value is None or not value.block.open:
            if dtype is None:
                dtype = BOOL if op in COMPARISONS else args[-1].dtype
            value = self._made(op, args, dtype)
            self._known[key] = value
            self._alive.append(args)
        return value

    def _made(self, op: str, args: tuple, dtype) -> Value:
        """An operation that has not been asked for before."""
        if all([a.op == "constant" for a in args]):
            return self.constant(evaluate(op, dtype, *[a.data for a in args]))
        simple = self._fold(op, args, dtype)
        if simple is not None:
            return simple
        if op in COMMUTATIVE and args[0].number > args[1].number:
            return self.op(op, args[1], args[0], dtype=dtype)
        return self._place(Value(op, args, dtype, self._home(args), None, self.source))

    def _home(self, args) -> Block:
        """Where a value of these stands: as far out as it can, but within its branch."""
        block = deepest(args)
        return block if block.depth >= self.floor.depth else self.floor

    def _place(self, value: Value) -> Value:
        value.block.ops.append(value)
        self._alive.append(value)
        return value

    # --- memory

    def load(self, memory: Memory, index: Value) -> Value:
        """A number of memory that is not written any more."""
        key = ("load", id(memory), id(index))
        value = self._known.get(key)
        if value is None or not value.block.open:
            if memory.kind == "constant" and index.is_constant:
                assert memory.values is not None
                return self.constant(memory.values[int(index.data)])
            block = self._home((index,))
            if memory.home is not None and memory.home.depth > block.depth:
                block = memory.home
            value = self._place(Value("load", (index,), memory.dtype, block, memory, self.source))
            self._known[key] = value
        return value

    def store(self, memory: Memory, index: Value, number: Value, block: Block | None = None):
        """Write to memory, here and now (or at the end of another block)."""
        block = self.block if block is None else block
        self._place(Value("store", (index, number), memory.dtype, block, memory, self.source))

    def stored(self, values: list[Value]) -> Memory:
        """Memory that holds the values: constant if they are, else local, written once."""
        key = ("stored", *map(id, values))
        memory = self._known.get(key)
        if memory is None or (memory.home is not None and not memory.home.open):
            dtype = values[0].dtype
            if all(v.is_constant for v in values):
                numbers = np.array([v.data for v in values], dtype)
                memory = Memory("constant", dtype, len(values), values=numbers)
            else:
                memory = Memory("local", dtype, len(values), self._home(values))
                for k, v in enumerate(values):
                    self.store(memory, self.constant(np.int32(k)), v, memory.home)
            self._known[key] = memory
            self._alive.append(values)
        return memory

    # --- loops

    def loop(
        self, inits: list[Value], length: int | None, body, alive=None, fixed=(), thorough=False
    ) -> list:
        """A loop; ``body(counter, params)`` gives the next carries. Returns the last ones.

        fixed: carries that never change. thorough: others are found by trying: those that begin
        as constants are taken as unchanging, until a round of the body says otherwise.
        """
        unchanging = set(fixed)
        if thorough:
            unchanging |= {k for k, v in enumerate(inits) if v.is_constant}
        unchanging.discard(alive)
        outer = self.block
        while True:
            inner = Block(outer)
            loop = Loop(inner, length, None, list(inits), [], alive)
            if length is not None:
                loop.counter = Value("param", (), np.dtype(np.int32), inner, (loop, -1))
            loop.params = [
                Value("param", (), v.dtype, inner, (loop, k)) for k, v in enumerate(inits)
            ]
            self._alive.append(loop)
            self.block = inner
            given = [inits[k] if k in unchanging else p for k, p in enumerate(loop.params)]
            try:
                loop.outs = body(loop.counter, given)
            finally:
                self.block, inner.open = outer, False
            wrong = {k for k in unchanging if loop.outs[k] is not inits[k]}
            if not wrong:
                break
            unchanging -= wrong
        holder = Value("loop", (), BOOL, outer, loop, self.source)
        loop.results = [
            Value("result", (), v.dtype, outer, (loop, k)) for k, v in enumerate(inits)
        ]
        outer.ops.append(holder)
        return [
            inits[k] if k in unchanging or loop.outs[k] is inits[k] else result
            for k, result in enumerate(loop.results)
        ]

    def branch(self, condition: Value, yes, no) -> list[Value]:
        """The values of ``yes()`` where the condition holds, else those of ``no()``."""
        outer, floor = self.block, self.floor
        made = []
        for run in (yes, no):
            self.block = self.floor = inner = Block(outer)
            try:
                made.append((inner, run()))
            finally:
                self.block, self.floor, inner.open = outer, floor, False
        (first, if_yes), (second, if_no) = made
        branch = Branch((first, second), (if_yes, if_no))
        self._place(Value("branch", (condition,), BOOL, outer, branch, self.source))
        branch.results = [
            Value("result", (), v.dtype, outer, (branch, k)) for k, v in enumerate(if_yes)
        ]
        return [a if a is b else r for a, b, r in zip(if_yes, if_no, branch.results)]

    # --- folding

    def _fold(self, op: str, args, dtype) -> Value | None:
        rule = _FOLDS.get(op)
        if rule is not None:
            simple = rule(self, *args)
            if simple is not None:
                return simple
        if dtype.kind in "ibu" and op in _THROUGH_TREES:
            return self._through_tree(op, args, dtype)
        return None

    def _through_tree(self, op: str, args, dtype) -> Value | None:
        """op(select(c, 1, 3), 2) as select(c, op(1, 2), op(3, 2)): indices stay selects."""
        trees = [k for k, a in enumerate(args) if not a.is_constant]
        if len(trees) != 1 or not _leaves(args[trees[0]]):
            return None
        at = trees[0]

        def rebuilt(node: Value) -> Value:
            if node.is_constant:
                return self.op(op, *args[:at], node, *args[at + 1 :], dtype=dtype)
            condition, yes, no = node.args
            return self.op("select", condition, rebuilt(yes), rebuilt(no))

        return rebuilt(args[at])

    def pick(self, candidates: list[Value], index: Value, most: int) -> Value:
        """candidates[index]; a chain of selects up to ``most`` of them, else from memory."""
        if index.is_constant:
            return candidates[int(index.data)]
        if all(c is candidates[0] for c in candidates):
            return candidates[0]
        if _leaves(index):

            def along(node: Value) -> Value:
                if node.is_constant:
                    return candidates[int(node.data)]
                condition, yes, no = node.args
                return self.op("select", condition, along(yes), along(no))

            return along(index)
        different = {id(c): c for c in candidates}
        common = Counter(map(id, candidates)).most_common(1)[0]
        if len(candidates) - common[1] > most:
            return self.load(self.stored(candidates), index)
        result = different[common[0]]
        for k, candidate in enumerate(candidates):
            if candidate is not different[common[0]]:
                here = self.op("eq", index, self.constant(index.dtype.type(k)))
                result = self.op("select", here, candidate, result)
        return result


def _leaves(value: Value) -> int:
    """How many constants a tree of selects chooses from; 0 if it is none, or too large."""
    if value.is_constant:
        return 1
    if value.op != "select":
        return 0
    yes = _leaves(value.args[1])
    no = _leaves(value.args[2]) if yes else 0
    return yes + no if no and yes + no <= TREE_LEAVES else 0


_THROUGH_TREES = {
    "add", "sub", "mul", "neg", "max", "min", "eq", "ne", "lt", "le", "gt", "ge", "convert",
    "and", "or", "xor", "not",
}  # fmt: skip


def _is(value: Value, number) -> bool:
    return value.op == "constant" and value.data == number


def _add(b, x, y):
    if _is(x, 0):
        return y
    if _is(y, 0):
        return x
    if y.op == "neg":
        return b.op("sub", x, y.args[0])
    if x.op == "neg":
        return b.op("sub", y, x.args[0])
    return None


def _sub(b, x, y):
    if _is(y, 0):
        return x
    if _is(x, 0):
        return b.op("neg", y)
    if y.op == "neg":
        return b.op("add", x, y.args[0])
    if x is y and x.dtype.kind in "iu":
        return b.constant(x.dtype.type(0))
    return None


def _mul(b, x, y):
    if x.op != "constant":
        x, y = y, x
    if x.op == "constant":
        if x.data == 0:
            return x
        if x.data == 1:
            return y
        if x.data == -1:
            return b.op("neg", y)
        if y.op == "neg" and x.dtype.kind == "f":
            return b.op("mul", b.constant(-x.data), y.args[0])
        return None
    if x.op == "neg" and y.op == "neg":
        return b.op("mul", x.args[0], y.args[0])
    if x.op == "neg":
        return b.op("neg", b.op("mul", x.args[0], y))
    if y.op == "neg":
        return b.op("neg", b.op("mul", x, y.args[0]))
    return None


def _div(b, x, y):
    if _is(y, 1):
        return x
    if x.dtype.kind == "f":
        if _is(x, 0):
            return x
        if _is(y, -1):
            return b.op("neg", x)
        if y.op == "constant" and y.data != 0 and np.frexp(y.data)[0] == 0.5:
            return b.op("mul", x, b.constant(1 / y.data))  # a power of two: exact
    return None


def _neg(b, x):
    if x.op == "neg":
        return x.args[0]
    if x.op == "sub" and x.dtype.kind == "f":
        return b.op("sub", x.args[1], x.args[0])
    return None


def _same(b, x, y):
    return x if x is y else None


def _select(b, c, x, y):
    if x is y:
        return x
    if c.op == "constant":
        return x if c.data else y
    if c.op == "not":
        return b.op("select", c.args[0], y, x)
    if x.op == "select" and x.args[0] is c:
        return b.op("select", c, x.args[1], y)
    if y.op == "select" and y.args[0] is c:
        return b.op("select", c, x, y.args[2])
    if x.dtype.kind == "b":
        if x.op == "constant":
            return b.op("or", c, y) if x.data else b.op("and", b.op("not", c), y)
        if y.op == "constant":
            return b.op("or", b.op("not", c), x) if y.data else b.op("and", c, x)
    return None


def _and(b, x, y):
    if x.op != "constant":
        x, y = y, x
    if x is y:
        return x
    if x.op == "constant":
        if x.data == 0:
            return x
        if x.dtype.kind == "b":
            return y
    return None


def _or(b, x, y):
    if x.op != "constant":
        x, y = y, x
    if x is y:
        return x
    if x.op == "constant":
        if x.data == 0:
            return y
        if x.dtype.kind == "b":
            return x
    return None


def _not(b, x):
    return x.args[0] if x.op == "not" else None


def _convert(b, x):
    return None


def _compare_same(answer: bool):
    def fold(b, x, y):
        if x is y and x.dtype.kind in "ibu":
            return b.constant(np.bool_(answer))
        return None

    return fold


_FOLDS = {
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "div": _div,
    "neg": _neg,
    "max": _same,
    "min": _same,
    "select": _select,
    "and": _and,
    "or": _or,
    "not": _not,
    "eq": _compare_same(True),
    "le": _compare_same(True),
    "ge": _compare_same(True),
    "ne": _compare_same(False),
    "lt": _compare_same(False),
    "gt": _compare_same(False),
}


# --- passes over the whole program


def finish(program: Program) -> Program:
    """Drop what no output needs, then join products with sums and share divisions."""
    _drop_dead(program)
    uses = _uses(program)
    _share_divisions(program.block, uses)
    _join_products(program.block, _uses(program))
    _drop_dead(program)
    return program


def _drop_dead(program: Program) -> None:
    """Keep values, stores and carries that reach an output."""
    stores: dict[int, list[Value]] = {}
    holder: dict[int, Value] = {}  # the loop or branch that a block is of
    for block in blocks(program.block):
        for value in block.ops:
            if value.op == "store":
                stores.setdefault(id(value.data), []).append(value)
            for inner in inner_blocks(value):
                holder[id(inner)] = value
    live: set[int] = set()
    todo: list[Value] = []

    def need(value: Value):
        if id(value) not in live:
            live.add(id(value))
            todo.append(value)

    for output in program.outputs:
        if isinstance(output, Memory):
            for store in stores.get(id(output), []):
                need(store)
        else:
            for value in output.flat:
                need(value)
    kept: dict[int, set[int]] = {}  # carries of loops, results of branches
    while todo:
        value = todo.pop()
        for arg in value.args:
            need(arg)
        if value.block is not program.block and id(value.block) in holder:
            need(holder[id(value.block)])
        if value.op in ("param", "result"):
            of, k = value.data
            if k >= 0 and k not in kept.setdefault(id(of), set()):
                kept[id(of)].add(k)
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
        block.ops = [v for v in block.ops if id(v) in live]
        for value in block.ops:
            if value.op in ("loop", "branch"):
                _keep(value.data, sorted(kept.get(id(value.data), ())))


def _keep(of: Loop | Branch, kept: list[int]) -> None:
    """Drop the other carries of a loop, or results of a branch."""
    if isinstance(of, Branch):
        of.outs = ([of.outs[0][k] for k in kept], [of.outs[1][k] for k in kept])
        of.results = [of.results[k] for k in kept]
    else:
        if of.alive is not None:
            of.alive = kept.index(of.alive)
        for name in ("inits", "params", "outs", "results"):
            old = getattr(of, name)
            setattr(of, name, [old[k] for k in kept])
        for new, param in enumerate(of.params):
            param.data = (of, new)
    for new, result in enumerate(of.results):
        result.data = (of, new)


def _uses(program: Program) -> Counter:
    """How often each value is used, by id."""
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
        if not isinstance(output, Memory):
            uses.update(id(v) for v in output.flat)
    return uses


def _share_divisions(block: Block, uses: Counter) -> None:
    """Several divisions by one number become products with its inverse, taken once."""
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


def _join_products(block: Block, uses: Counter) -> None:
    """x y + z as one operation, where the product is used nowhere else."""
    for inner in blocks(block):
        for value in inner.ops:
            if value.op not in ("add", "sub") or value.dtype.kind != "f":
                continue
            x, y = value.args
            alone = [v.op == "mul" and uses[id(v)] == 1 and v.block is inner for v in (x, y)]
            if alone[1]:
                name = "fma" if value.op == "add" else "fnma"
                value.op, value.args = name, (*y.args, x)
            elif alone[0]:
                name = "fma" if value.op == "add" else "fms"
                value.op, value.args = name, (*x.args, y)
