"""What mkdocs does besides: pages from outside of docs/, and what is generated from the code.

A page asks for generated text with a line ``<!-- generate: NAME ... -->``; NAME is one of TEXTS.
"""

import os
import posixpath
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mkdocs.plugins import get_plugin_logger
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(Path(__file__).parent))

from api import public_names  # noqa: E402
from commands import commands  # noqa: E402

OUTSIDE = {  # file of the repository -> page
    "README.md": "index.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changes.md",
    "benchmarks/README.md": "results/benchmarks.md",
    "benchmarks/RESULTS.md": "results/recorded.md",
}
ORIGIN = {page: source for source, page in OUTSIDE.items()}
TEXTS: dict[str, Callable[..., str]] = {"api": public_names, "commands": commands}
MARK = re.compile(r"^<!-- generate: (\w+) ?(.*?) -->$", re.M)
FENCE = re.compile(r"^(```.*?^```)$", re.M | re.S)
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
log = get_plugin_logger("jaxsim")


def on_files(files: Files, config: Any) -> Files:
    """Adds the pages that stand elsewhere in the repository."""
    for source, page in OUTSIDE.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / source)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Generated text in its place, and links to files of the repository as links to pages."""
    markdown = MARK.sub(lambda mark: TEXTS[mark[1]](*mark[2].split()), markdown)
    parts = FENCE.split(markdown)
    return "".join(p if p.startswith("```") else _linked(p, page.file.src_uri) for p in parts)


def _linked(text: str, page: str) -> str:
    source = ORIGIN.get(page, f"docs/{page}")

    def link(match: re.Match[str]) -> str:
        picture, label, target = match.groups()
        if re.match(r"\w+:|#", target):
            return match[0]
        path, _, anchor = target.partition("#")
        there = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        if there in OUTSIDE:
            to = OUTSIDE[there]
        elif there.startswith("docs/"):
            to = there.removeprefix("docs/")
        elif (ROOT / there).exists():  # a notebook, a source: the site has no page of it
            return label if label.startswith("`") else f"{label} (`{there}`)"
        else:
            log.warning("%s: the link %s leads nowhere", source, target)
            return match[0]
        relative = os.path.relpath(to, posixpath.dirname(page) or ".")
        return f"{picture}[{label}]({relative}{'#' + anchor if anchor else ''})"

    return LINK.sub(link, text)
