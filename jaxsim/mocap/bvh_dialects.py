"""Numbers of BVH files as exporters write them, in the form that a reader expects.

Decimal commas (of European settings), commas between numbers, numbers without a blank before the
minus of the next one, frames over several lines.
"""

from __future__ import annotations

import re

__all__ = ["plain_lines", "whole_rows"]

_WORDS = {"HIERARCHY", "ROOT", "JOINT", "END", "CHANNELS", "MOTION", "FRAMES:", "FRAMES", "{", "}"}
_DECIMAL = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?,?")
_TOGETHER = re.compile(r"(?<=[0-9.])(?=[+-])")


def plain_lines(lines: list[str]) -> tuple[list[str], list[str]]:
    """Lines with numbers in standard notation, and notes on the changes.

    Names of joints are unchanged.
    """
    rows = [k for k, line in enumerate(lines) if _holds_numbers(line)]
    notes: list[str] = []
    some = [k for k in rows if "," in lines[k]]
    if some:
        words = [word for k in some for word in lines[k].split() if "," in word]
        if "." not in "".join(lines[k] for k in rows) and all(map(_DECIMAL.fullmatch, words)):
            notes.append("its numbers have decimal commas")
            changed = {k: lines[k].replace(",", ".") for k in some}
        else:
            notes.append("its numbers are parted by commas")
            changed = {k: lines[k].replace(",", " ") for k in some}
        lines = [changed.get(k, line) for k, line in enumerate(lines)]
    together = [k for k in rows if _TOGETHER.search(lines[k])]
    if together:
        first = together[0] + 1
        notes.append(f"numbers stand together before a minus, first in line {first}: taken apart")
        lines = list(lines)
        for k in together:
            lines[k] = _TOGETHER.sub(" ", lines[k])
    return lines, notes


def _holds_numbers(line: str) -> bool:
    word = line.split(maxsplit=1)
    return bool(word) and word[0].upper() not in _WORDS and word[0][0] not in "{}"


def whole_rows(rows: list[str], frames: int, columns: int) -> list[str]:
    """One row a frame, joined from several lines if necessary."""
    if len(rows) <= frames or not columns:
        return rows
    words = [word for row in rows for word in row.split()]
    if len(words) != frames * columns or all(len(row.split()) == columns for row in rows):
        return rows
    return [" ".join(words[k : k + columns]) for k in range(0, len(words), columns)]
