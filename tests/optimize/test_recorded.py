"""What the shipped scenarios compute is what is recorded in tests/recorded, in float64 by XLA.

Of a few the first part alone; all of them, to their ends, with

    make test ARGS="-m slow tests/optimize/test_recorded.py"

``python benchmarks/recorded.py`` prints the same as a table.
"""

import copy
import json

import numpy as np
import pytest

from benchmarks._scenarios import KINDS
from benchmarks.recorded import (
    FOLDER,
    apart,
    as_json,
    compare,
    differences,
    file_of,
    load,
    main,
    recorded,
    save,
)

FEW = [
    ("script", "kip_up"),
    ("world", "pull_up"),
    ("scene", "push"),
    ("scene", "ice"),
]


@pytest.mark.parametrize(("kind", "name"), FEW)
def test_the_first_part_is_as_recorded(x64, kind, name):
    assert compare(kind, name, short=True)[-1] == ""


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "name"), recorded())
def test_all_is_as_recorded(x64, kind, name):
    assert compare(kind, name)[-1] == ""


def test_every_scenario_is_recorded():
    assert set(recorded()) == {(kind, name) for kind, of in KINDS.items() for name in of.names()}


def test_all_records_together_are_small():
    sizes = [path.stat().st_size for path in FOLDER.iterdir()]
    assert sum(sizes) < 35e3 * len(sizes)


# ---- what a comparison tells


@pytest.fixture
def scene():
    """The record of a scene."""
    return load(file_of("scene", "push"))[0]


@pytest.mark.parametrize(
    ("group", "name", "by", "told"),
    [
        ("path", "q", 2e-9, True),
        ("path", "qd", 5e-10, False),
        ("metres", "final_head", 0.002, True),
        ("metres", "final_head", -0.0005, False),
        ("seconds", "phase_times", 0.02, True),
        ("later", "q", 1.0, False),
    ],
)
def test_numbers_may_differ_by_a_tolerance(scene, group, name, by, told):
    now = copy.deepcopy(scene)
    now[group][name] = now[group][name] + by
    found = differences(scene, now)
    assert [name in line for line in found] == [True] * told
    assert differences(scene, now, short=True) == [line for line in found if "path" in line]


def test_names_counts_and_what_is_missing_are_told(scene):
    now = copy.deepcopy(scene)
    now["same"]["steps_taken"] += 1
    now["same"]["phases"] = now["same"]["phases"][:-1]
    del now["metres"]["moved"]
    now["path"]["q"] = now["path"]["q"][:-1]
    lines = differences(scene, now)
    assert [line.partition(":")[0] for line in lines] == [
        "moved",
        "path q",
        "phases",
        "steps_taken",
    ]
    assert "by inf" in lines[1]


def test_maps_may_differ_by_a_step_and_searches_by_rounding():
    was = {"same": {}, "newtons": {"tolerated": np.array([[50.0, 100.0]]), "step": 50.0}}
    now = {"same": {}, "newtons": {"tolerated": np.array([[100.0, 50.0]]), "step": 50.0}}
    assert differences(was, now) == []
    now["newtons"]["tolerated"][0, 0] = 150.0
    assert differences(was, now) == ["newtons tolerated: by 100"]
    was, now = ({"same": {}, "tuned": {"best": 40.0 + by}} for by in (0.0, 1e-7))
    assert differences(was, now) == ["tuned best: by 1e-07"]
    assert differences(was, {"same": {}, "tuned": {"best": 40.0 + 1e-8}}) == []


def test_values_that_are_not_finite():
    assert apart([1.0, np.nan, np.inf], [1.0, np.nan, np.inf]) == 0
    assert apart([1.0, np.nan], [1.0, 2.0]) == np.inf
    assert apart([np.inf], [1.0]) == np.inf


def test_a_record_is_read_as_it_was_written(scene, tmp_path):
    scene["same"]["count"] = np.int64(3)
    save(tmp_path / "scene-push.npz", scene)
    again, about = load(tmp_path / "scene-push.npz")
    assert differences(scene, again) == []
    assert again["same"] == json.loads(as_json(scene["same"]))
    assert set(about) == {"commit", "machine", "versions", "date"}


def test_scenarios_of_no_name(tmp_path, capsys):
    assert main(["--only", "nothing of this name"]) == 2
    assert "no such scenario" in compare("scene", "nothing")[-1]
    assert "not recorded" in compare("scene", "push", folder=tmp_path)[-1]
