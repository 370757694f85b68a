"""Syntax errors in the user's words: what is missing or wrong where parsing stopped.

Each rule below handles one kind of mistake and returns None for others.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from lark import Token

from controllers.scl.errors import ScriptError, SourceText, did_you_mean, suggest
from controllers.scl.grammar import (
    clauses,
    primitive_keywords,
    primitive_that_begins,
    primitive_with_rule,
)
from controllers.scl.names import Vocabulary
from controllers.scl.primitive import Primitive
from controllers.scl.trees import extent

_CLOSER = {"LPAR": "RPAR", "LSQB": "RSQB", "LBRACE": "RBRACE"}
_SIGNS = {
    "LPAR": "'('",
    "RPAR": "')'",
    "LSQB": "'['",
    "RSQB": "']'",
    "LBRACE": "'{'",
    "RBRACE": "'}'",
    "COLON": "':'",
    "COMMA": "','",
    "NUMBER": "a number",
    "NAME": "a name",
    "$END": "the end of the script",
}
_TRANSITION_WORDS = ("AFTER", "WHEN", "AND", "FINALLY", "BACKTO")
# What cannot stand inside a bracket, and so shows that it was not closed.
_OUTSIDE = {
    "LBRACE": {"$END", "LBRACE", *_TRANSITION_WORDS},
    "LSQB": {"$END", "LSQB", "LBRACE", "RBRACE", *_TRANSITION_WORDS},
}
_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2212"  # as copied from printed text
_USAGE = {
    "LBRACE": "a phase reads { (name) [hips 40 time: 0.5] }",
    "LPAR": "a phase name is one word, as in { (name) } or { (left_swing) : (right_swing) }",
    "": "a transition reads `after 0.5`, `when contact all feet`, `and when contact feet after "
    "0.5`, and at the end `finally after 0.5 backto first_phase`",
}


@dataclass(frozen=True)
class ParseFailure:
    """State of the parser where it stopped: words before, the unexpected word, words it accepts."""

    source: SourceText
    before: tuple[Token, ...]
    found: Token | None  # None at the end of the script
    accepts: frozenset[str]
    vocabulary: Vocabulary

    @property
    def kind(self) -> str:
        """Kind of the unexpected word, "$END" at the end of the script."""
        return self.found.type if self.found else "$END"

    @property
    def shown(self) -> str:
        """The unexpected word as messages show it."""
        return f"'{self.found}'" if self.found else "the end of the script"

    def last(self, back: int = 1) -> str:
        """Kind of the word some steps before the place of failure, "" before the first."""
        return self.before[-back].type if len(self.before) >= back else ""

    @cached_property
    def opened(self) -> tuple[Token, ...]:
        """Brackets not yet closed, the innermost last."""
        stack: list[Token] = []
        for token in self.before:
            if token.type in _CLOSER:
                stack.append(token)
            elif token.type in _CLOSER.values():
                stack.pop()
        return tuple(stack)

    @property
    def inner(self) -> str:
        """Kind of the innermost bracket not yet closed, "" outside of the phases."""
        return self.opened[-1].type if self.opened else ""

    @cached_property
    def first_word(self) -> Token | None:
        """Word after the '[' of the primitive that contains the place of failure."""
        if "LSQB" not in [token.type for token in self.opened]:
            return None
        # Primitives do not nest, so the last '[' is the one that is open.
        last = max(i for i, token in enumerate(self.before) if token.type == "LSQB")
        return self.before[last + 1] if last + 1 < len(self.before) else self.found

    @property
    def primitive(self) -> type[Primitive] | None:
        """Primitive that begins with the first word."""
        return primitive_that_begins(self.first_word.type) if self.first_word else None

    @property
    def gap(self) -> int:
        """Offset right after the last valid word."""
        return extent(self.before[-1])[1] if self.before else 0

    @property
    def here(self) -> int:
        """Offset of the mistake: the unexpected word, or the end of the last valid one.

        The end of the last valid word is meant where the unexpected one is on a later line.
        """
        position = self.source.position
        if self.found is None or (
            self.before and position(extent(self.found)[0])[0] > position(self.gap)[0]
        ):
            return self.gap
        return extent(self.found)[0]

    @property
    def at_word(self) -> int:
        """Offset of the unexpected word, on whatever line: for a message that is about it."""
        return self.gap if self.found is None else extent(self.found)[0]

    @property
    def usage(self) -> str:
        """Syntax of the construct at the place of failure."""
        if self.first_word is not None:
            return self.primitive.usage if self.primitive else _USAGE["LBRACE"]
        if self.last() == "COLON":
            return _USAGE["LPAR"]  # a mirrored phase
        return _USAGE[self.inner if self.before else "LBRACE"]

    def error(self, message: str, hint: str = "", offset: int | None = None) -> ScriptError:
        """Error, to be raised, at an offset, by default that of the mistake."""
        where = self.here if offset is None else offset
        return self.source.error(where, message, hint or self.usage)


def explain(failure: ParseFailure) -> ScriptError:
    """Error, to be raised, for the place where the parser stopped."""
    rules: tuple[Callable[[ParseFailure], ScriptError | None], ...] = (
        _stray_closer,
        _unknown_primitive,
        _unclosed,
        _primitive_outside,
        _half_conjunction,
        _missing_name,
        _wrong_word,
        _missing_sign,
    )
    for rule in rules:
        error = rule(failure)
        if error is not None:
            return error
    words = sorted(_spell(kind) for kind in failure.accepts if kind != "AT")
    if 0 < len(words) <= 6:
        listed = " or ".join(", ".join(words).rsplit(", ", 1))
        return failure.error(f"expected {listed}, found {failure.shown}", offset=failure.at_word)
    return failure.error(f"unexpected {failure.shown}", offset=failure.at_word)


def explain_character(source: SourceText, offset: int) -> ScriptError:
    """Error, to be raised, for text at `offset` that is no word, number or sign."""
    rest = source.text[offset:]
    if rest.startswith(("-@", "+@")):
        return source.error(
            offset, "the sign stands before the '@'", "write @-20, with the '@' first"
        )
    number = re.match(r"[+-]?\.?[0-9][\w.]*", rest)
    if number:
        hint = "a number reads 40, -0.5 or 1e-3; a space or a sign such as ',' stands on both sides"
        return source.error(offset, f"'{number[0]}' cannot be read as a number here", hint)
    hint = ""
    if rest[0] in "#/":
        hint = "a comment begins with //"
    elif rest[0] in _DASHES:
        hint = "write '-' from the keyboard"
    shown = f"'{rest[0]}'" if rest[0].isprintable() else f"U+{ord(rest[0]):04X}"
    return source.error(offset, f"unexpected character {shown}", hint)


def _spell(kind: str) -> str:
    """Spelling of a kind of word in a script."""
    colon = ":" if kind in clauses() else ""
    return _SIGNS.get(kind) or f"'{kind.lower()}{colon}'"


def _stray_closer(f: ParseFailure) -> ScriptError | None:
    """A ']' where no '[' is open."""
    if f.kind not in _CLOSER.values() or f.kind in [_CLOSER[t.type] for t in f.opened]:
        return None
    opener = next(opener for opener, closer in _CLOSER.items() if closer == f.kind)
    return f.error(
        f"this {_spell(f.kind)} closes nothing", f"remove it, or add the {_spell(opener)} before it"
    )


def _unknown_primitive(f: ParseFailure) -> ScriptError | None:
    """A first word in '[ ]' that is neither a keyword nor a joint."""
    begins = f"a primitive begins with a joint, or with {', '.join(primitive_keywords())}"
    if f.last() == "LSQB":
        if f.kind == "RSQB" or f.kind in _OUTSIDE["LSQB"]:
            return f.error("a primitive is missing after '['", begins)
        inside = primitive_with_rule(f.kind)
        hint = inside.usage if inside else begins
        return f.error(f"a primitive cannot begin with {f.shown}", hint)
    if (f.last(), f.last(2)) != ("NAME", "LSQB") or f.vocabulary.joints_of(word := f.before[-1]):
        return None
    hint = did_you_mean(word, (*primitive_keywords(), *f.vocabulary.joint_words))
    return f.error(f"unknown primitive or joint '{word}'", hint or begins, extent(word)[0])


def _unclosed(f: ParseFailure) -> ScriptError | None:
    """A bracket that should have been closed before the word found."""
    closer = _CLOSER.get(f.inner, "")
    if closer not in f.accepts or f.kind == closer:
        return None
    if f.inner == "LPAR":
        # A pair or a phase name is over: only its ')' can follow, unless it is too long.
        if f.kind in ("COMMA", "NUMBER", "AT") or (f.first_word is None and f.kind == "NAME"):
            return None
    elif f.kind not in _OUTSIDE[f.inner] and f.kind not in _CLOSER.values():
        return None
    line, column = f.source.position(extent(f.opened[-1])[0])
    return f.error(
        f"{_spell(closer)} is missing",
        f"the {_spell(f.inner)} on line {line}, column {column} is not closed",
        f.gap,
    )


def _primitive_outside(f: ParseFailure) -> ScriptError | None:
    if f.inner or f.kind != "LSQB":
        return None
    return f.error("a primitive outside of a phase", "put it between the { } of a phase")


def _half_conjunction(f: ParseFailure) -> ScriptError | None:
    """`and` with one of its two conditions."""
    missing = f.accepts & {"AFTER", "WHEN"}
    if f.inner or not missing or f.accepts & {"LBRACE", "NAME"}:
        return None
    if f.last() == "FINALLY":
        return f.error(f"a condition is missing after 'finally', found {f.shown}")
    if f.kind == "NAME" and did_you_mean(str(f.found), [kind.lower() for kind in missing]):
        return None
    words = " or ".join(sorted(_spell(kind) for kind in missing))
    return f.error(
        f"'and' joins two conditions, and {words} is missing",
        "write `and when contact feet after 0.5`",
    )


def _missing_name(f: ParseFailure) -> ScriptError | None:
    """No joint, link or phase name where one has to follow."""
    if "NAME" not in f.accepts or f.kind == "NAME":
        return None
    if f.last() == "BACKTO" or f.inner == "LPAR":
        kind = "phase name"
    elif f.first_word is None or (f.primitive and f.last(2).lower() in f.primitive.links):
        kind = "link"
    else:
        kind = "joint"
    return f.error(f"a {kind} is missing after {_ending(f)}")


def _wrong_word(f: ParseFailure) -> ScriptError | None:
    """A name where a keyword or a comma belongs."""
    if f.found is None or f.kind != "NAME":
        return None
    if f.last(2) == "CONTACT" and not f.vocabulary.links_of(word := f.before[-1]):
        events = ("changed", "established", "lost", "any", "all")
        hint = suggest(word, events, "words")
        return f.error(f"unknown word '{word}' after 'contact'", hint, extent(word)[0])
    keywords = [kind.lower() for kind in f.accepts if kind not in _SIGNS]
    near = did_you_mean(f.found, keywords)
    if near or (not f.inner and "LBRACE" in f.accepts):
        return f.error(f"unknown word '{f.found}'", near, f.at_word)
    if "COMMA" in f.accepts and (f.vocabulary.joints_of(f.found) or f.vocabulary.links_of(f.found)):
        return f.error(f"a comma is missing before '{f.found}'")
    return None


def _missing_sign(f: ParseFailure) -> ScriptError | None:
    """The only word that could follow is missing."""
    possible = f.accepts - {"AT"}
    if len(possible) != 1 or possible <= {*_CLOSER.values()}:
        return None
    return f.error(f"{_spell(*possible)} is missing after {_ending(f)}")


def _ending(f: ParseFailure) -> str:
    """The last good word, a ':' together with its keyword."""
    with_colon = f.last() == "COLON" and f.last(2) in clauses()
    words = f.before[-2:] if with_colon else f.before[-1:]
    return f"'{''.join(words)}'"
