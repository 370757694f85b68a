"""Push maps of several seeds as one table."""

import json
from dataclasses import asdict, replace

import numpy as np
import pytest

from benchmarks.maps import report, tolerated
from optimize.studies.push_options import MapOptions
from optimize.studies.push_report import ARRAYS


def a_map(folder, seed, force, **options):
    """The files that the table is made from."""
    folder.mkdir()
    of = MapOptions(seed=seed, starts=force.shape[-1], durations=(0.2,), directions=2, **options)
    (folder / "config.json").write_text(json.dumps({"push_map": asdict(of)}))
    np.savez(folder / ARRAYS, tolerated=force)
    return folder


def test_starts_of_all_seeds_are_judged_together(tmp_path):
    one = a_map(tmp_path / "a", 1, np.array([[[100.0, 400.0], [300.0, 300.0]]]))
    two = a_map(tmp_path / "b", 2, np.array([[[np.nan, 500.0], [300.0, 300.0]]]))
    asked = MapOptions(starts=2, durations=(0.2,), directions=2)
    options, force = tolerated([one, two], asked)
    np.testing.assert_array_equal(force[0, 0], [100.0, 400.0, 0.0, 500.0])  # who falls at once: 0
    lines = report(options, force, 350.0).splitlines()
    assert "of 4 starts" in lines[0]
    assert "forward 0 deg" in lines[2] and "250 (" in lines[2]
    assert lines[2].endswith("2 of 4 (15 to 85 %)")
    assert "300 (300 to 300)" in lines[3] and lines[3].endswith("0 of 4 (0 to 49 %)")


def test_maps_of_other_things_or_of_one_seed_twice_are_refused(tmp_path):
    force = np.full((1, 2, 2), 100.0)
    one = a_map(tmp_path / "a", 1, force)
    asked = MapOptions(starts=2, durations=(0.2,), directions=2)
    with pytest.raises(ValueError, match="same seed"):
        tolerated([one, a_map(tmp_path / "b", 1, force)], asked)
    with pytest.raises(ValueError, match=r"c holds another map than is asked for: scenario;"):
        tolerated([one, a_map(tmp_path / "c", 2, force, scenario="ice")], asked)
    with pytest.raises(ValueError, match="a holds another map than is asked for: directions;"):
        tolerated([one], replace(asked, directions=4))
