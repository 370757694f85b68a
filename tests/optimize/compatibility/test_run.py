"""A model in a folder: sampled, resumed, asked, shown; the chair's height as a number."""

import dataclasses
import json
import re

import numpy as np
import pytest

from benchmarks._hands import with_hands
from jaxsim.model import ModelError
from optimize.cli.main import main
from optimize.compatibility import run as runs
from optimize.compatibility.ask import QUERIES, answer_queries, queries, table
from optimize.compatibility.page import faces, model_page, slices
from optimize.compatibility.query import Diverse
from optimize.compatibility.question import Question
from optimize.compatibility.run import MODEL, SAMPLES, FitOptions, fit, load
from optimize.results.lock import FolderInUse, lock_folder
from optimize.scenarios.find import scenario
from optimize.scenarios.seated import as_seated
from tests.optimize.compatibility import toy

STATE = {"character.chair_height": (0.15, 0.75, 10.0)}
ACTION = {"lean: waist angle": (0.0, 90.0, 1 / 40), "lean: shoulders angle": (0.0, 180.0, 1 / 40)}
OPTIONS = FitOptions("sit_to_stand_arms", STATE, ACTION, samples=600)


@pytest.fixture
def by_toy(monkeypatch):
    """No simulation: an ellipsoid answers; counts the points it was asked."""
    asked = []

    def answers(self, points):
        asked.append(len(points))
        return toy.answers(np.asarray(points))

    monkeypatch.setattr(Question, "answers", answers)
    return asked


@pytest.fixture
def folder(by_toy, tmp_path):
    fit(OPTIONS, tmp_path / "run")
    return tmp_path / "run"


def test_a_model_is_kept_and_found_again(folder):
    kept = load(folder)
    assert kept.question.space.names[0] == "chair_height" and len(kept.yes) >= 600
    model = json.loads((folder / MODEL).read_text())
    assert model["samples"] == len(kept.yes) and model["accuracy"] > 0.8
    z = kept.question.space.scaled(kept.points)
    right = ((np.asarray(kept.volume.decision(z)) > 0) == kept.yes).mean()
    assert right > 0.95


@pytest.mark.parametrize("method", runs.METHODS)
def test_an_interrupted_run_goes_on_to_the_same_samples(by_toy, tmp_path, monkeypatch, method):
    options = dataclasses.replace(OPTIONS, method=method, samples=450)
    whole = fit(options, tmp_path / "whole")
    calls = by_toy.copy()
    real = Question.answers

    def interrupted(self, points):
        if len(by_toy) - len(calls) == 2:
            raise KeyboardInterrupt
        return real(self, points)

    with monkeypatch.context() as patch:
        patch.setattr(Question, "answers", interrupted)
        with pytest.raises(KeyboardInterrupt):
            fit(options, tmp_path / "cut")
    by_toy.clear()
    found = fit(out=tmp_path / "cut", resume=True)
    np.testing.assert_array_equal(found.points, whole.points)
    assert by_toy == calls[2:]  # what was kept was not asked again
    for name in (SAMPLES, "volume.npz"):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_samples_of_another_run_are_refused(folder, by_toy):
    arrays = dict(np.load(folder / SAMPLES))
    arrays["points"] += 1e-3
    np.savez(folder / SAMPLES, **arrays)
    with pytest.raises(ValueError, match=r"samples.npz holds other points than this run draws"):
        fit(out=folder, resume=True)
    (folder / SAMPLES).write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"samples.npz is no NumPy archive"):
        load(folder)


def test_folders_that_will_not_do(folder, tmp_path):
    with pytest.raises(FileExistsError, match="not empty"):
        fit(OPTIONS, folder)
    with pytest.raises(ValueError, match="no options: it has its own"):
        fit(OPTIONS, folder, resume=True)
    with pytest.raises(FileNotFoundError, match="no run folder"):
        load(tmp_path / "none")
    (folder / "volume.npz").unlink()
    with pytest.raises(FileNotFoundError, match=r"no volume.npz yet; go on with .* --resume"):
        load(folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"compatibility": {"state": 1}}))
    with pytest.raises(ValueError, match=r"config.json holds options that no run writes"):
        load(folder)


def test_a_folder_in_use(by_toy, tmp_path):
    import threading

    held, done = threading.Event(), threading.Event()

    def hold():
        with lock_folder(tmp_path / "run"):
            held.set()
            done.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(30)
    try:
        with pytest.raises(FolderInUse, match="in use"):
            fit(OPTIONS, tmp_path / "run")
    finally:
        done.set()
        thread.join()
    assert by_toy == []


