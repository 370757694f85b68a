"""A crate on a slope: small, so that it compiles fast."""

import pytest

from optimize.scenarios.find import scenario

CRATE = """
[world]
title = "Down a ramp"
seconds = 0.02
dt = 0.002

[[fixed]]
name = "ramp"
shape = "box"
half_extents = [2.0, 0.5, 0.1]
pos = [0.0, 0.0, 0.5]
turn_deg = [0, 20, 0]

[[body]]
name = "crate"
shape = "sphere"
radius = 0.1
mass = 6.0
pos = [-0.8713, 0.0, 1.03]
velocity = [0.5, 0.0, 0.0]
friction = 0.1
"""


@pytest.fixture(scope="session")
def crate_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("crate") / "crate.toml"
    path.write_text(CRATE)
    return path


@pytest.fixture(scope="session")
def crate(crate_file):
    return scenario(crate_file)
