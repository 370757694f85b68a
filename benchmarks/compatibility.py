"""What a compatibility model costs and how often it is right, beside the thesis (Shen, chapter 6).

    python benchmarks/compatibility.py --out runs/compatibility      all; goes on where it stopped
    python benchmarks/compatibility.py --out runs/compatibility --report    tables of what is there
    python benchmarks/compatibility.py --out runs/some --samples 1024       at most so many of each
    python benchmarks/compatibility.py --quick                       a minute, to see that it runs

Accuracy is that on points drawn evenly over the space, which no sampler saw.
docs/results/compatibility.md has the tables.
"""

import argparse
import itertools
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import sklearn

from benchmarks._hands import with_hands
from benchmarks._machine import commit, machine, table, today, versions
from benchmarks.experiments import wilson
from jaxsim.io.archive import read_arrays
from jaxsim.io.files import write_arrays
from optimize.compatibility.ask import QueryResult, answer_queries
from optimize.compatibility.query import Diverse
from optimize.compatibility.question import Question
from optimize.compatibility.run import (
    METHODS,
    MODEL,
    SAMPLES,
    FitOptions,
    SavedModel,
    fit,
    sampler,
)
from optimize.compatibility.volume import fit as fit_volume
from optimize.compatibility.volume import learn
from optimize.results.folder import RunFolder
from optimize.scenarios.seated import CHAIR as CHAIR_PATH
from optimize.scenarios.seated import TILT
from optimize.session import session

CHAIR = FitOptions(
    "sit_to_stand_arms",
    {"character.chair_height": (0.15, 0.75, 10.0)},
    {"lean: waist angle": (0.0, 90.0, 1 / 40), "lean: shoulders angle": (0.0, 180.0, 1 / 40)},
    method="paths",
    samples=10052,
)
KIP_UP = FitOptions(
    "kip_up_athletic",
    {"model.friction[16]": (0.2, 1.2), "model.mass[2]": (20.0, 40.0)},
    {
        "roll_back: hips angle": (96.0, 176.0),
        "straighten: after time": (0.1, 0.3),
        "propel: waist angle": (-78.0, 2.0),
    },
    samples=4096,
    seconds=5.0,
    set={"scheme.dt": 0.001},
)
# the posture is of the situation too: how far the feet stand behind the knees [deg]; of 52 places
# for a contact no more than 13 are near at once (2048 points), so that the nearest 16 are all
POSTURE = replace(
    CHAIR,
    state={**CHAIR.state, "shank_tilt": (5.0, 45.0, 1 / 20)},
    set={"world.contacts": 16},
)
RUNS = {
    "chair_paths": CHAIR,
    "chair_refinement": replace(CHAIR, method="refinement"),
    "posture_paths": POSTURE,
    "posture_refinement": replace(POSTURE, method="refinement"),
    "kip_up_refinement": KIP_UP,
    "kip_up_paths": replace(KIP_UP, method="paths"),
}
SIZES = (256, 512, 1024, 2048, 4096, 10052)
HEIGHTS = (0.45, 0.16, 0.65)  # of the thesis' queries [m]
TILTS = (15.0, 40.0, 15.0)  # with a posture: the default, and feet drawn in on the low chair [deg]
BATCH = 128  # of what is held out
MARGINS, SEEDS, SHOWN = (0.0, 1.0), range(20), range(3)  # of queries; SHOWN one by one
HELD_OUT = 1024
ACCURACY = [
    "sampled by",
    "samples",
    "held out right [%]",
    "compatible ones found [%]",
    "5-fold [%]",
    "support vectors",
]
QUERIES = [
    "sampled by", "asked", "margin", "seed", "of nine succeed", "by height", "known",
    "hands push", "queries [ms]",
]  # fmt: skip
TOTALS = [
    "sampled by", "asked", "margin", "seeds", "nine of nine", "succeed", "by height", "hands push",
]  # fmt: skip
SHAPES, PUSH = ("chair", "ground"), 5.0  # what hands push, and by how much at least [N s]
SEED = 2027  # of what is held out
THESIS = ["thesis", "10052", "", "", "96.58", "176"]
THESIS_QUERIES = ["thesis", "height", "0", "", "8", "3/3/2", "", "2/1", "831"]


def held_out(path: Path, options: FitOptions, count: int) -> dict[str, np.ndarray]:
    """Points even over the space and their answers; kept in a file."""
    if path.is_file():
        return read_arrays(path)
    question = options.question()
    space, rng = question.space, np.random.default_rng(SEED)
    points = rng.uniform(space.lower, space.upper, (count, space.size))
    yes = [question.answers(points[k : k + BATCH]) for k in range(0, count, BATCH)]
    kept = {"points": points, "yes": np.concatenate(yes)}
    write_arrays(path, kept)
    return kept


def kept_run(folder: Path, options: FitOptions) -> None:
    """Begin a model, or go on with it."""
    if (folder / MODEL).is_file():
        return
    if (folder / RunFolder.CONFIG).is_file():
        fit(out=folder, resume=True, accept_changes=True, progress=True)
    else:
        fit(options, folder, progress=True)


def accuracy_rows(name: str, folder: Path, held: dict[str, np.ndarray]) -> list[list[str]]:
    """Of the first samples of a run: right on what was held out, with its interval."""
    options = RUNS[name]
    arrays = read_arrays(folder / SAMPLES)
    space, rows = options.question().space, []
    total = len(arrays["yes"])
    for size in sorted({min(size, total) for size in SIZES}):
        points, yes = arrays["points"][:size], arrays["yes"][:size]
        try:
            learned = learn(space, points, yes)
        except ValueError as error:
            rows.append([options.method, str(size), str(error), "", "", ""])
            continue
        decision = np.asarray(learned.volume.decision(space.scaled(held["points"])))
        right = (decision > 0) == held["yes"]
        shares = [per_cent(right), per_cent(right[held["yes"]])]
        crossed = f"{100 * learned.accuracy:.2f}"
        rows.append([options.method, str(size), *shares, crossed, str(learned.vectors)])
    return rows


