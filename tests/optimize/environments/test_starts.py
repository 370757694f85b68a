"""Episodes that begin in states of another motion."""

from dataclasses import replace

import numpy as np
import pytest

from jaxsim.io.motion import Motion
from jaxsim.io.motion_file import save_motion
from jaxsim.io.toml_table import WorldError
from optimize.environments.table import environment_of
from optimize.scenarios.find import scenario

pytestmark = pytest.mark.usefixtures("x64_module")
FRAMES, TRIALS, SPREAD = 5, 16, 0.05
SCENE = """
[character]
model = "planar_human"
start = "sitting"
chair_height = 0.45
[environment]
pose = "standing"
starts = "up.npz"
trials = 16
spread = [0.05, 0.3]
reward = { risen = 1.0 }
"""


def recorded(model, q, qd):
    """A motion of which only the states matter."""
    top, n = model.topology, len(q)
    return Motion(
        title="up",
        link_names=top.link_names,
        joint_names=top.actuated_dof_names,
        phase_names=(),
        shapes=(),
        time=0.1 * np.arange(n),
        q=q,
        qd=qd,
        link_pos=np.zeros((n, top.n_links, 3)),
        link_quat=np.tile([1.0, 0.0, 0.0, 0.0], (n, top.n_links, 1)),
        contact_pos=np.zeros((n, 0, 3)),
        contact_force=np.zeros((n, 0, 3)),
        phase=np.full(n, -1),
        torque=np.zeros((n, len(top.actuated_dofs))),
        torque_limit=np.ones(len(top.actuated_dofs)),
        heights={},
        planar=True,
    )


@pytest.fixture
def folder(tmp_path):
    """A scenario, and a motion from the chair to where it stands 0.5 m ahead."""
    (tmp_path / "up.toml").write_text(SCENE)
    human = scenario("planar_human")
    up = np.linspace(0.0, 1.0, FRAMES)[:, None]
    q = np.asarray(human.state.q) + up * np.eye(len(human.state.q))[0] * 0.5
    qd = np.full((FRAMES, len(human.state.qd)), 0.1) * up
    motion = recorded(human.model, q, qd)
    save_motion(tmp_path / "up.npz", motion)
    return tmp_path, motion


def test_half_begin_as_the_scenario_does_and_half_in_the_states(folder):
    path, motion = folder
    env = environment_of(scenario(path / "up.toml"))
    starts, _ = env.beginnings
    assert len(starts.q) == TRIALS
    chair = np.asarray(env.problem.scenario.state.q)
    np.testing.assert_array_equal(starts.q[0], chair)  # the first beginning has no deviation
    # joints deviate by normal numbers, angles by 0.05 rad and rates by 0.3 rad/s
    assert np.abs(starts.q[: TRIALS // 2, 3:] - chair[3:]).max() < 5 * SPREAD
    frames = np.arange(TRIALS // 2) * FRAMES // (TRIALS // 2)
    assert set(frames) == set(range(FRAMES))
    off = starts.q[TRIALS // 2 :] - motion.q[frames]
    assert 0 < np.abs(off[:, 3:]).max() < 5 * SPREAD
    assert len(np.unique(off[:, 3])) == TRIALS // 2, "each has a deviation of its own"
    rates = starts.qd[TRIALS // 2 :] - motion.qd[frames]
    assert 0 < np.abs(rates).max() < 1.5


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"starts": '"none.npz"'}, r"key 'starts': .*none.npz"),
        ({"starts": '"up.toml"'}, r"key 'starts': .*up.toml is not a motion file"),
    ],
)
def test_what_is_not_there_is_told_by_key(folder, change, told):
    path, _ = folder
    lines = (path / "up.toml").read_text().splitlines()
    for key, value in change.items():
        lines = [f"{key} = {value}" if line.startswith(key) else line for line in lines]
    (path / "up.toml").write_text("\n".join(lines))
    with pytest.raises(WorldError, match=told):
        environment_of(scenario(path / "up.toml"))


def test_a_motion_of_another_body_is_refused(folder):
    path, motion = folder
    other = replace(motion, joint_names=tuple(f"joint_{k}" for k in range(15)))
    save_motion(path / "up.npz", other)
    with pytest.raises(WorldError, match=r"key 'starts': up.npz is of another body: .*joint_0"):
        environment_of(scenario(path / "up.toml"))
    save_motion(path / "up.npz", replace(motion, q=motion.q[:, 1:]))
    with pytest.raises(WorldError, match=r"key 'starts': up.npz is of another body"):
        environment_of(scenario(path / "up.toml"))


def test_states_that_are_not_finite_are_refused(folder):
    path, motion = folder
    qd = motion.qd.copy()
    qd[2, 4] = np.nan
    save_motion(path / "up.npz", replace(motion, qd=qd))
    with pytest.raises(WorldError, match=r"key 'starts': up.npz has no states, or some"):
        environment_of(scenario(path / "up.toml"))
