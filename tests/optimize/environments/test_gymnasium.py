"""The faces for gymnasium."""

import warnings

import numpy as np
import pytest

pytest.importorskip("gymnasium")
from gymnasium.utils.env_checker import check_env
from gymnasium.wrappers.vector import RecordEpisodeStatistics

from optimize.environments.gymnasium import GymOne, GymVector


def test_one_character_passes_the_checker(planar):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of spaces without bounds
        check_env(GymOne(planar), skip_render_check=True)


def test_a_batch_steps_begins_anew_and_repeats_itself(planar):
    envs = RecordEpisodeStatistics(GymVector(planar, 4))
    seen, _ = envs.reset(seed=1)
    assert seen.shape == envs.observation_space.shape and seen in envs.observation_space
    envs.action_space.seed(0)
    ended = 0
    for _ in range(planar.limit + 1):
        seen, reward, terminated, truncated, info = envs.step(envs.action_space.sample())
        assert seen in envs.observation_space and reward.shape == (4,)
        over = terminated | truncated
        ended += over.sum()
        if over.any():
            assert np.array_equal(info["_final_obs"], over) and "episode" in info
            k = int(np.argmax(over))
            assert info["final_obs"][k].shape == seen[k].shape
            assert not np.array_equal(info["final_obs"][k], seen[k])
    assert ended >= 4
    again, _ = envs.reset(seed=1)
    other, _ = envs.reset(seed=2)
    first, _ = envs.reset(seed=1)
    assert np.array_equal(first, again) and not np.array_equal(first, other)


def test_bad_use_is_named(planar):
    envs = GymVector(planar, 4)
    with pytest.raises(RuntimeError, match="call reset before step"):
        envs.step(np.zeros((4, 15), np.float32))
    envs.reset(seed=0)
    with pytest.raises(ValueError, match=r"shape \(4, 3\); give \(4, 15\)"):
        envs.step(np.zeros((4, 3), np.float32))
    one = GymOne(planar)
    with pytest.raises(RuntimeError, match="call reset before step"):
        one.step(np.zeros(15))
    one.reset(seed=0)
    with pytest.raises(ValueError, match=r"shape \(3,\); of this environment it has \(15,\)"):
        one.step(np.zeros(3))
