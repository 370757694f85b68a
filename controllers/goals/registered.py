"""Builders of controllers by goals from their scenario tables."""

from collections.abc import Collection, Sequence
from dataclasses import replace

import jax.numpy as jnp
import numpy as np

from controllers.goals.account import Reach
from controllers.goals.balance import FIRM, ROLES, balance_machine
from controllers.goals.company import asks_for_hands, hold_hands
from controllers.goals.controller import GoalController
from controllers.goals.dismount import TUCKED, Dismount, dismount_machine
from controllers.goals.effector_constraints import EffectorConstraint, at_once, check_constraints
from controllers.goals.hinges import hinge_angles
from controllers.goals.hold_on import Caution, hold_on_machine
from controllers.goals.machine import GoalMachine
from controllers.goals.one_foot import crane, one_foot_machine
from controllers.goals.response import Response
from controllers.goals.sensors import Objects
from controllers.goals.starts import hanging
from controllers.goals.surroundings import STRUCK, WATCHED, dodge, hand_of_another, hands_to_wall
from controllers.goals.surroundings import flying as seen_flying
from controllers.goals.swing import Swing, swing_machine
from controllers.goals.tasks import reach
from controllers.registry import Registered, Setup
from jaxsim.characters.standing import effectors_of
from jaxsim.io.toml_table import Table, suggestion
from jaxsim.io.world import Body
from jaxsim.model import Model, State
from jaxsim.model.roles import HANDS, SHANKS, THIGHS, UPPER_ARMS

LEAST, MOST = (float(np.rad2deg(x)) for x in (Dismount.least, Dismount.most))  # [deg]
THRESHOLD = float(np.rad2deg(Swing.threshold))  # [deg]
TIMES = (2.0, 0.3)  # of a goal that is added: its weight, and how long it takes to come to it [s]


def balance(table: Table, setup: Setup) -> Registered:
    """Controller that keeps balance, and takes a step where balance would be lost.

    ``firm``: responses of ``FIRM`` instead of weights, for a character that reaches;
    ``hands_to_wall``: weight of hands that look for support; ``hold_hands``: weight of hands that
    reach for another's; ``dodge``: { near [m], weight } of flying balls, or with ``hands`` of
    another's hand. Source: Jain, Ye, Liu (2009), section 6.1.2.
    """
    machine, top = balance_machine(), setup.model.topology
    if table.flag("firm", False):
        machine = machine.weighing(FIRM)
    if table.has("hands_to_wall"):
        top.require("hands_to_wall", *HANDS, *UPPER_ARMS)
        machine = machine.adding(hands_to_wall(), table.number("hands_to_wall", above=0.0))
    if table.has("hold_hands"):
        weight = table.number("hold_hands", above=0.0)
        if not setup.world.clasps:
            raise table.error("needs hands to hold; give the world a [[clasp]]", "hold_hands")
        machine = machine.adding(hold_hands(), weight, clasps=asks_for_hands)
    away = table.table("dodge")
    if away is not None:
        near, weight = away.number("near", 1.0, above=0.0), away.number("weight", 1.0, above=0.0)
        hands = away.flag("hands", False)
        if hands and not setup.world.companions:
            raise away.error("there are no others; give the world a [[companion]]", "hands")
        away.done()
        seen, watched = (hand_of_another, STRUCK) if hands else (seen_flying, WATCHED)
        machine = machine.adding(dodge(near, seen, watched), weight)
    return goal_controller(machine, table, setup)


def one_foot(table: Table, setup: Setup) -> Registered:
    """Controller that stands on one foot, and takes up a pose there.

    Source: Jain, Ye, Liu (2009), section 6.1.1.
    """
    return goal_controller(one_foot_machine(crane(setup.model)), table, setup)


def swing(table: Table, setup: Setup) -> Registered:
    """Controller that swings from a ``bar``, a hold by its name.

    ``start_deg``: angle at the start; ``faster`` [m/s]: gain of speed; ``threshold_deg``: angle
    beyond which the body swings passively. Source: Jain, Ye, Liu (2009), section 6.3.
    """
    state, joints, angles = _hanging(table, setup, *HANDS)
    machine = swing_machine(joints, angles, _swing(table))
    return replace(goal_controller(machine, table, setup, HANDS), state=state)


def dismount(table: Table, setup: Setup) -> Registered:
    """Controller that swings from a bar, lets go and lands on the feet.

    Keys of ``swing``, and ``least_deg``: the body swings until it swings back so far; ``most_deg``:
    then it brakes until it swings back no further.
    """
    state, stiff, _ = _hanging(table, setup, *HANDS, *ROLES, *SHANKS)
    joints, angles = _hinges(setup.model, state, range(setup.model.topology.n_links))
    legs = hinge_angles(setup.model, TUCKED, "dismount")
    tucked = [np.deg2rad(legs[name]) if name in legs else at for name, at in zip(joints, angles)]
    swings = {
        key: float(np.deg2rad(table.number(f"{key}_deg", deg, above=0.0)))
        for key, deg in (("least", LEAST), ("most", MOST))
    }
    machine = dismount_machine(
        joints, angles, np.array(tucked), stiff, Dismount(**swings), _swing(table)
    )
    return replace(goal_controller(machine, table, setup, (*HANDS, *ROLES)), state=state)


