"""Scripts with other numbers, such as those found by a search, written back as text."""

import math
from collections.abc import Sequence

from controllers.scl.ast import Number
from controllers.scl.script import Script


def rewrite(script: Script, values: Sequence[float]) -> str:
    """The text of the script with each number replaced; the rest of it stays as it is.

    `values` has one value per number, in the order of Script.numbers. It is written with up to 6
    significant digits; a number that agrees with its value so far keeps its text, and a '@' stays.
    The result is not checked: parse it to find a time below 0, for instance.

    Raises ValueError for too many or too few values, and for one that is not finite.
    """
    values = [float(value) for value in values]
    if len(values) != len(script.numbers):
        raise ValueError(f"{len(values)} values for the {len(script.numbers)} numbers of a script")
    pieces, end = [], 0
    for number, value in zip(script.numbers, values):
        if not math.isfinite(value):
            raise ValueError(
                f"'{script.label(number.index)}' (line {number.span.line} of {script.file}) "
                f"is {value}, which a script cannot hold"
            )
        pieces += [script.source[end : number.span.start], _text(script, number, value)]
        end = number.span.end
    return "".join([*pieces, script.source[end:]])


def _text(script: Script, number: Number, value: float) -> str:
    text = f"{value:.6g}"
    if float(text) == float(f"{number.value:.6g}"):
        return script.source[number.span.start : number.span.end]
    return "0" if float(text) == 0 else text


def mark_all(script: Script) -> str:
    """Text of the script with '@' before every number that has none."""
    pieces, end = [], 0
    for number in script.numbers:
        if not number.free:
            pieces += [script.source[end : number.span.start], "@"]
            end = number.span.start
    return "".join([*pieces, script.source[end:]])
