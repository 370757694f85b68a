"""The tables of docs/reference/scenarios.md, from what the readers of scenario files declare.

python docs/generate/keys.py             writes them
python docs/generate/keys.py --check     exit code 1 if they differ from those of the code
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from jaxsim.io.keys import kind_text  # noqa: E402
from optimize.cli.entries import entry_tables  # noqa: E402
from optimize.cli.scenario_keys import (  # noqa: E402
    KeyTable,
    controller_tables,
    file_tables,
    scheme_tables,
    shape_tables,
)

PAGE = ROOT / "docs" / "reference" / "scenarios.md"


def tables() -> dict[str, str]:
    """The tables by their names, in Markdown."""
    made = {table.name: _keys(table) for table in file_tables()}
    made |= {f"scheme {table.name}": _keys(table) for table in scheme_tables()}
    made["shapes"] = "\n\n".join(map(_section, shape_tables()))
    made["controllers"] = "\n\n".join(map(_section, controller_tables()))
    for name, entries in entry_tables().items():
        rows = [(f"`{e.name}`", e.unit, e.meaning) for e in entries]
        made[name] = _markdown((name.removesuffix("s"), "unit", "meaning"), rows)
    return made


def _section(table: KeyTable) -> str:
    """Section of a controller or shape, or of a table within one."""
    named = f"`{table.name}`" if table.name[0] in "[s" else f'`"{table.name}"`'
    about = f"{table.about[0].upper()}{table.about[1:].rstrip('.')}."
    return f"**{named}** {about}" + (f"\n\n{_keys(table)}" if table.options else "")


def _keys(table: KeyTable) -> str:
    rows = [(f"`{o.key}`", kind_text(o), o.unit, o.shown, o.meaning) for o in table.options]
    return _markdown(("key", "value", "unit", "default", "meaning"), rows)


def _markdown(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    first, *others = (f"| {' | '.join(line)} |" for line in (head, *rows))
    return "\n".join([first, "|---" * len(head) + "|", *others])


def renewed(text: str) -> str:
    """The page with its tables made again."""
    made = tables()
    mark = re.compile(r"(<!-- keys: (.*?) -->\n).*?(<!-- end -->)", re.S)
    missing = made.keys() - {m[2] for m in mark.finditer(text)}
    if missing:
        sys.exit(f"{PAGE}: no place for {sorted(missing)}; add <!-- keys: NAME --> <!-- end -->")
    return mark.sub(lambda m: f"{m[1]}\n{made[m[2]]}\n\n{m[3]}", text)


if __name__ == "__main__":
    before = PAGE.read_text("utf-8")
    after = renewed(before)
    if "--check" in sys.argv:
        sys.exit(before != after and f"{PAGE}: make it again with python docs/generate/keys.py")
    PAGE.write_text(after, "utf-8")
