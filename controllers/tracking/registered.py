"""Builder of the controller ``topple_free`` from its scenario table."""

from dataclasses import replace

import jax
import numpy as np

from controllers.registry import Registered, Setup
from controllers.tracking.followed import followed_clip
from controllers.tracking.level import Levels, level, levels_together
from controllers.tracking.outside import Pulls, Turns, pull, pulls_together, turns
from controllers.tracking.support import HELP
from controllers.tracking.topple_free import ToppleFree
from jaxsim.dynamics.kinematics import Kinematics, forward_kinematics
from jaxsim.io.toml_table import Table
from jaxsim.mocap.errors import ClipError
from jaxsim.model import Model, ModelError

_kinematics = jax.jit(forward_kinematics)


def topple_free(table: Table, setup: Setup) -> Registered:
    """Controller that balances on topple-free feet, along a clip or in the start pose.

    ``clip``: a motion-capture file to follow (without one the start pose is the target); ``rate``,
    ``skeleton``, ``joints`` (a file, or "guess"): if the file does not state them; ``stance``: a
    file of labels; ``loop``: repeat for ever; ``help``, ``begin`` [s], ``heading_deg``, ``steps``,
    ``drift`` [m/s], ``[[controller.turn]]``, ``[[controller.pull]]``, ``[[controller.level]]``: as
    of ``ToppleFree``.
    """
    help = table.choice("help", HELP, HELP[0])
    begin = table.number("begin", 0.0, least=0.0)
    heading = float(np.deg2rad(table.number("heading_deg", 0.0)))
    steps = table.flag("steps", False)
    try:
        followed = followed_clip(table, setup) if table.has("clip") else None
        pose = setup.state.q if followed is None else None
        controller = ToppleFree.of(
            setup.model,
            followed,
            pose,
            help=help,
            begin=begin,
            steps=steps,
            turns=_turns(table, setup.model),
            drift=table.vector("drift", None),
        )
    except ClipError as error:
        raise table.error(str(error), "clip") from error
    except ModelError as error:
        raise table.error(str(error)) from error
    controller, moved = controller.set("heading", heading), None
    if followed is not None:
        if followed.moves is None and begin >= float(followed.duration()):
            raise table.error(
                f"begin is {begin:g} s, the clip is {float(followed.duration()):.2f} s long",
                "begin",
            )
        first, _ = controller.facing(setup.state.time)
        moved = followed.state(setup.model, begin, first)
    start = moved or setup.state
    kin = _kinematics(setup.model, start.q, start.qd)
    controller = replace(
        controller, pulls=_pulls(table, setup.model, kin), levels=_levels(table, setup.model, kin)
    )
    return Registered(controller, state=moved)


def _turns(table: Table, model: Model) -> Turns | None:
    """Turns from ``[[controller.turn]]``: time, heading_deg."""
    keys = []
    for each in table.tables("turn"):
        keys.append((each.number("time"), float(np.deg2rad(each.number("heading_deg")))))
        each.done()
    return turns(model, keys) if keys else None


def _pulls(table: Table, model: Model, kin: Kinematics) -> Pulls | None:
    """Pulls from ``[[controller.pull]]``: link, place, velocity, start, end.

    The default of the place is where the link is at the start.
    """
    pulls = []
    for each in table.tables("pull"):
        link, index = _link(each, model)
        place = each.vector("place", np.asarray(kin.com[index]).tolist())
        velocity = each.vector("velocity", (0.0, 0.0, 0.0))
        times = each.number("start", 0.0), each.number("end", np.inf)
        pulls.append(pull(model, link, place, velocity, *times))
        each.done()
    return pulls_together(*pulls) if pulls else None


def _levels(table: Table, model: Model, kin: Kinematics) -> Levels | None:
    """Levels from ``[[controller.level]]``: link, up.

    The default of up is the link's upright direction at the start.
    """
    levels = []
    for each in table.tables("level"):
        link, index = _link(each, model)
        upright = np.asarray(kin.link_rot[index])[2].tolist()
        try:
            levels.append(level(model, link, each.vector("up", upright)))
        except ModelError as error:
            raise each.error(str(error), "link") from error
        each.done()
    return levels_together(*levels) if levels else None


def _link(table: Table, model: Model) -> tuple[str, int]:
    """Value of the key ``link``, a name or role, and the link's index."""
    link = table.text("link")
    try:
        return link, model.topology.part(link)
    except KeyError as error:
        raise table.error(str(error.args[0]), "link") from error
