"""Pages of the shipped scenarios, simulated and linked to one another."""

import html
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from jaxsim.io.files import try_folder, write_bytes
from jaxsim.io.toml_table import WorldError, suggestion
from optimize.interrupts import note_interrupts
from optimize.results.folder import RunFolder
from optimize.running.simulate import run_scenario, write_simulation
from optimize.scenarios.find import scenario, shipped_scenarios

INDEX = "index.html"


class Gallery(NamedTuple):
    """Result of ``gallery``: the page, and how the simulations ended."""

    page: Path  # with a link to each scenario
    finite: bool  # all motions
    interrupted: bool


@note_interrupts()
def gallery(
    folder: str | os.PathLike[str],
    only: str | None = None,
    progress: bool = False,
    backend: str | None = None,
    say: Callable[..., None] = print,
) -> Gallery:
    """Simulate the shipped scenarios (or ``only`` one) into folders of their names.

    Writes the page that links them. Raises WorldError for a name that is not shipped.
    """
    titles = shipped_scenarios()
    names = tuple(titles)
    if only is not None and only not in names:
        raise WorldError(
            f"there is no shipped scenario {only!r}{suggestion(only, names)}; there are:"
            f" {', '.join(names)}"
        )
    try_folder(folder)
    folder = Path(folder)
    finite, interrupted = True, False
    for number, name in enumerate([only] if only else names, 1):
        say(f"{number} of {1 if only else len(names)}: {titles[name]} ({name})")
        simulation = run_scenario(scenario(name), progress=progress, backend=backend)
        write_simulation(folder / name, simulation)
        say(*(f"note: {note}" for note in simulation.notes))
        finite = finite and simulation.summary["failed_at"] is None
        interrupted = simulation.interrupted
        if interrupted:
            break
    titles = {name: title for name, title in titles.items() if _is_there(folder, name)}
    return Gallery(write_index(folder, titles), finite, interrupted)


PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Gallery</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 1100px; margin: 0 auto; padding: 16px; }}
a {{ color: inherit; }}
section {{ border-top: 1px solid #8886; padding: 12px 0; }}
h2 {{ font-size: 17px; margin: 0 0 8px; }}
img {{ max-width: 100%; background: #fff; border-radius: 6px; }}
</style></head><body>
<h1>Gallery</h1>
{sections}
</body></html>
"""


def _is_there(folder: Path, name: str) -> bool:
    return (folder / name / RunFolder.MOTION).is_file()


def write_index(folder: Path, titles: Mapping[str, str]) -> Path:
    """Write the page that links the results whose pages are in the folder: name -> title."""
    sections = []
    for name, plain in titles.items():
        if not _is_there(folder, name):
            continue
        link, title = f"{name}/{RunFolder.MOTION}", html.escape(plain)
        strip = folder / name / "filmstrip.png"
        picture = f'<a href="{link}"><img src="{name}/filmstrip.png" alt=""></a>'
        sections.append(
            f'<section><h2><a href="{link}">{title}</a></h2>\n'
            f"{picture if strip.is_file() else ''}</section>"
        )
    page = folder / INDEX
    write_bytes(page, PAGE.format(sections="\n".join(sections)).encode())
    return page
