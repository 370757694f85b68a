"""Listing of a program as text, for inspection."""

from jaxsim.fused.builder import COMMUTATIVE
from jaxsim.fused.program import KernelMemory, KernelProgram, Loop, ProgramBlock, Value

SWAPPED = COMMUTATIVE | {"fma", "fms", "fnma"}  # the first two arguments may change places

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


def listing(program: KernelProgram) -> str:
    """Write a program as text, a value in each line: v0, v1, ... are numbers of one lane."""
    names: dict[int, str] = {}
    memories: dict[int, str] = {}
    lines: list[str] = []

    def name(value: Value) -> str:
        if value.is_constant:
            return str(value.data)
        return names.setdefault(id(value), f"v{len(names)}")

    def element(memory: KernelMemory, index: Value) -> str:
        number = memory.leaf if memory.leaf >= 0 else len(memories)
        known = memories.setdefault(id(memory), f"{memory.kind}{number}")
        return f"{known}[{name(index)}]"

    def right(value: Value) -> str:
        if value.op == "load":
            return element(value.data, *value.args)
        free = 2 if value.op in SWAPPED else 0
        args = sorted(value.args[:free], key=lambda a: (a.is_constant, len(name(a)), name(a)))
        args = [name(a) for a in (*args, *value.args[free:])]
        return _INFIX.get(value.op, f"{value.op}({', '.join(args)})").format(*args)

    def carried(loop: Loop) -> str:
        inits = [f"{name(p)} = {name(v)}" for p, v in zip(loop.params, loop.inits)]
        return ", ".join(inits) or "nothing"

    def inside(block: ProgramBlock, outs: list[Value], indent: str):
        write(block, indent + "    ")
        lines.append(f"{indent}    -> {', '.join(map(name, outs))}")

    def write(block: ProgramBlock, indent: str):
        for value in block.ops:
            of = value.data
            if value.op == "branch":
                heads = f"if {name(value.args[0])}", "else"
                for head, inner, outs in zip(heads, of.blocks, of.outs):
                    lines.append(f"{indent}{head}:")
                    inside(inner, outs, indent)
            elif value.op == "loop":
                if of.length is None:
                    head = f"while {name(of.params[of.alive])}"
                else:
                    head = f"for {name(of.counter)} in 0..{of.length - 1}"
                lines.append(f"{indent}{head} with {carried(of)}:")
                inside(of.body, of.outs, indent)
            elif value.op == "store":
                lines.append(f"{indent}{element(of, value.args[0])} = {name(value.args[1])}")
            else:
                lines.append(f"{indent}{name(value)} = {right(value)}")
            if value.op in ("branch", "loop"):
                lines.append(f"{indent}{', '.join(map(name, of.results))} = these in the end")

    write(program.block, "")
    for leaf, output in enumerate(program.outputs):
        if not isinstance(output, KernelMemory):
            lines.append(f"output{leaf} = {', '.join(map(name, output.flat))}")
    return "\n".join(lines)
