"""The list of runs, two of them compared, their picture, and the page of one."""

import json
import os
import shutil

import numpy as np
import pytest

from optimize.cli import view
from optimize.cli.main import main
from optimize.problems.fitness import Evaluation
from optimize.results.folder import RunFolder
from optimize.results.lock import holder, lock_folder
from optimize.studies.run_list import compare_runs, list_runs
from optimize.studies.run_plot import groups_of, plot_runs
from optimize.tuning import page
from optimize.tuning.evolution import evolve_runs
from optimize.tuning.histories import RunHistory, histories, quartiles
from optimize.tuning.svg import Band, Line, chart
from tests.optimize.tuning.toy import OBJECTIVE, WEIGHTED, scenario, toy_run, unsimulated


def bowl(x, run):
    return Evaluation((x**2).sum(axis=1), {"time": x[:, 0] ** 2})


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder with runs of each kind and state."""
    top = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        unsimulated(patch)
        toy_run(top / "one", seed=4)
        toy_run(top / "deep" / "many", runs=3, by_run=WEIGHTED, front=["energy", "time"])
        toy_run(top / "wide", sigma=0.2, runs=2)
    shutil.copytree(top / "one", top / "stopped")
    config = json.loads((top / "stopped" / "config.json").read_text())
    (top / "stopped" / "config.json").write_text(json.dumps({**config, "generations": 9}))
    evolve_runs(
        bowl, np.ones(2), sigma=0.5, population=4, generations=2, seed=[7, 8],
        folder=top / "search", progress=False,
    )  # fmt: skip
    return top


@pytest.fixture
def copied(runs, tmp_path):
    shutil.copytree(runs, tmp_path / "runs")
    return tmp_path / "runs"


def by_name(top):
    return {os.path.relpath(run.path, top): run for run in list_runs(top)}


def test_runs_are_listed_with_state_best_and_cost(runs):
    found = by_name(runs)
    assert list(found) == ["deep/many", "one", "search", "stopped", "wide"]
    states = {name: run.state for name, run in found.items()}
    assert states.pop("stopped") == "interrupted" and set(states.values()) == {"done"}
    one, many = found["one"], found["deep/many"]
    best = RunFolder(one.path).read_json("best.json")["fitness"]["after"]
    assert one.best == pytest.approx(best) and one.judged == pytest.approx(best)
    assert (one.scenario, one.method, one.seed, one.done) == ("toy", "cma", 4, 6)
    assert one.evaluations == 1 + 6 * 6 and many.evaluations == 3 * one.evaluations
    lines = RunFolder(many.path).read_history()
    assert many.seconds == pytest.approx(sum(line["seconds"] for line in lines) / 3)
    assert (found["search"].kind, found["search"].seed, found["search"].runs) == ("search", 7, 2)


def test_runs_with_weights_of_their_own_compare_by_their_terms(copied):
    many = copied / "deep" / "many"
    (listed,) = list_runs(many)
    best = RunFolder(many).read_json("best.json")
    weighed = sum(term["weight"] * term["after"] for term in best["terms"])
    assert listed.judged == pytest.approx(weighed)
    assert listed.best == pytest.approx(RunFolder(many).read_json("result.json")["search"][1])
    lines = [{**line, "best_parts": {}} for line in RunFolder(many).read_history()]
    (many / "history.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (listed,) = list_runs(many)
    assert listed.best is None and "not comparable" in listed.note


def test_a_running_run_is_told_by_its_lock(copied):
    assert holder(copied / "one") is None
    with lock_folder(copied / "one"):
        assert f"process {os.getpid()}" in holder(copied / "one")
        assert by_name(copied)["one"].state == "running"
    assert by_name(copied)["one"].state == "done"


def test_broken_folders_are_named_and_stop_nothing(copied, capsys):
    (copied / "half").mkdir()
    (copied / "half" / "versions.json").write_text("{}")
    (copied / "one" / "config.json").write_text("{")
    history = copied / "wide" / "history.jsonl"
    history.write_text("[1]\n" + history.read_text())
    (copied / "other").mkdir()
    (copied / "other" / "config.json").write_text('{"of": "another program"}')
    found = by_name(copied)
    broken = {name: run.note for name, run in found.items() if run.state == "broken"}
    assert set(broken) == {"half", "one", "wide"} and "other" not in found
    assert "config.json is missing" in broken["half"]
    assert "history.jsonl, line 1" in broken["wide"]
    assert main(["runs", str(copied)]) == 0
    told = capsys.readouterr().out
    assert "half: " in told and "deep/many" in told
    with pytest.raises(FileNotFoundError, match="no folder"):
        list_runs(copied / "nowhere")


def test_two_runs_compared(runs):
    told = compare_runs(runs / "one", runs / "wide")
    assert "config.json: seed was 4, is 0" in told and "config.json: sigma was 0.1, is 0.2" in told
    assert any(line.startswith("best: ") for line in told)
    assert any(line.startswith("  energy [(N m)^2 s]: ") for line in told)
    assert not any("model" in line or "script" in line for line in told)


def test_best_of_other_weights_is_not_compared(copied):
    config = json.loads((copied / "wide" / "config.json").read_text())
    config["weights"]["energy"] = 7.0
    (copied / "wide" / "config.json").write_text(json.dumps(config))
    told = compare_runs(copied / "one", copied / "wide")
    assert any("not comparable" in line for line in told)
    assert not any(line.startswith("best: 0") for line in told)


def test_seeds_of_a_configuration_make_its_quartiles(runs):
    (groups,) = groups_of([runs / "one", runs / "wide", runs / "deep" / "many"]).values()
    sizes = {(s["sigma"], s["weights.energy"]): len(own) for s, own in groups}
    # one and the run of many with the objective's own weight are seeds of the same
    assert sizes == {(0.1, 0.5): 2, (0.2, 0.5): 2, (0.1, 0.01): 1, (0.1, 100.0): 1}


def test_quartiles_hold_between_generations():
    def run(members, best):
        lines = [
            {"members": m, "best": b, "best_ever": b, "best_parts": {}, "generation": k}
            for k, (m, b) in enumerate(zip(members, best))
        ]
        return RunHistory(0, lines)

    at, values = quartiles([run([1, 4, 4], [9.0, 5.0, 1.0]), run([1, 6], [None, 3.0])])
    np.testing.assert_array_equal(at, [1, 5, 7])
    np.testing.assert_array_equal(values[1], [np.nan, np.nan, 4.0])
    np.testing.assert_array_equal(values[:, 2], [3.5, 4.0, 4.5])


def test_a_picture_of_the_histories(runs, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    assert main(["runs", str(runs), "--plot", str(tmp_path / "all.png")]) == 0
    assert (tmp_path / "all.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match="no tuning run"):
        plot_runs(tmp_path / "none.png", [])


class Played:
    """In the place of a simulation."""

    def page(self):
        return "<p>a motion</p>"


def test_the_page_of_a_run(copied, monkeypatch):
    monkeypatch.setattr(page, "run_scenario", lambda *_, **__: Played())
    many = copied / "deep" / "many"
    (many / "motion.html").write_text("<p>the best</p>")
    text = page.write_run_page(many, scenario(), OBJECTIVE).read_text()
    assert "http" not in text.replace("http://www.w3.org", "")
    for part in ("the best", "hypervolume", "model.gain_p[4]", "time: weight x value"):
        assert part in text
    assert text.count("a motion") == text.count('data-key="') == page.PLAYED
    assert "NaN" not in text and "nan," not in text


def test_a_page_without_the_problem_says_why(copied, monkeypatch, capsys):
    monkeypatch.setattr(view, "show_page", lambda path: print(path))
    assert main(["runs", str(copied / "one"), "--page", "--quiet"]) == 0
    text = (copied / "one" / page.PAGE).read_text()
    assert "made in Python; pass it again" in text and "number 1" in text
    assert main(["runs", str(copied), "--page"]) == 2
    assert "--page is of one tuning run" in capsys.readouterr().err


def test_a_chart_has_gaps_and_keeps_its_frame():
    x = np.arange(6.0)
    y = np.array([1.0, 2.0, np.nan, 3.0, 4.0, 1e9])
    text = chart("a < b", [Line(x, y)], Band(x, y, y + 1))
    assert "a &lt; b" in text and text.count("M") == 2 and "nan" not in text
    log = chart("steps", [Line(x, np.array([0.0, 1e-3, 1e-2, 0.1, np.nan, 1.0]))], log=True)
    assert ">0.01<" in log and "nan" not in log


def test_histories_name_a_line_that_no_search_writes(copied):
    (copied / "one" / "history.jsonl").write_text('{"generation": 1}\n')
    with pytest.raises(ValueError, match="line 1 lacks best"):
        histories(RunFolder(copied / "one"))
