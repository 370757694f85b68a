"""Controllers by goals, from their tables."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import jax.numpy as jnp
import numpy as np

from controllers.goals.account import Reach
from controllers.goals.balance import FIRM, ROLES, balance_machine
from controllers.goals.clip import ENDS, ClipWeights, FollowedClip, following, on_ground
from controllers.goals.company import asks_for_hands, hold_hands
from controllers.goals.controller import GoalController
from controllers.goals.dismount import TUCKED, Dismount, dismount_machine
from controllers.goals.dodge import STRUCK, WATCHED, dodge, hand_of_another
from controllers.goals.dodge import flying as seen_flying
from controllers.goals.effector_constraints import EffectorConstraint, at_once, check_constraints
from controllers.goals.hinges import hinge_angles
from controllers.goals.hold_on import Caution, hold_on_machine
from controllers.goals.machine import GoalMachine
from controllers.goals.one_foot import crane, one_foot_machine
from controllers.goals.response import Response
from controllers.goals.sensors import Objects
from controllers.goals.starts import hanging
from controllers.goals.surroundings import hands_to_wall
from controllers.goals.swing import Swing, swing_machine
from controllers.goals.tables import GOALS, ONSET, GoalTable, StrengthKeys, with_goals
from controllers.goals.tasks import reach
from controllers.registry import Registered, Setup
from controllers.tracking.followed import ClipKeys, followed_clip
from jaxsim.characters.standing import effectors_of
from jaxsim.io.keys import Keys, reads
from jaxsim.io.toml_table import Table, suggestion
from jaxsim.io.world import Body
from jaxsim.mocap.errors import ClipError
from jaxsim.model import Model, ModelError, State
from jaxsim.model.roles import HANDS, SHANKS, THIGHS, UPPER_ARMS
from jaxsim.options import REQUIRED, option

LEAST, MOST = (float(np.rad2deg(x)) for x in (Dismount.least, Dismount.most))  # [deg]
THRESHOLD = float(np.rad2deg(Swing.threshold))  # [deg]


@dataclass(frozen=True, kw_only=True)
class ReachKeys(StrengthKeys):
    """Keys of ``[[controller.reach]]``."""

    effector: str = option(REQUIRED, "hand, foot or other effector that reaches", kind=str)
    target: tuple = option(REQUIRED, "point to reach", unit="m", kind=tuple)
    start: float = option(REQUIRED, "when it begins", unit="s", kind=float, least=0.0)
    end: float = option(REQUIRED, "when it ends", unit="s", kind=float, above=0.0)
    onset: float | None = option(
        None,
        "with `weight`: time until the goal has it",
        unit="s",
        shown=f"{ONSET:g}",
        kind=float,
        least=0.0,
    )


@dataclass(frozen=True, kw_only=True)
class PinKeys(Keys):
    """Keys of ``[[controller.pin]]``."""

    effector: str = option(REQUIRED, "effector that stays where it is at `start`", kind=str)
    start: float = option(REQUIRED, "when it begins", unit="s", kind=float, least=0.0)
    end: float = option(REQUIRED, "when it ends", unit="s", kind=float, above=0.0)


@dataclass(frozen=True, kw_only=True)
class GoalKeys(Keys):
    """Keys of all controllers by goals."""

    reach: tuple[ReachKeys, ...] = option(
        (), "points to reach, by effector and time", kind=list, entries=ReachKeys
    )
    pin: tuple[PinKeys, ...] = option(
        (), "effectors that stay where they are", was="hold", kind=list, entries=PinKeys
    )
    goal: tuple[GoalTable, ...] = option((), "other goals, by `kind`", kind=list, entries=GOALS)
    priorities: dict[str, float] | None = option(
        None,
        "`{ com = 1 }`: [strict priorities](../guides/goals.md#strict-priorities), 1 the first;"
        " other goals come after these",
        kind=dict,
        entries=float,
    )


@dataclass(frozen=True, kw_only=True)
class DodgeKeys(Keys):
    """Keys of ``dodge``."""

    horizon: float = option(
        1.5, "time before something arrives, from which on it counts", unit="s", above=0.0
    )
    weight: float = option(10.0, "weight of the goal", above=0.0)
    hands: bool = option(False, "dodge the nearest hand of a `[[companion]]`, not balls")


@dataclass(frozen=True, kw_only=True)
class FollowKeys(ClipKeys):
    """Keys of ``clip``."""

    file: str = option(REQUIRED, "motion capture to follow, beside the scenario", kind=str)
    pose: float = option(ClipWeights.pose, "weight of the joints' angles", least=0.0)
    effectors: float = option(ClipWeights.effectors, "weight of hands and head", least=0.0)
    com: float = option(ClipWeights.com, "weight of the centre of mass", least=0.0)
    time: float = option(
        FollowedClip.time, "in which an error falls to 1/e without other goals", unit="s", above=0.0
    )
    begin: float = option(0.0, "time of the clip at the start", unit="s", least=0.0)


@dataclass(frozen=True, kw_only=True)
class BalanceKeys(GoalKeys):
    """Keys of ``balance``."""

    firm: bool = option(
        False,
        "responses that [keep the body still](../guides/goals.md#how-fast-how-firmly) while it"
        " reaches",
    )
    hands_to_wall: float | None = option(
        None, "weight of hands that look for support on walls", kind=float, above=0.0
    )
    hold_hands: float | None = option(
        None, "weight of hands that reach for another's, with a `[[clasp]]`", kind=float, above=0.0
    )
    dodge: DodgeKeys | None = option(
        None,
        "trunk, head, arms and thighs leave the way of what flies",
        kind=dict,
        entries=DodgeKeys,
    )
    clip: FollowKeys | None = option(
        None, "[motion capture to follow](../guides/goals.md#a-clip)", kind=dict, entries=FollowKeys
    )


@reads(BalanceKeys)
def balance(keys: BalanceKeys, setup: Setup) -> Registered:
    """Stand, and take steps where balance would be lost (section 6.1.2)."""
    machine, top, dodging = balance_machine(), setup.model.topology, keys.dodge
    if keys.firm:
        machine = machine.weighing(FIRM)
    if keys.hands_to_wall is not None:
        top.require("hands_to_wall", *HANDS, *UPPER_ARMS)
        machine = machine.adding(hands_to_wall(), keys.hands_to_wall)
    if keys.hold_hands is not None:
        if not setup.world.clasps:
            raise keys.table.error("needs hands to hold; give the world a [[clasp]]", "hold_hands")
        machine = machine.adding(hold_hands(), keys.hold_hands, clasps=asks_for_hands)
    if dodging is not None:
        if dodging.hands and not setup.world.companions:
            raise dodging.table.error(
                "there are no others; give the world a [[companion]]", "hands"
            )
        seen, watched = (hand_of_another, STRUCK) if dodging.hands else (seen_flying, WATCHED)
        machine = machine.adding(dodge(dodging.horizon, seen, watched), dodging.weight)
    if keys.clip is None:
        return goal_controller(machine, keys, setup)
    clip, state = _clip(keys.clip, setup)
    weights = ClipWeights(keys.clip.pose, keys.clip.effectors, keys.clip.com)
    registered = goal_controller(following(machine, weights), keys, setup)
    return replace(registered, controller=replace(registered.controller, clip=clip), state=state)


def _clip(keys: FollowKeys, setup: Setup) -> tuple[FollowedClip, State]:
    """Clip of a table, and the state in which it begins."""
    if setup.world.companions:
        raise keys.table.error("one character alone follows a clip; leave out its [[companion]]")
    setup.model.topology.require("the clip", *ENDS)
    try:
        reference = followed_clip(keys.file, keys, setup)
    except ClipError as error:
        raise keys.table.error(str(error), "file") from error
    except ModelError as error:
        raise keys.table.error(str(error)) from error
    if reference.moves is None and keys.begin >= float(reference.duration()):
        lasts = f"the clip is {float(reference.duration()):.2f} s long"
        raise keys.table.error(f"begin is {keys.begin:g} s, {lasts}", "begin")
    return (
        FollowedClip.of(setup.model, reference, keys.begin, keys.time),
        on_ground(setup.model, reference.state(setup.model, keys.begin)),
    )


@reads(GoalKeys)
def one_foot(keys: GoalKeys, setup: Setup) -> Registered:
    """Stand on one foot, and move there into a pose (section 6.1.1)."""
    return goal_controller(one_foot_machine(crane(setup.model)), keys, setup)


@dataclass(frozen=True, kw_only=True)
class PumpKeys(GoalKeys):
    """Keys of controllers that pump a swing."""

    faster: float = option(
        Swing.faster, "speed of the centre of mass to gain", unit="m/s", above=0.0
    )
    threshold_deg: float = option(
        THRESHOLD, "angle beyond which the body swings freely", unit="deg", above=0.0
    )

    @property
    def pumping(self) -> Swing:
        """Settings of the pumping."""
        return Swing(self.faster, float(np.deg2rad(self.threshold_deg)))


@dataclass(frozen=True, kw_only=True)
class SwingKeys(PumpKeys):
    """Keys of ``swing``."""

    bar: str = option(REQUIRED, "`[[hold]]` with a `half_length`, by name", kind=str)
    start_deg: float = option(0.0, "angle at which it starts", unit="deg")


@reads(SwingKeys)
def swing(keys: SwingKeys, setup: Setup) -> Registered:
    """Hang from a bar and [pump the swing](../explanation/behaviours.md#swinging) (section 6.3)."""
    state, joints, angles = _hanging(keys, setup, *HANDS)
    machine = swing_machine(joints, angles, keys.pumping)
    return replace(goal_controller(machine, keys, setup, HANDS), state=state)


@dataclass(frozen=True, kw_only=True)
class DismountKeys(SwingKeys):
    """Keys of ``dismount``."""

    least_deg: float = option(
        LEAST, "it pumps until it swings back this far", unit="deg", above=0.0
    )
    most_deg: float = option(
        MOST, "then it brakes until it swings back no further than this", unit="deg", above=0.0
    )


@reads(DismountKeys)
def dismount(keys: DismountKeys, setup: Setup) -> Registered:
    """Pump a swing, let go, and [land on the feet](../explanation/behaviours.md#swinging)."""
    state, stiff, _ = _hanging(keys, setup, *HANDS, *ROLES, *SHANKS)
    joints, angles = _hinges(setup.model, state, range(setup.model.topology.n_links))
    legs = hinge_angles(setup.model, TUCKED, "dismount")
    tucked = [np.deg2rad(legs[name]) if name in legs else at for name, at in zip(joints, angles)]
    swings = Dismount(
        least=float(np.deg2rad(keys.least_deg)), most=float(np.deg2rad(keys.most_deg))
    )
    machine = dismount_machine(joints, angles, np.array(tucked), stiff, swings, keys.pumping)
    return replace(goal_controller(machine, keys, setup, (*HANDS, *ROLES)), state=state)


def _hanging(keys: SwingKeys, setup: Setup, *roles: str) -> tuple[State, list[str], np.ndarray]:
    """State in which it hangs from its bar, and hinges and angles of all but the abdomen."""
    top = setup.model.topology
    top.require(f"the controller {keys.table.text('name')!r}", *roles, "abdomen", "chest")
    name = read_name(keys.table, "bar", [hold.name for hold in setup.world.holds])
    state = hanging(setup, name, np.deg2rad(keys.start_deg))
    soft = {top.part("abdomen"), top.part("chest")}
    return state, *_hinges(setup.model, state, set(range(top.n_links)) - soft)


@dataclass(frozen=True, kw_only=True)
class HoldOnKeys(PumpKeys):
    """Keys of ``hold_on``."""

    alarm: float = option(
        Caution.alarm, "sway over the feet from which it takes a grip", unit="m/s", above=0.0
    )
    calm: float = option(
        Caution.calm, "time since the last alarm after which it lets go", unit="s", above=0.0
    )
    still: float = option(
        Caution.still, "time of hanging after which it swings", unit="s", above=0.0
    )


@reads(HoldOnKeys)
def hold_on(keys: HoldOnKeys, setup: Setup) -> Registered:
    """Balance, grip holds in reach, hang and swing: [the cable
    car](../explanation/behaviours.md#the-cable-car) (section 6.4)."""
    model = setup.model
    model.topology.require("the controller 'hold_on'", *ROLES, *HANDS, *UPPER_ARMS, *SHANKS)
    if not setup.world.holds:
        raise keys.table.error("needs something to hold on to; give the world a [[hold]]")
    caution = Caution(alarm=keys.alarm, calm=keys.calm, still=keys.still)
    legs = _hinges(model, setup.state, {model.topology.part(name) for name in (*THIGHS, *SHANKS)})
    return goal_controller(hold_on_machine(*legs, caution, swing=keys.pumping), keys, setup)


def _hinges(model: Model, state: State, links: Collection[int]) -> tuple[list[str], np.ndarray]:
    """Hinges with motors of some links by name, and their angles in a state [rad]."""
    top = model.topology
    joints = [
        j
        for j, kind in enumerate(top.joint_kinds)
        if kind == "hinge" and top.joint_actuated[j] and top.joint_link[j] in links
    ]
    at = [top.q_start[j] for j in joints]
    return [top.joint_names[j] for j in joints], np.asarray(state.q)[at]


def goal_controller(
    machine: GoalMachine, keys: GoalKeys, setup: Setup, roles: Sequence[str] = ROLES
) -> Registered:
    """Controller of a machine, with goals to reach and pins added."""
    setup.model.topology.require(f"the controller {keys.table.text('name')!r}", *roles)
    names = effectors_of(setup.model).names
    pins = []
    for each in keys.pin:
        try:
            pins.append(
                EffectorConstraint(read_name(each.table, "effector", names), each.start, each.end)
            )
            check_constraints(pins)
        except ValueError as error:
            raise each.table.error(str(error)) from error
    machine = replace(machine, constraints=tuple(pins))
    reaches: list[Reach] = []
    for k, each in enumerate(keys.reach):
        where = each.target
        weight, onset = each.strength, 0.0
        if isinstance(weight, Response):
            each.refuse("onset")
        else:
            onset = ONSET if each.onset is None else each.onset
        try:
            time = EffectorConstraint(
                read_name(each.table, "effector", names), each.start, each.end
            )
        except ValueError as error:
            raise each.table.error(str(error)) from error
        target = Reach(time.effector, where, time.start, time.end)
        elsewhere = [other for other in reaches if other.target != where]
        for other in (*elsewhere, *pins):
            if other.effector == time.effector and at_once(other, time):
                raise each.table.error(
                    f"{time.effector!r} is to be elsewhere from {other.start:g} to {other.end:g} s;"
                    " let one end before the other begins"
                )
        goal = reach(
            f"reach_{k + 1}",
            time.effector,
            lambda *_, where=where: jnp.asarray(where),
            time.start,
            time.end,
            onset,
        )
        machine = machine.adding(goal, weight)
        reaches.append(target)
    machine = with_goals(machine, keys.goal, setup.model)
    try:
        controller = GoalController.of(machine, setup.model, flying(setup), keys.priorities)
    except ValueError as error:
        raise keys.table.error(str(error), "priorities") from error
    return Registered(
        replace(controller, reach_targets=tuple(reaches)),
        tuple((name, "its condition") for name in machine.state_names),
        points=tuple(point for each in keys.goal for point in each.points(setup.model)),
    )


def read_name(table: Table, key: str, names: Sequence[str]) -> str:
    """Name that a key of a table gives. Raises WorldError for one that is not among ``names``."""
    name = table.text(key)
    if name not in names:
        known = f"there are {', '.join(names)}" if names else "there are none"
        raise table.error(f"there is no {key} {name!r}{suggestion(name, names)}; {known}", key)
    return name


def flying(setup: Setup) -> Objects | None:
    """Bodies of the world that goals see, where these are not part of the model."""
    links = setup.model.topology.link_names
    bodies = [body for body in setup.world.bodies if body.name not in links]
    return flying_spheres(bodies, setup.model.mass.dtype) if bodies else None


def flying_spheres(bodies: Sequence[Body], dtype) -> Objects:
    """Spheres on their way from time 0 on."""
    return Objects(
        jnp.asarray([body.pos for body in bodies], dtype),
        jnp.asarray([body.velocity for body in bodies], dtype),
        jnp.asarray([body.shape.size[0] for body in bodies], dtype),
    )
