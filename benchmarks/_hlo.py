"""Kernels and operations in one run of a compiled JAX program, loops counted by their trips.

``compiled.cost_analysis()`` of XLA counts the body of a loop once. This walks the text of the
optimised program instead, and multiplies.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

# Instructions that launch nothing by themselves.
FREE = {
    "after-all",
    "bitcast",
    "constant",
    "get-tuple-element",
    "optimization-barrier",
    "parameter",
    "partition-id",
    "replica-id",
    "tuple",
}
ARITHMETIC = {
    "abs",
    "add",
    "atan2",
    "cbrt",
    "ceil",
    "cosine",
    "divide",
    "erf",
    "exponential",
    "exponential-minus-one",
    "floor",
    "log",
    "log-plus-one",
    "logistic",
    "maximum",
    "minimum",
    "multiply",
    "negate",
    "power",
    "remainder",
    "round-nearest-afz",
    "round-nearest-even",
    "rsqrt",
    "sign",
    "sine",
    "sqrt",
    "subtract",
    "tan",
    "tanh",
}
CALLED = re.compile(r"(?:calls|to_apply|body|branch_computations)=\{?([^,}\s]+(?:, ?%[\w.-]+)*)")
HEAD = re.compile(r"^(ENTRY )?%?([\w.-]+) \(.*\{$")
LINE = re.compile(r"^\s+(?:ROOT )?%?([\w.-]+) = (.*)$")
SHAPE = re.compile(r"^([a-z]\w*)\[([\d,]*)\](?:\{[^}]*\})? ")
TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')


@dataclass(frozen=True)
class Instruction:
    """One line of a computation."""

    opcode: str
    dtype: str  # of the result, "" for a tuple
    dims: tuple[int, ...]
    operands: tuple[str, ...]
    called: tuple[str, ...]
    trips: int | None  # of a loop; None if the program does not say
    text: str

    @property
    def size(self) -> int:
        return math.prod(self.dims)


@dataclass(frozen=True)
class Counts:
    """Of one run."""

    kernels: float  # fusions, products, copies, calls of libraries ...
    flops: float  # floating-point operations; a multiply and add of a product are two
    instructions: int  # lines of the program, fused ones too, loops once
    open_loops: int  # loops of unknown length, counted as one trip

    def per(self, steps: int) -> "Counts":
        """The same for one of so many equal steps."""
        return Counts(self.kernels / steps, self.flops / steps, self.instructions, self.open_loops)


def count(text: str) -> Counts:
    """Counts of an optimised program, ``compiled.as_text()``. Raises ValueError for other text."""
    computations = dict(_computations(text))
    if "ENTRY" not in computations:
        raise ValueError("no entry computation; pass compiled.as_text()")
    open_loops = 0

    def visit(name: str) -> tuple[float, float]:
        nonlocal open_loops
        kernels = flops = 0.0
        body = computations[name]
        for line in body.values():
            if line.opcode in ("while", "call", "conditional"):
                trips = line.trips if line.trips is not None else 1
                open_loops += line.opcode == "while" and line.trips is None
                inner = [visit(called) for called in line.called]
                kernels += trips * max((k for k, _ in inner), default=0)
                flops += trips * max((f for _, f in inner), default=0)
            elif line.opcode not in FREE:
                kernels += 1
                flops += _flops(line, body, computations)
        return kernels, flops

    kernels, flops = visit("ENTRY")
    named = [body for name, body in computations.items() if name != "ENTRY"]
    return Counts(kernels, flops, sum(len(body) for body in named), open_loops)


def _flops(line: Instruction, body: dict, computations: dict) -> float:
    if line.opcode == "fusion":
        inner = computations[line.called[0]]
        return sum(_flops(each, inner, computations) for each in inner.values())
    if line.opcode == "dot":
        left = body[line.operands[0]]
        contracted = re.search(r"lhs_contracting_dims=\{([\d,]*)\}", line.text)
        dims = [int(d) for d in contracted.group(1).split(",") if d] if contracted else []
        return 2.0 * line.size * math.prod(left.dims[d] for d in dims)
    if line.opcode == "reduce" and line.dtype.startswith(("f", "bf")):
        return float(max(body[line.operands[0]].size - line.size, 0))
    if line.opcode in ARITHMETIC and line.dtype.startswith(("f", "bf")):
        return float(line.size)
    return 0.0


def _computations(text: str) -> Iterator[tuple[str, dict[str, Instruction]]]:
    """Name and instructions of each computation; the entry comes twice, once as "ENTRY"."""
    name, lines, entry = None, {}, False
    for raw in text.splitlines():
        head = HEAD.match(raw)
        if head:
            name, lines, entry = head.group(2), {}, bool(head.group(1))
        elif raw.startswith("}") and name is not None:
            yield name, lines
            if entry:
                yield "ENTRY", lines
            name = None
        elif name is not None:
            match = LINE.match(raw)
            if match:
                lines[match.group(1)] = _instruction(match.group(2))


def _instruction(text: str) -> Instruction:
    shape = SHAPE.match(text)
    if shape:
        dtype, rest = shape.group(1), text[shape.end() :]
        dims = tuple(int(d) for d in shape.group(2).split(",") if d)
    else:
        dtype, dims, rest = "", (), text[_closing(text) + 1 :].lstrip()
    opcode, _, tail = rest.partition("(")
    arguments = tail[: _closing("(" + tail) - 1]
    trips = TRIPS.search(tail)
    called = tuple(
        name.strip().lstrip("%") for group in CALLED.findall(tail) for name in group.split(",")
    )
    return Instruction(
        opcode=opcode.strip(),
        dtype=dtype,
        dims=dims,
        operands=tuple(re.findall(r"%([\w.-]+)", arguments)),
        called=called,
        trips=int(trips.group(1)) if trips else None,
        text=tail,
    )


def _closing(text: str) -> int:
    """Index of the bracket that closes the first one, or -1."""
    depth = 0
    for i, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if character == ")" and depth == 0:
            return i
    return -1
