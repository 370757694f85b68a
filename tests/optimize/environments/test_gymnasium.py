"""The faces for gymnasium."""

import warnings

import numpy as np
import pytest

pytest.importorskip("gymnasium")
from gymnasium.utils.env_checker import check_env
from gymnasium.wrappers import vector
from gymnasium.wrappers.vector import RecordEpisodeStatistics

from optimize.environments.gymnasium import GymOne, GymVector


def test_one_character_passes_the_checker(planar):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of spaces without bounds
        check_env(GymOne(planar), skip_render_check=True)


def test_a_batch_steps_begins_anew_and_repeats_itself(planar):
    envs = RecordEpisodeStatistics(GymVector(planar, 4, autoreset="SameStep"))
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


@pytest.fixture(scope="module")
def next_step(planar):
    return GymVector(planar, 4)


def test_the_next_step_begins_the_next_episode(planar, next_step):
    """As gymnasium's own vectors do: its wrappers for these step, and count right."""
    envs, actions = next_step, np.zeros((4, planar.action_size), np.float32)
    first, _ = envs.reset(seed=1)
    for _ in range(planar.limit):
        last, reward, terminated, truncated, info = envs.step(actions)
        assert not info and (reward != 0).all()
    over = terminated | truncated
    assert over.any()
    seen, reward, terminated, truncated, _ = envs.step(actions)
    assert (reward[over] == 0).all() and not (terminated | truncated)[over].any()
    assert not np.array_equal(seen[over], last[over])
    assert np.array_equal(seen[over][:, -2:], first[over][:, -2:])  # the clock begins anew
    assert not np.array_equal(last[over][:, -2:], first[over][:, -2:])
    after, reward, *_ = envs.step(actions)
    assert (reward[over] != 0).all() and not np.array_equal(after[over], seen[over])


@pytest.mark.parametrize("name", ["RecordEpisodeStatistics", "NormalizeObservation",
                                  "NormalizeReward", "ClipAction"])  # fmt: skip
def test_wrappers_of_gymnasium_step(name, planar, next_step):
    envs = getattr(vector, name)(next_step)
    seen, _ = envs.reset(seed=0)
    lengths = []
    for _ in range(planar.limit + 2):
        seen, *_, info = envs.step(np.zeros((4, planar.action_size), np.float32))
        lengths += info["episode"]["l"][info["_episode"]].tolist() if "episode" in info else []
    assert np.isfinite(seen).all()
    assert not lengths or max(lengths) == planar.limit


def test_without_automatic_resets_a_mask_begins_anew(planar):
    envs = GymVector(planar, 4, autoreset="Disabled")
    with pytest.raises(RuntimeError, match="call reset before"):
        envs.reset(options={"reset_mask": np.ones(4, bool)})
    actions = np.zeros((4, planar.action_size), np.float32)
    envs.reset(seed=1)
    for _ in range(planar.limit):
        seen, _, terminated, truncated, _ = envs.step(actions)
    over = terminated | truncated
    assert over.all()
    with pytest.raises(RuntimeError, match=r"of members \[0, 1, 2, 3\] have ended"):
        envs.step(actions)
    some = np.array([True, False, True, False])
    begun, _ = envs.reset(options={"reset_mask": some})
    assert np.array_equal(begun[~some], seen[~some])
    assert (begun[some] != seen[some]).any(axis=1).all()
    with pytest.raises(RuntimeError, match=r"of members \[1, 3\] have ended"):
        envs.step(actions)
    envs.reset(options={"reset_mask": ~some})
    _, _, terminated, truncated, _ = envs.step(actions)
    assert not (terminated | truncated).any()
    for mask, error in (([True] * 4, TypeError), (np.ones(3, bool), ValueError)):
        with pytest.raises(error, match="reset_mask"):
            envs.reset(options={"reset_mask": mask})


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
