"""Construction of a program's values, as few as possible.

``ProgramBuilder.op`` folds constants, drops operations without effect and reuses equal values, all
while the program is built, so that a product of matrices full of zeros never becomes large.
"""

from collections import Counter
from contextlib import contextmanager

import numpy as np

from jaxsim.fused.constants import evaluate
from jaxsim.fused.folds import FOLDS, THROUGH_TREES, leaves
from jaxsim.fused.program import Branch, KernelMemory, Loop, ProgramBlock, Value, deepest

COMMUTATIVE = {"add", "mul", "max", "min", "and", "or", "xor", "eq", "ne"}
BOOL = np.dtype(bool)
COMPARISONS = {"eq", "ne", "lt", "le", "gt", "ge"}


class ProgramBuilder:
    """Builder of values in ``block``, or further out where that is possible."""

    def __init__(self):
        self.root = ProgramBlock()
        self.block = self.root
        self.floor = self.root  # block of the innermost branch, whose values stay in it
        self.source = None  # the equation that is being lowered
        self._known: dict = {}  # values by operation and ids of arguments
        self._alive: list = []  # objects whose ids must not be reused

    def constant(self, number) -> Value:
        """Make the value of a numpy scalar."""
        if not isinstance(number, np.generic):
            number = np.asarray(number)[()]
        key = (type(number), number.tobytes())
        value = self._known.get(key)
        if value is None:
            value = Value("constant", (), number.dtype, self.root, number)
            self._known[key] = value
        return value

    def op(self, op: str, *args: Value, dtype=None) -> Value:
        """Make the value of an operation; dtype: by default that of the last argument."""
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
        """Make the value of a new operation, folded if possible."""
        if all([a.op == "constant" for a in args]):
            return self.constant(evaluate(op, dtype, *[a.data for a in args]))
        simple = self._fold(op, args, dtype)
        if simple is not None:
            return simple
        if op in COMMUTATIVE and args[0].number > args[1].number:
            return self.op(op, args[1], args[0], dtype=dtype)
        return self._place(Value(op, args, dtype, self._home(args), None, self.source))

    def _home(self, args) -> ProgramBlock:
        """Block of a value with these arguments: as far out as possible, but within its branch."""
        block = deepest(args)
        return block if block.depth >= self.floor.depth else self.floor

    def _place(self, value: Value) -> Value:
        value.block.ops.append(value)
        self._alive.append(value)
        return value

    @contextmanager
    def within(self, block: ProgramBlock):
        """Context in which values are made at the end of another block."""
        before = self.block, self.floor
        self.block = self.floor = block
        try:
            yield
        finally:
            self.block, self.floor = before

    # --- memory

    def outermost(self, memory: KernelMemory) -> ProgramBlock:
        """Outermost block in which a memory can be read; within a branch, that of the branch."""
        home = self.root if memory.home is None else memory.home
        return home if home.depth >= self.floor.depth else self.floor

    def load(self, memory: KernelMemory, index: Value) -> Value:
        """Make a load from memory that is not written any more."""
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

    def read_now(self, memory: KernelMemory, index: Value) -> Value:
        """Make a load from local memory that is written repeatedly: read here, in this order."""
        load = Value("load", (index,), memory.dtype, self.block, memory, self.source)
        return self._place(load)

    def store(
        self, memory: KernelMemory, index: Value, number: Value, block: ProgramBlock | None = None
    ):
        """Make a store to memory at the end of the current block (or of another one)."""
        block = self.block if block is None else block
        self._place(Value("store", (index, number), memory.dtype, block, memory, self.source))

    def stored(self, values: list[Value]) -> KernelMemory:
        """Make memory with these values: constant if they are, else local, written once."""
        key = ("stored", *map(id, values))
        memory = self._known.get(key)
        if memory is None or (memory.home is not None and not memory.home.open):
            dtype = values[0].dtype
            if all(v.is_constant for v in values):
                numbers = np.array([v.data for v in values], dtype)
                memory = KernelMemory("constant", dtype, len(values), values=numbers)
            else:
                memory = KernelMemory("local", dtype, len(values), self._home(values))
                for k, v in enumerate(values):
                    self.store(memory, self.constant(np.int32(k)), v, memory.home)
            self._known[key] = memory
            self._alive.append(values)
        return memory

    # --- loops

    def loop(
        self, inits: list[Value], length: int | None, body, alive=None, fixed=(), thorough=False
    ) -> list:
        """Make a loop; ``body(counter, params)`` returns the next carries. Returns the last ones.

        fixed: carries that never change. thorough: others are found by trial: those that begin
        as constants are taken as unchanging, until a round of the body changes them.
        """
        unchanging = set(fixed)
        if thorough:
            unchanging |= {k for k, v in enumerate(inits) if v.is_constant}
        unchanging.discard(alive)
        outer = self.block
        while True:
            inner = ProgramBlock(outer)
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
        loop.results = [Value("result", (), v.dtype, outer, (loop, k)) for k, v in enumerate(inits)]
        outer.ops.append(holder)
        same = [
            k in unchanging or out is inits[k] or out is loop.params[k]
            for k, out in enumerate(loop.outs)
        ]
        return [init if stays else result for init, stays, result in zip(inits, same, loop.results)]

    def branch(self, condition: Value, yes, no) -> list[Value]:
        """Make a branch: values of ``yes()`` where the condition holds, else those of ``no()``."""
        outer, floor = self.block, self.floor
        made = []
        for run in (yes, no):
            self.block = self.floor = inner = ProgramBlock(outer)
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
        rule = FOLDS.get(op)
        if rule is not None:
            simple = rule(self, *args)
            if simple is not None:
                return simple
        if dtype.kind in "ibu" and op in THROUGH_TREES:
            return self._through_tree(op, args, dtype)
        return None

    def _through_tree(self, op: str, args, dtype) -> Value | None:
        """Fold op(select(c, 1, 3), 2) to select(c, op(1, 2), op(3, 2)): indices stay selects."""
        trees = [k for k, a in enumerate(args) if not a.is_constant]
        if len(trees) != 1 or not leaves(args[trees[0]]):
            return None
        at = trees[0]

        def rebuilt(node: Value) -> Value:
            if node.is_constant:
                return self.op(op, *args[:at], node, *args[at + 1 :], dtype=dtype)
            condition, yes, no = node.args
            return self.op("select", condition, rebuilt(yes), rebuilt(no))

        return rebuilt(args[at])

    def pick(self, candidates: list[Value], index: Value, most: int) -> Value:
        """Make candidates[index]: a chain of up to ``most`` selects, else a load from memory."""
        if index.is_constant:
            return candidates[int(index.data)]
        if all(c is candidates[0] for c in candidates):
            return candidates[0]
        if leaves(index):

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
