"""Tuning a script: its folder, an exact resume, failed members, and what bad input is told."""

import dataclasses
import json

import jax
import numpy as np
import pytest

from controllers.scl.load import load_script
from controllers.scl.names import vocabulary
from controllers.scl.parser import parse
from controllers.scl.writer import mark_all
from jaxsim.characters.planar_human import planar_human
from optimize.problems.problem import Problem
from optimize.results.folder import RunFolder
from optimize.running.objectives import Objective
from optimize.running.simulate import Written
from optimize.tuning import robust
from optimize.tuning import tune as module
from optimize.tuning.build import build_problem
from optimize.tuning.config import new_config
from optimize.tuning.judgement import Candidate
from optimize.tuning.robust import CHECKS
from optimize.tuning.tune import tune

SCRIPT = """\
{ (crouch) // two numbers to find
[knees @-20, hips @10 time: 0.05]
}
after 0.03
{ (up)
[knees 0, hips 0 time: 0.05]
}
"""
OBJECTIVE = Objective("low-effort", 0.06, {"time": 1.0, "energy": 1e-3}, "for these tests")
STANDING = {"character.start": "standing"}
OPTIONS = dict(set=STANDING, population=4, seed=5, final_dt=0.001, dt=0.001)


@pytest.fixture(scope="module")
def problems():
    """Problems by what they are made of, so that each is compiled once."""
    kept: dict[str, Problem] = {}

    def make(config, dt=None):
        names = ("set", "seconds", "dt", "free", "numbers", "chunk", "objective", "trials")
        names += "resample", "aggregate", "halve_after", "sample", "spread"
        saved = config.as_json()
        key = json.dumps([config.script, dt, *(saved[name] for name in names)])
        if key not in kept:
            kept[key] = build_problem(config, dt)
        return kept[key]

    return make


@pytest.fixture(autouse=True)
def _shared(monkeypatch, problems):
    """Compile once, draw no pictures; the run that shows all is made before this."""
    monkeypatch.setattr(module, "build_problem", problems)
    monkeypatch.setattr(module, "plot_history", lambda folder: None)
    monkeypatch.setattr(module, "write_simulation", lambda *_, **__: Written((), ()))


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "crouch.scl"
    path.write_text(SCRIPT)
    return path


def run(script, out, generations=4, **options):
    return tune(
        script, OBJECTIVE, out=out, generations=generations, progress=False, **OPTIONS, **options
    )


@pytest.fixture(scope="module", autouse=True)
def unbroken(tmp_path_factory, problems):
    """A run of four generations."""
    folder = tmp_path_factory.mktemp("unbroken")
    (folder / "crouch.scl").write_text(SCRIPT)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "build_problem", problems)
        return run(folder / "crouch.scl", folder / "run")


def timeless(history):
    return [
        {k: v for k, v in dataclasses.asdict(r).items() if k not in ("seconds", "steps_per_second")}
        for r in history
    ]


# ---- a run


def test_a_folder_holds_all_that_is_needed(unbroken):
    pytest.importorskip("matplotlib")
    folder = RunFolder.open(unbroken.folder)
    held = {path.name for path in folder.path.iterdir()}
    assert held == {
        *("script.scl", "config.json", "digest.json", "versions.json"),
        *("history.jsonl", "checkpoint.msgpack"),
        *("best.scl", "best.json", "result.json", "history.png", "summary.json"),
        *("motion.html", "plots.png", "filmstrip.png", "trajectory.npz"),
    }
    assert not unbroken.notes
    assert folder.read_text("script.scl") == SCRIPT
    config = folder.read_json("config.json")
    assert config["weights"] == dict(OBJECTIVE.weights)
    assert config["set"] == STANDING and config["precision"] == "float32"
    assert len(folder.read_history()) == 5


def test_the_best_is_better_and_written_down(unbroken):
    folder = RunFolder.open(unbroken.folder)
    best, result = folder.read_json("best.json"), folder.read_json("result.json")
    assert best["fitness"]["after"] < best["fitness"]["before"]
    assert best["fitness"]["after"] == pytest.approx(unbroken.after["total"])
    assert best["judged"] == result["judged"] == "with steps of 0.001 s in float64"
    assert result["search"][1] == pytest.approx(unbroken.evolution.best_fitness)
    assert [term["after"] for term in best["terms"]] == [*unbroken.after["parts"].values()]
    assert [term["name"] for term in best["terms"]] == ["time", "energy"]
    assert best["terms"][1]["unit"] == "(N m)^2 s" and best["terms"][1]["weight"] == 1e-3
    knee, hip = best["numbers"].values()
    assert next(iter(best["numbers"])) == "crouch: knees angle" and knee["unit"] == "deg"
    assert (knee["before"], hip["before"]) == (-20, 10)
    assert knee["lower"] <= knee["after"] <= knee["upper"]
    assert result["after"] == unbroken.after and result["before"] == unbroken.before
    assert result["after"]["total"] < result["before"]["total"]
    total = sum(OBJECTIVE.weights[n] * v for n, v in unbroken.after["parts"].items())
    assert unbroken.after["total"] == pytest.approx(total)


