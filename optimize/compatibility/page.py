"""Page of a model: one offline file that shows the volume, the samples and the last query.

Three numbers are a box that turns, with the volume's boundary; otherwise each pair of numbers is a
slice, the others as in the first answer, or in the scenario.
"""

import html
import itertools
import os
import re
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from jaxsim.io.files import write_bytes
from jaxsim.viewer.colours import css_variables
from jaxsim.viewer.page import script_json
from optimize.compatibility.ask import QueryResult, motion_of, queries
from optimize.compatibility.run import SavedModel, load
from optimize.compatibility.space import Space
from optimize.compatibility.volume import Volume
from optimize.interrupts import note_interrupts
from optimize.results.lock import lock_folder

PAGE = "compat.html"
CELLS = 24  # of the volume along each number, in space
PIXELS = 48  # of a slice
MOST_POINTS = 3000  # that are shown, evenly chosen
NEAR = 0.15  # part of a range that a sample may be off a slice


@note_interrupts()
def write_model_page(out: str | os.PathLike, progress: bool = False) -> Path:
    """Write the page of the model in a folder. Raises as ``load``."""
    with lock_folder(out):
        saved = load(out)
        result = queries(saved)
        motions = []
        if result is not None:
            points = result.points.reshape(-1, len(result.names))
            bar = tqdm(points, disable=not progress, unit="motion", desc="simulating")
            motions = [motion_of(saved, point).page() for point in bar]
        return write_bytes(saved.folder / PAGE, model_page(saved, result, motions).encode())


def model_page(saved: SavedModel, result: QueryResult | None, motions: list[str]) -> str:
    """HTML of the page of a model; motions: one page for each answer."""
    names = ", ".join(saved.question.space.names)
    title = f"What is compatible: {saved.options.scenario} over {names}"
    told = "No query so far" if result is None else "Answers, as they were simulated"
    text = {
        "STYLE": css_variables(),
        "TITLE": html.escape(title),
        "SUMMARY": _rows(saved),
        "ASKED": told,
        "MOTIONS": "" if result is None else _frames(result, motions),
        "DATA": script_json(page_data(saved, result)),
        "SCRIPT": _own("page.js"),
    }
    return re.sub(r"\{\{([A-Z]+)\}\}", lambda match: text[match[1]], _own("page.html"))


def _own(name: str) -> str:
    return resources.files("optimize.compatibility").joinpath(name).read_text("utf-8")


def _rows(saved: SavedModel) -> str:
    model = saved.model
    rows = {
        "samples": f"{model['samples']}, {model['compatible']} of them compatible",
        "right in 5-fold cross-validation": f"{model['accuracy']:.2%}",
        "support vectors": model["support_vectors"],
        "sampling": f"{model['seconds']['sampling']:.1f} s, {saved.options.method}",
        "of each simulation": f"{saved.options.seconds:g} s; {saved.options.outcome}",
    }
    return "\n".join(
        f'<tr><th scope="row">{html.escape(name)}</th><td>{html.escape(str(value))}</td></tr>'
        for name, value in rows.items()
    )


def _frames(result: QueryResult, motions: list[str]) -> str:
    out = []
    for (k, n), page in zip(np.ndindex(result.known.shape), motions):
        numbers = ", ".join(
            f"{name.split(': ')[-1]} {x:.3g}" for name, x in zip(result.names, result.points[k, n])
        )
        verdict = "succeeds" if result.succeeded[k, n] else "fails"
        source = html.escape(page, quote=True)
        out.append(
            f'<div class="card"><b>{html.escape(numbers)}: {verdict}</b>'
            f'<iframe title="{html.escape(numbers)}" srcdoc="{source}"></iframe></div>'
        )
    return "\n".join(out)


def page_data(saved: SavedModel, result: QueryResult | None) -> dict[str, Any]:
    """Data that the page draws."""
    space = saved.question.space
    inside = np.flatnonzero(space.inside(saved.points))
    shown = inside[np.unique(np.linspace(0, len(inside) - 1, MOST_POINTS).astype(int))]
    points = saved.points[shown]
    answers = np.zeros((0, space.size)) if result is None else result.points.reshape(-1, space.size)
    through = answers[0] if len(answers) else saved.question.start
    return {
        "names": space.names,
        "lower": _short(space.lower),
        "upper": _short(space.upper),
        "points": _short(points),
        "yes": saved.yes[shown].astype(int).tolist(),
        "answers": _short(answers),
        "faces": _short(faces(space, saved.volume)) if space.size == 3 else [],
        "slices": [] if space.size == 3 else slices(space, saved.volume, through, points),
    }


def _short(numbers: np.ndarray) -> Any:
    return np.vectorize(lambda x: float(f"{x:.4g}"), otypes=[float])(numbers).tolist()


def faces(space: Space, volume: Volume, cells: int = CELLS) -> np.ndarray:
    """Corners (n, 4, 3) of the faces between cells inside and outside, each range from 0 to 1."""
    middle = (np.arange(cells) + 0.5) / cells
    unit = np.stack(np.meshgrid(middle, middle, middle, indexing="ij"), axis=-1)
    points = space.lower + unit * (space.upper - space.lower)
    full = np.asarray(volume.decision(space.scaled(points.reshape(-1, 3)))) > 0
    full = np.pad(full.reshape(cells, cells, cells), 1)
    out = []
    for axis in range(3):
        first = np.argwhere(np.diff(full.astype(int), axis=axis) != 0) - 1.0
        first[:, axis] += 1
        one, other = (np.eye(3)[(axis + k) % 3] for k in (1, 2))
        corners = [first, first + one, first + one + other, first + other]
        out.append(np.stack(corners, axis=1) / cells)
    return np.concatenate(out)


def slices(
    space: Space, volume: Volume, through: np.ndarray, points: np.ndarray
) -> list[dict[str, Any]]:
    """Slices for each pair of numbers: the volume in them, and the samples near."""
    middle = (np.arange(PIXELS) + 0.5) / PIXELS
    extent = space.upper - space.lower
    out = []
    for across, up in itertools.combinations(range(space.size), 2):
        grid = np.tile(through, (PIXELS, PIXELS, 1))
        grid[..., across] = (space.lower[across] + middle * extent[across])[:, None]
        grid[..., up] = space.lower[up] + middle * extent[up]
        others = [k for k in range(space.size) if k not in (across, up)]
        off = np.abs(points - through)[:, others] / extent[others]
        near = np.flatnonzero(np.all(off < NEAR, axis=1))
        decision = np.asarray(volume.decision(space.scaled(grid.reshape(-1, space.size))))
        inside = (decision > 0).reshape(PIXELS, PIXELS).astype(int).tolist()
        out.append({"across": across, "up": up, "inside": inside, "near": near.tolist()})
    return out
