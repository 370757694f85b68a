"""The program on Dr.Jit: each value becomes a variable of a kernel, each loop a symbolic loop.

Nothing runs here. Dr.Jit records the operations, compiles them once and keeps the kernel on disk,
so that a program seen before costs only its recording.
"""

import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from jaxsim.fused.errors import FuseError
from jaxsim.fused.program import Block, Branch, Loop, Memory, Program, Value, walk

LOCAL_BYTES = 65_536  # of all local memory of a lane

TURNED = {"float32": 1e5, "float64": 1e9}  # [rad] of larger angles sin, cos and tan are NaN

TYPES = {
    "bool": "Bool",
    "int32": "Int",
    "uint32": "UInt",
    "int64": "Int64",
    "uint64": "UInt64",
    "float32": "Float",
    "float64": "Float64",
}


class Replay:
    """One recording. ``read`` and ``write`` address the inputs and outputs of the lanes."""

    def __init__(self, types: ModuleType, read: Callable, write: Callable):
        import drjit

        self.dr, self.types = drjit, types
        self.read, self.write = read, write
        self.made: dict[int, Any] = {}  # variables by the id of their value
        self.tables: dict[int, Any] = {}  # buffers of local and constant memory, by its id
        self.operations = _operations(drjit, self.type)

    def type(self, dtype: np.dtype):
        """The array type of a dtype."""
        return getattr(self.types, TYPES[dtype.name])

    def run(self, program: Program) -> None:
        """Record the program, its outputs last."""
        self.block(program.block)
        for leaf, output in enumerate(program.outputs):
            if not isinstance(output, Memory):
                for k, value in enumerate(output.reshape(-1)):
                    self.write(leaf, self.types.UInt(k), self.variable(value))

    def variable(self, value: Value):
        """The variable of a value."""
        if value.op == "constant":
            return self.type(value.dtype)(value.data.item())
        return self.made[id(value)]

    def block(self, block: Block) -> None:
        """Record a block's values in their order."""
        for value in block.ops:
            if value.op == "loop":
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

    def load(self, memory: Memory, index: Value):
        """A number of memory."""
        at = self.types.UInt(self.variable(index))
        if memory.kind == "input":
            return self.read(memory, at)
        table = self.table(memory)
        if memory.kind != "local":
            return self.dr.gather(self.type(memory.dtype), table, at)
        return table[at] == 1 if memory.dtype == bool else table[at]

    def store(self, memory: Memory, index: Value, number: Value) -> None:
        """Write to an output or to local memory."""
        at = self.types.UInt(self.variable(index))
        if memory.kind == "output":
            self.write(memory.leaf, at, self.variable(number))
        elif memory.dtype == bool:
            self.table(memory)[at] = self.dr.select(self.variable(number), self.types.UInt(1), 0)
        else:
            self.table(memory)[at] = self.variable(number)

    def table(self, memory: Memory):
        """The buffer of local or constant memory."""
        if id(memory) not in self.tables:
            # LLVM refuses what Dr.Jit makes of local bools: integers stand for them
            kind = self.types.UInt if memory.dtype == bool else self.type(memory.dtype)
            self.tables[id(memory)] = self.dr.alloc_local(kind, memory.size)
        return self.tables[id(memory)]

    def loop(self, loop: Loop) -> None:
        """Record a loop; what it writes to in local memory is part of its state."""
        written = _written(loop.body)
        for memory in written:
            self.table(memory)
        counter = [self.types.Int(0)] if loop.length is not None else []
        state = (
            *counter,
            *(self.variable(v) for v in loop.inits),
            *(self.tables[id(m)] for m in written),
        )
        first = len(counter)
        last = first + len(loop.inits)

        def goes_on(*state):
            if loop.length is not None:
                return state[0] < loop.length
            assert loop.alive is not None
            return state[first + loop.alive]

        def body(*state):
            if loop.counter is not None:
                self.made[id(loop.counter)] = state[0]
            for param, variable in zip(loop.params, state[first:last]):
                self.made[id(param)] = variable
            for memory, table in zip(written, state[last:]):
                self.tables[id(memory)] = table
            self.block(loop.body)
            return (
                *([state[0] + 1] if counter else []),
                *(self.variable(v) for v in loop.outs),
                *(self.tables[id(m)] for m in written),
            )

        end = self.dr.while_loop(state, goes_on, body, mode="symbolic")
        self._take(loop.results, end[first:last], written, end[last:])

    def branch(self, condition: Value, branch: Branch) -> None:
        """Record a branch; lanes run the block of theirs."""
        written = list(dict.fromkeys(m for block in branch.blocks for m in _written(block)))
        tables = tuple(self.table(m) for m in written)

        def run(k: int):
            def run_block(*given):
                self._take((), (), written, given)
                self.block(branch.blocks[k])
                outs = (self.variable(v) for v in branch.outs[k])
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


