"""Controllers by goals of several characters, and goals for hands that reach for each other.

Source: Jain, Ye, Liu (2009), section 6.1.5: "a child reaching out for an adult's hand for support
in the event of balance loss".
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from controllers.controller import Wrapped
from controllers.goals.controller import GoalController
from controllers.goals.machine import MachineState
from controllers.goals.sensors import reachable_points
from controllers.goals.surroundings import ARMS, FALLING
from controllers.goals.tasks import Goal
from controllers.source import NumberSource
from jaxsim.math.safe import safe_norm
from jaxsim.model import Model, State
from jaxsim.synthesis.observation import EffectorObservation
from jaxsim.synthesis.scheme import PerStepOptimisation
from jaxsim.synthesis.several import SeveralCharacters, SeveralObservation

STEADY = 0.1  # root of the weight of hands that hold each other, relative to reaching ones


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Company(Wrapped):
    """Controllers by goals, one for each character of ``SeveralCharacters``.

    Numbers of the first character have its own labels, those of another begin with its name:
    ``child.gait.time``.
    """

    members: tuple[GoalController, ...]
    names: tuple[str, ...] = dataclasses.field(metadata={"static": True})

    @property
    def labels(self) -> dict[str, str]:
        """Mapping from label to path."""
        return {
            (f"{name}.{label}" if k else label): f"members[{k}].{path}"
            for k, (name, one) in enumerate(zip(self.names, self.members))
            for label, path in one.labels.items()
        }

    @property
    def inner(self) -> GoalController:
        """Reaches of the first character."""
        return self.members[0]

    def number_source(self, files: Mapping[str, str], model: Model) -> NumberSource:
        """Numbers of the first character."""
        return self.inner.number_source(files, self.inner_model(model)).under("members[0].")

    def check(self, model: Model) -> None:
        """Raise ModelError for a member whose weights do not have its machine's shape."""
        for one in self.members:
            one.check(model)

    def init(self, model: Model, state: State, obs: SeveralObservation) -> tuple[MachineState, ...]:
        return tuple(one.init(model, state, obs.of(k)) for k, one in enumerate(self.members))

    def update(
        self,
        memory: tuple[MachineState, ...],
        model: Model,
        state: State,
        obs: SeveralObservation,
        dt: Array,
    ) -> tuple[tuple[MachineState, ...], tuple[Any, ...]]:
        found = [
            one.update(memory[k], model, state, obs.of(k), dt) for k, one in enumerate(self.members)
        ]
        memories, commands = zip(*found)
        return memories, commands

    def inner_memory(self, memory: tuple[MachineState, ...]) -> MachineState:
        return memory[0]

    def inner_scheme(self, scheme: SeveralCharacters) -> PerStepOptimisation:
        return scheme.of_one(0)

    def inner_frames(
        self, scheme: SeveralCharacters, model: Model, frames: Any, time: np.ndarray
    ) -> Any:
        """Frames with the effectors of the first character alone."""
        count = scheme.of_one(0).effectors.count
        return SimpleNamespace(
            **{name: getattr(frames, name)[:, :count] for name in ("contact_pos", "contact_force")},
            **{name: getattr(frames, name) for name in ("link_pos", "link_quat", "phase", "since")},
            more={**frames.more, "sliding": frames.more["sliding"][:, :count]},
        )


def asks_for_hands(obs: EffectorObservation, _: Any) -> Array:
    """Mask (nc,) of the hand holds that should exist now.

    A hand hold is requested where one of both characters moves faster than ``FALLING``; an existing
    one continues.
    """
    clasps = obs.conf.clasps
    if clasps is None:
        return jnp.zeros(0, bool)
    asked = []
    for a, _, b, _ in clasps.clasps.ends:
        if obs.me not in (a, b) or not obs.company:
            asked.append(jnp.zeros((), bool))
            continue
        fast = [safe_norm(obs.company[k].com_velocity[:2]) > FALLING for k in (a, b)]
        asked.append(fast[0] | fast[1])
    return jnp.stack(asked) | clasps.memory.on


def hold_hands() -> Goal:
    """Move each hand to the hand of another character that it may hold.

    Applies while ``asks_for_hands`` and the other hand is in the arm's reach; hands that hold each
    other stay where they are, with less weight (``STEADY``).
    """

    def rows(obs: EffectorObservation, variables: Any):
        conf, clasps = obs.conf, obs.conf.clasps
        if clasps is None:
            raise ValueError("the goal 'hold_hands' needs hands of others; give the scene a clasp")
        asked = asks_for_hands(obs, variables)
        errors, Js = [], []
        for c, (a, hand, b, theirs) in enumerate(clasps.clasps.ends):
            if obs.me not in (a, b):
                continue
            if obs.me == b:
                hand, theirs, b = theirs, hand, a
            to = obs.company[b]
            near = reachable_points(obs, ARMS, to.position[theirs][None])[hand, 0]
            held, reaches = clasps.memory.on[c], asked[c] & near
            away = conf.position[hand] - to.position[theirs]
            errors.append(jnp.where(reaches & ~held, away, 0.0))
            size = jnp.where(held, STEADY, jnp.where(reaches, 1.0, 0.0))
            Js.append(size * conf.jacobian[hand])
        if not errors:
            return jnp.zeros(0, conf.q.dtype), jnp.zeros((0, conf.v.shape[0]), conf.q.dtype)
        return jnp.concatenate(errors), jnp.concatenate(Js)

    return Goal("hold_hands", "limb", rows)
