"""A thousand members of a user's own controller, and the motion of the best one."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from controllers import Controller
from jaxsim.characters.planar_human import planar_human
from jaxsim.simulation.measures import largest
from jaxsim.simulation.records import Control
from optimize.running.simulate_batch import simulate_batch


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Swing(Controller):
    """Torques that swing."""

    size: jax.Array  # () [N m]

    def init(self, model, state, obs):
        return None

    def update(self, memory, model, state, obs, dt):
        on = jnp.zeros(model.topology.nv).at[model.topology.actuated_dofs].set(1.0)
        torque = self.size * jnp.sin(6.0 * state.time) * on
        return None, Control(torque=torque, damping=jnp.zeros_like(torque))


@pytest.fixture(scope="module")
def runs():
    sizes = jnp.linspace(-20.0, 20.0, 1000).at[7].set(jnp.nan)
    head = largest(lambda sample: sample.obs.kin.com[0, 2])
    return simulate_batch(planar_human(), Swing(sizes), seconds=0.06, measures={"head": head})


def test_measures_are_told_of_every_member(runs):
    assert len(runs) == 1000
    assert {name: x.shape for name, x in runs.measures.items()} == {
        "distance": (1000,),
        "final_com_height": (1000,),
        "head": (1000,),
    }
    assert np.unique(runs.measures["distance"]).size > 900


def test_one_that_fails_is_named_and_poisons_no_other(runs):
    assert [failure.member for failure in runs.failed] == [7]
    good = np.delete(runs.measures["distance"], 7)
    assert np.isfinite(good).all()


def test_the_best_member_is_simulated_again(runs):
    index = runs.best_index("distance")
    best = runs.best("distance")
    assert index != 7 and best.scenario.controller.size == runs.controllers.size[index]
    assert best.summary["seconds"] == pytest.approx(0.06)
    moved = best.motion.com[-1, 0] - best.motion.com[0, 0]
    assert moved == pytest.approx(runs.measures["distance"][index], abs=2e-3)
    assert runs.best_index("distance", largest=False) != index


def test_mistakes_are_told(runs):
    with pytest.raises(KeyError, match="no measure 'far'; there are: distance"):
        runs.best("far")
    with pytest.raises(IndexError, match="no member 1000; there are 1000"):
        runs.member(1000)
    with pytest.raises(ValueError, match=r"same leading axis.*size \(\)"):
        simulate_batch(planar_human(), Swing(jnp.asarray(1.0)))
