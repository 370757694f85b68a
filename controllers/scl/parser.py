"""Parser of scripts: the entry points of the language front end."""

from pathlib import Path

from lark import Token, Tree
from lark.exceptions import UnexpectedCharacters, UnexpectedToken

from controllers.scl.ast import Number
from controllers.scl.build import ScriptBuilder
from controllers.scl.errors import ScriptError, SourceText, did_you_mean
from controllers.scl.explain import ParseFailure, explain, explain_character
from controllers.scl.grammar import grammar
from controllers.scl.names import Vocabulary
from controllers.scl.script import Script
from controllers.scl.trees import extent
from jaxsim.ranges import RANGES


def parse(text: str, vocabulary: Vocabulary, file: str = "<script>") -> Script:
    """The script that a text holds; `file` is its name in errors.

    Source: Shen thesis, chapter 4 (tables 4.3 and 4.4), and listing 6.1 for '@'.

    Raises ScriptError, which shows the place and a remedy: for a mistake of syntax, an unknown
    joint, link or phase, a joint in place of a link or the reverse, several joints or links where
    one is needed, a missing, doubled or misplaced transition, a phase name given twice, `[symm]`
    without a primitive before it, a negative time, a strength outside 0..1, and an empty script.

    An angle outside the range of its joint, and a `[symm]` after a primitive that is its own
    mirror image, are kept and noted in Script.warnings.
    """
    source = SourceText(text, file)
    tokens = _tokens(source)
    tree = _tree(source, tokens, vocabulary)
    return ScriptBuilder(source, vocabulary, _numbers(source, tokens)).script(tree)


def parse_file(path: str | Path, vocabulary: Vocabulary) -> Script:
    """The script in a UTF-8 file; raises ScriptError as `parse` does, and for an unreadable file.

    Where the file cannot be opened, the error has no place: line and column are 0.
    """
    path = Path(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise _unreadable(path, error) from error
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        # One replacement character for the first wrong byte, so that the columns hold.
        before = data[: error.start].decode("utf-8")
        text = before + data[error.start :].decode("utf-8", errors="replace")
        raise SourceText(text, str(path)).error(
            len(before),
            f"byte 0x{data[error.start]:02x} is not UTF-8 text",
            "save the script with the encoding UTF-8",
        ) from error
    return parse(text, vocabulary, str(path))


def _unreadable(path: Path, error: OSError) -> ScriptError:
    if isinstance(error, FileNotFoundError):
        near = [entry.name for entry in path.parent.glob("*.scl")] if path.parent.is_dir() else []
        return ScriptError("there is no such file", str(path), hint=did_you_mean(path.name, near))
    if path.is_dir():
        hint = "name one script in it, a file that ends in .scl"
        return ScriptError("this is a directory, not a script", str(path), hint=hint)
    return ScriptError(f"the file cannot be read: {error.strerror or error}", str(path))


def _tokens(source: SourceText) -> list[Token]:
    try:
        return list(grammar().lex(source.text))
    except UnexpectedCharacters as error:
        raise explain_character(source, error.pos_in_stream) from None


def _tree(source: SourceText, tokens: list[Token], vocabulary: Vocabulary) -> Tree:
    if not tokens:
        hint = "a script is a sequence of phases, such as { [hips 40 time: 0.5] }"
        raise source.error(0, "the script has no phase", hint)
    parser = grammar().parse_interactive()
    done = 0
    try:
        for token in tokens:
            parser.feed_token(token)
            done += 1
        return parser.feed_eof(tokens[-1])
    except UnexpectedToken:
        pass
    # The failed step may have undone part of the stack, so the accepted words are computed again.
    parser = grammar().parse_interactive()
    for token in tokens[:done]:
        parser.feed_token(token)
    accepts = frozenset(parser.accepts())
    found = tokens[done] if done < len(tokens) else None
    raise explain(ParseFailure(source, tuple(tokens[:done]), found, accepts, vocabulary))


def _numbers(source: SourceText, tokens: list[Token]) -> tuple[Number, ...]:
    numbers: list[Number] = []
    for before, token in zip([None, *tokens], tokens):
        if token.type != "NUMBER":
            continue
        start, end = extent(token)
        value = float(token)
        if not RANGES["number"].contains(value):
            message = f"the number {token} is too large; {RANGES['number'].wanted}"
            raise source.error(start, message)
        free = before is not None and before.type == "AT"
        numbers.append(Number(value, free, len(numbers), source.span(start, end)))
    return tuple(numbers)
