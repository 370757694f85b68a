"""The public names of a package, from its ``__init__.pyi``, for mkdocstrings: by where each is."""

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TITLES = {
    "characters": "Characters",
    "compilation": "Compiling",
    "gradients": "Gradients",
    "io": "Files",
    "model": "Models and states",
    "simulation": "Simulation",
    "solvers": "Status",
    "synthesis": "Per-step optimisation",
    "viewer": "Looking at a motion",
    "goals": "Controllers by goals",
    "pose": "Controllers by poses",
    "protocol": "What a controller is",
    "scl": "Scripts",
    "problems": "Problems",
    "results": "Result folders",
    "running": "Runs, measures and objectives",
    "scenarios": "Scenarios",
    "studies": "Maps",
    "tuning": "Tuning",
}


def public_names(package: str) -> str:
    """A heading for each part of the package, and below it what mkdocstrings is asked for."""
    tree = ast.parse((ROOT / package / "__init__.pyi").read_text("utf-8"))
    parts: dict[str, list[str]] = {}
    for statement in tree.body:
        if isinstance(statement, ast.ImportFrom):
            part = str(statement.module).split(".")[1]
            parts.setdefault(part, []).extend(name.name for name in statement.names)
    lines = []
    for part, names in parts.items():
        lines += [f"## {TITLES.get(part, part)}", ""]
        for name in names:
            lines += [f"::: {package}.{name}", ""]
    return "\n".join(lines)
