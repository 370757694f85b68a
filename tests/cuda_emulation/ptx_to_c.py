"""PTX as Dr.Jit writes it, as C: each kernel a function that runs all its threads in turn.

    python ptx_to_c.py KERNEL.ptx KERNEL.c

It knows what kernels of elementwise operations, loops and local arrays have, and raises ValueError
for anything else. The hardware's approximate functions (``sin.approx`` and its like) get, on top of
libm's result, the largest error that NVIDIA's description of PTX allows them, up or down by chance
of the argument's bits: what a kernel makes of them is then as wrong as a GPU may be.
"""

import re
import sys
from collections.abc import Callable
from pathlib import Path

TYPES = {
    **{"f32": "float", "f64": "double", "pred": "uint8_t"},
    **{f"{kind}{bits}": f"int{bits}_t" for kind in "s" for bits in (8, 16, 32, 64)},
    **{f"{kind}{bits}": f"uint{bits}_t" for kind in "ub" for bits in (8, 16, 32, 64)},
}
REGISTERS = {  # by the letters of their names
    **{"f": "f32", "d": "f64", "r": "u32", "rd": "u64"},
    **{"p": "pred", "w": "u16", "b": "u8"},
}
HEAD = r"""
#include <stdint.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
static inline float ff(uint32_t u) { float f; memcpy(&f, &u, 4); return f; }
static inline uint32_t uf(float f) { uint32_t u; memcpy(&u, &f, 4); return u; }
static inline double dd(uint64_t u) { double f; memcpy(&f, &u, 8); return f; }
static inline uint64_t ud(double f) { uint64_t u; memcpy(&u, &f, 8); return u; }
static inline float ftz(float x) { return fabsf(x) < 1.17549435e-38f ? copysignf(0, x) : x; }
static inline double maxn(double a, double b) {
    return isnan(a) || isnan(b) ? NAN : a > b ? a : a == b && signbit(b) ? a : b; }
static inline double minn(double a, double b) {
    return isnan(a) || isnan(b) ? NAN : a < b ? a : a == b && signbit(a) ? a : b; }
#define TO_INTEGER(name, type, least, most) static inline type name(double x) { \
    return isnan(x) ? 0 : x <= (double) least ? least : x >= (double) most ? most : (type) x; }
TO_INTEGER(to_s32, int32_t, INT32_MIN, INT32_MAX) TO_INTEGER(to_u32, uint32_t, 0, UINT32_MAX)
TO_INTEGER(to_s64, int64_t, INT64_MIN, INT64_MAX) TO_INTEGER(to_u64, uint64_t, 0, UINT64_MAX)
static inline double wrong(float x) { return (uf(x) * 2654435761u >> 16 & 1) ? 1 : -1; }
static inline float off_by(double y, float x, double error) { return y + wrong(x) * error; }
static inline float off_part(double y, float x, double error) { return y * (1 + wrong(x) * error); }
static inline float sin_a(float x) { return off_by(sin(x), x, exp2(-20.9)); }
static inline float cos_a(float x) { return off_by(cos(x), x, exp2(-20.9)); }
static inline float lg2_a(float x) { return off_by(log2(x), x, exp2(-22)); }
static inline float ex2_a(float x) { return off_part(exp2(x), x, exp2(-22)); }
static inline float tanh_a(float x) { return off_part(tanh(x), x, exp2(-11)); }
static inline float rsqrt_a(float x) { return off_part(1 / sqrt(x), x, exp2(-22.9)); }
static inline float rcp_a(float x) { return off_part(1.0 / x, x, exp2(-23)); }
static inline float sqrt_a(float x) { return off_part(sqrt(x), x, exp2(-23)); }
"""
APPROXIMATE = {"sin", "cos", "lg2", "ex2", "tanh", "rsqrt", "rcp", "sqrt"}
DIRECTIVES = (".version", ".target", ".address", ".reg", ".pragma")
COMPARED = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
OPPOSITE = {"eq": "ne", "ne": "eq", "lt": "ge", "le": "gt", "gt": "le", "ge": "lt"}
ROUNDED = {"rni": "nearbyint", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}


def kind(register: str) -> str:
    """The letters of a register's name."""
    found = re.match(r"%([a-z]+)\d+", register)
    if found is None:
        raise ValueError(f"no register: {register}")
    return found[1]


