"""Records of an environment, and the controller that holds an action."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
from jax import Array

from controllers.policy.actions import Action, held_control
from controllers.tracking.track import Track
from jaxsim.model import Model, State


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class EnvState:
    """State of an episode; of a batch with a leading axis."""

    state: State
    memory: Any  # of the scenario's controller, where that drives
    trial: Array  # () int32 which of the problem's trials it is
    command: Mapping[str, Array]  # name -> ()
    action: Array  # (na,) the last one
    com: Array  # (3,) where the centre of mass is [m]
    steps: Array  # () int32 actions since it began
    measured: Any  # of the problem's objective, where it is a reward
    key: Array  # () uint32 of the member
    count: Array  # () uint32 how many draws it has made
    observation: Array  # (no,) what the next action is chosen by


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class EnvStep:
    """Outcome of an action: observation, reward, and whether the episode ended."""

    observation: Array  # (no,) where the episode ended, the last one of it
    reward: Array  # () sum of the parts
    parts: Mapping[str, Array]  # name -> () with its weight
    done: Array  # () bool: it ended, by what it did
    truncated: Array  # () bool: it ended, by the time
    failed: Array  # () bool: it ended since a number was not finite, see ``step_with_faults``


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class HeldAction:
    """Controller that holds an action."""

    action: Array
    pose: Array
    track: Track | None
    kind: Action

    def init(self, model: Model, state: State, obs: Any) -> None:
        return None

    def update(self, memory: None, model: Model, state: State, obs: Any, dt: Array):
        return None, held_control(self.kind, model, state, self.pose, self.track, self.action)