@pytest.mark.parametrize(
    "changes, error, message",
    [
        ({"method": "guess"}, ValueError, "method is 'guess'; choose from paths, refinement"),
        ({"outcome": "flies"}, ValueError, "outcome is 'flies'; choose from stands"),
        ({"samples": 0}, ValueError, "must be positive"),
        ({"action": {"lean: waste angle": (0, 90)}}, KeyError, "nearest are: .*lean: waist angle"),
        ({"action": {"lean: waist angle": (50, 90)}}, ValueError, "outside its bounds"),
        ({"scenario": "walk"}, ModelError, "walk: nobody sits"),
        ({"action": {"model.friction": (0, 1)}}, ValueError, "each name is of one number"),
    ],
)
def test_options_that_cannot_be(changes, error, message, tmp_path):
    with pytest.raises(error, match=message):
        fit(dataclasses.replace(OPTIONS, **changes), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_all_answers_alike_keep_the_samples(by_toy, tmp_path, monkeypatch):
    monkeypatch.setattr(Question, "answers", lambda self, points: np.ones(len(points), bool))
    with pytest.raises(ValueError, match="are compatible, so there is no boundary"):
        fit(OPTIONS, tmp_path / "run")
    assert (tmp_path / "run" / SAMPLES).is_file()


def test_queries_are_simulated_and_kept(folder):
    kept = load(folder)
    found = answer_queries(kept, {"character.chair_height": [0.45]}, Diverse(count=2, iterations=5))
    assert found.succeeded.shape == (1, 2) and found.succeeded.all() and found.seconds > 0
    assert "2 of 2 succeed" in table(found)
    kept.folder.write_json(QUERIES, found)
    again = queries(kept)
    np.testing.assert_allclose(again.points, found.points)
    (folder / QUERIES).write_text('{"points": [[1]]}')
    with pytest.raises(ValueError, match=r"queries.json is damaged"):
        queries(kept)


def test_the_command_line(by_toy, tmp_path, capsys):
    out = ["--out", str(tmp_path / "run")]
    words = ["--quiet", "--samples", "400"]
    for kind, named in (("--state", STATE), ("--action", ACTION)):
        for name, spec in named.items():
            words += [kind, f"{name}=" + ":".join(map(str, spec))]
    assert main(["compat", "fit", "sit_to_stand_arms", *words, *out]) == 0
    assert re.search(r"\d+ samples, \d+ compatible, .*support vectors", capsys.readouterr().out)
    at = ["--at", "character.chair_height=0.45", "--count", "2", "--iterations", "5"]
    assert main(["compat", "query", *at, *out]) == 0
    assert "of 2 succeed" in capsys.readouterr().out
    assert main(["compat", "query", *out]) == 2
    assert "--at character.chair_height=0.45" in capsys.readouterr().err
    assert main(["compat", "fit", *out]) == 2
    assert "name a scenario and what varies" in capsys.readouterr().err
    assert main(["compat", "fit", "--resume", "--quiet", *out]) == 0


def test_the_page_is_one_file(folder):
    kept = load(folder)
    asked = answer_queries(kept, {"chair_height": [0.45]}, Diverse(count=2, iterations=5))
    page = model_page(kept, asked, ["<p>one & one</p>", "<p>two</p>"])
    assert page.count("<iframe") == 2 and "one &amp;amp; one" not in page
    assert "srcdoc=\"&lt;p&gt;one &amp; one" in page  # fmt: skip
    assert not re.search(r"(src|href)=", page.replace("srcdoc=", "")) and "{{" not in page
    data = json.loads(re.search(r'id="model">(.*?)</script>', page)[1])
    assert len(data["points"]) == len(data["yes"]) and len(data["answers"]) == 2
    assert len(data["faces"]) == len(faces(kept.question.space, kept.volume))
    corners = np.array(data["faces"])
    assert corners.shape[1:] == (4, 3) and corners.min() >= 0 and corners.max() <= 1
    found = slices(kept.question.space, kept.volume, toy.CENTRE, kept.points)
    assert [(each["across"], each["up"]) for each in found] == [(0, 1), (0, 2), (1, 2)]
    assert found[0]["inside"][24][24] == 1 and found[0]["inside"][0][0] == 0


# ---- the chair


@pytest.mark.slow
@pytest.mark.usefixtures("x64")
def test_a_chair_of_another_height_is_the_one_that_is_built():
    made = as_seated(scenario("sit_to_stand")).set("chair_height", 0.6)
    built = scenario("sit_to_stand", {"character.chair_height": 0.6})
    np.testing.assert_allclose(made.model.shape_size, built.model.shape_size, atol=1e-12)
    np.testing.assert_allclose(made.model.shape_pos, built.model.shape_pos, atol=1e-12)
    np.testing.assert_allclose(made.state.q, built.state.q, atol=1e-12)
    with pytest.raises(ModelError, match="walk: nobody sits on a chair there"):
        as_seated(scenario("walk"))


@pytest.fixture(scope="module")
def simulated():
    made = scenario("sit_to_stand_arms", {"scheme.dt": 0.001})
    return with_hands(Question.of(made, STATE, ACTION), "chair", "ground")


@pytest.mark.slow
def test_a_simulation_answers_yes_and_no(simulated):
    points = np.array([[0.45, 30, 20], [0.45, 30, 200], [0.7, 90, 0], [0.45, 30, 20]])
    found = simulated.answers(points)
    assert found[0] and found[3] and not found[1]
    np.testing.assert_array_equal(found[[2]], simulated.answers(points[[2]]))


@pytest.mark.slow
def test_hands_push_the_chair_and_the_ground(simulated):
    """Bent low, with arms that hang and with arms that reach forward; and not bent at all."""
    points = np.array([[0.45, 89, 1], [0.45, 89, 90], [0.45, 0, 90]])
    parts, whole = simulated.problem.outcomes(points)
    assert whole.all() and simulated.answers(points).all()
    chair, ground = (parts[f"hands on {shape}"][:, 0] for shape in ("chair", "ground"))
    assert chair[0] > 20 and ground[1] > 10  # [N s]
    assert ground[0] == chair[1] == chair[2] == ground[2] == 0
