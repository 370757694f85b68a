"""Page of a tuning run: history, numbers, terms, front and motions, readable offline.

    write_run_page("runs/rise")

A run that is under way or was interrupted is shown as far as it has come.
"""

import html
import itertools
import os
import re
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from jaxsim.io.files import write_bytes
from jaxsim.viewer.colours import css_variables
from jaxsim.viewer.page import script_json
from jaxsim.viewer.values import plain_text
from optimize.interrupts import note_interrupts
from optimize.problems.problem import Problem
from optimize.results.folder import RunFolder
from optimize.running.simulate import run_scenario
from optimize.scenarios.scenario import Scenario
from optimize.tuning.build import load_run, with_numbers
from optimize.tuning.front import Front, load_front
from optimize.tuning.histories import RunHistory, best_of, column, histories, quartiles
from optimize.tuning.names import FRONT, RESULT
from optimize.tuning.svg import Band, Dots, Line, chart

PAGE = "tuning.html"
PLAYED = 12  # members of a front whose motion is in the page
SHOWN = 8  # runs whose own line is drawn beside the quartiles of all


@note_interrupts()
def write_run_page(
    folder: str | os.PathLike,
    scenario: Scenario | None = None,
    objective: Any = None,
    progress: bool = False,
) -> Path:
    """Write tuning.html into the folder of a tuning run, and return its path.

    scenario, objective: of a run whose own were made in Python. Members of the front are simulated,
    up to ``PLAYED`` of them, evenly along its first term. Where the problem of the run cannot be
    created again, the page says why, and shows the numbers in the coordinates of the search.

    Raises FileNotFoundError where there is no run, ValueError where the folder holds another kind
    of run, nothing to show yet, or is damaged.
    """
    run = RunFolder.open(folder)
    config = run.read_config()
    if "generations" not in config or "weights" not in config:
        raise ValueError(f"{run.path} holds another kind of run, no tuning run")
    runs = histories(run) if (run / run.HISTORY).is_file() else []
    if not runs:
        raise ValueError(f"{run.path} has no history yet: there is nothing to show")
    problem, backend, reason = None, None, ""
    try:
        loaded, problem = load_run(run, scenario, objective)
        backend = loaded.backend
    except (ValueError, KeyError, OSError, TypeError) as error:
        reason = f"The problem of the run could not be made again: {error}"
    front = load_front(run) if (run / FRONT).is_file() else None
    pages = {}
    if front is not None and problem is not None:
        shown = even_indices(front.size, PLAYED)
        for k in tqdm(shown, disable=not progress, unit="motion", desc="simulating"):
            point = with_numbers(problem, front.numbers[k], config["seconds"])
            pages[str(k)] = run_scenario(point, backend=backend).page()
    body = [_summary(run, config, runs, reason), _history(runs), _terms(run, runs)]
    body += [_numbers(runs, problem), _motion(run)]
    if front is not None:
        body.append(_front(front, pages))
    text = page_text(f"{config['scenario']}, tuned for {config['objective']}", body, pages)
    return write_bytes(run / PAGE, text.encode())


def page_text(title: str, body: Sequence[str], pages: Mapping[str, str]) -> str:
    """HTML of the page of a run. pages: motions by the key of their point."""
    text = {
        "STYLE": css_variables(),
        "TITLE": html.escape(title),
        "BODY": "\n".join(body),
        "DATA": script_json(dict(pages)),
    }
    own = resources.files("optimize.tuning").joinpath("page.html").read_text("utf-8")
    return re.sub(r"\{\{([A-Z]+)\}\}", lambda match: text[match[1]], own)


def even_indices(size: int, most: int) -> list[int]:
    """Evenly spaced indices below ``size``, at most ``most``, both ends included.

    >>> even_indices(5, 3)
    [0, 2, 4]
    """
    return np.unique(np.linspace(0, size - 1, most).astype(int)).tolist() if size else []


