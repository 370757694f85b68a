"""The face for brax: its own wrappers, unmodified, and its trainer."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("brax")
from optimize.environments.brax import BraxEnv, training


def test_wrappers_batch_end_and_begin_anew(planar):
    from brax.envs.wrappers.training import wrap

    env = wrap(BraxEnv(planar), episode_length=3, action_repeat=1)
    state = jax.jit(env.reset)(jax.random.split(jax.random.PRNGKey(0), 4))
    assert state.obs.shape == (4, env.observation_size)
    step, first = jax.jit(env.step), state.obs
    for _ in range(3):
        state = step(state, jnp.zeros((4, env.action_size)))
        assert np.isfinite(state.reward).all()
    assert np.asarray(state.done).all() and np.asarray(state.info["truncation"]).all()
    np.testing.assert_allclose(state.obs, first, atol=1e-6)
    assert set(state.metrics) >= {"alive", "speed"}


@pytest.mark.slow
def test_its_own_ppo_runs(planar):
    training()
    from brax.training.agents.ppo import train as ppo

    _, _, metrics = ppo.train(
        environment=BraxEnv(planar),
        num_timesteps=2048,
        episode_length=6,
        num_envs=64,
        batch_size=32,
        num_minibatches=2,
        unroll_length=8,
        num_evals=1,
        num_eval_envs=8,
    )
    assert np.isfinite(metrics["eval/episode_reward"])
