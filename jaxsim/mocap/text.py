"""Readers of text files with numbers: lines, words and tables, with errors that name the line."""

from __future__ import annotations

import codecs
import math
import os
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from jaxsim.mocap.errors import ClipError, quote_text, wrong

LARGEST = 1e7  # a number beyond this is no length, angle or count of a motion
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_COPY = "restore the file from a copy, or export it again"


def read_lines(path: str | os.PathLike[str], kind: str) -> list[str]:
    """Lines of a text file, with any line ends; ``kind`` is what the file should be.

    Raises ClipError for a file that does not exist, cannot be read, or is not text.
    """
    path = Path(path)
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "there is no such file"
        raise ClipError(f"{path}: {what}; give the path of a {kind} file")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ClipError(f"{path}: the file cannot be read: {error.strerror}") from error
    wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    text = data.decode("utf-16" if wide else "utf-8-sig", errors="replace")
    if "\0" in text:
        raise wrong(path, None, f"the text of {kind}", "binary data", _COPY)
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def number(path: str | os.PathLike[str], line: int, word: str, what: str) -> float:
    """Finite number of a plausible size. Raises ClipError."""
    value = float(word) if _NUMBER.fullmatch(word) else math.nan
    if not abs(value) <= LARGEST:
        raise wrong(path, line, f"a number for {what}", quote_text(word), _COPY)
    return value


def numbers(
    path: str | os.PathLike[str], line: int, words: Sequence[str], count: int, what: str
) -> list[float]:
    """``count`` finite numbers. Raises ClipError."""
    if len(words) != count:
        raise wrong(path, line, f"{count} numbers for {what}", f"{len(words)}", _COPY)
    if count == 1:
        return [number(path, line, words[0], what)]
    return [number(path, line, word, f"{what}, number {k}") for k, word in enumerate(words, 1)]


def table(
    path: str | os.PathLike[str], rows: Sequence[str], lines: Sequence[int], columns: int, what: str
) -> np.ndarray:
    """Array (len(rows), columns) from rows of numbers; lines: line numbers in the file, for errors.

    Raises ClipError at the first row that has another count of numbers, or one that is not finite.
    """
    if not rows:
        return np.zeros((0, columns))
    values = np.zeros((0, 0))
    try:
        if not rows[0].strip():  # of which loadtxt would warn
            raise ValueError
        values = np.loadtxt(rows, ndmin=2, comments=None, dtype=np.float64)
    except ValueError:
        pass  # reported below, by line
    if values.shape == (len(rows), columns) and (np.abs(values) <= LARGEST).all():
        return values
    return np.array(
        [numbers(path, k, row.split(), columns, what) for k, row in zip(lines, rows)], np.float64
    ).reshape(len(rows), columns)
