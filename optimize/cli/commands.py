"""What the commands do. Imported when one runs, so that help texts need no JAX."""

import argparse
import json
import os
import sys
import webbrowser
from pathlib import Path
from typing import Any

from controllers.goals.holds import Hold
from controllers.scl.load import script_controller
from jaxsim.characters.planar_human import planar_human
from jaxsim.io.world import World
from jaxsim.io.world_character import begun, with_character
from jaxsim.viewer.values import plain_text
from optimize.interrupts import EXIT_CODE as INTERRUPTED
from optimize.results.folder import RunFolder, command_line
from optimize.running.gallery import find_world, gallery, write_index
from optimize.running.objectives import TERMS
from optimize.running.simulate import Simulation, simulate, write_simulation
from optimize.running.summary import table
from optimize.running.synthesis_run import synthesize_scene
from optimize.running.world_run import simulate_world
from optimize.scenarios.script_scene import read_script
from optimize.scenarios.synthesis_scenes import SCENES, Reach, changed, find_scene
from optimize.tuning.tune import TuneResult, tune


def say(*lines: str) -> None:
    """To the user, apart from what the command prints as its result."""
    for line in lines:
        print(line, file=sys.stderr)


def run_simulate(args: argparse.Namespace) -> int:
    """Simulate, write the folder, print the summary. 1: the motion means nothing."""
    if args.out is not None and (Path(args.out) / RunFolder.CONFIG).is_file():
        raise FileExistsError(
            f"{args.out} holds a tuning run, whose script would be overwritten;"
            " choose another --out"
        )
    simulation = _of_script(args) if args.script is not None else _of_world(args)
    say(*(note if "\n" in note else f"note: {note}" for note in simulation.notes))
    if args.out is not None:
        written = write_simulation(args.out, simulation)
        say(*(f"wrote {file}" for file in written.files), *written.missing)
    print(json.dumps(simulation.summary, indent=2) if args.json else table(simulation.summary))
    if args.out is None and not args.json:
        say("nothing was written; --out DIR keeps the motion as a page, plots and data")
    return _outcome(simulation)


def _of_script(args: argparse.Namespace) -> Simulation:
    if args.world is not None or args.character is not None:
        raise ValueError(
            "give either a SCRIPT, which drives the planar human, or --world and --character"
        )
    return simulate(
        args.script,
        start=args.start,
        seconds=5.0 if args.seconds is None else args.seconds,
        dt=0.00025 if args.dt is None else args.dt,
        chair_height=args.chair_height,
        friction=args.friction,
        fps=args.fps,
        objective=args.objective,
        progress=not args.quiet,
        backend=args.backend or "fused",
    )


def _of_world(args: argparse.Namespace) -> Simulation:
    if args.world is None and args.character is None:
        raise ValueError("give a SCRIPT, --world FILE or --character NAME; see jaxsim simulate -h")
    for option in ("chair_height", "friction", "objective"):
        if getattr(args, option) is not None:
            raise ValueError(
                f"--{option.replace('_', '-')} belongs to a SCRIPT; a world file says such things"
                " itself (docs/worlds.md)"
            )
    world = World() if args.world is None else find_world(args.world)
    if args.character is not None:
        world = with_character(world, args.character)
    if args.start is not None:
        world = begun(world, args.start)
    return simulate_world(
        world,
        seconds=args.seconds,
        dt=args.dt,
        fps=args.fps,
        progress=not args.quiet,
        backend=args.backend or "xla",
    )


def run_gallery(args: argparse.Namespace) -> int:
    """Simulate the shipped worlds, and write their pages and the one that shows them."""
    done = gallery(
        args.out, only=args.only, progress=not args.quiet, backend=args.backend or "xla", say=say
    )
    print(done.page.resolve().as_uri())
    return INTERRUPTED if done.interrupted else 0 if done.finite else 1


def run_synthesize(args: argparse.Namespace) -> int:
    """Synthesise a scene, or all of them. 1: the motion is not finite."""
    if args.backend == "fused":
        raise ValueError("scenes run with --backend xla; the fused back end is for batches")
    names = list(SCENES) if args.scene == "all" else [args.scene]
    if args.scene == "all" and args.out is None:
        raise ValueError("all scenes need a folder: give --out DIR")
    outcome, done = 0, {}
    for name in names:
        scene = changed(
            find_scene(name),
            push=args.push,
            direction_deg=args.direction,
            duration=args.duration,
            build=args.build,
            friction=args.friction,
            seconds=args.seconds,
            torque_limits=args.torque_limits,
            reaches=tuple(map(_reach, args.reach)),
            holds=tuple(map(_hold, args.hold)),
        )
        say(f"{name}: {scene.title}")
        simulation = synthesize_scene(scene, progress=not args.quiet)
        say(*(f"note: {note}" for note in simulation.notes))
        if args.out is not None:
            folder = Path(args.out) / name if args.scene == "all" else Path(args.out)
            written = write_simulation(folder, simulation)
            say(*(f"wrote {file}" for file in written.files), *written.missing)
        print(json.dumps(simulation.summary, indent=2) if args.json else table(simulation.summary))
        outcome, done[name] = max(outcome, _outcome(simulation)), scene.title
        if simulation.interrupted:
            break
    if args.scene == "all" and args.out is not None:
        print(write_index(Path(args.out), done).resolve().as_uri())
    return outcome


