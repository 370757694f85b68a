"""Measures of a sweep: who stands, and that none of them changes another."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from controllers.pose.pd import PoseController
from jaxsim import articulated_human, planar_human, start
from jaxsim.characters.standing import above_standing, fallen_height, standing_height
from jaxsim.dynamics.kinematics import forward_kinematics
from jaxsim.model import ModelError
from jaxsim.simulation.measures import Measure, final
from optimize.problems.problem import Problem
from optimize.running.objectives import TERMS, Objective, Term
from optimize.running.simulate_batch import simulate_batch
from optimize.scenarios.find import scenario
from optimize.sweeps.measures import available, columns
from optimize.sweeps.sweep import sweep
from tests.optimize.sweeps.test_sweep import BALL

DROP = "state.qd[2]"
ODD = Term("odd", "", lambda model: final(lambda s: jnp.log(s.obs.com[2] - 0.7)))
FAR = Measure(jnp.zeros(()), lambda value, sample: value + 1.0)
SURVIVAL = ("survived", "toppled", "fallen")


@pytest.fixture(scope="module")
def ball(tmp_path_factory):
    path = tmp_path_factory.mktemp("ball") / "ball.toml"
    path.write_text(BALL)
    return scenario(path)


# ---- no measure changes another


@pytest.fixture(scope="module")
def every(ball):
    """Of a ball that stays, and one that is thrown down: it falls within the run."""
    asked = {name: available(ball)[name] for name in ("distance", "final_com_height", *SURVIVAL)}
    return sweep(ball, {DROP: [0.0, -30.0]}, measures={**asked, "odd": ODD, "steps": FAR})


@pytest.mark.parametrize("names", [["final_com_height"], ["survived"], ["fallen", "distance"]])
def test_a_measure_alone_is_what_it_is_among_all(ball, every, names):
    alone = sweep(ball, {DROP: [0.0, -30.0]}, measures=names)
    for name in names:
        np.testing.assert_array_equal(alone[name], every[name], err_msg=name)


def test_a_fall_ends_no_measure_but_those_of_survival(every):
    assert every["survived"].values.ravel().tolist() == [1.0, 0.0]
    assert every["toppled"].values.ravel().tolist() == [0.0, 1.0]
    assert every["fallen"].values.ravel() == pytest.approx([0.0, 0.3], abs=0.051)
    assert every["steps"].values.ravel().tolist() == [20.0, 20.0]
    assert every["final_com_height"].values.ravel() == pytest.approx([1.0, 0.43], abs=0.01)


def test_a_measure_that_is_not_finite_is_missing_by_itself(every):
    assert np.isnan(every["odd"].values.ravel()).tolist() == [False, True]
    assert not every["failed"].any()
    others = [name for name in every.data_vars if name not in ("odd", "failed")]
    assert all(np.isfinite(every[name]).all() for name in others)


def test_measures_of_one_name_are_kept_apart(ball):
    judged = Objective("own", 0.02, {"energy": 2.0})
    problem = Problem(ball, None, judged)
    found = columns(problem, {"energy": FAR, "fallen": FAR})
    own = found.totals["fitness"][1]["energy"]
    assert found.shown["energy"] != own and found.objective.term(own).measure is not None
    parts = {own: np.array([3.0]), found.shown["energy"]: np.array([7.0])}
    parts[found.shown["fallen"]] = np.array([1.0])
    told = found.of(parts)
    assert told["fitness"] == 6.0 and told["energy"] == 7.0 and told["fallen"] == 1.0
    assert not found.objective.of_survival


def test_a_users_measure_of_a_batch_is_not_changed(ball):
    two = jax.tree.map(lambda x: jnp.stack([x, x]), PoseController(ball.state.q))
    found = simulate_batch(ball, two, seconds=0.002, measures={"distance": FAR})
    assert found.measures["distance"].tolist() == [2.0, 2.0]


# ---- who stands


@pytest.mark.parametrize("make", [planar_human, articulated_human])
def test_standing_is_by_the_standing_height_however_it_begins(make):
    model = make(chair_height=0.45) if make is planar_human else make()
    term = TERMS["final_state"]
    for pose in ("standing", "supine", "prone", *(["sitting"] if make is planar_human else [])):
        state = start(model, pose)
        kin = forward_kinematics(model, state.q, state.qd)
        sample = SimpleNamespace(obs=SimpleNamespace(kin=kin))
        stands = float(above_standing(model)(kin.com)) >= 0
        assert stands == (pose == "standing"), pose
        assert term.measure is not None
        cost = term.value(term.measure(model).update(jnp.zeros(()), sample))
        assert (float(cost) == 0) == stands


def test_the_standing_height_goes_with_the_size():
    found = scenario("walk")
    assert standing_height(found.model) == pytest.approx(1.8, abs=1e-6)
    small = found.set("sizes.whole", 0.5)
    assert standing_height(small.model) == pytest.approx(0.9, rel=1e-5)
    np.testing.assert_allclose(fallen_height(small.model), 0.5 * fallen_height(found.model), 1e-5)
    child = scenario("child").model
    head = start(child, "standing")
    kin = forward_kinematics(child, head.q, head.qd)
    high = float(kin.com[child.topology.part("head"), 2])
    assert standing_height(child) == pytest.approx(0.9 * high, rel=1e-2)


def test_a_body_whose_standing_pose_is_not_known_says_what_it_lacks(ball):
    problem = Problem(ball, None, Objective("sweep", 0.02, {}))
    assert "standing" not in columns(problem, None).shown
    assert fallen_height(ball.model) is None
    with pytest.raises(ModelError, match="head"):
        columns(problem, ["standing"])
