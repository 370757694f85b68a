"""jaxsim mocap with many files: each clip on a character, and a table of its quality."""

from __future__ import annotations

import argparse
import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optimize.cli import retargeting
from optimize.cli.shared import say
from optimize.interrupts import defer_interrupts

if TYPE_CHECKING:
    from jaxsim.mocap.body import RoleLinks
    from jaxsim.model import Model

TABLE = "quality.csv"
KINDS = (".bvh", ".amc")
ASKED = ("character", "joints", "alignment", "pin", "skeleton", "rate", "unit", "up", "all_rows")


def run(args: argparse.Namespace) -> int:
    """Retarget all clips, and write the table.

    Returns 1 where some could not be retargeted; they are named at the end.
    """
    from jaxsim.io.files import write_bytes

    files = _files(args)
    rows: list[dict[str, Any]] = []
    with defer_interrupts() as check:
        character = retargeting.character_of(args.character)
        Path(args.out).mkdir(parents=True, exist_ok=True)
        try:
            for k, file in enumerate(files, 1):
                rows.append(_row(args, file, character))
                say(f"{k}/{len(files)} {file.name}: {_told(rows[-1])}")
                check()
        finally:
            write_bytes(Path(args.out, TABLE), _as_csv(rows).encode("utf-8"))
    failed = [row["file"] for row in rows if row["failed"]]
    print(
        f"{len(rows) - len(failed)} of {len(rows)} clips are on {args.character}, of which"
        f" {sum(not (row['failed'] or row['beyond']) for row in rows)} keep to all bounds;"
        f" see {Path(args.out, TABLE)}"
    )
    if failed:
        print("not retargeted:", *failed, sep="\n  ")
    return 1 if failed else 0


def _files(args: argparse.Namespace) -> list[Path]:
    """Files of the clips, folders searched.

    Raises ValueError for options of one clip and names that would give the same result.
    """
    alone = {"--stance": args.stance, "--to": args.to}
    if given := [name for name, value in alone.items() if value]:
        raise ValueError(f"{', '.join(given)}: this is of one file, {len(args.files)} were given")
    if args.character is None or args.out is None:
        raise ValueError("several files or a folder: give --character and --out, where they go")
    files: list[Path] = []
    for path in map(Path, args.files):
        inside = sorted(p for p in path.iterdir()) if path.is_dir() else [path]
        files += [p for p in inside if p == path or p.suffix.lower() in KINDS]
    lacking = [str(path) for path in files if not path.is_file()]
    if lacking:
        raise FileNotFoundError(f"{', '.join(lacking)}: there is no such file; check its name")
    if not files:
        raise ValueError(f"{', '.join(args.files)}: no file in it ends in {' or '.join(KINDS)}")
    first: dict[str, Path] = {}
    for path in files:
        if first.setdefault(path.stem, path) != path:
            raise ValueError(
                f"{first[path.stem]} and {path} would both be written as {path.stem}.npz; rename"
                " one, or run them with two folders --out"
            )
    return files


def _row(
    args: argparse.Namespace, file: Path, character: tuple[Model, RoleLinks]
) -> dict[str, Any]:
    """Row of a clip in the table; its reference is written unless it exists."""
    from jaxsim.mocap.quality import failures, quality
    from jaxsim.mocap.reference import save_reference

    row: dict[str, Any] = {"file": str(file), "failed": "", "beyond": "", "kept": False}
    try:
        out, inputs = Path(args.out, f"{file.stem}.npz"), _asked(args, file)
        before = _before(out, inputs)
        if before is not None:
            return {**row, **before, "kept": True}
        clip = retargeting.read(args, file)
        motion = retargeting.on_character(args, clip, None, *character)
    except (ValueError, OSError) as error:  # of this clip; the others go on
        return {**row, "failed": str(error).partition("\n")[0]}
    found = quality(motion)
    report: dict[str, Any] = {
        "beyond": "; ".join(failures(found)),
        "frames": clip.n_frames,
        "rate Hz": round(clip.rate, 6),
        "scheme": motion.joints.name,
        **{name: None if value != value else round(value, 4) for name, value in found.items()},
    }
    save_reference(out, motion, file, more={"asked": inputs, "report": report})
    return {**row, **report}


def _before(out: Path, inputs: dict[str, Any]) -> dict[str, Any] | None:
    """Report of an earlier result, if it was made of the same inputs; None otherwise."""
    from jaxsim.mocap.errors import ClipError
    from jaxsim.mocap.reference import about

    try:
        info = about(out)
    except ClipError:
        return None
    return info["report"] if info.get("asked") == inputs else None


def _asked(args: argparse.Namespace, file: Path) -> dict[str, Any]:
    """Inputs that a result depends on; of files their digests."""
    from jaxsim.mocap.reference import sha256

    inputs = {name: getattr(args, name) for name in ASKED}
    for name in ("character", "joints", "skeleton"):
        if inputs[name] is not None and Path(inputs[name]).is_file():
            inputs[name] = sha256(inputs[name])
    return {**inputs, "clip": sha256(file)}


def _told(row: dict[str, Any]) -> str:
    if row["failed"]:
        return f"failed: {row['failed']}"
    kept = ", kept from before" if row["kept"] else ""
    return (row["beyond"] or "within all bounds") + kept


def _as_csv(rows: list[dict[str, Any]]) -> str:
    columns = [name for name in dict.fromkeys(key for row in rows for key in row) if name != "kept"]
    text = io.StringIO()
    out = csv.DictWriter(text, columns, extrasaction="ignore", lineterminator="\n")
    out.writeheader()
    out.writerows(rows)
    return text.getvalue()
