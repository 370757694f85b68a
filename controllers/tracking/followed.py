"""Motion-capture file as the reference of a scenario's character."""

from dataclasses import replace

import numpy as np

from controllers.registry import Setup
from controllers.tracking.parts import parts
from controllers.tracking.reference import Reference, loop_reference, reference
from jaxsim.io.toml_table import Table
from jaxsim.io.world_model import build_world
from jaxsim.mocap.joint_map import GUESS
from jaxsim.mocap.read import read_clip
from jaxsim.mocap.retarget import retarget
from jaxsim.mocap.stance_file import read_stance


def followed_clip(table: Table, setup: Setup, key: str = "clip") -> Reference:
    """Reference from the clip that ``key`` names, for the character alone.

    All else stays where the scenario has it. ``rate``, ``skeleton``, ``joints`` (a file, or
    "guess"): if the file does not state them; ``stance``: a file of labels; ``loop``: repeat for
    ever. Raises ClipError, ModelError for a clip that cannot be followed.
    """
    path = setup.world.folder / table.text(key)
    skeleton = table.text("skeleton", None)
    clip = read_clip(
        path,
        skeleton=None if skeleton is None else setup.world.folder / skeleton,
        rate=table.number("rate", None, above=0.0),
    )
    stance = table.text("stance", None)
    labels = None if stance is None else read_stance(setup.world.folder / stance, clip)
    loop = table.flag("loop", False)
    if loop:
        clip, labels = clip.repeated(3), None if labels is None else labels.repeated(3)
    alone = build_world(replace(setup.world, fixed=(), bodies=(), driven=(), grips=(), pushes=()))
    joints = table.text("joints", None)
    if joints not in (None, GUESS):
        joints = setup.world.folder / joints
    motion = retarget(clip, alone.model, joints=joints, stance=labels)
    rest = np.broadcast_to(np.asarray(setup.state.q, float), (len(motion.q), len(setup.state.q)))
    q = np.concatenate([motion.q, rest[:, motion.q.shape[1] :]], axis=1)
    result = reference(setup.model, q, motion.rate, motion.stance, parts(setup.model))
    return loop_reference(setup.model, result) if loop else result