# ---- parts of the page


def _card(title: str, inside: str) -> str:
    return f'<h2>{html.escape(title)}</h2>\n<div class="card">{inside}</div>'


def _table(rows: Sequence[Sequence[Any]], head: Sequence[str] = ()) -> str:
    """HTML table with texts aligned left and numbers aligned right."""
    out = ["<table>"]
    if head:
        cells = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in head)
        out.append(f"<thead><tr>{cells}</tr></thead>")
    for name, *cells in rows:
        own = "".join(
            f"<td{'' if isinstance(c, str) else ' class=number'}>{html.escape(plain_text(c))}</td>"
            for c in cells
        )
        out.append(f'<tr><th scope="row">{html.escape(str(name))}</th>{own}</tr>')
    return "".join([*out, "</table>"])


def _summary(run: RunFolder, config: Mapping[str, Any], runs: list[RunHistory], reason: str) -> str:
    best = best_of(runs)
    made = 1 + int(runs[0].lines[-1]["generation"])
    rows: list[tuple[str, Any]] = [
        ("method", f"{config['method']}, population {config['population']}"),
        ("runs", len(runs)),
        ("generations", f"{made} of {config['generations']}"),
        ("evaluations", int(sum(own.evaluations[-1] for own in runs))),
        ("time of these [s]", float(sum(line["seconds"] for line in runs[0].lines))),
        ("at the start", float(runs[0].best[0])),
        ("best of the search", None if best is None else best.last),
    ]
    if (run / RESULT).is_file():
        result = run.read_json(RESULT)
        rows.append((f"result, {result['judged']}", float(result["after"]["total"])))
    note = f"<p>{html.escape(reason)}</p>" if reason else ""
    texts = [(name, plain_text(value)) for name, value in rows]
    return f'<div class="card">{_table(texts)}{note}</div>'


def _history(runs: list[RunHistory]) -> str:
    """Charts of the fitness: quartiles by generation of one run, or best so far of several runs."""
    best = best_of(runs) or runs[0]
    later = [line for line in best.lines if line["generation"] >= 0]
    if not later:
        return _card("History", "<p>Only the start is evaluated.</p>")
    generation = column(later, "generation")
    start = np.full(len(later), best.best[0])
    lines = [Line(generation, start, "soft", 1.0, dashed=True)]
    if len(runs) == 1:
        band = Band(generation, column(later, "first_quartile"), column(later, "third_quartile"))
        lines.append(Line(generation, column(later, "median"), "soft", 1.0))
        legend = (
            "The line is the best so far; grey the median of a generation, the band its quartiles"
        )
        across = "generation"
    else:
        at, (low, middle, high) = quartiles(runs)
        band, across = Band(at, low, high), "evaluations of a run"
        lines = [Line(at, middle, "soft", 1.0)]
        legend = (
            f"The line is the best of {len(runs)} runs so far; grey their median, the band their"
        )
        legend += " quartiles"
    x = generation if len(runs) == 1 else best.evaluations[1:]
    lines.append(Line(x, best.best[1:], "accent", 2.0))
    failed = np.sum([column(own.lines, "failures")[1:][: len(later)] for own in runs], axis=0)
    charts = [
        chart("objective (lower is better)", lines, band, across=across),
        chart("step size", [Line(generation, column(later, "sigma"))], log=True),
        chart("members that failed", [Line(generation, failed)]),
    ]
    return _card("History", f'<div class="charts">{"".join(charts)}</div><p>{legend}.</p>')


