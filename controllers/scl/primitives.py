"""Motion primitives: from the syntax tree to their records (Shen thesis, section 4.3)."""

from collections.abc import Callable
from typing import Literal

from lark import Token, Tree

from controllers.scl.ast import (
    IK,
    PD,
    BalanceFeedback,
    GravityCompensation,
    Number,
    PDTarget,
    Primitive,
    Relax,
    Span,
    VirtualForce,
)
from controllers.scl.errors import ScriptError, ScriptWarning, SourceText, suggest
from controllers.scl.names import Vocabulary
from controllers.scl.trees import extent, place, subtree, subtrees, words


class PrimitiveBuilder:
    """Builds the primitives of one script, and gathers labels of numbers and warnings."""

    def __init__(self, source: SourceText, vocabulary: Vocabulary, numbers: tuple[Number, ...]):
        self.source = source
        self.vocabulary = vocabulary
        self.labels = [""] * len(numbers)
        self.warnings: list[ScriptWarning] = []
        self._at = {number.span.start: number for number in numbers}

    def build(self, tree: Tree[Token], phase: str) -> Primitive:
        """The record of a `pd`, `vf`, `ik`, `relax` or `gc` tree; raises ScriptError."""
        builders: dict[str, Callable[[Tree[Token], str, Span], Primitive]] = {
            "pd": self._pd,
            "vf": self._vf,
            "ik": self._ik,
            "relax": self._relax,
            "gc": self._gc,
        }
        return builders[str(tree.data)](tree, phase, self.source.span(*extent(tree)))

    def seconds(self, tree: Tree[Token], label: str) -> Number:
        """The time of a `time` or `after` tree [s]; raises ScriptError where it is negative."""
        number = self._number(subtree(tree, "number"), label)
        if number.value < 0:
            raise self.source.error(
                number.span.start, "a time cannot be negative", "write 0 for at once"
            )
        return number

    def joints(self, name: Token, place_of_use: str) -> tuple[str, ...]:
        """The joints a word stands for; raises ScriptError where it names none."""
        found = self.vocabulary.joints_of(name)
        if not found:
            raise self._wrong_name(name, place_of_use, "joint")
        return found

    def links(self, name: Token, place_of_use: str) -> tuple[str, ...]:
        """The links a word stands for; raises ScriptError where it names none."""
        found = self.vocabulary.links_of(name)
        if not found:
            raise self._wrong_name(name, place_of_use, "link")
        return found

    def _pd(self, tree: Tree[Token], phase: str, span: Span) -> PD:
        targets = subtrees(tree, "target")
        names = _say([name for target in targets for name in words(target, "NAME")])
        built = tuple(self._target(target, phase) for target in targets)
        return PD(built, self._time(tree, f"{phase}: {names}"), span)

    def _target(self, tree: Tree[Token], phase: str) -> PDTarget:
        [name], frame = words(tree, "NAME"), words(tree, "CHILD", "PARENT")
        joints = self.joints(name, "a PD controller")
        angle = self._number(subtree(tree, "number"), f"{phase}: {name} angle")
        if frame:
            return PDTarget(joints, angle, "child" if frame[0].type == "CHILD" else "parent")
        self._check_range(str(name), joints, angle)
        return PDTarget(joints, angle, "joint")

    def _check_range(self, name: str, joints: tuple[str, ...], angle: Number) -> None:
        """Warns, once per range, of the joints whose range does not hold the angle."""
        outside: dict[tuple[float, float], list[str]] = {}
        for joint in joints:
            lower, upper = self.vocabulary.joint_range_deg.get(joint, (angle.value, angle.value))
            if not lower <= angle.value <= upper:
                outside.setdefault((lower, upper), []).append(joint)
        for (lower, upper), names in outside.items():
            who = name if len(names) == len(joints) else ", ".join(names)
            self.warnings.append(
                self.source.warning(
                    angle.span.start,
                    f"{who}: {angle.value:g} deg is outside the range "
                    f"of {lower:g} to {upper:g} deg",
                    "the target is kept; the joint is held back by its limit",
                )
            )

    def _vf(self, tree: Tree[Token], phase: str, span: Span) -> VirtualForce:
        link = self._one(subtree(tree, "on"), "link")
        joint = self._one(subtree(tree, "by"), "joint")
        force = subtree(tree, "pair", "balance")
        if force.data == "pair":
            label = f"{phase}: vf {link} by {joint} force"
            return VirtualForce(self._pair(force, f"{label} x", f"{label} y"), link, joint, span)
        label = f"{phase}: sb {link} by {joint}"
        kp, kd = self._pair(subtree(force, "pair"), f"{label} kp", f"{label} kd")
        return VirtualForce(BalanceFeedback(kp, kd), link, joint, span)

    def _ik(self, tree: Tree[Token], phase: str, span: Span) -> IK:
        [name] = words(subtree(tree, "on"), "NAME")
        joints = self.joints(name, "'on:' of ik")
        base = self._one(subtree(tree, "rel"), "joint")
        label = f"{phase}: ik {name}"
        points = tuple(
            self._pair(pair, f"{label} point {count} x", f"{label} point {count} y")
            for count, pair in enumerate(subtrees(tree, "pair"), start=1)
        )
        return IK(points, joints, base, self._time(tree, label), span)

    def _relax(self, tree: Tree[Token], phase: str, span: Span) -> Relax:
        names = words(tree, "NAME")
        joints = [joint for name in names for joint in self.joints(name, "relax")]
        strength = self._number(subtree(tree, "number"), f"{phase}: relax {_say(names)} strength")
        if not 0 <= strength.value <= 1:
            raise self.source.error(
                strength.span.start,
                f"strength {strength.value:g} is outside 0 to 1",
                "0 lets the joints swing freely, 1 keeps all of their damping",
            )
        return Relax(tuple(dict.fromkeys(joints)), strength, span)

    def _gc(self, tree: Tree[Token], phase: str, span: Span) -> GravityCompensation:
        return GravityCompensation(self._one(subtree(tree, "by"), "joint"), span)

    def _one(self, tree: Tree[Token], kind: Literal["joint", "link"]) -> str:
        """The one joint or link of an `on`, `by` or `rel` tree."""
        [name], use = words(tree, "NAME"), f"'{tree.data}:'"
        names = self.joints(name, use) if kind == "joint" else self.links(name, use)
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

    def _time(self, tree: Tree[Token], label: str) -> Number | None:
        times = subtrees(tree, "time")
        return self.seconds(times[0], f"{label} time") if times else None

    def _pair(self, tree: Tree[Token], first: str, second: str) -> tuple[Number, Number]:
        a, b = subtrees(tree, "number")
        return self._number(a, first), self._number(b, second)

    def _number(self, tree: Tree[Token], label: str) -> Number:
        [token] = words(tree, "NUMBER")
        number = self._at[place(token)]
        self.labels[number.index] = label
        return number


def _say(names: list[Token]) -> str:
    """Names for a label, the tail of a long list left out."""
    return ", ".join(names if len(names) < 5 else [*names[:3], "..."])
