"""jaxsim mocap: contents of a motion-capture file, and retargeting to a character."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optimize.cli import many_clips, retargeting
from optimize.cli.command import Command
from optimize.cli.shared import say
from optimize.cli.values import positive
from optimize.cli.view import show_page
from optimize.interrupts import defer_interrupts

if TYPE_CHECKING:
    from jaxsim.io.motion import Motion
    from jaxsim.mocap.clip import Clip
    from jaxsim.mocap.schemes import NamingScheme
    from jaxsim.mocap.stance import Stance

DESCRIPTION = """\
Show a motion-capture file: names, frames, rate, height, naming scheme, which feet stand, problems.
Reads BVH, ASF/AMC, AMASS and C3D (markers), and trajectory.npz of a result folder, which it can
write as BVH or glTF for other programs. With --character it puts the clip on a character, tells how
well that goes, and writes a page with both side by side and a reference for controllers. Of several
files or a folder of them, each clip gives its reference in --out, and quality.csv tells how well;
one that fails is told by name. What --out has already is kept, so that an interrupted run goes on.
"""
EXAMPLES = """\
examples:
  jaxsim mocap walk.bvh                       what is in it
  jaxsim mocap 02_05.amc --rate 120           on the skeleton 02.asf beside it
  jaxsim mocap walk.bvh --out runs/clip       a page that plays it, and stance.toml to edit
  jaxsim mocap walk.bvh --stance runs/clip/stance.toml
  jaxsim mocap walk.bvh --character ball_joint_human --out runs/clip
  jaxsim mocap walk.bvh --character ball_joint_human --to human.bvh
  jaxsim mocap clips --character ball_joint_human --out runs/clips
  jaxsim mocap runs/walk/trajectory.npz --to walk.glb
"""
BAR = 64  # characters of a stance bar


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the file, what it does not define, and what is to be written."""
    add = parser.add_argument
    add("files", nargs="+", metavar="FILE", help="clip: a .bvh, .amc, .npz or .c3d file, or"
        " trajectory.npz; several, or a folder: each is retargeted to the character")  # fmt: skip
    add("--skeleton", metavar="FILE", help=".asf file of an .amc file")
    add(
        "--rate",
        type=positive,
        metavar="HZ",
        help="frames a second [1/s], where the file lacks them; of several files, for .amc",
    )
    add(
        "--unit",
        help="unit of lengths in the file: m, cm, mm, inch, foot, cmu, or metres (detected)",
    )
    add("--up", metavar="AXIS", help="vertical axis of the file: Y, Z, -X, ... (detected)")
    add("--all-rows", action="store_true", help="retain a calibration pose before the motion")
    add("--stance", metavar="FILE", help="file of stance labels, in place of detected ones")
    add("--out", metavar="DIR", help="folder for pages, plots and references")
    add(
        "--to",
        metavar="FILE",
        help="write the motion, with --character that of the character: .bvh, .glb or .gltf",
    )
    retargeting.add_options(parser)


def run(args: argparse.Namespace) -> int:
    """Read the file, print its contents, write what was requested."""
    with defer_interrupts():
        from jaxsim.mocap.amass import is_amass
        from jaxsim.mocap.schemes import detect_scheme

    retargeting.check_options(args)
    if len(args.files) > 1 or Path(args.files[0]).is_dir():
        return many_clips.run(args)
    args.file = args.files[0]
    kind = Path(args.file).suffix.lower()
    if kind == ".c3d":
        return _run_markers(args)
    simulated = kind == ".npz" and not is_amass(args.file)
    clip = _simulated(args) if simulated else retargeting.read(args, args.file)
    scheme = detect_scheme(clip.joint_names)
    stance = _stance(args, clip, scheme)
    print(report(clip, scheme, stance))
    if args.character is not None:
        return _retarget(args, clip, stance)
    if args.to is not None:
        _write_as(args.to, clip)
    if args.out is not None:
        from jaxsim.mocap.figure import clip_motion

        _write_stance(args.out, clip, stance)
        _write_page(args.out, clip_motion(clip, scheme, stance), _facts(clip, scheme, stance))
    return 0


def _retarget(args: argparse.Namespace, clip: Clip, stance: Stance | None) -> int:
    motion = retargeting.on_character(args, clip, stance, *retargeting.character_of(args.character))
    facts = retargeting.quality_facts(motion, clip)
    print("\n" + "\n".join(f"{name:>31}  {value}" for name, value in facts.items()))
    if args.to is not None:
        _write_as(args.to, retargeting.as_clip(motion))
    if args.out is not None:
        from jaxsim.mocap.figure import clip_motion
        from jaxsim.mocap.stance import Stance

        labels = Stance(motion.stance, motion.slides, motion.rate)
        _write_stance(args.out, clip, labels)
        retargeting.write_files(args.out, motion, args.file)
        source = clip_motion(clip, motion.joints, labels)
        _write_page(args.out, retargeting.both(source, motion), facts)
    return 0


def _write_stance(out: str, clip: Clip, stance: Stance | None) -> None:
    from jaxsim.mocap.stance_file import write_stance

    if stance is not None:
        _folder(out)
        write_stance(Path(out, "stance.toml"), clip, stance)
        say(f"wrote {Path(out, 'stance.toml')}")


