"""What ``simulate`` and ``tune`` cannot work with is told before they begin."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxsim.characters.planar_human import planar_human
from jaxsim.model import ModelError, neutral_state
from optimize.running.simulate import simulate
from optimize.tuning.tune import tune

HUMAN = planar_human()
STATE = neutral_state(HUMAN)
BATCH = jax.tree.map(lambda x: jnp.broadcast_to(x, (3, *x.shape)), STATE)
MANY = HUMAN.replace(mass=jnp.ones((3, 16)))


@pytest.mark.parametrize(
    "script, options, error, words",
    [
        (None, {}, TypeError, "what is None; expected a Scenario or Script or str or PathLike"),
        (
            "walk",
            {"start": BATCH},
            ModelError,
            "state.q has shape (3, 18), expected (18,): a",
        ),
        ("walk", {"start": np.zeros(18)}, TypeError, "start is an array of shape (18,); expected"),
        ("walk", {"controller": 3}, TypeError, "controller"),
        (
            "walk",
            {"start": neutral_state(HUMAN).replace(qd=np.zeros(3, np.float32))},
            ModelError,
            "state.qd has shape (3,), expected (18,)",
        ),
        (MANY, {}, ModelError, "model.mass has shape (3, 16), expected (16,): a"),
        ("walk", {"dt": np.full(3, 1e-3)}, ValueError, "dt is array([0.001"),
        ("walk", {"dt": np.nan}, ValueError, "dt is nan s; give a number from 1e-06 to 0.05 s"),
        ("walk", {"dt": 0}, ValueError, "dt is 0 s; give a number from 1e-06 to 0.05 s"),
        ("walk", {"objective": 3}, TypeError, "objective is 3; expected an Objective or str"),
        ("walk", {"backend": "cuda"}, ValueError, "backend is 'cuda'; choose from"),
    ],
)
def test_simulate(script, options, error, words):
    with pytest.raises(error, match=re.escape(words)):
        simulate(script, **options)


def test_a_state_in_another_precision_than_the_session():
    with jax.enable_x64(True), pytest.raises(ModelError, match=r"state.q has dtype float32"):
        simulate("walk", start=STATE)


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"scenario": 3}, "scenario is 3; expected a str or PathLike or Scenario"),
        (
            {"objective": 3},
            "objective is 3; give a name, an Objective, a Term or a function",
        ),
        ({"out": None}, "out is None; expected a str or PathLike: the folder"),
        ({"set": STATE}, "set is a State; expected a Mapping"),
        ({"numbers": ["model.mass[0]"]}, "numbers is a list; expected a Mapping from a path"),
    ],
)
def test_tune(changes, words, tmp_path):
    given = {"scenario": "sit_to_stand_quick", "objective": "quick-rise", "out": tmp_path / "run"}
    with pytest.raises(TypeError, match=re.escape(words)):
        tune(**(given | changes))
    assert not (tmp_path / "run").exists()
