"""Balance on feet that are kept from toppling, from its table."""

from dataclasses import replace

import numpy as np

from controllers.registry import Registered, Setup
from controllers.tracking.outside import Pulls, pull, pulls_together
from controllers.tracking.parts import parts
from controllers.tracking.reference import Reference, reference
from controllers.tracking.topple_free import HELP, ToppleFree
from jaxsim.io.toml_table import Table
from jaxsim.io.world_model import build_world
from jaxsim.mocap.errors import ClipError
from jaxsim.mocap.joint_map import GUESS
from jaxsim.mocap.read import read_clip
from jaxsim.mocap.retarget import retarget
from jaxsim.model import Model, ModelError


def topple_free(table: Table, setup: Setup) -> Registered:
    """``clip``: a file of motion capture that is followed (without one the start pose is kept);
    ``rate``, ``skeleton``, ``joints`` (a file, or "guess"): where the file does not say;
    ``help``, ``begin`` [s], ``heading_deg``,
    ``steps``, ``[[controller.pull]]``: as of ``ToppleFree``."""
    help = table.choice("help", HELP, HELP[0])
    begin = table.number("begin", 0.0, least=0.0)
    heading = float(np.deg2rad(table.number("heading_deg", 0.0)))
    steps = table.flag("steps", False)
    pulls = _pulls(table, setup.model)
    try:
        followed = _followed(table, setup) if table.has("clip") else None
        pose = setup.state.q if followed is None else None
        made = ToppleFree.of(
            setup.model, followed, pose, help=help, begin=begin, pulls=pulls, steps=steps
        )
    except ClipError as error:
        raise table.error(str(error), "clip") from error
    except ModelError as error:
        raise table.error(str(error)) from error
    made = made.set("heading", heading)
    if followed is None:
        return Registered(made)
    return Registered(made, state=followed.state(setup.model, begin, heading))


def _followed(table: Table, setup: Setup) -> Reference:
    """The clip on the character alone; all else stays where the scenario has it."""
    path = setup.world.folder / table.text("clip")
    skeleton = table.text("skeleton", None)
    clip = read_clip(
        path,
        skeleton=None if skeleton is None else setup.world.folder / skeleton,
        rate=table.number("rate", None, above=0.0),
    )
    alone = build_world(replace(setup.world, fixed=(), bodies=(), driven=(), grips=(), pushes=()))
    joints = table.text("joints", None)
    if joints not in (None, GUESS):
        joints = setup.world.folder / joints
    motion = retarget(clip, alone.model, joints=joints)
    rest = np.broadcast_to(np.asarray(setup.state.q, float), (len(motion.q), len(setup.state.q)))
    q = np.concatenate([motion.q, rest[:, motion.q.shape[1] :]], axis=1)
    return reference(setup.model, q, motion.rate, motion.stance, parts(setup.model))


def _pulls(table: Table, model: Model) -> Pulls | None:
    """``[[controller.pull]]``: link, place, velocity, start, end."""
    found = []
    for each in table.tables("pull"):
        link = each.text("link")
        place, velocity = each.vector("place"), each.vector("velocity", (0.0, 0.0, 0.0))
        times = each.number("start", 0.0), each.number("end", np.inf)
        try:
            found.append(pull(model, link, place, velocity, *times))
        except KeyError as error:
            raise each.error(str(error.args[0]), "link") from error
        each.done()
    return pulls_together(*found) if found else None
