"""The guides do what they say: their blocks of code run, in order, in a folder of their own.

A block with ``title="NAME"`` is the file NAME, and is loaded where it is TOML. A block of Python is
executed; of ``console`` each line is a command, made small by ``SMALL``. ``<!-- slow -->`` before a
block leaves it to the slow tests.
"""

import re
import shlex
import sys
import tomllib
import webbrowser
from pathlib import Path

import jax
import pytest

from optimize.cli.main import main

ROOT = Path(__file__).resolve().parents[1]
PAGES = [*sorted((ROOT / "docs" / "guides").glob("*.md")), ROOT / "README.md"]
BLOCK = re.compile(
    r'^(<!-- slow -->\n)?```(python|toml|console|text)(?: title="([^"]+)")?\n(.*?)^```$',
    re.M | re.S,
)
SMALL = {
    "simulate": ["--seconds", "0.02", "--dt", "0.001", "--quiet"],
    "tune": ["--generations", "1", "--population", "4", "--seconds", "0.02", "--quiet"],
    "sweep": ["--seconds", "0.02", "--set", "scheme.dt=0.001", "--quiet"],
    "view": ["--quiet"],
    "env": ["--seconds", "0.1", "--members", "4", "--quiet"],
    "learn": ["--updates", "1", "--option", "members=8", "--option", "length=4",
              "--option", "hidden=[8]", "--set", "world.seconds=0.1",
              "--set", "environment.seconds=0.2", "--quiet"],
}  # fmt: skip


def blocks(page: Path) -> list[tuple[str, ...]]:
    return BLOCK.findall(page.read_text("utf-8"))


def small(command: str) -> list[str]:
    """The arguments of a command, with fewer and shorter steps."""
    program, *arguments = shlex.split(command)
    assert program == "jaxsim"
    if "--resume" in arguments:
        return [*arguments[: arguments.index("--generations")], "--generations", "2", "--quiet"]
    options = SMALL.get(arguments[0], [])
    if any("scene" in a or a in ("push", "wave.toml") for a in arguments):
        options = ["--seconds", "0.05", "--quiet"]
    if arguments[0] == "tune":
        options = [*options, "--judge-dt", "0.001"]
    return [*arguments, *options]


def run(kind: str, title: str, text: str, names: dict) -> None:
    if title:
        Path(title).write_text(text, "utf-8")
        if title.endswith(".toml"):
            tomllib.loads(text)
        if title.endswith(".py"):
            compile(text, title, "exec")
    elif kind == "python":
        exec(compile(text, "block", "exec"), names)
    elif kind == "console":
        for line in text.splitlines():
            assert main(small(line)) == 0, line


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Blocks run here; no browser opens, and modules of the folder are forgotten."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(webbrowser, "open", lambda *_, **__: True)
    jax.devices()  # so that no command splits the CPU of the tests that follow
    before, wide = set(sys.modules), jax.config.read("jax_enable_x64")
    yield tmp_path
    for name in set(sys.modules) - before:
        if (tmp_path / f"{name}.py").exists():
            del sys.modules[name]
    jax.config.update("jax_enable_x64", wide)


def through(page: Path, slow: bool) -> None:
    names: dict = {"__name__": page.stem}
    for late, kind, title, text in blocks(page):
        if slow or not late:
            run(kind, title, text, names)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page(page, folder, capsys):
    through(page, slow=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [p for p in PAGES if any(b[0] for b in blocks(p))], ids=lambda p: p.stem
)
def test_a_page_with_its_slow_blocks(page, folder, capsys):
    through(page, slow=True)


def test_the_table_of_joints_is_that_of_the_model(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "generate"))
    import joints

    text = joints.PAGE.read_text("utf-8")
    assert joints.renewed(text) == text, "make it anew: python docs/generate/joints.py"


def test_the_tables_of_keys_are_those_of_the_reader(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "generate"))
    import keys

    text = keys.PAGE.read_text("utf-8")
    assert keys.renewed(text) == text, "make them anew: python docs/generate/keys.py"
