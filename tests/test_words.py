"""The language of the code: what a reader sees in an editor's hover stands alone."""

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("jaxsim", "controllers", "optimize")
FIRST_WORDS = {"Of", "What", "Those", "As", "With", "Where", "Whether", "How", "It", "All"}
# One-word participles that name public functions of modules, and why they stay.
PARTICIPLES = {
    "batched": "public name of optimize",
    "composed": "public name of controllers",
    "fixed": "public name of jaxsim: a kind of joint",
    "posed": "public name of jaxsim",
    "renamed": "public name of controllers",
    "scaled": "public name of jaxsim",
    # rewards, terminations and measures of scenario files: names in files
    **dict.fromkeys(
        ("fallen", "planted", "raised", "reached", "risen", "tilted", "caught"),
        "name in scenario files",
    ),
}
IRREGULAR = {"kept", "told", "found", "given", "drawn", "held", "made", "begun", "chosen", "known"}
IRREGULAR |= {"fallen", "risen", "seen", "shown", "grown", "thrown", "written", "swept", "caught"}
# Names of locals that say nothing of what they are.
LOCALS = {
    "found",
    "own",
    "given",
    "kept",
    "told",
    "held",
    "wanted",
    "asked",
    "made",
    "begun",
    "one",
}
VERBS = {"need", "speed", "feed", "seed", "embed", "shed", "proceed", "exceed", "bleed", "weed"}


@cache
def trees():
    files = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    return {str(path.relative_to(ROOT)): ast.parse(path.read_text("utf-8")) for path in files}


def leans(first_line: str) -> bool:
    """True for a first line that cannot be read without its neighbours."""
    word = first_line.split()[0].rstrip(",.:;") if first_line.split() else ""
    return word in FIRST_WORDS or first_line.startswith("The same")


def is_participle(name: str) -> bool:
    regular = name.endswith("ed") and name not in VERBS
    return "_" not in name and (regular or name in IRREGULAR)


def test_the_first_line_of_a_docstring_stands_alone():
    wrong = [
        f"{file}:{getattr(node, 'lineno', 1)}: {text.splitlines()[0]}"
        for file, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and (text := ast.get_docstring(node))
        and leans(text.splitlines()[0])
    ]
    assert not wrong, "write an imperative or a noun phrase of the field:\n" + "\n".join(wrong)


def test_public_functions_are_no_participles():
    names = defaultdict(list)
    for file, tree in trees().items():
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                if is_participle(node.name):
                    names[node.name].append(f"{file}:{node.lineno}")
    wrong = {name: places for name, places in names.items() if name not in PARTICIPLES}
    assert not wrong, f"name them by a verb or by what they give: {wrong}"
    assert set(PARTICIPLES) <= set(names), "an exception is no longer needed"


def test_locals_that_live_long_are_no_participles():
    wrong = []
    for file, tree in trees().items():
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef):
                for name, lines in lives(function).items():
                    if name in LOCALS and max(lines) - min(lines) > 10:
                        wrong.append(f"{file}:{min(lines)}: {name}")
    assert not wrong, "name what they are:\n" + "\n".join(wrong)


def lives(function: ast.FunctionDef) -> dict[str, list[int]]:
    """Lines of each name that a function binds."""
    lines, bound = defaultdict(list), set()
    for node in ast.walk(function):
        if isinstance(node, ast.Name):
            lines[node.id].append(node.lineno)
            if isinstance(node.ctx, ast.Store):
                bound.add(node.id)
    return {name: lines[name] for name in bound}


def test_every_class_name_is_that_of_one_class():
    names = defaultdict(list)
    for file, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                names[node.name].append(f"{file}:{node.lineno}")
    assert not {name: places for name, places in names.items() if len(places) > 1}


@pytest.mark.parametrize(
    ("line", "wrong"),
    [("Of a jaxpr's outputs.", True), ("The same, of any.", True), ("Implicit Euler step.", False)],
)
def test_leaning_lines_are_told_apart(line, wrong):
    assert leans(line) == wrong
