"""The error of everything that reads or writes clips."""

from __future__ import annotations

import os
from pathlib import Path


class ClipError(ValueError):
    """A motion file, or a request about it, that is invalid; one message with the remedy."""


def wrong(
    path: str | os.PathLike[str], line: int | None, expected: str, got: str, remedy: str
) -> ClipError:
    """Error "file, line n: expected ..., got ...; remedy".

    line: from 1, None for the whole file.
    """
    place = Path(path).name + ("" if line is None else f", line {line}")
    return ClipError(f"{place}: expected {expected}, got {got}; {remedy}")


def quote_text(text: str) -> str:
    """Piece of a file for a message, quoted, shortened if it is long."""
    short = text if len(text) <= 60 else f"{text[:57]}..."
    return repr(short)
