"""The pages of the documentation: links lead somewhere."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("docs", "benchmarks", "notebooks", "tests", "jaxsim", "controllers", "optimize")
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *(p for f in FOLDERS for p in sorted((ROOT / f).rglob("*.md"))),
]
FENCE = re.compile(r"^```.*?^```$", re.M | re.S)


def page_id(page: Path) -> str:
    return str(page.relative_to(ROOT))


def prose(page: Path) -> str:
    """A page without its blocks of code."""
    return FENCE.sub("", page.read_text("utf-8"))


def anchors(page: Path) -> set[str]:
    """What a link may name after '#': headings as GitHub and mkdocs name them."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.M)
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings)
    return {re.sub(r"[^\w\- ]", "", text.lower()).strip().replace(" ", "-") for text in plain}


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_links_lead_somewhere(page):
    """Every relative link names a file, and after '#' a heading of it."""
    lost = []
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if re.match(r"\w+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            lost.append(link)
    assert not lost


def test_pages_that_code_names_exist():
    """A docstring or a comment that says docs/... names a page that is there."""
    lost = set()
    sources = [
        p for f in FOLDERS for p in (ROOT / f).rglob("*") if p.suffix in (".py", ".scl", ".toml")
    ]
    for source in sources:
        for name in re.findall(r"\b(?:docs|benchmarks)/[\w/]+\.md", source.read_text("utf-8")):
            if not (ROOT / name).is_file():
                lost.add((page_id(source), name))
    assert not lost