def test_the_best_script_is_the_tuned_one(unbroken):
    text = (unbroken.folder / "best.scl").read_text()
    words = parse(text, vocabulary(planar_human()))
    before = parse(SCRIPT, vocabulary(planar_human()))
    assert words.free_indices() == before.free_indices() and "// two numbers" in text
    changed = [a != b for a, b in zip(words.values(), before.values(), strict=True)]
    assert np.flatnonzero(changed).tolist() == list(before.free_indices())
    assert unbroken.motion.summary["precision"] == "float64"
    assert unbroken.motion.scenario.files["script.scl"] == words.source
    assert unbroken.motion.summary["objective"] == unbroken.after


def test_interrupted_and_resumed_is_as_unbroken(script, tmp_path, monkeypatch, unbroken, capsys):
    calls = []
    evaluate = Problem.evaluate

    def break_off(self, z):
        calls.append(z)
        if len(calls) == 4:  # the start, two generations, then
            raise KeyboardInterrupt
        return evaluate(self, z)

    monkeypatch.setattr(Problem, "evaluate", break_off)
    broken = run(script, tmp_path / "run")
    assert broken.evolution.interrupted and broken.evolution.generations == 2
    assert broken.after is None and "Interrupted after 2 of 4" in capsys.readouterr().err
    assert (tmp_path / "run" / "best.scl").is_file()
    assert not (tmp_path / "run" / "motion.html").exists()
    monkeypatch.setattr(Problem, "evaluate", evaluate)

    resumed = tune(out=tmp_path / "run", resume=True, progress=False)
    np.testing.assert_array_equal(resumed.evolution.best_x, unbroken.evolution.best_x)
    np.testing.assert_array_equal(resumed.evolution.mean, unbroken.evolution.mean)
    assert resumed.evolution.sigma == unbroken.evolution.sigma
    assert timeless(resumed.evolution.history) == timeless(unbroken.evolution.history)
    assert resumed.after == unbroken.after and resumed.before == unbroken.before
    for name in ("best.scl", "best.json", "result.json"):
        assert (resumed.folder / name).read_text() == (unbroken.folder / name).read_text()


def test_a_finished_run_may_go_on_for_longer(script, tmp_path):
    run(script, tmp_path / "run", generations=1)
    longer = run(script, tmp_path / "run", generations=2, resume=True)
    assert longer.evolution.generations == 2
    assert RunFolder.open(longer.folder).read_json("config.json")["generations"] == 2


# ---- failures


@pytest.mark.slow
def test_a_search_with_fresh_trials_goes_on_to_the_same_files(script, tmp_path, monkeypatch):
    monkeypatch.setattr(robust, "EVERY", 2)
    options = dict(
        resample=True, trials=3, halve_after=1, aggregate="worst", checks=3, spread=(0.0, 0.02)
    )
    options |= dict(sample={"model.friction": (0.5, 0.8)})
    whole = run(script, tmp_path / "whole", **options)
    run(script, tmp_path / "parts", generations=1, **options)
    parts = tune(out=tmp_path / "parts", objective=OBJECTIVE, resume=True, generations=2)
    parts = tune(out=tmp_path / "parts", objective=OBJECTIVE, resume=True, generations=4)
    np.testing.assert_array_equal(whole.evolution.mean, parts.evolution.mean)
    assert [r.best for r in whole.evolution.history] == [r.best for r in parts.evolution.history]
    checks = [json.loads((tmp_path / n / CHECKS).read_text()) for n in ("whole", "parts")]
    assert checks[0] == [c for c in checks[1] if c["generation"] > 1]
    assert any("of 3 starts that neither searched nor chose" in note for note in whole.notes)


def test_a_failed_member_is_counted_and_never_chosen(script, tmp_path, monkeypatch):
    seen = []

    def with_a_nan(self, z):
        x = np.stack([self.tunables.decode(row) for row in z])
        if seen:
            x[1] = np.nan
        seen.append(x)
        return self.evaluate_values(x)

    monkeypatch.setattr(Problem, "evaluate", with_a_nan)
    result = run(script, tmp_path / "run", generations=2)
    assert [r.failures for r in result.evolution.history] == [0, 1, 1]
    assert np.isfinite(result.evolution.best_x).all() and np.isfinite(result.evolution.mean).all()
    assert np.isfinite(result.after["total"])


def test_a_run_in_which_all_fail_says_so(script, tmp_path, monkeypatch):
    def nothing(self, z):
        return self.evaluate_values(np.full(np.shape(z), np.nan))

    monkeypatch.setattr(Problem, "evaluate", nothing)
    result = run(script, tmp_path / "run", generations=1)
    assert result.after is None and "every member failed" in result.notes[-1]
    assert not (result.folder / "best.scl").exists()


# ---- what is tuned


