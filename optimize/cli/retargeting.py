"""jaxsim mocap with --character: a clip on a character, its report, page and files."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from optimize.cli.shared import say

if TYPE_CHECKING:
    from jaxsim.io.motion import Motion
    from jaxsim.mocap.body import RoleLinks
    from jaxsim.mocap.clip import Clip
    from jaxsim.mocap.retarget import Retargeted
    from jaxsim.mocap.stance import Stance
    from jaxsim.model import Model

REFERENCE, PLOTS = "reference.npz", "quality.png"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the character, and the options of its retargeting."""
    add = parser.add_argument_group("retargeting").add_argument
    add(
        "--character",
        metavar="NAME",
        help="character to retarget to: a name, or an .xml or .urdf file",
    )
    add(
        "--joints",
        metavar="FILE",
        help='TOML file that maps joints to roles, or "guess" (by names)',
    )
    add(
        "--alignment",
        choices=("rest", "geometry"),
        help="alignment of skeleton and character: by the zero pose, or by the motion",
    )
    add("--pin", action="store_true", help="pin standing feet in one place")


def check_options(args: argparse.Namespace) -> None:
    """Raise ValueError for options of retargeting without a character."""
    given = {"--joints": args.joints, "--alignment": args.alignment, "--pin": args.pin}
    if args.character is None and (alone := [name for name, value in given.items() if value]):
        raise ValueError(f"{', '.join(alone)}: give --character too, which the clip is put on")


def read(args: argparse.Namespace, file: str | Path) -> Clip:
    """Read the clip in a .bvh or .amc file with the options that apply to it.

    A rate is of one file, or of .amc files among many, as the others contain theirs.
    """
    from jaxsim.mocap.read import read_clip

    many = len(args.files) > 1 or Path(args.files[0]).is_dir()
    return read_clip(
        file,
        skeleton=args.skeleton,
        rate=None if many and Path(file).suffix.lower() == ".bvh" else args.rate,
        unit=args.unit,
        up=args.up,
        all_rows=args.all_rows,
    )


def on_character(
    args: argparse.Namespace, clip: Clip, stance: Stance | None, model: Model, body: RoleLinks
) -> Retargeted:
    """Retarget the clip to the requested character."""
    from jaxsim.mocap.retarget import retarget

    return retarget(
        clip,
        model,
        joints=args.joints,
        alignment=args.alignment,
        stance=stance,
        pin=args.pin,
        body=body,
    )


def character_of(name: str) -> tuple[Model, RoleLinks]:
    """A character by its name, or of a file, and what of it a clip drives."""
    from jaxsim.characters.registry import CHARACTERS
    from jaxsim.io.model_file import load_model
    from jaxsim.io.world_character import built_in
    from jaxsim.mocap.body import body_of

    if built_in(name):
        model = CHARACTERS[name].build()
    else:
        model = load_model(Path(name), strict=False).model
    return model, body_of(model)


def quality_facts(motion: Retargeted, clip: Clip) -> dict[str, str]:
    """Rows of the quality report, without the problems of the clip that were reported already."""
    from jaxsim.mocap.quality import at_limits, failures, quality

    report = quality(motion)
    facts = {
        "character": motion.model.topology.roles.character or "a model file",
        "joint map": f"{motion.joints.name}; aligned by {motion.aligned_by}",
        "scale": f"{motion.scale:.3f}, by the legs; floor {1e3 * motion.floor:.0f} mm taken off",
        **{name: f"{value:.2f}" for name, value in report.items() if name != "floor m"},
    }
    limits = {name: at.mean() for name, at in at_limits(motion).items()}
    if limits:
        worst = sorted(limits, key=lambda name: -limits[name])[:6]
        facts["at their limits"] = ", ".join(f"{name} {100 * limits[name]:.0f}%" for name in worst)
    bad = failures(report)
    facts["bounds"] = "; ".join(bad) if bad else "all hold"
    told = [text for text in motion.problems if text not in clip.problems]
    return facts | {f"note {k}": text for k, text in enumerate(told, 1)}


def write_files(out: str, motion: Retargeted, file: str) -> None:
    """Write the reference that controllers follow, and the plots where matplotlib is there."""
    from jaxsim.mocap.joint_map import write_map
    from jaxsim.mocap.reference import save_reference
    from jaxsim.viewer.retarget_plots import write_retarget_plots

    save_reference(Path(out, REFERENCE), motion, file)
    say(f"wrote {Path(out, REFERENCE)}")
    write_map(Path(out, "joints.toml"), motion.joints)
    try:
        write_retarget_plots(Path(out, PLOTS), motion)
        say(f"wrote {Path(out, PLOTS)}")
    except ImportError as error:
        say(str(error))


def as_clip(motion: Retargeted) -> Clip:
    """Convert the character in a retargeted clip to a clip, its links as joints."""
    from jaxsim.mocap.from_motion import clip_of_motion

    return clip_of_motion(_drawn(motion), motion.model.topology.link_parent, motion.rate)


def _drawn(motion: Retargeted) -> Motion:
    from jaxsim.mocap.reference import character_motion
    from optimize.running.recording import shapes_of

    return character_motion(motion, shapes_of(motion.model))


def both(source: Motion, motion: Retargeted) -> Motion:
    """Motion with the source's skeleton and the character beside it."""
    from jaxsim.mocap.figure import beside

    return beside(source, _drawn(motion))
