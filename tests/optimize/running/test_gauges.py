"""What a controller watches and follows, from the simulation to the files."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from controllers.pose.registered import Limp
from jaxsim.io.motion_file import load_motion
from jaxsim.model import ModelBuilder, box, free, neutral_state, plane
from jaxsim.simulation.records import no_control
from jaxsim.viewer import read_page
from optimize.running.simulate import simulate, write_simulation
from optimize.scenarios.build import Gripping


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Watching(Limp):
    """A limp box that knows how far it fell [m], and where it was to be: still."""

    def init(self, model, state, obs):
        return obs.com[2] - obs.com[2], obs.com[2]

    def update(self, memory, model, state, obs, dt):
        return (memory[1] - obs.com[2], memory[1]), no_control(model)

    def gauges(self, memory):
        fallen = memory[0]
        return {"height": memory[1] - fallen, "deep": fallen > 0.01, "fallen": fallen}

    def gauge_limits(self):
        return {"fallen": ("m", (0.001, 0.01))}

    def reference_poses(self, model, time):
        pos = np.zeros((len(time), model.topology.n_links, 3))
        pos[:, :, 2] = 1.0
        return pos, np.broadcast_to([1.0, 0.0, 0.0, 0.0], (*pos.shape[:2], 4))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Wrong(Watching):
    def gauge_limits(self):
        return {"fallne": ("m", ())}


def falling_box():
    b = ModelBuilder()
    b.add_link("box", "world", mass=1.0, inertia=[0.01] * 3, joints=[free("box")])
    b.add_shape("box", box([0.1] * 3))
    b.add_shape("world", plane())
    model = b.build()
    state = neutral_state(model)
    return model, state.replace(q=state.q.at[2].set(1.0))


def test_gauges_and_ghost_go_from_the_controller_to_page_and_file(tmp_path):
    model, state = falling_box()
    run = simulate(model, Watching(), start=state, seconds=0.1, dt=0.001)
    motion = run.motion
    assert list(motion.gauges) == ["fallen", "deep", "height"]  # those with limits first
    gauge = motion.gauges["fallen"]
    assert (gauge.unit, gauge.thresholds) == ("m", (0.001, 0.01))
    np.testing.assert_allclose(gauge.values, 1.0 - motion.link_pos[:, 0, 2], atol=1e-6)
    assert gauge.values[-1] == pytest.approx(0.5 * 9.81 * 0.1**2, rel=0.02)
    deep = motion.gauges["deep"]
    assert deep.is_strip and deep.values.any()
    np.testing.assert_array_equal(deep.values, gauge.values > 0.01)
    assert motion.ghost_pos is not None
    np.testing.assert_array_equal(motion.ghost_pos[:, 0], [[0.0, 0.0, 1.0]] * motion.n_frames)
    write_simulation(tmp_path, run)
    assert list(load_motion(tmp_path / "trajectory.npz").gauges) == ["fallen", "deep", "height"]
    data = read_page(tmp_path / "motion.html")
    assert data["gauge_values"].shape[1] == 2 and data["ghost_pos"].shape[1:] == (1, 3)
    assert not any("gauge" in key or "ghost" in key for key in run.summary)


def test_limits_need_a_gauge():
    model, state = falling_box()
    with pytest.raises(
        ValueError, match="gauge_limits has 'fallne'; gauges has height, deep, fallen"
    ):
        simulate(model, Wrong(), start=state, seconds=0.01, dt=0.001)


def test_a_controller_with_grips_offers_what_the_one_inside_does():
    model, _ = falling_box()
    none = jnp.zeros(0)
    inner, memory, time = Watching(), (jnp.asarray(0.5), jnp.asarray(1.0)), np.zeros(3)
    holding, limp = Gripping(inner, none, none), Gripping(Limp(), none, none)
    assert holding.gauges(memory) == inner.gauges(memory) and limp.gauges(None) == {}
    assert holding.gauge_limits() == inner.gauge_limits() and limp.gauge_limits() == {}
    assert holding.reference_poses(model, time)[0].shape == (3, 1, 3)
    assert limp.reference_poses(model, time) is None