def test_arrays_of_the_model_are_tuned_too(script, problems):
    numbers = {"model.friction": (0.4, 1.2)}
    config = new_config(script, OBJECTIVE, {**OPTIONS, "numbers": numbers}, [])
    problem = build_problem(config)
    assert problem.tunables.size == 2 + problem.scenario.model.friction.shape[0]
    slippery = problem.tunables.encode(
        np.concatenate(
            [problem.tunables.initial[:2], np.full(problem.scenario.model.friction.shape, 0.45)]
        )
    )
    motion = module._motion(config, problem, Candidate("best", slippery), progress=False)
    assert motion.summary["finite"] and motion.summary["precision"] == "float64"


def test_a_member_is_worth_the_mean_of_its_trials(script):
    config = new_config(script, OBJECTIVE, {**OPTIONS, "trials": 2}, [])
    problem = build_problem(config)
    members = problem.tunables.initial + np.array([[0.0, 0.0], [15.0, -5.0]])
    together = problem.evaluate_values(members)
    joints = problem.scenario.model.topology.actuated_dofs
    np.testing.assert_array_equal(problem.starts().qd[0], problem.scenario.state.qd)
    assert 0.02 < np.std(problem.starts().qd[1][joints]) < 0.2
    starts, alone = problem.starts(), []
    for k in range(2):  # both trials from the same start
        twice = jax.tree.map(lambda leaf, k=k: leaf[np.array([k, k])], starts)
        problem.__dict__["starts"] = lambda _, twice=twice: twice  # nothing is compiled anew
        alone.append(problem.evaluate_values(members).fitness)
    assert abs(alone[0] - alone[1]).min() > 1e-3
    np.testing.assert_allclose(together.fitness, np.mean(alone, 0), rtol=1e-4)
    assert together.steps == 2 * 2 * problem.steps


def test_free_all_marks_every_number_and_nothing_else():
    known = vocabulary(planar_human())
    text = load_script("sit_to_stand_arms", planar_human()).source
    marked = mark_all(parse(text, known))
    assert marked.replace("@", "") == text.replace("@", "")
    script = parse(marked, known)
    assert script.free_indices() == tuple(range(len(script.numbers)))
    assert script.values() == parse(text, known).values()
    assert mark_all(script) == marked


def test_free_all_is_an_option(tmp_path):
    config = new_config("sit_to_stand", "quick-rise", {"free": "all"}, [])
    assert config.script.count("@") == 14 and config.set == {}
    assert config.objective.seconds == 3.0


# ---- bad input


def test_nothing_free_is_an_error_that_tells_the_remedy(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "build_problem", build_problem)
    with pytest.raises(ValueError, match=r"no number is free.*@30.*--free all"):
        tune("walk", "stand", out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(population=3), "population is 3"),
        (dict(seed=-1), "seed is -1"),
        (dict(trials=0), "trials is 0"),
        (dict(sigma=float("nan")), "sigma is nan"),
        (dict(dt=1.0), "dt is 1.0 s, longer than a rollout"),
        (dict(free="some"), "free is 'some'"),
        (dict(aggregate="median"), "choose from mean, worst"),
        (dict(aggregate="success"), "needs an objective that says which trials end standing"),
        (dict(trials=2, halve_after=2), "halve_after is 2 of 2 trials"),
        (dict(resample=True, success_rate=1.5), "success_rate is 1.5; give a share"),
        (dict(method="adam", cluster=2), "cluster: derivatives are not found by workers"),
        (dict(resample=True, runs=2), "resample: only for one run of the method cma"),
        (dict(aggregate="worst", method="cma:4,adam:2"), "aggregate: only for one run"),
        (dict(trials=2, halve_after=1, restarts="ipop"), "halve_after: only for one run"),
        (dict(checks=5, by_run={"sigma": [0.1, 0.2]}), "checks: only for one run"),
        (
            dict(resample=True, aggregate="worst", method="sep-cma"),
            "resample, aggregate: only for one run",
        ),
        (dict(sample={"model.friction": (0.8, 0.5)}), "no range from 0.8 to 0.5"),
        (dict(generation=3), "no option generation; the options are: set"),
    ],
)
def test_bad_options_are_named_and_nothing_is_written(script, tmp_path, options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        tune(script, OBJECTIVE, out=tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()


def test_a_folder_with_results_is_not_overwritten(script, unbroken, tmp_path):
    with pytest.raises(FileExistsError, match="resume the run"):
        run(script, unbroken.folder)
    with pytest.raises(FileNotFoundError, match="no run folder"):
        tune(out=tmp_path / "none", resume=True)
    with pytest.raises(ValueError, match="needs a script or scenario"):
        tune(out=tmp_path / "none")


def test_a_resume_with_other_options_names_them(script, unbroken, tmp_path):
    with pytest.raises(ValueError, match=r"seed 5 \(now 6\); objective low-effort \(now stand\)"):
        tune(None, "stand", out=unbroken.folder, resume=True, seed=6)
    script.write_text(SCRIPT.replace("-20", "-21"))
    with pytest.raises(ValueError, match="another text of the script"):
        tune(script, out=unbroken.folder, resume=True)
