"""Settings of the scheme that a scenario file may choose."""

import pytest

from jaxsim.io.toml_table import WorldError
from jaxsim.simulation.step import TimeStepping
from optimize.scenarios.find import scenario

BALL = '[[body]]\nname = "a"\nshape = "sphere"\nradius = 0.1\nmass = 1\npos = [0, 0, 1]\n'


def scheme(tmp_path, keys: str):
    path = tmp_path / "scene.toml"
    path.write_text(f"[world]\n{keys}\n{BALL}")
    return scenario(path).scheme


@pytest.mark.parametrize(
    "key, value, written",
    [
        ("sweeps", 9, "9"),
        ("warm_start", 0.5, "0.5"),
        ("stabilization_time", 0.1, "0.1"),
        ("contacts", 3, "3"),
        ("impacts", "successive", '"successive"'),
        ("order", 2, "2"),
        ("bounded_move", False, "false"),
    ],
)
def test_a_key_of_the_file_is_a_setting_of_the_scheme(tmp_path, key, value, written):
    found = scheme(tmp_path, f"{key} = {written}")
    assert isinstance(found, TimeStepping)
    assert getattr(found, key) == value != getattr(TimeStepping(), key)


@pytest.mark.parametrize(
    "keys, words",
    [
        ('impacts = "succesive"', ["key 'impacts'", "did you mean 'successive'?"]),
        ("order = 3", ["key 'order'", "at most 2"]),
        ("bounded_move = 1", ["key 'bounded_move'", "give true or false"]),
        ('scheme = "event_driven"\norder = 2', ["key 'order'", "leave it out"]),
    ],
)
def test_a_wrong_one_is_named_with_its_remedy(tmp_path, keys, words):
    with pytest.raises(WorldError) as error:
        scheme(tmp_path, keys)
    for word in words:
        assert word in str(error.value)