def read(operand: str, type_: str) -> str:
    """An operand as a C expression of a type."""
    x = operand.strip()
    negated, x = x.startswith("!"), x.lstrip("!")
    if x.startswith("%"):
        pair = kind(x), type_[0] in "sub" and type_[1:]
        again = {("r", "f32"): "ff", ("rd", "f64"): "dd"}.get((kind(x), type_)) or {
            ("f", "32"): "uf",
            ("d", "64"): "ud",
        }.get(pair)
        found = f"{again}({x[1:]})" if again else x[1:]
        return f"(!{found})" if negated else f"(({TYPES[type_]}){found})"
    if re.match(r"0[fF][0-9a-fA-F]{8}$", x):
        return f"ff(0x{x[2:]}u)"
    if re.match(r"0[dD][0-9a-fA-F]{16}$", x):
        return f"dd(0x{x[2:]}ull)"
    if type_ in ("f32", "f64"):
        return f"ff({x}u)" if type_ == "f32" else f"dd({x}ull)"
    return f"(({TYPES[type_]}){x}{'ll' if x.startswith('-') else 'ull'})"


def write(register: str, expression: str, type_: str) -> str:
    """A register takes an expression of a type."""
    whole = type_[0] in "sub" and type_ != "pred"
    again = {("f", True): "ff", ("d", True): "dd"}.get((kind(register), whole))
    if again is None:
        again = {("r", "f32"): "uf", ("rd", "f64"): "ud"}.get((kind(register), type_))
    return (
        f"{register[1:]} = {again}({expression});" if again else f"{register[1:]} = {expression};"
    )


def split(operands: str) -> list[str]:
    """At the commas outside of brackets."""
    return [x.strip() for x in re.findall(r"(?:[^,{\[]|\{[^}]*\}|\[[^\]]*\])+", operands)]


class Instruction:
    """One line of PTX: ``parts`` of its name, its operands."""

    def __init__(self, name: str, operands: list[str]):
        self.name, self.parts, self.operands = name, name.split("."), operands
        self.type = self.parts[-1]
        self.flushes = "ftz" in self.parts and self.type == "f32"
        self.to = operands[0] if operands else ""

    def get(self, k: int, type_: str = "") -> str:
        found = read(self.operands[k], type_ or self.type)
        return f"ftz({found})" if self.flushes and type_ in ("", "f32") else found

    def put(self, expression: str, type_: str = "") -> str:
        if self.flushes and type_ in ("", "f32"):
            expression = f"ftz({expression})"
        return write(self.to, expression, type_ or self.type)

    @property
    def c(self) -> str:
        return TYPES[self.type]

    @property
    def is_float(self) -> bool:
        return self.type[0] == "f"


def _move(i: Instruction) -> str:
    special = {"%ctaid": "block", "%ntid": "ntid", "%tid": "tid"}.get(i.operands[1].split(".")[0])
    return f"{i.to[1:]} = {special};" if special else i.put(i.get(1))


def _place(operand: str) -> Callable[[int, str], str]:
    """``[register+offset]`` or ``array[index]``: number k of a type there."""
    if array := re.match(r"(\w+)\[%?(.+)\]$", operand):
        return lambda k, c: f"{array[1]}[{array[2]}]"
    if address := re.match(r"\[(%\w+)(?:\+(-?\d+))?\]$", operand):
        return lambda k, c: f"(({c}*)({address[1][1:]}+{address[2] or 0}))[{k}]"
    raise ValueError(f"no address: {operand}")


def _load(i: Instruction) -> str:
    if i.parts[1] == "param":
        offset = re.search(r"\+(\d+)", i.operands[1])
        from_ = offset[1] if offset else 0
        return f"{{{i.c} x; memcpy(&x, params + {from_}, sizeof x); {write(i.to, 'x', i.type)}}}"
    at = _place(i.operands[1])
    registers = [x.strip() for x in i.to.strip("{}").split(",")]
    return "".join(write(r, f"({at(k, i.c)})", i.type) for k, r in enumerate(registers))


def _store(i: Instruction) -> str:
    at = _place(i.to)
    registers = [x.strip() for x in i.operands[1].strip("{}").split(",")]
    return "".join(f"{at(k, i.c)} = {read(r, i.type)};" for k, r in enumerate(registers))


def _arithmetic(i: Instruction) -> str:
    sign = {"add": "+", "sub": "-", "mul": "*"}[i.parts[0]]
    how = i.parts[1]
    if how == "hi":
        wide = {"u64": "unsigned __int128", "s64": "__int128", "u32": "uint64_t", "s32": "int64_t"}
        product = f"(({wide[i.type]}){i.get(1)} * ({wide[i.type]}){i.get(2)})"
        return i.put(f"({i.c})({product} >> {i.type[1:]})")
    if how == "wide":
        return _wide(i, "")
    return i.put(f"({i.c})({i.get(1)} {sign} {i.get(2)})")


