"""Reader of the primitives of a script: names, numbers and warnings, with errors at their place."""

from dataclasses import replace
from typing import Any, Literal

from lark import Token, Tree

from controllers.scl.ast import Number
from controllers.scl.errors import ScriptError, ScriptWarning, SourceText, suggest
from controllers.scl.trees import extent, place, subtree, subtrees, words


class Reader:
    """Reader of one script, which gathers the labels of its numbers and its warnings.

    vocabulary: ``names.Vocabulary``; phase: name of the phase that is read, before the labels of
    its numbers; primitives: those of the phase so far.
    """

    def __init__(self, source: SourceText, vocabulary: Any, numbers: tuple[Number, ...]):
        self.source = source
        self.vocabulary = vocabulary
        self.phase = ""
        self.primitives: list[Any] = []
        self.labels = [""] * len(numbers)
        self.warnings: list[ScriptWarning] = []
        self._at = {number.span.start: number for number in numbers}

    def read(self, tree: Tree[Token], kind: Any) -> None:
        """Add the primitive of a class ``kind``, of a syntax tree, to the phase.

        Raises ScriptError.
        """
        primitive = kind.read(tree, self)
        if primitive.span is None:
            primitive = replace(primitive, span=self.source.span(*extent(tree)))
        self.primitives.append(primitive)

    def numbers(self, tree: Tree[Token], *labels: str) -> tuple[Number, ...]:
        """The numbers directly in a tree, in the order of the text, with a label for each."""
        numbers = []
        for child, label in zip(subtrees(tree, "number"), labels, strict=True):
            [token] = words(child, "NUMBER")
            number = self._at[place(token)]
            self.labels[number.index] = f"{self.phase}: {label}"
            numbers.append(number)
        return tuple(numbers)

    def pair(self, tree: Tree[Token], first: str, second: str) -> tuple[Number, Number]:
        """The two numbers of a `pair` tree, with their labels."""
        a, b = self.numbers(tree, first, second)
        return a, b

    def seconds(self, tree: Tree[Token], label: str) -> Number:
        """The time of a `time` or `after` tree [s]; raises ScriptError where it is negative."""
        [number] = self.numbers(tree, label)
        if number.value < 0:
            raise self.source.error(
                number.span.start, "a time cannot be negative", "write 0 for at once"
            )
        return number

    def time(self, tree: Tree[Token], label: str) -> Number | None:
        """The time [s] of a primitive's `time` clause, None where it has none."""
        times = subtrees(tree, "time")
        return self.seconds(times[0], f"{label} time") if times else None

    def joints(self, name: Token, place_of_use: str) -> tuple[str, ...]:
        """The joints a word stands for; raises ScriptError where it names none."""
        joints = self.vocabulary.joints_of(name)
        if not joints:
            raise self._wrong_name(name, place_of_use, "joint")
        return joints

    def links(self, name: Token, place_of_use: str) -> tuple[str, ...]:
        """The links a word stands for; raises ScriptError where it names none."""
        links = self.vocabulary.links_of(name)
        if not links:
            raise self._wrong_name(name, place_of_use, "link")
        return links

    def joint(self, tree: Tree[Token], clause: str) -> str:
        """The one joint of a primitive's `on`, `by` or `rel` clause. Raises ScriptError."""
        [name], use = words(subtree(tree, clause), "NAME"), f"'{clause}:'"
        return self._single(name, use, "joint", self.joints(name, use))

    def link(self, tree: Tree[Token], clause: str) -> str:
        """The one link of a primitive's `on`, `by` or `rel` clause. Raises ScriptError."""
        [name], use = words(subtree(tree, clause), "NAME"), f"'{clause}:'"
        return self._single(name, use, "link", self.links(name, use))

    def mirror(self, primitive: Any, offset: int) -> Any:
        """Mirror image of a primitive; raises ScriptError at an offset where there is none."""
        try:
            return primitive.mirror(self.vocabulary.mirror)
        except ValueError as error:
            raise self.source.error(offset, f"this cannot be mirrored: {error}") from error

    def warn(self, offset: int, message: str, hint: str) -> None:
        """Record a warning at an offset of the text."""
        self.warnings.append(self.source.warning(offset, message, hint))

    def _single(self, name: Token, use: str, kind: str, names: tuple[str, ...]) -> str:
        if len(names) != 1:
            raise self.source.error(
                place(name),
                f"{use} needs one {kind}, but '{name}' stands for {len(names)}",
                f"write one of {', '.join(names)}; a [symm] after it adds the other side",
            )
        return names[0]

    def _wrong_name(self, name: Token, use: str, kind: Literal["joint", "link"]) -> ScriptError:
        valid, others = self.vocabulary.joint_words, self.vocabulary.link_words
        if kind == "link":
            valid, others = others, valid
        if name not in others:
            message, hint = f"unknown {kind} '{name}'", suggest(name, valid, f"{kind}s")
        else:
            other = "link" if kind == "joint" else "joint"
            message = f"'{name}' is a {other}, but {use} needs a {kind}"
            hint = f"{kind}s: {', '.join(valid)}"
        return self.source.error(place(name), message, hint)
