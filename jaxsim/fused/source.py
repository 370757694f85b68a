"""Source lines of a jaxpr's equations in the user's code."""

import os
from functools import lru_cache

import jax

_INSIDE = tuple(
    os.path.dirname(os.path.abspath(p)) + os.sep for p in (jax.__file__, jax.lax.__file__)
)


@lru_cache(maxsize=100_000)
def _frame(traceback) -> tuple[str, int, str]:
    for frame in traceback.frames if traceback is not None else ():
        if not os.path.abspath(frame.file_name).startswith(_INSIDE):
            return frame.file_name, frame.line_num, frame.function_name
    return "<unknown>", 0, "<unknown>"


def has_place(eqn) -> bool:
    """True if a line of user code made the equation, and not only a helper of JAX."""
    return _frame(eqn.source_info.traceback)[1] > 0


def place(eqn) -> str:
    """Source of an equation as "file:line, in function", of the innermost line outside JAX."""
    file, line, function = _frame(eqn.source_info.traceback)
    return f"{file}:{line}, in {function}"


def function_of(eqn) -> str:
    """Source of an equation as "file:function"; "(arguments)" for None."""
    if eqn is None:
        return "(arguments)"
    file, _, function = _frame(eqn.source_info.traceback)
    return f"{os.path.basename(file)}:{function}"
