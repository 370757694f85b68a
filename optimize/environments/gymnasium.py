"""Environments for gymnasium: a batch as a ``VectorEnv``, one character as an ``Env``.

    envs = GymVector(as_env(problem, ...), members=64)
    seen, info = envs.reset(seed=0)
    seen, reward, terminated, truncated, info = envs.step(envs.action_space.sample())

It needs gymnasium: pip install "jaxsim-characters[rl]".
"""

from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxsim.fused import choose_backend, fuse
from optimize.environments.draws import member_keys
from optimize.environments.environment import Environment
from optimize.environments.records import EnvState, EnvStep

try:
    import gymnasium
    from gymnasium.spaces import Box
    from gymnasium.vector import AutoresetMode, VectorEnv
    from gymnasium.vector.utils import batch_space
except ImportError as error:
    raise ImportError('this needs gymnasium: pip install "jaxsim-characters[rl]"') from error


def spaces(env: Environment) -> tuple[Box, Box]:
    """Observation and action space of one character; actions are from -1 to 1."""
    dtype = np.dtype(env.model.mass.dtype).type
    seen = Box(-np.inf, np.inf, (env.observation_size,), dtype)
    return seen, Box(-1.0, 1.0, (env.action_size,), dtype)


class GymVector(VectorEnv):
    """Vector environment of gymnasium: ``members`` characters that step together.

    backend: "fused" or "xla". autoreset: what follows the end of an episode, as
    ``gymnasium.vector.AutoresetMode`` has it. "NextStep": the next step begins a new one, whatever
    the action, for no reward. "SameStep": the same step does, and ``info["final_obs"]`` has the
    last observation. "Disabled": nothing, and ``reset(options={"reset_mask": ended})`` begins those
    of a mask (members,).
    """

    metadata = {"render_modes": []}  # noqa: RUF012

    def __init__(
        self,
        env: Environment,
        members: int,
        backend: str = "fused",
        autoreset: str | AutoresetMode = AutoresetMode.NEXT_STEP,
    ):
        self.env, self.num_envs, self.autoreset = env, members, AutoresetMode(autoreset)
        self.metadata = {**type(self).metadata, "autoreset_mode": self.autoreset}
        self.single_observation_space, self.single_action_space = spaces(env)
        self.observation_space = batch_space(self.single_observation_space, members)
        self.action_space = batch_space(self.single_action_space, members)
        step: Any = {
            AutoresetMode.NEXT_STEP: self._begun_or_stepped,
            AutoresetMode.SAME_STEP: env.step_on,
            AutoresetMode.DISABLED: env.step,
        }[self.autoreset]
        fused = choose_backend(backend) == "fused"
        self._step = fuse(step) if fused else jax.jit(jax.vmap(step))
        self._begin = jax.jit(jax.vmap(env.reset))
        self._at: Any = None  # an EnvState
        self._ended = np.zeros(members, bool)  # by the last step

    def reset(self, *, seed: int | None = None, options: dict | None = None):
        """Begin all episodes, or with the option "reset_mask" (members,) bool some.

        Without a seed by a random one. Raises TypeError and ValueError for an invalid mask,
        RuntimeError for one before all have begun.
        """
        super().reset(seed=seed, options=options)
        self.np_random  # noqa: B018  drawn now if none was given
        chosen = int(self.np_random.integers(2**32)) if seed is None else seed
        begun = self._begin(member_keys(chosen, self.num_envs))
        mask = (options or {}).get("reset_mask")
        if mask is None:
            self._at, self._ended = begun, np.zeros(self.num_envs, bool)
        else:
            mask = self._checked_mask(mask)
            self._at = jax.tree.map(partial(_where, mask), begun, self._at)
            self._ended = self._ended & ~mask
        return np.array(self._at.observation), {}

    def step(self, actions: Any):
        """Step all members by actions (members, na); see ``Environment.step``.

        Raises ValueError for another shape, RuntimeError before the first ``reset``, and with
        "Disabled" after the end of an episode.
        """
        if self._at is None:
            raise RuntimeError("call reset before step")
        actions = np.asarray(actions)
        if actions.shape != self.action_space.shape:
            raise ValueError(
                f"the actions have shape {actions.shape}; give {self.action_space.shape}"
            )
        actions = jnp.asarray(actions, self.env.model.mass.dtype)
        if self.autoreset is AutoresetMode.NEXT_STEP:
            self._at, outcome = self._step(self._at, actions, jnp.asarray(self._ended))
        elif self.autoreset is AutoresetMode.DISABLED and self._ended.any():
            raise RuntimeError(
                f"the episodes of members {np.flatnonzero(self._ended)[:8].tolist()} have ended;"
                ' begin them with reset(options={"reset_mask": ...})'
            )
        else:
            self._at, outcome = self._step(self._at, actions)
        self._ended = np.asarray(outcome.done | outcome.truncated)
        info: dict[str, Any] = {}
        if self.autoreset is AutoresetMode.SAME_STEP and self._ended.any():
            last = np.full(self.num_envs, None, object)
            for k in np.flatnonzero(self._ended):
                last[k] = np.array(outcome.observation[k])
            info = {"final_obs": last, "_final_obs": self._ended}
        arrays = self._at.observation, outcome.reward, outcome.done, outcome.truncated
        return (*map(np.array, arrays), info)

    def _begun_or_stepped(
        self, at: EnvState, action: Array, ended: Array
    ) -> tuple[EnvState, EnvStep]:
        """Step, or the initial state of the next episode where the last step ended one."""
        after, told = self.env.step(at, action)
        begun = self.env.renewed(at, replace(told, done=ended, truncated=ended))
        after = jax.tree.map(lambda new, old: jnp.where(ended, new, old), begun, after)
        still = jax.tree.map(lambda x: jnp.where(ended, jnp.zeros_like(x), x), told)
        return after, replace(still, observation=after.observation)

    def _checked_mask(self, mask: Any) -> np.ndarray:
        if self._at is None:
            raise RuntimeError("call reset before a reset with a mask")
        if not (isinstance(mask, np.ndarray) and mask.dtype == bool):
            raise TypeError(f"reset_mask is {mask!r}; give a NumPy array of bool")
        if mask.shape != (self.num_envs,) or not mask.any():
            raise ValueError(
                f"reset_mask has shape {mask.shape} and {mask.sum()} members; give"
                f" ({self.num_envs},), one of them at least"
            )
        return mask