def per_cent(right: np.ndarray) -> str:
    """Per cent of (n,) bool, with its interval of 95%."""
    low, high = wilson(int(right.sum()), len(right))
    return f"{100 * right.mean():.1f} ({100 * low:.1f} to {100 * high:.1f})"


def pushing(question: Question, found: QueryResult) -> np.ndarray:
    """(2,) numbers of the answers that succeed whose hands push the chair, and the ground."""
    parts, _ = question.problem.outcomes(found.points.reshape(-1, question.space.size))
    yes = found.succeeded.reshape(-1, 1)
    return np.array([np.sum(yes & (parts[f"hands on {shape}"] > PUSH)) for shape in SHAPES])


def slashes(numbers: np.ndarray) -> str:
    """Whole numbers as 3/2/1."""
    return "/".join(map(str, numbers))


def query_rows(folder: Path, options: FitOptions) -> tuple[list[list[str]], list[list[str]]]:
    """The thesis' queries, to the boundary and with the margin, of the samples that are there: the
    first seeds one by one, and what all come to."""
    arrays, question = read_arrays(folder / SAMPLES), with_hands(options.question(), *SHAPES)
    points, yes = arrays["points"], arrays["yes"]
    volume = fit_volume(question.space, points, yes)
    kept = SavedModel(RunFolder(folder), options, question, points, yes, volume, {})
    asks: dict[str, dict] = {"height": {CHAIR_PATH: HEIGHTS}}
    if TILT in question.space.names:
        asks["height and posture"] = {CHAIR_PATH: HEIGHTS, TILT: TILTS}
    rows, totals = [], []
    for (asked, given), margin in itertools.product(asks.items(), MARGINS):
        named = [options.method, asked, f"{margin:g}"]
        succeeded, pushed = [], []
        for seed in SEEDS:
            found = answer_queries(kept, given, Diverse(margin=margin, seed=seed))
            succeeded.append(found.succeeded)
            pushed.append(pushing(question, found))
            if seed in SHOWN:
                each = [slashes(part.sum(axis=1)) for part in (found.succeeded, found.known)]
                took = f"{1e3 * found.seconds:.0f}"
                total = str(found.succeeded.sum())
                rows.append([*named, str(seed), total, *each, slashes(pushed[-1]), took])
        good = np.array(succeeded)  # (seeds, heights, answers)
        nine = f"{good.all(axis=(1, 2)).sum()} of {len(good)}"
        shares = f"{good.sum()} of {good.size}", slashes(good.sum(axis=(0, 2)))
        totals.append([*named, str(len(good)), nine, *shares, slashes(np.sum(pushed, axis=0))])
    return rows, totals


def report(folder: Path, count: int = HELD_OUT) -> Iterator[str]:
    """All tables of what is there, each when it is known; count: points held out of each task."""
    for task in ("chair", "posture", "kip_up"):
        names = [n for n in RUNS if n.startswith(task) and (folder / n / SAMPLES).is_file()]
        if not names:
            continue
        held = held_out(folder / f"{task}_held_out.npz", RUNS[names[0]], count)
        known = f"{100 * held['yes'].mean():.1f}% of {len(held['yes'])} held-out points compatible"
        rows = [row for name in names for row in accuracy_rows(name, folder / name, held)]
        rows += [THESIS] if task != "kip_up" else []
        yield f"{task}: {known}\n\n" + table(ACCURACY, rows)
        for name in names:
            if (folder / name / MODEL).is_file():
                yield f"{name}: {RunFolder(folder / name).read_text(MODEL)}"
        if task != "kip_up":
            found = [query_rows(folder / name, RUNS[name]) for name in names]
            rows, totals = ([row for each in part for row in each] for part in zip(*found))
            yield table(QUERIES, [*rows, THESIS_QUERIES])
            yield table(TOTALS, totals)


def quick() -> None:
    """Some samples of each sampler, at a large step."""
    small = replace(CHAIR, set={"scheme.dt": 0.002}, seconds=0.2)
    for method in METHODS:
        question = small.question()
        began = time.perf_counter()
        points = sampler(question, method, 0).ask()[:28]
        yes = question.answers(points)
        took = time.perf_counter() - began
        print(f"{method}: {yes.sum()} of {len(yes)} stand after 0.2 s; {took:.1f} s")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--out", metavar="DIR")
    parser.add_argument("--only", choices=tuple(RUNS), help="this run alone")
    parser.add_argument("--samples", type=int, metavar="N", help="of each run, held out: at most")
    parser.add_argument("--report", action="store_true", help="the tables of what is there")
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    with session(None, "float32"):
        if args.quick:
            return quick()
        if args.out is None:
            parser.error("give --out DIR, or --quick")
        folder = Path(args.out)
        folder.mkdir(parents=True, exist_ok=True)
        if not args.report:
            for name in [args.only] if args.only else RUNS:
                options = RUNS[name]
                most = min(options.samples, args.samples or options.samples)
                kept_run(folder / name, replace(options, samples=most))
        print(
            f"{today()}, commit {commit()}, {machine()}, {versions(jax, np, sklearn)}\n", flush=True
        )
        for part in report(folder, min(HELD_OUT, args.samples or HELD_OUT)):
            print(part + "\n", flush=True)


if __name__ == "__main__":
    main()
