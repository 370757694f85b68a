"""One problem for every scenario: a PD gain, a mass, goals and scripts, by path or label."""

from dataclasses import replace

import numpy as np
import pytest

from controllers.pose.pd import PoseController
from jaxsim.characters.human import articulated_human, start
from jaxsim.simulation.pushes import push
from jaxsim.simulation.step import TimeStepping
from optimize.problems.problem import Problem, default_numbers
from optimize.running.objectives import OBJECTIVES, Objective, Term, user_objective
from optimize.scenarios.find import scenario
from optimize.scenarios.scenario import Scenario
from optimize.studies.push_map import map_scenario
from optimize.studies.push_options import MapOptions
from optimize.sweeps.sweep import sweep
from optimize.tuning.build import push_trials
from optimize.tuning.evolution import evolve
from optimize.tuning.tune import tune

SHORT = 0.02  # [s]
NUMBERS = {"model.gain_p[6]": (1.0, 5000.0, "log"), "model.mass[3]": (0.1, 50.0)}


@pytest.fixture(scope="module")
def human():
    """The 3-D human held in its pose, pushed."""
    model = articulated_human("adult")
    state = start(model, "standing")
    force = push(model, "pelvis", (50.0, 0.0, 0.0), duration=0.1)
    return Scenario(model, PoseController(state.q), state, TimeStepping(dt=0.002), force)


@pytest.fixture(scope="module")
def balance():
    return map_scenario(MapOptions())


def short(name):
    return replace(OBJECTIVES[name], seconds=SHORT)


def test_zeros_of_a_root_are_named_with_the_slice_to_use(human):
    with pytest.raises(ValueError, match=r"gain_p\[0\] = 0.*select the slice model.gain_p\[6:\]"):
        _ = Problem(human, {"model.gain_p": (1.0, 5000.0)}, short("capture")).tunables
    held = Problem(human, {"model.gain_p[6:]": (1.0, 50000.0, "log")}, short("capture"))
    assert held.names[0] == "model.gain_p[6]" and held.tunables.log.all()


@pytest.mark.slow
def test_a_gain_and_a_mass_of_a_human_are_tuned_against_pushes(human):
    variants = {"forces.force[0,:]": [[50.0, 0.0, 0.0], [0.0, -50.0, 0.0]]}
    options = dict(trials=2, vary=variants, backend="xla", chunk=8)
    problem = Problem(human, NUMBERS, short("capture"), **options)
    np.testing.assert_array_equal(problem.varied()["forces.force[0,:]"][1], [0, -50, 0])
    found = evolve(
        problem.evaluate, np.zeros(2), sigma=0.1, population=4, generations=2, seed=0,
        progress=False,
    )  # fmt: skip
    assert found.best_fitness <= found.history[0].best and not found.history[0].failures
    table = sweep(problem, {"model.mass[3]": [1.0, 5.0], "model.gain_p[6]": [10.0, 100.0]})
    assert table["fitness"].shape == (2, 2, 2) and not table["failed"].any()
    found = problem.evaluate_values(np.array([[10.0, 5.0]]))  # the numbers in the problem's order
    mean = table["fitness"].sel({"model.mass[3]": 5.0, "model.gain_p[6]": 10.0}).mean("start")
    assert float(mean) == pytest.approx(float(found.fitness[0]), rel=1e-5)


def test_weights_then_gait_are_the_numbers_of_goals(balance):
    numbers = default_numbers(balance)
    weights = np.argwhere(np.asarray(balance.controller.weights))
    assert list(numbers)[: len(weights)] == [f"controller.weights[{s},{g}]" for s, g in weights]
    problem = Problem(balance, None, short("survive"))
    assert {"takeStep.foot", "gait.time", "gait.margin"} <= set(problem.names)
    z = np.zeros(problem.tunables.size)
    z[problem.names.index("takeStep.foot")] = np.log(2)
    z[problem.names.index("gait.margin")] = 1.0
    x = dict(zip(problem.names, problem.tunables.decode(z)))
    assert x["takeStep.foot"] == pytest.approx(2 * float(balance.get("takeStep.foot")), rel=1e-6)
    assert x["gait.margin"] == pytest.approx(float(balance.get("gait.margin")) + 0.1, rel=1e-6)
    np.testing.assert_allclose(problem.tunables.encode(problem.tunables.decode(z)), z, atol=1e-9)


def test_pushes_go_around_the_body_and_forces_take_turns(balance):
    scenario, variants = push_trials(balance, (450.0, 650.0), 16, 0.5)
    np.testing.assert_array_equal(variants["forces.force[0,0]"], np.repeat([450.0, 650.0], 8))
    np.testing.assert_allclose(variants["forces.direction"], np.tile(np.arange(8), 2) * np.pi / 4)
    np.testing.assert_array_equal(scenario.get("forces.force[0,:]"), [450.0, 0.0, 0.0])
    assert float(scenario.get("forces.start[0]")) == 0.5


def test_a_push_may_have_a_direction_of_its_own(balance):
    _, variants = push_trials(balance, ((300.0, 180.0), 450.0, [350.0, -45.0]), 12, 0.5)
    np.testing.assert_array_equal(
        variants["forces.force[0,0]"], [300.0, *[450.0] * 8, 350.0, 300.0, 450.0]
    )
    degrees = np.rad2deg(variants["forces.direction"])
    np.testing.assert_allclose(degrees, [180.0, *45.0 * np.arange(8), -45.0, 180.0, 0.0])


