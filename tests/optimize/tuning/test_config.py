"""Configuration of a tuning run: one record, written to config.json and read from it."""

import dataclasses
import json
import warnings

import numpy as np
import pytest

from optimize.problems.problem import Problem
from optimize.results.folder import EARLIER, RunFolder
from optimize.running.objectives import OBJECTIVES
from optimize.tuning.config import (
    DEFAULTS,
    OPTIONS,
    PelvisPush,
    TuneConfig,
    Variant,
    new_config,
    resumed_config,
)
from tests.optimize.tuning import toy

EVERY_OPTION = {
    "set": {"character.build": "child"},
    "seconds": 0.5,
    "generations": 7,
    "population": 6,
    "seed": 3,
    "sigma": 0.2,
    "dt": 0.002,
    "final_dt": 0.0005,
    "free": "all",
    "numbers": {"model.friction": (0.4, 1.2), "gait.time": (0.3, 1.5, "log")},
    "vary": {"model.friction[0]": (0.4, 0.8)},
    "pushes": (350.0, (120.0, 90.0)),
    "pushed_at": 0.25,
    "variant": [{"set": {"character.friction": 0.2}}],
    "method": "cma",
    "restarts": "ipop",
    "runs": 2,
    "by_run": {"sigma": (0.1, 0.3)},
    "trials": 4,
    "spread": (0.0, 0.05),
    "sample": {"model.friction": (0.5, 0.8)},
    "front": ("fallen", "energy"),
    "trust_derivative": True,
    "chunk": 3,
    "backend": "xla",
}
OF_ONE_RUN = {
    "resample": True,
    "aggregate": "worst",
    "halve_after": 1,
    "checks": 9,
    "success_rate": 0.9,
    "trials": 4,
}


def folder_of(config: TuneConfig, path) -> RunFolder:
    return RunFolder.create(path / "run", config.as_json(), config.script)


def test_the_record_and_the_typed_dictionary_declare_the_same_options():
    declared = {f.name for f in dataclasses.fields(TuneConfig)}
    assert set(OPTIONS) - {"seconds"} <= declared  # seconds are those of the objective
    assert set(DEFAULTS) == set(OPTIONS)
    assert set(EVERY_OPTION) | set(OF_ONE_RUN) == set(OPTIONS)


@pytest.mark.parametrize("options", [EVERY_OPTION, OF_ONE_RUN])
def test_every_option_comes_back_from_its_folder(options, tmp_path):
    pytest.importorskip("moocore")
    config = new_config("push", "survive", options, ["jaxsim", "tune"])
    resumed = resumed_config(folder_of(config, tmp_path), None, None, options)
    for entry in dataclasses.fields(TuneConfig):
        if entry.name != "objective":
            before, after = (json.dumps(c.as_json().get(entry.name)) for c in (config, resumed))
            assert before == after, entry.name
    assert resumed.objective.weights == config.objective.weights
    seconds = options.get("seconds", OBJECTIVES["survive"].seconds)
    assert resumed.objective.seconds == config.objective.seconds == seconds
    assert resumed.pushes == config.pushes and resumed.variant == config.variant


def test_options_are_objects_once_they_are_read():
    options = {"pushes": (350.0, (120.0, 90.0)), "variant": [{"set": {"a.b": 1}}], "trials": 2}
    config = new_config("push", "survive", options, [])
    assert config.pushes == (PelvisPush(350.0), PelvisPush(120.0, 90.0))
    assert config.variant == (Variant({"a.b": 1}, config.pushes),)
    chain = new_config("push", "survive", {"method": "cma:4,sep-cma:3"}, [])
    assert [stage.name for stage in chain.stages] == ["cma", "sep-cma"] and chain.generations == 7
    by_run = new_config("push", "survive", {"runs": 3, "by_run": {"sigma": (0.1, 0.2)}}, [])
    np.testing.assert_array_equal(by_run.search(2)["sigma"], [0.1, 0.2, 0.1])


def test_no_configuration_is_wrong():
    config = new_config("push", "survive", {}, [])
    for changes, said in (
        ({"population": 3}, "population is 3; give a whole number of at least 4"),
        ({"free": "some"}, "free is 'some'"),
        ({"trials": True}, "trials is True"),
    ):
        with pytest.raises(ValueError, match=said):
            dataclasses.replace(config, **changes)


@pytest.mark.parametrize(
    ("earlier", "value"),
    [
        ("score", "worst"),
        ("fresh", True),
        ("sure", 0.9),
        ("racing", 1),
        ("draw", {"model.friction": (0.5, 0.8)}),
        ("also", [{"set": {"character.friction": 0.2}}]),
        ("judge_dt", 0.0005),
        ("variants", {"model.friction[0]": (0.4, 0.8)}),
        ("trust", True),
        ("each", {"sigma": (0.1, 0.3)}),
    ],
)
def test_an_earlier_name_of_an_option_is_read_with_a_warning(earlier, value):
    options = {"runs": 2} if earlier == "each" else {"trials": 3}
    with pytest.warns(DeprecationWarning, match=f"tune: {earlier} is now {EARLIER[earlier]}"):
        config = new_config("push", "survive", {**options, earlier: value}, [])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        present = new_config("push", "survive", {**options, EARLIER[earlier]: value}, [])
    assert config.as_json() == present.as_json()


def test_a_folder_with_earlier_names_is_read(tmp_path):
    options = {"trials": 3, "aggregate": "worst", "sample": {"model.friction": (0.5, 0.8)}}
    config = new_config("push", "survive", options, [])
    folder = folder_of(config, tmp_path)
    before = {present: earlier for earlier, present in EARLIER.items()}
    saved = {before.get(name, name): value for name, value in config.as_json().items()}
    assert saved["score"] == "worst" and "aggregate" not in saved
    (folder / RunFolder.CONFIG).write_text(json.dumps(saved))
    assert resumed_config(folder, None, None, options).as_json() == config.as_json()


def test_a_problem_takes_and_shows_earlier_names_of_its_fields():
    scenario = toy.scenario()
    with pytest.warns(DeprecationWarning, match="Problem: racing is now halve_after"):
        problem = Problem(scenario, toy.NUMBERS, toy.OBJECTIVE, trials=3, racing=1)
    assert problem.halve_after == 1
    with pytest.warns(DeprecationWarning, match="Problem.racing is now halve_after"):
        assert problem.racing == 1
    with pytest.warns(DeprecationWarning, match="score is now aggregate"):
        assert dataclasses.replace(problem, score="worst").aggregate == "worst"
