"""Going on with a run: one process at a time, the same problem, and files that may be damaged."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from controllers.numbers import read_numbers
from controllers.scl.errors import ScriptError
from optimize.cli.main import main
from optimize.problems.fitness import Evaluation
from optimize.problems.problem import Problem
from optimize.results import digest as run_digest
from optimize.results.digest import RunChanged
from optimize.results.folder import RunFolder
from optimize.results.lock import LOCK, FolderInUse, lock_folder
from optimize.running.objectives import Objective
from optimize.studies.push_map import push_map
from optimize.tuning import tune as module
from optimize.tuning.checkpoint import CheckpointError
from optimize.tuning.evolution import evolve
from optimize.tuning.tune import tune
from tests.damage import damages

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = "{ (crouch)\n[knees @-20, hips @10 time: 0.05]\n}\n"
OBJECTIVE = Objective("low-effort", 0.06, {"time": 1.0, "energy": 1e-3}, "for these tests")
STANDING = {"character.start": "standing"}
OPTIONS = dict(set=STANDING, population=4, seed=5, final_dt=0.001, dt=0.001)
NAMES = ("script.scl", "config.json", "digest.json", "history.jsonl", "checkpoint.msgpack")


@pytest.fixture(scope="module")
def problem():
    """Made once; nothing of it is compiled, for members are worth a parabola."""
    kept = []

    def make(config, dt=None):
        if not kept:
            kept.append(MAKE(config))
        return kept[0]

    return make


MAKE = module.build_problem


def interrupted(*_):
    """In the place of the judgement."""
    raise KeyboardInterrupt


@pytest.fixture(autouse=True)
def _cheap(monkeypatch, problem):
    def parabola(self, z):
        return Evaluation((z**2).sum(axis=1), {"time": z[:, 0], "energy": z[:, 1]}, False, 10)

    monkeypatch.setattr(Problem, "evaluate", parabola)
    monkeypatch.setattr(module, "build_problem", problem)
    monkeypatch.setattr(module, "evaluate_candidates", interrupted)
    monkeypatch.setattr(module, "plot_history", lambda folder: None)


@pytest.fixture(scope="module")
def original(tmp_path_factory, problem):
    """A run of two generations."""
    folder = tmp_path_factory.mktemp("begun")
    with pytest.MonkeyPatch.context() as patch:
        _cheap.__wrapped__(patch, problem)
        (folder / "some.scl").write_text(SCRIPT)
        tune(
            folder / "some.scl", OBJECTIVE, out=folder / "run", generations=2, progress=False,
            **OPTIONS,
        )  # fmt: skip
    return folder / "run"


@pytest.fixture
def begun(original, tmp_path):
    return Path(shutil.copytree(original, tmp_path / "run"))


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def resume(folder, generations=4, **options):
    return tune(out=folder, resume=True, generations=generations, progress=False, **options)


# ---- the problem has changed


def with_another_number(begun, monkeypatch):
    (begun / "script.scl").write_text(SCRIPT.replace("@10", "@12.5"))
    return (
        "script.scl, line 2: was [knees @-20, hips @10 time: 0.05], "
        "is [knees @-20, hips @12.5 time: 0.05]"
    )


def with_another_step(begun, monkeypatch):
    text = (begun / "config.json").read_text()
    (begun / "config.json").write_text(text.replace('"dt": 0.001', '"dt": 0.002'))
    return "config.json: dt was 0.001, is 0.002"


def with_another_weight(begun, monkeypatch):
    text = (begun / "config.json").read_text()
    (begun / "config.json").write_text(text.replace('"energy": 0.001', '"energy": 0.5'))
    return "config.json: weights: energy was 0.001, is 0.5"


def with_another_library(begun, monkeypatch):
    versions = run_digest.library_versions()
    monkeypatch.setattr(run_digest, "library_versions", lambda: {**versions, "jax": "99.0"})
    return f"libraries: jax was {versions['jax']}, is 99.0"


def with_other_code(begun, monkeypatch):
    code = dict(run_digest.code_digest())
    monkeypatch.setattr(run_digest, "code_digest", lambda: {**code, "optimize": "0123"}.items())
    return "code: optimize differs"


def with_another_model(begun, monkeypatch):
    own = run_digest.model_digest

    def heavier(model):
        return own(model.replace(mass=model.mass * 1.01))

    monkeypatch.setattr(run_digest, "model_digest", heavier)
    return "model: mass differs"


def without_a_digest(begun, monkeypatch):
    (begun / "digest.json").unlink()
    return "digest.json is missing"


CHANGES = [
    *(with_another_number, with_another_step, with_another_weight, with_another_library),
    *(with_other_code, with_another_model, without_a_digest),
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_told_and_the_run_stays_as_it_is(change, begun, monkeypatch, capsys):
    jax.devices()
    says = change(begun, monkeypatch)
    before = files(begun)
    with pytest.raises(RunChanged) as caught:
        resume(begun)
    told = str(caught.value).splitlines()
    assert told[1].strip().startswith(says) and len(told) == 3
    assert "--accept-changes" in told[-1]
    assert files(begun) == before
    assert main(["tune", "--out", str(begun), "--resume", "--quiet"]) == 2
    err = capsys.readouterr().err
    assert says in err and "Traceback" not in err
    assert files(begun) == before


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_that_is_accepted_stands_in_the_history(change, begun, monkeypatch):
    says = change(begun, monkeypatch)
    resume(begun, accept_changes=True)
    lines = RunFolder(begun).read_history()
    assert [line["generation"] for line in lines] == [-1, 0, 1, 2, 3]
    assert [bool(line["changes"]) for line in lines] == [False, False, False, True, False]
    assert lines[3]["changes"][0].startswith(says)
    kept = json.loads((begun / "digest.json").read_text())["accepted"]
    assert [entry["at"] for entry in kept] == [2] and kept[0]["changes"] == lines[3]["changes"]
    resume(begun, generations=5)  # what was accepted is no change any more
    assert RunFolder(begun).read_history()[3]["changes"] == lines[3]["changes"]


@pytest.mark.parametrize("name, value", [("population", 5), ("sigma", 0.25), ("seed", 6)])
def test_what_the_search_rests_on_cannot_change(name, value, begun):
    config = json.loads((begun / "config.json").read_text())
    (begun / "config.json").write_text(json.dumps({**config, name: value}))
    before = files(begun)
    with pytest.raises(ValueError, match=rf"belongs to another run: {name} \S+ \(now {value}\)"):
        resume(begun, accept_changes=True)
    assert files(begun) == before


def test_two_changes_are_told_line_by_line(begun, monkeypatch):
    says = [change(begun, monkeypatch) for change in (with_another_step, with_another_number)]
    with pytest.raises(RunChanged) as caught:
        resume(begun)
    assert [line.strip() for line in str(caught.value).splitlines()[1:3]] == says


def test_more_generations_are_no_change(begun):
    assert resume(begun, generations=3).evolution.generations == 3


# ---- two processes

HOLD = """
import sys
from optimize.results.lock import lock_folder
with lock_folder(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def holder(begun):
    """Another process that works in the folder."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(begun)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()


def test_a_second_process_is_refused_and_changes_nothing(begun, holder, capsys):
    jax.devices()
    before = files(begun)
    assert main(["tune", "--out", str(begun), "--resume", "--quiet"]) == 1
    err = capsys.readouterr().err
    assert f"{begun} is in use by process {holder.pid} on " in err and err.count("\n") == 1
    for work in (
        lambda: resume(begun),
        lambda: evolve(
            None, np.zeros(2), sigma=0.1, population=4, generations=3, seed=5, folder=begun,
            resume=True,
        ),
        lambda: push_map(out=begun, resume=True),
    ):  # fmt: skip
        with pytest.raises(FolderInUse, match="Nothing was changed"):
            work()
    assert files(begun) == before
    holder.stdin.write("\n")
    holder.stdin.flush()
    assert holder.wait(30) == 0
    resume(begun)
    assert LOCK not in files(begun)


@pytest.mark.skipif(os.name != "posix", reason="signals of another kind")
def test_the_lock_of_a_killed_process_blocks_nobody(begun, holder):
    holder.send_signal(signal.SIGKILL)
    holder.wait(30)
    assert LOCK in files(begun)
    resume(begun)
    assert LOCK not in files(begun)


def test_a_lock_leaves_nothing_behind(tmp_path):
    with lock_folder(tmp_path / "a" / "b"), lock_folder(tmp_path / "a" / "b"):
        assert (tmp_path / "a" / "b" / LOCK).is_file()
    assert not list(tmp_path.iterdir())
    with lock_folder(tmp_path / "a"):
        (tmp_path / "a" / "kept").write_text("")
    assert files(tmp_path / "a") == {"kept": b""}


@pytest.mark.slow
def test_of_two_commands_that_begin_together_one_works(tmp_path):
    words = ["tune", "sit_to_stand_quick", "--objective", "quick-rise", "--seconds", "0.05"]
    words += ["--generations", "3", "--population", "4", "--dt", "0.001", "--judge-dt", "0.001"]
    words += ["--quiet", "--out", str(tmp_path / "run")]
    both = [
        subprocess.Popen(
            [sys.executable, "-m", "optimize.cli.main", *words], cwd=ROOT, stderr=subprocess.PIPE
        )
        for _ in range(2)
    ]
    errors = [process.communicate(timeout=500)[1].decode() for process in both]
    codes = sorted(process.returncode for process in both)
    assert codes[0] == 0 and codes[1] in (1, 2), errors  # 2: it came when the other had ended
    lines = RunFolder(tmp_path / "run").read_history()
    assert [line["generation"] for line in lines] == [-1, 0, 1, 2]


# ---- the history's numbers


def test_lines_of_another_process_are_noticed_as_they_are_written(begun, monkeypatch):
    own = Problem.evaluate

    def with_company(self, z):
        with open(begun / "history.jsonl", "a") as file:
            file.write("{}\n")
        return own(self, z)

    monkeypatch.setattr(Problem, "evaluate", with_company)
    with pytest.raises(CheckpointError, match=r"another process has changed it\. Generation 2"):
        resume(begun)


def test_a_history_of_two_processes_is_no_history(begun):
    path = begun / "history.jsonl"
    lines = path.read_text().splitlines(True)
    path.write_text("".join(line for line in lines for _ in range(2)))
    with pytest.raises(CheckpointError, match="line 2 is of generation -1, 0 was to follow"):
        resume(begun)


def test_a_number_that_changed_in_the_history_is_noticed(begun):
    path = begun / "history.jsonl"
    text = path.read_text()
    path.write_text(text.replace('"failures": 0', '"failures": 1', 1))
    with pytest.raises(CheckpointError, match=r"history\.jsonl is not what this run wrote"):
        resume(begun)


# ---- other methods, many runs


def begin(folder, **options):
    (folder / "some.scl").write_text(SCRIPT)
    return tune(
        folder / "some.scl", OBJECTIVE, out=folder / "run", progress=False, **OPTIONS, **options
    )


def test_a_chain_reports_its_derivative_and_goes_on(tmp_path, monkeypatch):
    def derivative(members, shared):
        z = members[0]
        return (z**2).sum(axis=1), 2 * z

    monkeypatch.setattr(Problem, "_derivative", staticmethod(derivative))
    begun = begin(tmp_path, method="cma:2,adam", generations=3, trust_derivative=True)
    assert begun.evolution.generations == 3
    told = (tmp_path / "run" / "report.txt").read_text().splitlines()
    assert told[0].startswith("Derivative at 16 points near the best, a step of ")
    longer = resume(tmp_path / "run", generations=5)
    assert [record.members for record in longer.evolution.history] == [1, 4, 4, 1, 1, 1]
    with pytest.raises(ValueError, match=r"method cma:2,adam \(now random\)"):
        resume(tmp_path / "run", method="random")


def test_a_derivative_that_promises_what_does_not_come_is_not_followed(tmp_path, monkeypatch):
    def derivative(members, shared):
        z = members[0]
        return (z**2).sum(axis=1), 1e6 * (z - 1)

    monkeypatch.setattr(Problem, "_derivative", staticmethod(derivative))
    with pytest.raises(ValueError, match=r"method adam: over a step of 0\.\d+ the loss falls by"):
        begin(tmp_path, method="adam", generations=3)
    assert not (tmp_path / "run").exists()
    found = begin(tmp_path, method="cma:2,adam:1,cma", generations=4)
    assert [record.members for record in found.evolution.history] == [1, 4, 4, 4, 4]
    (note,) = [note for note in found.notes if "adam" in note]
    assert note.startswith("adam is left out: over a step of")
    assert [record.changes for record in found.evolution.history] == [[], [], [], [note], []]
    assert (tmp_path / "run" / "report.txt").read_text().splitlines()[-1].startswith("not trusted")


def test_many_runs_in_a_folder(tmp_path):
    options = dict(runs=3, by_run={"sigma": [0.1, 0.3], "weights.energy": [1e-3]}, restarts="ipop")
    with pytest.raises(ValueError, match="at least 1"):
        begin(tmp_path, runs=0)
    with pytest.raises(ValueError, match="there are cma, sep-cma"):
        begin(tmp_path, method="annealing")
    begun = begin(tmp_path, generations=2, **options)
    rows = json.loads((tmp_path / "run" / "runs.json").read_text())
    assert [(row["seed"], row["sigma"], row["population"]) for row in rows] == [
        (5, 0.1, 4), (6, 0.3, 4), (7, 0.1, 4),
    ]  # fmt: skip
    found = [run.best_fitness for run in begun.runs]
    assert [row["fitness"] for row in rows] == pytest.approx(found, rel=1e-8)
    assert begun.evolution.best_fitness == min(run.best_fitness for run in begun.runs)
    best = json.loads((tmp_path / "run" / "best.json").read_text())
    assert best["fitness"]["after"] == pytest.approx(begun.evolution.best_fitness, rel=1e-8)
    longer = resume(tmp_path / "run", generations=3)
    assert len(longer.runs) == 3 and all(run.generations == 3 for run in longer.runs)


# ---- damage


def test_a_checkpoint_that_is_gone_is_not_begun_anew(begun, capsys):
    (begun / "checkpoint.msgpack").unlink()
    before = files(begun)
    with pytest.raises(
        CheckpointError, match=r"is gone.*restore the file.*history\.jsonl and"
    ) as e:
        resume(begun)
    assert "resume" not in str(e.value)
    assert files(begun) == before
    (begun / "history.jsonl").unlink()  # nothing was evaluated yet: the search begins
    assert resume(begun).evolution.generations == 4


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(damage=damages())
def test_a_damaged_run_goes_on_or_is_refused(name, damage, original, tmp_path):
    folder = tmp_path / "run"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(original, folder)
    (folder / name).write_bytes(damage((folder / name).read_bytes()))
    try:
        resume(folder, generations=3)
    except (CheckpointError, ValueError) as error:  # RunChanged and ScriptError among these
        assert "run" in str(error) or isinstance(error, ScriptError)
    else:
        assert len(RunFolder(folder).read_history()) == 4


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("config.json", "[]", "config.json holds a list in the place of options"),
        ("config.json", "[" * 100_000, "config.json is damaged: it is nested too deeply"),
        ("config.json", "\udcff", "config.json is damaged: 'utf-8' codec"),
        ("config.json", "", r"config.json: Expecting value; restore the file from a copy"),
        ("digest.json", "[]", "digest.json is damaged"),
        ("digest.json", '{"accepted": 3}', "digest.json is damaged"),
        ("history.jsonl", "[" * 100_000 + "\n", r"history.jsonl, line 1 is damaged.*too deeply"),
        ("history.jsonl", '{"best": 0.0}\n', r"history.jsonl is damaged \(.*generation"),
        ("script.scl", "\udcff", "script.scl is damaged"),
    ],
)
def test_what_is_said_of_damage(name, text, says, begun, capsys):
    jax.devices()
    (begun / name).write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises((ValueError, CheckpointError), match=says):
        resume(begun)
    assert main(["tune", "--out", str(begun), "--resume", "--quiet"]) == 2
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("key", "value"),
    [("dt", "a"), ("weights", [1]), ("numbers", 5), ("scenario", None), ("population", 4.5)],
)
def test_options_of_another_kind_are_named(key, value, begun):
    config = json.loads((begun / "config.json").read_text())
    (begun / "config.json").write_text(json.dumps({**config, key: value}))
    with pytest.raises(ValueError, match=key):
        resume(begun, accept_changes=True)


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "[]", '{"x": 1}', "\udcff", "9" * 5000, '{"numbers": ']
)
def test_a_damaged_controller_is_refused(text, tmp_path):
    path = tmp_path / "best.json"
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(ValueError, match=r"best\.json"):
        read_numbers(str(path))