@pytest.mark.parametrize("wrong", [0.0, -1.0, np.inf, (300.0, np.nan), (300.0, 1.0, 2.0), ()])
def test_what_is_no_push_is_named(balance, wrong):
    with pytest.raises(ValueError, match="give a force of more than zero"):
        push_trials(balance, (wrong,), 4, 0.5)


@pytest.mark.slow
def test_a_weight_and_a_gait_number_are_tuned(balance, tmp_path):
    numbers = {"balance.damping": (0.01, 10.0, "log"), "gait.time": (0.3, 1.5)}
    found = tune(
        "push", replace(OBJECTIVES["survive"], seconds=0.6), out=tmp_path / "run", numbers=numbers,
        pushes=(450.0,), trials=2, generations=1, population=4, backend="xla", progress=False,
    )  # fmt: skip
    assert found.after["total"] <= found.before["total"]
    best = (tmp_path / "run" / "best.json").read_text()
    assert '"balance.damping"' in best and '"gait.time"' in best
    page = (tmp_path / "run" / "motion.html").read_text()
    assert found.motion is not None and "takeStep" in page  # the best one, to look at


@pytest.mark.slow
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("kind", ["time_stepping", "fused", "goals"])
def test_the_gradient_agrees_with_finite_differences(kind):
    if kind == "goals":
        scenario, variants = push_trials(map_scenario(MapOptions()), (450.0,), 2, 0.05)
        numbers = {"balance.damping": (0.01, 10.0, "log"), "balance.com": (0.1, 100.0, "log")}
        judged = replace(OBJECTIVES["capture"], seconds=0.3)
    else:
        model = articulated_human("adult")
        state = start(model, "standing")
        parts = model, PoseController(state.q), state, TimeStepping(dt=0.002)
        scenario, variants = Scenario(*parts), {}
        numbers, judged = NUMBERS, short("capture")
    problem = Problem(
        scenario, numbers, judged, trials=2, vary=variants, chunk=2,
        backend="fused" if kind == "fused" else "xla",
    )  # fmt: skip
    loss, slope = problem.value_and_slope(np.zeros(2))
    k = int(np.argmax(np.abs(slope)))
    step = 1e-4 * np.eye(2)[k]
    begun, up, down = problem.evaluate(np.array([np.zeros(2), step, -step])).fitness
    assert loss == pytest.approx(begun, rel=1e-9)
    measured = (up - down) / 2e-4
    assert slope[k] == pytest.approx(measured, rel=1e-2)


def test_an_objective_of_survival_has_no_derivative(human):
    with pytest.raises(ValueError, match="has no derivative"):
        Problem(human, NUMBERS, short("survive")).value_and_slope(np.zeros(2))


def test_a_script_number_varies_by_its_label():
    rise = scenario("sit_to_stand")
    label = next(iter(rise.controller.labels))
    problem = Problem(rise, {label: (-200.0, 200.0)}, OBJECTIVES["stand"])
    assert problem.names == (label,)
    with pytest.raises(KeyError, match=r"no number 'model.weight'; nearest are"):
        _ = Problem(rise, {"model.weight": (0.0, 1.0)}, OBJECTIVES["stand"]).tunables


# ---- one's own objective


def gentle(sample):
    return (sample.control.torque**2).sum()


def test_own_terms_are_handed_over():
    found, text = user_objective(gentle)
    assert text is None and found.weights == {"gentle": 1.0} and not found.of_survival
    term = found.terms[0]
    both = Objective("both", 1.0, {"gentle": 1e-4, "time": 1.0}, terms=(term,))
    assert both.term("gentle") is term and isinstance(term, Term)
    with pytest.raises(KeyError, match=r"the terms are: time.*gentle"):
        Objective("wrong", 1.0, {"gentel": 1.0}, terms=(term,))
    with pytest.raises(TypeError, match="a name, an Objective, a Term or a function"):
        user_objective(5)


@pytest.mark.slow
def test_an_objective_of_a_file_is_kept_and_checked(tmp_path):
    file, script = tmp_path / "mine.py", tmp_path / "some.scl"
    file.write_text("def gentle(sample):\n    return (sample.control.torque**2).sum()\n")
    script.write_text("{ (crouch)\n[knees @-20, hips @10 time: 0.05]\n}\n")
    with pytest.raises(ValueError, match=r"mine.py has no 'rough'; it has gentle"):
        user_objective(f"{file}:rough")
    out = tmp_path / "run"
    options = dict(population=4, seconds=0.02, final_dt=0.001, progress=False)
    standing = {"character.start": "standing"}
    tune(script, f"{file}:gentle", out=out, generations=1, set=standing, **options)
    file.unlink()  # what was kept counts
    found = tune(out=out, resume=True, generations=2, progress=False)
    assert found.evolution.generations == 2
    assert found.after["parts"].keys() == {"gentle"} and found.after["total"] > 0
    (out / "objective.py").write_text("def gentle(sample):\n    return 0.0\n")
    with pytest.raises(ValueError, match="objective_digest was"):
        tune(out=out, resume=True, generations=3)
