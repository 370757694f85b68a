"""A character that moves by goals: one frame, and many."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
from jax import Array

from controllers.goals.machine import GoalMachine, Memory
from controllers.goals.senses import Objects, Senses
from jaxsim.model import Model, State
from jaxsim.simulation.pushes import Pushes
from jaxsim.synthesis.config import SynthesisConfig, Units, units
from jaxsim.synthesis.effectors import Effectors
from jaxsim.synthesis.synthesizer import SynthesisInfo, SynthesisState, begin, synthesize
from jaxsim.synthesis.view import look


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Body:
    """A character with its effectors and units; a batch may hold many bodies of one topology."""

    model: Model
    effectors: Effectors
    unit: Units


def body(model: Model, find_effectors: Callable[[Model], Effectors]) -> Body:
    """A model with its effectors: ``body(model, human_effectors)``."""
    return Body(model, find_effectors(model), units(model))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Moment:
    """A character between two frames, and what its controller remembers."""

    state: SynthesisState
    memory: Memory


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Frame:
    """One frame: what was there at its start, and what was found for its end."""

    senses: Senses
    memory: Memory
    info: SynthesisInfo
    start: SynthesisState


def perceive(
    body: Body, state: SynthesisState, config: SynthesisConfig, objects: Objects | None = None
) -> Senses:
    """What the character knows now; objects are flying since time 0, without drag."""
    view = look(body.model, body.effectors, state.q, state.v)
    if objects is not None:
        objects = objects.at(state.time, body.model.gravity)
    return Senses(
        view=view,
        touching=view.near.gap <= config.touch_distance,
        force=state.force,
        weight=body.unit.force,
        height=body.unit.shift,
        time=state.time,
        objects=objects,
    )


def begin_moment(
    body: Body,
    machine: GoalMachine,
    state: State,
    config: SynthesisConfig,
    objects: Objects | None = None,
) -> Moment:
    """A start from a pose."""
    first = begin(body.model, body.effectors, state, body.unit, config)
    return Moment(first, machine.begin(perceive(body, first, config, objects)))


def advance(
    body: Body,
    machine: GoalMachine,
    weights: Array,
    moment: Moment,
    config: SynthesisConfig,
    pushes: Pushes | None = None,
    objects: Objects | None = None,
) -> tuple[Moment, Frame]:
    """One frame: perceive, let the machine choose, synthesise. weights (ns, ng): the machine's."""
    state = moment.state
    senses = perceive(body, state, config, objects)
    memory = machine.advance(moment.memory, senses)
    tasks = machine.tasks(memory, senses, weights, body.unit, config.dt)
    after, info = synthesize(senses.view, state, tasks, body.unit, config, pushes)
    return Moment(after, memory), Frame(senses, memory, info, state)


def run(
    body: Body,
    machine: GoalMachine,
    weights: Array,
    moment: Moment,
    config: SynthesisConfig,
    frames: int,
    record: Callable[[Frame], Any],
    pushes: Pushes | None = None,
    objects: Objects | None = None,
) -> tuple[Moment, Any]:
    """Many frames, and record(frame) of each, stacked."""

    def one(moment, _):
        moment, frame = advance(body, machine, weights, moment, config, pushes, objects)
        return moment, record(frame)

    return jax.lax.scan(one, moment, None, length=frames)
