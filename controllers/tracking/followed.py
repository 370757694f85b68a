"""A file of motion capture as the reference that the character of a scenario follows."""

from dataclasses import dataclass, replace

import numpy as np

from controllers.registry import Setup
from controllers.tracking.parts import parts
from controllers.tracking.reference import Reference, loop_reference, reference
from jaxsim.io.keys import Keys
from jaxsim.io.world_model import build_world
from jaxsim.mocap.joint_map import GUESS
from jaxsim.mocap.read import read_clip
from jaxsim.mocap.retarget import retarget
from jaxsim.mocap.stance_file import read_stance
from jaxsim.options import REQUIRED, option


@dataclass(frozen=True, kw_only=True)
class ClipKeys(Keys):
    """Keys of a file of motion capture."""

    rate: float | None = option(
        None, "frames a second, where the file lacks it", unit="1/s", kind=float, above=0.0
    )
    skeleton: str | None = option(None, "ASF file of an AMC", kind=str)
    joints: str | None = option(
        None, 'file that maps joints to roles, or "guess"', shown="by the names of joints", kind=str
    )
    stance: str | None = option(
        None, "file of stance labels", shown="labelled from the clip", kind=str
    )
    loop: bool = option(False, "repeat the clip for ever")


@dataclass(frozen=True, kw_only=True)
class EnvironmentClipKeys(ClipKeys):
    """Keys of ``[environment.clip]``."""

    file: str = option(REQUIRED, "motion capture to follow, beside the scenario", kind=str)


def followed_clip(file: str, keys: ClipKeys, setup: Setup) -> Reference:
    """Clip of a file beside the scenario as a reference of the character; all else stays where the
    scenario has it. Raises ClipError, ModelError for a clip that cannot be followed."""
    path = setup.world.folder / file
    skeleton, stance = keys.skeleton, keys.stance
    clip = read_clip(
        path,
        skeleton=None if skeleton is None else setup.world.folder / skeleton,
        rate=keys.rate,
    )
    labels = None if stance is None else read_stance(setup.world.folder / stance, clip)
    if keys.loop:
        clip, labels = clip.repeated(3), None if labels is None else labels.repeated(3)
    alone = build_world(replace(setup.world, fixed=(), bodies=(), driven=(), grips=(), pushes=()))
    joints = keys.joints
    if joints not in (None, GUESS):
        joints = setup.world.folder / joints
    motion = retarget(clip, alone.model, joints=joints, stance=labels)
    rest = np.broadcast_to(np.asarray(setup.state.q, float), (len(motion.q), len(setup.state.q)))
    q = np.concatenate([motion.q, rest[:, motion.q.shape[1] :]], axis=1)
    made = reference(setup.model, q, motion.rate, motion.stance, parts(setup.model))
    return loop_reference(setup.model, made) if keys.loop else made