def _where(mask: np.ndarray, new: Array, old: Array) -> Array:
    """New rows for the members of a mask, old rows for the others."""
    return jnp.where(mask.reshape(-1, *(1 for _ in new.shape[1:])), new, old)


class GymOne(gymnasium.Env):
    """Environment of gymnasium for one character. backend: see ``GymVector``."""

    metadata = {"render_modes": []}  # noqa: RUF012
    render_mode = None

    def __init__(self, env: Environment, backend: str = "fused"):
        self.env = env
        self.observation_space, self.action_space = spaces(env)
        fused = choose_backend(backend) == "fused"
        self._step = fuse(env.step) if fused else jax.jit(jax.vmap(env.step))
        self._begin = jax.jit(jax.vmap(env.reset))
        self._at: Any = None  # an EnvState

    def reset(self, *, seed: int | None = None, options: dict | None = None):
        """Begin an episode."""
        super().reset(seed=seed)
        self._at = self._begin(member_keys(int(self.np_random.integers(2**32)), 1))
        return np.array(self._at.observation[0]), {}

    def step(self, action: Any):
        """Step by an action (na,). Raises RuntimeError before the first ``reset``."""
        if self._at is None:
            raise RuntimeError("call reset before step")
        action = jnp.asarray(action, self.env.model.mass.dtype)[None]
        self._at, told = self._step(self._at, action)
        seen, done, late = (np.array(x[0]) for x in (told.observation, told.done, told.truncated))
        return seen, float(told.reward[0]), bool(done), bool(late), {}
