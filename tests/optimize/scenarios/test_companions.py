"""Scenarios of several characters: what they are built of, and what is wrong with them."""

import numpy as np
import pytest

import optimize
from jaxsim.io.toml_table import WorldError
from jaxsim.model.errors import ModelError
from jaxsim.model.part import character_parts

HEAD = """
[world]
scheme = "per_step_optimisation"
[character]
model = "articulated_human"
[controller]
name = "balance"
hold_hands = 2.0
"""
CHILD = """
[[companion]]
name = "child"
model = "articulated_human"
build = "child"
pos = [0.0, 0.6, 0.0]
[companion.controller]
name = "balance"
"""
CLASP = """
[[clasp]]
hand = "leftHand"
to = "child.rightHand"
"""


@pytest.fixture
def scene(tmp_path):
    def made(text: str):
        path = tmp_path / "scene.toml"
        path.write_text(text)
        return optimize.scenario(path)

    return made


def test_a_companion_has_its_own_size_place_and_controller(scene):
    found = scene(HEAD + CHILD + CLASP + '[[push]]\nlink = "child.pelvis"\nforce = [1, 0, 0]\n')
    adult, child = character_parts(found.model.topology)
    mass = np.asarray(found.model.mass)
    assert mass[adult.links].sum() > 2 * mass[child.links].sum()
    assert found.kinds.count("companion") == found.kinds.count("character") == len(child.links)
    name = found.model.topology.link_names[int(found.forces.link[0])]
    assert name == "child.pelvis"
    root = np.asarray(found.state.q)[child.q][:3]
    np.testing.assert_allclose(root[1], 0.6)
    assert root[2] < 0.8 * np.asarray(found.state.q)[adult.q][2]
    assert found.scheme.names == ("character", "child")
    changed = found.set("child.balance.damping", 0.7)
    assert changed.get("child.balance.damping") == np.float32(0.7)
    assert changed.get("balance.damping") == found.get("balance.damping")


@pytest.mark.parametrize(
    "text, error, says",
    [
        (
            HEAD + CHILD,
            WorldError,
            r"hold_hands'?: needs hands to hold; give the world a \[\[clasp",
        ),
        (HEAD.replace("hold_hands = 2.0", "") + CLASP, WorldError, r"give a \[\[companion\]\]"),
        (HEAD + CHILD + CLASP.replace("right", "wrong"), ModelError, "no 'wrongHand' that could"),
        (HEAD + CHILD + CLASP.replace("child.", "dog."), ModelError, "no character 'dog'"),
        (HEAD + CHILD.split("[companion.")[0] + CLASP, WorldError, r"'child': needs a \[companion"),
        (
            HEAD.replace("per_step_optimisation", "time_stepping") + CHILD + CLASP,
            WorldError,
            "several characters move by per-step optimisation",
        ),
        (HEAD + CHILD.replace('"child"', '"a.b"', 1) + CLASP, WorldError, "a name has no dot"),
        (HEAD + CHILD.replace('"balance"', '"pd"') + CLASP, WorldError, "of child gives torques"),
        (HEAD + CHILD + CLASP + '[[hold]]\nname = "h"\npos = [0, 0, 2]\n', WorldError, "no holds"),
        (HEAD + CHILD.replace("0.6, 0.0", "0.6, -0.1") + CLASP, ValueError, "inside of a surface"),
    ],
)
def test_what_does_not_fit_together_is_told_by_name(scene, text, error, says):
    with pytest.raises(error, match=says):
        scene(text)