def _terms(run: RunFolder, runs: list[RunHistory]) -> str:
    """Table and charts of the weighted terms, in the unit of the objective."""
    best = best_of(runs) or runs[0]
    later = [line for line in best.lines if line["generation"] >= 0]
    held = run.read_json(RunFolder.BEST)["terms"] if (run / RunFolder.BEST).is_file() else []
    rows, charts = [], []
    for term in held:
        weight = term["weight"]
        gave = [None if term[k] is None else weight * term[k] for k in ("before", "after")]
        rows.append((term["name"], term["unit"], weight, term["before"], term["after"], *gave))
        values = weight * column([line["best_parts"] for line in later], term["name"])
        if np.isfinite(values).any():
            drawn = Line(column(later, "generation"), values)
            charts.append(chart(f"{term['name']}: weight x value", [drawn]))
    head = ("term", "unit", "weight", "start", "best", "start gave", "best gave")
    table = _table(rows, head) if rows else "<p>No member was found so far.</p>"
    told = "<p>Below, what each gave to the best member of a generation.</p>" if charts else ""
    return _card("Terms", f'{table}{told}<div class="charts">{"".join(charts)}</div>')


def _numbers(runs: list[RunHistory], problem: Problem | None) -> str:
    """Charts of the search distribution's mean, in the numbers' units if the problem is known."""
    best = best_of(runs) or runs[0]
    if not all("centre" in line and line["centre"] for line in best.lines):
        return _card("Numbers", "<p>The history does not hold them.</p>")
    shown = [runs[k] for k in even_indices(len(runs), SHOWN)]
    charts = []
    size = len(best.lines[0]["centre"])
    values = {own.number: _decoded(own, problem) for own in (*shown, best)}
    names = [f"number {k}" for k in range(size)] if problem is None else problem.names
    for k, name in enumerate(names):
        lines = [
            Line(column(own.lines, "generation"), values[own.number][:, k], "horizon", 0.7)
            for own in shown
            if own is not best
        ]
        lines.append(Line(column(best.lines, "generation"), values[best.number][:, k]))
        charts.append(chart(name, lines))
    what = "The mean of the search's distribution"
    told = f"{what}; grey that of other runs." if len(runs) > 1 else f"{what}."
    return _card("Numbers", f'<div class="charts">{"".join(charts)}</div><p>{told}</p>')


def _decoded(run: RunHistory, problem: Problem | None) -> np.ndarray:
    """Means of the search distribution (G, n) by generation, in units if the problem is known."""
    centres = np.asarray([line["centre"] for line in run.lines], float)
    return centres if problem is None else np.asarray(problem.tunables.decode(centres))


def _motion(run: RunFolder) -> str:
    if not (run / RunFolder.MOTION).is_file():
        return _card("Motion", "<p>None yet: it is written when the search is over.</p>")
    source = html.escape(run.read_text(RunFolder.MOTION), quote=True)
    return _card("The best motion", f'<iframe title="The best motion" srcdoc="{source}"></iframe>')


def _front(front: Front, pages: Mapping[str, str]) -> str:
    """Charts of the Pareto front over each pair of terms, and of its hypervolume."""
    units = [f"{name} [{unit}]" for name, unit in zip(front.terms, front.units)]
    texts = [
        ", ".join(f"{name} {x:.4g}" for name, x in zip(front.terms, values)) + f" (run {run})"
        for values, run in zip(front.values, front.run)
    ]
    keys = [str(k) if str(k) in pages else None for k in range(front.size)]
    charts = []
    for a, b in itertools.combinations(range(len(units)), 2) if front.size else ():
        dots = Dots(front.values[:, a], front.values[:, b], texts, keys)
        charts.append(chart(units[b], dots=dots, across=units[a]))
    if front.hypervolume:
        volume = np.asarray(front.hypervolume)
        charts.append(chart("hypervolume of the front", [Line(volume[:, 0], volume[:, 1])]))
    told = f"{front.size} members that no other excels."
    if pages:
        told += f" A blue point opens its motion ({len(pages)} have one)."
    frame = '<p id="told"></p><iframe id="member" title="The motion of a point"></iframe>'
    inside = f"<p>{told}</p><div class='charts'>{''.join(charts)}</div>{frame if pages else ''}"
    return _card(f"Pareto front of {' and '.join(front.terms)}", inside)
