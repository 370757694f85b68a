"""Errors and warnings of the Simple Controller Language, each with its place in the script."""

import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property

_LINE_BREAK = re.compile(r"\r\n|\n|\r")


class ScriptError(ValueError):
    """A script that cannot be used; `str()` shows the place, the line, a caret and a remedy.

    `line` and `column` count from 1. Both are 0 where no place in the text is meant (a file that
    cannot be read).
    """

    def __init__(
        self,
        message: str,
        file: str = "<script>",
        line: int = 0,
        column: int = 0,
        source_line: str = "",
        hint: str = "",
    ):
        super().__init__(message, file, line, column, source_line, hint)
        self.message = message
        self.file = file
        self.line = line
        self.column = column
        self.source_line = source_line
        self.hint = hint

    def __str__(self) -> str:
        return _layout(self, "error")


@dataclass(frozen=True)
class ScriptWarning:
    """A doubtful place of a script that is still valid; shown as a ScriptError is."""

    message: str
    file: str
    line: int
    column: int
    source_line: str
    hint: str = ""

    def __str__(self) -> str:
        return _layout(self, "warning")


@dataclass(frozen=True)
class Span:
    """A place in the source text: characters start to end - 1; line and column count from 1."""

    start: int
    end: int
    line: int
    column: int


@dataclass(frozen=True)
class SourceText:
    """The text of a script, which turns offsets into lines, columns and errors."""

    text: str
    file: str

    @cached_property
    def _line_starts(self) -> list[int]:
        # A byte order mark is no part of the first line: editors do not show it.
        first = 1 if self.text.startswith("\ufeff") else 0
        return [first, *(match.end() for match in _LINE_BREAK.finditer(self.text))]

    def position(self, offset: int) -> tuple[int, int]:
        """The line and column of a character; both count from 1, and a tab is one column."""
        line = max(bisect_right(self._line_starts, offset), 1)
        return line, max(offset - self._line_starts[line - 1], 0) + 1

    def line(self, number: int) -> str:
        """The text of a line, counted from 1, without its line break."""
        return _LINE_BREAK.split(self.text[self._line_starts[number - 1] :], maxsplit=1)[0]

    def span(self, start: int, end: int) -> Span:
        """The place of the characters start to end - 1."""
        return Span(start, end, *self.position(start))

    def error(self, offset: int, message: str, hint: str = "") -> ScriptError:
        """The error, to be raised, at the character `offset`."""
        line, column = self.position(offset)
        return ScriptError(message, self.file, line, column, self.line(line), hint)

    def warning(self, offset: int, message: str, hint: str = "") -> ScriptWarning:
        """The warning at the character `offset`."""
        line, column = self.position(offset)
        return ScriptWarning(message, self.file, line, column, self.line(line), hint)


def did_you_mean(word: str, valid: Iterable[str]) -> str:
    """A hint that names the valid word most like this one, or "" where none is like it."""
    by_lower = {name.lower(): name for name in valid}
    found = get_close_matches(word.lower(), by_lower, n=1)
    return f"did you mean '{by_lower[found[0]]}'?" if found else ""


def suggest(word: str, valid: Iterable[str], kind: str) -> str:
    """The hint of `did_you_mean`, or else the list of valid words after `kind`."""
    valid = tuple(valid)
    return did_you_mean(word, valid) or f"{kind}: {', '.join(valid) or 'none'}"


def _layout(note: ScriptError | ScriptWarning, kind: str) -> str:
    if not note.line:
        lines = [f"{note.file}: {kind}: {note.message}"]
    else:
        # Tabs are repeated, so that the caret stands right at any tab width.
        before = note.source_line[: note.column - 1].ljust(note.column - 1)
        blank = "".join("\t" if character == "\t" else " " for character in before)
        lines = [
            f"{note.file}:{note.line}:{note.column}: {kind}: {note.message}",
            note.source_line,
            f"{blank}^",
        ]
    return "\n".join([*lines, f"hint: {note.hint}"] if note.hint else lines)


def error_at(
    source: str, file: str, span: Span | None, message: str, hint: str = ""
) -> ScriptError:
    """Error, to be raised, at a place of a script's text; without its line where there is none."""
    if span is None:
        return ScriptError(message, file, hint=hint)
    return SourceText(source, file).error(span.start, message, hint)