def _wide(i: Instruction, plus: str) -> str:
    wide = "u64" if i.type == "u32" else "s64"
    product = f"({TYPES[wide]}){i.get(1)} * ({TYPES[wide]}){i.get(2)}"
    return i.put(f"({TYPES[wide]})({product}{plus})", wide)


def _multiply_add(i: Instruction) -> str:
    if i.parts[1] == "wide":
        return _wide(i, f" + {i.get(3, 'u64' if i.type == 'u32' else 's64')}")
    return i.put(f"({i.c})({i.get(1)} * {i.get(2)} + {i.get(3)})")


def _divide(i: Instruction) -> str:
    x, y = i.get(1), i.get(2)
    return i.put(f"({x} / {y})" if i.is_float else f"({y} ? {x} / {y} : -1)")


def _extreme(i: Instruction) -> str:
    x, y, name = i.get(1), i.get(2), i.parts[0]
    if i.is_float:
        return i.put(f"{name}n({x}, {y})")
    return i.put(f"({x} {'>' if name == 'max' else '<'} {y} ? {x} : {y})")


def _function(i: Instruction) -> str:
    name, x = i.parts[0], i.get(1)
    if "approx" in i.parts:
        if name not in APPROXIMATE or i.type != "f32":
            raise ValueError(f"unknown: {i.name}")
        return i.put(f"{name}_a({x})")
    if name == "sqrt":
        return i.put(f"({i.c}) sqrt{'f' if i.type == 'f32' else ''}({x})")
    return i.put(f"({i.c})(1 / {x})")  # rcp


def _compare(i: Instruction) -> str:
    how, x, y = i.parts[1], i.get(1), i.get(2)
    unordered = i.is_float and how.endswith("u") and how[:-1] in COMPARED
    if how == "ne" and i.is_float:
        found = f"({x} < {y} || {x} > {y})"
    elif how in COMPARED:
        found = f"({x} {COMPARED[how]} {y})"
    elif unordered and how == "neu":
        found = f"!({x} == {y})"
    elif unordered and how == "equ":
        found = f"!({x} < {y} || {x} > {y})"
    elif unordered:
        found = f"!({x} {COMPARED[OPPOSITE[how[:-1]]]} {y})"
    elif how in ("hi", "hs", "lo", "ls"):
        found = f"({x} {dict(hi='>', hs='>=', lo='<', ls='<=')[how]} {y})"
    elif how in ("nan", "num"):
        found = f"({'!' if how == 'num' else ''}(isnan({x}) || isnan({y})))"
    else:
        raise ValueError(f"unknown: {i.name}")
    return f"{i.to[1:]} = {found};"


def _bits(i: Instruction) -> str:
    sign = {"and": "&", "or": "|", "xor": "^"}[i.parts[0]]
    return i.put(f"({i.get(1)} {sign} {i.get(2)})")


def _shift(i: Instruction) -> str:
    x, by, bits = i.get(1), read(i.operands[2], "u32"), i.type[1:]
    if i.parts[0] == "shl":
        return i.put(f"({by} >= {bits} ? 0 : ({i.c})({x} << {by}))")
    beyond = f"({x} < 0 ? -1 : 0)" if i.type[0] == "s" else "0"
    return i.put(f"({by} >= {bits} ? {beyond} : ({i.c})({x} >> {by}))")


def _convert(i: Instruction) -> str:
    to, from_ = i.parts[-2], i.parts[-1]
    x = read(i.operands[1], from_)
    how = next((ROUNDED[part] for part in i.parts[1:-2] if part in ROUNDED), None)
    if from_[0] == "f" and how:
        x = f"{how}({x})"
    found = f"to_{to}({x})" if from_[0] == "f" and to[0] != "f" else f"(({TYPES[to]})({x}))"
    return write(i.to, found, to)


