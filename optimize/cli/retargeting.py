"""What jaxsim mocap does with --character: a clip on a character, its report, page and files."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from optimize.cli.shared import say

if TYPE_CHECKING:
    from jaxsim.io.motion import Motion
    from jaxsim.mocap.clip import Clip
    from jaxsim.mocap.retarget import Retargeted
    from jaxsim.mocap.stance import Stance
    from jaxsim.model import Model

REFERENCE, PLOTS = "reference.npz", "quality.png"


def add_options(parser: argparse.ArgumentParser) -> None:
    """The character, and how the clip is put on it."""
    add = parser.add_argument_group("retargeting").add_argument
    add("--character", metavar="NAME", help="put the clip on a character, or an .xml or .urdf file")
    add("--joints", metavar="FILE", help='a joint map in a TOML file, or "guess"')
    add("--alignment", choices=("rest", "geometry"), help="by the zero pose, or by the motion")
    add("--pin", action="store_true", help="keep standing feet in one place")


def check_options(args: argparse.Namespace) -> None:
    """Raise ValueError for options of retargeting without a character."""
    given = {"--joints": args.joints, "--alignment": args.alignment, "--pin": args.pin}
    if args.character is None and (alone := [name for name, value in given.items() if value]):
        raise ValueError(f"{', '.join(alone)}: give --character too, which the clip is put on")


def on_character(args: argparse.Namespace, clip: Clip, stance: Stance | None) -> Retargeted:
    """The clip on the character that was asked for."""
    from jaxsim.mocap.retarget import retarget

    return retarget(
        clip,
        _model(args.character),
        joints=args.joints,
        alignment=args.alignment,
        stance=stance,
        pin=args.pin,
    )


def _model(name: str) -> Model:
    from jaxsim.characters.registry import CHARACTERS
    from jaxsim.io.model_file import load_model
    from jaxsim.io.world_character import built_in

    if built_in(name):
        return CHARACTERS[name].build()
    return load_model(Path(name), strict=False).model


def quality_facts(motion: Retargeted, clip: Clip) -> dict[str, str]:
    """The report in rows, without the problems that the clip has told already."""
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
    """The reference that controllers follow, and the plots where matplotlib is there."""
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
    """The character in a retargeted clip as a clip, its links as joints."""
    from jaxsim.mocap.from_motion import clip_of_motion

    return clip_of_motion(_drawn(motion), motion.model.topology.link_parent, motion.rate)


def _drawn(motion: Retargeted) -> Motion:
    from jaxsim.mocap.reference import character_motion
    from optimize.running.recording import shapes_of

    return character_motion(motion, shapes_of(motion.model))


def both(source: Motion, motion: Retargeted) -> Motion:
    """The source's skeleton and the character beside it."""
    from jaxsim.mocap.figure import beside

    return beside(source, _drawn(motion))