def _simulated(args: argparse.Namespace) -> Clip:
    from jaxsim.io.motion_file import load_motion
    from jaxsim.mocap.from_motion import clip_of_motion

    return clip_of_motion(load_motion(args.file), rate=args.rate)


def _stance(args: argparse.Namespace, clip: Clip, scheme: NamingScheme | None) -> Stance | None:
    """Labels from the given file, else detected; none for a figure without two feet."""
    from jaxsim.mocap.measures import not_human
    from jaxsim.mocap.stance import label_stance
    from jaxsim.mocap.stance_file import read_stance

    if args.stance is not None:
        return read_stance(args.stance, clip)
    if scheme is None or not_human(clip, scheme):
        return None
    if not {"leftFoot", "rightFoot"} <= scheme.joints.keys():
        return None
    return label_stance(clip, scheme)


def _run_markers(args: argparse.Namespace) -> int:
    from jaxsim.mocap.c3d import markers_motion, read_markers

    markers = read_markers(args.file, rate=args.rate, unit=args.unit, up=args.up)
    frames = len(markers.pos)
    facts = {
        "clip": markers.name,
        "markers": f"{len(markers.marker_names)} points: {', '.join(markers.marker_names)}",
        "frames": f"{frames} at {markers.rate:.6g} Hz, {(frames - 1) / markers.rate:.2f} s",
        "file": f"a unit is {markers.unit:.6g} m, up is {markers.up}",
        **{f"note {k}": text for k, text in enumerate(markers.problems, 1)},
    }
    print(_table(facts))
    if args.to is not None:
        raise ValueError(f"--to {args.to}: markers are not joints, and cannot be written as such")
    if args.out is not None:
        _write_page(args.out, markers_motion(markers), facts)
    return 0


def report(clip: Clip, scheme: NamingScheme | None, stance: Stance | None) -> str:
    """Report on a clip, as the command prints it."""
    text = _table(_facts(clip, scheme, stance))
    if stance is None:
        return text
    bars = [f"{side:>12}  {_bar(stance, k)}" for k, side in enumerate(("left", "right"))]
    legend = f"{'':>12}  # stands, ~ slides, . neither; {clip.seconds:.2f} s from left to right"
    return "\n".join([text, *bars, legend])


def _facts(clip: Clip, scheme: NamingScheme | None, stance: Stance | None) -> dict[str, str]:
    from jaxsim.mocap.measures import height

    names = ", ".join(clip.joint_names)
    facts = {
        "clip": clip.name,
        "joints": f"{clip.n_joints}: {names}",
        "frames": f"{clip.n_frames} at {clip.rate:.6g} Hz, {clip.seconds:.2f} s",
        "height": f"{height(clip, scheme):.2f} m",
        "file": f"a unit is {clip.unit:.6g} m; x, y, z are its {', '.join(clip.axes)}",
        "scheme": "none" if scheme is None else scheme.name,
    }
    if stance is not None:
        shares = ", ".join(f"{name} {100 * part:.0f}%" for name, part in stance.shares().items())
        facts["stance"] = f"{shares}; {stance.switches()} changes"
    return facts | {f"note {k}": text for k, text in enumerate(clip.problems, 1)}


def _bar(stance: Stance, side: int) -> str:
    """Bar with a character for each part of the clip, by the majority of its frames."""
    import numpy as np

    stands, slides = stance.stands[:, side], stance.slides[:, side]
    parts = np.array_split(np.arange(len(stands)), min(BAR, len(stands)))
    kinds = [(slides[part].mean() > 0.5, stands[part].mean() >= 0.5) for part in parts]
    return "".join("~" if slid else "#" if stood else "." for slid, stood in kinds)


def _table(facts: dict[str, str]) -> str:
    return "\n".join(f"{name:>12}  {value}" for name, value in facts.items())


def _folder(out: str) -> None:
    Path(out).mkdir(parents=True, exist_ok=True)


def _write_page(out: str, motion: Motion, facts: dict[str, Any]) -> None:
    from jaxsim.viewer.page import write_page
    from optimize.results.folder import RunFolder

    _folder(out)
    page = Path(out, RunFolder.MOTION)
    write_page(page, motion, facts)
    say(f"wrote {page}")
    show_page(page)


def _write_as(path: str, clip: Clip) -> None:
    from jaxsim.mocap.write_bvh import write_bvh
    from jaxsim.mocap.write_gltf import write_gltf

    kind = Path(path).suffix.lower()
    if kind not in (".bvh", ".glb", ".gltf"):
        raise ValueError(f"--to {path}: give a file that ends in .bvh, .glb or .gltf")
    (write_bvh if kind == ".bvh" else write_gltf)(path, clip)
    say(f"wrote {path}")


COMMAND = Command(
    name="mocap",
    about="what is in a motion-capture file?",
    description=DESCRIPTION,
    examples=EXAMPLES,
    add_options=add_options,
    run=run,
    setting=None,
    overview=("jaxsim mocap walk.bvh --out runs/clip", ""),
)
