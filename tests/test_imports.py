"""Imports of modules form no circle, not even where a type alone needs one."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]
# An earlier name of a module, which it imports when somebody asks for it.
ALLOWED = {frozenset({"controllers.numbers", "controllers.controller"})}


def modules() -> dict[str, set[str]]:
    """Modules, and which of them each imports."""
    files = {}
    for package in ("jaxsim", "controllers", "optimize"):
        for path in (ROOT / package).rglob("*.py"):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            files[name.removesuffix(".__init__")] = path
    imports = {name: set() for name in files}
    for name, path in files.items():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    inner = f"{node.module}.{alias.name}"
                    imports[name].add(inner if inner in files else node.module)
            elif isinstance(node, ast.Import):
                imports[name] |= {alias.name for alias in node.names}
        imports[name] &= files.keys() - {name}
    return imports


def reachable(imports: dict[str, set[str]], start: str) -> set[str]:
    """Modules that a module imports, directly or by others."""
    seen, todo = set(), [start]
    while todo:
        for name in imports[todo.pop()] - seen:
            seen.add(name)
            todo.append(name)
    return seen


def test_modules_import_in_no_circle():
    imports = modules()
    reach = {name: reachable(imports, name) for name in imports}
    circles = {
        frozenset({name, other})
        for name in imports
        for other in reach[name]
        if name in reach[other] and other != name
    }
    circles -= ALLOWED
    assert len(imports) > 300
    assert not circles, f"move what both need to a third module: {sorted(map(sorted, circles))}"
