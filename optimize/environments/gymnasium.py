"""Environments for gymnasium: a batch as a ``VectorEnv``, one character as an ``Env``.

    envs = GymVector(as_env(problem, ...), members=64)
    seen, info = envs.reset(seed=0)
    seen, reward, terminated, truncated, info = envs.step(envs.action_space.sample())

It needs gymnasium: pip install "jaxsim-characters[rl]".
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxsim.fused import choose_backend, fuse
from optimize.environments.draws import member_keys
from optimize.environments.environment import Environment

try:
    import gymnasium
    from gymnasium.spaces import Box
    from gymnasium.vector import AutoresetMode, VectorEnv
    from gymnasium.vector.utils import batch_space
except ImportError as error:
    raise ImportError('this needs gymnasium: pip install "jaxsim-characters[rl]"') from error


def spaces(env: Environment) -> tuple[Box, Box]:
    """Of one character: what it observes, and actions from -1 to 1."""
    dtype = np.dtype(env.model.mass.dtype).type
    seen = Box(-np.inf, np.inf, (env.observation_size,), dtype)
    return seen, Box(-1.0, 1.0, (env.action_size,), dtype)


class GymVector(VectorEnv):
    """``members`` characters that step together; one whose episode ends begins the next in the same
    step, and ``info["final_obs"]`` has the last it saw. backend: "fused" or "xla"."""

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP, "render_modes": []}  # noqa: RUF012

    def __init__(self, env: Environment, members: int, backend: str = "fused"):
        self.env, self.num_envs = env, members
        self.single_observation_space, self.single_action_space = spaces(env)
        self.observation_space = batch_space(self.single_observation_space, members)
        self.action_space = batch_space(self.single_action_space, members)
        fused = choose_backend(backend) == "fused"
        self._step = fuse(env.step_on) if fused else jax.jit(jax.vmap(env.step_on))
        self._begin = jax.jit(jax.vmap(env.reset))
        self._at: Any = None  # an EnvState

    def reset(self, *, seed: int | None = None, options: dict | None = None):
        """Begin all episodes; without a seed by one that is drawn."""
        super().reset(seed=seed, options=options)
        self.np_random  # noqa: B018  drawn now if none was given
        chosen = int(self.np_random.integers(2**32)) if seed is None else seed
        self._at = self._begin(member_keys(chosen, self.num_envs))
        return np.array(self._at.observation), {}

    def step(self, actions: Any):
        """Actions (members, na); see ``Environment.step_on``. Raises ValueError for another
        shape, RuntimeError before the first ``reset``."""
        if self._at is None:
            raise RuntimeError("call reset before step")
        actions = np.asarray(actions)
        if actions.shape != self.action_space.shape:
            raise ValueError(
                f"the actions have shape {actions.shape}; give {self.action_space.shape}"
            )
        dtype = self.env.model.mass.dtype
        self._at, told = self._step(self._at, jnp.asarray(actions, dtype))
        ended = np.asarray(told.done | told.truncated)
        info: dict[str, Any] = {}
        if ended.any():
            last = np.full(self.num_envs, None, object)
            for k in np.flatnonzero(ended):
                last[k] = np.array(told.observation[k])
            info = {"final_obs": last, "_final_obs": ended}
        found = self._at.observation, told.reward, told.done, told.truncated
        return (*map(np.array, found), info)


class GymOne(gymnasium.Env):
    """One character. backend: see ``GymVector``."""

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
        """An action (na,). Raises RuntimeError before the first ``reset``."""
        if self._at is None:
            raise RuntimeError("call reset before step")
        action = jnp.asarray(action, self.env.model.mass.dtype)[None]
        self._at, told = self._step(self._at, action)
        seen, done, late = (np.array(x[0]) for x in (told.observation, told.done, told.truncated))
        return seen, float(told.reward[0]), bool(done), bool(late), {}
