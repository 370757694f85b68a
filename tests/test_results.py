"""Figures in docs/results that a command makes are those that it makes.

A comment links a figure to its command, ahead of the table or paragraph that it stands in, on one
line; more of them may follow each other:

    <!-- figures of LINE: jaxsim simulate NAME --objective NAME -->

LINE is how the line of the figures begins (of a table its first cell). Each number of that line,
but for those in code, has to be in what the command prints, to the digits that both have.
"""

import re
import shlex
from pathlib import Path
from typing import NamedTuple

import pytest

from optimize.cli.main import COMMANDS, main

PAGES = sorted((Path(__file__).resolve().parents[1] / "docs" / "results").glob("*.md"))
LINK = re.compile(r"^<!-- figures of (.+?): jaxsim (.+) -->$")
NUMBER = re.compile(r"(?<![\w.])[-−]?(\d+(?:\.\d+)?(?:e[+-]?\d+)?)(?![\w.]*[A-Za-z])")


class Link(NamedTuple):
    """The figures of a page's line, and the arguments of the command that makes them."""

    page: str
    line: str
    command: str

    @property
    def figures(self) -> list[str]:
        """The numbers of the line, without those of its name and of code."""
        return NUMBER.findall(re.sub(r"`[^`]*`", "", self.line))


def links(name: str, text: str) -> list[Link]:
    """All of a page. Raises ValueError for one whose line is not where it should be."""
    lines, out = text.splitlines(), []
    for at, comment in enumerate(lines):
        found = LINK.match(comment)
        if found is None:
            if comment.startswith("<!-- figures"):
                raise ValueError(f"{name}, line {at + 1}: no link of figures: {comment}")
            continue
        begins, command = found.groups()
        below = iter(lines[at + 1 :])
        block = [next((each for each in below if each and not LINK.match(each)), "")]
        for each in below:
            if not each:
                break
            block.append(each)
        own = [line for line in block if line.removeprefix("| ").startswith(begins)]
        if len(own) != 1:
            raise ValueError(f"{name}, line {at + 1}: {len(own)} lines below begin with {begins}")
        line = own[0].removeprefix("| ").removeprefix(begins)
        out.append(Link(name, line, command))
    return out


def unit(number: str) -> float:
    """Of its last digit."""
    digits, _, power = number.partition("e")
    return 10.0 ** (int(power or 0) - len(digits.partition(".")[2]))


def missing(figures: list[str], printed: str) -> list[str]:
    """Those that are not printed, signs apart, within half of the last digit of both."""
    known = [(float(text), unit(text)) for text in NUMBER.findall(printed)]
    return [
        text
        for text in figures
        if not any(abs(float(text) - x) <= 0.501 * (unit(text) + u) for x, u in known)
    ]


LINKS = [link for page in PAGES for link in links(page.name, page.read_text("utf-8"))]
BY_COMMAND = {
    command: [link for link in LINKS if link.command == command]
    for command in dict.fromkeys(link.command for link in LINKS)
}


def test_every_link_names_a_command_and_a_line_with_figures():
    assert len(LINKS) >= 3
    for link in LINKS:
        assert link.figures, link
        assert shlex.split(link.command)[0] in {command.name for command in COMMANDS}, link


def test_a_figure_that_a_command_does_not_print_is_missing():
    page = """
<!-- figures of `kip_up`, 5 s: jaxsim simulate kip_up -->
<!-- figures of `walk`: jaxsim simulate walk -->

| script | total | energy |
|---|---|---|
| `kip_up`, 5 s | 18.62 | 189111 |
| `walk` | -0.25 | |
"""
    kip_up, walk = links("page.md", page)
    assert kip_up.command == "simulate kip_up" and kip_up.figures == ["18.62", "189111"]
    printed = "total   18.618\nenergy  1.8911e+05 (N m)^2\nheight 0.254"
    assert missing(kip_up.figures, printed) == [] == missing(walk.figures, printed)
    assert missing(kip_up.figures, "total 19.803\nenergy 1.8911e+05") == ["18.62"]
    with pytest.raises(ValueError, match="line 2: 0 lines below begin with `kip_up`, 5 s"):
        links("page.md", page.replace("| `kip_up`, 5 s", "| `kip_up`, 6 s"))


@pytest.mark.slow
@pytest.mark.parametrize("command", BY_COMMAND)
def test_figures_are_those_that_their_command_prints(command, capsys):
    assert main([*shlex.split(command), "--quiet"]) in (0, 1)  # 1: what was judged fails
    printed = capsys.readouterr().out
    for link in BY_COMMAND[command]:
        assert missing(link.figures, printed) == [], f"{link.page}: {link.line}\n{printed}"
