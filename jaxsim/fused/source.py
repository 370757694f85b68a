"""Where in the user's code an equation of a jaxpr comes from."""

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
    """Whether a line of the user's made the equation, and not one of JAX's own helpers."""
    return _frame(eqn.source_info.traceback)[1] > 0


def place(eqn) -> str:
    """ "file:line, in function" of the innermost line outside JAX."""
    file, line, function = _frame(eqn.source_info.traceback)
    return f"{file}:{line}, in {function}"


def function_of(eqn) -> str:
    """The "file:function" that made an equation."""
    if eqn is None:
        return "(arguments)"
    file, _, function = _frame(eqn.source_info.traceback)
    return f"{os.path.basename(file)}:{function}"
