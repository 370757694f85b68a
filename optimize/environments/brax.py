"""Environments for brax: its wrappers and trainers take them as they are.

    from optimize.environments.brax import BraxEnv, training

    training()  # before brax.training is imported with a JAX of 0.10 or newer
    from brax.training.agents.ppo import train as ppo

    ppo.train(environment=BraxEnv(as_env(problem, ...)), ...)

It needs brax: pip install "jaxsim-characters[rl]".
"""

from typing import Any

import jax
import jax.numpy as jnp

from jaxsim.fused import choose_backend
from jaxsim.fused.fuse import fuse_one
from optimize.environments.environment import Environment

try:
    from brax.envs.base import Env, State
except ImportError as error:
    raise ImportError('this needs brax: pip install "jaxsim-characters[rl]"') from error


class BraxEnv(Env):
    """Environment of brax for one character.

    brax's wrappers batch it, end its episodes by time, and restart them, so the environment's own
    ``seconds`` do not count here. A batch of steps is one fused kernel.
    """

    def __init__(self, env: Environment, backend: str = "fused"):
        self.env = env
        fused = choose_backend(backend) == "fused"
        self._step = fuse_one(env.step) if fused else env.step
        self._names = tuple(jax.eval_shape(env.step, *_shapes(env))[1].parts)

    def reset(self, rng: jax.Array) -> State:
        """Begin an episode by a random key."""
        zero = jnp.zeros((), self.env.model.mass.dtype)
        at = self.env.reset(jax.random.bits(rng))
        held: Any = at
        return State(held, at.observation, zero, zero, {name: zero for name in self._names})

    def step(self, state: State, action: jax.Array) -> State:
        """Hold an action; metrics are the parts of the reward."""
        held: Any = state.pipeline_state
        at, told = self._step(held, action)
        done = jnp.where(told.done, 1.0, 0.0).astype(told.reward.dtype)
        return state.replace(  # type: ignore[attr-defined]
            pipeline_state=at,
            obs=told.observation,
            reward=told.reward,
            done=done,
            metrics={**state.metrics, **told.parts},
        )

    @property
    def observation_size(self) -> int:
        """Size no of an observation."""
        return self.env.observation_size

    @property
    def action_size(self) -> int:
        """Size na of an action, each element from -1 to 1."""
        return self.env.action_size

    @property
    def backend(self) -> str:
        """Name of the simulation: none of brax's back ends."""
        return "jaxsim"

    @property
    def dt(self) -> float:
        """Time for which an action is held [s]."""
        return self.env.dt


def _shapes(env: Environment):
    at = jax.eval_shape(env.reset, jax.ShapeDtypeStruct((), jnp.uint32))
    return at, jax.ShapeDtypeStruct((env.action_size,), env.model.mass.dtype)


def training() -> None:
    """Restore ``jax.device_put_replicated``, which JAX 0.10 removed and brax 0.14 calls.

    See google/brax#671. Raises ImportError, naming the versions, where another part of JAX that the
    trainers need is gone.
    """
    if not hasattr(jax, "device_put_replicated"):
        jax.device_put_replicated = _replicated  # type: ignore[attr-defined]
    try:
        import brax.training.agents.ppo.train  # noqa: F401
    except (ImportError, AttributeError) as error:
        from importlib.metadata import version

        raise ImportError(
            f"the trainers of brax {version('brax')} do not run with JAX {jax.__version__}"
            f" ({error}); train with jaxsim learn, or install another of both"
        ) from error


def _replicated(tree, devices):
    """Replicate leaves along a new first axis of the devices, a copy on each."""
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    sharding = NamedSharding(Mesh(devices, ("device",)), PartitionSpec("device"))
    stacked = jax.tree.map(lambda x: jnp.stack([jnp.asarray(x)] * len(devices)), tree)
    return jax.device_put(stacked, sharding)