def _hanging(table: Table, setup: Setup, *roles: str) -> tuple[State, list[str], np.ndarray]:
    """Start that hangs from the table's bar, with all hinges but the abdomen's and their angles."""
    top = setup.model.topology
    top.require(f"the controller {table.text('name')!r}", *roles, "abdomen", "chest")
    name = read_name(table, "bar", [hold.name for hold in setup.world.holds])
    state = hanging(setup, name, np.deg2rad(table.number("start_deg", 0.0)))
    soft = {top.part("abdomen"), top.part("chest")}
    return state, *_hinges(setup.model, state, set(range(top.n_links)) - soft)


def hold_on(table: Table, setup: Setup) -> Registered:
    """Controller that balances, holds on to what is in reach, hangs and swings.

    ``alarm`` [m/s]: it takes hold when it sways faster; ``calm`` [s]: it lets go this long after
    the last alarm; ``still`` [s]: it swings once it has hung so long; ``faster`` and
    ``threshold_deg`` as of ``swing``. Source: Jain, Ye, Liu (2009), section 6.4, the cable car.
    """
    model = setup.model
    model.topology.require("the controller 'hold_on'", *ROLES, *HANDS, *UPPER_ARMS, *SHANKS)
    if not setup.world.holds:
        raise table.error("needs something to hold on to; give the world a [[hold]]")
    thresholds = {
        key: table.number(key, getattr(Caution, key), above=0.0)
        for key in ("alarm", "calm", "still")
    }
    legs = _hinges(model, setup.state, {model.topology.part(name) for name in (*THIGHS, *SHANKS)})
    machine = hold_on_machine(*legs, Caution(**thresholds), swing=_swing(table))
    return goal_controller(machine, table, setup)


def _swing(table: Table) -> Swing:
    """Numbers of the swing, from the keys ``faster`` and ``threshold_deg``."""
    return Swing(
        table.number("faster", Swing.faster, above=0.0),
        float(np.deg2rad(table.number("threshold_deg", THRESHOLD, above=0.0))),
    )


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
    machine: GoalMachine, table: Table, setup: Setup, roles: Sequence[str] = ROLES
) -> Registered:
    """Controller of a machine, with the table's reaches and pins added.

    Tables ``[[controller.reach]]`` and ``[[controller.hold]]``; roles: required of the model.
    """
    setup.model.topology.require(f"the controller {table.text('name')!r}", *roles)
    names = effectors_of(setup.model).names
    holds = []
    for each in table.tables("hold"):
        effector = read_name(each, "effector", names)
        try:
            holds.append(
                EffectorConstraint(
                    effector, each.number("start", least=0.0), each.number("end", above=0.0)
                )
            )
            check_constraints(holds)
        except ValueError as error:
            raise each.error(str(error)) from error
        each.done()
    machine = replace(machine, constraints=tuple(holds))
    reaches: list[Reach] = []
    for k, each in enumerate(table.tables("reach")):
        where = each.vector("target")
        weight, onset = _strength(each)
        try:
            time = EffectorConstraint(
                read_name(each, "effector", names),
                each.number("start", least=0.0),
                each.number("end", above=0.0),
            )
        except ValueError as error:
            raise each.error(str(error)) from error
        new_reach = Reach(time.effector, where, time.start, time.end)
        each.done()
        elsewhere = [other for other in reaches if other.target != where]
        for other in (*elsewhere, *holds):
            if other.effector == time.effector and at_once(other, time):
                raise each.error(
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
        reaches.append(new_reach)
    controller = GoalController.of(machine, setup.model, flying(setup))
    return Registered(
        replace(controller, reaches=tuple(reaches)),
        tuple((name, "its condition") for name in machine.state_names),
    )


def _strength(table: Table) -> tuple[float | Response, float]:
    """Weight and onset [s] of a goal, or a response and 0.

    A response has a ``time`` and may have a ``priority``.
    """
    if not (table.has("time") or table.has("priority")):
        return table.number("weight", TIMES[0], above=0.0), table.number("onset", TIMES[1], least=0)
    for key in ("weight", "onset"):
        if table.has(key):
            raise table.error("goes with no time and priority; give one or the other", key)
    priority = table.number("priority", Response.priority, above=0.0)
    return Response(table.number("time", above=0.0), priority), 0.0


def read_name(table: Table, key: str, names: Sequence[str]) -> str:
    """Value of a key that names one of ``names``; raises WorldError for any other."""
    name = table.text(key)
    if name not in names:
        known = f"there are {', '.join(names)}" if names else "there are none"
        raise table.error(f"there is no {key} {name!r}{suggestion(name, names)}; {known}", key)
    return name


def flying(setup: Setup) -> Objects | None:
    """Flying objects that goals see: bodies of the scenario that are no part of the model."""
    links = setup.model.topology.link_names
    bodies = [body for body in setup.world.bodies if body.name not in links]
    return flying_spheres(bodies, setup.model.mass.dtype) if bodies else None


def flying_spheres(bodies: Sequence[Body], dtype) -> Objects:
    """Spheres in free flight from time 0 on."""
    return Objects(
        jnp.asarray([body.pos for body in bodies], dtype),
        jnp.asarray([body.velocity for body in bodies], dtype),
        jnp.asarray([body.shape.size[0] for body in bodies], dtype),
    )
