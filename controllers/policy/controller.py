"""Controller of a policy: it observes and acts at its own rate, and repeats actions meanwhile."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from controllers.controller import Controller
from controllers.policy.actions import Action, held_control
from controllers.policy.network import Network
from controllers.policy.observations import Part, observation_vector
from controllers.policy.view import PolicyInput
from controllers.tracking.track import Track
from jaxsim.model import Model, ModelError, State
from jaxsim.simulation.records import Control


class PolicyMemory(NamedTuple):
    """Memory between two steps: the present action and the time of the next."""

    action: Array  # (na,) present one
    due: Array  # () time of the next decision [s]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class PolicyController(Controller):
    """Policy in use: it takes the mean action, without noise.

    command: name -> () value, with the labels ``command.NAME``; pose, upright, height: see
    ``PolicyInput``; rate: of actions [1/s]; rest (nq,): pose that actions count from; track: poses
    of the clip that it was learned with.
    """

    network: Network
    pose: Array
    upright: Array
    height: Array
    command: Mapping[str, Array]
    rate: Array
    observation: tuple[Part, ...] = field(metadata={"static": True})
    action: Action
    rest: Array
    track: Track | None = None

    @property
    def labels(self) -> dict[str, str]:
        """Mapping from label to path, of the commands."""
        return {f"command.{name}": f"command.{name}" for name in self.command}

    def check(self, model: Model) -> None:
        """Raise ModelError unless network, observation and action have the sizes of this model."""
        size, outputs = self.action.size(model), self.network.layers[-1][1].shape[0]
        if size != outputs:
            raise ModelError(
                f"the policy drives {outputs} motors, and this character has {size}; it is one of"
                " another character"
            )
        if self.pose.shape != (model.topology.nq,):
            raise ModelError(
                f"the policy's pose has {self.pose.shape[0]} numbers, the model's"
                f" {model.topology.nq}; it is one of another character or scene"
            )

    def begun(self, model: Model, state: State) -> State:
        """Start of the motion: the clip's first pose, or without a clip the given state."""
        return state if self.track is None else self.track.begun(model, state)

    def init(self, model: Model, state: State, obs: Any) -> PolicyMemory:
        """Initial memory: no action, the first one due at once."""
        size = self.network.layers[-1][1].shape[0]
        return PolicyMemory(jnp.zeros(size, state.q.dtype), state.time)

    def update(
        self, memory: PolicyMemory, model: Model, state: State, obs: Any, dt: Array
    ) -> tuple[PolicyMemory, Control]:
        """Decide on an action if one is due, and apply the present one."""
        clip_pose = None if self.track is None else self.track.at(model, state.time)
        view = PolicyInput(
            model, state, obs, self.pose, self.upright, self.height, self.command, memory.action,
            clip_pose,
        )  # fmt: skip
        decided = PolicyMemory(
            self.network(observation_vector(self.observation, view)), memory.due + 1 / self.rate
        )
        due = state.time + 0.5 * dt >= memory.due
        # both are computed: in a kernel the network's loop cannot stand in a branch
        memory = jax.tree.map(lambda new, old: jnp.where(due, new, old), decided, memory)
        return memory, held_control(self.action, model, state, self.rest, self.track, memory.action)

    def reference_poses(
        self, model: Model, time: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Positions and quaternions of the clip's links at times (T,) [s].

        (T, nl, 3) [m] and (T, nl, 4); None without a clip.
        """
        return None if self.track is None else self.track.places(model, time)
