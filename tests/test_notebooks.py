"""Names and arguments of the package that notebooks use, without running them.

Most notebooks run with the slow tests alone (notebooks/conftest.py).
"""

import ast
import importlib
import inspect
import json
from pathlib import Path
from typing import Any

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))
OURS = ("jaxsim", "controllers", "optimize")
GONE = object()


def tree_of(path: Path) -> ast.Module:
    """Code of all cells."""
    cells = json.loads(path.read_text("utf-8"))["cells"]
    return ast.parse("\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "code"))


def imports_of(tree: ast.Module) -> dict[str, Any]:
    """Objects that the code imports from the package, by name. Raises for one that is missing."""
    names = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in OURS:
            module = importlib.import_module(node.module or "")
            for alias in node.names:
                names[alias.asname or alias.name] = getattr(module, alias.name)
    return names


def mistakes(tree: ast.Module, names: dict[str, Any]) -> list[str]:
    """Attributes of imported objects that are missing, and arguments that they do not take."""
    wrong = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and resolved(node, names) is GONE:
            wrong.append(ast.unparse(node))
        if not isinstance(node, ast.Call):
            continue
        function = resolved(node.func, names)
        if function in (None, GONE) or not callable(function):
            continue
        kinds = inspect.signature(function).parameters.values()
        if any(p.kind is p.VAR_KEYWORD for p in kinds):
            continue
        known = {p.name for p in kinds}
        unknown = [k.arg for k in node.keywords if k.arg and k.arg not in known]
        wrong += [f"{ast.unparse(node.func)}({name}=...)" for name in unknown]
    return wrong


def resolved(node: ast.expr, names: dict[str, Any]) -> Any:
    """Imported object, or attribute of an imported class or module; None for other expressions."""
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        owner = names.get(node.value.id)
        if inspect.isclass(owner) or inspect.ismodule(owner):
            return getattr(owner, node.attr, GONE)
    return None


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_names_and_arguments_exist(path):
    tree = tree_of(path)
    assert not mistakes(tree, imports_of(tree))


def test_a_wrong_name_or_argument_is_seen():
    tree = ast.parse("from jaxsim import TimeStepping\nTimeStepping(dtt=1)\nTimeStepping.off()")
    assert mistakes(tree, imports_of(tree)) == ["TimeStepping(dtt=...)", "TimeStepping.off"]
    with pytest.raises(AttributeError):
        imports_of(ast.parse("from jaxsim import time_stepping_of"))