def _reach(words: list[str]) -> Reach:
    what = "five numbers, where it is to be (x, y, z) [m], from when, until when [s]"
    effector, x, y, z, start, end = _with_numbers("--reach", words, what)
    return Reach(effector, (x, y, z), start, end)


def _hold(words: list[str]) -> Hold:
    return Hold(*_with_numbers("--hold", words, "two numbers, from when, until when [s]"))


def _with_numbers(option: str, words: list[str], what: str) -> tuple:
    """An effector and what follows it as numbers."""
    effector, *numbers = words
    try:
        return effector, *map(float, numbers)
    except ValueError:
        given = " ".join(words)
        raise ValueError(f"{option} {given}: after the effector stand {what}") from None


def _outcome(simulation: Simulation) -> int:
    if simulation.interrupted:
        return INTERRUPTED
    summary = simulation.summary
    if summary["finite"] and summary.get("failed_at") is None:
        return 0
    if "verdict" in summary:
        at = summary["failed_at"]
        say(f"jaxsim: error: the motion means nothing from {at} s on: {summary['verdict']}")
    return 1


def run_tune(args: argparse.Namespace) -> int:
    """Tune a script in a folder, or go on with that."""
    names = ("start", "seconds", "generations", "population", "seed", "sigma", "dt", "judge_dt")
    options: Any = {name: getattr(args, name) for name in (*names, "chair_height", "friction")}
    options |= {"trials": args.trials, "noise": args.noise, "backend": args.backend}
    options |= {"free": args.free, "also": dict(args.tune) or None}
    result = tune(
        args.script,
        args.objective,
        out=args.out,
        resume=args.resume,
        accept_changes=args.accept_changes,
        progress=not args.quiet,
        command=command_line(["jaxsim", *args.argv]),
        **options,
    )
    code = report(result)
    if code == 0:
        print(f"best script: {result.folder / RunFolder.BEST_SCRIPT}")
        print(f"page:        {result.folder / RunFolder.MOTION}")
    return code


def report(result: TuneResult) -> int:
    """Print what a run gained, or how to go on with it; returns the exit code."""
    say(*result.notes)
    if result.evolution.interrupted:
        say(f"to go on: {_resume_command(result.folder)}")
        return INTERRUPTED
    if result.after is None:
        return 1
    print(judgement(result))
    return 0


def _resume_command(out: str | Path) -> str:
    return f"jaxsim tune --out {out} --resume"


def judgement(result: TuneResult) -> str:
    """A table of the objective before and after, raw terms with their weights and units."""
    assert result.before is not None and result.after is not None and result.motion is not None
    config = RunFolder.open(result.folder).read_config()
    rows = [(f"objective {config['objective']}", "", "", "before", "after")]
    for name, weight in config["weights"].items():
        before, after = result.before["parts"][name], result.after["parts"][name]
        figures = plain_text(before), plain_text(after)
        rows.append((f"  {name}", TERMS[name].unit, f"x {weight:.3g}", *figures))
    totals = plain_text(result.before["total"]), plain_text(result.after["total"])
    rows.append(("  total", "", "", *totals))
    widths = [max(len(row[k]) for row in rows) for k in range(5)]
    lines = []
    for row in rows:
        left = "  ".join(f"{cell:<{w}}" for cell, w in zip(row[:3], widths, strict=False))
        right = "  ".join(f"{cell:>{w}}" for cell, w in zip(row[3:], widths[3:], strict=True))
        lines.append(f"{left}  {right}")
    return "\n".join(lines)


def run_check(args: argparse.Namespace) -> int:
    """Read scripts, and compile them for the character."""
    model = planar_human()
    for name in args.script:
        script = read_script(name, model)
        script_controller(script, model)
        say(*map(str, script.warnings))
        count = [len(script.phases), len(script.numbers), len(script.free_indices())]
        print(f"{name}: {count[0]} phases, {count[1]} numbers, {count[2]} of them free")
    return 0


def run_view(args: argparse.Namespace) -> int:
    """Open the page of a result folder."""
    path = Path(args.folder)
    page = path / RunFolder.MOTION if path.is_dir() else path
    if page.suffix != ".html" or not page.is_file():
        held = ", ".join(sorted(p.name for p in path.iterdir())[:8]) if path.is_dir() else ""
        where = f"{path} holds no {RunFolder.MOTION}" if path.is_dir() else f"no folder {path}"
        raise FileNotFoundError(
            f"{where}{f' (it holds {held})' if held else ''}; jaxsim simulate and jaxsim tune"
            " write one to their --out"
        )
    show_page(page)
    return 0


def show_page(page: Path) -> None:
    """Print the page's address, and open it where there is a display."""
    address = page.resolve().as_uri()
    print(address)
    if not has_display():
        say("there is no display here; open the file with any browser")
    elif not _open(address):
        say("no browser could be started; open the file with any browser")


def has_display() -> bool:
    """Whether windows can be shown."""
    if sys.platform.startswith(("win", "darwin")):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _open(address: str) -> bool:
    try:
        return webbrowser.open(address)
    except webbrowser.Error:
        return False