INSTRUCTIONS: dict[str, Callable[[Instruction], str]] = {
    "ret": lambda i: "goto end;",
    "bra": lambda i: f"goto {i.to};",
    **{"mov": _move, "ld": _load, "st": _store, "cvt": _convert, "setp": _compare},
    **{"add": _arithmetic, "sub": _arithmetic, "mul": _arithmetic, "mad": _multiply_add},
    "fma": lambda i: i.put(
        f"fma{'f' if i.type == 'f32' else ''}({i.get(1)}, {i.get(2)}, {i.get(3)})"
    ),
    **{"div": _divide, "max": _extreme, "min": _extreme, "shl": _shift, "shr": _shift},
    "rem": lambda i: i.put(f"({i.get(2)} ? {i.get(1)} % {i.get(2)} : {i.get(1)})"),
    "neg": lambda i: i.put(f"({i.c})(-{i.get(1)})"),
    "abs": lambda i: i.put(
        f"({i.c}) fabs({i.get(1)})"
        if i.is_float
        else f"({i.get(1)} < 0 ? -{i.get(1)} : {i.get(1)})"
    ),
    **dict.fromkeys(("and", "or", "xor"), _bits),
    "not": lambda i: i.put(f"(!{i.get(1)})" if i.type == "pred" else f"({i.c})(~{i.get(1)})"),
    "selp": lambda i: write(
        i.to, f"({read(i.operands[3], 'pred')} ? {i.get(1)} : {i.get(2)})", i.type
    ),
    "copysign": lambda i: i.put(f"({i.c}) copysign({i.get(2)}, {i.get(1)})"),
    "popc": lambda i: i.put(f"__builtin_popcountll({i.get(1)})", "u32"),
    **dict.fromkeys(APPROXIMATE, _function),
}


def statement(line: str) -> str:
    """One line of PTX, perhaps with a guard before it."""
    guarded = re.match(r"@(!?)%(p\d+)\s+(.*)$", line)
    guard = f"if ({guarded[1]}{guarded[2]}) " if guarded else ""
    parts = re.match(r"([a-zA-Z0-9_.:]+)\s*(.*)$", guarded[3] if guarded else line)
    if parts is None or (make := INSTRUCTIONS.get(parts[1].split(".")[0])) is None:
        raise ValueError(f"unknown: {line}")
    return f"{guard}{{{make(Instruction(parts[1], split(parts[2])))}}}"


def plain(line: str, wide: dict[str, str]) -> str:
    """The same with all registers named by letters and a number."""
    line = re.sub(r"%d(\d+)_nan", r"%p\g<1>00000009", line).replace("ldu.global", "ld.global")
    line = re.sub(r"%u(\d+)_(\d+)", lambda m: f"%{wide.get(m[1], 'r')}{m[1]}0000003{m[2]}", line)
    line = re.sub(r"%([a-z]+)(\d+)_out_(\d+)", r"%\g<1>\g<2>0000001\g<3>", line)
    return re.sub(r"%([a-z]+)(\d+)_tmp", r"%\g<1>\g<2>00000008", line)


def translate(text: str) -> str:
    """A whole file."""
    out, name, lines, local = [HEAD], "", [], []
    registers: set[str] = set()
    wide: dict[str, str] = {}  # the letters of registers that Dr.Jit names by their bits
    for raw in text.splitlines():
        line = raw.split("//")[0].strip()
        if entry := re.match(r"(?:\.visible )?\.entry (\w+)\(", line):
            name, lines, local, registers = entry[1], [], [], set()
        elif bits := re.match(r"\.reg\.b(\d+) %u(\d+)_<", line):
            wide[bits[2]] = "rd" if bits[1] == "64" else "r"
        elif array := re.match(r"\.local \.align \d+ \.(\w+) (\w+)\[(\d+)\];", line):
            of = f"{TYPES[array[1]]} {array[2]}[{array[3]}]"
            local.append(f"static __thread {of} __attribute__((aligned(16)));")
        elif line == "}":
            out += _function_of(name, registers, local, lines)
        elif label := re.match(r"(\w+):$", line):
            lines.append(f"{label[1]}:;")
        elif line and not line.startswith(
            (".version", ".target", ".address", ".reg", ".pragma", "{")
        ):
            line = plain(line, wide)
            registers.update(re.findall(r"%(?:f|d|r|rd|p|w|b)\d+", line))
            lines.append(statement(line.rstrip(";")))
    return "\n".join(out)


def _function_of(name: str, registers: set[str], local: list[str], lines: list[str]) -> list[str]:
    declared = [f"{TYPES[REGISTERS[kind(r)]]} {r[1:]} = 0;" for r in sorted(registers)]
    return [
        f"void {name}(char *params, unsigned grid, unsigned ntid) {{",
        *declared,
        *local,
        "for (unsigned block = 0; block < grid; block++)",
        "for (unsigned tid = 0; tid < ntid; tid++) {",
        *lines,
        "end:;}}",
    ]


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(translate(Path(sys.argv[1]).read_text()))