def check_room(program: Program) -> None:
    """FuseError if a lane's local memory is too large."""
    bytes_ = sum(
        m.size * (4 if m.dtype == bool else m.dtype.itemsize) for m in _written(program.block)
    )
    if bytes_ > LOCAL_BYTES:
        raise FuseError(
            f"the function keeps {bytes_} bytes a lane that are read at computed indices;"
            f" fused functions have room for {LOCAL_BYTES}. Keep less (fewer rows of a scan's"
            " ys that are read again), or return it and read it in a second function"
        )


def constants(block: Block) -> list[Memory]:
    """The constant memory that a block reads."""
    found = {
        id(v.data): v.data for v in walk(block) if v.op == "load" and v.data.kind == "constant"
    }
    return list(found.values())


def _written(block: Block) -> list[Memory]:
    found = {id(v.data): v.data for v in walk(block) if v.op == "store" and v.data.kind == "local"}
    return list(found.values())


def _operations(dr: ModuleType, type_of: Callable) -> dict[str, Callable]:
    """How each operation is said to Dr.Jit, with XLA's meaning at the edges."""

    def kind(dtype: np.dtype) -> str:
        return dtype.kind

    def divide(x, y, dtype):
        if kind(dtype) == "f":
            return x / y
        zero = y == 0
        if kind(dtype) == "u":
            return dr.select(zero, ~type_of(dtype)(0), x // dr.select(zero, 1, y))
        minus = y == -1  # the least integer by -1 would trap
        quotient = x // dr.select(zero | minus, 1, y)
        return dr.select(zero, -1, dr.select(minus, -x, quotient))

    def remainder(x, y, dtype):
        if kind(dtype) == "f":
            return float_remainder(x, y, dtype)
        zero = y == 0
        if kind(dtype) == "u":
            return dr.select(zero, x, x % dr.select(zero, 1, y))
        minus = y == -1
        rest = x % dr.select(zero | minus, 1, y)
        return dr.select(zero, x, dr.select(minus, 0, rest))

    def float_remainder(x, y, dtype):
        size, by = dr.abs(x), dr.abs(y)
        many = size / by
        rest = dr.fma(-dr.trunc(many), by, size)
        rest = dr.select(rest < 0, rest + by, dr.select(rest >= by, rest - by, rest))
        normal = (by >= float(np.finfo(dtype).tiny)) & (size < math.inf)
        rest = dr.select(by == math.inf, size, rest)
        long = normal & ~(many < 2.0 ** (np.finfo(dtype).nmant - 1))  # division by hand, exactly
        unit = by / power_of_two(by, dtype)

        def subtracted(rest):
            most = unit * power_of_two(rest, dtype)
            return (rest - dr.select(most > rest, 0.5 * most, most),)

        more = (dr.select(long, size, rest),)
        (rest,) = dr.while_loop(more, lambda r: normal & (r >= by), subtracted, mode="symbolic")
        return dr.copysign(dr.select(normal, rest, math.nan), x)

    def power_of_two(x, dtype):
        """The greatest that is not above a positive number."""
        bits = type_of(np.dtype(f"u{dtype.itemsize}"))
        exponent = int(np.array(np.inf, dtype).view(f"u{dtype.itemsize}"))
        return dr.reinterpret_array(type_of(dtype), dr.reinterpret_array(bits, x) & exponent)

    def convert(x, dtype):
        target = type_of(dtype)
        source = dr.type_v(x)
        if kind(dtype) == "b":
            return ~(x == 0)
        if kind(dtype) in "iu" and source in (dr.VarType.Float32, dr.VarType.Float64):
            info = np.iinfo(dtype)
            low, high = float(info.min), float(info.max)
            inside = (x > low) & (x < high)
            cut = target(dr.select(inside, x, 0))
            return dr.select(x >= high, int(info.max), dr.select(x <= low, int(info.min), cut))
        if source == dr.VarType.Bool:
            return dr.select(x, target(1), target(0))
        return target(x)

    def sign(x, dtype):
        if kind(dtype) == "u":
            return dr.select(x == 0, x, type_of(dtype)(1))
        one = type_of(dtype)(1)
        if kind(dtype) == "i":
            return dr.select(x > 0, one, dr.select(x < 0, -one, x))
        return dr.select(x > 0, one, dr.select(x < 0, -one, x))

    def power(x, y, dtype):
        y = type_of(dtype)(y)  # it may be an integer
        whole, half = dr.trunc(y) == y, 0.5 * y
        odd = whole & ~(dr.trunc(half) == half)
        size = dr.exp2(y * dr.log2(dr.abs(x)))
        size = dr.select(x == 0, dr.select(y > 0, type_of(dtype)(0), math.inf), size)
        out = dr.select(odd, dr.copysign(size, x), size)
        out = dr.select((x < 0) & ~whole & (x > -math.inf), math.nan, out)
        out = dr.select((x == -1) & (dr.abs(y) == math.inf), 1, out)
        out = dr.select((x == x) & (y == y), out, math.nan)
        return dr.select((y == 0) | (x == 1), 1, out)

    def atan2(y, x, dtype):
        up, right = dr.abs(y), dr.abs(x)
        angle = dr.select(up == right, math.pi / 4, dr.atan2(up, right))  # also of infinities
        angle = dr.select(up == 0, 0, angle)
        angle = dr.select(dr.copysign(1, x) < 0, math.pi - angle, angle)
        return dr.select((x == x) & (y == y), dr.copysign(angle, y), math.nan)

    def odd(name):
        """A function that keeps zeros with their signs, and NaN, which Dr.Jit's does not."""
        function = getattr(dr, name)
        return lambda x, dtype: dr.select(dr.abs(x) > 0, function(x), x)

    def circular(function):
        """NaN beyond what Dr.Jit can bring into one turn; there it would be no sine at all."""
        return lambda x, dtype: dr.select(
            dr.abs(x) <= TURNED[dtype.name], function(x, dtype), math.nan
        )

    def tan(x, dtype):
        if dtype.itemsize == 4:
            return dr.tan(x)
        sine, cosine = dr.sincos(x)  # Dr.Jit's tangent is x below 1e-4
        return sine / cosine

    def cosh(x, dtype):
        half = dr.exp(0.5 * dr.abs(x))  # so that no factor overflows before the result
        return 0.5 * half * half + 0.5 / half / half

    def sinh(x, dtype):
        half = dr.exp(0.5 * dr.abs(x))
        far = dr.copysign(0.5 * half * half - 0.5 / half / half, x)
        return dr.select(dr.abs(x) < 1, dr.sinh(x), far)

    def expm1(x, dtype):
        u = dr.exp(x)
        near = (u - 1) * (x / dr.log(u))  # Kahan
        return dr.select(u == 1, x, dr.select((u - 1 == -1) | (u == math.inf), u - 1, near))

    def log1p(x, dtype):
        u = 1 + x
        near = dr.log(u) * (x / (u - 1))
        return dr.select(u == 1, x, dr.select(u == math.inf, u, near))

    def shift_left(x, y, dtype):
        beyond = (y < 0) | (y >= 8 * dtype.itemsize)
        return dr.select(beyond, 0, x << dr.select(beyond, 0, y))

    def shift_right_arithmetic(x, y, dtype):
        signed = type_of(np.dtype(f"i{dtype.itemsize}"))
        beyond = (y < 0) | (y >= 8 * dtype.itemsize)
        return type_of(dtype)(signed(x) >> signed(dr.select(beyond, 8 * dtype.itemsize - 1, y)))

    def shift_right_logical(x, y, dtype):
        unsigned = type_of(np.dtype(f"u{dtype.itemsize}"))
        beyond = (y < 0) | (y >= 8 * dtype.itemsize)
        moved = unsigned(x) >> unsigned(dr.select(beyond, 0, y))
        return type_of(dtype)(dr.select(beyond, 0, moved))

    def compare(function):
        return lambda x, y, dtype: function(x, y)

    def plain(name):
        function = getattr(dr, name)
        return lambda *args, dtype: function(*args)

    return {
        "add": lambda x, y, dtype: x | y if kind(dtype) == "b" else x + y,  # of a product of bools
        "sub": lambda x, y, dtype: x - y,
        "mul": lambda x, y, dtype: x & y if kind(dtype) == "b" else x * y,
        "fma": lambda x, y, z, dtype: dr.fma(x, y, z),
        "fms": lambda x, y, z, dtype: dr.fma(x, y, -z),
        "fnma": lambda x, y, z, dtype: dr.fma(-x, y, z),
        "div": divide,
        "rem": remainder,
        "neg": lambda x, dtype: -x,
        "abs": lambda x, dtype: x if kind(dtype) == "u" else dr.abs(x),
        "sign": sign,
        "max": lambda x, y, dtype: x | y if kind(dtype) == "b" else dr.maximum(x, y),
        "min": lambda x, y, dtype: x & y if kind(dtype) == "b" else dr.minimum(x, y),
        "pow": power,
        "atan2": atan2,
        "sin": circular(lambda x, dtype: dr.sin(x)),
        "cos": circular(lambda x, dtype: dr.cos(x)),
        "tan": circular(tan),
        "sinh": sinh,
        "cosh": cosh,
        "rsqrt": lambda x, dtype: 1 / dr.sqrt(x),
        "expm1": expm1,
        "log1p": log1p,
        "logistic": lambda x, dtype: 1 / (1 + dr.exp(-x)),
        "is_finite": lambda x, dtype: dr.isfinite(x),
        "eq": compare(lambda x, y: x == y),
        "ne": compare(lambda x, y: ~(x == y)),  # Dr.Jit's != is false of NaN
        "lt": compare(lambda x, y: x < y),
        "le": compare(lambda x, y: x <= y),
        "gt": compare(lambda x, y: x > y),
        "ge": compare(lambda x, y: x >= y),
        "and": lambda x, y, dtype: x & y,
        "or": lambda x, y, dtype: x | y,
        "xor": lambda x, y, dtype: x ^ y,
        "not": lambda x, dtype: ~x,
        "shift_left": shift_left,
        "shift_right_logical": shift_right_logical,
        "shift_right_arithmetic": shift_right_arithmetic,
        "select": lambda c, x, y, dtype: dr.select(c, x, y),
        "convert": convert,
        **{
            name: plain(name)
            for name in ("sqrt", "cbrt", "exp", "exp2", "log", "asin", "acos", "acosh", "atanh",
                         "floor", "ceil", "round", "trunc")
        },
        **{name: odd(name) for name in ("atan", "tanh", "asinh", "erf")},
    }  # fmt: skip
