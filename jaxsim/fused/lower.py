"""Lower a jaxpr to the scalar program: each equation by the rule of its primitive.

During lowering, an array is one of three things: a numeric numpy array, if all of it is known;
an object array of values; or ``Stored``, numbers in memory that are not loaded yet.
"""

import gc
import math
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import jax
import numpy as np
from jax.extend.core import Literal

from jaxsim.fused.builder import ProgramBuilder
from jaxsim.fused.errors import FuseError, NoRule
from jaxsim.fused.program import KernelMemory, KernelProgram, ProgramBlock, Value, walk
from jaxsim.fused.simplify import finish
from jaxsim.fused.source import has_place, place

Rule = Callable[..., Any]
RULES: dict[str, Rule] = {}  # primitive -> rule(lowering, eqn, *arrays) -> array or list of arrays
INSTEAD: dict[str, str] = {}  # primitive without a rule -> what to use in its place
MOST_ELEMENTS = 20_000  # of an array whose elements are all loaded
DTYPES = ("bool", "int32", "uint32", "int64", "uint64", "float32", "float64")


def rule(*primitives: str) -> Callable[[Rule], Rule]:
    """Decorator that registers a function as the rule of primitives."""

    def enter(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(primitives, function))
        return function

    return enter


@dataclass(eq=False)
class Stack:
    """Rows that a loop stacks: ``values`` are those of row ``at``, in its body.

    They are written at the first use of their memory; until then they can be cut and joined.
    """

    builder: ProgramBuilder
    body: ProgramBlock
    at: Value
    length: int
    dtype: np.dtype
    values: list[Value]

    @cached_property
    def memory(self) -> KernelMemory:
        """Memory of the rows, which are written at the end of each round."""
        b = self.builder
        memory = KernelMemory("local", self.dtype, self.length * len(self.values), self.body.parent)
        with b.within(self.body):
            start = b.op("mul", self.at, b.constant(np.int32(len(self.values))))
            for k, value in enumerate(self.values):
                b.store(memory, b.op("add", start, b.constant(np.int32(k))), value)
        return memory


class Stored:
    """Array in memory: its first row begins at ``start``, the next ``pitch`` numbers later."""

    def __init__(
        self,
        source: KernelMemory | Stack,
        shape: tuple[int, ...],
        start=0,
        pitch: int | None = None,
    ):
        self.source, self.shape, self.start = source, tuple(shape), start
        self.pitch = self.row if pitch is None else pitch
        self.in_tiles: Any = None  # a copy for products, if one was made
        self._elements: np.ndarray | None = None

    @property
    def memory(self) -> KernelMemory:
        return self.source.memory if isinstance(self.source, Stack) else self.source

    @property
    def dtype(self) -> np.dtype:
        return self.source.dtype

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def row(self) -> int:
        """Number of elements in a row."""
        return math.prod(self.shape[1:])

    @property
    def is_whole(self) -> bool:
        """True if the array is all of its memory, in its order."""
        return self.start == 0 and self.pitch == self.row and self.size == self.memory.size

    @property
    def stack(self) -> Stack | None:
        """Rows of the loop that stacks the array, if it is all of them; else None."""
        source = self.source
        if isinstance(source, Stack) and self.row == len(source.values):
            return source if self.size == source.length * self.row else None
        return None

    def reshaped(self, shape) -> "Stored | None":
        """Array of another shape; None if rows that are not adjacent would have to join."""
        if self.pitch == self.row:
            return Stored(self.source, shape, self.start)
        same = tuple(shape[:1]) == self.shape[:1]
        return Stored(self.source, shape, self.start, self.pitch) if same else None

    def rows(self, first: int, last: int) -> "Stored":
        """Rows from ``first`` up to before ``last``."""
        shape = (last - first, *self.shape[1:])
        return Stored(self.source, shape, self.start + first * self.pitch, self.pitch)

    def columns(self, first: int, last: int) -> "Stored":
        """Columns of a matrix from ``first`` up to before ``last``."""
        shape = (self.shape[0], last - first)
        if self.stack is not None:
            cut = replace(self.stack, values=self.stack.values[first:last])
            return Stored(cut, shape)
        return Stored(self.source, shape, self.start + first, self.pitch)

    def places(self) -> np.ndarray:
        """Indices of the elements in the memory, in the array's shape."""
        rows = self.start + self.pitch * np.arange(self.shape[0] if self.shape else 1)
        return np.add.outer(rows, np.arange(self.row)).reshape(self.shape)


