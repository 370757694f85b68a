"""Grammar of the language: the rules of grammar.lark, and those that the primitives declare."""

import re
from functools import cache, lru_cache
from pathlib import Path

from lark import Lark

from controllers.scl.primitive import Primitive
from controllers.scl.primitives.registry import PRIMITIVES

_KEYWORD = re.compile(r'"([a-z]\w*)"')
_TERMINAL = re.compile(r"^([A-Z]+):", re.MULTILINE)


def grammar() -> Lark:
    """Parser of the language with every registered primitive."""
    return _lark(grammar_text())


def grammar_text() -> str:
    """Text of the grammar for lark, assembled from grammar.lark and the primitives."""
    rules = {_rule(kind): kind for kind in PRIMITIVES}
    text = "\n".join(
        [
            _core(),
            f'phase: "{{" header? ({" | ".join(rules)})* "}}"',
            *(f'{name}: "[" {_start(kind)} {kind.syntax} "]"' for name, kind in rules.items()),
            *(kind.rules for kind in PRIMITIVES),
        ]
    )
    names = sorted(_keywords(text))
    declared = _TERMINAL.findall(text)
    terminals = [f'{name.upper()}: "{name}"' for name in names if name.upper() not in declared]
    # In places where only a phase name can stand, a keyword is one.
    phase_name = f"phase_name: {' | '.join(['NAME', *(name.upper() for name in names)])}"
    return "\n".join([text, phase_name, *terminals])


def keywords() -> frozenset[str]:
    """Words that cannot name a joint, a link or a group."""
    return _keywords(grammar_text())


def clauses() -> frozenset[str]:
    """Kinds of the keywords that a ':' follows, such as "ON"."""
    return frozenset(word.upper() for word in re.findall(r'"(\w+)" ":"', grammar_text()))


def primitive_keywords() -> tuple[str, ...]:
    """Keywords that primitives begin with."""
    return tuple(kind.keyword for kind in PRIMITIVES if kind.keyword)


def primitive_that_begins(kind: str) -> type[Primitive] | None:
    """Primitive whose first word is of this kind, such as "VF", or "NAME" for a joint."""
    return next((p for p in PRIMITIVES if (p.keyword.upper() or "NAME") == kind), None)


def primitive_with_rule(kind: str) -> type[Primitive] | None:
    """Primitive with a rule of its own that begins with a keyword of this kind, such as "SB"."""
    for primitive in PRIMITIVES:
        if kind.lower() in re.findall(r'^[a-z_]+: "(\w+)"', primitive.rules, re.MULTILINE):
            return primitive
    return None


def primitive_of_rule(rule: str) -> type[Primitive]:
    """Primitive whose rule has this name in a syntax tree."""
    return next(kind for kind in PRIMITIVES if _rule(kind) == rule)


@cache
def _core() -> str:
    return Path(__file__).with_name("grammar.lark").read_text("utf-8")


@lru_cache(maxsize=1)
def _lark(text: str) -> Lark:
    return Lark(text, parser="lalr", lexer="basic", propagate_positions=True)


def _rule(kind: type[Primitive]) -> str:
    return f"{kind.__name__.lower()}_primitive"


def _start(kind: type[Primitive]) -> str:
    return f'"{kind.keyword}"' if kind.keyword else ""


def _keywords(text: str) -> frozenset[str]:
    return frozenset(_KEYWORD.findall(text))
