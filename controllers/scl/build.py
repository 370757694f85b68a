"""Phases and transitions: from the syntax tree to the Script, with checks of their order."""

from collections import Counter
from dataclasses import replace

from lark import Token, Tree

from controllers.scl.ast import ContactCondition, Number, Transition
from controllers.scl.errors import SourceText, suggest
from controllers.scl.grammar import primitive_of_rule
from controllers.scl.names import Vocabulary
from controllers.scl.primitive import Primitive
from controllers.scl.reader import Reader
from controllers.scl.script import Phase, Script
from controllers.scl.trees import extent, place, subtrees, words

_TRANSITION = "write `after 0.5`, `when contact feet`, or `and when contact feet after 0.5`"


class ScriptBuilder:
    """Builder of one script; every method raises ScriptError at the place of a mistake."""

    def __init__(self, source: SourceText, vocabulary: Vocabulary, numbers: tuple[Number, ...]):
        self.source = source
        self.vocabulary = vocabulary
        self.numbers = numbers
        self.reader = Reader(source, vocabulary, numbers)
        self.phases: list[Phase] = []

    def script(self, tree: Tree[Token]) -> Script:
        """Script of the tree of a whole text."""
        phases, transitions = self._split(tree)
        for phase in phases:
            self.phases.append(self._phase(phase))
        for index, transition in enumerate(transitions):
            if transition is not None:
                built = self._transition(transition, index)
                self.phases[index] = replace(self.phases[index], transition=built)
        return Script(
            phases=tuple(self.phases),
            numbers=self.numbers,
            source=self.source.text,
            file=self.source.file,
            warnings=tuple(self.reader.warnings),
            labels=_unique(self.reader.labels, self.numbers),
        )

    def _split(self, tree: Tree[Token]) -> tuple[list[Tree[Token]], list[Tree[Token] | None]]:
        """Phases, and the transition after each; checks that they alternate."""
        phases: list[Tree[Token]] = []
        transitions: list[Tree[Token] | None] = []
        for item in subtrees(tree):
            if item.data == "phase":
                if phases and transitions[-1] is None:
                    raise self.source.error(
                        place(item), "a transition is missing between two phases", _TRANSITION
                    )
                phases.append(item)
                transitions.append(None)
            elif not phases:
                raise self.source.error(
                    place(item), "a transition before the first phase", "begin with a phase: { }"
                )
            elif transitions[-1] is not None:
                raise self.source.error(
                    place(item),
                    "a second transition after the same phase",
                    "to wait for both, write `and when contact feet after 0.5`",
                )
            else:
                transitions[-1] = item
        for index, item in enumerate(transitions):
            if item is not None:
                self._check_ending(item, last=index == len(phases) - 1)
        return phases, transitions

    def _check_ending(self, item: Tree[Token], last: bool) -> None:
        """`finally ... backto name` stands after the last phase, and only there."""
        final = words(item, "FINALLY")
        backto = subtrees(item, "backto")
        if final and not last:
            raise self.source.error(
                place(final[0]), "'finally' before another phase", "it ends the last phase only"
            )
        if last and not final:
            raise self.source.error(
                place(item),
                "a transition after the last phase without 'finally'",
                "add a phase after it, or write `finally after 0.5 backto phase_name`",
            )
        if final and not backto:
            raise self.source.error(
                item.meta.end_pos, "'backto' is missing", "name the phase to go back to"
            )
        if backto and not final:
            raise self.source.error(
                place(backto[0]),
                "'backto' without 'finally'",
                "only the transition after the last phase goes back",
            )

    def _phase(self, tree: Tree[Token]) -> Phase:
        names = [word for header in subtrees(tree, "header") for word in _names(header)]
        name = str(names[0]) if names else f"phase {len(self.phases) + 1}"
        for earlier in self.phases:
            if earlier.name == name:
                raise self.source.error(
                    place(names[0]),
                    f"there is already a phase named '{name}'",
                    f"the first one is on line {earlier.span.line}" if earlier.span else "",
                )
        body = [child for child in subtrees(tree) if child.data != "header"]
        if len(names) < 2:
            original, primitives = None, self._body(body, name)
        else:
            original = str(names[1])
            if body:
                raise self.source.error(
                    place(body[0]),
                    f"phase '{name}' mirrors '{original}' and cannot have primitives of its own",
                    f"remove either the primitives or ': ({original})'",
                )
            primitives = self._mirrored(names[1])
        return Phase(name, original, primitives, None, self.source.span(*extent(tree)))

    def _body(self, body: list[Tree[Token]], phase: str) -> tuple[Primitive, ...]:
        self.reader.phase, self.reader.primitives = phase, []
        for tree in body:
            self.reader.read(tree, primitive_of_rule(tree.data))
        return tuple(self.reader.primitives)

    def _mirrored(self, name: Token) -> tuple[Primitive, ...]:
        for phase in self.phases:
            if phase.name == name:
                return tuple(self.reader.mirror(p, place(name)) for p in phase.primitives)
        raise self.source.error(
            place(name), f"there is no phase '{name}' before this one", self._known(name)
        )

    def _known(self, name: str) -> str:
        names = [phase.name for phase in self.phases if " " not in phase.name]
        if not names:
            return "write the name of a phase as { (name) ... }"
        return suggest(name, names, "named phases")

    def _transition(self, tree: Tree[Token], index: int) -> Transition:
        self.reader.phase, target = self.phases[index].name, index + 1
        time = contact = None
        for node in subtrees(tree):
            if node.data == "after":
                time = self.reader.seconds(node, "after time")
            elif node.data == "when":
                contact = self._contact(node)
            else:
                [name] = _names(node)
                indices = [i for i, p in enumerate(self.phases) if p.name == name]
                if not indices:
                    message = f"there is no phase '{name}' to go back to"
                    raise self.source.error(place(name), message, self._known(name))
                target = indices[0]
        return Transition(time, contact, target, self.source.span(*extent(tree)))

    def _contact(self, tree: Tree[Token]) -> ContactCondition:
        names = words(tree, "NAME")
        links = [link for n in names for link in self.reader.links(n, "'when contact'")]
        # Without a word, the links need only be in contact at the time.
        if words(tree, "ESTABLISHED"):
            event = "established"
        elif words(tree, "LOST"):
            event = "lost"
        else:
            event = "changed" if words(tree, "CHANGED") else "touching"
        which = "all" if words(tree, "ALL") else "any"
        return ContactCondition(event, which, tuple(dict.fromkeys(links)))


def _names(tree: Tree[Token]) -> list[Token]:
    """The phase names in a `header` or `backto` tree."""
    return [word for name in subtrees(tree, "phase_name") for word in words(name)]


def _unique(labels: list[str], numbers: tuple[Number, ...]) -> tuple[str, ...]:
    """Labels made unique: those that occur twice get their line, and if need be the column."""
    lines = [f"{label} (line {n.span.line})" for label, n in zip(labels, numbers)]
    count, on_line = Counter(labels), Counter(lines)
    unique = []
    for label, line, number in zip(labels, lines, numbers):
        if count[label] == 1:
            unique.append(label)
        elif on_line[line] == 1:
            unique.append(line)
        else:
            unique.append(f"{label} (line {number.span.line}, column {number.span.column})")
    return tuple(unique)