class Lowering:
    """State of one lowering, the first argument of rules."""

    def __init__(self):
        self.builder = ProgramBuilder()

    @property
    def place(self) -> str:
        """Line of user code that is being lowered."""
        return "fuse" if self.builder.source is None else place(self.builder.source)

    def objects(self, array) -> np.ndarray:
        """Convert an array to an object array of values."""
        b = self.builder
        if isinstance(array, Stored):
            known = array._elements
            if known is None or not all(v.block.open for v in known.flat):
                if array.size > MOST_ELEMENTS:
                    raise FuseError(
                        f"{self.place}: an array of {array.size} numbers of shape"
                        f" {array.shape} is used as a whole; read it a row at a time (as the xs of"
                        " a scan, or with dynamic_index_in_dim), or sum up as the loop runs"
                    )
                known = np.empty(array.shape, object)
                for at, place in np.ndenumerate(array.places()):
                    known[at] = b.load(array.memory, b.constant(np.int32(place)))
                array._elements = known
            return known
        if array.dtype != object:
            flat = np.empty(array.size, object)
            for k, number in enumerate(array.reshape(-1)):
                flat[k] = b.constant(number)
            return flat.reshape(array.shape)
        return array

    def known(self, array):
        """Convert an array to a numeric one if all its values are constants; else return it."""
        if isinstance(array, Value):  # numpy returns the element of an array without axes
            scalar = np.empty((), object)
            scalar[()] = array
            array = scalar
        if isinstance(array, Stored) or array.dtype != object:
            return array
        if not array.size or not all(v.is_constant for v in array.flat):
            return array
        flat = np.array([v.data for v in array.flat], next(iter(array.flat)).dtype)
        return flat.reshape(array.shape)

    def run(self, jaxpr, consts, args) -> list:
        """Lower all equations of a jaxpr; return the arrays of its outputs."""
        arrays: dict = {}

        def read(atom: Any):
            if isinstance(atom, Literal):
                aval: Any = atom.aval
                return np.asarray(atom.val, aval.dtype)
            return arrays[atom]

        arrays.update(zip(jaxpr.constvars, consts))
        arrays.update(zip(jaxpr.invars, args))
        outer = self.builder.source
        for eqn in jaxpr.eqns:
            self.builder.source = eqn if outer is None or has_place(eqn) else outer
            found = RULES.get(eqn.primitive.name)
            if found is None:
                raise NoRule(no_rule_message(eqn, self.place))
            try:
                out = found(self, eqn, *map(read, eqn.invars))
            except FuseError:
                raise
            except Exception as error:
                raise FuseError(
                    f"{self.place}: the rule of {eqn.primitive.name!r} failed ({error!r});"
                    ' this is a fault of jaxsim.fused, backend="xla" works'
                ) from error
            out = out if isinstance(out, list) else [out]
            arrays.update(zip(eqn.outvars, map(self.known, out)))
        self.builder.source = outer
        return [read(v) for v in jaxpr.outvars]

    def closed(self, closed_jaxpr, args) -> list:
        """Lower a closed jaxpr; return the arrays of its outputs."""
        return self.run(closed_jaxpr.jaxpr, [numeric(c) for c in closed_jaxpr.consts], args)


def lower(closed_jaxpr) -> KernelProgram:
    """Lower a closed jaxpr of one character to a program."""
    lowering = Lowering()
    inputs, arrays = [], []
    for leaf, var in enumerate(closed_jaxpr.jaxpr.invars):
        check_dtype(var.aval.dtype, f"argument {leaf} of shape {var.aval.shape}")
        memory = KernelMemory(
            "input", np.dtype(var.aval.dtype), math.prod(var.aval.shape), leaf=leaf
        )
        inputs.append(memory)
        arrays.append(Stored(memory, var.aval.shape))
    consts = [numeric(c) for c in closed_jaxpr.consts]
    with np.errstate(all="ignore"), no_collection():
        outputs = lowering.run(closed_jaxpr.jaxpr, consts, arrays)
    for leaf, var in enumerate(closed_jaxpr.jaxpr.outvars):
        check_dtype(var.aval.dtype, f"output {leaf} of shape {var.aval.shape}")
    read = {id(v.data) for v in walk(lowering.builder.root) if v.op == "load"}
    read |= {id(a.memory) for a in outputs if isinstance(a, Stored) and not a.is_whole}
    out: list = []
    for leaf, array in enumerate(outputs):
        if _only_returned(array, read):
            if array.memory.kind == "local":
                array.memory.kind, array.memory.leaf = "output", leaf
            out.append(array.memory)
        else:
            out.append(lowering.objects(array))
    return finish(KernelProgram(lowering.builder.root, inputs, out))


@contextmanager
def no_collection():
    """Context without garbage collection.

    During lowering it would visit all values again and again; during a recording a Dr.Jit array
    that it frees would abort the process.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _only_returned(array, read: set[int]) -> bool:
    """True for rows that a loop stacks and nothing reads: they can be written to the output."""
    if not isinstance(array, Stored):
        return False
    memory = array.memory
    return array.is_whole and memory.kind in ("local", "output") and id(memory) not in read


def numeric(x) -> np.ndarray:
    """Convert a constant of a jaxpr to a numpy array; FuseError for one that is no number."""
    dtype = getattr(x, "dtype", None)
    if dtype is not None and jax.dtypes.issubdtype(dtype, jax.dtypes.extended):
        raise FuseError(
            f"a constant of dtype {dtype} cannot be fused; draw random numbers outside and pass"
            " them in"
        )
    array = np.asarray(x)
    check_dtype(array.dtype, f"a constant of shape {array.shape}")
    return array


def check_dtype(dtype, what: str) -> None:
    """Raise FuseError unless kernels have the dtype."""
    if str(dtype) not in DTYPES:
        raise FuseError(f"{what} has dtype {dtype}; fused functions know {', '.join(DTYPES)}")


def no_rule_message(eqn, place: str) -> str:
    """Message about a primitive without a rule: place, name and replacement."""
    name = eqn.primitive.name
    instead = INSTEAD.get(
        name, 'rewrite it with elementwise functions and sums, or use backend="xla"'
    )
    return f"{place}: {name!r} has no rule in the fused back end; {instead}"
