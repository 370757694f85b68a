"""Balance on feet that are kept from toppling, from its table."""

from dataclasses import dataclass, replace

import jax
import numpy as np

from controllers.registry import Registered, Setup
from controllers.tracking.followed import ClipKeys, followed_clip
from controllers.tracking.level import Levels, level, levels_together
from controllers.tracking.outside import Pulls, Turns, pull, pulls_together, turns
from controllers.tracking.support import HELP
from controllers.tracking.topple_free import ToppleFree
from jaxsim.dynamics.kinematics import Kinematics, forward_kinematics
from jaxsim.io.keys import Keys, reads
from jaxsim.mocap.errors import ClipError
from jaxsim.model import Model, ModelError
from jaxsim.options import REQUIRED, option

_kinematics = jax.jit(forward_kinematics)


@dataclass(frozen=True, kw_only=True)
class TurnKeys(Keys):
    """Keys of ``[[controller.turn]]``."""

    time: float = option(REQUIRED, "when it faces there", unit="s", kind=float)
    heading_deg: float = option(REQUIRED, "direction to face", unit="deg", kind=float)


@dataclass(frozen=True, kw_only=True)
class PullKeys(Keys):
    """Keys of ``[[controller.pull]]``."""

    link: str = option(REQUIRED, "link, or role, that is pulled", kind=str)
    place: tuple | None = option(
        None, "point it is pulled to", unit="m", shown="where it starts", kind=tuple
    )
    velocity: tuple = option((0.0, 0.0, 0.0), "velocity of that point", unit="m/s")
    start: float = option(0.0, "when it begins", unit="s")
    end: float = option(np.inf, "when it ends", unit="s", shown="never")


@dataclass(frozen=True, kw_only=True)
class LevelKeys(Keys):
    """Keys of ``[[controller.level]]``."""

    link: str = option(REQUIRED, "link, or role, to keep level", kind=str)
    up: tuple | None = option(
        None, "its axis that stays vertical", shown="the one vertical at the start", kind=tuple
    )


@dataclass(frozen=True, kw_only=True)
class ToppleFreeKeys(ClipKeys):
    """Keys of ``topple_free``."""

    clip: str | None = option(
        None, "motion capture to follow, beside the scenario", shown="the start pose", kind=str
    )
    help: str = option(
        HELP[0],
        "[external torque on the feet](../explanation/topple_free.md): beyond `help_from`, beyond"
        " what the ankles can give, or none",
        choices=HELP,
    )
    begin: float = option(0.0, "time of the clip at the start", unit="s", least=0.0)
    heading_deg: float = option(0.0, "direction to face", unit="deg")
    steps: bool = option(False, "place the swing foot by the motion of the centre of mass")
    drift: tuple | None = option(
        None, "velocity added to the reference", unit="m/s", shown="none", kind=tuple
    )
    turn: tuple[TurnKeys, ...] = option(
        (), "directions to face, by time", kind=list, entries=TurnKeys
    )
    pull: tuple[PullKeys, ...] = option(
        (), "links pulled by a spring to a moving point", kind=list, entries=PullKeys
    )
    level: tuple[LevelKeys, ...] = option((), "links kept level", kind=list, entries=LevelKeys)


@reads(ToppleFreeKeys)
def topple_free(keys: ToppleFreeKeys, setup: Setup) -> Registered:
    """Follow motion capture, or stand, by PD torques, virtual actuators at the feet and
    [topple-free feet](../explanation/topple_free.md)."""
    table, begin = keys.table, keys.begin
    try:
        followed = None if keys.clip is None else followed_clip(keys.clip, keys, setup)
        pose = setup.state.q if followed is None else None
        tracker = ToppleFree.of(
            setup.model,
            followed,
            pose,
            help=keys.help,
            begin=begin,
            steps=keys.steps,
            turns=_turns(keys, setup.model),
            drift=keys.drift,
        )
    except ClipError as error:
        raise table.error(str(error), "clip") from error
    except ModelError as error:
        raise table.error(str(error)) from error
    tracker, moved = tracker.set("heading", float(np.deg2rad(keys.heading_deg))), None
    if followed is not None:
        if followed.moves is None and begin >= float(followed.duration()):
            raise table.error(
                f"begin is {begin:g} s, the clip is {float(followed.duration()):.2f} s long",
                "begin",
            )
        first, _ = tracker.facing(setup.state.time)
        moved = followed.state(setup.model, begin, first)
    begun = moved or setup.state
    kin = _kinematics(setup.model, begun.q, begun.qd)
    tracker = replace(
        tracker, pulls=_pulls(keys, setup.model, kin), levels=_levels(keys, setup.model, kin)
    )
    return Registered(tracker, state=moved)


def _turns(keys: ToppleFreeKeys, model: Model) -> Turns | None:
    headings = [(each.time, float(np.deg2rad(each.heading_deg))) for each in keys.turn]
    return turns(model, headings) if headings else None


def _pulls(keys: ToppleFreeKeys, model: Model, kin: Kinematics) -> Pulls | None:
    pulls = []
    for each in keys.pull:
        index = _link(each, model)
        place = np.asarray(kin.com[index]).tolist() if each.place is None else each.place
        pulls.append(pull(model, each.link, place, each.velocity, each.start, each.end))
    return pulls_together(*pulls) if pulls else None


def _levels(keys: ToppleFreeKeys, model: Model, kin: Kinematics) -> Levels | None:
    levels = []
    for each in keys.level:
        upright = np.asarray(kin.link_rot[_link(each, model)])[2].tolist()
        try:
            levels.append(level(model, each.link, upright if each.up is None else each.up))
        except ModelError as error:
            raise each.table.error(str(error), "link") from error
    return levels_together(*levels) if levels else None


def _link(keys: PullKeys | LevelKeys, model: Model) -> int:
    """Index of the link, by name or role."""
    try:
        return model.topology.part(keys.link)
    except KeyError as error:
        raise keys.table.error(str(error.args[0]), "link") from error
