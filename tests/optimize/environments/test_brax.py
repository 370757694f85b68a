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


def test_an_action_of_another_size_is_named(planar):
    env = BraxEnv(planar)
    state = jax.eval_shape(env.reset, jax.random.PRNGKey(0))
    with pytest.raises(ValueError, match=r"shape \(3,\); of this environment it has \(15,\)"):
        jax.eval_shape(env.step, state, jnp.zeros(3))


def test_its_own_ppo_runs(planar):
    """Three updates: the trainer takes the environment as it is, and tells finite numbers."""
    training()
    from brax.training.agents.ppo import train as ppo

    updates, told = [], {}
    make_policy, params, _ = ppo.train(
        environment=BraxEnv(planar),
        num_timesteps=3 * 64 * 8,
        episode_length=6,
        num_envs=64,
        batch_size=32,
        num_minibatches=2,
        unroll_length=8,
        num_evals=4,
        run_evals=False,
        normalize_observations=True,
        progress_fn=lambda actions, found: told.update(found),
        policy_params_fn=lambda actions, make, params: updates.append((actions, params)),
    )
    assert [actions for actions, _ in updates] == [0, 512, 1024, 1536]
    before, after = (jax.tree.leaves(updates[k][1][1]) for k in (0, -1))
    assert all(np.isfinite(x).all() for x in after)
    assert any((x != y).any() for x, y in zip(before, after))
    assert np.isfinite(told["training/total_loss"])
    action, _ = make_policy(params, deterministic=True)(
        jnp.zeros((2, planar.observation_size)), jax.random.PRNGKey(0)
    )
    assert action.shape == (2, planar.action_size) and np.isfinite(action).all()


def test_members_of_a_batch_step_as_one_kernel(planar):
    """Also within the wrappers and the loop that brax's trainers have about it."""
    from brax.envs.wrappers.training import wrap

    env = wrap(BraxEnv(planar), episode_length=6, action_repeat=1)

    def several(state, actions):
        return jax.lax.scan(lambda state, a: (env.step(state, a), None), state, actions)[0]

    state = jax.eval_shape(env.reset, jax.ShapeDtypeStruct((4, 2), jnp.uint32))
    held = jax.ShapeDtypeStruct((3, 4, env.action_size), jnp.float32)
    text = str(jax.make_jaxpr(several)(state, held))
    assert text.count("fused[") == 1 and "batch=4" in text


@pytest.mark.slow
def test_its_own_ppo_learns_to_walk_as_well():
    """To the return of PPO here after half as many actions; all but a few walk for all of an
    episode."""
    from benchmarks._brax_ppo import STARTS, Race

    here = Race("walk_policy", seed=0, updates=150, checks=3).ours()[-1]
    brax = Race("walk_policy", seed=0, updates=300, checks=2).theirs()[-1]
    assert brax["actions"] == 2 * here["actions"] == 300 * 256 * 32
    assert brax["return"] > 0.9 * here["return"] > 400
    assert min(brax["whole"], here["whole"]) > 0.9 * STARTS
